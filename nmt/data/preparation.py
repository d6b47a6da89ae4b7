"""From raw text to what training reads: cleaned, a tokenizer, piece ids; each made once and cached.

The name of each result is a digest of everything it was made from, so a changed file, rule or
option makes a new one, and nothing stale is ever used.

Learns the joint SentencePiece vocabulary of a corpus.

Kudo, Richardson (2018), "SentencePiece" and Kudo (2018), "Subword Regularization" (unigram).

Parallel text as piece ids: written once to an Arrow file, then memory-mapped.
"""

from __future__ import annotations

import io
import json
import logging
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import sentencepiece
from datasets import Dataset

from nmt.checks import UserError
from nmt.data.batch import Batch, collate
from nmt.data.cleaning import CleaningReport, CleaningRules, clean
from nmt.data.sampler import Row
from nmt.data.text import Text, apart, cached, key_of, map_shards
from nmt.special_tokens import BOS, EOS, PAD, UNK
from nmt.tokenizer import LengthUnit, Tokenizer, normalise

logger = logging.getLogger(__name__)


MODEL_TYPES = ("unigram", "bpe")
MAX_LINE_BYTES = 65_536
_RESERVED = "▅"  # SentencePiece marks unknown characters with it while training: line is skipped
# The result depends on the number of threads (sums of floats), so it is the same everywhere.
_TRAINING_THREADS = 8


def train_tokenizer(
    lines: Iterable[str],
    *,
    vocab_size: int,
    model_type: str = "unigram",
    character_coverage: float = 1.0,
) -> bytes:
    """Learns a SentencePiece model with byte fallback; same lines, same bytes.

    The size is a soft limit: small data yield fewer pieces than asked for, and the log says so.

    Args:
        lines: Training text of both languages, one sentence each.
        vocab_size: Pieces wanted, the 4 special and 256 byte pieces included.
        model_type: `unigram` or `bpe`.
        character_coverage: Share of the characters in the text that get a piece of their own.

    Returns:
        The serialised model, for `Tokenizer`.

    Raises:
        UserError: An impossible option, or no usable text.
    """
    _check_training_options(vocab_size, model_type, character_coverage)
    counts = {"used": 0, "skipped": 0}
    buffer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_usable_lines(lines, counts),
            model_writer=buffer,
            vocab_size=vocab_size,
            model_type=model_type,
            character_coverage=character_coverage,
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name="identity",
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=_TRAINING_THREADS,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UserError(_training_failure(str(error), vocab_size, counts)) from error
    _report_training(buffer.getvalue(), vocab_size, counts)
    return buffer.getvalue()


def _check_training_options(vocab_size: int, model_type: str, character_coverage: float) -> None:
    if model_type not in MODEL_TYPES:
        raise UserError(
            f"tokenizer.model_type is {model_type!r}; set it to {' or '.join(MODEL_TYPES)}."
        )
    if not isinstance(vocab_size, int) or vocab_size < 1:
        raise UserError(f"tokenizer.vocab_size is {vocab_size!r}; set it to a positive integer.")
    if not 0.9 <= character_coverage <= 1.0:
        raise UserError(
            f"tokenizer.character_coverage is {character_coverage}; set it between 0.9 and 1."
        )


def _usable_lines(lines: Iterable[str], counts: dict[str, int]) -> Iterator[str]:
    for line in lines:
        text = normalise(line)
        if not text:
            continue
        if _RESERVED in text or len(text.encode("utf-8")) > MAX_LINE_BYTES:
            counts["skipped"] += 1
            continue
        counts["used"] += 1
        yield text


def _training_failure(message: str, vocab_size: int, counts: dict[str, int]) -> str:
    if not counts["used"]:
        return (
            f"The tokenizer has no text to learn from: {counts['skipped']} lines were skipped "
            f"(longer than {MAX_LINE_BYTES} bytes, or with the reserved character U+2585) and the "
            "others are blank; check the training data."
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"tokenizer.vocab_size is {vocab_size}, but the special pieces and the characters of "
            f"the training text alone need {found[1]}; set data.tokenizer.vocab_size={found[1]} "
            "or more, or lower data.tokenizer.character_coverage."
        )
    return f"SentencePiece could not train with vocab_size={vocab_size}: {message}"


def _report_training(model: bytes, vocab_size: int, counts: dict[str, int]) -> None:
    actual = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
    if counts["skipped"]:
        logger.warning(
            "The tokenizer was trained without %d of %d lines (longer than %d bytes, or with the "
            "reserved character U+2585).",
            counts["skipped"],
            counts["skipped"] + counts["used"],
            MAX_LINE_BYTES,
        )
    note = "" if actual == vocab_size else f" ({vocab_size} asked for: the text yields no more)"
    logger.info("Trained a tokenizer of %d pieces on %d lines%s.", actual, counts["used"], note)


