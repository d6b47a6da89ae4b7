"""The attention mechanisms as layers of one size, to be measured against the length of an input."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.models.attention import (
    AdditiveAttention,
    SelfAttention,
    additive_attention,
    dot_product_weights,
    merge_heads,
)
from nmt.models.variants import EncoderAttention, dense_mask

NUM_HEADS = 8
WINDOW = 64  # as in the block-sparse kernels
RANDOM_FEATURES = 64
PATH_LENGTH_OF = 512  # tokens, for which paths are counted

Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Mechanism:
    """One line of the table.

    Attributes:
        make: Builds the layer, x (1, n, D) -> (1, n, D), for inputs like x.
        operations: Theoretical order for n tokens of width d, with a window w or F features.
        exponent: That of n in it.
        sequential: Order of operations that must follow each other.
        pattern: The kind of `EncoderAttention` whose paths are counted; None: neither of them.
    """

    make: Callable[[Tensor], Layer]
    operations: str
    exponent: int
    sequential: str = "1"
    pattern: str | None = "full"


def recurrent(x: Tensor) -> Layer:
    """Makes a GRU."""
    gru = nn.GRU(x.shape[-1], x.shape[-1], batch_first=True, device=x.device, dtype=x.dtype)
    return lambda inputs: gru(inputs)[0]


def additive(x: Tensor) -> Layer:
    """Makes Bahdanau's attention with every position as a query."""
    width, length = x.shape[-1], x.shape[1]
    attention = AdditiveAttention(
        query_width=width, memory_width=width, attention_dim=width // NUM_HEADS
    ).to(x)

    def forward(inputs: Tensor) -> Tensor:
        keys = attention.key(inputs).expand(length, -1, -1)
        return additive_attention(attention.query(inputs[0]), keys, attention.v, None) @ inputs

    return forward


def by_hand(x: Tensor) -> Layer:
    """Makes softmax(Q K^T / sqrt(d)) V with the weights written down."""
    attention = _self_attention(x, NUM_HEADS)

    def forward(inputs: Tensor) -> Tensor:
        query, keys, values = attention.project(inputs, None)
        output: Tensor = attention.output(
            merge_heads(dot_product_weights(query, keys, None) @ values)
        )
        return output

    return forward


def encoder(kind: str, num_kv_heads: int = NUM_HEADS) -> Callable[[Tensor], Layer]:
    """Makes one of the encoder's mechanisms; the mask, one for all layers, is made beforehand."""

    def make(x: Tensor) -> Layer:
        attention = _self_attention(x, num_kv_heads)
        reader = encoder_attention(kind, x.shape[-1]).to(x.device).readers(x, None, None)[0]

        def forward(inputs: Tensor) -> Tensor:
            heads = reader.read(*attention.project(inputs, None), dropout=0.0)
            output: Tensor = attention.output(merge_heads(heads))
            return output

        return forward

    return make


MECHANISMS = {
    "recurrent": Mechanism(recurrent, "n d²", 1, "n", None),
    "additive": Mechanism(additive, "n² d", 2),
    "dot product by hand": Mechanism(by_hand, "n² d", 2),
    **{
        f"SDPA, {heads} KV heads": Mechanism(encoder("full", heads), "n² d", 2)
        for heads in (8, 4, 2, 1)
    },
    "sliding window": Mechanism(encoder("sliding_window"), "n w d", 1, "1", "sliding_window"),
    "BigBird": Mechanism(encoder("bigbird"), "n w d", 1, "1", "bigbird"),
    "local": Mechanism(encoder("local"), "n w d", 1, "1", "local"),
    "linear (elu + 1)": Mechanism(encoder("linear"), "n d²/H", 1),
    "linear (Performer)": Mechanism(encoder("performer"), "n F d", 1),
}


def encoder_attention(kind: str, width: int) -> EncoderAttention:
    """Returns the mechanism with the sizes of this benchmark."""
    return EncoderAttention(
        kind,
        num_layers=1,
        head_width=width // NUM_HEADS,
        window=WINDOW,
        global_tokens=1,
        random_blocks=1,
        random_features=RANDOM_FEATURES,
    )


def path_length(mechanism: Mechanism, length: int = PATH_LENGTH_OF) -> int | None:
    """Returns how many layers it takes until every position has read every other one.

    Counted on the mask itself; None where some positions never read some others.
    """
    if mechanism.pattern is None:
        return length - 1
    if mechanism.pattern == "full":
        return 1
    x = torch.empty(1, length, NUM_HEADS)
    sees = encoder_attention(mechanism.pattern, NUM_HEADS).visible(x, None, 0)
    edges = dense_mask(sees, x)[0].float()
    read, layers = edges, 1
    while not bool(read.all()):
        further = (edges @ read).clamp(max=1)
        if torch.equal(further, read):
            return None
        read, layers = further, layers + 1
    return layers


def _self_attention(x: Tensor, num_kv_heads: int) -> SelfAttention:
    return SelfAttention(
        x.shape[-1], num_heads=NUM_HEADS, num_kv_heads=num_kv_heads, dropout=0.0
    ).to(x)
