"""A clause as a value: what is asked of it, its parts, the orders of its words; relative clauses.

Relative clauses are verb last between commas, with the pronoun's gender, number and case. English
has `who`, `whom`, `whose` for people, else `that`; after a preposition `whom` or `which`. Where the
German pronoun could be subject as well as object (`die Frau, die ...`) and both would make sense,
the subject is `he`, `I` or `we`, whose German shows that it is the subject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nmt.grammar import determiners, german
from nmt.grammar.noun_phrases import NounPhrase
from nmt.grammar.tokens import COMMA, Draw, Table, Token, Words
from nmt.grammar.verbs import VerbGroup
from nmt.grammar.words import Verb


@dataclass(slots=True, kw_only=True)  # not frozen: one is made per clause, at a third of the time
class Wish:
    """What the surroundings ask of a clause; not changed by it.

    Attributes:
        verb: The verb, or None to draw one.
        subject: A subject made elsewhere (a relative pronoun, a shared subject), or None.
        marked: The subject must show its nominative: `he`, `I` or `we`.
        gap: The object stands outside, as a relative pronoun.
        tenses: Group of tenses, see `verb_groups`.
        relative: Noun phrases may hold a relative clause.
        closed: The last object may not: more words of the sentence follow.
        front: An adverbial may be put before the subject.
        question: A yes/no question.
        place: A place adverbial may be added.
        mid: An adverb of frequency or a sentence adverb may be added.
        longest_subject: Most words of the subject.
    """

    verb: Verb | None = None
    subject: NounPhrase | None = None
    marked: bool = False
    gap: bool = False
    tenses: str = "any"
    relative: bool = True
    closed: bool = False
    front: bool = False
    question: bool = False
    place: bool = True
    mid: bool = True
    longest_subject: int = 13


@dataclass(slots=True)
class Clause:
    """A clause whose words are not yet in order.

    Attributes:
        subject: The subject, possibly empty (shared with the clause before).
        group: The verb.
        front: English and German words of a fronted adverbial, or None.
        mid: English adverb before the main verb.
        objects: English objects, prepositional ones and predicates.
        end: English adverbials at the end.
        middle: The German middle field without the subject.
    """

    subject: NounPhrase
    group: VerbGroup
    front: Words | None
    mid: list[Token]
    objects: list[Token]
    end: list[Token]
    middle: list[Token]


Build = Callable[[Draw, int, Wish], Clause]


def english_predicate(clause: Clause) -> list[Token]:
    """Everything after the subject in a statement."""
    group = clause.group
    return [*group.auxiliary, *clause.mid, *group.main, *clause.objects, *clause.end]


def english_statement(clause: Clause) -> list[Token]:
    """A main or subordinate clause: the order is the same."""
    front = clause.front[0] if clause.front else []
    return [*front, *clause.subject.english, *english_predicate(clause)]


def english_question(clause: Clause) -> list[Token]:
    """A yes/no question: the first auxiliary before the subject."""
    group = clause.group
    rest = [*group.auxiliary[1:], *clause.mid, *group.main, *clause.objects, *clause.end]
    return [group.auxiliary[0], *clause.subject.english, *rest]


def german_verb_second(clause: Clause) -> list[Token]:
    """A main clause: the finite verb after the fronted adverbial, else after the subject."""
    if clause.front:
        return [*clause.front[1], *german_verb_first(clause)]
    return [*clause.subject.german, clause.group.finite, *clause.middle, *clause.group.bracket]


def german_verb_first(clause: Clause) -> list[Token]:
    """A question, or a main clause after something in front."""
    return [clause.group.finite, *clause.subject.german, *clause.middle, *clause.group.bracket]


def german_verb_last(clause: Clause) -> list[Token]:
    """A subordinate clause: the finite verb at the end, a separable verb in one word."""
    return [*clause.subject.german, *clause.middle, *clause.group.last]


SHORTEST = 3  # English words of a relative clause

_PERSON = Table({"subject": 55.0, "object": 25.0, "whose": 20.0})
_ANIMAL = Table({"subject": 60.0, "object": 40.0})
_LOCATION = Table({"place": 60.0, "object": 20.0, "subject": 20.0})
_THING = Table({"object": 75.0, "subject": 25.0})
_KINDS = {
    "person": _PERSON,
    "animal": _ANIMAL,
    "home": _LOCATION,
    "building": _LOCATION,
    "room": _LOCATION,
    "outdoors": _LOCATION,
}


def add_relative_clause(draw: Draw, head: NounPhrase, *, words: int, build: Build) -> None:
    """Puts a relative clause of about `words` English words behind the head, in place."""
    kind = draw.pick(_KINDS.get(head.noun_class, _THING))
    if kind == "place" and words < SHORTEST + 1:
        kind = "subject"
    if kind == "object" and draw.lexicon.verbs.with_object(head.noun_class, words) is None:
        kind = "subject"
    make = {"subject": _subject, "object": _object, "whose": _whose, "place": _place}[kind]
    english, german_words = make(draw, head, words, build)
    head.english += english
    head.german += [COMMA, *german_words, COMMA]
    head.contractible = False


def _subject(draw: Draw, head: NounPhrase, words: int, build: Build) -> Words:
    key = draw.key()
    pronoun = NounPhrase(
        [("who" if head.noun_class == "person" else "that", key)],
        [(german.RELATIVE[head.column][german.NOMINATIVE], key)],
        head.agreement,
        head.column,
        head.noun_class,
        adjective=head.adjective,
    )
    verb = draw.pick(draw.lexicon.verbs.of(head.noun_class, words))
    clause = build(draw, words, Wish(verb=verb, subject=pronoun, relative=False))
    return english_statement(clause), german_verb_last(clause)


def _object(draw: Draw, head: NounPhrase, words: int, build: Build) -> Words:
    table = draw.lexicon.verbs.with_object(head.noun_class, words)
    assert table is not None
    verb = draw.pick(table)
    person = head.noun_class == "person"
    key = draw.key()
    if verb.prepositions is None:
        front = [("whom" if person else "that", key)], [(_relative(head, verb.case), key)]
    else:
        preposition = verb.prepositions.items[0]
        front = _after_preposition(
            draw, preposition.english, preposition.german, head, preposition.case
        )
    ambiguous = verb.frame == "transitive" and head.noun_class in verb.subject.classes
    wish = Wish(verb=verb, gap=True, marked=ambiguous, relative=False)
    clause = build(draw, words - len(front[0]), wish)
    return front[0] + english_statement(clause), front[1] + german_verb_last(clause)


def _whose(draw: Draw, head: NounPhrase, words: int, build: Build) -> Words:
    noun = draw.pick(draw.lexicon.companions)
    many = 1 if noun.plural and draw.flip(0.25) else 0
    key, noun_key = draw.key(), draw.key()
    forms = noun.plural if many else noun.singular
    subject = NounPhrase(
        [("whose", key), (noun.english[many], noun_key)],
        [(_relative(head, german.GENITIVE), key), (forms[german.NOMINATIVE], noun_key)],
        determiners.PLURAL if many else determiners.THIRD,
        german.PLURAL if many else noun.gender,
        noun.noun_class,
    )
    verb = draw.pick(draw.lexicon.verbs.of(noun.noun_class, words - 1))
    clause = build(draw, words, Wish(verb=verb, subject=subject, relative=False))
    return english_statement(clause), german_verb_last(clause)


def _place(draw: Draw, head: NounPhrase, words: int, build: Build) -> Words:
    front = _after_preposition(draw, ("in",), "in", head, german.DATIVE)
    verb = draw.pick(draw.lexicon.verbs.with_place(words - 2))
    clause = build(draw, words - 2, Wish(verb=verb, place=False, relative=False))
    return front[0] + english_statement(clause), front[1] + german_verb_last(clause)


def _after_preposition(
    draw: Draw, english: tuple[str, ...], preposition: str, head: NounPhrase, case: int
) -> Words:
    key, pronoun_key = draw.key(), draw.key()
    pronoun = "whom" if head.noun_class == "person" else "which"
    return (
        [*((word, key) for word in english), (pronoun, pronoun_key)],
        [(preposition, key), (_relative(head, case), pronoun_key)],
    )


def _relative(head: NounPhrase, case: int) -> str:
    return german.RELATIVE[head.column][case]
