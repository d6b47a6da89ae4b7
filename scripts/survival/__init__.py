"""What `scripts/stress.py` is made of."""
