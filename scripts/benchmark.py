"""Measures this package, one subcommand for each question; see `--help` of each.

Sides that are compared take turns, round by round, so that a busy machine hits all alike.
"""

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

sys.path[0] = str(Path(__file__).parents[1])  # the programs beside this one are no libraries

from nmt.checks import at_least, flag_main  # noqa: E402
from scripts.benchmarks import attention, decode, train  # noqa: E402

BENCHMARKS = {"attention": attention, "decode": decode, "train": train}


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Runs one benchmark, prints its summary and writes its figures if asked to."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    subparsers = parser.add_subparsers(dest="benchmark", required=True)
    for name, module in BENCHMARKS.items():
        summary = str(module.__doc__).splitlines()[0]
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        module.add_arguments(subparser)
        subparser.add_argument("--threads", type=int, default=1, help="of torch (%(default)s)")
        subparser.add_argument("--output", type=Path, help="JSON file for the figures")
    arguments = parser.parse_args(argv)
    at_least("--threads", arguments.threads)
    if arguments.output is not None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)  # before the work
    torch.set_num_threads(arguments.threads)
    figures = BENCHMARKS[arguments.benchmark].run(arguments)
    if arguments.output is not None:
        options = {key: str(value) for key, value in vars(arguments).items()}
        versions = {"python": platform.python_version(), "torch": torch.__version__}
        content = {"options": options, "versions": versions, "figures": figures}
        arguments.output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
