"""Searches over a model's next-token distributions; plain PyTorch."""
