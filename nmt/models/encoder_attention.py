"""What the encoder of a Transformer may do instead: read less of a long input.

`EncoderAttention` says for every layer and batch what takes the place of `dot_product_attention`:
softmax over a sparse pattern (sliding window, chunks, BigBird), or attention of linear cost
(elu + 1, Performer). Patterns are pure functions of positions, so that nothing depends on how far a
batch is padded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.checks import UserError, at_least, one_of
from nmt.models.attention import Attend, add_mask, dot_product_attention
from nmt.models.distance_bias import DistanceBias, spread
from nmt.models.positions import BIASES

SPARSE = ("sliding_window", "bigbird", "local")
LINEAR = ("linear", "performer")
ENCODER_ATTENTIONS = ("full", *SPARSE, *LINEAR)
_FLOOR = 1e-8  # so that no query finds all keys at 0

Pattern = Callable[[Tensor, Tensor, Tensor], Tensor]  # (sentence, query, key) -> bool


class EncoderAttention(nn.Module):
    """How the layers of an encoder read.

    Args:
        kind: one of `ENCODER_ATTENTIONS`.
        num_layers: of the encoder; random parts are drawn for each, with its number as the seed.
        head_width: d.
        window: tokens seen to each side by sliding_window (the w of Beltagy et al. 2020 counts
            both sides); the size of a chunk (local) or of a block (bigbird).
        global_tokens: how many first tokens see all and are seen by all (not local); with the
            projections of all others, where Longformer has some of their own.
        random_blocks: further blocks that each block of bigbird sees.
        random_features: F, of performer; drawn once, where the paper draws them again and again.
        positions: of the model; linear attention has no scores to add a bias to.
        dropout: on the weights, which linear attention never writes down.

    Raises:
        UserError: An option is out of its range.
    """

    projections: Tensor | None

    def __init__(
        self,
        kind: str,
        *,
        num_layers: int,
        head_width: int,
        window: int,
        global_tokens: int,
        random_blocks: int,
        random_features: int,
        positions: str = "none",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        one_of("encoder_attention", kind, ENCODER_ATTENTIONS)
        at_least("attention_window", window)
        at_least("global_tokens", global_tokens, 0)
        at_least("random_blocks", random_blocks, 0)
        at_least("random_features", random_features)
        if kind in LINEAR and (positions in BIASES or dropout > 0):
            raise UserError(
                f"encoder_attention is {kind!r}; it must not be linear with positions={positions} "
                f"and attention_dropout={dropout}: use another of the three."
            )
        self.kind = kind
        self.num_layers = num_layers
        self.window = window
        self.global_tokens = global_tokens
        self.random_blocks = random_blocks
        drawn = None
        if kind == "performer":
            layers = range(num_layers)
            drawn = [orthogonal_gaussian(random_features, head_width, seed=n) for n in layers]
        # In the checkpoint: what another machine would draw could differ in the last digit.
        self.register_buffer("projections", None if drawn is None else torch.stack(drawn))

    def of_layers(
        self, x: Tensor, mask: Tensor | None, bias: DistanceBias | None
    ) -> Sequence[Attend]:
        """Returns how every layer reads one batch.

        Args:
            x: (B, S, D), of which shape and device count.
            mask: (B, S) bool without an empty row, or None.
            bias: added to the scores, or None.
        """
        if self.kind in LINEAR:
            keys = None if mask is None else mask[:, None, :, None]
            drawn = [None] * self.num_layers if self.projections is None else self.projections
            return [partial(attend_linearly, mask=keys, projection=one) for one in drawn]
        length = x.shape[1]
        by_distance = None if bias is None else bias(1 - length, length, x.device)
        if self.kind in SPARSE:
            seeds = range(self.num_layers) if self.kind == "bigbird" else [0]
            sparse = [_attend_sparsely(self.visible(x, mask, n), x, by_distance) for n in seeds]
            return sparse * (self.num_layers // len(sparse))
        seen = _with_bias(None if mask is None else mask[:, None, None], by_distance, length)
        return [partial(dot_product_attention, mask=seen)] * self.num_layers

    def visible(self, x: Tensor, mask: Tensor | None, layer: int) -> Pattern:
        """Returns which positions of a batch see which under a sparse pattern."""
        window, first = self.window, self.global_tokens
        if self.kind == "bigbird":
            length = x.shape[1]
            lengths = torch.full((1,), length, device=x.device) if mask is None else mask.sum(1)
            chosen = random_blocks(
                -(-lengths // window), -(-length // window), count=self.random_blocks, seed=layer
            ).expand(x.shape[0], -1, -1)

        def sees(b: Tensor, i: Tensor, j: Tensor) -> Tensor:
            if self.kind == "local":
                seen = local_chunks(i, j, window=window)
            elif self.kind == "sliding_window":
                seen = sliding_window(i, j, window=window, global_tokens=first)
            else:
                seen = block_window(i, j, window=window, global_tokens=first)
                seen = seen | chosen[b, i // window, j // window]
            # A filler sees itself: no softmax is over nothing, whatever a kernel makes of that.
            return seen if mask is None else seen & (mask[b, j] | (i == j))

        return sees


def _attend_sparsely(sees: Pattern, x: Tensor, bias: Tensor | None) -> Attend:
    def dense() -> Tensor:
        mask = _with_bias(dense_mask(sees, x).unsqueeze(1), bias, x.shape[1])
        assert mask is not None
        return mask

    if x.is_cuda:
        return partial(attend_in_blocks, blocks=block_mask(sees, x), bias=bias, dense=dense)
    return partial(dot_product_attention, mask=dense())


def attend_in_blocks(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    dropout: float = 0.0,
    blocks: Any,
    bias: Tensor | None,
    dense: Callable[[], Tensor],
) -> Tensor:
    """Attends by softmax, skipping the blocks of the scores that a pattern leaves empty.

    `blocks` is the `BlockMask` of flex attention and `bias` (H, 2S - 1), by distance. `dense` makes
    the mask for what flex attention lacks: dropout, and values of another width than the keys.
    """
    if dropout > 0 or values.shape[-1] != query.shape[-1]:
        return dot_product_attention(query, keys, values, mask=dense(), dropout=dropout)

    def add_bias(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert bias is not None
        return score + bias[h, j - i + bias.shape[1] // 2]

    heads: Tensor = _flex_attention(query.is_cuda)(
        query,
        keys,
        values,
        score_mod=None if bias is None else add_bias,
        block_mask=blocks,
        enable_gqa=query.shape[1] != keys.shape[1],
    )
    return heads


@functools.cache
def _flex_attention(compiled: bool) -> Any:
    """Returns flex attention; only compiled it skips blocks. Imported late: it takes a second."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True) if compiled else flex_attention


