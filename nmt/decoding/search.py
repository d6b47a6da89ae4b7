"""What every search shares: the call and its answer, the score, the limits, what may come next.

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
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt import BOS, EOS, PAD, UNK
from nmt.checks import at_least, between, positive
from nmt.models.encoder_decoder import EncoderDecoder

EXTRA_LENGTH = 10  # tokens that every sentence may have on top of its share of the source length


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


@dataclass(frozen=True, kw_only=True)
class Search(ABC):
    """A way to find translations: `GreedySearch`, `BeamSearch` or `Sampling`.

    Attributes:
        max_length: Most tokens of a hypothesis, EOS not counted; as many as a source may have by
            default, so that the ratio decides.
        max_length_ratio: Target tokens allowed for each source token (plus 10).
        min_length: EOS is not chosen before this many tokens.

    Raises:
        UserError: A value is out of its range.
    """

    max_length: int = 1024
    max_length_ratio: float = 2.0
    min_length: int = 0

    def __post_init__(self) -> None:
        at_least("max_length", self.max_length)
        at_least("min_length", self.min_length, 0)
        between("min_length", self.min_length, 0, self.max_length)
        positive("max_length_ratio", self.max_length_ratio)

    @torch.inference_mode()
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
        if not len(source):
            return []
        limits = self.limits(source, source_mask)
        prefixes = prefixes or [()] * len(source)
        constraints = Constraints(self.min_length, limits, forbidden_ids, prefixes)
        return self._find(model, model.start(source, source_mask), source, constraints)

    @abstractmethod
    def _find(
        self, model: EncoderDecoder, state: Any, source: Tensor, constraints: Constraints
    ) -> list[list[Hypothesis]]:
        """Continues from `start`'s state of a batch of at least one sentence."""

    def limits(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        """Returns how many tokens, EOS aside, each sentence of a batch may have: (B,) int64."""
        if source_mask is None:
            lengths = torch.full((len(source),), source.shape[1], device=source.device)
        else:
            lengths = source_mask.sum(-1)
        share = (lengths.double() * self.max_length_ratio).ceil() + EXTRA_LENGTH
        return share.clamp(min=self.min_length, max=self.max_length).long()


class Constraints:
    """What hypotheses of one batch may be: every search asks before it chooses.

    Attributes:
        limits: (B,) int64, tokens that each sentence may have, EOS aside; as many as its prefix
            has at the least.
    """

    def __init__(
        self,
        min_length: int,
        limits: Tensor,
        forbidden_ids: Sequence[int],
        prefixes: Sequence[Sequence[int]],
    ) -> None:
        device = limits.device
        self._min_length = min_length
        self._never = torch.tensor([PAD, UNK, BOS, *forbidden_ids], device=device)
        self._not_yet = torch.tensor([PAD, UNK, BOS, EOS, *forbidden_ids], device=device)
        longest = max(map(len, prefixes))
        rows = [[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes]
        self._forced = torch.tensor(rows, dtype=torch.long, device=device)  # (B, longest)
        self.limits = torch.maximum(limits, (self._forced != PAD).sum(-1))

    def log_probs(self, logits: Tensor, sentences: Tensor, length: int) -> Tensor:
        """Returns log p of what may follow hypotheses of `length` tokens: (N, V) float32.

        It is -inf where a token may not be chosen; the others are not renormalised.

        Args:
            logits: (N, T, V) of any float type; the last of the T is used.
            sentences: (B',) int64, to which the rows belong in turn; N / B' rows each.
            length: Tokens that the hypotheses have.
        """
        log_probs = logits[:, -1].float().log_softmax(-1)
        forbidden = self._not_yet if length < self._min_length else self._never
        if length >= self._forced.shape[1]:
            return log_probs.index_fill_(-1, forbidden, -math.inf)
        copies = len(logits) // max(1, len(sentences))
        forced = self._forced[sentences, length].repeat_interleave(copies).unsqueeze(-1)
        of_forced = log_probs.gather(1, forced)
        log_probs = log_probs.index_fill_(-1, forbidden, -math.inf)
        only = torch.full_like(log_probs, -math.inf).scatter_(1, forced, of_forced)
        return torch.where(forced != PAD, only, log_probs)


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


def roll_out(
    model: EncoderDecoder,
    state: Any,
    constraints: Constraints,
    choose: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]],
    *,
    num_rows: int = 1,
) -> list[list[Hypothesis]]:
    """Chooses a token a step for every row until all have ended: greedy search and sampling.

    Args:
        model: Any model.
        state: Before the first token, `num_rows` rows for each sentence, side by side.
        constraints: Of the batch.
        choose: From the log-probabilities (N, V) of N rows, their numbers (N,) and the length so
            far, returns those of the tokens that it chooses, and the tokens, (N,) both.
        num_rows: Hypotheses for each sentence.

    Returns:
        The hypotheses of each sentence, as they come; the score is the mean log-probability.
    """
    limits = constraints.limits.repeat_interleave(num_rows)
    device = limits.device
    log_probs = torch.zeros(len(limits), device=device)
    chosen: list[tuple[Tensor, Tensor]] = []  # of every step: rows, their tokens
    rows = torch.arange(len(limits), device=device)  # those still in the batch
    done = torch.zeros(len(limits), dtype=torch.bool, device=device)
    tokens = torch.full((len(limits),), BOS, device=device)
    while len(rows):
        length = len(chosen)
        logits, state = model.step(tokens[:, None], state)
        allowed = constraints.log_probs(logits, rows // num_rows, length)
        best, tokens = choose(allowed, rows, length)
        idle = done | ((limits == length) & (tokens != EOS))
        log_probs[rows] += best.masked_fill(idle, 0.0)
        chosen.append((rows, tokens.masked_fill(idle, PAD)))
        done = idle | (tokens == EOS)
        keep = sentences_to_keep(done)
        if keep is not None:
            state = state.select(keep) if len(keep) else None
            rows, tokens, limits, done = rows[keep], tokens[keep], limits[keep], done[keep]
    table = log_probs.new_full((len(log_probs), len(chosen)), PAD, dtype=torch.long)
    for position, (rows, tokens) in enumerate(chosen):
        table[rows, position] = tokens
    scores = log_probs / (table != PAD).sum(-1)
    hypotheses = list(map(hypothesis, table.tolist(), scores.tolist(), log_probs.tolist()))
    return [hypotheses[i : i + num_rows] for i in range(0, len(hypotheses), num_rows)]


def hypothesis(ids: Sequence[int], score: float, log_prob: float) -> Hypothesis:
    """Reads a row of chosen ids, with EOS where it ended and PAD behind it."""
    tokens = tuple(token for token in ids if token not in (EOS, PAD))
    return Hypothesis(tokens, score, log_prob, finished=EOS in ids)
