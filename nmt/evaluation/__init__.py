"""Scores and figures; strings and numbers, no torch."""
