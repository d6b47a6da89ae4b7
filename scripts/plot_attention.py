"""Draws what a model looks at: python scripts/plot_attention.py CHECKPOINT --source TEXT.

Writes a PNG and an SVG for each attention that the model has (cross, and for a Transformer also
encoder-self and decoder-self): a panel a layer, the mean over its heads; with `--heads` a panel for
each layer and head. Rows are the words that look, columns what they look at. Without `--target`
the translation is the model's own.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from nmt.alignment import AttentionMap, Units, attention_maps
from nmt.checks import UserError, at_least, flag_main
from nmt.decoding.greedy import GreedySearch
from nmt.evaluation.figures import draw_attention, save_figure
from nmt.tokenizer import default_unit
from nmt.translator import Translator

KINDS = ("cross", "encoder-self", "decoder-self")
TITLES = {
    "cross": "target words (rows) look at source words",
    "encoder-self": "source words (rows) look at source words",
    "decoder-self": "target words (rows) look at what is written already",
}


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Draws and prints the paths written."""
    options = _parser().parse_args(argv)
    with warnings.catch_warnings(record=True, action="always") as raised:
        for path in _run(options):
            print(path)
    for message in dict.fromkeys(str(warning.message) for warning in raised):  # a missing font
        print(f"warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0] + ".")
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="a .ckpt file written by training")
    add("--source", required=True, metavar="TEXT", help="the sentence that is read")
    add("--target", metavar="TEXT", help="its translation (default: the model's)")
    add("--kind", choices=KINDS, help="draw this attention only (default: all there are)")
    add("--layer", type=int, metavar="N", help="draw this layer only, from 1 (default: all)")
    add("--heads", action="store_true", help="a panel a head (default: their mean)")
    add("--output", type=Path, default=Path(), metavar="DIR", help="folder (default: this one)")
    add("--threads", type=int, default=1, metavar="N", help="CPU threads (default: 1)")
    return parser


def _run(options: argparse.Namespace) -> list[Path]:
    at_least("threads", options.threads, 1)
    if options.output.suffix.lower() in (".png", ".svg", ".pdf", ".jpg"):
        raise UserError(f"--output is a folder, and {options.output} looks like a file: give DIR.")
    torch.set_num_threads(options.threads)
    translator = Translator.from_checkpoint(options.checkpoint)
    target = options.target
    if target is None:
        target = translator.translate([options.source], search=GreedySearch())[0].text
    maps = attention_maps(
        translator.model,
        translator.tokenizer,
        options.source,
        target,
        units=Units(default_unit(translator.source_lang), default_unit(translator.target_lang)),
    )
    if options.kind is not None and options.kind not in maps:
        raise UserError(
            f"This model has no {options.kind} attention: choose from {', '.join(maps)}."
        )
    options.output.mkdir(parents=True, exist_ok=True)
    kinds = list(maps) if options.kind is None else [options.kind]
    return [path for kind in kinds for path in _draw(kind, maps[kind], options)]


def _draw(kind: str, shown: AttentionMap, options: argparse.Namespace) -> list[Path]:
    layers = _layers(len(shown.weights), options.layer)
    weights = shown.weights[layers]
    names = [[f"layer {layer + 1}"] for layer in layers]
    if options.heads:
        heads = range(1, weights.shape[1] + 1)
        names = [[f"{name}, head {head}" for head in heads] for (name,) in names]
    else:  # side by side
        weights, names = weights.mean(1)[None], [[name for (name,) in names]]
    figure = draw_attention(
        weights, rows=shown.rows, columns=shown.columns, names=names, title=TITLES[kind]
    )
    return save_figure(figure, options.output, f"attention-{kind}")


def _layers(count: int, asked: int | None) -> list[int]:
    if asked is None:
        return list(range(count))
    if not 1 <= asked <= count:
        raise UserError(f"layer is {asked}, but there are {count}: choose 1 to {count}.")
    return [asked - 1]


if __name__ == "__main__":
    sys.exit(main())
