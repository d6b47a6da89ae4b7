"""What `scripts/benchmark.py` can measure: one module, with `add_arguments` and `run`, for each."""
