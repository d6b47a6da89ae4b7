"""The recurrent encoder-decoder; its context is one constant vector, or Bahdanau's attention.

Both are one network and differ in the context alone, so that what attention buys can be measured:
a bidirectional GRU reads the source, a GRU fed with [word; context] writes the target, and the
words come from a readout of state, context and word.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.checks import UserError, at_least, one_of, share
from nmt.models.attention import AdditiveAttention, additive_attention
from nmt.models.encoder_decoder import Attention, Dropout, EncoderDecoder, State, TiedEmbedding
from nmt.models.memory import pool_into_slots, without_empty_rows

Steps = list[tuple[Tensor, Tensor]]


class RecurrentEncoderDecoder(EncoderDecoder):
    """Cho et al. 2014 (`attention="none"`) and Bahdanau et al. 2015 (`attention="additive"`).

    Equations as in Bahdanau et al. 2015, appendix A.2, with three departures for both kinds of
    context: s_t instead of s_{t-1} in the readout, tanh instead of maxout there, and s_0 from the
    final states of both directions, where the paper takes the backward one alone.

    Args:
        vocab_size: V, of the joint vocabulary.
        width: D, of embedding and readout.
        encoder_hidden: of each direction.
        decoder_hidden: C.
        attention: "none" or "additive".
        attention_dim: A; null without attention.
        encoder_layers: stacked bidirectional layers.
        dropout: on the embeddings and on the readout.
        memory_slots: how many segments the memory is pooled into before attention; null: all of it.

    Raises:
        UserError: An option is out of its range.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        width: int,
        encoder_hidden: int,
        decoder_hidden: int,
        attention: str,
        attention_dim: int | None,
        encoder_layers: int,
        dropout: float,
        memory_slots: int | None,
    ) -> None:
        super().__init__()
        at_least("vocab_size", vocab_size)
        at_least("width", width)
        at_least("encoder_hidden", encoder_hidden)
        at_least("decoder_hidden", decoder_hidden)
        at_least("encoder_layers", encoder_layers)
        share("dropout", dropout)
        one_of("attention", attention, ("none", "additive"))
        memory_width = 2 * encoder_hidden
        self.memory_slots = memory_slots
        self.embedding = TiedEmbedding(vocab_size, width)
        self.encoder = BidirectionalEncoder(
            width, hidden=encoder_hidden, layers=encoder_layers, dropout=dropout
        )
        self.initial = nn.Linear(memory_width, decoder_hidden)
        self.decoder = nn.GRU(width + memory_width, decoder_hidden, batch_first=True)
        self.readout = nn.Linear(decoder_hidden + memory_width + width, width)
        self.dropout = Dropout(dropout)
        self.alignment: AdditiveAttention | None = None
        if attention == "none":
            for name, value in (("attention_dim", attention_dim), ("memory_slots", memory_slots)):
                if value is not None:
                    raise UserError(f"{name} is {value!r}; it must be null when attention is none.")
        else:
            at_least("attention_dim", attention_dim)
            if memory_slots is not None:
                at_least("memory_slots", memory_slots)
            assert attention_dim is not None
            self.alignment = AdditiveAttention(
                query_width=decoder_hidden, memory_width=memory_width, attention_dim=attention_dim
            )

    def start(self, source: Tensor, source_mask: Tensor | None) -> RecurrentState:
        """Reads the source once (see `EncoderDecoder`)."""
        mask = without_empty_rows(source_mask)
        memory, final = self.encoder(self.dropout(self.embedding(source)), mask)
        hidden = torch.tanh(self.initial(final))
        if self.alignment is None:
            return RecurrentState(hidden, final.unsqueeze(1))
        if self.memory_slots is not None:
            memory, mask = pool_into_slots(memory, mask, num_slots=self.memory_slots)
        # U h for the gates and W_a h for the alignment will be one product
        _, hidden_weight, *_ = self.decoder.all_weights[0]
        of_hidden = torch.cat([hidden_weight, self.alignment.query.weight])
        return RecurrentState(hidden, memory, self.alignment.key(memory), mask, of_hidden)

    def step(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Reads one or more target tokens (see `EncoderDecoder`)."""
        embedded = self.dropout(self.embedding(tokens))
        if self.alignment is None:
            contexts = state.memory.expand(-1, tokens.shape[1], -1)
            inputs = torch.cat([embedded, contexts], -1)
            states, _ = run_recurrent(self.decoder, inputs, state.hidden[None])
        else:
            states, weights = self._attend(embedded, state, self.alignment)
            contexts = weights @ state.memory
        readout = torch.tanh(self.readout(torch.cat([states, contexts, embedded], -1)))
        logits = self.embedding.logits(self.dropout(readout))
        return logits, replace(state, hidden=states[:, -1])

    def attention(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> Attention:
        """Returns the alignment, L = H = 1 (see `EncoderDecoder`); S is the number of slots if set.

        Raises:
            UserError: The context is constant.
        """
        if self.alignment is None:
            raise UserError("this model has no attention to show; use model=bahdanau")
        state = self.start(source, source_mask)
        embedded = self.dropout(self.embedding(target_in))
        _, weights = self._attend(embedded, state, self.alignment)
        return Attention(cross=weights[:, None, None])

    def _attend(
        self, embedded: Tensor, state: RecurrentState, alignment: AdditiveAttention
    ) -> tuple[Tensor, Tensor]:
        """Runs the decoder over the words; what depends on no state is outside the loop.

        The same weights as in `self.decoder(...)` over [word; context].

        Args:
            embedded: (N, T, D).
            state: N rows, with keys.
            alignment: the alignment model.

        Returns:
            The states s_t (N, T, C) and the weights alpha_t (N, T, S).
        """
        assert state.keys is not None
        assert state.of_hidden is not None
        hidden = state.hidden
        input_weight, hidden_weight, input_bias, hidden_bias = self.decoder.all_weights[0]
        word_weight, context_weight = torch.split(
            input_weight, [embedded.shape[-1], state.memory.shape[-1]], dim=1
        )
        word_gates = F.linear(embedded, word_weight, input_bias)  # (N, T, 3C)
        sizes = [len(hidden_weight), len(alignment.query.weight)]
        of_hidden = RecurrentLinear(state.of_hidden)
        of_context = RecurrentLinear(context_weight)
        both_biases = F.pad(hidden_bias, (0, sizes[1]))
        states, weights = [], []
        for word_gate in word_gates.unbind(1):
            hidden_gates, query = torch.split(of_hidden(hidden) + both_biases, sizes, dim=-1)
            weight = additive_attention(query, state.keys, alignment.v, state.memory_mask)
            context = (weight.unsqueeze(1) @ state.memory).squeeze(1)  # c_t
            input_gates = word_gate + of_context(context)
            hidden = gru_cell(input_gates, hidden_gates, hidden)  # s_t
            states.append(hidden)
            weights.append(weight)
        return torch.stack(states, 1), torch.stack(weights, 1)


@dataclass(frozen=True)
class RecurrentState(State):
    """The decoder's state and what it reads of the source; M = 2 x encoder_hidden.

    Attributes:
        hidden: (N, C), the state s_t.
        memory: (N, S, M), the annotations h_j; the constant context: (N, 1, M).
        keys: (N, S, A), U_a h_j; None with a constant context.
        memory_mask: (N, S) bool, true where there is a token, or None.
        of_hidden: (3C + A, C), the rows of U and W_a, of all rows alike.
    """

    hidden: Tensor
    memory: Tensor
    keys: Tensor | None = None
    memory_mask: Tensor | None = None
    of_hidden: Tensor | None = None

    def select(self, rows: Tensor) -> Self:
        """Repeats or drops sentences (see `State`)."""
        return replace(
            self,
            hidden=self.hidden.index_select(0, rows),
            memory=self.memory.index_select(0, rows),
            keys=None if self.keys is None else self.keys.index_select(0, rows),
            memory_mask=None if self.memory_mask is None else self.memory_mask[rows],
        )

    def reorder(self, rows: Tensor) -> Self:
        """Permutes rows of the same sentence (see `State`)."""
        return replace(self, hidden=self.hidden.index_select(0, rows))


class BidirectionalEncoder(nn.Module):
    """Reads the source in both directions (Bahdanau et al. 2015, section 3.2).

    Instead of packing, the second network reads sentences reversed in front of their fillers: on
    CPU up to a third faster than packed sequences, and no lengths travel from GPU to CPU.
    """

    def __init__(self, width: int, *, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        widths = [width] + [2 * hidden] * (layers - 1)
        self.ahead = nn.ModuleList(nn.GRU(w, hidden, batch_first=True) for w in widths)
        self.back = nn.ModuleList(nn.GRU(w, hidden, batch_first=True) for w in widths)
        self.dropout = Dropout(dropout)

    def forward(self, embedded: Tensor, source_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encodes the source.

        Args:
            embedded: (B, S, D).
            source_mask: (B, S) bool without an empty row, or None.

        Returns:
            The annotations [forward; backward] (B, S, M), zero at fillers, and the final state of
            both directions (B, M): after the last real token, and after the first.
        """
        memory = embedded
        for number, (ahead, back) in enumerate(zip(self.ahead, self.back, strict=True)):
            inputs = memory if number == 0 else self.dropout(memory)
            forward, _ = run_recurrent(ahead, inputs)
            backward, _ = run_recurrent(back, reverse_sentences(inputs, source_mask))
            backward = reverse_sentences(backward, source_mask)
            memory = torch.cat([forward, backward], -1)  # (B, S, M)
        if source_mask is None:
            return memory, torch.cat([forward[:, -1], backward[:, 0]], -1)
        last = source_mask.sum(1).sub(1).view(-1, 1, 1).expand(-1, 1, forward.shape[-1])
        final = torch.cat([forward.gather(1, last).squeeze(1), backward[:, 0]], -1)
        return memory.masked_fill(~source_mask.unsqueeze(-1), 0.0), final


def reverse_sentences(x: Tensor, mask: Tensor | None) -> Tensor:
    """Reverses the real positions of each sentence in x (B, S, ...); fillers stay behind them."""
    if mask is None:
        return x.flip(1)
    positions = torch.arange(x.shape[1], device=x.device)
    mirrored = torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)
    return x.gather(1, mirrored.unsqueeze(-1).expand_as(x))


