"""The best hypotheses of every sentence so far, in tensors, best first."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.decoding.hypothesis import Hypothesis
from nmt.special_tokens import BOS, EOS, PAD


class BestList:
    """Ended hypotheses compete here for a few places; whoever is in keeps its score.

    Args:
        num_sentences: B.
        num_places: Hypotheses kept for each sentence.
        device: Where the tensors live.

    Attributes:
        scores: (B, num_places) float32, falling, -inf where a place is free.
    """

    def __init__(self, num_sentences: int, num_places: int, device: torch.device) -> None:
        shape = (num_sentences, num_places)
        self.scores = torch.full(shape, -math.inf, device=device)
        self._log_probs = torch.full(shape, -math.inf, device=device)
        self._prefixes = torch.full((*shape, 1), BOS, device=device)  # (B, places, 1 + longest)

    def add(self, sentences: Tensor, prefixes: Tensor, log_probs: Tensor, scores: Tensor) -> None:
        """Lets hypotheses compete for a place; a score of -inf never gets one.

        Args:
            sentences: (B',) int64, the sentences that the rows of the rest belong to.
            prefixes: (B', beam, 1 + length) int64, BOS and tokens; at least as long as all before.
            log_probs: (B', beam).
            scores: (B', beam).
        """
        missing = prefixes.shape[-1] - self._prefixes.shape[-1]
        self._prefixes = F.pad(self._prefixes, (0, missing), value=PAD)
        all_scores = torch.cat([self.scores[sentences], scores], 1)
        all_log_probs = torch.cat([self._log_probs[sentences], log_probs], 1)
        all_prefixes = torch.cat([self._prefixes[sentences], prefixes], 1)
        self.scores[sentences], winners = all_scores.topk(self.scores.shape[1], 1)
        self._log_probs[sentences] = all_log_probs.gather(1, winners)
        self._prefixes[sentences] = take(all_prefixes, winners)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Returns those who have a place, for each sentence."""
        places = zip(
            self._prefixes.tolist(), self.scores.tolist(), self._log_probs.tolist(), strict=True
        )
        return [
            [
                _hypothesis(prefix, score, log_prob)
                for prefix, score, log_prob in zip(*sentence, strict=True)
                if score != -math.inf
            ]
            for sentence in places
        ]


def take(prefixes: Tensor, places: Tensor) -> Tensor:
    """Takes prefixes[b, places[b, i]]: (B, beam, length) and (B, beam') to (B, beam', length)."""
    return prefixes.gather(1, places.unsqueeze(-1).expand(-1, -1, prefixes.shape[-1]))


def _hypothesis(prefix: list[int], score: float, log_prob: float) -> Hypothesis:
    tokens = tuple(token for token in prefix[1:] if token not in (EOS, PAD))
    return Hypothesis(tokens, score, log_prob, finished=EOS in prefix)
