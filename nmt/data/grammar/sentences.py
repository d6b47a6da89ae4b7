"""Sentences from clauses: coordination, subordinate clauses before and after, that-clauses.

What keeps them to one reading: coordinated main clauses have a comma before `and` and `but`, verb
phrases with one subject have none; nothing follows a that-clause or a final subordinate clause.
"""

from dataclasses import dataclass

from nmt.data.grammar.clause import (
    Clause,
    Wish,
    english_predicate,
    english_question,
    english_statement,
    german_verb_first,
    german_verb_last,
    german_verb_second,
)
from nmt.data.grammar.clauses import build_clause
from nmt.data.grammar.draw import Draw, Table
from nmt.data.grammar.lexicon import LONG_CLAUSE, Lexicon
from nmt.data.grammar.noun_phrases import NounPhrase
from nmt.data.grammar.tokens import COMMA, Token, finished

LONGEST_CLAUSE = 13  # English words of a clause with one verb
SHORTEST = 3
Words = tuple[list[Token], list[Token]]


@dataclass(frozen=True, slots=True, eq=False)
class Conjunction:
    """A subordinating conjunction; `temporal` ones want no perfect beside them.

    `fronted` tells whether its clause may come first, `tenses` what it may contain.
    """

    english: tuple[str, ...]
    german: str
    temporal: bool = False
    fronted: bool = True
    tenses: str = "any"


_CONJUNCTIONS = [
    (Conjunction(("because",), "weil"), 25.0),
    (Conjunction(("when",), "wenn", temporal=True, tenses="timeless"), 16.0),
    (Conjunction(("although",), "obwohl"), 14.0),
    (Conjunction(("if",), "falls", temporal=True, tenses="any"), 11.0),
    (Conjunction(("while",), "während", temporal=True, tenses="plain"), 9.0),
    (Conjunction(("before",), "bevor", temporal=True, tenses="plain"), 8.0),
    (Conjunction(("so", "that"), "damit", temporal=True, fronted=False, tenses="timeless"), 7.0),
    (Conjunction(("as", "soon", "as"), "sobald", temporal=True, tenses="plain"), 6.0),
    (Conjunction(("until",), "bis", temporal=True, fronted=False, tenses="plain"), 5.0),
]
_ANY = Table([item for item, _ in _CONJUNCTIONS], [weight for _, weight in _CONJUNCTIONS])
_FRONTED = Table(
    [item for item, _ in _CONJUNCTIONS if item.fronted],
    [weight for item, weight in _CONJUNCTIONS if item.fronted],
)
_COORDINATORS = Table([("and", "und"), ("but", "aber")], [65.0, 35.0])

# Shapes of a main clause by length; "alone" is a single clause.
_SHORT_SHAPES = Table(
    ["alone", "after", "before", "that", "joined", "shared"], [48.0, 14.0, 10.0, 12.0, 8.0, 8.0]
)
_MEDIUM_SHAPES = Table(["after", "before", "that", "joined"], [30.0, 22.0, 26.0, 22.0])
_LONG_SHAPES = Table(["joined", "before", "after", "that"], [70.0, 10.0, 10.0, 10.0])
_NESTED_SHAPES = Table(["that", "after"], [60.0, 40.0])
SHORTEST_COMPLEX = 8
LONGEST_MEDIUM = 26


def sentence(draw: Draw, lexicon: Lexicon, words: int) -> Words:
    """A finished sentence of about so many English words in both languages."""
    if words <= 10 and draw.flip(0.07):
        wish = Wish(question=True, tenses="positive", relative=False)
        clause = build_clause(draw, lexicon, words, wish)
        return finished(english_question(clause), "?"), finished(german_verb_first(clause), "?")
    english, german = _main(draw, lexicon, words)
    return finished(english, "."), finished(german, ".")


def _main(draw: Draw, lexicon: Lexicon, words: int) -> Words:
    if words < SHORTEST_COMPLEX:
        shape = "alone"
    elif words <= LONGEST_CLAUSE:
        shape = draw.pick(_SHORT_SHAPES)
    else:
        shape = draw.pick(_MEDIUM_SHAPES if words <= LONGEST_MEDIUM else _LONG_SHAPES)
    if shape == "alone":
        clause = build_clause(draw, lexicon, words, Wish(front=True))
        return english_statement(clause), german_verb_second(clause)
    return _SHAPES[shape](draw, lexicon, words)


def _shared(draw: Draw, lexicon: Lexicon, words: int) -> Words:
    """Two verb phrases with one subject."""
    left, right = _two_predicates(draw, lexicon, words, front=True)
    key = draw.key()
    english = [*english_statement(left), ("and", key), *english_predicate(right)]
    return english, [*german_verb_second(left), ("und", key), *german_verb_second(right)]


def _two_predicates(
    draw: Draw, lexicon: Lexicon, words: int, *, front: bool
) -> tuple[Clause, Clause]:
    first = draw.integer(4, words - 1 - SHORTEST)
    verb = draw.pick(lexicon.actions_by_size[min(first, LONG_CLAUSE)])
    wish = Wish(verb=verb, tenses="plain", relative=False, front=front, longest_subject=4)
    left = build_clause(draw, lexicon, first, wish)
    subject = left.subject
    rest = words - 1 - first
    shared = NounPhrase(
        [], [], subject.agreement, subject.column, subject.noun_class, first=subject.first
    )
    verb = draw.pick(lexicon.actions[subject.noun_class, min(max(rest, SHORTEST), LONG_CLAUSE)])
    wish = Wish(verb=verb, subject=shared, tenses="plain")
    return left, build_clause(draw, lexicon, rest, wish)