_ROWS_PER_CHUNK = 16_384


def write_tokenised(dataset: Dataset, tokenizer: Tokenizer, path: Path) -> None:
    """Encodes the columns source and target into an Arrow file, ids without special tokens."""
    ids = pyarrow.list_(pyarrow.uint16() if tokenizer.vocab_size <= 2**16 else pyarrow.int32())
    schema = pyarrow.schema({"source_ids": ids, "target_ids": ids})
    dataset = dataset.select_columns(["source", "target"])  # reading the others takes time
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, schema) as writer:
        for start in range(0, len(dataset), _ROWS_PER_CHUNK):
            rows = dataset[start : start + _ROWS_PER_CHUNK]
            columns = [
                pyarrow.array(tokenizer.encode_batch(rows[side]), type=ids)
                for side in ("source", "target")
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))


class TokenisedDataset:
    """The pairs of a split; indexed with what a `TokenBatchSampler` yields, it gives a `Batch`.

    Picklable by its paths: each process maps the files itself.

    Attributes:
        source_lengths: (pairs,) tokens of each source, EOS counted.
        target_lengths: (pairs,) tokens of each target, EOS counted.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        """Maps files that `write_tokenised` wrote; nothing is read yet but the lengths.

        Args:
            paths: The pairs of all of them, one file after the other.
        """
        self._paths = tuple(paths)
        tables = [pyarrow.ipc.open_file(pyarrow.memory_map(str(path))).read_all() for path in paths]
        sources = [chunk for table in tables for chunk in table["source_ids"].chunks]
        targets = [chunk for table in tables for chunk in table["target_ids"].chunks]
        self._source, self._target = _Rows(sources), _Rows(targets)
        self.source_lengths, self.target_lengths = _lengths(sources), _lengths(targets)

    def __reduce__(self) -> tuple[type[TokenisedDataset], tuple[Sequence[Path]]]:
        return TokenisedDataset, (self._paths,)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def __getitem__(self, rows: Sequence[Row]) -> Batch:
        """Returns a batch; `Batch.index` holds the number of each pair, or of the first joined."""
        return collate([self._example([row] if isinstance(row, int) else row) for row in rows])

    def _example(self, pairs: Sequence[int]) -> dict[str, Any]:
        return {
            "index": pairs[0],
            "source_ids": [piece for pair in pairs for piece in self._source[pair]],
            "target_ids": [piece for pair in pairs for piece in self._target[pair]],
        }


class _Rows:
    """Mapped lists as NumPy views: nothing is copied but the rows asked for."""

    def __init__(self, chunks: Sequence[pyarrow.ListArray]) -> None:
        self._chunks = [(np.asarray(c.offsets), np.asarray(c.values)) for c in chunks]
        self._ends = np.cumsum([len(c) for c in chunks]).tolist()

    def __getitem__(self, index: int) -> list[int]:
        chunk = bisect_right(self._ends, index)
        offsets, values = self._chunks[chunk]
        row = index - self._ends[chunk]  # from the end: negative
        ids: list[int] = values[offsets[row - 1] : offsets[row]].tolist()
        return ids


def _lengths(chunks: Sequence[pyarrow.ListArray]) -> npt.NDArray[np.int64]:
    pieces = [np.diff(np.asarray(chunk.offsets)) for chunk in chunks]
    return np.concatenate(pieces).astype(np.int64) + 1  # EOS


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
    cache_dir: Path,
    name: str,
) -> CleanedText:
    """Returns the training pairs that pass the rules.

    Args:
        train: All pairs.
        rules: What is removed.
        source_unit: What the length of a source is counted in.
        target_unit: What the length of a target is counted in.
        cache_dir: Where the result is kept.
        name: Of the corpus, for the log.

    Raises:
        UserError: None does.
    """
    options = asdict(rules)
    key = key_of(_VERSION, train.key, options, source_unit, target_unit)

    def make(folder: Path) -> None:
        found = clean(
            train.dataset,
            rules=rules,
            source_unit=source_unit,
            target_unit=target_unit,
        )
        np.save(folder / "rows.npy", found.rows)
        np.save(folder / "source_units.npy", found.source_units)
        (folder / "report.json").write_text(json.dumps(asdict(found.report)), encoding="utf-8")

    folder = cached(cache_dir, f"cleaned-{key}", make)
    report = CleaningReport(**json.loads((folder / "report.json").read_text(encoding="utf-8")))
    logger.info("Cleaning of %s:\n%s", name, report.table())
    if not report.kept:
        raise UserError(
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
        UserError: The file is missing or unusable, or training is impossible.
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
        raise UserError(
            f"data.tokenizer.path {path} cannot be read ({error.strerror}); give a SentencePiece "
            ".model file, or null to train one."
        ) from error
