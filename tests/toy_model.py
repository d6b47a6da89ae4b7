"""A model whose next-token probabilities are a table, so that searches can be checked by hand."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from nmt import EOS
from nmt.models.encoder_decoder import Attention, EncoderDecoder, State

A, B, C = 4, 5, 6
VOCAB_SIZE = 7


@dataclass(frozen=True)
class ToyState(State):
    keys: Tensor  # (N,) what the source says
    prefixes: Tensor  # (N, tokens so far)

    def select(self, rows: Tensor) -> Self:
        return ToyState(self.keys[rows], self.prefixes[rows])

    def reorder(self, rows: Tensor) -> Self:
        assert rows.shape == self.keys.shape
        assert torch.equal(self.keys[rows], self.keys), "rows of another sentence"
        return ToyState(self.keys, self.prefixes[rows])


class ToyModel(EncoderDecoder):
    """Looks p(next | source, prefix) up; the first source token is all of the source it knows."""

    def __init__(self, table=None):
        super().__init__()
        self.table = table or {}  # (key, prefix): {token: probability}; else random
        self.rows_read = 0

    def start(self, source, source_mask):
        return ToyState(source[:, 0], source[:, :0])

    def step(self, tokens, state):
        self.rows_read += len(tokens)
        prefixes = torch.cat([state.prefixes, tokens], -1)
        rows = [
            self.log_probs(key, tuple(prefix[1:]))
            for key, prefix in zip(state.keys.tolist(), prefixes.tolist(), strict=True)
        ]
        return torch.stack(rows).unsqueeze(1), ToyState(state.keys, prefixes)

    def log_probs(self, key, prefix):
        if (key, prefix) in self.table:
            probabilities = torch.zeros(VOCAB_SIZE)
            for token, probability in self.table[key, prefix].items():
                probabilities[token] = probability
            return probabilities.log()
        generator = torch.Generator().manual_seed(hash((key, prefix)) % 2**32)
        return (1.5 * torch.randn(VOCAB_SIZE, generator=generator)).log_softmax(-1)

    def attention(self, source, source_mask, target_in) -> Attention:
        raise ValueError

    def log_prob(self, key, tokens):
        """Of tokens, which may end in EOS."""
        return sum(float(self.log_probs(key, tokens[:i])[token]) for i, token in enumerate(tokens))


def sources(*keys):
    return torch.tensor([[key, EOS] for key in keys])