def dense_mask(sees: Pattern, x: Tensor) -> Tensor:
    """Returns the mask of a pattern for a batch x (B, S, D), (B, S, S) bool."""
    num_sentences, length, _ = x.shape
    sentences = torch.arange(num_sentences, device=x.device).view(-1, 1, 1)
    positions = torch.arange(length, device=x.device)
    mask = sees(sentences, positions.unsqueeze(1), positions)
    return mask.expand(num_sentences, length, length)


def block_mask(sees: Pattern, x: Tensor) -> Any:
    """Returns the `BlockMask` of a pattern for a batch x (B, S, D)."""
    from torch.nn.attention.flex_attention import create_block_mask

    num_sentences, length, _ = x.shape
    return create_block_mask(
        lambda b, h, i, j: sees(b, i, j), num_sentences, None, length, length, device=x.device
    )


def _with_bias(seen: Tensor | None, bias: Tensor | None, length: int) -> Tensor | None:
    """Returns one mask (B, 1 or H, 1 or S, S): bool without a bias, else numbers to be added."""
    if bias is None:
        return seen
    return add_mask(spread(bias, length, length), seen)


def sliding_window(i: Tensor, j: Tensor, *, window: int, global_tokens: int) -> Tensor:
    """|i - j| <= window, or one of the two is global: Beltagy et al. 2020, section 3.1."""
    return ((i - j).abs() <= window) | _global(i, j, global_tokens)


def local_chunks(i: Tensor, j: Tensor, *, window: int) -> Tensor:
    """Chunks of `window` tokens; each sees itself and the one before (Kitaev et al. 2020)."""
    back = i // window - j // window
    return (back == 0) | (back == 1)


