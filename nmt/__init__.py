"""Three generations of neural machine translation, trained and compared with one harness."""

__version__ = "0.1.0"

# The ids that every part agrees on; a tokenizer with others is refused (`nmt.tokenizer`).
PAD, UNK, BOS, EOS = range(4)
