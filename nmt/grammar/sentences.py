"""Whole sentences from clauses: questions, coordination, clauses before and after, that-clauses.

What keeps them to one reading: coordinated main clauses have a comma before `and` and `but`, verb
phrases with one subject have none; nothing follows a that-clause, a nested or a final subordinate
clause; and the first of two subordinate clauses with `and` holds no relative clause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nmt.grammar.clause import (
    Clause,
    Wish,
    english_predicate,
    english_question,
    english_statement,
    german_verb_first,
    german_verb_last,
    german_verb_second,
)
from nmt.grammar.clauses import build_clause
from nmt.grammar.tokens import COMMA, Draw, Table, Token, Words, finished
from nmt.grammar.words import Verb

# Lengths in English words.
SHORTEST = 2  # of a clause
LONGEST = 13  # of a clause with one verb
SHORTEST_COMPLEX = 5  # of a sentence of two clauses
SHORTEST_SHARED = 7  # of two predicates with one subject
SHORTEST_ROOMY = 8  # with room for two objects or a conjunction of three words
SHORTEST_NESTED = 10  # of two clauses inside a subordinate one: `as soon as` twice takes four
LONGEST_QUESTION = 10
LONGEST_MEDIUM = 26  # of a main clause that need not be two
DEEPEST = 3  # clauses nested in each other

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
# Shapes of a subordinate clause with several verbs: right below a main clause, and deeper.
_SUBORDINATE_SHAPES = Table({"that": 42.0, "after": 28.0, "doubled": 30.0})
_DEEP_SHAPES = Table({"that": 35.0, "doubled": 65.0})

_AND = ("and", "und")
_COORDINATORS = Table({_AND: 65.0, ("but", "aber"): 35.0})

Order = Callable[[Clause], list[Token]]  # a German one


@dataclass(frozen=True, slots=True, eq=False)
class Conjunction:
    """A subordinating conjunction and the group of tenses in its clause.

    A `temporal` one wants neither `be` nor adverbs of frequency in its clause, neither `be` nor the
    perfect in the clause beside it.
    """

    english: tuple[str, ...]
    german: str
    temporal: bool = False
    tenses: str = "any"


_THAT = Conjunction(("that",), "dass")
_IN_FRONT = {
    Conjunction(("because",), "weil"): 25.0,
    Conjunction(("when",), "wenn", temporal=True, tenses="timeless"): 16.0,
    Conjunction(("although",), "obwohl"): 14.0,
    Conjunction(("if",), "falls", temporal=True): 11.0,
    Conjunction(("while",), "während", temporal=True, tenses="plain"): 9.0,
    Conjunction(("before",), "bevor", temporal=True, tenses="plain"): 8.0,
    Conjunction(("as", "soon", "as"), "sobald", temporal=True, tenses="plain"): 6.0,
}
_FINAL = {
    Conjunction(("so", "that"), "damit", temporal=True, tenses="timeless"): 5.0,
    Conjunction(("until",), "bis", temporal=True, tenses="plain"): 5.0,
}
# Conjunctions whose clause may come before the main clause, those of one English word, and those
# whose clause may come after it.
_BEFORE = Table(_IN_FRONT)
_SHORT = Table({item: _IN_FRONT[item] for item in _IN_FRONT if len(item.english) == 1})
_AFTER = Table(_IN_FRONT | _FINAL)


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
    if shape == "before":
        return _before(draw, words)
    if shape == "joined":
        return _joined(draw, words)
    wish, order = Wish(front=True), german_verb_second
    if shape == "that":
        return _saying(draw, words, wish=wish, order=order)
    if shape == "after":
        conjunction = draw.pick(_AFTER if words >= SHORTEST_ROOMY else _SHORT)
        return _followed_by(draw, words, conjunction, order=order, depth=1, front=True)
    if shape == "shared" and words >= SHORTEST_SHARED:
        return _sharing(draw, words, wish=wish, order=order)
    clause = build_clause(draw, words, wish)
    return english_statement(clause), order(clause)


def _before(draw: Draw, words: int) -> Words:
    """A subordinate clause in front and the main clause, its verb first."""
    conjunction = draw.pick(_BEFORE if words >= SHORTEST_ROOMY else _SHORT)
    rest = words - len(conjunction.english)
    first = draw.integer(max(SHORTEST, rest - LONGEST), rest - SHORTEST)
    inner = _subordinate(draw, first, conjunction)
    clause = _beside(draw, rest - first, conjunction, front=False)
    return (
        [*inner[0], COMMA, *english_statement(clause)],
        [*inner[1], COMMA, *german_verb_first(clause)],
    )


def _joined(draw: Draw, words: int) -> Words:
    """Two main clauses with a comma and `and` or `but`."""
    least = max(SHORTEST, words // 3)
    first = draw.integer(least, words - 1 - least)
    english, german = _main(draw, first, part=True)
    right = _main(draw, words - 1 - first, part=True)
    left = [*english, COMMA], [*german, COMMA]
    return _coordinated(draw, left, right, draw.pick(_COORDINATORS))


def _sharing(draw: Draw, words: int, *, wish: Wish, order: Order) -> Words:
    """Two clauses with `and` for one subject, which the second leaves out."""
    first = draw.integer(3, words - 1 - SHORTEST)
    verb = draw.pick(draw.lexicon.verbs.action(first))
    plain = replace(wish, verb=verb, tenses="plain", relative=False, longest_subject=4)
    left = build_clause(draw, first, plain)
    subject = replace(left.subject, english=[], german=[], adjective=None, pronoun=False)
    rest = words - 1 - first
    verb = draw.pick(draw.lexicon.verbs.action_of[subject.noun_class](rest + 1))
    right = build_clause(draw, rest, Wish(verb=verb, subject=subject, tenses="plain", mid=wish.mid))
    statement = english_statement(left), order(left)
    return _coordinated(draw, statement, (english_predicate(right), order(right)))


def _coordinated(
    draw: Draw, left: Words, right: Words, conjunction: tuple[str, str] = _AND
) -> Words:
    key = draw.key()
    english, german = ((word, key) for word in conjunction)
    return [*left[0], english, *right[0]], [*left[1], german, *right[1]]


def _saying(
    draw: Draw, words: int, *, wish: Wish, order: Order, depth: int = 1, above: Verb | None = None
) -> Words:
    """A clause with a verb of saying or thinking, not `above`, and its that-clause at `depth`."""
    first = draw.integer(2, min(5, words - 1 - SHORTEST))
    verb = draw.pick_other(draw.lexicon.verbs.clausal, above)
    wish = replace(wish, verb=verb, relative=False, longest_subject=4)
    clause = build_clause(draw, first, wish)
    rest = max(SHORTEST, words - 1 - len(english_statement(clause)))
    inner = _subordinate(draw, rest, _THAT, depth=depth, above=verb)
    return _followed(clause, order, inner)


def _followed_by(
    draw: Draw, words: int, conjunction: Conjunction, *, order: Order, depth: int, front: bool
) -> Words:
    """A clause in a German order and a subordinate clause behind it."""
    rest = words - len(conjunction.english)
    first = draw.integer(SHORTEST, min(LONGEST, rest - SHORTEST))
    clause = _beside(draw, first, conjunction, front=front)
    return _followed(clause, order, _subordinate(draw, rest - first, conjunction, depth=depth))


def _followed(clause: Clause, order: Order, inner: Words) -> Words:
    return english_statement(clause) + inner[0], [*order(clause), COMMA, *inner[1]]


def _beside(draw: Draw, words: int, conjunction: Conjunction, *, front: bool) -> Clause:
    """The clause to which a clause with the conjunction is added."""
    if not conjunction.temporal:
        return build_clause(draw, words, Wish(front=front))
    verb = draw.pick(draw.lexicon.verbs.action(words))
    return build_clause(draw, words, Wish(verb=verb, front=front, tenses="timeless"))


def _subordinate(
    draw: Draw, words: int, conjunction: Conjunction, *, depth: int = 1, above: Verb | None = None
) -> Words:
    """A subordinate clause, verb last, its conjunction not counted in `words`.

    `depth` is 1 below a main clause; `above` is the verb of saying that governs it, not to be
    repeated at once.
    """
    key = draw.key()
    english, german = _content(draw, words, conjunction, depth, above)
    linked = [(word, key) for word in conjunction.english]
    return linked + english, [(conjunction.german, key), *german]


def _content(
    draw: Draw, words: int, conjunction: Conjunction, depth: int, above: Verb | None
) -> Words:
    wish = Wish(tenses=conjunction.tenses, mid=not conjunction.temporal)
    order = german_verb_last
    nested = words >= SHORTEST_NESTED and depth < DEEPEST and draw.flip(0.25)
    if words <= LONGEST and not nested:
        if words >= SHORTEST_SHARED and draw.flip(0.12):
            return _sharing(draw, words, wish=wish, order=order)
        if conjunction.temporal:
            wish.verb = draw.pick(draw.lexicon.verbs.action(words))
        clause = build_clause(draw, words, wish)
        return english_statement(clause), order(clause)
    shape = "doubled"
    if depth == 1 and not conjunction.temporal:
        shape = draw.pick(_SUBORDINATE_SHAPES)
    elif depth < DEEPEST:
        shape = draw.pick(_DEEP_SHAPES)
    if shape == "that":
        return _saying(draw, words, wish=wish, order=order, depth=depth + 1, above=above)
    if shape == "after":
        other = draw.pick_other(_BEFORE, conjunction)
        return _followed_by(draw, words, other, order=order, depth=DEEPEST, front=False)
    # Two clauses with the same conjunction: `that ... and that ...`.
    rest = words - 1 - len(conjunction.english)
    first = draw.integer(SHORTEST, min(LONGEST - 3, rest - SHORTEST))
    left = build_clause(draw, first, replace(wish, relative=False))
    right = _subordinate(draw, rest - first, conjunction, depth=DEEPEST)
    return _coordinated(draw, (english_statement(left), order(left)), right)
