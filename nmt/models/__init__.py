"""The translation models; plain PyTorch."""
