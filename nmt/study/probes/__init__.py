"""What is measured on one trained run beyond its test translations; `probe_run` does all of it."""

from __future__ import annotations

from nmt.study.probes.probe import probe_run

__all__ = ["probe_run"]
