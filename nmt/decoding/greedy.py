"""Greedy search: the most probable next token, until EOS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nmt.decoding.search import Constraints, Hypothesis, Search, roll_out
from nmt.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True, kw_only=True)
class GreedySearch(Search):
    """Takes the most probable token at every step; one hypothesis for each sentence.

    The score is the mean log-probability per token, as `BeamSearch` has it by default.
    """

    def _find(
        self, model: EncoderDecoder, state: Any, source: Tensor, constraints: Constraints
    ) -> list[list[Hypothesis]]:
        return roll_out(model, state, constraints, _most_probable)


def _most_probable(log_probs: Tensor, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
    best, tokens = log_probs.max(-1)
    return best, tokens
