"""From text to what training reads: a tokenizer and piece ids, each made once and cached."""

from __future__ import annotations

import logging
import multiprocessing
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import sentencepiece
import torch
from datasets import Dataset, Features, List, Value

from nmt import checks
from nmt.checks import UserError
from nmt.data.batch import Batch, collate
from nmt.data.cache import cached, key_of
from nmt.data.cleaning import processes_for
from nmt.data.sampler import Row, Rows
from nmt.tokenizer import MODEL_TYPES, Tokenizer, train_tokenizer

logger = logging.getLogger(__name__)

# Part of every name: raise it when the format or the meaning of a cached result changes.
_VERSION = 3
_MOST_TOKENIZER_PAIRS = 200_000  # the memory of SentencePiece grows with them
_LARGE = 2**16  # pairs
_ROWS_AT_ONCE = 1_000
_ROWS_PER_CHUNK = 16_384


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """How to get a tokenizer.

    Attributes:
        vocab_size: Pieces wanted; a soft limit.
        model_type: `unigram` or `bpe`.
        character_coverage: Share of the characters that get a piece of their own.
        user_defined_symbols: Tags that always are one piece, such as `<2de>`.
        sampling: How training pairs are cut anew in each epoch, see `Sampling`; None cuts them the
            same way.
        path: A SentencePiece model, or a checkpoint that has one, to use instead of training one.
    """

    vocab_size: int
    model_type: str
    character_coverage: float
    user_defined_symbols: Sequence[str] = ()
    sampling: float | None = None
    path: str | None = None

    def __post_init__(self) -> None:
        checks.at_least("data.tokenizer.vocab_size", self.vocab_size)
        checks.one_of("data.tokenizer.model_type", self.model_type, MODEL_TYPES)
        checks.between("data.tokenizer.character_coverage", self.character_coverage, 0.9, 1.0)
        if self.sampling is not None:
            checks.positive("data.tokenizer.sampling", self.sampling, most=1)


def get_tokenizer(
    options: TokenizerOptions,
    texts: Sequence[Dataset],
    weights: Sequence[float],
    *,
    cache_dir: Path,
) -> Tokenizer:
    """Reads the tokenizer at `options.path`, or trains one on both sides of the training text.

    Args:
        options: Which of the two.
        texts: The training text of each corpus.
        weights: How often a pair of each corpus counts; fractions count a part of the pairs.
        cache_dir: Where a trained one is kept.
    """
    if options.path:
        return Tokenizer(_read_model(options.path))
    keys = [text._fingerprint for text in texts]
    trained_by = {name: value for name, value in asdict(options).items() if name != "sampling"}
    key = key_of(_VERSION, keys, list(weights), trained_by, sentencepiece.__version__)
    wanted = sum(len(text) * weight for text, weight in zip(texts, weights, strict=True))
    share = min(1.0, _MOST_TOKENIZER_PAIRS / wanted)

    def lines() -> Iterator[str]:
        for text, weight in zip(texts, weights, strict=True):
            yield from _spread(text, round(len(text) * weight * share))

    def train() -> bytes:
        return train_tokenizer(
            lines(),
            vocab_size=options.vocab_size,
            model_type=options.model_type,
            character_coverage=options.character_coverage,
            user_defined_symbols=options.user_defined_symbols,
        )

    def make(folder: Path) -> None:
        if share < 1:
            logger.info(
                "The tokenizer learns from %s of %s training pairs, evenly spread.",
                *(f"{_MOST_TOKENIZER_PAIRS:,}", f"{round(wanted):,}"),
            )
        model = _in_a_fork(train) if sum(map(len, texts)) > _LARGE else train()
        (folder / "tokenizer.model").write_bytes(model)

    def load(folder: Path) -> Tokenizer:
        return Tokenizer((folder / "tokenizer.model").read_bytes())

    return cached(cache_dir, f"tokenizer-{key}", make, load)


def tokenise(dataset: Dataset, tokenizer: Tokenizer, *, cache_dir: Path) -> list[Path]:
    """Returns files with the pairs of a text as piece ids, in the same order."""
    ids = List(Value("uint16" if tokenizer.vocab_size <= 2**16 else "int32"))

    def encode(rows: Mapping[str, Sequence[str]]) -> dict[str, list[list[int]]]:
        return {f"{side}_ids": tokenizer.encode_batch(rows[side]) for side in ("source", "target")}

    def make(folder: Path) -> None:
        logger.info("Encoding %s pairs; this happens once.", f"{len(dataset):,}")
        dataset.select_columns(["source", "target"]).map(
            encode,
            batched=True,
            batch_size=_ROWS_PER_CHUNK,
            writer_batch_size=_ROWS_PER_CHUNK,
            remove_columns=["source", "target"],
            features=Features(source_ids=ids, target_ids=ids),
            num_proc=processes_for(dataset),
            cache_file_name=str(folder / "ids.arrow"),
            new_fingerprint=key,
        )

    def load(folder: Path) -> list[Path]:
        files = sorted(folder.glob("*.arrow"))
        assert len(TokenisedDataset(files)) == len(dataset)
        return files

    key = key_of(_VERSION, dataset._fingerprint, tokenizer.sha256)
    return cached(cache_dir, f"tokenised-{key}", make, load)


