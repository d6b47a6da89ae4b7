"""One clause with one verb: words shared out among its arguments and adverbials, then made.

Word order is fixed, so that each meaning has one form. English: subject, auxiliary, mid adverb,
verb, objects, manner, place, cause, time. German middle field: pronouns, mid adverb, time, cause,
dative, manner, accusative, `nicht`, place, prepositional object or predicate; with `nicht` the
objects go before time (`Er sieht den Hund heute nicht`). An object with a relative clause is the
last thing of its clause in English, since an adverbial after it could belong to either verb.

The noun phrases of a clause and its free adverbials are drawn here too.
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.grammar import determiners, german
from nmt.grammar.clause import SHORTEST, Build, Clause, Wish, add_relative_clause
from nmt.grammar.german import CONTRACTIONS
from nmt.grammar.noun_phrases import (
    LONGEST,
    NounPhrase,
    long_phrase,
    negated_phrase,
    one_word,
    pronoun_phrase,
    short_phrase,
)
from nmt.grammar.tokens import COMMA, Draw, Table, Token, Words
from nmt.grammar.verbs import Tense, draw_tense, verb_group
from nmt.grammar.words import Adverb, Preposition, Slot, Verb

_WITH_OBJECT = frozenset({"transitive", "dative", "ditransitive"})


def build_clause(draw: Draw, words: int, wish: Wish) -> Clause:
    """A clause of about so many English words, the given subject among them."""
    verb = wish.verb or draw.pick(draw.lexicon.verbs.any(words))
    preposition = draw.pick(verb.prepositions) if verb.prepositions and not wish.gap else None
    places = places_of(draw, verb, preposition, wish)
    fixed = 1 + len(verb.particles) + (verb.frame == "copula")
    fixed += len(preposition.english) if preposition else 0
    fixed += len(wish.subject.english) if wish.subject else 0
    room = words - fixed
    for place in places:
        room -= place.least
    tense = draw_tense(draw, verb, group=wish.tenses, room=room)
    room -= tense.extra
    spare = room
    if room > 0 and draw.flip(0.6):  # a second word for each noun phrase goes first
        for place in places:
            spare -= place.least == 1
    adverbials = draw_adverbials(draw, verb, tense, room=spare, wish=wish)
    room -= adverbials.words
    very = verb.frame == "copula" and room > 0 and not tense.negated and draw.flip(0.5)
    end = adverbials.ends()
    closed = bool(end) or wish.closed or tense.negated
    if places:
        if closed and len(places) > (wish.subject is None):
            places[-1].most = min(places[-1].most, LONGEST)
        share_out(draw, places, room - very)
    subject = wish.subject or subject_phrase(
        draw, places.pop(0), wish=wish, negated=tense.negated, build=build_clause
    )
    group = verb_group(draw, verb, tense, agreement=subject.agreement, question=wish.question)
    clause = Clause(subject, group, adverbials.front, adverbials.mid[0], [], end, [])
    if verb.frame == "copula":
        _add_predicate(draw, clause, verb, adverbials, very=very)
    else:
        relative = wish.relative and not closed
        _add_objects(draw, clause, verb, preposition, places, adverbials, relative)
    return clause


def _add_predicate(
    draw: Draw, clause: Clause, verb: Verb, adverbials: Adverbials, *, very: bool
) -> None:
    """`be` + adjective: another adjective than the one beside the subject."""
    tables = draw.lexicon.gradable_of if very else draw.lexicon.adjectives_of
    table = (draw.lexicon.passing_of if verb.passing else tables)[clause.subject.noun_class]
    adjective = draw.pick_other(table, clause.subject.adjective)
    clause.middle += adverbials.mid[1]
    if clause.group.negation:
        clause.middle.append(("nicht", clause.group.negation))
    if very:
        degree = draw.pick(draw.lexicon.degrees)
        key = draw.key()
        clause.objects.append((degree.english[0], key))
        clause.middle.append((degree.german[0], key))
    key = draw.key()
    clause.objects.append((adjective.english, key))
    clause.middle.append((adjective.german, key))


def _add_objects(
    draw: Draw,
    clause: Clause,
    verb: Verb,
    preposition: Preposition | None,
    places: list[Place],
    adverbials: Adverbials,
    relative: bool,
) -> None:
    """Makes the objects and puts them with the adverbials into their order."""
    negation = clause.group.negation
    none = False  # whether `kein` at the object takes the place of `nicht`
    pronouns: list[Token] = []
    datives: list[Token] = []
    accusatives: list[Token] = []
    closing: list[Token] = []
    for index, place in enumerate(places):
        last = index == len(places) - 1
        if last and negation > 0 and verb.frame in _WITH_OBJECT and draw.flip(0.4):
            none = True
            phrase = negated_phrase(
                draw, place.slot, words=place.words, case=place.case, negation=negation
            )
        else:
            phrase = _object(
                draw, clause.subject, verb, place, relative=relative and last, known=bool(negation)
            )
        if preposition is not None and last:
            english, closing = prepositional_phrase(draw, preposition, phrase)
            clause.objects += english
            continue
        clause.objects += phrase.english
        if phrase.pronoun:
            pronouns = phrase.german
        elif last:
            accusatives = phrase.german
        else:
            datives = phrase.german
    times = [*adverbials.time[1], *adverbials.cause[1]]
    if negation and not none:
        ordered = [*datives, *accusatives, *times, ("nicht", negation)]
    else:
        ordered = [*adverbials.mid[1], *times, *datives, *adverbials.manner[1], *accusatives]
    clause.middle = [*pronouns, *ordered, *adverbials.place[1], *closing]


def _object(
    draw: Draw, subject: NounPhrase, verb: Verb, place: Place, *, relative: bool, known: bool
) -> NounPhrase:
    free = verb.frame not in ("locative", "motion")
    choices = determiners.KNOWN if known else determiners.ANY if free else determiners.PLAIN
    pronouns = determiners.OBJECTS[place.case][not subject.first] if verb.pronouns else None
    bits = draw.bits
    for _ in range(3):
        phrase = argument(
            draw, place, choices=choices, pronouns=pronouns, relative=relative, build=build_clause
        )
        # `Anna sees Anna` would need a reflexive, `the dog sees the dog` is odd.
        if not subject.english or phrase.english[-1][0] != subject.english[-1][0]:
            break
        draw.bits = bits
    return phrase


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


def places_of(draw: Draw, verb: Verb, preposition: Preposition | None, wish: Wish) -> list[Place]:
    """The places that are to be filled: subject first, the accusative or prepositional one last."""
    places = []
    most = LONGEST_WITH_RELATIVE if wish.relative else LONGEST
    if wish.subject is None:
        longest = 1 if wish.marked else min(most, wish.longest_subject)
        places.append(Place(verb.subject, german.NOMINATIVE, 1, longest))
    if wish.gap:
        return places
    if verb.frame == "ditransitive":
        places.append(Place(draw.lexicon.slot(("person",)), german.DATIVE, 1, LONGEST_DATIVE))
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
        phrase = one_word(draw, place.slot, case=place.case, pronouns=pronouns, bare=bare)
        if phrase is not None:
            return phrase
        words = 2
    if words <= 4:
        return short_phrase(draw, place.slot, words=words, case=place.case, choices=choices)
    if relative and (words > LONGEST or draw.flip(0.6)):
        head_words = 3 if words > SHORTEST + 3 and draw.flip(0.3) else 2
        plain = determiners.KNOWN if choices is determiners.KNOWN else determiners.PLAIN
        head = short_phrase(draw, place.slot, words=head_words, case=place.case, choices=plain)
        add_relative_clause(draw, head, words=words - head_words, build=build)
        return head
    return long_phrase(
        draw, place.slot, words=min(words, LONGEST), case=place.case, choices=choices
    )


def subject_phrase(
    draw: Draw, place: Place, *, wish: Wish, negated: bool, build: Build
) -> NounPhrase:
    """The subject; under negation without quantifiers, whose scope would be unclear."""
    if wish.marked:
        return pronoun_phrase(draw, draw.pick(determiners.MARKED_SUBJECTS))
    return argument(
        draw,
        place,
        choices=determiners.PLAIN if negated else determiners.ANY,
        pronouns=determiners.SUBJECTS,
        relative=wish.relative,
        build=build,
    )


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
        if not self.words:
            return []
        return [*self.manner[0], *self.place[0], *self.cause[0], *self.time[0]]


def draw_adverbials(draw: Draw, verb: Verb, tense: Tense, *, room: int, wish: Wish) -> Adverbials:
    """Adverbials of at most `room` English words that suit the verb and its tense."""
    chosen = Adverbials()
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
        chosen.words = _count(chosen)
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
        if chosen.front is None and draw.flip(0.5):
            chosen.front = _set_off(words)
        else:
            chosen.cause = words
    chosen.words = _count(chosen)
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
    if len(adverb.english) == len(adverb.german) == 1:
        key = draw.key()
        return [(adverb.english[0], key)], [(adverb.german[0], key)]
    keys = {german: draw.key() for german in range(len(adverb.german))}
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


def _count(chosen: Adverbials) -> int:
    front = sum(1 for token in chosen.front[0] if token is not COMMA) if chosen.front else 0
    kinds = (chosen.mid, chosen.manner, chosen.place, chosen.cause, chosen.time)
    return front + sum([len(words[0]) for words in kinds])
