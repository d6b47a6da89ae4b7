"""The report of a comparison, from `results.json` alone."""
