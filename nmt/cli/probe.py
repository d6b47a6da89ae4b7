"""Measures finished runs beyond their test translations; behind `scripts/probe.py`.

Progress and errors go to standard error. Exit status: 0 when every run was measured, 1 when one was
not, 2 for a usage error.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from nmt.checks import flag_main

_PROGRAM = "probe"
_EXAMPLE = "example: python scripts/probe.py outputs/grammar-rnn/* --threads 1"


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Runs the program."""
    options = _parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, format=f"{_PROGRAM}: %(message)s")
    logging.getLogger("nmt.study").setLevel(logging.INFO)
    _run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Measures finished runs: joined inputs, training inputs, probability of the "
        "references, attention against gold links, cost. Writes RUN/probes/; what is there for "
        "the same checkpoint is kept.",
        epilog=_EXAMPLE,
    )
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="folder with config.yaml and checkpoints/best.ckpt")
    add("--force", action="store_true", help="measure again what is there already")
    add("--device", default="auto", help="cpu, cuda, cuda:1, ... or auto (default)")
    add("--threads", type=int, metavar="N", help="CPU threads")
    return parser


def _run(options: argparse.Namespace) -> None:
    import torch

    from nmt.checks import at_least
    from nmt.study.measure import probe_run

    if options.threads is not None:
        at_least("threads", options.threads, 1)
        torch.set_num_threads(options.threads)
    for run in options.runs:
        logging.getLogger("nmt.study").info("%s", run)
        probe_run(run, force=options.force, device=options.device)
