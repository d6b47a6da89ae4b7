"""Draws the figures of docs/attention.md: python scripts/attention_page.py.

`python scripts/benchmark.py attention --output docs/attention/cost.json` measures the cost. The
tables of the page are plain text; a test compares them with cost.json and bleu.json.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from nmt.checks import flag_main
from nmt.evaluation.figures import COLOURS, GREY, INK, MARKERS, new_figure, tidy
from nmt.models.attention import causal_mask, dot_product_weights
from nmt.models.distance_bias import DistanceBias, distance_bucket
from nmt.models.encoder_attention import EncoderAttention, dense_mask
from nmt.models.positions import Rotation, rotary_table, rotate, sinusoidal_table

DOCS = Path(__file__).parents[1] / "docs" / "attention"
NUM_KEYS = 64  # of the saturation figure
NUM_DRAWS = 1000
HEAD_WIDTHS = [2**k for k in range(2, 11)]
PATTERN_LENGTH, PATTERN_WINDOW = 96, 6
PARTS = {
    "seen by the rule": "#0072B2",
    "by a global token": "#E69F00",
    "by a random block": "#CC79A7",
}
CPU = torch.device("cpu")


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Draws, writes and prints the paths written."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, default=DOCS, metavar="DIR", help="of figures (%(default)s)"
    )
    folder = parser.parse_args(argv).folder
    cost = json.loads((folder / "cost.json").read_text(encoding="utf-8"))
    figures = {
        "saturation": draw_saturation(),
        "patterns": draw_patterns(),
        "positions": draw_positions(),
        "cost": draw_cost(cost["figures"]["series"]),
    }
    for name, figure in figures.items():
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=100, metadata={"Software": None})
        print(path)


def softmax_statistics(head_width: int, *, scaled: bool) -> tuple[Tensor, Tensor]:
    """Measures softmax over the scores of random queries and keys, all entries N(0, 1).

    Returns for each draw the largest weight, and the Frobenius norm of the weights' gradient by
    the scores, diag(a) - a a^T.
    """
    generator = torch.Generator().manual_seed(head_width)
    query = torch.randn(NUM_DRAWS, 1, 1, head_width, generator=generator)
    keys = torch.randn(NUM_DRAWS, 1, NUM_KEYS, head_width, generator=generator)
    undone = 1.0 if scaled else head_width**0.5
    weights = dot_product_weights(query * undone, keys, None).double().flatten(1)
    jacobian = weights.diag_embed() - weights.unsqueeze(2) * weights.unsqueeze(1)
    return weights.amax(1), torch.linalg.matrix_norm(jacobian)


def draw_saturation() -> Figure:
    """Draws the largest weight and the gradient of softmax as the width of a head grows."""
    figure = new_figure(9, 3.4)
    largest, gradient = figure.subplots(1, 2)
    for number, (scaled, name) in enumerate([(False, "q · k"), (True, "q · k / √d")]):
        statistics = [softmax_statistics(width, scaled=scaled) for width in HEAD_WIDTHS]
        for axes, values in zip((largest, gradient), zip(*statistics, strict=True), strict=True):
            low, middle, high = (
                [float(value.quantile(q)) for value in values] for q in (0.1, 0.5, 0.9)
            )
            style = {"color": COLOURS[number], "marker": MARKERS[number], "markersize": 4}
            axes.plot(HEAD_WIDTHS, middle, label=name, **style)
            axes.fill_between(HEAD_WIDTHS, low, high, color=COLOURS[number], alpha=0.15, lw=0)
    largest.set_ylabel("largest weight", color=INK)
    largest.set_ylim(0, 1.02)
    gradient.set_ylabel("gradient of the weights by the scores", color=INK)
    gradient.set_yscale("log")
    gradient.set_ylim(1e-9, 2)
    for axes in (largest, gradient):
        axes.set_xscale("log", base=2)
        axes.set_xticks(HEAD_WIDTHS, [str(width) for width in HEAD_WIDTHS])
        axes.set_xlabel(f"d, width of a head ({NUM_KEYS} keys)", color=INK)
        tidy(axes)
    largest.legend(frameon=False, loc="upper left")
    return figure


def pattern_parts(kind: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns for each query (row) and key why the query sees it.

    0: it does not; 1 and on: the parts of `PARTS`, the first that holds.
    """

    def sees(global_tokens: int, random_blocks: int) -> Tensor:
        x = torch.empty(1, PATTERN_LENGTH, 1)
        if kind == "full":
            return torch.ones(PATTERN_LENGTH, PATTERN_LENGTH, dtype=torch.bool)
        if kind == "causal":
            mask = causal_mask(PATTERN_LENGTH, 0, CPU)
            assert mask is not None
            return mask
        attention = EncoderAttention(
            kind,
            num_layers=1,
            head_width=1,
            window=PATTERN_WINDOW,
            global_tokens=global_tokens,
            random_blocks=random_blocks,
            random_features=1,
        )
        return dense_mask(attention.visible(x, None, 0), x)[0]

    near, with_global, everything = sees(0, 0), sees(1, 0), sees(1, 1)
    return np.select([near.numpy(), with_global.numpy(), everything.numpy()], [1, 2, 3])


