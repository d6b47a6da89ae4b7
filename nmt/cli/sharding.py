"""Bulk translation by several processes: torchrun --nproc_per_node N scripts/translate.py ...

Each rank translates one stretch of the input's lines, as if it were the whole input, from a file
into a file. The first rank waits for all and joins what they wrote, in order, under the name that
was asked for: it is there whole, or not at all.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from pathlib import Path

from nmt.cli.files import check_output, open_bytes
from nmt.launch import MeetingPoint, rank_and_ranks, under_torchrun

_LONGEST_WAIT = timedelta(days=7)  # of the first rank for the slowest


def launched() -> bool:
    """Returns whether torchrun started this process, as one of several."""
    return under_torchrun() and rank_and_ranks()[1] > 1


def translate_share(
    options: argparse.Namespace, translate: Callable[[argparse.Namespace], None]
) -> None:
    """Translates the lines of this rank; the first rank then writes those of all.

    Args:
        options: With `input`, `output`, `device` and `first_line`; they are changed.
        translate: What translates `options.input` into `options.output`.

    Raises:
        ValueError: Input or output is no file or the same one, or there is a second file of lines.
    """
    import torch

    if options.input is None or options.output is None:
        raise ValueError(
            "several processes cannot share standard input or output: give --input FILE and "
            "--output FILE."
        )
    for name in ("prefix", "score"):
        if getattr(options, name) is not None:
            raise ValueError(
                f"several processes cannot share the lines of --{name} {getattr(options, name)}: "
                "start one process."
            )
    check_output(options)
    rank, world = rank_and_ranks()
    meeting_point = MeetingPoint("translate")
    source, target = Path(options.input), Path(options.output)
    parts = target.with_name(f".{target.name}.parts")
    total = _count_lines(source)
    first, last = (total * number // world for number in (rank, rank + 1))
    parts.mkdir(parents=True, exist_ok=True)
    options.input, options.output = str(parts / f"{rank}.in"), str(parts / f"{rank}.out")
    options.first_line = 1 + first
    _write_share(source, Path(options.input), first, last)
    if options.device == "auto" and torch.cuda.is_available():
        options.device = f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
    translate(options)
    meeting_point.give("done")
    if rank == 0:
        for number in range(world):
            meeting_point.take(number, longest_wait=_LONGEST_WAIT)
        _join([parts / f"{number}.out" for number in range(world)], target)
        shutil.rmtree(parts)


def _count_lines(source: Path) -> int:
    with open_bytes(source, "rb") as lines:
        return sum(1 for _ in lines)


def _write_share(source: Path, share: Path, first: int, last: int) -> None:
    """Writes the lines `first` (from 0) to `last`, exclusive, into a file."""
    with open_bytes(source, "rb") as lines, share.open("wb") as file:
        file.writelines(islice(lines, first, last))


def _join(parts: list[Path], target: Path) -> None:
    # Under a name that no part has; its ending says whether it is compressed.
    temporary = parts[0].with_name(f"joined{target.suffix}")
    with open_bytes(temporary, "wb") as joined:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, joined)
    temporary.replace(target)
