"""The report of a comparison, from `results.json` alone."""

from __future__ import annotations
