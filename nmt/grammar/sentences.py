"""Whole sentences from clauses: questions, coordination, clauses before and after, that-clauses.

What keeps them to one reading: coordinated main clauses have a comma before `and` and `but`, verb
phrases with one subject have none; nothing follows a that-clause or a final subordinate clause.
"""

from __future__ import annotations

from collections.abc import Callable

from nmt.grammar.clause import (
    Wish,
    english_question,
    english_statement,
    german_verb_first,
    german_verb_second,
)
from nmt.grammar.clauses import build_clause
from nmt.grammar.subordinate import (
    ANY,
    FRONTED,
    LONGEST,
    SHORT,
    SHORTEST,
    SHORTEST_COMPLEX,
    SHORTEST_SHARED,
    beside,
    clause_after,
    saying,
    sharing,
    subordinate,
)
from nmt.grammar.tokens import COMMA, Draw, Table, Words, finished

SHORTEST_ROOMY = 8  # English words with room for two objects or a conjunction of three words
LONGEST_QUESTION = 10
LONGEST_MEDIUM = 26  # English words of a main clause that need not be two
_COORDINATORS = Table({("and", "und"): 65.0, ("but", "aber"): 35.0})

# Shapes of a main clause by length; "alone" is a single clause.
_TINY_SHAPES = Table(
    {"alone": 66.0, "after": 9.0, "before": 6.0, "that": 9.0, "joined": 6.0, "shared": 4.0}
)
_SHORT_SHAPES = Table(
    {"alone": 48.0, "after": 14.0, "before": 10.0, "that": 12.0, "joined": 8.0, "shared": 8.0}
)
_MEDIUM_SHAPES = Table({"after": 28.0, "before": 22.0, "that": 24.0, "joined": 26.0})
_PART_SHAPES = Table({"after": 40.0, "before": 30.0, "that": 30.0})
_LONG_SHAPES = Table({"joined": 70.0, "before": 10.0, "after": 10.0, "that": 10.0})


def sentence(draw: Draw, words: int) -> Words:
    """A finished sentence of about so many English words in both languages."""
    if words <= LONGEST_QUESTION and draw.flip(0.07):
        wish = Wish(question=True, tenses="question", relative=False)
        clause = build_clause(draw, words, wish)
        return finished(english_question(clause), "?"), finished(german_verb_first(clause), "?")
    english, german = _main(draw, words)
    return finished(english, "."), finished(german, ".")


def _main(draw: Draw, words: int, *, part: bool = False) -> Words:
    """A main clause with all that belongs to it; a `part` of a coordination is not split again."""
    if words < SHORTEST_COMPLEX or (part and words <= LONGEST and draw.flip(0.6)):
        shape = "alone"
    elif words < SHORTEST_ROOMY:
        shape = "alone" if part else draw.pick(_TINY_SHAPES)
    elif words <= LONGEST and not part:
        shape = draw.pick(_SHORT_SHAPES)
    elif words <= LONGEST_MEDIUM:
        shape = draw.pick(_PART_SHAPES if part else _MEDIUM_SHAPES)
    else:
        shape = draw.pick(_LONG_SHAPES)
    return _MAKERS[shape](draw, words)


def _alone(draw: Draw, words: int) -> Words:
    clause = build_clause(draw, words, Wish(front=True))
    return english_statement(clause), german_verb_second(clause)


def _shared(draw: Draw, words: int) -> Words:
    """Two verb phrases with one subject."""
    if words < SHORTEST_SHARED:
        return _alone(draw, words)
    return sharing(draw, words, wish=Wish(front=True), order=german_verb_second)


def _joined(draw: Draw, words: int) -> Words:
    """Two main clauses with `and` or `but`."""
    least = max(SHORTEST, words // 3)
    first = draw.integer(least, words - 1 - least)
    left = _main(draw, first, part=True)
    right = _main(draw, words - 1 - first, part=True)
    key = draw.key()
    conjunction = draw.pick(_COORDINATORS)
    return (
        [*left[0], COMMA, (conjunction[0], key), *right[0]],
        [*left[1], COMMA, (conjunction[1], key), *right[1]],
    )


def _after(draw: Draw, words: int) -> Words:
    """A main clause and a subordinate clause behind it."""
    conjunction = draw.pick(ANY if words >= SHORTEST_ROOMY else SHORT)
    return clause_after(draw, words, conjunction, order=german_verb_second, depth=1, front=True)


def _before(draw: Draw, words: int) -> Words:
    """A subordinate clause in front and the main clause, its verb first."""
    conjunction = draw.pick(FRONTED if words >= SHORTEST_ROOMY else SHORT)
    rest = words - len(conjunction.english)
    first = draw.integer(max(SHORTEST, rest - LONGEST), rest - SHORTEST)
    inner = subordinate(draw, first, conjunction)
    clause = beside(draw, rest - first, conjunction, front=False)
    return (
        [*inner[0], COMMA, *english_statement(clause)],
        [*inner[1], COMMA, *german_verb_first(clause)],
    )


def _that(draw: Draw, words: int) -> Words:
    """A verb of saying or thinking and its that-clause."""
    return saying(draw, words, wish=Wish(front=True), order=german_verb_second)


_MAKERS: dict[str, Callable[[Draw, int], Words]] = {
    "alone": _alone,
    "shared": _shared,
    "joined": _joined,
    "after": _after,
    "before": _before,
    "that": _that,
}
