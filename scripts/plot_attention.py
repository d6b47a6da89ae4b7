"""Draws what a model looks at: python scripts/plot_attention.py CHECKPOINT --source TEXT."""

import sys

from nmt.cli.plot_attention import main

if __name__ == "__main__":
    sys.exit(main())
