"""Parallel text as piece ids: written once to an Arrow file, then memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.compute
from datasets import Dataset

from nmt.data.batch import Batch, collate
from nmt.data.sampler import Row
from nmt.tokenizer import Tokenizer

_ROWS_PER_CHUNK = 16_384
_SCHEMA = pyarrow.schema(
    {"source_ids": pyarrow.list_(pyarrow.int32()), "target_ids": pyarrow.list_(pyarrow.int32())}
)


def write_tokenised(dataset: Dataset, tokenizer: Tokenizer, path: Path) -> None:
    """Encodes the columns source and target into an Arrow file, ids without special tokens."""
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, _SCHEMA) as writer:
        for start in range(0, len(dataset), _ROWS_PER_CHUNK):
            rows = dataset[start : start + _ROWS_PER_CHUNK]
            columns = [
                pyarrow.array(
                    tokenizer.encode_batch(rows[side]), type=pyarrow.list_(pyarrow.int32())
                )
                for side in ("source", "target")
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=_SCHEMA))


class TokenisedDataset:
    """The pairs of one split; indexed with what a `TokenBatchSampler` yields, it gives a `Batch`.

    Picklable by its path: each process maps the file itself.

    Attributes:
        source_lengths: (pairs,) tokens of each source, EOS counted.
        target_lengths: (pairs,) tokens of each target, EOS counted.
    """

    def __init__(self, path: Path) -> None:
        """Maps a file that `write_tokenised` wrote; nothing is read yet but the lengths."""
        self.path = path
        table = pyarrow.ipc.open_file(pyarrow.memory_map(str(path))).read_all()
        self._source, self._target = _Rows(table["source_ids"]), _Rows(table["target_ids"])
        self.source_lengths = _lengths(table["source_ids"])
        self.target_lengths = _lengths(table["target_ids"])

    def __reduce__(self) -> tuple[type[TokenisedDataset], tuple[Path]]:
        return TokenisedDataset, (self.path,)

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
    """A mapped column of lists as NumPy views: nothing is copied but the rows asked for."""

    def __init__(self, column: pyarrow.ChunkedArray) -> None:
        self._chunks = [(np.asarray(c.offsets), np.asarray(c.values)) for c in column.chunks]

    def __getitem__(self, index: int) -> list[int]:
        chunk, row = divmod(index, _ROWS_PER_CHUNK)
        offsets, values = self._chunks[chunk]
        ids: list[int] = values[offsets[row] : offsets[row + 1]].tolist()
        return ids


def _lengths(column: pyarrow.ChunkedArray) -> npt.NDArray[np.int64]:
    pieces = np.asarray(pyarrow.compute.list_value_length(column), dtype=np.int64)
    return pieces + 1  # EOS
