"""Parallel text as piece ids: written once to an Arrow file, then memory-mapped."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
from datasets import Dataset

from nmt.data.batch import Batch, collate
from nmt.data.sampler import Row
from nmt.tokenizer import Tokenizer

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
