"""Exports a Transformer: python scripts/export_ctranslate2.py CHECKPOINT DIR [--quantization int8].

What is written: `nmt.export.conversion`. Use it with `scripts/translate.py DIR --engine
ctranslate2`, or with CTranslate2 alone as the README.md in the folder says.
"""

import argparse
import sys
from collections.abc import Sequence

from nmt.checks import flag_main
from nmt.export.conversion import QUANTIZATIONS, export_checkpoint


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Writes the folder."""
    parser = argparse.ArgumentParser(description="Exports a Transformer to CTranslate2.")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a .ckpt file of a Transformer")
    parser.add_argument("folder", metavar="DIR", help="where to write: a new or empty folder")
    parser.add_argument(
        "--quantization",
        default="float32",
        choices=QUANTIZATIONS,
        help="how weights are stored (%(default)s)",
    )
    options = parser.parse_args(argv)
    export_checkpoint(options.checkpoint, options.folder, quantization=options.quantization)


if __name__ == "__main__":
    sys.exit(main())
