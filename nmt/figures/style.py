"""How figures look and how they are saved: the same bytes for the same numbers."""

import warnings
from pathlib import Path

from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.layout_engine import ConstrainedLayoutEngine

# Okabe and Ito's palette, told apart by colour-blind readers; markers tell curves apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
INK, GREY, SHADE = "#222222", "#666666", "#EFEFEF"

_DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib
# `font_families` has named the missing characters already, once instead of one by one.
_MISSING = "Glyph .* missing from font"


def new_figure(width: float, height: float, *, title: str = "") -> Figure:
    """Makes a figure of some inches that needs no display."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, x=0.015, ha="left", fontsize=12, color=INK)
    return figure


def tidy(axes: Axes) -> None:
    """Leaves horizontal grid lines and two quiet spines."""
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=INK, length=0)


def score_top(best: float) -> float:
    """Returns the upper end of an axis of scores that starts at 0 and holds the best."""
    return next(top for top in (10, 20, 30, 40, 50, 60, 80, 102) if best < top)


def set_score_axis(axes: Axes, name: str) -> None:
    """Names the axis of scores; it runs from 0 to above the best drawn so far, here and beside."""
    beside = axes.get_shared_y_axes().get_siblings(axes)
    axes.set_ylim(0, score_top(min(100.0, max(float(each.dataLim.y1) for each in beside))))
    axes.set_ylabel(name, color=INK)


def save_figure(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Writes NAME.png and NAME.svg without dates or versions and returns their paths."""
    png, svg = directory / f"{name}.png", directory / f"{name}.svg"
    save_png(figure, png)
    with warnings.catch_warnings(), rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        warnings.filterwarnings("ignore", message=_MISSING)
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return [png, svg]


def save_png(figure: Figure, path: Path) -> None:
    """Writes one PNG file without dates or versions."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_MISSING)
        figure.savefig(path, format="png", dpi=150, metadata={"Software": None})


def font_families(text: str) -> list[str]:
    """Names the fonts that show a text: matplotlib's own, then an installed one for the rest.

    Warns if no installed font has the characters that the first one lacks, such as Chinese ones.
    """
    own = font_manager.findfont(_DEFAULT_FONT)
    needed = {ord(c) for c in text if not c.isspace()} - FT2Font(own).get_charmap().keys()
    if not needed:
        return [_DEFAULT_FONT]
    fonts = sorted(font_manager.fontManager.ttflist, key=lambda font: (font.name, font.weight))
    for font in fonts:
        # Matplotlib's last resort has every character, as the same box.
        shows = font.style == "normal" and not font.name.startswith("Last Resort")
        if shows and needed <= FT2Font(font.fname).get_charmap().keys():
            return [_DEFAULT_FONT, font.name]
    missing = "".join(sorted(map(chr, needed)))[:10]
    warnings.warn(
        f"No installed font shows {missing!r} in the heat maps; install one such as Noto Sans CJK.",
        stacklevel=2,
    )
    return [_DEFAULT_FONT]