def run_recurrent(network: nn.Module, inputs: Any, initial: Any = None) -> tuple[Tensor, Any]:
    """Runs a GRU or an LSTM; on CUDA in fp32, whatever autocast says.

    PyTorch casts the inputs of cuDNN's recurrent networks to fp16 under autocast to bf16 too, and
    nothing scales the loss for it.
    """
    autocast = torch.is_autocast_enabled("cuda")
    with torch.autocast("cuda", enabled=False) if autocast else nullcontext():
        if autocast:
            inputs = inputs.float()
            initial = initial.float() if isinstance(initial, Tensor) else initial
        found: tuple[Tensor, Any] = network(inputs, initial)
    return found


def gru_cell(input_gates: Tensor, hidden_gates: Tensor, hidden: Tensor) -> Tensor:
    """Returns the next state of a gated recurrent unit (Cho et al. 2014, section 2.3).

    As in cuDNN and `nn.GRU`, the reset gate acts on the product U h instead of on h.

    Args:
        input_gates: (N, 3C), W x + b for the reset gate, the update gate and the candidate.
        hidden_gates: (N, 3C), U h + b for the same.
        hidden: (N, C), the state h.
    """
    input_reset, input_update, input_candidate = input_gates.chunk(3, -1)
    hidden_reset, hidden_update, hidden_candidate = hidden_gates.chunk(3, -1)
    reset = torch.sigmoid(input_reset + hidden_reset)
    update = torch.sigmoid(input_update + hidden_update)
    candidate = torch.tanh(input_candidate + reset * hidden_candidate)
    return candidate + update * (hidden - candidate)


