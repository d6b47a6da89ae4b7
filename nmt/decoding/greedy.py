"""Greedy search: the most probable next token, until EOS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.decoding.search import Constraints, Hypothesis, NextTokens, check_limits, roll_out
from nmt.models.encoder_decoder import EncoderDecoder


@dataclass(frozen=True, kw_only=True)
class GreedySearch:
    """Takes the most probable token at every step; one hypothesis for each sentence.

    The score is the mean log-probability per token, as `BeamSearch` has it by default.
    Definitions of length, limit and score: `nmt.decoding.search`.

    Attributes:
        max_length: Most tokens of a hypothesis, EOS not counted.
        max_length_ratio: Target tokens allowed for each source token (plus 10).
        min_length: EOS is not chosen before this many tokens.

    Raises:
        UserError: A value is out of its range.
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
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Translates a batch; see `nmt.decoding.search.Search`."""
        if not len(source):
            return []
        constraints = Constraints(
            self, source, source_mask, forbidden_ids=forbidden_ids, prefixes=prefixes
        )
        state = model.start(source, source_mask)
        return roll_out(model, state, constraints, _most_probable, num_rows=1)


def _most_probable(next_tokens: NextTokens, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
    log_probs, tokens = next_tokens.best(1)
    return log_probs.squeeze(-1), tokens.squeeze(-1)
