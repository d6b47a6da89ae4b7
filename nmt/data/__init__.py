"""Parallel text: loading, cleaning, batching."""