def block_window(i: Tensor, j: Tensor, *, window: int, global_tokens: int) -> Tensor:
    """Blocks of `window` tokens see themselves and their neighbours; global tokens see all.

    Zaheer et al. 2020, section 2, without the random blocks.
    """
    return ((i // window - j // window).abs() <= 1) | _global(i, j, global_tokens)


def random_blocks(num_blocks: Tensor, most: int, *, count: int, seed: int) -> Tensor:
    """Chooses `count` more blocks for each block to see, of those beyond its neighbours.

    The choice is that of the largest numbers which a hash gives to (seed, query block, key block):
    a function of the length of a sentence, whatever stands beside it in a batch.

    Args:
        num_blocks: (B,) int64, blocks of each sentence.
        most: n, at least the largest of them.
        count: blocks to choose; fewer where there are fewer.
        seed: other choices for another seed.

    Returns:
        (B, n, n) bool, true where a query block (row) sees a key block.
    """
    blocks = torch.arange(most, device=num_blocks.device)
    rows, columns = blocks.unsqueeze(1), blocks.unsqueeze(0)
    far = (rows - columns).abs() > 1
    there = far & (blocks < num_blocks.view(-1, 1, 1))  # (B, n, n)
    scores = torch.where(there, hash_of(seed, rows, columns), -1)
    best, index = scores.topk(min(count, most), dim=-1)
    return torch.zeros_like(there).scatter(-1, index, best >= 0)


def hash_of(seed: int, i: Tensor, j: Tensor) -> Tensor:
    """Mixes three numbers to one in 0 .. 2^31 - 1; the same on every machine."""
    mixed = (seed * 668_265_263 + i * 374_761_393 + j * 1_274_126_177) & 0x7FFFFFFF
    for shift in (15, 13):
        mixed = ((mixed ^ (mixed >> shift)) * 1_103_515_245) & 0x7FFFFFFF
    return mixed ^ (mixed >> 16)


def _global(i: Tensor, j: Tensor, global_tokens: int) -> Tensor:
    return (i < global_tokens) | (j < global_tokens)


def attend_linearly(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    dropout: float = 0.0,
    mask: Tensor | None,
    projection: Tensor | None,
) -> Tensor:
    """Attends at linear cost, in fp32 and without dropout.

    `mask` is (B, 1, S, 1) bool or None, and `projection` (F, d), of the positive random features;
    without one a feature is elu(x) + 1.
    """
    assert dropout == 0
    with torch.autocast(query.device.type, enabled=False):
        query, keys = query.float(), keys.float()
        if projection is None:
            query, keys = elu_features(query), elu_features(keys)
        else:
            scale, projection = query.shape[-1] ** -0.25, projection.float()
            query = positive_random_features(query * scale, projection, axes=(-1,))
            keys = positive_random_features(keys * scale, projection, axes=(-2, -1), mask=mask)
        heads = linear_attention(query, keys if mask is None else keys * mask, values)
    return heads.to(values.dtype)


def linear_attention(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Returns phi(Q) (phi(K)^T V) / (phi(Q) sum_j phi(k_j)): Katharopoulos et al. 2020, equation 5.

    Args:
        query: (B, H, T, F), features of the queries.
        keys: (B, K, S, F), features of the keys, 0 at fillers; K divides H.
        values: (B, K, S, d).

    Returns:
        (B, H, T, d), in fp32.
    """
    groups = query.shape[1] // keys.shape[1]
    summary = (keys.mT @ values.float()).repeat_interleave(groups, dim=1)  # (B, H, F, d)
    total = keys.sum(2).repeat_interleave(groups, dim=1).unsqueeze(-1)  # (B, H, F, 1)
    return (query @ summary) / (query @ total)


def elu_features(x: Tensor) -> Tensor:
    """Returns elu(x) + 1: Katharopoulos et al. 2020, equation 7.

    It is positive, but in fp32 it is 0 below -17: so 1e-8 is added.
    """
    return F.elu(x) + 1 + _FLOOR


def positive_random_features(
    x: Tensor, projection: Tensor, *, axes: tuple[int, ...], mask: Tensor | None = None
) -> Tensor:
    """Returns exp(w_r . x - |x|^2 / 2) for every r: Choromanski et al. 2021, lemma 1.

    The mean over r of a query's times a key's features tends to exp(q . k). The largest number
    along `axes` becomes 1: a factor that cancels in `linear_attention` if it is one for all
    features of a query, and one for all features of all keys.

    Args:
        x: (B, H, T, d), queries or keys divided by d^(1/4).
        projection: (F, d), the w_r.
        axes: (-1,) for queries, (-2, -1) for keys.
        mask: (B, 1, T, 1) bool, true at real keys.

    Returns:
        (B, H, T, F).
    """
    logs = x @ projection.T - x.square().sum(-1, keepdim=True) / 2
    if mask is not None:
        logs = logs.masked_fill(~mask, torch.finfo(logs.dtype).min)
    return (logs - logs.amax(axes, keepdim=True).detach()).exp() + _FLOOR


def orthogonal_gaussian(num_features: int, width: int, *, seed: int) -> Tensor:
    """Draws w_r ~ N(0, 1) that are orthogonal in groups of d: Choromanski et al. 2021, section 2.4.

    Args:
        num_features: F.
        width: d.
        seed: of a generator of its own.

    Returns:
        (F, d), in fp32.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(rows: int) -> Tensor:
        return torch.randn(rows, width, generator=generator, device="cpu", dtype=torch.float64)

    directions = []
    for _ in range(-(-num_features // width)):
        turned, upper = torch.linalg.qr(draw(width))
        directions.append(turned * upper.diagonal().sign())  # of the two signs always the same
    lengths = draw(num_features).norm(dim=1, keepdim=True)
    rows: Tensor = torch.cat(directions)[:num_features] * lengths
    return rows.float()
