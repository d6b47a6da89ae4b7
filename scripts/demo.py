"""Serves a page to try models on: python scripts/demo.py CHECKPOINT... (needs nmt[demo]).

The address is 127.0.0.1 unless `--host` says otherwise: nobody else can reach it, and the page
reaches nobody else.
"""

import sys

from nmt.demo.app import main

if __name__ == "__main__":
    sys.exit(main())
