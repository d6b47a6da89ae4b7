"""Translates text: python scripts/translate.py CHECKPOINT < in.txt > out.txt."""

import sys

from nmt.cli.translate import main

if __name__ == "__main__":
    sys.exit(main())
