"""Compares trained runs and writes a report; the program behind `scripts/compare.py`.

    compare RUN_OR_SWEEP... --output DIR            # measures, writes results.json and the report
    compare --from results.json --output DIR        # redraws the report from the numbers alone

Exit status: 0 when the report is written, 1 when the runs cannot be compared, 2 for a usage error.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from nmt.checks import UserError, flag_main

_PROGRAM = "compare"


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Runs the program."""
    parser = _parser()
    options = parser.parse_args(argv)
    if bool(options.runs) == (options.results is not None):
        parser.error("name either runs to compare or --from results.json")
    if options.results is not None and options.split is not None:
        parser.error("--split cannot change what --from redraws")
    _run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=_PROGRAM, description="Compares trained runs.")
    add = parser.add_argument
    add("runs", nargs="*", type=Path, metavar="RUN", help="a run folder, or one that holds runs")
    add("--from", dest="results", type=Path, metavar="FILE", help="redraw from a results.json")
    add("--split", metavar="NAME", help="what to compare on (default: test)")
    add("--output", type=Path, required=True, metavar="DIR", help="where the report goes")
    return parser


def _run(options: argparse.Namespace) -> None:
    from nmt.evaluation.results import print_paths
    from nmt.study.findings.contrasts import primary_statistic
    from nmt.study.report import compare, read_results, write_report, write_results

    if options.output.exists() and not options.output.is_dir():
        raise UserError(f"--output {options.output} is a file; name a folder.")
    if options.results is not None:
        results = read_results(options.results)
    else:
        results = compare(options.runs, split=options.split or "test")
    options.output.mkdir(parents=True, exist_ok=True)
    written = [write_results(options.output / "results.json", results)]
    with warnings.catch_warnings(record=True) as caught:
        written += write_report(options.output, results)
    console = Console()
    for text in [*results["warnings"], *(str(warning.message) for warning in caught)]:
        Console(stderr=True).print(Text(f"Warning: {text}", style="yellow"), soft_wrap=True)
    for text in primary_statistic(results).before if results["differences"] else ():
        console.print(Text(text))
    print_paths(console, written)
