"""The interface of every translation model: three verbs and a reorder.

Shape legend, used in all docstrings of `nmt.models` and `nmt.decoding`:

    B  batch (sentences)          S  source length          T  target length
    D  width of the model         H  attention heads        K  key/value heads
    V  vocabulary                 N  rows while decoding    L  decoder layers

A model is `start(source) -> state`, then `step(tokens, state) -> (logits, state)` as often as
needed. Teacher forcing is one step with T tokens; decoding is T steps with one token each; both
are the same code, so that they cannot disagree.

A new model is one file here and one `conf/model/NAME.yaml`; `nmt.models.sutskever` is the example
to copy. It provides

* a constructor with keyword arguments only: the keys of the yaml, and `vocab_size`, which the
  program supplies;
* `start`, `step` and `attention`, which raises `UserError` where there is none to show;
* a frozen `State` with `select` and `reorder`. It may hold plain numbers beside tensors.

A sentence without any token must disturb nobody (`without_empty_rows` of `nmt.models.memory`), and
the model must work with all its weights in bf16. `TiedEmbedding` (below), `pool_into_slots` (for an
option `memory_slots`) and the layers of the other models are there to be used. All of this is
tested by `pytest tests/models --model NAME`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class State(ABC):
    """What a model carries from step to step; one frozen dataclass for each kind of model.

    A state is consumed by the step it is given to (caches are written in place): use the state
    that `step` returns, never the old one again.
    """

    @abstractmethod
    def select(self, rows: Tensor) -> Self:
        """Repeats or drops sentences: row i of the result is row `rows[i]` of this state.

        Args:
            rows: (N',) int64 row numbers of this state, in any order, with repetition.
        """

    @abstractmethod
    def reorder(self, rows: Tensor) -> Self:
        """Permutes rows that belong to the same sentence; the source side is not copied.

        Args:
            rows: (N,) int64; row i and row `rows[i]` must translate the same sentence.
        """


@dataclass(frozen=True)
class Attention:
    """The weights a model used, teacher-forced; row t is the weight used to predict target t.

    Attributes:
        cross: (B, L, H, T, S), rows sum to 1 over the real source tokens.
        encoder_self: (B, L, H, S, S) or None where the encoder has no attention.
        decoder_self: (B, L, H, T, T) or None where the decoder has no self-attention.
    """

    cross: Tensor
    encoder_self: Tensor | None = None
    decoder_self: Tensor | None = None


@dataclass(frozen=True)
class NumParameters:
    """How many parameters a model has.

    Attributes:
        total: all of them, shared ones once.
        embedding: those of embedding tables.
    """

    total: int
    embedding: int


class EncoderDecoder(nn.Module, ABC):
    """A conditional language model p(target | source), one target token after the other."""

    @abstractmethod
    def start(self, source: Tensor, source_mask: Tensor | None) -> Any:
        """Reads the source once.

        Args:
            source: (B, S) int64 token ids, each row ending in EOS, right-padded with PAD.
            source_mask: (B, S) bool, true where there is a token; None when nothing is padded.

        Returns:
            The state before the first target token, B rows.
        """

    @abstractmethod
    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Reads one or more target tokens; consumes `state`.

        Args:
            tokens: (N, T) int64, the next T target tokens of every row (BOS comes first).
            state: what `start` or the last `step` returned, N rows.

        Returns:
            The logits (N, T, V) of the token that follows each given one, and the new state.
        """

    @abstractmethod
    def attention(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> Attention:
        """Returns the attention weights of a teacher-forced pass, apart from the hot path.

        Raises:
            UserError: The model has no attention.
        """

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    def without_decay(self) -> Iterator[nn.Parameter]:
        """Yields the parameters that weight decay must spare: those that are no matrices."""
        yield from (parameter for parameter in self.parameters() if parameter.dim() < 2)

    def num_parameters(self) -> NumParameters:
        """Counts the parameters, shared ones once."""
        tables = [module for module in self.modules() if isinstance(module, nn.Embedding)]
        return NumParameters(
            total=sum(parameter.numel() for parameter in self.parameters()),
            embedding=sum(table.weight.numel() for table in tables),
        )

    def forward(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> Tensor:
        """Returns the teacher-forced logits (B, T, V) of `target_in` (B, T) = BOS + target."""
        logits, _ = self.step(target_in, self.start(source, source_mask))
        return logits


class TiedEmbedding(nn.Module):
    """Maps tokens to vectors, and vectors back to logits with the same matrix E (V, D).

    Press and Wolf 2017; the factor sqrt(D) at the input is that of Vaswani et al. 2017, section
    3.4. With E ~ N(0, 1/D) the vectors have unit variance and so have the logits of a vector of
    unit variance. Nothing reads the row of PAD: fillers are masked wherever they could matter.
    """

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, width)
        self.scale: float = width**0.5
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns the vectors (..., D) of `tokens` (...)."""
        return F.embedding(tokens, self.table.weight) * self.scale

    def logits(self, vectors: Tensor) -> Tensor:
        """Returns the logits (..., V) of `vectors` (..., D)."""
        return F.linear(vectors, self.table.weight)


class Dropout(nn.Module):
    """Zeroes every number with probability p in training, and divides the others by 1 - p.

    Srivastava et al. 2014. On a CPU the mask is made of 16 random bits for each number, which takes
    half the time of PyTorch's (docs/benchmarks.md).
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Returns x, of any shape, in evaluation."""
        if not self.training or self.p == 0 or x.device.type != "cpu":
            return F.dropout(x, self.p, self.training)
        bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        kept = bits.view(torch.int16)[: x.numel()] >= round(self.p * 2**16) - 2**15
        return x * kept.view(x.shape).to(x.dtype).mul_(1 / (1 - self.p))
