"""The generator: inputs of requested lengths, and splits of them without a sentence in common."""

from __future__ import annotations

import gc
import random
import re
from collections.abc import Sequence
from typing import Literal

from nmt.checks import UserError, at_least, one_of
from nmt.grammar.lexicon import load_lexicon
from nmt.grammar.sentences import sentence
from nmt.grammar.tokens import Draw, GrammarPair, Table, Token, links, text

LengthDistribution = Literal["short_heavy", "uniform"]

SHORT = (3, 10)
LONG = (11, 50)
TEST_BUCKETS = (SHORT, (11, 20), (21, 30), (31, 40), (41, 50))
LONG_TEST_BUCKETS = ((51, 60), (61, 70), (71, 80))
# Ranges of the words of training pairs, used in turn.
_LENGTHS = {"short_heavy": (SHORT, LONG), "uniform": ((3, 50),)}
_MOST_REPEATS = 500  # in a row, before a set is declared impossible
_SENTENCE_END = re.compile(r"(?<=[.?]) ")


def generate_splits(
    *,
    lexicon: str = "core",
    seed: int = 1,
    train_size: int = 60_000,
    valid_size: int = 1_000,
    test_per_bucket: int = 250,
    length_distribution: LengthDistribution = "short_heavy",
) -> dict[str, list[GrammarPair]]:
    """The embedded corpus, the same for the same arguments on every machine.

    No input occurs twice, and no sentence of one split occurs in another, not even as one of the
    sentences of a longer input. Lengths are counted in English words.

    Args:
        lexicon: `core` or `full`.
        seed: Seed of every choice.
        train_size: Training pairs, 3 to 50 words.
        valid_size: Validation pairs, with the lengths of the training pairs.
        test_per_bucket: Pairs in each range of ten words: 3-10 to 41-50 in `test`, 51-60 to 71-80,
            longer than anything trained, in `test_long`.
        length_distribution: `short_heavy` draws half of the pairs from 3-10 words and half from
            11-50; `uniform` draws from 3-50.

    Returns:
        Lists under `train`, `valid`, `test`, `test_long`; tests are in the order of their buckets.
    """
    one_of("data.grammar.length_distribution", length_distribution, tuple(_LENGTHS))
    at_least("data.grammar.train_size", train_size, 0)
    at_least("data.grammar.valid_size", valid_size, 0)
    at_least("data.grammar.test_per_bucket", test_per_bucket, 0)
    collector = _Collector(Grammar(lexicon=lexicon), seed)
    lengths = _LENGTHS[length_distribution]
    collecting = gc.isenabled()
    gc.disable()  # all of it lives on: looking for cycles in it would take a fifth of the time
    try:
        test, test_long = (
            [
                pair
                for bucket in buckets
                for pair in collector.collect(name, test_per_bucket, [bucket])
            ]
            for name, buckets in (("test", TEST_BUCKETS), ("test_long", LONG_TEST_BUCKETS))
        )
        valid = collector.collect("valid", valid_size, lengths)
        train = collector.collect("train", train_size, lengths)
    finally:
        if collecting:
            gc.enable()
    return {"train": train, "valid": valid, "test": test, "test_long": test_long}


class _Collector:
    """Draws pairs and keeps those whose sentences belong to no other split."""

    def __init__(self, grammar: Grammar, seed: int) -> None:
        self._grammar = grammar
        self._seed = seed
        self._inputs: set[str] = set()
        self._owner: dict[str, str] = {}  # the split of each sentence

    def collect(
        self, split: str, size: int, lengths: Sequence[tuple[int, int]]
    ) -> list[GrammarPair]:
        """`size` new pairs, their words within each of the ranges in turn."""
        generator = random.Random(f"{self._seed} {split} {len(self._inputs)}")
        pairs = [
            self._new_pair(generator, split, *lengths[index % len(lengths)])
            for index in range(size)
        ]
        generator.shuffle(pairs)
        return pairs

    def _new_pair(self, generator: random.Random, split: str, low: int, high: int) -> GrammarPair:
        for _ in range(_MOST_REPEATS):
            pair = self._grammar.pair(generator.randint(low, high), generator)
            if low <= pair.source.count(" ") + 1 <= high and self._claim(pair, split):
                return pair
        raise UserError(
            f"the grammar found no new sentence of {low} to {high} words after "
            f"{len(self._inputs)}: ask for smaller splits or use the lexicon full"
        )

    def _claim(self, pair: GrammarPair, split: str) -> bool:
        """Whether the pair is new and its sentences are free; if so they now belong to `split`."""
        sentences = _SENTENCE_END.split(pair.source)
        if pair.source in self._inputs or any(
            self._owner.get(one, split) != split for one in sentences
        ):
            return False
        self._inputs.add(pair.source)
        self._owner.update(dict.fromkeys(sentences, split))
        return True


SHORTEST_SENTENCE = 3
TOLERANCE = 2  # words by which an input may miss the length asked for
LONGEST_SENTENCE = 45
_ATTEMPTS = 1000

# Number of sentences by the words asked for: (up to, table).
_SENTENCES = (
    (9, Table({1: 1.0})),
    (20, Table({1: 78.0, 2: 22.0})),
    (40, Table({1: 45.0, 2: 37.0, 3: 18.0})),
    (50, Table({1: 15.0, 2: 50.0, 3: 35.0})),
    (80, Table({2: 40.0, 3: 60.0})),
)


class Grammar:
    """The synchronous English-German grammar over one lexicon.

    Args:
        lexicon: Name of the lexicon: `core` or `full`.
    """

    def __init__(self, *, lexicon: str = "core") -> None:
        self._lexicon = load_lexicon(lexicon)

    def pair(self, words: int, generator: random.Random) -> GrammarPair:
        """One input of `words` (3 to 80) English words, at most two more or fewer, translated."""
        draw = Draw(generator, self._lexicon)
        for _ in range(_ATTEMPTS):
            draw.restart()
            english, german, count = self._input(draw, words)
            if abs(len(english) - words) <= TOLERANCE and len(english) >= SHORTEST_SENTENCE:
                sure, possible = links(english, german)
                return GrammarPair(text(english), text(german), sure, possible, draw.bits, count)
        raise AssertionError(f"no input of {words} words in {_ATTEMPTS} attempts")

    def _input(self, draw: Draw, words: int) -> tuple[list[Token], list[Token], int]:
        count = draw.pick(next(table for most, table in _SENTENCES if words <= most))
        english: list[Token] = []
        german: list[Token] = []
        left = words
        for remaining in range(count, 0, -1):
            longest_rest = LONGEST_SENTENCE * (remaining - 1)
            low = max(SHORTEST_SENTENCE, left - longest_rest, left // (2 * remaining))
            high = min(LONGEST_SENTENCE, left - SHORTEST_SENTENCE * (remaining - 1))
            size = left if remaining == 1 else draw.integer(low, min(high, 2 * left // remaining))
            made = sentence(draw, size)
            english += made[0]
            german += made[1]
            left = max(words - len(english), SHORTEST_SENTENCE)
        return english, german, count
