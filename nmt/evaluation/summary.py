"""What a person sees at the end of a run: tables and examples that fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nmt.evaluation.length import BUCKET_METHOD, Bucket, trim_empty
from nmt.evaluation.run_results import SplitResult, TranslatedSentence


def print_scores(console: Console, results: Sequence[SplitResult]) -> None:
    """Prints BLEU, chrF and TER of every split, BLEU by length, and the signatures."""
    table = Table("split", title="Scores", title_justify="left")
    for name in ("BLEU", "chrF", "TER", "BP", "empty", "n"):
        table.add_column(name, justify="right")
    for result in results:
        scores = result.scores
        table.add_row(
            result.name,
            f"{scores.bleu:.2f}",
            f"{scores.chrf:.2f}",
            f"{scores.ter:.2f}",
            f"{scores.brevity_penalty:.3f}",
            str(scores.num_empty),
            str(scores.num_sentences),
        )
    console.print(table)
    for result in results:
        console.print(_length_table(result.name, trim_empty(result.buckets)))
    console.print(Text(BUCKET_METHOD, style="dim"))
    scores = results[0].scores
    for metric, signature in (
        ("BLEU", scores.signature),
        ("chrF", scores.chrf_signature),
        ("TER ", scores.ter_signature),
    ):
        console.print(Text(f"{metric} {signature}", style="dim"))


def _length_table(name: str, buckets: Sequence[Bucket]) -> Table:
    unit = buckets[0].unit
    table = Table(
        f"source {unit}s", title=f"{name}: by source length in {unit}s", title_justify="left"
    )
    for column in ("n", "BLEU", "chrF", "length ratio"):
        table.add_column(column, justify="right")
    for bucket in buckets:
        table.add_row(
            bucket.label,
            str(bucket.num_sentences),
            *(
                "-" if value is None else f"{value:{form}}"
                for value, form in (
                    (bucket.bleu, ".1f"),
                    (bucket.chrf, ".1f"),
                    (bucket.length_ratio, ".2f"),
                )
            ),
        )
    return table


def print_examples(
    console: Console, sentences: Sequence[TranslatedSentence], count: int = 3
) -> None:
    """Prints a few translations, short to long, beside source and reference."""
    by_length = sorted(sentences, key=lambda s: (s.source_words, s.index))
    places = [round((2 * k + 1) * (len(by_length) - 1) / (2 * count)) for k in range(count)]
    for sentence in (by_length[place] for place in sorted(set(places))):
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row("source", Text(sentence.source))
        table.add_row("reference", Text(sentence.reference))
        table.add_row("translation", Text(sentence.hypothesis, style="bold"))
        console.print(table)
        console.print()


def print_facts(console: Console, facts: Iterable[tuple[str, str]]) -> None:
    """Prints names and values under each other."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, Text(value))
    console.print(table)


def print_paths(console: Console, paths: Iterable[Path]) -> None:
    """Prints what was written, one path a line and never wrapped, so that it can be copied."""
    for path in paths:
        console.print(Text(str(path)), soft_wrap=True)