def _joined(draw: Draw, lexicon: Lexicon, words: int) -> Words:
    """Two main clauses with `and` or `but`."""
    first = draw.integer(max(SHORTEST, words // 3), words - 1 - max(SHORTEST, words // 3))
    left = _main(draw, lexicon, first)
    right = _main(draw, lexicon, words - 1 - first)
    key = draw.key()
    conjunction = draw.pick(_COORDINATORS)
    return (
        [*left[0], COMMA, (conjunction[0], key), *right[0]],
        [*left[1], COMMA, (conjunction[1], key), *right[1]],
    )


def _after(draw: Draw, lexicon: Lexicon, words: int) -> Words:
    """A main clause and a subordinate clause behind it."""
    conjunction = draw.pick(_ANY)
    rest = words - len(conjunction.english)
    first = draw.integer(SHORTEST, min(LONGEST_CLAUSE, rest - SHORTEST))
    wish = Wish(front=True, tenses="timeless" if conjunction.temporal else "any")
    clause = build_clause(draw, lexicon, first, wish)
    subordinate = _introduced(draw, lexicon, conjunction, rest - first, depth=1)
    return (
        english_statement(clause) + subordinate[0],
        [*german_verb_second(clause), COMMA, *subordinate[1]],
    )


def _before(draw: Draw, lexicon: Lexicon, words: int) -> Words:
    """A subordinate clause in front and the main clause, its verb first."""
    conjunction = draw.pick(_FRONTED)
    rest = words - len(conjunction.english)
    least = max(SHORTEST, rest - LONGEST_CLAUSE)
    first = draw.integer(least, rest - SHORTEST)
    subordinate = _introduced(draw, lexicon, conjunction, first, depth=1)
    wish = Wish(tenses="timeless" if conjunction.temporal else "any")
    clause = build_clause(draw, lexicon, rest - first, wish)
    return (
        [*subordinate[0], COMMA, *english_statement(clause)],
        [*subordinate[1], COMMA, *german_verb_first(clause)],
    )


def _that(draw: Draw, lexicon: Lexicon, words: int) -> Words:
    """A verb of saying or thinking and its that-clause."""
    clause, rest = _saying(draw, lexicon, words, front=True)
    content = _thatted(draw, lexicon, rest, depth=1)
    return (
        english_statement(clause) + content[0],
        [*german_verb_second(clause), COMMA, *content[1]],
    )


def _saying(draw: Draw, lexicon: Lexicon, words: int, *, front: bool) -> tuple[Clause, int]:
    """The clause that governs a that-clause, and the words left for the latter."""
    first = draw.integer(2, min(5, words - 1 - SHORTEST))
    wish = Wish(verb=draw.pick(lexicon.clausal), relative=False, front=front, longest_subject=4)
    clause = build_clause(draw, lexicon, first, wish)
    return clause, words - 1 - len(english_statement(clause))


def _thatted(draw: Draw, lexicon: Lexicon, words: int, *, depth: int) -> Words:
    key = draw.key()
    content = _subordinate(draw, lexicon, words, tenses="any", depth=depth, temporal=False)
    return [("that", key), *content[0]], [("dass", key), *content[1]]


def _introduced(
    draw: Draw, lexicon: Lexicon, conjunction: Conjunction, words: int, *, depth: int
) -> Words:
    key = draw.key()
    temporal = conjunction.temporal
    content = _subordinate(
        draw, lexicon, words, tenses=conjunction.tenses, depth=depth, temporal=temporal
    )
    return (
        [*[(word, key) for word in conjunction.english], *content[0]],
        [(conjunction.german, key), *content[1]],
    )


def _subordinate(
    draw: Draw, lexicon: Lexicon, words: int, *, tenses: str, depth: int, temporal: bool
) -> Words:
    """The inside of a subordinate clause, verb last, with further clauses when it is long."""
    nested = words > LONGEST_CLAUSE or (words >= SHORTEST_COMPLEX and depth < 3 and draw.flip(0.25))
    if not nested:
        if words >= SHORTEST_COMPLEX and draw.flip(0.12):
            left, right = _two_predicates(draw, lexicon, words, front=False)
            key = draw.key()
            return (
                [*english_statement(left), ("and", key), *english_predicate(right)],
                [*german_verb_last(left), ("und", key), *german_verb_last(right)],
            )
        clause = build_clause(draw, lexicon, words, Wish(tenses=tenses, mid=not temporal))
        return english_statement(clause), german_verb_last(clause)
    if temporal or depth >= 2 or draw.pick(_NESTED_SHAPES) == "that":
        clause, rest = _saying(draw, lexicon, words, front=False)
        inner = _thatted(draw, lexicon, rest, depth=depth + 1)
    else:
        conjunction = draw.pick(_FRONTED)
        rest = words - len(conjunction.english)
        first = draw.integer(SHORTEST, min(LONGEST_CLAUSE, rest - SHORTEST))
        tenses = "timeless" if conjunction.temporal and tenses == "any" else tenses
        clause = build_clause(draw, lexicon, first, Wish(tenses=tenses))
        inner = _introduced(draw, lexicon, conjunction, rest - first, depth=3)
    return (
        english_statement(clause) + inner[0],
        [*german_verb_last(clause), COMMA, *inner[1]],
    )


_SHAPES = {"after": _after, "before": _before, "that": _that, "joined": _joined, "shared": _shared}
