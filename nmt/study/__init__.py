"""Several runs against each other, with intervals and tests: what `results.json` holds."""

from __future__ import annotations