class RecurrentLinear:
    """x -> x W^T, to be called at every step of a loop.

    With `F.linear` autograd would make a gradient of the size of W at every step and add it to
    the others; here the inputs and output gradients of all steps are kept and multiplied once:
    sum_t g_t^T x_t = G^T X. Same sum, larger product.
    """

    def __init__(self, weight: Tensor) -> None:
        """Takes the weight (outputs, inputs) for one loop; make a new one for the next loop.

        Under autocast the product is in its type, as that of `F.linear`.
        """
        self._steps: Steps = []
        device = weight.device.type
        if torch.is_autocast_enabled(device):
            weight = weight.to(torch.get_autocast_dtype(device))
        self._weight: Tensor = _SumOverSteps.apply(weight, self._steps)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        """Returns x W^T (N, outputs) of x (N, inputs)."""
        x = x.to(self._weight.dtype)
        if not torch.is_grad_enabled():
            return x @ self._weight.mT
        product: Tensor = _Step.apply(x, self._weight, self._steps)  # type: ignore[no-untyped-call]
        return product


class _SumOverSteps(torch.autograd.Function):
    """Hands the weight to the steps; its backward runs after that of all of them."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, steps: Steps) -> Tensor:
        ctx.steps = steps
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, _: Tensor | None) -> tuple[Tensor | None, None]:
        inputs, gradients = zip(*ctx.steps, strict=True)
        ctx.steps.clear()
        return torch.cat(gradients).mT @ torch.cat(inputs), None


class _Step(torch.autograd.Function):
    """One product; in backward it leaves the weight's part to `_SumOverSteps`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, steps: Steps) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.steps = steps
        return x @ weight.mT

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        x, weight = ctx.saved_tensors
        ctx.steps.append((x, gradient))
        return gradient @ weight, None, None
