"""Adverbials: adverbs and prepositional phrases, drawn to suit a verb and its tense."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.grammar import determiners
from nmt.grammar.clause import Wish
from nmt.grammar.german import CONTRACTIONS
from nmt.grammar.noun_phrases import NounPhrase, short_phrase
from nmt.grammar.tokens import COMMA, Draw, Token, Words
from nmt.grammar.verbs import Tense
from nmt.grammar.words import Adverb, Preposition, Verb

ROOMY = 5  # with so many words to fill, adverbials are more frequent
_NOTHING: Words = ([], [])  # shared, never changed


@dataclass(slots=True)
class Adverbials:
    """The adverbials of one clause by kind; `front` is one of them put before the subject."""

    front: Words | None = None
    mid: Words = _NOTHING
    time: Words = _NOTHING
    manner: Words = _NOTHING
    place: Words = _NOTHING
    cause: Words = _NOTHING
    words: int = 0

    def ends(self) -> list[Token]:
        """The English words at the end of the clause."""
        return [*self.manner[0], *self.place[0], *self.cause[0], *self.time[0]]


def draw_adverbials(draw: Draw, verb: Verb, tense: Tense, *, room: int, wish: Wish) -> Adverbials:
    """Adverbials of at most `room` English words that suit the verb and its tense."""
    chosen = Adverbials()
    asked = room
    if room <= 0:
        return chosen
    more = 1.7 if room >= ROOMY else 1.0
    frequent = False
    if tense.negated:
        if wish.front and draw.flip(0.12):
            chosen.front = _fronted(draw, draw.pick(draw.lexicon.adverb_tables["sentence"]))
            room -= 1
    elif wish.mid and draw.flip(0.22 * more):
        frequent = not verb.state and (wish.question or draw.flip(0.55))
        if frequent or not wish.question:
            kind = "frequency" if frequent else "sentence"
            adverb = draw.pick(draw.lexicon.adverb_tables[kind])
            if kind == "sentence" and wish.front and draw.flip(0.5):
                chosen.front = _fronted(draw, adverb)
            else:
                chosen.mid = _adverb(draw, adverb)
            room -= 1
    if verb.state or verb.frame == "copula":
        chosen.words = asked - room
        return chosen
    if room >= 1 and verb.manner and not tense.negated and draw.flip(0.22 * more):
        chosen.manner = _adverb(draw, draw.pick(draw.lexicon.adverb_tables["manner"]))
        room -= 1
    if room >= 3 and verb.place and wish.place and not tense.negated and draw.flip(0.3 * more):
        where = draw.pick(draw.lexicon.places)
        words = _phrase(draw, where, longest=room)
        room -= len(words[0])
        if wish.front and chosen.front is None and draw.flip(0.2):
            chosen.front = _set_off(words)
        else:
            chosen.place = words
    if room >= 1 and not frequent and draw.flip(0.28 * more):
        adverb = draw.pick(draw.lexicon.time[tense.name])
        if len(adverb.english) <= room:
            words = _adverb(draw, adverb)
            room -= len(words[0])
            if wish.front and chosen.front is None and draw.flip(0.4):
                chosen.front = words
            else:
                chosen.time = words
    if room >= 4 and wish.front and draw.flip(0.12 * more):
        words = _phrase(draw, draw.pick(draw.lexicon.causes), longest=room)
        room -= len(words[0])
        if chosen.front is None and draw.flip(0.5):
            chosen.front = _set_off(words)
        else:
            chosen.cause = words
    chosen.words = asked - room
    return chosen


def prepositional_phrase(draw: Draw, preposition: Preposition, phrase: NounPhrase) -> Words:
    """A preposition before a noun phrase already in its case; `in dem` becomes `im`."""
    key = draw.key()
    english = [(word, key) for word in preposition.english]
    contracted = None
    if phrase.contractible:
        contracted = CONTRACTIONS.get((preposition.german, phrase.german[0][0]))
    if contracted is None:
        return [*english, *phrase.english], [(preposition.german, key), *phrase.german]
    article = (phrase.english[0][0], -key)
    return [*english, article, *phrase.english[1:]], [(contracted, key), *phrase.german[1:]]


def _phrase(draw: Draw, preposition: Preposition, *, longest: int) -> Words:
    room = longest - len(preposition.english)
    words = 3 if room >= 3 and draw.flip(0.4) else 2
    phrase = short_phrase(
        draw,
        preposition.slot,
        words=words,
        case=preposition.case,
        choices=determiners.PLAIN if preposition.slot.classes != ("cause",) else determiners.HEAD,
    )
    return prepositional_phrase(draw, preposition, phrase)


def _adverb(draw: Draw, adverb: Adverb) -> Words:
    keys = [draw.key() for _ in adverb.german]
    english = [(word, 0) for word in adverb.english]
    for left, right, sure in adverb.links:
        english[left] = (adverb.english[left], keys[right] if sure else -keys[right])
    return english, [(word, keys[index]) for index, word in enumerate(adverb.german)]


def _fronted(draw: Draw, adverb: Adverb) -> Words:
    words = _adverb(draw, adverb)
    return _set_off(words) if adverb.comma else words


def _set_off(words: Words) -> Words:
    """The words with the comma that English puts after them in front; German has none."""
    return [*words[0], COMMA], words[1]
