"""Teacher forcing: how probable a model finds a translation that is given to it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from nmt.data.batch import Batch
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.special_tokens import PAD


@dataclass(frozen=True)
class TranslationScore:
    """The probability of one given translation.

    Attributes:
        tokens: Its ids, EOS last.
        token_log_probs: Natural logarithm of p(token | source, the tokens before), one for each.
    """

    tokens: tuple[int, ...]
    token_log_probs: tuple[float, ...]

    @property
    def log_prob(self) -> float:
        """Natural logarithm of p(tokens | source): the sum over all of them."""
        return math.fsum(self.token_log_probs)

    @property
    def perplexity(self) -> float:
        """The exponential of the mean negative log-probability of a token, EOS counted."""
        mean = -self.log_prob / len(self.tokens)
        return math.exp(mean) if mean < 700 else math.inf


@torch.inference_mode()
def score_batch(model: EncoderDecoder, batch: Batch) -> list[TranslationScore]:
    """Returns the score of each pair of a batch, in its order.

    Raises:
        ValueError: The model's output is not a number.
    """
    logits = model(batch.source, batch.source_mask, batch.target_in)  # (B, T, V)
    losses = F.cross_entropy(
        logits.flatten(0, 1).float(), batch.target_out.flatten(), reduction="none"
    ).view_as(batch.target_out)
    if bool(losses.isnan().any()):
        raise ValueError(
            "The model's output is not a number: the checkpoint is damaged or its training "
            "diverged, use another one."
        )
    lengths = (batch.target_out != PAD).sum(-1).tolist()
    rows = zip(batch.target_out.tolist(), (-losses).tolist(), lengths, strict=True)
    return [
        TranslationScore(tuple(tokens[:length]), tuple(log_probs[:length]))
        for tokens, log_probs, length in rows
    ]
