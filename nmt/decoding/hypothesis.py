"""What every search shares: the answer, the call, the score and the length limit.

Definitions, the same for all of them:

* The **log-probability** of a hypothesis is the sum of the model's log-probabilities of its tokens,
  EOS included: what teacher forcing gives for the same tokens. Forbidden ids are never chosen, but
  the distribution is not renormalised without them.
* Its **length** counts the tokens in that sum, so EOS counts where there is one.
* Its **score** is `log_prob / length ** length_penalty`, the formula of CTranslate2: 0 ranks by
  log-probability (short wins), 1 by the mean per token, larger values favour long hypotheses,
  negative ones short hypotheses even more.
* The **limit** of a sentence is `min(max_length, ceil(max_length_ratio * source_length) + 10)`
  tokens (but not under `min_length`), EOS counted in the source, not in the hypothesis: it depends
  on the sentence alone. A hypothesis that has that many tokens may only end; if the search does not
  choose EOS then, it is *cut*: kept as it is, `finished=False`, and returned only where not enough
  hypotheses finished.
* A **prefix** is part of its hypotheses: of their tokens, length, log-probability and score. It may
  hold forbidden ids, and where it is longer than the limit, the limit is its length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nmt.models.encoder_decoder import EncoderDecoder
from nmt.special_tokens import BOS, EOS, PAD, UNK

_MOST_PENALTY = 5  # a length of ten million to that power is still a number in fp32
_MOST_TOKENS = 10_000_000
_ROOM = 10  # tokens that every sentence may have on top of its share of the source length


@dataclass(frozen=True)
class Hypothesis:
    """One translation in ids.

    Attributes:
        tokens: The target ids without BOS and EOS.
        score: What hypotheses are ranked by, `log_prob / length ** length_penalty`.
        log_prob: Natural logarithm of p(tokens, EOS | source); without EOS if unfinished.
        finished: Whether the model ended it; false where the length limit did.
    """

    tokens: tuple[int, ...]
    score: float
    log_prob: float
    finished: bool


class Search(Protocol):
    """A way to find translations: `GreedySearch`, `BeamSearch` or `Sampling`."""

    def __call__(
        self,
        model: EncoderDecoder,
        source: Tensor,
        source_mask: Tensor | None,
        *,
        forbidden_ids: Sequence[int] = (),
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Translates a batch; the model stays in the mode (train or eval) it is in.

        Args:
            model: Any model; only `start`, `step` and its state's `select`, `reorder` are used.
            source: (B, S) int64, as `EncoderDecoder.start` takes it.
            source_mask: (B, S) bool, true where there is a token; None when nothing is padded.
            forbidden_ids: Ids never to emit, besides PAD, UNK and BOS, which never are.
            prefixes: The tokens that the hypotheses of each sentence begin with, of any lengths,
                without special ids; None for no prefixes.

        Returns:
            For each sentence, in the order given, its hypotheses, best first.
        """
        ...


class LengthLimited(Protocol):
    """What bounds the length of hypotheses; attributes of every search.

    Attributes:
        max_length: Most tokens of a hypothesis, EOS not counted.
        max_length_ratio: Target tokens allowed for each source token (plus 10).
        min_length: EOS is not chosen before this many tokens.
    """

    @property
    def max_length(self) -> int: ...  # noqa: D102
    @property
    def max_length_ratio(self) -> float: ...  # noqa: D102
    @property
    def min_length(self) -> int: ...  # noqa: D102


def check_limits(search: LengthLimited) -> None:
    """Refuses impossible length limits.

    Raises:
        ValueError: One sentence with the name, the value and what is expected.
    """
    check_at_least("max_length", search.max_length, 1)
    check_at_least("min_length", search.min_length, 0)
    if search.max_length > _MOST_TOKENS:
        raise ValueError(
            f"max_length is {search.max_length}, but it must not exceed {_MOST_TOKENS}."
        )
    if search.min_length > search.max_length:
        raise ValueError(
            f"min_length is {search.min_length}, but it must not exceed max_length, "
            f"{search.max_length}."
        )
    check_positive("max_length_ratio", search.max_length_ratio)


def check_at_least(name: str, value: int, minimum: int) -> None:
    """Raises ValueError unless `value` is a whole number, `minimum` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} is {value!r}, but it must be a whole number, {minimum} or more.")


def check_length_penalty(value: float) -> None:
    """Raises ValueError unless scores with this exponent are numbers, whatever the length."""
    if not (_is_number(value) and abs(value) <= _MOST_PENALTY):
        raise ValueError(
            f"length_penalty is {value!r}, but it must be a number from -{_MOST_PENALTY} to "
            f"{_MOST_PENALTY}."
        )


def check_positive(name: str, value: float) -> None:
    """Raises ValueError unless `value` is a finite number above 0."""
    if not (_is_number(value) and 0 < value < math.inf):
        raise ValueError(f"{name} is {value!r}, but it must be a positive number.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def length_limits(search: LengthLimited, source: Tensor, source_mask: Tensor | None) -> Tensor:
    """Returns how many tokens, EOS aside, each sentence may have: (B,) int64.

    Args:
        search: The bounds.
        source: (B, S) int64.
        source_mask: (B, S) bool, true where there is a token; None when nothing is padded.
    """
    num_sentences, source_length = source.shape
    if source_mask is None:
        lengths = torch.full((num_sentences,), source_length, device=source.device)
    else:
        lengths = source_mask.sum(-1)
    share = (lengths.double() * search.max_length_ratio).ceil() + _ROOM
    return share.clamp(min=search.min_length, max=search.max_length).long()


def penalised(log_probs: Tensor, length: int | Tensor, length_penalty: float) -> Tensor:
    """Returns the scores of hypotheses of `length` tokens, EOS counted where there is one."""
    return log_probs / length**length_penalty


def never_emitted(forbidden_ids: Sequence[int], *, and_eos: bool, device: torch.device) -> Tensor:
    """Returns the ids that a step may not choose, (F,) int64.

    Raises:
        ValueError: EOS is among the forbidden ids, so that no hypothesis could end.
    """
    if EOS in forbidden_ids:
        raise ValueError(f"forbidden_ids holds {EOS}, EOS, without which no hypothesis can end.")
    ids = {PAD, UNK, BOS, *forbidden_ids} | ({EOS} if and_eos else set())
    return torch.tensor(sorted(ids), device=device)


def sentences_to_keep(done: Tensor) -> Tensor | None:
    """Says when finished sentences should leave the batch.

    Dropping copies what stays, so it pays only when a quarter of the batch is done.

    Args:
        done: (B,) bool.

    Returns:
        The rows that stay, (B',) int64, empty when all are done; None while all should stay.
    """
    num_done = int(done.sum())  # the one value of a step that the host waits for
    if 4 * num_done < len(done) or num_done == 0:
        return None
    return (~done).nonzero().squeeze(-1)
