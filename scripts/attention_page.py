"""Makes the pictures and tables of docs/attention.md: python scripts/attention_page.py.

Reads docs/attention/cost.json (`python scripts/benchmark.py attention --output ...`) and, where it
is there, docs/attention/bleu.json, which `--bleu RUN...` writes first from the folders of finished
runs (`train.py`, then `scripts/probe.py`). The tables of all languages are replaced in place.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from pages.figures import draw_cost, draw_patterns, draw_positions, draw_saturation
from pages.runs import read_runs
from pages.tables import bleu_tables, cost_tables, replace_between

from nmt.checks import flag_main

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {"en": "attention.md", "zh": "attention.zh.md"}


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Draws, writes and prints the paths written."""
    options = _parser().parse_args(argv)
    if options.bleu:
        write_bleu(options.docs, options.bleu)
    for path in [*draw(options.docs), *fill(options.docs)]:
        print(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=str(__doc__).partition(":")[0] + ".")
    add = parser.add_argument
    add("--bleu", type=Path, nargs="+", metavar="RUN", help="write bleu.json from these runs first")
    add("--docs", type=Path, default=DOCS, metavar="DIR", help="folder of the pages (%(default)s)")
    return parser


def write_bleu(docs: Path, runs: Sequence[Path]) -> None:
    """Writes bleu.json, the scores of runs."""
    text = json.dumps(read_runs(runs), indent=2)
    (docs / "attention" / "bleu.json").write_text(text + "\n", encoding="utf-8")


def draw(docs: Path) -> list[Path]:
    """Draws all pictures and returns their paths."""
    cost = json.loads((docs / "attention" / "cost.json").read_text(encoding="utf-8"))
    figures: dict[str, Figure] = {
        "saturation": draw_saturation(),
        "patterns": draw_patterns(),
        "positions": draw_positions(),
        "cost": draw_cost(cost),
    }
    for name, figure in figures.items():
        path = docs / "attention" / f"{name}.png"
        figure.savefig(path, dpi=100, metadata={"Software": None})
    return [docs / "attention" / f"{name}.png" for name in figures]


def fill(docs: Path) -> list[Path]:
    """Writes the tables into the pages and returns the pages' paths."""
    folder = docs / "attention"
    cost = json.loads((folder / "cost.json").read_text(encoding="utf-8"))
    bleu = None
    if (folder / "bleu.json").is_file():
        bleu = json.loads((folder / "bleu.json").read_text(encoding="utf-8"))
    paths = [docs / name for name in PAGES.values()]
    for language, path in zip(PAGES, paths, strict=True):
        text = path.read_text(encoding="utf-8")
        text = replace_between(text, "cost", cost_tables(cost, language))
        text = replace_between(text, "bleu", bleu_tables(bleu, language))
        path.write_text(text, encoding="utf-8")
    return paths


if __name__ == "__main__":
    sys.exit(main())
