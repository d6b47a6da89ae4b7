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

What a search may not do for a batch: exceed limits, emit forbidden ids, leave a given prefix.

What may come next: the distributions of one step, and what a search is allowed to take.

Writes one hypothesis a row until EOS: what greedy search and sampling share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from nmt.checks import UserError, at_least, positive
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.special_tokens import BOS, EOS, PAD, UNK

MOST_PENALTY = 5  # a length of ten million to that power is still a number in fp32
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
        UserError: One sentence with the name, the value and what is expected.
    """
    at_least("max_length", search.max_length)
    at_least("min_length", search.min_length, 0)
    if search.max_length > _MOST_TOKENS:
        raise UserError(
            f"max_length is {search.max_length}, but it must not exceed {_MOST_TOKENS}."
        )
    if search.min_length > search.max_length:
        raise UserError(
            f"min_length is {search.min_length}, but it must not exceed max_length, "
            f"{search.max_length}."
        )
    positive("max_length_ratio", search.max_length_ratio)


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
        UserError: EOS is among the forbidden ids, so that no hypothesis could end.
    """
    if EOS in forbidden_ids:
        raise UserError(f"forbidden_ids holds {EOS}, EOS, without which no hypothesis can end.")
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


class Constraints:
    """The rules of one call of a search; every search asks them before it chooses.

    Args:
        search: Its length limits.
        source: (B, S) int64.
        source_mask: (B, S) bool, or None.
        forbidden_ids: Ids never to emit unless a prefix has them.
        prefixes: For each sentence the tokens that its hypotheses begin with, of any lengths;
            None for no prefixes.

    Attributes:
        limits: (B,) int64, tokens that each sentence may have, EOS aside: what `length_limits`
            says, but as many as its prefix has.

    Raises:
        UserError: A prefix holds a special id, there is not one for each sentence, or EOS is
            forbidden.
    """

    def __init__(
        self,
        search: LengthLimited,
        source: Tensor,
        source_mask: Tensor | None,
        *,
        forbidden_ids: Sequence[int],
        prefixes: Sequence[Sequence[int]] | None,
    ) -> None:
        device = source.device
        self._never = never_emitted(forbidden_ids, and_eos=False, device=device)
        self._not_yet = never_emitted(forbidden_ids, and_eos=True, device=device)
        self._min_length = search.min_length
        self._forced = _table(prefixes or [()] * len(source), len(source), device)
        self.limits = torch.maximum(
            length_limits(search, source, source_mask), (self._forced != PAD).sum(-1)
        )

    def next_tokens(self, logits: Tensor, sentences: Tensor, length: int) -> NextTokens:
        """Returns what may follow hypotheses of `length` tokens.

        Args:
            logits: (N, T, V) of any float type; the last of the T is used.
            sentences: (B',) int64, to which the rows belong in turn; N / B' rows each.
            length: Tokens that the hypotheses have.

        Raises:
            UserError: No token is left to choose.
        """
        forbidden = self._not_yet if length < self._min_length else self._never
        vocab_size = logits.shape[-1]
        if len(forbidden) >= vocab_size:
            raise UserError(
                f"All {vocab_size} ids of the vocabulary are forbidden at a step: "
                "allow at least one besides EOS."
            )
        forced = None
        if length < self._forced.shape[1]:
            forced = self._forced[sentences, length]
            forced = forced.repeat_interleave(len(logits) // max(1, len(sentences)))
        return NextTokens(logits[:, -1].float(), forbidden, forced)


def _table(prefixes: Sequence[Sequence[int]], num_sentences: int, device: torch.device) -> Tensor:
    """Returns the tokens of the prefixes and PAD after them, (B, longest)."""
    if len(prefixes) != num_sentences:
        raise UserError(
            f"There are {len(prefixes)} prefixes for {num_sentences} sentences: "
            "give one for each, an empty one where nothing is forced."
        )
    for prefix in prefixes:
        special = {PAD, BOS, EOS}.intersection(prefix)
        if special:
            raise UserError(
                f"A prefix holds the special id {min(special)}: leave special ids out of prefixes."
            )
    longest = max(map(len, prefixes), default=0)
    rows = [[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes]
    return torch.tensor(rows, dtype=torch.long, device=device).view(num_sentences, longest)


_GROUP = 32  # neighbouring ids that `largest` sees as one at first


@dataclass(frozen=True)
class NextTokens:
    """The next token of N hypotheses.

    Attributes:
        logits: (N, V) float32.
        forbidden: (F,) int64, ids that may not be chosen. The distribution is not renormalised
            without them.
        forced: (N,) int64, the token that must be chosen, forbidden or not; PAD where the model
            may choose, and None where it may for all.
    """

    logits: Tensor
    forbidden: Tensor
    forced: Tensor | None = None

    def best(self, count: int) -> tuple[Tensor, Tensor]:
        """Returns the log-probabilities and ids of the most probable tokens, (N, count) both.

        Best first, -inf where there are no more to choose.
        """
        return largest(self.log_probs(), count)

    def log_probs(self) -> Tensor:
        """Returns log p of all tokens, -inf where one may not be chosen: (N, V) float32."""
        log_probs = self.logits.log_softmax(-1)
        if self.forced is None:
            return log_probs.index_fill_(-1, self.forbidden, -math.inf)
        forced = self.forced[:, None]
        of_forced = log_probs.gather(1, forced)
        log_probs = log_probs.index_fill_(-1, self.forbidden, -math.inf)
        only = torch.full_like(log_probs, -math.inf).scatter_(1, forced, of_forced)
        return torch.where(forced != PAD, only, log_probs)


def largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the largest entries of each row, falling, and their places: `x.topk(count)`, sooner.

    The `count` largest lie in the `count` groups of columns with the largest maxima, and maxima
    of groups cost a single pass; `topk` copies every entry with its place.

    Args:
        x: (N, V).
        count: At most V.
    """
    num_groups = x.shape[1] // _GROUP
    if num_groups <= 2 * count:
        return x.topk(count, -1)
    maxima = x[:, : num_groups * _GROUP].view(-1, num_groups, _GROUP).amax(-1)
    groups = maxima.topk(count, -1).indices
    places = (groups[..., None] * _GROUP + torch.arange(_GROUP, device=x.device)).flatten(1)
    rest = torch.arange(num_groups * _GROUP, x.shape[1], device=x.device)
    places = torch.cat([places, rest.expand(len(x), -1)], -1)
    values, winners = x.gather(1, places).topk(count, -1)
    return values, places.gather(1, winners)


Choose = Callable[[NextTokens, Tensor, int], tuple[Tensor, Tensor]]


def roll_out(
    model: EncoderDecoder,
    state: Any,
    constraints: Constraints,
    choose: Choose,
    *,
    num_rows: int,
) -> list[list[Hypothesis]]:
    """Chooses a token a step for every row; rows that are done leave the batch.

    Args:
        model: Any model.
        state: Before the first token, `num_rows` rows for each sentence, side by side.
        constraints: Of the batch.
        choose: From the next tokens of N rows, their numbers (N,) and the length so far, returns
            log-probabilities and tokens, (N,) both.
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
        next_tokens = constraints.next_tokens(logits, rows // num_rows, length)
        best, tokens = choose(next_tokens, rows, length)
        idle = done | ((limits == length) & (tokens != EOS))
        log_probs[rows] += best.masked_fill(idle, 0.0)
        chosen.append((rows, tokens.masked_fill(idle, PAD)))
        done = idle | (tokens == EOS)
        keep = sentences_to_keep(done)
        if keep is not None:
            state = state.select(keep) if len(keep) else None
            rows, tokens, limits, done = rows[keep], tokens[keep], limits[keep], done[keep]
    hypotheses = _hypotheses(log_probs, chosen)
    return [hypotheses[i : i + num_rows] for i in range(0, len(hypotheses), num_rows)]


def _hypotheses(log_probs: Tensor, chosen: Sequence[tuple[Tensor, Tensor]]) -> list[Hypothesis]:
    """Collects the tokens that each step chose for each row."""
    table = log_probs.new_full((len(log_probs), len(chosen)), PAD, dtype=torch.long)
    for position, (rows, tokens) in enumerate(chosen):
        table[rows, position] = tokens
    lengths = (table != PAD).sum(-1)
    scores = penalised(log_probs, lengths, 1.0)
    answers = zip(
        table.tolist(), lengths.tolist(), scores.tolist(), log_probs.tolist(), strict=True
    )
    return [
        _hypothesis(tokens[:length], score, log_prob) for tokens, length, score, log_prob in answers
    ]


def _hypothesis(tokens: Sequence[int], score: float, log_prob: float) -> Hypothesis:
    finished = tokens[-1:] == [EOS]
    return Hypothesis(tuple(tokens[:-1] if finished else tokens), score, log_prob, finished)