@dataclass(frozen=True)
class Sampling:
    """Cuts the words of training pairs into other pieces in each epoch: subword regularisation.

    Kudo 2018; Provilkov et al. 2020. What is drawn is a function of seed, epoch and pair, so a run
    resumes exactly and does not depend on the number of processes.

    Attributes:
        tokenizer: Of the ids.
        alpha: See `Tokenizer.sample`.
        seed: Of the run.
    """

    tokenizer: Tokenizer
    alpha: float
    seed: int

    def __call__(self, ids: Sequence[int], *place: int) -> list[int]:
        """Returns other ids of the same text; `place` is what the draw depends on."""
        draw = random.Random(repr((self.seed, *place)))
        return self.tokenizer.sample(ids, alpha=self.alpha, draw=draw)


class TokenisedDataset:
    """The pairs of a split; indexed with what a `TokenBatchSampler` yields, it gives a `Batch`.

    Picklable by its paths: each process maps the files itself.

    Attributes:
        source_lengths: (pairs,) tokens of each source, EOS counted.
        target_lengths: (pairs,) tokens of each target, EOS counted.
    """

    def __init__(self, paths: Sequence[Path], sampling: Sampling | None = None) -> None:
        """Maps files that `tokenise` wrote; nothing is read yet but the lengths.

        Args:
            paths: The pairs of all of them, one file after the other.
            sampling: Draws the pieces anew; the lengths stay those of the usual pieces.
        """
        self._paths, self._sampling = tuple(paths), sampling
        tables = [
            pyarrow.ipc.open_stream(pyarrow.memory_map(str(path))).read_all() for path in paths
        ]
        sources = [chunk for table in tables for chunk in table["source_ids"].chunks]
        targets = [chunk for table in tables for chunk in table["target_ids"].chunks]
        self._source, self._target = _Column(sources), _Column(targets)
        self.source_lengths, self.target_lengths = _lengths(sources), _lengths(targets)

    def __reduce__(self) -> tuple[type[TokenisedDataset], tuple[Any, ...]]:
        return TokenisedDataset, (self._paths, self._sampling)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def __getitem__(self, rows: Sequence[Row]) -> Batch:
        """Returns a batch; `Batch.index` holds the number of each pair, or of the first joined."""
        epoch = rows.epoch if isinstance(rows, Rows) else 0
        groups = ([row] if isinstance(row, int) else row for row in rows)
        return collate([self._example(pairs, epoch) for pairs in groups])

    def _example(self, pairs: Sequence[int], epoch: int) -> dict[str, Any]:
        sides = []
        for side, column in enumerate((self._source, self._target)):
            pieces: list[int] = []
            for pair in pairs:
                ids = column[pair]
                pieces += self._sampling(ids, epoch, pair, side) if self._sampling else ids
            sides.append(pieces)
        return {"index": pairs[0], "source_ids": sides[0], "target_ids": sides[1]}


class _Column:
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


def _spread(dataset: Dataset, count: int) -> Iterator[str]:
    """Yields both sides of so many pairs, evenly spread; all of them more than once if need be."""
    dataset = dataset.select_columns(["source", "target"])
    for start in range(0, count, _ROWS_AT_ONCE):
        places = np.arange(start, min(start + _ROWS_AT_ONCE, count))
        rows = dataset[places * len(dataset) // count]
        yield from rows["source"]
        yield from rows["target"]


def _read_model(path: str) -> bytes:
    try:
        if Path(path).suffix != ".ckpt":
            return Path(path).read_bytes()
        content = torch.load(path, map_location="cpu", weights_only=True)
        model: bytes = content["hyper_parameters"]["tokenizer"]
        return model
    except (OSError, EOFError, LookupError, RuntimeError, TypeError, UnpicklingError) as error:
        reason = getattr(error, "strerror", None) or f"it is no checkpoint: {type(error).__name__}"
        raise UserError(
            f"data.tokenizer.path {path} cannot be read ({reason}); give a SentencePiece .model "
            "file or a .ckpt file of train.py, or null to train one."
        ) from error


_work: Callable[[], bytes]  # of a fork of this process


def _in_a_fork(work: Callable[[], bytes]) -> bytes:
    """Returns what `work` gives; the memory it takes goes back to the system."""
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=fork, initializer=_begin, initargs=(work,)) as pool:
        return pool.submit(_do).result()


def _begin(work: Callable[[], bytes]) -> None:
    global _work
    _work = work


def _do() -> bytes:
    return _work()
