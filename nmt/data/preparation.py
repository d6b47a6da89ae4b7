"""From raw text to what training reads: cleaned, a tokenizer, piece ids; each made once and cached.

The name of each result is a digest of everything it was made from, so a changed file, rule or
option makes a new one, and nothing stale is ever used.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import sentencepiece
from datasets import Dataset

from nmt.data.cache import cached, content_key, key_of
from nmt.data.cleaning import CleaningReport, CleaningRules, clean
from nmt.data.language_identification import LanguageCheck
from nmt.data.length_unit import LengthUnit
from nmt.data.tokenised import TokenisedDataset, write_tokenised
from nmt.tokenizer import Tokenizer, train_tokenizer

logger = logging.getLogger(__name__)

# Part of every name: raise it when the format or the meaning of a cached result changes.
_VERSION = 1
_MOST_TOKENIZER_PAIRS = 2_000_000


@dataclass(frozen=True)
class CleanedText:
    """The training pairs that are used, and what was removed."""

    dataset: Dataset
    report: CleaningReport
    key: str


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
    train: Dataset,
    rules: CleaningRules,
    *,
    source_unit: LengthUnit,
    target_unit: LengthUnit,
    cache_dir: Path,
    language_check: LanguageCheck | None = None,
) -> CleanedText:
    """Returns the training pairs that pass the rules.

    Raises:
        ValueError: None does.
    """
    options = asdict(rules)
    options["language"] = None if language_check is None else language_check.key()
    key = key_of(_VERSION, content_key(train), options, source_unit, target_unit)

    def make(folder: Path) -> None:
        rows, report = clean(
            train,
            rules=rules,
            source_unit=source_unit,
            target_unit=target_unit,
            language_check=language_check,
        )
        np.save(folder / "rows.npy", np.asarray(rows, dtype=np.int64))
        (folder / "report.json").write_text(json.dumps(asdict(report)), encoding="utf-8")

    folder = cached(cache_dir, f"cleaned-{key}", make)
    report = CleaningReport(**json.loads((folder / "report.json").read_text(encoding="utf-8")))
    logger.info("Cleaning:\n%s", report.table())
    if not report.kept:
        raise ValueError(
            f"Cleaning removed all {report.total} training pairs ({report.removed}); "
            "check the data or switch rules off in data.cleaning."
        )
    rows = np.load(folder / "rows.npy")
    dataset = train if report.kept == report.total else train.select(rows)
    return CleanedText(dataset, report, key)


def get_tokenizer(options: TokenizerOptions, text: CleanedText, *, cache_dir: Path) -> Tokenizer:
    """Reads the tokenizer at `options.path`, or trains one on both sides of the training text.

    Raises:
        ValueError: The file is missing or unusable, or training is impossible.
    """
    if options.path:
        return Tokenizer(_read_model(Path(options.path)))
    key = key_of(_VERSION, text.key, asdict(options), sentencepiece.__version__)

    def make(folder: Path) -> None:
        model = train_tokenizer(
            _training_lines(text.dataset),
            vocab_size=options.vocab_size,
            model_type=options.model_type,
            character_coverage=options.character_coverage,
        )
        (folder / "tokenizer.model").write_bytes(model)

    folder = cached(cache_dir, f"tokenizer-{key}", make)
    return Tokenizer((folder / "tokenizer.model").read_bytes())


def tokenise(
    dataset: Dataset, tokenizer: Tokenizer, *, key: str, cache_dir: Path
) -> TokenisedDataset:
    """Returns the pairs of a split as piece ids, in the same order.

    Args:
        dataset: Columns source and target.
        tokenizer: Used for both.
        key: Names the content of `dataset`.
        cache_dir: Where the ids are kept.
    """
    key = key_of(_VERSION, key, tokenizer.sha256)

    def make(folder: Path) -> None:
        write_tokenised(dataset, tokenizer, folder / "pairs.arrow")

    return TokenisedDataset(cached(cache_dir, f"tokenised-{key}", make) / "pairs.arrow")


def _training_lines(dataset: Dataset) -> Iterator[str]:
    """Yields both sides of the pairs, or of every n-th pair where there are millions."""
    step = -(-len(dataset) // _MOST_TOKENIZER_PAIRS)
    for start in range(0, len(dataset), 1_000 * step):
        rows = dataset[start : min(start + 1_000 * step, len(dataset)) : step]
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
