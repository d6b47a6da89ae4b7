"""The probability of given translations: one teacher-forced pass, nothing is searched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from nmt.checks import UserError
from nmt.data.batch import teacher_forced
from nmt.models.encoder_decoder import EncoderDecoder

Ids = Sequence[int]
NOT_A_NUMBER = (
    "The model's output is not a number: the checkpoint is damaged or its training diverged, use "
    "another one."
)


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
        return perplexity(self.log_prob, len(self.tokens))


def perplexity(log_prob: float, num_tokens: int) -> float:
    """Returns exp(-log_prob / num_tokens), infinite where no float is as large."""
    mean = -log_prob / num_tokens
    return math.exp(mean) if mean < 700 else math.inf


@torch.inference_mode()
def score_batch(model: EncoderDecoder, pairs: Sequence[tuple[Ids, Ids]]) -> list[TranslationScore]:
    """Returns the score of each pair: ids of a source and of its translation, without EOS.

    Raises:
        UserError: The model's output is not a number.
    """
    batch = teacher_forced(pairs, model.device)
    logits = model(batch.source, batch.source_mask, batch.target_in)  # (B, T, V)
    losses = F.cross_entropy(
        logits.flatten(0, 1).float(), batch.target_out.flatten(), reduction="none"
    ).view_as(batch.target_out)
    if bool(losses.isnan().any()):
        raise UserError(NOT_A_NUMBER)
    rows = zip(pairs, batch.target_out.tolist(), (-losses).tolist(), strict=True)
    return [
        TranslationScore(tuple(tokens[: len(target) + 1]), tuple(log_probs[: len(target) + 1]))
        for (_, target), tokens, log_probs in rows
    ]
