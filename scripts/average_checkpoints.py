"""Averages the weights of checkpoints of one run into one file that translates like any other.

python train.py callbacks=averaging ...     # keeps update_N.ckpt of the last (or best) validations
python scripts/average_checkpoints.py outputs/.../checkpoints/update_*.ckpt --output averaged.ckpt
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from nmt.checkpoint import average_checkpoints
from nmt.checks import flag_main


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("checkpoints", nargs="+", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="a .ckpt file")
    arguments = parser.parse_args(argv)
    if arguments.output.suffix != ".ckpt":
        parser.error(f"--output {arguments.output}: give the name of a .ckpt file")
    content = average_checkpoints(arguments.checkpoints)
    with arguments.output.open("wb") as file:
        torch.save(content, file)
    print(f"{arguments.output}: the average of {len(arguments.checkpoints)} checkpoints")


if __name__ == "__main__":
    sys.exit(main())
