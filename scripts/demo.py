"""Serves a page to try models on: python scripts/demo.py CHECKPOINT... (needs nmt[demo])."""

import sys

from nmt.demo.app import main

if __name__ == "__main__":
    sys.exit(main())
