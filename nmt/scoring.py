"""Teacher forcing: how probable a model finds a translation that is given to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F

from nmt.data.batch import Batch, collate
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.source_batches import batches_by_length
from nmt.special_tokens import BOS, EOS, PAD
from nmt.tokenizer import Tokenizer

ScoredPair = tuple[str, str | Sequence[int]]


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
    """Returns exp(-log_prob / num_tokens), infinite where that is beyond all numbers."""
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
    """Yields the score of each pair, in order, holding no more than a chunk of them.

    Args:
        model: In eval mode.
        tokenizer: The model's.
        pairs: As `nmt.translator.Translator.score` takes them.
        batch_tokens: Most tokens of a side in a batch, padding and EOS included; a longer pair is
            a batch of its own.
        chunk_size: Pairs read ahead and sorted by length.

    Raises:
        ValueError: An element of `pairs` is no pair, an id cannot be part of a translation, or the
            model's output is not a number.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    pairs = iter(pairs)
    while chunk := list(islice(pairs, chunk_size)):
        if any(isinstance(pair, str) or len(pair) != 2 for pair in chunk):
            raise ValueError("pairs must hold (source, translation) pairs; give a list of them.")
        sources = tokenizer.encode_batch([source for source, _ in chunk])
        targets = [
            tokenizer.encode(target)
            if isinstance(target, str)
            else _checked_ids(target, tokenizer.vocab_size)
            for _, target in chunk
        ]
        scores: dict[int, TranslationScore] = {}
        lengths = [max(len(s), len(t), 1) for s, t in zip(sources, targets, strict=True)]
        for rows in batches_by_length(lengths, batch_tokens):
            batch = collate(
                [{"index": i, "source_ids": sources[i], "target_ids": targets[i]} for i in rows]
            )
            scores.update(zip(rows, score_batch(model, batch.to(device)), strict=True))
        yield from (scores[i] for i in range(len(chunk)))


def _checked_ids(ids: Sequence[int], vocab_size: int) -> list[int]:
    for token in ids:
        if token in (PAD, BOS, EOS) or not 0 <= token < vocab_size:
            raise ValueError(
                f"a translation holds the id {token}: give ids from 0 to {vocab_size - 1}, without "
                f"PAD, BOS and EOS ({PAD}, {BOS}, {EOS})."
            )
    return list(ids)


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
