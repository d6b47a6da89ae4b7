"""The noun phrases of a clause: where they may stand, how many words each gets, which kind."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.grammar import determiners, german
from nmt.grammar.clause import Build, Wish
from nmt.grammar.lexicon import Lexicon
from nmt.grammar.noun_phrases import (
    LONGEST,
    NounPhrase,
    long_phrase,
    one_word,
    pronoun_phrase,
    short_phrase,
)
from nmt.grammar.relative import SHORTEST, add_relative_clause
from nmt.grammar.tokens import Draw, Table
from nmt.grammar.words import Preposition, Slot, Verb

LONGEST_WITH_RELATIVE = 13
LONGEST_DATIVE = 6  # of the person beside a second object


@dataclass(slots=True)
class Place:
    """A place for a noun phrase, and the English words it gets."""

    slot: Slot
    case: int
    least: int
    most: int
    words: int = 0


def places_of(
    lexicon: Lexicon, verb: Verb, preposition: Preposition | None, wish: Wish
) -> list[Place]:
    """The places that are to be filled: subject first, the accusative or prepositional one last."""
    places = []
    most = LONGEST_WITH_RELATIVE if wish.relative else LONGEST
    if wish.subject is None:
        longest = 1 if wish.marked else min(most, wish.longest_subject)
        places.append(Place(verb.subject, german.NOMINATIVE, 1, longest))
    if wish.gap:
        return places
    if verb.frame == "ditransitive":
        places.append(Place(lexicon.slot(("person",)), german.DATIVE, 1, LONGEST_DATIVE))
    if preposition is not None:
        least = 1 if verb.frame == "prepositional" else 2
        places.append(Place(preposition.slot, preposition.case, least, most))
    elif verb.object is not None:
        places.append(Place(verb.object, verb.case, 1, most))
    return places


def share_out(draw: Draw, places: list[Place], room: int) -> None:
    """Gives each place its least words and shares `room` more among them."""
    total, most, least = room, 0, 0
    for place in places:
        total += place.least
        most += place.most
        least += place.least
    for place in places[:-1]:
        most -= place.most
        least -= place.least
        low = max(place.least, total - most)
        high = min(place.most, total - least)
        if high > 4 >= low and draw.flip(0.6):
            high = 4
        place.words = draw.integer(low, high)
        total -= place.words
    places[-1].words = max(places[-1].least, min(places[-1].most, total))


def argument(
    draw: Draw,
    lexicon: Lexicon,
    place: Place,
    *,
    choices: determiners.Choices,
    pronouns: Table[determiners.Pronoun] | None,
    relative: bool,
    build: Build,
) -> NounPhrase:
    """The noun phrase for a place, of as many words as it got."""
    words = place.words
    if words <= 1:
        bare = choices is determiners.ANY
        phrase = one_word(draw, lexicon, place.slot, case=place.case, pronouns=pronouns, bare=bare)
        if phrase is not None:
            return phrase
        words = 2
    if words <= 4:
        return short_phrase(
            draw, lexicon, place.slot, words=words, case=place.case, choices=choices
        )
    if relative and (words > LONGEST or draw.flip(0.6)):
        head_words = 3 if words > SHORTEST + 3 and draw.flip(0.3) else 2
        plain = determiners.KNOWN if choices is determiners.KNOWN else determiners.PLAIN
        head = short_phrase(
            draw, lexicon, place.slot, words=head_words, case=place.case, choices=plain
        )
        add_relative_clause(draw, lexicon, head, words=words - head_words, build=build)
        return head
    return long_phrase(
        draw, lexicon, place.slot, words=min(words, LONGEST), case=place.case, choices=choices
    )


def subject_phrase(
    draw: Draw, lexicon: Lexicon, place: Place, *, wish: Wish, negated: bool, build: Build
) -> NounPhrase:
    """The subject; under negation without quantifiers, whose scope would be unclear."""
    if wish.marked:
        return pronoun_phrase(draw, draw.pick(determiners.MARKED_SUBJECTS))
    return argument(
        draw,
        lexicon,
        place,
        choices=determiners.PLAIN if negated else determiners.ANY,
        pronouns=determiners.SUBJECTS,
        relative=wish.relative,
        build=build,
    )
