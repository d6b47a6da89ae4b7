"""The probability of given translations: one teacher-forced pass, nothing is searched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F

from nmt import BOS, EOS, PAD
from nmt.checks import UserError
from nmt.data.batch import batches_by_length, teacher_forced
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer

NOT_A_NUMBER = (
    "The model's output is not a number: the checkpoint is damaged or its training diverged, use "
    "another one."
)
ScoredPair = tuple[str, str | Sequence[int]]  # a source, and a translation as text or as ids


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


def stream_scores(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    pairs: Iterable[ScoredPair],
    *,
    batch_tokens: int,
    chunk_size: int,
) -> Iterator[TranslationScore]:
    """Yields the score of each pair, in order; see `nmt.translator.Translator.stream_scores`."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, chunk_size)):
        if any(isinstance(pair, str) or len(pair) != 2 for pair in chunk):
            raise UserError("pairs must hold (source, translation) pairs; give a list of them.")
        sources = tokenizer.encode_batch([source for source, _ in chunk])
        targets = [_target_ids(tokenizer, target) for _, target in chunk]
        ids = list(zip(sources, targets, strict=True))
        scores: dict[int, TranslationScore] = {}
        lengths = [max(len(source), len(target), 1) for source, target in ids]
        for rows in batches_by_length(lengths, batch_tokens):
            scores.update(zip(rows, _score(model, [ids[row] for row in rows]), strict=True))
        yield from (scores[row] for row in range(len(chunk)))


def _target_ids(tokenizer: Tokenizer, target: str | Sequence[int]) -> Sequence[int]:
    if isinstance(target, str):
        return tokenizer.encode(target)
    for token in target:
        if token in (PAD, BOS, EOS) or not 0 <= token < tokenizer.vocab_size:
            raise UserError(
                f"a translation holds the id {token}: give ids from 0 to "
                f"{tokenizer.vocab_size - 1}, without PAD, BOS and EOS ({PAD}, {BOS}, {EOS})."
            )
    return target


@torch.inference_mode()
def _score(
    model: EncoderDecoder, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> list[TranslationScore]:
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
