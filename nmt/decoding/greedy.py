"""Greedy search: the most probable next token, until EOS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.decoding.hypothesis import (
    Hypothesis,
    check_limits,
    length_limits,
    never_emitted,
    next_log_probs,
    penalised,
    sentences_to_keep,
)
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.special_tokens import BOS, EOS, PAD


@dataclass(frozen=True, kw_only=True)
class GreedySearch:
    """Takes the most probable token at every step; one hypothesis for each sentence.

    The score is the mean log-probability per token, as `BeamSearch` has it by default.
    Definitions of length, limit and score: `nmt.decoding.hypothesis`.

    Attributes:
        max_length: Most tokens of a hypothesis, EOS not counted.
        max_length_ratio: Target tokens allowed for each source token (plus 10).
        min_length: EOS is not chosen before this many tokens.

    Raises:
        ValueError: A value is out of its range.
    """

    max_length: int = 256
    max_length_ratio: float = 2.0
    min_length: int = 0

    def __post_init__(self) -> None:
        check_limits(self)

    @torch.inference_mode()
    def __call__(
        self,
        model: EncoderDecoder,
        source: Tensor,
        source_mask: Tensor | None,
        *,
        forbidden_ids: Sequence[int] = (),
    ) -> list[list[Hypothesis]]:
        """Translates a batch; see `nmt.decoding.hypothesis.Search`."""
        device, num_sentences = source.device, len(source)
        never = never_emitted(forbidden_ids, and_eos=False, device=device)
        not_yet = never_emitted(forbidden_ids, and_eos=True, device=device)
        limits = length_limits(self, source, source_mask)
        log_probs = torch.zeros(num_sentences, device=device)
        chosen: list[tuple[Tensor, Tensor]] = []  # of every step: sentences, their tokens
        sentences = torch.arange(num_sentences, device=device)  # those still in the batch
        done = torch.zeros(num_sentences, dtype=torch.bool, device=device)
        tokens = torch.full((num_sentences,), BOS, device=device)
        state = model.start(source, source_mask) if num_sentences else None
        while len(sentences):
            logits, state = model.step(tokens[:, None], state)
            forbidden = not_yet if len(chosen) < self.min_length else never
            best, tokens = next_log_probs(logits, forbidden).max(-1)
            cut = (limits == len(chosen)) & (tokens != EOS)
            idle = done | cut
            log_probs[sentences] += best.masked_fill(idle, 0.0)
            chosen.append((sentences, tokens.masked_fill(idle, PAD)))
            done = idle | (tokens == EOS)
            keep = sentences_to_keep(done)
            if keep is not None:
                state = state.select(keep) if len(keep) else None
                sentences, tokens, limits = sentences[keep], tokens[keep], limits[keep]
                done = done[keep]
        return _hypotheses(log_probs, chosen)


def _hypotheses(
    log_probs: Tensor, chosen: Sequence[tuple[Tensor, Tensor]]
) -> list[list[Hypothesis]]:
    """Collects the tokens that each step chose for each sentence."""
    table = log_probs.new_full((len(log_probs), len(chosen)), PAD, dtype=torch.long)
    for position, (sentences, tokens) in enumerate(chosen):
        table[sentences, position] = tokens
    lengths = (table != PAD).sum(-1)
    scores = penalised(log_probs, lengths, 1.0)
    answers = zip(
        table.tolist(), lengths.tolist(), scores.tolist(), log_probs.tolist(), strict=True
    )
    return [
        [_hypothesis(tokens[:length], score, log_prob)]
        for tokens, length, score, log_prob in answers
    ]


def _hypothesis(tokens: Sequence[int], score: float, log_prob: float) -> Hypothesis:
    finished = tokens[-1] == EOS
    return Hypothesis(tuple(tokens[:-1] if finished else tokens), score, log_prob, finished)
