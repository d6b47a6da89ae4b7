"""Writes one hypothesis a row until EOS: what greedy search and sampling share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nmt.decoding.constraints import Constraints
from nmt.decoding.hypothesis import Hypothesis, penalised, sentences_to_keep
from nmt.decoding.next_tokens import NextTokens
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.special_tokens import BOS, EOS, PAD

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
