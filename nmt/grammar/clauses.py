"""One clause with one verb: words shared out among its arguments and adverbials, then made.

Word order is fixed, so that each meaning has one form. English: subject, auxiliary, mid adverb,
verb, objects, manner, place, cause, time. German middle field: pronouns, mid adverb, time, cause,
dative, manner, accusative, `nicht`, place, prepositional object or predicate; with `nicht` the
objects go before time (`Er sieht den Hund heute nicht`). An object with a relative clause is the
last thing of its clause in English, since an adverbial after it could belong to either verb.
"""

from nmt.grammar import determiners
from nmt.grammar.adverbials import Adverbials, draw_adverbials, prepositional_phrase
from nmt.grammar.arguments import Place, argument, places_of, share_out, subject_phrase
from nmt.grammar.clause import Clause, Wish
from nmt.grammar.lexicon import Lexicon
from nmt.grammar.noun_phrases import LONGEST, NounPhrase, negated_phrase
from nmt.grammar.tokens import Draw, Token
from nmt.grammar.verbs import draw_tense, verb_group
from nmt.grammar.words import Preposition, Verb

_WITH_OBJECT = frozenset({"transitive", "dative", "ditransitive"})


def build_clause(draw: Draw, lexicon: Lexicon, words: int, wish: Wish) -> Clause:
    """A clause of about so many English words, the given subject among them."""
    verb = wish.verb or draw.pick(lexicon.verbs.any(words))
    preposition = draw.pick(verb.prepositions) if verb.prepositions and not wish.gap else None
    places = places_of(lexicon, verb, preposition, wish)
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
    adverbials = draw_adverbials(draw, lexicon, verb, tense, room=spare, wish=wish)
    room -= adverbials.words
    very = verb.frame == "copula" and room > 0 and not tense.negated and draw.flip(0.5)
    end = adverbials.ends()
    closed = bool(end) or wish.closed or tense.negated
    if places:
        if closed and len(places) > (wish.subject is None):
            places[-1].most = min(places[-1].most, LONGEST)
        share_out(draw, places, room - very)
    subject = wish.subject or subject_phrase(
        draw, lexicon, places.pop(0), wish=wish, negated=tense.negated, build=build_clause
    )
    group = verb_group(draw, verb, tense, agreement=subject.agreement, question=wish.question)
    clause = Clause(subject, group, adverbials.front, adverbials.mid[0], [], end, [])
    if verb.frame == "copula":
        _add_predicate(draw, lexicon, clause, verb, adverbials, very=very)
    else:
        relative = wish.relative and not closed
        _add_objects(draw, lexicon, clause, verb, preposition, places, adverbials, relative)
    return clause


def _add_predicate(
    draw: Draw,
    lexicon: Lexicon,
    clause: Clause,
    verb: Verb,
    adverbials: Adverbials,
    *,
    very: bool,
) -> None:
    """`be` + adjective: another adjective than the one beside the subject."""
    tables = lexicon.gradable_of if very else lexicon.adjectives_of
    table = (lexicon.passing_of if verb.passing else tables)[clause.subject.noun_class]
    bits = draw.bits
    adjective = draw.pick(table)
    while adjective is clause.subject.adjective:
        draw.bits = bits
        adjective = draw.pick(table)
    clause.middle += adverbials.mid[1]
    if clause.group.negation:
        clause.middle.append(("nicht", clause.group.negation))
    if very:
        degree = draw.pick(lexicon.degrees)
        key = draw.key()
        clause.objects.append((degree.english[0], key))
        clause.middle.append((degree.german[0], key))
    key = draw.key()
    clause.objects.append((adjective.english, key))
    clause.middle.append((adjective.german, key))


def _add_objects(
    draw: Draw,
    lexicon: Lexicon,
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
                draw, lexicon, place.slot, words=place.words, case=place.case, negation=negation
            )
        else:
            phrase = _object(
                draw,
                lexicon,
                clause.subject,
                verb,
                place,
                relative=relative and last,
                known=bool(negation),
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
    draw: Draw,
    lexicon: Lexicon,
    subject: NounPhrase,
    verb: Verb,
    place: Place,
    *,
    relative: bool,
    known: bool,
) -> NounPhrase:
    free = verb.frame not in ("locative", "motion")
    choices = determiners.KNOWN if known else determiners.ANY if free else determiners.PLAIN
    pronouns = determiners.OBJECTS[place.case][not subject.first] if verb.pronouns else None
    bits = draw.bits
    for _ in range(3):
        phrase = argument(
            draw,
            lexicon,
            place,
            choices=choices,
            pronouns=pronouns,
            relative=relative,
            build=build_clause,
        )
        # `Anna sees Anna` would need a reflexive, `the dog sees the dog` is odd.
        if not subject.english or phrase.english[-1][0] != subject.english[-1][0]:
            break
        draw.bits = bits
    return phrase
