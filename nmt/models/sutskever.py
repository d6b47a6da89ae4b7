"""The LSTM encoder-decoder of Sutskever et al. 2014: the source reaches the target as a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from nmt.checks import UserError, at_least, flag, share
from nmt.models.encoder_decoder import Attention, Dropout, EncoderDecoder, State, TiedEmbedding
from nmt.models.memory import without_empty_rows
from nmt.models.recurrent import reverse_sentences, run_recurrent


@dataclass(frozen=True)
class StackedState(State):
    """The states of all layers, (layers, N, C); before the first word those of the encoder.

    Attributes:
        hidden: h.
        cell: c.
    """

    hidden: Tensor
    cell: Tensor

    def select(self, rows: Tensor) -> Self:
        """Repeats or drops sentences (see `State`)."""
        return type(self)(self.hidden.index_select(1, rows), self.cell.index_select(1, rows))

    def reorder(self, rows: Tensor) -> Self:
        """Permutes rows of the same sentence (see `State`)."""
        return self.select(rows)


class StackedEncoderDecoder(EncoderDecoder):
    """Sutskever et al. 2014, section 2: two stacks of LSTMs; one starts where the other ended.

    No word of the target sees the source but through these states. The source is read from its
    end (section 3.3), so that its first words are near the first words of the target.

    Args:
        vocab_size: V, of the joint vocabulary.
        width: D, of the embedding.
        hidden: C, of every layer.
        layers: in each of the two stacks.
        dropout: on the embeddings, between layers and on the readout.
        reverse_source: read the source from its end.

    Raises:
        UserError: An option is out of its range.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        width: int,
        hidden: int,
        layers: int,
        dropout: float,
        reverse_source: bool,
    ) -> None:
        super().__init__()
        at_least("vocab_size", vocab_size)
        at_least("width", width)
        at_least("hidden", hidden)
        at_least("layers", layers)
        share("dropout", dropout)
        flag("reverse_source", reverse_source)
        self.reverse_source = reverse_source
        self.embedding = TiedEmbedding(vocab_size, width)
        between = dropout if layers > 1 else 0.0  # one layer has nothing to drop between
        self.encoder = nn.LSTM(width, hidden, layers, batch_first=True, dropout=between)
        self.decoder = nn.LSTM(width, hidden, layers, batch_first=True, dropout=between)
        self.readout = nn.Linear(hidden, width)
        self.dropout = Dropout(dropout)

    def start(self, source: Tensor, source_mask: Tensor | None) -> StackedState:
        """Reads the source once (see `EncoderDecoder`)."""
        mask = without_empty_rows(source_mask)
        inputs = self.dropout(self.embedding(source))
        if self.reverse_source:
            inputs = reverse_sentences(inputs, mask)
        if mask is not None:  # the state after the last token, not after the fillers
            lengths = mask.sum(1).cpu()
            inputs = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, cell) = run_recurrent(self.encoder, inputs)
        return StackedState(hidden, cell)

    def step(self, tokens: Tensor, state: StackedState) -> tuple[Tensor, StackedState]:
        """Reads one or more target tokens (see `EncoderDecoder`)."""
        embedded = self.dropout(self.embedding(tokens))
        states, (hidden, cell) = run_recurrent(self.decoder, embedded, (state.hidden, state.cell))
        logits = self.embedding.logits(self.dropout(self.readout(states)))
        return logits, StackedState(hidden, cell)

    def attention(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> Attention:
        """Has none.

        Raises:
            UserError: Always.
        """
        raise UserError("this model has no attention to show; use model=bahdanau")
