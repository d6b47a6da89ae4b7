"""The four special ids that every part of the package agrees on.

A tokenizer with other ids is refused (`nmt.tokenizer.Tokenizer`), so these are constants.
"""

PAD = 0
UNK = 1
BOS = 2
EOS = 3
