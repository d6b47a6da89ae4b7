"""One English sentence has exactly one German sentence, and the other way round.

By default 30,000 sentences are drawn; `NMT_GRAMMAR_SENTENCES=200000 pytest
tests/test_grammar_bijection.py` draws 200,000 from each lexicon.
"""

import os
import random

import pytest

from nmt.grammar.lexicon import load_lexicon
from nmt.grammar.sentences import sentence
from nmt.grammar.tokens import Draw, text

COUNT = int(os.environ.get("NMT_GRAMMAR_SENTENCES", "15000"))


@pytest.mark.parametrize("name", ["core", "full"])
def test_neither_side_has_two_translations(name):
    generator = random.Random(13)
    draw = Draw(generator, load_lexicon(name))
    german_of: dict[str, str] = {}
    english_of: dict[str, str] = {}
    for _ in range(COUNT):
        # Short sentences collide most.
        length = 3 + int(generator.expovariate(1 / 5))
        english, german = (text(side) for side in sentence(draw, min(length, 30)))
        assert german_of.setdefault(english, german) == german
        assert english_of.setdefault(german, english) == english
    assert len(german_of) > COUNT / 2
