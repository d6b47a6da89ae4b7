"""Draws what a model looks at; the program behind `scripts/plot_attention.py`.

A figure for each attention that the model has (cross, and for a Transformer also encoder-self and
decoder-self): a panel a layer, the mean over its heads; with `--heads` a panel for each layer and
head. Rows are the words that look, columns what they look at. Without `--target` the translation is
the model's own.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from nmt.alignment import AttentionMap
from nmt.checks import UserError, at_least, between, flag_main
from nmt.decoding.greedy import GreedySearch
from nmt.evaluation.figures import draw_attention, save_as, save_figure
from nmt.translator import Translator

TITLES = {
    "cross": "target words (rows) look at source words",
    "encoder-self": "source words (rows) look at source words",
    "decoder-self": "target words (rows) look at what is written already",
}


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Draws, and prints the paths written."""
    options = _parser().parse_args(argv)
    with warnings.catch_warnings(record=True, action="always") as raised:
        for path in _run(options):
            print(path)
    for message in dict.fromkeys(str(warning.message) for warning in raised):  # a missing font
        print(f"warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Draws what a model looks at.")
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="a .ckpt file written by training")
    add("--source", required=True, metavar="TEXT", help="the sentence that is read")
    add("--target", metavar="TEXT", help="its translation (default: the model's)")
    add("--kind", choices=tuple(TITLES), help="draw this attention only (default: all there are)")
    add("--layer", type=int, metavar="N", help="draw this layer only, from 1 (default: all)")
    add("--heads", action="store_true", help="a panel a head (default: their mean)")
    output = "a folder for PNG and SVG (default: this one), or a .png, .svg or .pdf for one kind"
    add("--output", type=Path, default=Path(), metavar="PATH", help=output)
    add("--threads", type=int, default=1, metavar="N", help="CPU threads (default: 1)")
    return parser


def _run(options: argparse.Namespace) -> list[Path]:
    import torch

    at_least("threads", options.threads)
    torch.set_num_threads(options.threads)
    translator = Translator.from_checkpoint(options.checkpoint)
    target = options.target
    if target is None:
        target = translator.translate([options.source], search=GreedySearch())[0].text
    maps = translator.reader.maps(options.source, target)
    if options.kind is not None and options.kind not in maps:
        raise UserError(f"This model has no {options.kind} attention: choose from {list(maps)}.")
    output: Path = options.output
    if output.suffix.lower() in (".png", ".svg", ".pdf") and not output.is_dir():
        kind = options.kind or "cross"
        output.parent.mkdir(parents=True, exist_ok=True)
        return [save_as(_draw(kind, maps[kind], options), output)]
    output.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind in maps if options.kind is None else [options.kind]:
        paths += save_figure(_draw(kind, maps[kind], options), output, f"attention-{kind}")
    return paths


def _draw(kind: str, shown: AttentionMap, options: argparse.Namespace) -> Figure:
    count = len(shown.weights)
    if options.layer is not None:
        between("layer", options.layer, 1, count)
    layers = range(count) if options.layer is None else [options.layer - 1]
    weights = shown.weights[list(layers)]
    names = [[f"layer {layer + 1}" for layer in layers]]
    if options.heads:
        heads = range(1, weights.shape[1] + 1)
        names = [[f"{name}, head {head}" for head in heads] for name in names[0]]
    else:
        weights = weights.mean(1)[None]  # side by side
    return draw_attention(
        weights, rows=shown.rows, columns=shown.columns, names=names, title=TITLES[kind]
    )
