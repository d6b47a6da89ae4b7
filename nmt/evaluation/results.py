"""What a run leaves behind: translations as JSON lines, scores as `metrics.json`, a summary.

The files of a run folder are a contract: `read_run` gives back what was written, so that runs can
be compared long after their checkpoints are gone. The summary is for a terminal of 80 columns;
sentences and paths go in as `Text`, never as markup: a translation may hold "[/b]" or ":smile:".
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nmt.checks import UserError
from nmt.evaluation.by_length import BUCKET_METHOD, Bucket, bleu_by_length, trim_empty
from nmt.evaluation.metrics import Scores, score


@dataclass(frozen=True)
class TranslatedSentence:
    """One sentence of a split and its translation; a line of `<split>.jsonl`.

    Attributes:
        index: Place in the split, from 0.
        source: The raw source text.
        reference: The raw reference.
        hypothesis: The detokenised translation.
        score: What the search ranked the translation by.
        source_words: Length of the source in the unit of its language: words, or characters.
        document: What the sentence is from, where the corpus says it; sentences of one document
            are not independent.
        kind: In older files; not used.
        more_references: Further references, where there are several.
        finished: False where the length limit ended the translation.
    """

    index: int
    source: str
    reference: str
    hypothesis: str
    score: float
    source_words: int
    document: str | None = None
    kind: str | None = None
    more_references: Sequence[str] = ()
    finished: bool = True


@dataclass(frozen=True)
class SplitResult:
    """The translations of one split and how good they are.

    Attributes:
        name: Name of the split, and of its file.
        sentences: Every sentence of the split, in its order.
        scores: Corpus scores of all of them.
        buckets: Scores by source length.
        unit: What source lengths count, "word" or "character".
    """

    name: str
    sentences: Sequence[TranslatedSentence]
    scores: Scores
    buckets: Sequence[Bucket]
    unit: str

    @property
    def num_unfinished(self) -> int:
        """Translations that the length limit ended."""
        return sum(not sentence.finished for sentence in self.sentences)

    def metrics(self) -> dict[str, Any]:
        """Returns the split's entry in `metrics.json`; `sha256` is `corpus_sha256`."""
        facts = {"sha256": corpus_sha256(self.sentences), "unfinished": self.num_unfinished}
        entry = asdict(self.scores) | facts
        return {name: value for name, value in entry.items() if value is not None}


@dataclass(frozen=True)
class Run:
    """A run folder as read back: `metrics.json`, and the sentences of each scored split."""

    directory: Path
    metrics: Mapping[str, Any]
    splits: Mapping[str, Sequence[TranslatedSentence]]


def score_split(
    name: str,
    sentences: Sequence[TranslatedSentence],
    *,
    target_lang: str,
    unit: str,
    metrics: Sequence[str] = ("bleu", "chrf"),
) -> SplitResult:
    """Scores the translations of a split, in all and by source length.

    Args:
        name: Name of the split.
        sentences: Its sentences in order, none missing; all have as many references.
        target_lang: Language code that decides BLEU's tokenizer.
        unit: What `source_words` counts, "word" or "character".
        metrics: As for `nmt.evaluation.metrics.score`.
    """
    hypotheses = [sentence.hypothesis for sentence in sentences]
    references = [sentence.reference for sentence in sentences]
    more = [list(column) for column in zip(*(s.more_references for s in sentences), strict=True)]
    return SplitResult(
        name=name,
        sentences=sentences,
        scores=score(hypotheses, references, *more, target_lang=target_lang, metrics=metrics),
        buckets=bleu_by_length(
            hypotheses,
            references,
            [sentence.source_words for sentence in sentences],
            target_lang=target_lang,
            more_references=more,
        ),
        unit=unit,
    )


def corpus_sha256(sentences: Sequence[TranslatedSentence]) -> str:
    """Names a test set: SHA-256 of its lines "source TAB reference LF" in UTF-8.

    For a corpus in line files it is what `paste SOURCE REFERENCE... | sha256sum` prints.
    """
    digest = hashlib.sha256()
    for sentence in sentences:
        texts = (sentence.source, sentence.reference, *sentence.more_references)
        digest.update(("\t".join(texts) + "\n").encode())
    return digest.hexdigest()


def write_translations(directory: str | Path, result: SplitResult) -> Path:
    """Writes `<split>.jsonl`, one JSON object a sentence, and returns its path.

    UTF-8, unescaped; only LF ends a line, so other line separators stay inside their strings. A
    field that has its default value is left out.
    """
    rows = (
        {
            field.name: value
            for field in fields(sentence)
            if (value := getattr(sentence, field.name)) != field.default
        }
        for sentence in result.sentences
    )
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return _write_whole(Path(directory) / f"{result.name}.jsonl", "".join(lines))


def write_metrics(directory: str | Path, metrics: Mapping[str, Any]) -> Path:
    """Writes `metrics.json`, whole or not at all, and returns its path.

    Args:
        directory: The run folder.
        metrics: The entry of each split by its name (`SplitResult.metrics`), and facts of the run.
    """
    text = json.dumps(metrics, ensure_ascii=False, indent=2)
    return _write_whole(Path(directory) / "metrics.json", text + "\n")


