"""Translates text line by line: python scripts/translate.py CHECKPOINT < in.txt > out.txt.

Options and format: `nmt.cli.translate`.
"""

import sys

from nmt.cli.translate import main

if __name__ == "__main__":
    sys.exit(main())
