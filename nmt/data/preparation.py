"""From raw text to what training reads: cleaned, a tokenizer, piece ids; each made once and cached.

The name of each result is a digest of everything it was made from, so a changed file, rule or
option makes a new one, and nothing stale is ever used.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import sentencepiece
from datasets import Dataset

from nmt.data.cache import cached, key_of
from nmt.data.cleaning import CleaningReport, CleaningRules, clean
from nmt.data.language_identification import LanguageCheck
from nmt.data.length_unit import LengthUnit
from nmt.data.shards import apart, map_shards
from nmt.data.text import Text
from nmt.data.tokenised import write_tokenised
from nmt.data.tokenizer_training import train_tokenizer
from nmt.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

# Part of every name: raise it when the format or the meaning of a cached result changes.
_VERSION = 2
_MOST_TOKENIZER_PAIRS = 200_000  # the memory of SentencePiece grows with them
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class CleanedText:
    """The training pairs of a corpus that are used, and what was removed.

    Attributes:
        text: The pairs.
        source_units: (pairs,) length of each source.
        report: What was removed.
    """

    text: Text
    source_units: npt.NDArray[np.int32]
    report: CleaningReport


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """How to get a tokenizer.

    Attributes:
        vocab_size: Pieces wanted; a soft limit.
        model_type: `unigram` or `bpe`.
        character_coverage: Share of the characters that get a piece of their own.
        path: A SentencePiece model to use instead of training one.
    """

    vocab_size: int
    model_type: str
    character_coverage: float
    path: str | None = None


def clean_text(
    train: Text,
    rules: CleaningRules,
    *,
    source_unit: LengthUnit,
    target_unit: LengthUnit,
    language_check: LanguageCheck | None,
    cache_dir: Path,
    name: str,
) -> CleanedText:
    """Returns the training pairs that pass the rules.

    Args:
        train: All pairs.
        rules: What is removed.
        source_unit: What the length of a source is counted in.
        target_unit: What the length of a target is counted in.
        language_check: With the model of `rules.language`; None where that is off.
        cache_dir: Where the result is kept.
        name: Of the corpus, for the log.

    Raises:
        ValueError: None does.
    """
    options = asdict(rules)
    options["language"] = None if language_check is None else language_check.key()
    key = key_of(_VERSION, train.key, options, source_unit, target_unit)

    def make(folder: Path) -> None:
        found = clean(
            train.dataset,
            rules=rules,
            source_unit=source_unit,
            target_unit=target_unit,
            language_check=language_check,
        )
        np.save(folder / "rows.npy", found.rows)
        np.save(folder / "source_units.npy", found.source_units)
        (folder / "report.json").write_text(json.dumps(asdict(found.report)), encoding="utf-8")

    folder = cached(cache_dir, f"cleaned-{key}", make)
    report = CleaningReport(**json.loads((folder / "report.json").read_text(encoding="utf-8")))
    logger.info("Cleaning of %s:\n%s", name, report.table())
    if not report.kept:
        raise ValueError(
            f"Cleaning removed all {report.total} training pairs ({report.removed}); "
            "check the data or switch rules off in data.cleaning."
        )
    dataset = train.dataset
    if report.kept < report.total:
        dataset = dataset.select(np.load(folder / "rows.npy"))
    return CleanedText(Text(dataset, key), np.load(folder / "source_units.npy"), report)


def get_tokenizer(
    options: TokenizerOptions, texts: Sequence[Text], weights: Sequence[float], *, cache_dir: Path
) -> Tokenizer:
    """Reads the tokenizer at `options.path`, or trains one on both sides of the training text.

    Args:
        options: Which of the two.
        texts: The training text of each corpus.
        weights: How often a pair of each corpus counts; fractions count a part of the pairs.
        cache_dir: Where a trained one is kept.

    Raises:
        ValueError: The file is missing or unusable, or training is impossible.
    """
    if options.path:
        return Tokenizer(_read_model(Path(options.path)))
    keys = [text.key for text in texts]
    key = key_of(_VERSION, keys, list(weights), asdict(options), sentencepiece.__version__)
    wanted = sum(len(text.dataset) * weight for text, weight in zip(texts, weights, strict=True))
    share = min(1.0, _MOST_TOKENIZER_PAIRS / wanted)

    def lines() -> Iterator[str]:
        for text, weight in zip(texts, weights, strict=True):
            yield from _training_lines(text.dataset, round(len(text.dataset) * weight * share))

    def train() -> bytes:
        return train_tokenizer(
            lines(),
            vocab_size=options.vocab_size,
            model_type=options.model_type,
            character_coverage=options.character_coverage,
        )

    def make(folder: Path) -> None:
        if share < 1:
            logger.info(
                "The tokenizer learns from %s of %s training pairs, evenly spread.",
                *(f"{_MOST_TOKENIZER_PAIRS:,}", f"{round(wanted):,}"),
            )
        model = apart(train, sum(len(text.dataset) for text in texts))
        (folder / "tokenizer.model").write_bytes(model)

    folder = cached(cache_dir, f"tokenizer-{key}", make)
    return Tokenizer((folder / "tokenizer.model").read_bytes())


def tokenise(text: Text, tokenizer: Tokenizer, *, cache_dir: Path) -> list[Path]:
    """Returns files with the pairs of a text as piece ids, in the same order.

    Args:
        text: What is encoded.
        tokenizer: Used for both sides.
        cache_dir: Where the ids are kept.
    """
    key = key_of(_VERSION, text.key, tokenizer.sha256)

    def make(folder: Path) -> None:
        logger.info("Encoding %s pairs; this happens once.", f"{len(text.dataset):,}")

        def work(rows: range) -> None:
            path = folder / f"{rows.start:012}.arrow"
            write_tokenised(text.dataset.select(rows), tokenizer, path)

        map_shards(work, len(text.dataset))

    return sorted(cached(cache_dir, f"tokenised-{key}", make).glob("*.arrow"))


def _training_lines(dataset: Dataset, count: int) -> Iterator[str]:
    """Yields both sides of so many pairs, evenly spread; all of them more than once if need be."""
    dataset = dataset.select_columns(["source", "target"])
    for start in range(0, count, _ROWS_AT_ONCE):
        places = np.arange(start, min(start + _ROWS_AT_ONCE, count))
        rows = dataset[places * len(dataset) // count]
        yield from rows["source"]
        yield from rows["target"]


def _read_model(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"data.tokenizer.path {path} cannot be read ({error.strerror}); give a SentencePiece "
            ".model file, or null to train one."
        ) from error
