"""Words as hashed character n-grams: every word of every language has an embedding.

Words are what stands between white space, and single characters of Chinese and Japanese. A word is
the mean of its character n-grams (1 to 4, with its ends marked, in lower case), each a row of a
table by its hash, as in fastText (Bojanowski et al. 2017). So endings and letters such as ß count
in words never seen, nothing but weights has to be stored, and attention is over words.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

_CHARACTERS = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # kana and Chinese characters
_WORD = re.compile(rf"[{_CHARACTERS}]|[^\s{_CHARACTERS}]+")
_LONGEST_NGRAM = 4


def words_of(text: str) -> list[str]:
    """Splits at white space and around each Chinese or Japanese character."""
    return _WORD.findall(text)


@functools.lru_cache(maxsize=100_000)
def ngrams_of(word: str, num_buckets: int) -> list[int]:
    """Returns the rows of the n-grams of a word in a table, the same on every machine."""
    marked = f"<{word.lower()}>"
    return [
        zlib.crc32(marked[start : start + size].encode("utf-8", "surrogatepass")) % num_buckets
        for size in range(1, _LONGEST_NGRAM + 1)
        for start in range(len(marked) - size + 1)
    ]


def pack(lines: Iterable[Sequence[str]], num_buckets: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns n-grams, starts and mask of lines of words, as `LanguageClassifier` takes them."""
    ngrams: list[int] = []
    starts: list[int] = []
    lengths: list[int] = []
    for words in lines:
        lengths.append(len(words))
        for word in words:
            starts.append(len(ngrams))
            ngrams += ngrams_of(word, num_buckets)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return torch.tensor(ngrams), torch.tensor(starts), mask