def read_run(directory: str | Path) -> Run:
    """Reads the metrics and translations of a finished run.

    Raises:
        UserError: A file is missing or damaged, or translations and metrics are of different
            test sets.
    """
    directory = Path(directory)
    (metrics,) = read_objects(directory / "metrics.json", "name the folder of a finished run")
    splits: dict[str, list[TranslatedSentence]] = {}
    for name, entry in metrics.items():
        if not isinstance(entry, dict) or "bleu" not in entry:
            continue
        path = directory / f"{name}.jsonl"
        try:
            rows = read_objects(path, "evaluate the run again")
            splits[name] = [TranslatedSentence(**row) for row in rows]
        except TypeError as error:
            raise UserError(f"{path} holds what is no translation: {error}.") from error
        if corpus_sha256(splits[name]) != entry["sha256"]:
            raise UserError(
                f"{path} holds {len(rows)} sentences that are not the {entry['num_sentences']} of "
                "metrics.json; evaluate the run again."
            )
    return Run(directory=directory, metrics=metrics, splits=splits)


def read_objects(path: Path, remedy: str) -> list[dict[str, Any]]:
    """Reads the JSON objects of a file: one a line in a `.jsonl`, else a single one.

    Raises:
        UserError: The file is missing or damaged; the message ends with the remedy.
    """
    try:
        text = path.read_text(encoding="utf-8")
        parts = text.split("\n") if path.suffix == ".jsonl" else [text]
        return [dict(json.loads(part)) for part in parts if part]
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {remedy}.") from error
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}); {remedy}.") from error


def _write_whole(path: Path, text: str) -> Path:
    """Writes under a temporary name first: a reader finds the old file or the new, never a part.

    What UTF-8 cannot hold, such as bytes of a file name, is escaped as JSON reads it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(text.encode("utf-8", errors="backslashreplace"))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def print_scores(console: Console, results: Sequence[SplitResult]) -> None:
    """Prints the scores of every split with their signatures, then BLEU by length.

    Validation splits are left out of the lengths unless there are no others.
    """
    first = results[0].scores
    signatures = {"BLEU": first.signature, "chrF": first.chrf_signature, "TER": first.ter_signature}
    names = [name for name, signature in signatures.items() if signature is not None]
    table = _table("split", "sentences", *names, "length ratio", "empty")
    for result in results:
        scores = result.scores
        values = (scores.bleu, scores.chrf, scores.ter)
        table.add_row(
            result.name,
            f"{scores.num_sentences:,}",
            *(f"{value:.2f}" for value in values if value is not None),
            f"{scores.length_ratio:.2f}",
            f"{scores.num_empty:,}",
        )
    _print_heading(console, "Scores")
    console.print(table)
    for name in names:
        console.print(Text(f"{name:4} {signatures[name]}", style="dim"), soft_wrap=True)
    _print_lengths(console, [r for r in results if not r.name.startswith("valid")] or results)


def _print_lengths(console: Console, results: Sequence[SplitResult]) -> None:
    columns = ("split", f"{results[0].unit}s", "n", "BLEU", "chrF", "length ratio", "brevity pen.")
    table = _table(*columns)
    for result in results:
        for bucket in trim_empty(result.buckets):
            values = (bucket.bleu, bucket.chrf, bucket.length_ratio, bucket.brevity_penalty)
            cells = ["-" if value is None else f"{value:.2f}" for value in values]
            table.add_row(result.name, bucket.label, f"{bucket.num_sentences:,}", *cells)
        table.add_section()
    _print_heading(console, "BLEU and chrF by source length")
    console.print(table)
    console.print(Text(BUCKET_METHOD, style="dim"))


def print_examples(
    console: Console, sentences: Sequence[TranslatedSentence], *, count: int = 3
) -> None:
    """Prints some translations below their sources and references: short, medium and long ones."""
    by_length = sorted(sentences, key=lambda sentence: (sentence.source_words, sentence.index))
    count = min(count, len(by_length))
    _print_heading(console, "Translations")
    for number in range(count):
        sentence = by_length[(2 * number + 1) * len(by_length) // (2 * count)]
        grid = _pairs()
        grid.add_row("source", Text(sentence.source))
        grid.add_row("reference", Text(sentence.reference))
        grid.add_row("translation", Text(sentence.hypothesis or "(empty)", style="bold"))
        if number:
            console.print()
        console.print(grid)


def print_facts(console: Console, facts: Sequence[tuple[str, str]]) -> None:
    """Prints pairs of a name and a value, such as ("updates", "1,500"), below each other."""
    grid = _pairs()
    for name, value in facts:
        grid.add_row(Text(name), Text(value))
    _print_heading(console, "Run")
    console.print(grid)


def print_paths(console: Console, paths: Sequence[str | Path]) -> None:
    """Prints the files written, each on one line however long, so that it can be copied."""
    _print_heading(console, "Written")
    for path in paths:
        console.print(Text(str(path)), soft_wrap=True)


def _print_heading(console: Console, heading: str) -> None:
    console.print()
    console.print(Text(heading, style="bold"))


def _table(*columns: str) -> Table:
    """Makes a table whose first column is text and whose others are numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    return table


def _pairs() -> Table:
    """Makes a grid of names and texts; long texts wrap within their column."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid
