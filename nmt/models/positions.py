"""Positions: rotary (RoPE), sinusoidal and learned; biases are in `nmt.models.distance_bias`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.checks import UserError, one_of

BIASES = ("alibi", "relative")
POSITIONS = ("rope", "sinusoidal", "learned", *BIASES, "none")
TABLE_BLOCK = 256  # rows by which a table grows


@dataclass(frozen=True)
class Rotation:
    """The angles of T positions, each twice: cos and signed sin, (T, d), always fp32."""

    cos: Tensor
    signed_sin: Tensor


def angles(num_positions: int, width: int, base: float = 10_000.0) -> Tensor:
    """Returns position * base^(-2i / width), (num_positions, width / 2), in fp32.

    Vaswani et al. 2017, section 3.5, and Su et al. 2021, section 3.2.2, use the same ones.
    """
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    positions = torch.arange(num_positions, dtype=torch.float64)
    return torch.outer(positions, frequencies).float()


def rotary_table(num_positions: int, head_width: int) -> Tensor:
    """Returns [cos | cos | -sin | sin] of the angles, (num_positions, 2 x head_width), fp32."""
    table = angles(num_positions, head_width)
    cos, sin = table.cos(), table.sin()
    return torch.cat([cos, cos, -sin, sin], -1)


def sinusoidal_table(num_positions: int, width: int) -> Tensor:
    """Returns [sin | cos] of the angles, (num_positions, width), fp32."""
    table = angles(num_positions, width)
    return torch.cat([table.sin(), table.cos()], -1)


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Rotates each pair (x_i, x_{i + d/2}) by the angle of its position: RoPE, half-split.

    Su et al. 2021, equation 34, with the pairs of GPT-NeoX: the first halves become
    x_1 cos - x_2 sin, the second ones x_2 cos + x_1 sin. Computed in fp32.

    Args:
        x: (..., T, d).
        rotation: the angles of the T positions.
    """
    swapped = x.roll(x.shape[-1] // 2, -1)
    return (x * rotation.cos + swapped * rotation.signed_sin).to(x.dtype)


class GrowingTable:
    """Rows of a function of the position, computed when first needed, kept in fp32.

    Not a buffer of a module: a buffer would be cast with the weights, and half precision cannot
    hold large angles.
    """

    def __init__(self, compute: Callable[[int, int], Tensor], width: int) -> None:
        self._compute = compute
        self._width = width
        self._table = torch.empty(0, device="cpu")

    def rows(self, first: int, num_rows: int, device: torch.device) -> Tensor:
        """Returns rows first .. first + num_rows - 1 on `device`, (num_rows, ...)."""
        last = first + num_rows
        if self._table.device != device or self._table.shape[0] < last:
            size = -(-last // TABLE_BLOCK) * TABLE_BLOCK
            with torch.inference_mode(False):  # else a table made in validation fails in training
                self._table = self._compute(size, self._width).to(device)
        return self._table[first:last]


class LearnedPositions(nn.Module):
    """One trained vector for each of `max_positions` positions (Gehring et al. 2017).

    The vectors are `factor` times the table: see `position_factor` of the Transformer.
    """

    def __init__(self, max_positions: int, width: int, *, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        self.table = nn.Embedding(max_positions, width)
        nn.init.normal_(self.table.weight, std=0.1 / factor)

    def rows(self, first: int, num_rows: int) -> Tensor:
        """Returns the vectors of first .. first + num_rows - 1, (num_rows, D)."""
        last, size = first + num_rows, self.table.num_embeddings
        if last > size:
            raise UserError(
                f"a sentence has {last} tokens, but max_positions is {size}; raise it and train "
                "again, shorten the sentence, or use positions=rope, which has no limit"
            )
        return self.table.weight[first:last] * self.factor


class Positions(nn.Module):
    """Tells a Transformer where its tokens are: by a rotation, or by a vector added to each.

    The kinds of `BIASES` and "none" do neither.
    """

    def __init__(
        self, kind: str, *, width: int, head_width: int, max_positions: int, factor: float = 1.0
    ) -> None:
        super().__init__()
        one_of("positions", kind, POSITIONS)
        self.kind = kind
        self.learned: LearnedPositions | None = None
        if kind == "learned":
            self.learned = LearnedPositions(max_positions, width, factor=factor)
        if {"rope": head_width, "sinusoidal": width}.get(kind, 0) % 2:
            name = "width / num_heads" if kind == "rope" else "width"
            raise UserError(f"{name} is odd; it must be even with positions={kind}.")
        self._rotations = GrowingTable(rotary_table, head_width)
        self._sinusoids = GrowingTable(sinusoidal_table, width)

    def forward(self, x: Tensor, num_past: int) -> tuple[Tensor, Rotation | None]:
        """Returns x (B, T, D), positions num_past and on, with or without vectors added."""
        num_new = x.shape[1]
        if self.learned is not None:
            return x + self.learned.rows(num_past, num_new), None
        if self.kind == "sinusoidal":
            return x + self._sinusoids.rows(num_past, num_new, x.device).to(x.dtype), None
        if self.kind != "rope":
            return x, None
        cos, signed_sin = self._rotations.rows(num_past, num_new, x.device).chunk(2, -1)
        return x, Rotation(cos, signed_sin)
