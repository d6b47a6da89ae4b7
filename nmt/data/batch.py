"""One batch as tensors, how it is made from token ids, and which sentences make one.

A source is its pieces and EOS. A target is read shifted by one: the model reads BOS + y and
predicts y + EOS. Everything is padded on the right with PAD.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor

from nmt import BOS, EOS, PAD

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Batch:
    """B sentence pairs, padded on the right to the longest source S and the longest target T.

    Attributes:
        index: (B,) int64, which pairs of the data set these are.
        source: (B, S) int64, pieces + EOS.
        source_mask: (B, S) bool, true where there is a token; None when nothing is padded.
        target_in: (B, T) int64, BOS + pieces.
        target_out: (B, T) int64, pieces + EOS; PAD marks what must not be counted.
        num_target_tokens: Target tokens to be predicted, EOS counted.
    """

    index: Tensor
    source: Tensor
    source_mask: Tensor | None
    target_in: Tensor
    target_out: Tensor
    num_target_tokens: int

    def __len__(self) -> int:
        """Returns the number of sentence pairs B."""
        return self.index.shape[0]

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """Returns the batch with its tensors on `device`."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Returns the batch in page-locked memory; the data loader calls this by name."""
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = function(value)
        return Batch(**values)


def collate(examples: Sequence[Mapping[str, Any]]) -> Batch:
    """Pads examples into one batch; an empty source or target becomes just its EOS.

    Args:
        examples: At least one {"index": int, "source_ids": list[int], "target_ids": list[int]},
            ids without special tokens.
    """
    targets = [list(example["target_ids"]) for example in examples]
    source, source_mask = collate_source([example["source_ids"] for example in examples])
    return Batch(
        index=torch.tensor([example["index"] for example in examples], dtype=torch.int64),
        source=source,
        source_mask=source_mask,
        target_in=_pad([[BOS, *target] for target in targets]),
        target_out=_pad([[*target, EOS] for target in targets]),
        num_target_tokens=sum(len(target) + 1 for target in targets),
    )


def collate_source(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
    """Pads source sentences for a model.

    Args:
        sequences: At least one list of token ids, without EOS; it may be empty.

    Returns:
        The tokens with EOS (B, S) int64, and their mask (B, S) bool, true where there is a
        token, or None when no row is padded: attention without a mask takes the fast path.
    """
    source = _pad([[*sequence, EOS] for sequence in sequences])
    lengths = torch.tensor([len(sequence) + 1 for sequence in sequences])
    if bool((lengths == source.shape[1]).all()):
        return source, None
    return source, torch.arange(source.shape[1]) < lengths[:, None]


def teacher_forced(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]], device: torch.device
) -> Batch:
    """Makes a batch on a device of the ids of sources and of given translations."""
    examples = [
        {"index": index, "source_ids": source, "target_ids": target}
        for index, (source, target) in enumerate(pairs)
    ]
    return collate(examples).to(device)


def answer_in_order(
    items: Iterable[Item],
    length: Callable[[Item], int],
    answer: Callable[[list[Item]], Iterable[Answer]],
    *,
    batch_tokens: int,
    chunk_size: int | None = None,
) -> Iterator[Answer]:
    """Yields the answer to each item, in order; items of similar length are asked together.

    Args:
        items: Sentences or pairs.
        length: Gives the tokens of an item without EOS; of a pair, those of its longer side.
        answer: Answers a batch, the longest item first.
        batch_tokens: Most tokens of a batch, EOS and padding included, unless one item alone has
            more.
        chunk_size: Items read ahead and sorted by length; None for all.
    """
    items = iter(items)
    while chunk := list(islice(items, chunk_size)):
        lengths = [length(item) for item in chunk]
        order = sorted(range(len(chunk)), key=lambda i: -lengths[i])
        answers: dict[int, Answer] = {}
        while order:
            num_rows = max(1, batch_tokens // (lengths[order[0]] + 1))
            rows, order = order[:num_rows], order[num_rows:]
            answers.update(zip(rows, answer([chunk[row] for row in rows]), strict=True))
        yield from (answers[row] for row in range(len(chunk)))


def longer_side(pair: tuple[Sequence[int], Sequence[int]]) -> int:
    """Returns the tokens of the longer side of a pair."""
    return max(map(len, pair))


def _pad(rows: list[list[int]]) -> Tensor:
    """Returns the rows as one (rows, longest) int64 tensor, filled on the right with PAD."""
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows], dtype=torch.int64)
