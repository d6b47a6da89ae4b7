"""A clause as a value: what is asked of it, its parts, and the orders of its words."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.grammar.noun_phrases import NounPhrase
from nmt.grammar.tokens import Token, Words
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
        tenses: Group of tenses, see `verbs`.
        relative: Noun phrases may hold a relative clause.
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
    auxiliary, *rest = english_predicate(clause)
    return [auxiliary, *clause.subject.english, *rest]


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
