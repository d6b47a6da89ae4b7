"""Words with link keys, and how two lists of them become a sentence pair with its alignment.

A token is (word, key). Tokens of the two languages are linked when their keys have the same
absolute value; the link is sure when both keys are positive, else merely possible. Key 0 links
nothing. The table of who gets which key:

| English | German | link |
|---|---|---|
| noun, adjective, adverb, name, pronoun, numeral, possessive | its counterpart | sure |
| article | article | sure |
| article | contraction (`im`) or `kein` | possible |
| preposition, each word of it (`next to`) | preposition or contraction | sure |
| `of` before a genitive | article of the genitive | possible |
| main verb and its particle (`wakes up`) | both halves of the verb (`wacht ... auf`) | sure |
| do-support | the finite main or modal verb | possible |
| `have`, modal, `be` | `haben`/`sein`, modal, `sein` | sure |
| `to` after `want` | the infinitive | possible |
| `not` | `nicht` or `kein` | sure |
| `cannot` | finite form of `können`; `nicht` | sure; possible |
| conjunction, relative pronoun | its counterpart | sure |

Random choices count their information: every draw adds -log2 of its probability.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from nmt.grammar.lexicon import Lexicon

T = TypeVar("T")


class Table(Generic[T]):
    """A finite distribution, prepared once so that a draw costs one bisection.

    Args:
        weights: A positive weight for each item; they need not sum to one.
    """

    __slots__ = ("bits", "cumulative", "items")

    def __init__(self, weights: Mapping[T, float]) -> None:
        total = sum(weights.values())
        self.items = tuple(weights)
        # The last bound is left out, so that rounding never leads past the last item.
        self.cumulative = list(accumulate(weight / total for weight in weights.values()))[:-1]
        self.bits = [-math.log2(weight / total) for weight in weights.values()]


def zipf(items: Sequence[T]) -> dict[T, float]:
    """Weights of items in the order of their frequency: Zipf's law, flattened at the top."""
    return {item: 1.0 / (rank + 2.0) for rank, item in enumerate(items)}


def zipf_table(items: Sequence[T]) -> Table[T]:
    """A table of items in the order of their frequency."""
    return Table(zipf(items))


class Draw:
    """One stream of random choices with the bits spent so far and the link keys handed out.

    Attributes:
        lexicon: The words to choose from.
        bits: Sum of -log2 of the probability of every choice since the last `restart`.
    """

    __slots__ = ("_key", "_random", "bits", "lexicon")

    def __init__(self, generator: random.Random, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._random = generator.random
        self._key = 0
        self.bits = 0.0

    def restart(self) -> None:
        """Begins a new input: no bits spent, link keys from 1."""
        self.bits = 0.0
        self._key = 0

    def key(self) -> int:
        """A link key not used before in this input."""
        self._key += 1
        return self._key

    def pick(self, table: Table[T]) -> T:
        """One item of the table."""
        index = bisect_right(table.cumulative, self._random())
        self.bits += table.bits[index]
        return table.items[index]

    def pick_other(self, table: Table[T], than: T | None) -> T:
        """One item of the table that is not `than`; only the draw that counts costs bits."""
        bits = self.bits
        item = self.pick(table)
        while item is than:
            self.bits = bits
            item = self.pick(table)
        return item

    def flip(self, probability: float) -> bool:
        """True with the given probability, strictly between 0 and 1."""
        happened = self._random() < probability
        self.bits -= math.log2(probability if happened else 1.0 - probability)
        return happened

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included; `low` when there is no room."""
        count = high - low + 1
        if count <= 1:
            return low
        self.bits += math.log2(count)
        return low + int(self._random() * count)


Token = tuple[str, int]
Words = tuple[list[Token], list[Token]]  # English, German
Link = tuple[int, int]

COMMA: Token = (",", 0)

# Links are shared objects: sixty thousand pairs hold about a million of them.
_MOST_WORDS = 128
_LINKS = [[(row, column) for column in range(_MOST_WORDS)] for row in range(_MOST_WORDS)]


@dataclass(frozen=True, slots=True)
class GrammarPair:
    """One input of the embedded corpus: one to three sentences in both languages.

    Attributes:
        source: The English text, `target` the German one, words parted by single spaces.
        sure: Links (source word index, target word index) that are certain, in source order.
        possible: Further links that are defensible (articles, do-support); none of `sure`.
        bits: Information under the generator, given the length asked for: the sum of -log2 of the
            probability of each choice.
        num_sentences: Sentences in the source, as many as in the target.
    """

    source: str
    target: str
    sure: tuple[Link, ...]
    possible: tuple[Link, ...]
    bits: float
    num_sentences: int


def swapped(pair: GrammarPair) -> GrammarPair:
    """The pair in the other direction, German to English, with its links turned round."""
    return replace(
        pair,
        source=pair.target,
        target=pair.source,
        sure=tuple(sorted((german, english) for english, german in pair.sure)),
        possible=tuple(sorted((german, english) for english, german in pair.possible)),
    )


def finished(tokens: list[Token], mark: str) -> list[Token]:
    """A sentence: commas attached to the word before, first letter capital, closing mark."""
    done: list[Token] = []
    for token in tokens:
        if token is COMMA:
            word, key = done[-1]
            if word[-1] != ",":
                done[-1] = (word + ",", key)
        else:
            done.append(token)
    word, key = done[0]
    done[0] = (word[0].upper() + word[1:], key)
    word, key = done[-1]
    done[-1] = (word.removesuffix(",") + mark, key)
    return done


def links(english: list[Token], german: list[Token]) -> tuple[tuple[Link, ...], tuple[Link, ...]]:
    """The sure and the possible links between two lists of tokens, each in source order."""
    columns: dict[int, list[tuple[int, bool]]] = {}
    for column, (_, key) in enumerate(german):
        columns.setdefault(abs(key), []).append((column, key > 0))
    columns.pop(0, None)
    sure: list[Link] = []
    possible: list[Link] = []
    for row, (_, key) in zip(_LINKS, english, strict=False):
        for column, certain in columns.get(abs(key), ()):
            (sure if certain and key > 0 else possible).append(row[column])
    return tuple(sure), tuple(possible)


def text(tokens: list[Token]) -> str:
    """The words joined by single spaces."""
    return " ".join([word for word, _ in tokens])
