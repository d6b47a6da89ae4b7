"""Three generations of neural machine translation, trained and compared with one harness."""
