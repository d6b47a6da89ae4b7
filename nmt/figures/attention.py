"""Heat maps of one model's attention: a panel a layer, a panel a head of every layer, or a line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from nmt.figures.probes import CELL_INCHES, draw_panel
from nmt.figures.style import font_families, new_figure

_LABEL_INCHES = 0.085  # of one character at the size of the labels
_TITLE_INCHES = 0.45


def draw_attention(
    weights: npt.NDArray[np.float32],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    names: Sequence[Sequence[str]],
    title: str,
) -> Figure:
    """Draws matrices of the same words in a grid, one colour scale from 0 to 1 for all.

    Args:
        weights: (down, across, R, C), rows sum to 1.
        rows: The R words that look, from the top.
        columns: The C words that are looked at.
        names: What stands under each panel, as many as there are panels.
        title: Of the figure.
    """
    down, across = weights.shape[:2]
    fonts = font_families("".join([*rows, *columns]))
    width = max(1.6, CELL_INCHES * len(columns)) + _LABEL_INCHES * max(map(len, rows)) + 0.2
    height = max(1.2, CELL_INCHES * len(rows)) + _LABEL_INCHES * max(map(len, columns)) + 0.5
    whole = max(width * across + 0.9, _TITLE_INCHES + 0.1 * len(title))
    figure = new_figure(whole, height * down + _TITLE_INCHES, title=title)
    all_axes = figure.subplots(down, across, squeeze=False)
    for line, line_of_axes in enumerate(all_axes):
        for place, axes in enumerate(line_of_axes):
            image = draw_panel(
                axes,
                weights[line, place],
                rows=rows,
                columns=columns,
                name=names[line][place],
                fonts=fonts,
            )
    figure.colorbar(
        image, ax=figure.axes, shrink=min(1.0, 2.5 / height), aspect=20, label="attention weight"
    )
    return figure


def draw_lines(
    lines: Sequence[tuple[Sequence[str], Sequence[float]]], *, names: Sequence[str], title: str
) -> Figure:
    """Draws the words of some lines, each with its attention weights, one line below the other.

    Args:
        lines: The words and weights of each.
        names: What stands below each line.
        title: Of the figure.
    """
    fonts = font_families("".join(word for words, _ in lines for word in words))
    longest = max(len(words) for words, _ in lines)
    heights = [0.8 + _LABEL_INCHES * max(map(len, words)) for words, _ in lines]
    width = max(3.5, CELL_INCHES * longest + 0.9, _TITLE_INCHES + 0.1 * len(title))
    figure = new_figure(width, sum(heights) + _TITLE_INCHES, title=title)
    all_axes = figure.subplots(len(lines), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (words, weights), name in zip(all_axes, lines, names, strict=True):
        image = draw_panel(axes, [weights], rows=[""], columns=words, name=name, fonts=fonts)
        axes.set_xlim(-0.5, longest - 0.5)
    figure.colorbar(image, ax=list(all_axes), aspect=20, label="attention weight")
    return figure
