"""One module, with `add_arguments` and `run`, for each question of `scripts/benchmark.py`."""
