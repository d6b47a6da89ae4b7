"""The results of a run as files: `metrics.json` and, for each split, `<split>.jsonl`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nmt.evaluation.length import Bucket, bleu_by_length, trim_empty
from nmt.evaluation.metrics import Scores, score


@dataclass(frozen=True)
class TranslatedSentence:
    """One line of `<split>.jsonl`.

    Attributes:
        index: Place in the split, from 0.
        source: The raw source.
        reference: The raw reference.
        hypothesis: The best translation.
        score: What the search ranked it by.
        source_words: Length of the source in the unit of its language.
    """

    index: int
    source: str
    reference: str
    hypothesis: str
    score: float
    source_words: int


@dataclass(frozen=True)
class SplitResult:
    """The translations of one split and their scores.

    Attributes:
        name: Name of the split.
        sentences: In the order of the split.
        scores: Corpus scores.
        buckets: Scores by source length, all ranges, empty ones included.
    """

    name: str
    sentences: Sequence[TranslatedSentence]
    scores: Scores
    buckets: Sequence[Bucket]

    def metrics(self) -> dict[str, Any]:
        """Returns what `metrics.json` says of the split.

        `sha256` is that of all lines "source TAB reference LF": runs with the same one were
        tested on the same text.
        """
        text = "".join(f"{s.source}\t{s.reference}\n" for s in self.sentences)
        return asdict(self.scores) | {
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "by_length": [asdict(bucket) for bucket in trim_empty(self.buckets)],
        }


def score_split(
    name: str, sentences: Sequence[TranslatedSentence], *, target_lang: str, unit: str
) -> SplitResult:
    """Scores the translations of a split, as a whole and by source length.

    Args:
        name: Name of the split.
        sentences: In the order of the split.
        target_lang: Language code; decides BLEU's tokenizer.
        unit: What `source_words` counts, "word" or "character".

    Raises:
        ValueError: There is nothing to score.
    """
    hypotheses = [s.hypothesis for s in sentences]
    references = [s.reference for s in sentences]
    lengths = [s.source_words for s in sentences]
    buckets = bleu_by_length(hypotheses, references, lengths, target_lang=target_lang, unit=unit)
    scores = score(hypotheses, references, target_lang=target_lang)
    return SplitResult(name, sentences, scores, buckets)


def write_translations(directory: Path, result: SplitResult) -> Path:
    """Writes `<split>.jsonl`, one object a sentence, and returns its path."""
    path = directory / f"{result.name}.jsonl"
    lines = [json.dumps(asdict(s), ensure_ascii=False) for s in result.sentences]
    _write(path, "".join(f"{line}\n" for line in lines))
    return path


def write_metrics(directory: Path, metrics: Mapping[str, Any]) -> Path:
    """Writes `metrics.json` and returns its path."""
    path = directory / "metrics.json"
    _write(path, json.dumps(metrics, indent=2, ensure_ascii=False) + "\n")
    return path


def _write(path: Path, text: str) -> None:
    """Writes a file whole or not at all: a temporary name, then a rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(path)
