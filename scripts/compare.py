"""Compares trained runs: python scripts/compare.py RUN_OR_SWEEP... --output DIR."""

import sys

from nmt.cli.compare import main

if __name__ == "__main__":
    sys.exit(main())
