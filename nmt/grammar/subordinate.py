"""Subordinate clauses, verb last: alone, with a shared subject, nested, or two with `and`.

What keeps them to one reading: nothing follows a nested clause, and the first of two clauses with
`and` holds no relative clause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nmt.grammar.clause import Clause, Wish, english_predicate, english_statement, german_verb_last
from nmt.grammar.clauses import build_clause
from nmt.grammar.tokens import COMMA, Draw, Table, Token, Words
from nmt.grammar.words import Verb

SHORTEST = 2  # English words of a clause
LONGEST = 13  # English words of a clause with one verb
SHORTEST_COMPLEX = 5  # English words of a sentence of two clauses
SHORTEST_SHARED = 7  # English words of two predicates with one subject
SHORTEST_NESTED = 10  # the same inside a subordinate clause: `as soon as` twice takes four
DEEPEST = 3

Order = Callable[[Clause], list[Token]]  # the German one of `clause`


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


THAT = Conjunction(("that",), "dass")
_FRONTED = {
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
#: Conjunctions whose clause may come before the main clause.
FRONTED = Table(_FRONTED)
#: Those of one English word.
SHORT = Table({item: _FRONTED[item] for item in _FRONTED if len(item.english) == 1})
#: Conjunctions whose clause may come after it.
ANY = Table(_FRONTED | _FINAL)

_SHAPES = Table({"that": 42.0, "after": 28.0, "doubled": 30.0})
_DEEP_SHAPES = Table({"that": 35.0, "doubled": 65.0})


def subordinate(
    draw: Draw, words: int, conjunction: Conjunction, *, depth: int = 1, above: Verb | None = None
) -> Words:
    """A subordinate clause, its conjunction not counted in `words`.

    `depth` is 1 below a main clause; at most `DEEPEST` clauses are nested. `above` is the verb of
    saying that governs it, not to be repeated at once.
    """
    key = draw.key()
    content = _content(draw, words, conjunction, depth, above)
    return (
        [*((word, key) for word in conjunction.english), *content[0]],
        [(conjunction.german, key), *content[1]],
    )


def clause_after(
    draw: Draw, words: int, conjunction: Conjunction, *, order: Order, depth: int, front: bool
) -> Words:
    """A clause in a German order and a subordinate clause behind it."""
    rest = words - len(conjunction.english)
    first = draw.integer(SHORTEST, min(LONGEST, rest - SHORTEST))
    clause = beside(draw, first, conjunction, front=front)
    return _followed(clause, order, subordinate(draw, rest - first, conjunction, depth=depth))


def beside(draw: Draw, words: int, conjunction: Conjunction, *, front: bool) -> Clause:
    """The clause to which a clause with the conjunction is added."""
    if not conjunction.temporal:
        return build_clause(draw, words, Wish(front=front))
    verb = draw.pick(draw.lexicon.verbs.action(words))
    return build_clause(draw, words, Wish(verb=verb, front=front, tenses="timeless"))


def saying(
    draw: Draw, words: int, *, wish: Wish, order: Order, depth: int = 1, above: Verb | None = None
) -> Words:
    """A clause with a verb of saying or thinking, not `above`, and its that-clause at `depth`."""
    first = draw.integer(2, min(5, words - 1 - SHORTEST))
    verb = draw.pick_other(draw.lexicon.verbs.clausal, above)
    wish = replace(wish, verb=verb, relative=False, longest_subject=4)
    clause = build_clause(draw, first, wish)
    rest = max(SHORTEST, words - 1 - len(english_statement(clause)))
    return _followed(clause, order, subordinate(draw, rest, THAT, depth=depth, above=verb))


def sharing(draw: Draw, words: int, *, wish: Wish, order: Order) -> Words:
    """Two clauses with `and` for one subject, which the second leaves out."""
    first = draw.integer(3, words - 1 - SHORTEST)
    verb = draw.pick(draw.lexicon.verbs.action(first))
    plain = replace(wish, verb=verb, tenses="plain", relative=False, longest_subject=4)
    left = build_clause(draw, first, plain)
    subject = replace(left.subject, english=[], german=[], adjective=None, pronoun=False)
    rest = words - 1 - first
    verb = draw.pick(draw.lexicon.verbs.action_of[subject.noun_class](rest + 1))
    right = build_clause(draw, rest, Wish(verb=verb, subject=subject, tenses="plain", mid=wish.mid))
    key = draw.key()
    return (
        [*english_statement(left), ("and", key), *english_predicate(right)],
        [*order(left), ("und", key), *order(right)],
    )


def _content(
    draw: Draw, words: int, conjunction: Conjunction, depth: int, above: Verb | None
) -> Words:
    wish = Wish(tenses=conjunction.tenses, mid=not conjunction.temporal)
    complex_one = words >= SHORTEST_NESTED and depth < DEEPEST and draw.flip(0.25)
    if words <= LONGEST and not complex_one:
        if words >= SHORTEST_SHARED and draw.flip(0.12):
            return sharing(draw, words, wish=wish, order=german_verb_last)
        if conjunction.temporal:
            wish.verb = draw.pick(draw.lexicon.verbs.action(words))
        clause = build_clause(draw, words, wish)
        return english_statement(clause), german_verb_last(clause)
    shape = "doubled"
    if depth == 1 and not conjunction.temporal:
        shape = draw.pick(_SHAPES)
    elif depth < DEEPEST:
        shape = draw.pick(_DEEP_SHAPES)
    if shape == "that":
        return saying(draw, words, wish=wish, order=german_verb_last, depth=depth + 1, above=above)
    if shape == "after":
        other = draw.pick_other(FRONTED, conjunction)
        return clause_after(draw, words, other, order=german_verb_last, depth=DEEPEST, front=False)
    return _doubled(draw, words, conjunction)


def _followed(clause: Clause, order: Order, inner: Words) -> Words:
    return english_statement(clause) + inner[0], [*order(clause), COMMA, *inner[1]]


def _doubled(draw: Draw, words: int, conjunction: Conjunction) -> Words:
    """Two clauses with the same conjunction: `that ... and that ...`."""
    rest = words - 1 - len(conjunction.english)
    first = draw.integer(SHORTEST, min(LONGEST - 3, rest - SHORTEST))
    wish = Wish(tenses=conjunction.tenses, mid=not conjunction.temporal, relative=False)
    left = build_clause(draw, first, wish)
    right = subordinate(draw, rest - first, conjunction, depth=DEEPEST)
    key = draw.key()
    return (
        [*english_statement(left), ("and", key), *right[0]],
        [*german_verb_last(left), ("und", key), *right[1]],
    )
