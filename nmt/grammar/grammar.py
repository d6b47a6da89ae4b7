"""The generator: inputs of one to three sentences of a length asked for in English words."""

from __future__ import annotations

import random

from nmt.checks import UserError
from nmt.grammar.lexicon import load_lexicon
from nmt.grammar.sentences import sentence
from nmt.grammar.tokens import Draw, GrammarPair, Table, Token, links, text

SHORTEST_INPUT, LONGEST_INPUT = 3, 80
SHORTEST_SENTENCE = 3
TOLERANCE = 2  # words by which an input may miss the length asked for
LONGEST_SENTENCE = 45
_ATTEMPTS = 1000

# Number of sentences by the words asked for: (up to, table).
_SENTENCES = (
    (9, Table([1], [1.0])),
    (20, Table([1, 2], [78.0, 22.0])),
    (40, Table([1, 2, 3], [45.0, 37.0, 18.0])),
    (50, Table([1, 2, 3], [15.0, 50.0, 35.0])),
    (LONGEST_INPUT, Table([2, 3], [40.0, 60.0])),
)


class Grammar:
    """The synchronous English-German grammar over one lexicon.

    Args:
        lexicon: Name of the lexicon: `core` or `full`.

    Raises:
        UserError: There is no lexicon of that name.
    """

    def __init__(self, *, lexicon: str = "core") -> None:
        self._lexicon = load_lexicon(lexicon)

    def pair(self, words: int, generator: random.Random) -> GrammarPair:
        """One input of `words` English words, at most two more or fewer, and its translation.

        Args:
            words: Length asked for, 3 to 80 white-space tokens.
            generator: Source of randomness; the same state gives the same pair.

        Raises:
            UserError: The length is outside 3..80.
        """
        if not SHORTEST_INPUT <= words <= LONGEST_INPUT:
            raise UserError(
                f"the grammar makes inputs of {SHORTEST_INPUT} to {LONGEST_INPUT} words, not "
                f"{words}: ask for a length in that range"
            )
        draw = Draw(generator)
        for _ in range(_ATTEMPTS):
            draw.restart()
            english, german, count = self._input(draw, words)
            if abs(len(english) - words) <= TOLERANCE and len(english) >= SHORTEST_INPUT:
                sure, possible = links(english, german)
                return GrammarPair(text(english), text(german), sure, possible, draw.bits, count)
        raise AssertionError(f"no input of {words} words in {_ATTEMPTS} attempts")

    def _input(self, draw: Draw, words: int) -> tuple[list[Token], list[Token], int]:
        count = draw.pick(next(table for most, table in _SENTENCES if words <= most))
        english: list[Token] = []
        german: list[Token] = []
        left = words
        for remaining in range(count, 0, -1):
            low = max(
                SHORTEST_SENTENCE,
                left - LONGEST_SENTENCE * (remaining - 1),
                left // (2 * remaining),
            )
            high = min(LONGEST_SENTENCE, left - SHORTEST_SENTENCE * (remaining - 1))
            size = left if remaining == 1 else draw.integer(low, min(high, 2 * left // remaining))
            made = sentence(draw, self._lexicon, size)
            english += made[0]
            german += made[1]
            left = max(words - len(english), SHORTEST_SENTENCE)
        return english, german, count
