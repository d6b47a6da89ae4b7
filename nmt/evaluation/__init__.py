"""Scores of one run: strings and numbers, no torch."""
