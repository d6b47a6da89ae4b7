"""Tells two languages apart: a bidirectional LSTM, attention pooling, one number.

The attention is that of the Bahdanau model, outside translation: instead of a decoder state, the
final state of the reader itself asks the words how much each has to say about the language.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.models.attention import AdditiveAttention, additive_attention
from nmt.models.recurrent import reverse_sentences


class LanguageClassifier(nn.Module):
    """Reads lines of words, each the mean of the embeddings of its character n-grams.

    B lines, S words in the longest, W words in all, G n-grams in all, D width, M = 2 x hidden.

    Args:
        num_buckets: rows of the table of n-grams, which are hashed: there is no unknown word.
        width: D, of the embeddings.
        hidden: of each direction.
        attention_dim: A.
    """

    def __init__(self, *, num_buckets: int, width: int, hidden: int, attention_dim: int) -> None:
        super().__init__()
        self.num_buckets = num_buckets
        self.hyper_parameters = {
            "num_buckets": num_buckets,
            "width": width,
            "hidden": hidden,
            "attention_dim": attention_dim,
        }
        self.embedding = nn.EmbeddingBag(num_buckets, width, mode="mean")
        self.ahead = nn.LSTM(width, hidden, batch_first=True)
        self.back = nn.LSTM(width, hidden, batch_first=True)
        self.alignment = AdditiveAttention(
            query_width=2 * hidden, memory_width=2 * hidden, attention_dim=attention_dim
        )
        self.output = nn.Linear(2 * hidden, 1)

    def forward(self, ngrams: Tensor, starts: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Weighs the words of each line and judges their weighted mean.

        Args:
            ngrams: (G,) the n-grams of all words, word after word, line after line.
            starts: (W,) where in `ngrams` each word begins.
            mask: (B, S) bool, true where there is a word; no empty row, fillers behind.

        Returns:
            log p(second language) / p(first language) (B,), and the attention weights (B, S).
        """
        words = self.embedding(ngrams, starts)  # (W, D)
        embedded = words.new_zeros(*mask.shape, words.shape[-1])
        embedded[mask] = words  # (B, S, D)
        ahead, _ = self.ahead(embedded)
        back, _ = self.back(reverse_sentences(embedded, mask))
        memory = torch.cat([ahead, reverse_sentences(back, mask)], -1)  # h_j (B, S, M)
        rows, last = torch.arange(len(mask), device=mask.device), mask.sum(1) - 1
        final = torch.cat([ahead[rows, last], back[rows, last]], -1)  # (B, M)
        weights = additive_attention(
            self.alignment.query(final), self.alignment.key(memory), self.alignment.v, mask
        )
        context = (weights.unsqueeze(1) @ memory).squeeze(1)  # sum_j alpha_j h_j (B, M)
        return self.output(context).squeeze(-1), weights
