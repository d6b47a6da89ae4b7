"""Beam search: the most probable hypotheses of every length, for all sentences at once.

Each step extends the live hypotheses of a sentence by one token and keeps the `beam_size` most
probable results. They all have the same length, so the length penalty has no part in what is
kept. Those that end in EOS are frozen in the sentence's `BestList`, ranked by score; the others
live on. With `beam_size` 1 this is greedy search, whatever the penalty.

A sentence is done when no live hypothesis can enter its list any more. A log-probability only
falls, so a hypothesis scores at most what it has now, at the length that favours it most: the
longest possible where the penalty is not negative, the next one where it is. Stopping then never
changes the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt import BOS, EOS, PAD
from nmt.checks import at_least, between, positive
from nmt.decoding.search import Constraints, Hypothesis, Search, hypothesis, sentences_to_keep
from nmt.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True, kw_only=True)
class BeamSearch(Search):
    """Returns the hypotheses with the best scores among the most probable of every length.

    Attributes:
        beam_size: Hypotheses kept at every step.
        length_penalty: Exponent of the length that log-probabilities are divided by.
        num_hypotheses: How many to return, at most `beam_size`; fewer come back only where
            there are no more.
        patience: Stop when `patience * beam_size` hypotheses have ended (Kasai et al. 2022);
            null: only when none that still lives can become better, which is exact.
    """

    beam_size: int = 5
    length_penalty: float = 1.0
    num_hypotheses: int = 1
    patience: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("beam_size", self.beam_size)
        # a length of ten million to the power of 5 is still a number in fp32
        between("length_penalty", self.length_penalty, -5, 5)
        at_least("num_hypotheses", self.num_hypotheses)
        between("num_hypotheses", self.num_hypotheses, 1, self.beam_size)
        if self.patience is not None:
            positive("patience", self.patience)

    def _find(
        self, model: EncoderDecoder, state: Any, source: Tensor, constraints: Constraints
    ) -> list[list[Hypothesis]]:
        shape = (len(source), self.num_hypotheses)
        finished = BestList(shape, self.length_penalty, source.device)
        cut = BestList(shape, self.length_penalty, source.device)
        enough = math.inf if self.patience is None else self.patience * self.beam_size
        beam = _first_beam(constraints.limits)
        while True:
            logits, state = model.step(beam.prefixes[..., -1].reshape(-1, 1), state)
            log_probs = constraints.log_probs(logits, beam.sentences, beam.length)
            longer, parents = _best_extensions(beam, log_probs, self.beam_size)
            longer = self._freeze(beam, longer, parents, finished, cut)
            done = self._attainable(longer) <= finished.scores[longer.sentences, -1]
            done |= finished.num_added[longer.sentences] >= enough
            done |= longer.limits < longer.length  # though a model that gives NaN is never done
            keep = sentences_to_keep(done)
            if keep is not None and not len(keep):
                break
            state = _follow(state, beam, parents, keep)
            beam = longer.without(done.unsqueeze(-1)).select(keep)
        return [
            (ended + unended)[: self.num_hypotheses]
            for ended, unended in zip(finished.hypotheses(), cut.hypotheses(), strict=True)
        ]

    def _freeze(
        self, beam: _Beam, longer: _Beam, parents: Tensor, finished: BestList, cut: BestList
    ) -> _Beam:
        """Lists what ends with this step; returns `longer` with the live hypotheses only.

        Those of `longer` that end in EOS are `finished`. Those of `beam` that are at their limit
        and have no extension (by `parents`, as `_best_extensions` has it) that ends are `cut`.
        """
        if beam.length < self.min_length:  # then nothing ends
            return longer
        ended = longer.prefixes[..., -1] == EOS
        finished.add(longer, ended)
        if beam.length < beam.lowest_limit:
            return longer.without(ended)
        at_limit = (beam.limits == beam.length).unsqueeze(-1)
        possible = (ended & longer.log_probs.isfinite()).float()
        num_ended = torch.zeros_like(beam.log_probs).scatter_add(1, parents, possible)
        cut.add(beam, at_limit & (num_ended == 0))
        return longer.without(ended | at_limit)

    def _attainable(self, beam: _Beam) -> Tensor:
        """Returns a bound on the scores of all that can become of a beam: (B,)."""
        most, least = beam.limits + 1, beam.length + 1  # tokens to come to, EOS counted
        length = most if self.length_penalty >= 0 else least
        return beam.log_probs.amax(-1) / length**self.length_penalty


@dataclass(frozen=True)
class _Beam:
    """Hypotheses of one length.

    Attributes:
        sentences: (B,) int64, which sentences these are.
        limits: (B,) int64, tokens that they may have, EOS aside.
        lowest_limit: The lowest of the limits, known to the host.
        prefixes: (B, beam, 1 + length) int64, BOS and the tokens.
        log_probs: (B, beam) float32, -inf where there is no live hypothesis.
    """

    sentences: Tensor
    limits: Tensor
    lowest_limit: int
    prefixes: Tensor
    log_probs: Tensor

    @property
    def length(self) -> int:
        return self.prefixes.shape[-1] - 1

    def without(self, which: Tensor) -> _Beam:
        """Takes hypotheses out: (B, beam) or (B, 1), true where they go."""
        return replace(self, log_probs=self.log_probs.masked_fill(which, -math.inf))

    def select(self, rows: Tensor | None) -> _Beam:
        """Keeps only some sentences; None keeps all."""
        if rows is None:
            return self
        limits = self.limits[rows]
        return _Beam(
            self.sentences[rows],
            limits,
            int(limits.min()),
            self.prefixes[rows],
            self.log_probs[rows],
        )


def _first_beam(limits: Tensor) -> _Beam:
    """Returns one hypothesis without tokens for each sentence."""
    prefixes = torch.full((len(limits), 1, 1), BOS, device=limits.device)
    log_probs = torch.zeros((len(limits), 1), device=limits.device)
    sentences = torch.arange(len(limits), device=limits.device)
    return _Beam(sentences, limits, int(limits.min()), prefixes, log_probs)


def _best_extensions(beam: _Beam, log_probs: Tensor, beam_size: int) -> tuple[_Beam, Tensor]:
    """Chooses the most probable one-token extensions of each sentence's hypotheses.

    They are among the `beam_size` best of each hypothesis.

    Args:
        beam: The hypotheses.
        log_probs: (B beam, V), of the next token of each.
        beam_size: How many to choose, as far as there are that many.

    Returns:
        The extensions, most probable first, and the place of each one's parent (B, beam').
    """
    num_sentences = len(beam.sentences)
    count = min(beam_size, log_probs.shape[-1])
    best, ids = log_probs.topk(count, -1)
    log_probs = (best + beam.log_probs.reshape(-1, 1)).view(num_sentences, -1)
    log_probs, chosen = log_probs.topk(min(beam_size, log_probs.shape[-1]), -1)
    parents = chosen // count
    tokens = ids.view(num_sentences, -1).gather(1, chosen)
    prefixes = torch.cat([take(beam.prefixes, parents), tokens.unsqueeze(-1)], -1)
    return replace(beam, prefixes=prefixes, log_probs=log_probs), parents


def _follow(state: Any, beam: _Beam, parents: Tensor, keep: Tensor | None) -> Any:
    """Gives each extension the state of its parent, for the sentences to `keep` (None: all)."""
    num_sentences, beam_size = beam.log_probs.shape
    rows = parents + beam_size * torch.arange(num_sentences, device=parents.device).unsqueeze(-1)
    if keep is None and parents.shape == beam.log_probs.shape:
        return state.reorder(rows.flatten())
    return state.select((rows if keep is None else rows[keep]).flatten())


class BestList:
    """The best hypotheses of every sentence so far, best first: a few places to compete for.

    Attributes:
        scores: `shape`, (B, places) float32, falling, -inf where a place is free.
        num_added: (B,) int64, how many have competed.
    """

    def __init__(self, shape: tuple[int, int], length_penalty: float, device: torch.device) -> None:
        self.scores = torch.full(shape, -math.inf, device=device)
        self.num_added = torch.zeros(shape[0], dtype=torch.long, device=device)
        self._length_penalty = length_penalty
        self._log_probs = torch.full(shape, -math.inf, device=device)
        self._prefixes = torch.full((*shape, 1), BOS, device=device)  # (B, places, 1 + longest)

    def add(self, beam: _Beam, which: Tensor) -> None:
        """Lets hypotheses, true in `which` (B', beam), compete; none is shorter than any before."""
        sentences = beam.sentences
        scores = beam.log_probs / beam.length**self._length_penalty
        scores = scores.masked_fill(~which, -math.inf)
        self.num_added[sentences] += scores.isfinite().sum(1)
        missing = beam.prefixes.shape[-1] - self._prefixes.shape[-1]
        self._prefixes = F.pad(self._prefixes, (0, missing), value=PAD)
        all_scores = torch.cat([self.scores[sentences], scores], 1)
        all_log_probs = torch.cat([self._log_probs[sentences], beam.log_probs], 1)
        all_prefixes = torch.cat([self._prefixes[sentences], beam.prefixes], 1)
        self.scores[sentences], winners = all_scores.topk(self.scores.shape[1], 1)
        self._log_probs[sentences] = all_log_probs.gather(1, winners)
        self._prefixes[sentences] = take(all_prefixes, winners)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Returns those who have a place, for each sentence."""
        rows = zip(
            self._prefixes[..., 1:].tolist(),
            self.scores.tolist(),
            self._log_probs.tolist(),
            strict=True,
        )
        return [[one for one in map(hypothesis, *row) if one.score != -math.inf] for row in rows]


def take(prefixes: Tensor, places: Tensor) -> Tensor:
    """Takes prefixes[b, places[b, i]]: (B, beam, length) and (B, beam') to (B, beam', length)."""
    return prefixes.gather(1, places.unsqueeze(-1).expand(-1, -1, prefixes.shape[-1]))