def draw_patterns() -> Figure:
    """Draws who sees whom under each mask, and the share of pairs that are seen."""
    names = {
        "full": "full",
        "causal": "causal",
        "sliding_window": "sliding window",
        "bigbird": "BigBird",
        "local": "local",
    }
    figure = new_figure(11, 3.0)
    colours = ListedColormap(["#F4F4F4", *PARTS.values()])
    for axes, (kind, name) in zip(figure.subplots(1, len(names)), names.items(), strict=True):
        parts = pattern_parts(kind)
        axes.imshow(parts, cmap=colours, vmin=0, vmax=len(PARTS), interpolation="none")
        axes.set_title(f"{name}: {(parts > 0).mean():.0%}", fontsize=10, color=INK, loc="left")
        axes.set_xticks([0, PATTERN_LENGTH - 1])
        axes.set_yticks([0, PATTERN_LENGTH - 1])
        axes.tick_params(length=0, labelsize=8, colors=GREY)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("key", fontsize=9, color=INK, labelpad=-6)
    figure.axes[0].set_ylabel("query", fontsize=9, color=INK, labelpad=-6)
    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in PARTS.items()],
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    return figure


def draw_positions() -> Figure:
    """Draws what each encoding says of a distance."""
    figure = new_figure(11, 3.3)
    similarity, alibi, buckets = figure.subplots(1, 3)
    _draw_similarity(similarity)
    biases = DistanceBias("alibi", num_heads=4, bidirectional=True)(-48, 49, CPU)
    for head, bias in enumerate(biases):
        alibi.plot(np.arange(-48, 49), bias, color=COLOURS[head], label=f"head {head + 1} of 4")
    alibi.set_title("alibi: added to the score (encoder)", fontsize=10, loc="left", color=INK)
    alibi.set_ylim(-17, 0.5)
    alibi.legend(frameon=False, fontsize=8, ncols=2, loc="lower center")
    wide = torch.arange(-160, 161)
    for both, name in ((True, "encoder"), (False, "decoder")):
        of_distance = distance_bucket(wide, bidirectional=both)
        if not both:
            of_distance = of_distance[wide <= 0]
        style = {"drawstyle": "steps-mid", "color": COLOURS[0 if both else 1]}
        buckets.plot(wide[: len(of_distance)], of_distance, label=name, **style)
    buckets.set_title("relative: the bucket of a distance", fontsize=10, loc="left", color=INK)
    buckets.legend(frameon=False, fontsize=8)
    for axes in figure.axes:
        axes.set_xlabel("distance, key − query (tokens)", color=INK)
        tidy(axes)
    return figure


def _draw_similarity(axes: Axes) -> None:
    """Draws the dot product of a vector with itself elsewhere, over that at the same place."""
    length, head_width, width = 129, 32, 128
    middle = length // 2
    distance = np.arange(length) - middle
    same = torch.ones(length, head_width)
    turned = rotate(same, Rotation(*rotary_table(length, head_width).chunk(2, -1)))
    table = sinusoidal_table(length, width)
    for number, (vectors, name) in enumerate(
        [(turned, f"rope, head of {head_width}"), (table, f"sinusoidal, width {width}")]
    ):
        products = vectors @ vectors[middle]
        axes.plot(distance, products / products[middle], label=name, color=COLOURS[number])
    axes.set_title("similarity of one vector at two places", fontsize=10, loc="left", color=INK)
    axes.set_ylim(-0.1, 1.35)
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def draw_cost(measured: Mapping[str, Any]) -> Figure:
    """Draws time and memory of a layer against the length of the input, both axes logarithmic.

    Fewer KV heads are left out: their curves lie on that of the most.
    """
    figure = new_figure(11, 4.4)
    panels = figure.subplots(1, 2)
    fewer = [name for name in measured if name.endswith("KV heads")][1:]
    shown = {name: series["points"] for name, series in measured.items() if name not in fewer}
    for number, (name, points) in enumerate(shown.items()):
        lengths = [point["length"] for point in points]
        for axes, quantity, factor in zip(panels, ("seconds", "mib"), (1000, 1), strict=True):
            axes.plot(
                lengths,
                [factor * point["both"][quantity] or np.nan for point in points],
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                linestyle="-" if number < len(COLOURS) else "--",
                markersize=4,
                linewidth=1.2,
                label=name,
            )
    ticks = sorted({point["length"] for points in shown.values() for point in points})
    for axes, name in zip(panels, ("time (ms)", "peak memory (MiB)"), strict=True):
        axes.set_ylabel(name, color=INK)
        axes.set_yscale("log")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(tick) for tick in ticks], fontsize=9)
        axes.set_xlabel("length of the input (tokens)", color=INK)
        tidy(axes)
    panels[1].set_ylim(bottom=1)  # less depends on what the allocator had left over
    figure.legend(handles=panels[0].lines, loc="outside right center", frameon=False, fontsize=9)
    return figure


if __name__ == "__main__":
    sys.exit(main())
