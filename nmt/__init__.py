"""Three generations of neural machine translation, trained and compared with one harness."""

__version__ = "0.1.0"
