"""Measures finished runs: python scripts/probe.py RUN...

What is measured: `nmt.study.findings`. Options: `python scripts/probe.py --help`.
"""

import sys

from nmt.cli.probe import main

if __name__ == "__main__":
    sys.exit(main())
