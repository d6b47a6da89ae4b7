"""One clause with one verb: words shared out among its arguments and adverbials, then made.

Word order is fixed, so that each meaning has one form. English: subject, auxiliary, mid adverb,
verb, objects, manner, place, cause, time. German middle field: pronouns, mid adverb, time, cause,
dative, manner, accusative, `nicht`, place, prepositional object or predicate; with `nicht` the
objects go before time (`Er sieht den Hund heute nicht`). An object with a relative clause is the
last thing of its clause in English, since an adverbial after it could belong to either verb.

Relative clauses are verb last between commas, with the pronoun's gender, number and case. English
has `who`, `whom`, `whose` for people, else `that`; after a preposition `whom` or `which`. Where the
German pronoun could be subject as well as object (`die Frau, die ...`) and both would make sense,
the subject is `he`, `I` or `we`, whose German shows that it is the subject.
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.grammar import determiners, german
from nmt.grammar.adverbials import Adverbials, draw_adverbials, prepositional_phrase
from nmt.grammar.clause import Clause, Wish, english_statement, german_verb_last
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
from nmt.grammar.verbs import draw_tense, verb_group
from nmt.grammar.words import Preposition, Slot, Verb

_WITH_OBJECT = frozenset({"transitive", "dative", "ditransitive"})


def build_clause(draw: Draw, words: int, wish: Wish) -> Clause:
    """A clause of about so many English words, the given subject among them."""
    verb = wish.verb or draw.pick(draw.lexicon.verbs.any(words))
    preposition = draw.pick(verb.prepositions) if verb.prepositions and not wish.gap else None
    places = _places_of(draw, verb, preposition, wish)
    room = words - 1 - len(verb.particles) - (verb.frame == "copula")
    room -= len(preposition.english) if preposition else 0
    room -= len(wish.subject.english) if wish.subject else 0
    room -= sum(place.least for place in places)
    tense = draw_tense(draw, verb, group=wish.tenses, room=room)
    room -= tense.extra
    spare = room
    if room > 0 and draw.flip(0.6):  # a second word for each noun phrase goes first
        spare -= sum(place.least == 1 for place in places)
    adverbials = draw_adverbials(draw, verb, tense, room=spare, wish=wish)
    room -= adverbials.words
    very = verb.frame == "copula" and room > 0 and not tense.negated and draw.flip(0.5)
    end = adverbials.ends()
    closed = bool(end) or tense.negated
    if places:
        if closed and len(places) > (wish.subject is None):
            places[-1].most = min(places[-1].most, LONGEST)
        _share_out(draw, places, room - very)
    subject = wish.subject or _subject_phrase(draw, places.pop(0), wish=wish, negated=tense.negated)
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
        phrase = _argument(draw, place, choices=choices, pronouns=pronouns, relative=relative)
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


def _places_of(draw: Draw, verb: Verb, preposition: Preposition | None, wish: Wish) -> list[Place]:
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


def _share_out(draw: Draw, places: list[Place], room: int) -> None:
    """Gives each place its least words and shares `room` more among them."""
    least = sum(place.least for place in places)
    most = sum(place.most for place in places)
    total = room + least
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


def _argument(
    draw: Draw,
    place: Place,
    *,
    choices: determiners.Choices,
    pronouns: Table[determiners.Pronoun] | None,
    relative: bool,
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
        head_words = 3 if words > SHORTEST_RELATIVE + 3 and draw.flip(0.3) else 2
        plain = determiners.KNOWN if choices is determiners.KNOWN else determiners.PLAIN
        head = short_phrase(draw, place.slot, words=head_words, case=place.case, choices=plain)
        _add_relative_clause(draw, head, words=words - head_words)
        return head
    return long_phrase(
        draw, place.slot, words=min(words, LONGEST), case=place.case, choices=choices
    )


def _subject_phrase(draw: Draw, place: Place, *, wish: Wish, negated: bool) -> NounPhrase:
    """The subject; under negation without quantifiers, whose scope would be unclear."""
    if wish.marked:
        return pronoun_phrase(draw, draw.pick(determiners.MARKED_SUBJECTS))
    return _argument(
        draw,
        place,
        choices=determiners.PLAIN if negated else determiners.ANY,
        pronouns=determiners.SUBJECTS,
        relative=wish.relative,
    )


SHORTEST_RELATIVE = 3  # English words of a relative clause

_LOCATION = Table({"place": 60.0, "object": 20.0, "subject": 20.0})
_THING = Table({"object": 75.0, "subject": 25.0})
_KINDS = {
    "person": Table({"subject": 55.0, "object": 25.0, "whose": 20.0}),
    "animal": Table({"subject": 60.0, "object": 40.0}),
    **dict.fromkeys(("home", "building", "room", "outdoors"), _LOCATION),
}


def _add_relative_clause(draw: Draw, head: NounPhrase, *, words: int) -> None:
    """Puts a relative clause of about `words` English words behind the head, in place."""
    kind = draw.pick(_KINDS.get(head.noun_class, _THING))
    if kind == "place" and words < SHORTEST_RELATIVE + 1:
        kind = "subject"
    if kind == "object" and words not in draw.lexicon.verbs.with_object[head.noun_class]:
        kind = "subject"
    (english, german_words), clause = _MAKERS[kind](draw, head, words)
    head.english += english + english_statement(clause)
    head.german += [COMMA, *german_words, *german_verb_last(clause), COMMA]
    head.contractible = False


# Each returns the words in front of the clause, and the clause.


def _as_subject(draw: Draw, head: NounPhrase, words: int) -> tuple[Words, Clause]:
    key = draw.key()
    pronoun = NounPhrase(
        [("who" if head.noun_class == "person" else "that", key)],
        [_relative(head, german.NOMINATIVE, key)],
        head.agreement,
        head.column,
        head.noun_class,
        adjective=head.adjective,
    )
    verb = draw.pick(draw.lexicon.verbs.of[head.noun_class](words))
    return ([], []), build_clause(draw, words, Wish(verb=verb, subject=pronoun, relative=False))


def _as_object(draw: Draw, head: NounPhrase, words: int) -> tuple[Words, Clause]:
    verb = draw.pick(draw.lexicon.verbs.with_object[head.noun_class](words))
    if verb.prepositions is None:
        key = draw.key()
        pronoun = "whom" if head.noun_class == "person" else "that"
        front = [(pronoun, key)], [_relative(head, verb.case, key)]
    else:
        (preposition,) = verb.prepositions.items
        front = _after_preposition(
            draw, preposition.english, preposition.german, head, preposition.case
        )
    ambiguous = verb.frame == "transitive" and head.noun_class in verb.subject.classes
    wish = Wish(verb=verb, gap=True, marked=ambiguous, relative=False)
    return front, build_clause(draw, words - len(front[0]), wish)


def _as_owner(draw: Draw, head: NounPhrase, words: int) -> tuple[Words, Clause]:
    noun = draw.pick(draw.lexicon.companions)
    many = 1 if noun.plural and draw.flip(0.25) else 0
    key, noun_key = draw.key(), draw.key()
    forms = noun.plural if many else noun.singular
    subject = NounPhrase(
        [("whose", key), (noun.english[many], noun_key)],
        [_relative(head, german.GENITIVE, key), (forms[german.NOMINATIVE], noun_key)],
        determiners.PLURAL if many else determiners.THIRD,
        german.PLURAL if many else noun.gender,
        noun.noun_class,
    )
    verb = draw.pick(draw.lexicon.verbs.of[noun.noun_class](words - 1))
    return ([], []), build_clause(draw, words, Wish(verb=verb, subject=subject, relative=False))


def _as_place(draw: Draw, head: NounPhrase, words: int) -> tuple[Words, Clause]:
    front = _after_preposition(draw, ("in",), "in", head, german.DATIVE)
    verb = draw.pick(draw.lexicon.verbs.with_place(words - 2))
    return front, build_clause(draw, words - 2, Wish(verb=verb, place=False, relative=False))


def _after_preposition(
    draw: Draw, english: tuple[str, ...], preposition: str, head: NounPhrase, case: int
) -> Words:
    key, pronoun_key = draw.key(), draw.key()
    pronoun = "whom" if head.noun_class == "person" else "which"
    return (
        [*((word, key) for word in english), (pronoun, pronoun_key)],
        [(preposition, key), _relative(head, case, pronoun_key)],
    )


def _relative(head: NounPhrase, case: int, key: int) -> Token:
    return german.RELATIVE[head.column][case], key


_MAKERS = {"subject": _as_subject, "object": _as_object, "whose": _as_owner, "place": _as_place}
