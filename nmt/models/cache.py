"""The keys and values of the target tokens that were read."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

CACHE_BLOCK = 32  # positions of room that a cache gets when it grows


@dataclass(frozen=True)
class KeyValueCache:
    """Keys and values of the positions read so far, in buffers that grow by blocks.

    Attributes:
        keys_buffer: (N, K, capacity, d), filled up to `length`.
        values_buffer: the same.
        length: positions read.
    """

    keys_buffer: Tensor
    values_buffer: Tensor
    length: int

    @property
    def keys(self) -> Tensor:
        """The keys read so far, (N, K, length, d)."""
        return self.keys_buffer[:, :, : self.length]

    @property
    def values(self) -> Tensor:
        """The values read so far, (N, K, length, d)."""
        return self.values_buffer[:, :, : self.length]

    def append(self, keys: Tensor, values: Tensor) -> KeyValueCache:
        """Adds new positions (N, K, T, d); writes in place where there is room."""
        length = self.length + keys.shape[2]
        cache = self if length <= self.keys_buffer.shape[2] else self._grown(length)
        cache.keys_buffer[:, :, self.length : length] = keys
        cache.values_buffer[:, :, self.length : length] = values
        return KeyValueCache(cache.keys_buffer, cache.values_buffer, length)

    def index_select(self, rows: Tensor) -> KeyValueCache:
        """Row i of the result is row `rows[i]` of this cache."""
        return KeyValueCache(
            self.keys_buffer.index_select(0, rows),
            self.values_buffer.index_select(0, rows),
            self.length,
        )

    def _grown(self, length: int) -> KeyValueCache:
        missing = length + CACHE_BLOCK - self.length
        return KeyValueCache(
            F.pad(self.keys, (0, 0, 0, missing)),
            F.pad(self.values, (0, 0, 0, missing)),
            self.length,
        )


def extend(cache: KeyValueCache | None, keys: Tensor, values: Tensor) -> KeyValueCache:
    """Adds new positions to a cache; the first ones are kept as they are, without a copy."""
    if cache is None:
        return KeyValueCache(keys, values, keys.shape[2])
    return cache.append(keys, values)
