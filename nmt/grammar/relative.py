"""Relative clauses, verb last between commas, with the pronoun's gender, number and case.

English has `who`, `whom`, `whose` for people, else `that`; after a preposition `whom` or `which`.
Where the German pronoun could be subject as well as object (`die Frau, die ...`) and both would
make sense, the subject is `he`, `I` or `we`, whose German shows that it is the subject.
"""

from __future__ import annotations

from nmt.grammar import determiners, german
from nmt.grammar.clause import Build, Wish, english_statement, german_verb_last
from nmt.grammar.lexicon import Lexicon
from nmt.grammar.noun_phrases import NounPhrase
from nmt.grammar.tokens import COMMA, Draw, Table, Token

SHORTEST = 3  # English words of a relative clause

_PERSON = Table(["subject", "object", "whose"], [55.0, 25.0, 20.0])
_ANIMAL = Table(["subject", "object"], [60.0, 40.0])
_LOCATION = Table(["place", "object", "subject"], [60.0, 20.0, 20.0])
_THING = Table(["object", "subject"], [75.0, 25.0])
_KINDS = {
    "person": _PERSON,
    "animal": _ANIMAL,
    "home": _LOCATION,
    "building": _LOCATION,
    "room": _LOCATION,
    "outdoors": _LOCATION,
}


def add_relative_clause(
    draw: Draw, lexicon: Lexicon, head: NounPhrase, *, words: int, build: Build
) -> None:
    """Puts a relative clause of about `words` English words behind the head, in place."""
    kind = draw.pick(_KINDS.get(head.noun_class, _THING))
    if kind == "place" and words < SHORTEST + 1:
        kind = "subject"
    if kind == "object" and lexicon.verbs.with_object(head.noun_class, words) is None:
        kind = "subject"
    make = {"subject": _subject, "object": _object, "whose": _whose, "place": _place}[kind]
    english, german_words = make(draw, lexicon, head, words, build)
    head.english += english
    head.german += [COMMA, *german_words, COMMA]
    head.contractible = False


Words = tuple[list[Token], list[Token]]


def _subject(draw: Draw, lexicon: Lexicon, head: NounPhrase, words: int, build: Build) -> Words:
    key = draw.key()
    pronoun = NounPhrase(
        [("who" if head.noun_class == "person" else "that", key)],
        [(german.RELATIVE[head.column][german.NOMINATIVE], key)],
        head.agreement,
        head.column,
        head.noun_class,
        adjective=head.adjective,
    )
    verb = draw.pick(lexicon.verbs.of(head.noun_class, words))
    clause = build(draw, lexicon, words, Wish(verb=verb, subject=pronoun, relative=False))
    return english_statement(clause), german_verb_last(clause)


def _object(draw: Draw, lexicon: Lexicon, head: NounPhrase, words: int, build: Build) -> Words:
    table = lexicon.verbs.with_object(head.noun_class, words)
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
    clause = build(draw, lexicon, words - len(front[0]), wish)
    return front[0] + english_statement(clause), front[1] + german_verb_last(clause)


def _whose(draw: Draw, lexicon: Lexicon, head: NounPhrase, words: int, build: Build) -> Words:
    noun = draw.pick(lexicon.companions)
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
    verb = draw.pick(lexicon.verbs.of(noun.noun_class, words - 1))
    clause = build(draw, lexicon, words, Wish(verb=verb, subject=subject, relative=False))
    return english_statement(clause), german_verb_last(clause)


def _place(draw: Draw, lexicon: Lexicon, head: NounPhrase, words: int, build: Build) -> Words:
    front = _after_preposition(draw, ("in",), "in", head, german.DATIVE)
    verb = draw.pick(lexicon.verbs.with_place(words - 2))
    clause = build(draw, lexicon, words - 2, Wish(verb=verb, place=False, relative=False))
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
