"""Noun phrases of one to nine words: pronouns, names, nouns with what belongs to them.

Longer ones are two noun groups, coordinated or the second in the genitive. Relative clauses are put
behind noun groups in `clauses`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.grammar import determiners, german
from nmt.grammar.determiners import MANY, MASS, SINGULAR, Choices, Determiner, Pronoun
from nmt.grammar.tokens import Draw, Table, Token
from nmt.grammar.words import UNOWNED, Adjective, Noun, Slot

LONGEST = 9  # words of a noun phrase without a relative clause

_NUMBER = Table({SINGULAR: 70.0, MANY: 30.0})
_ONE_WORD = Table({"pronoun": 60.0, "name": 28.0, "bare": 12.0})


@dataclass(slots=True)
class NounPhrase:
    """A noun phrase in both languages.

    Attributes:
        english: Tokens of the English phrase.
        german: Tokens of the German phrase, in the case it was made for.
        agreement: What a verb agrees with: `FIRST`, `THIRD` or `PLURAL` person.
        column: Gender or plural, for a relative pronoun.
        noun_class: Semantic class of the head.
        first: Includes the speaker, so that `me` and `us` cannot be its object.
        pronoun: Is an unstressed pronoun, which goes to the front of the German middle field.
        contractible: Begins with a definite article that a preposition may swallow (`im`).
        adjective: The adjective of the head.
        owned: Takes a genitive of a person well (`the house of the man`).
    """

    english: list[Token]
    german: list[Token]
    agreement: int
    column: int
    noun_class: str = "person"
    first: bool = False
    pronoun: bool = False
    contractible: bool = False
    owned: bool = False
    adjective: Adjective | None = None


def noun_group(
    draw: Draw,
    noun: Noun,
    *,
    many: int,
    determiner: Determiner,
    modifiers: int,
    case: int,
    negation: int = 0,
) -> NounPhrase:
    """Determiner, adjective and noun, inflected.

    Args:
        draw: Source of choices and link keys.
        noun: The head.
        many: 1 for the plural, else 0.
        determiner: One that occurs in this number.
        modifiers: 0 for none, 1 for an adjective, 2 for an adjective with `very` or the like.
        case: Index of the German case.
        negation: The link key of `not` when the determiner is `kein`.
    """
    column = german.PLURAL if many else noun.gender
    english_words: list[Token] = []
    german_words: list[Token] = []
    adjective = degree = None
    if modifiers:
        table = draw.lexicon.adjectives_of if modifiers == 1 else draw.lexicon.gradable_of
        adjective = draw.pick(table[noun.noun_class])
        if modifiers == 2:
            degree = draw.pick(draw.lexicon.degrees)
    key = negation or draw.key()
    if word := determiner.english[many]:
        if word == "a":
            word = (degree or adjective or noun).article
        english_words.append((word, -key if negation else key))
    if form := determiner.forms[column][case]:
        german_words.append((form, key))
    if adjective is not None:
        if degree is not None:
            key = draw.key()
            english_words.append((degree.english[0], key))
            german_words.append((degree.german[0], key))
        key = draw.key()
        ending = german.ADJECTIVE_ENDINGS[determiner.declension][column][case]
        english_words.append((adjective.english, key))
        german_words.append((adjective.forms[ending], key))
    key = draw.key()
    english_words.append((noun.english[many], key))
    german_words.append(((noun.plural if many else noun.singular)[case], key))
    return NounPhrase(
        english_words,
        german_words,
        determiners.PLURAL if many else determiners.THIRD,
        column,
        noun.noun_class,
        contractible=determiner is determiners.THE,
        owned=noun.relation != UNOWNED,
        adjective=adjective,
    )


def pronoun_phrase(draw: Draw, pronoun: Pronoun) -> NounPhrase:
    """A personal pronoun as a noun phrase."""
    key = draw.key()
    return NounPhrase(
        [(pronoun.english, key)],
        [(pronoun.german, key)],
        pronoun.agreement,
        german.MASCULINE,
        first=pronoun.first,
        pronoun=True,
    )


def one_word(
    draw: Draw, slot: Slot, *, case: int, pronouns: Table[Pronoun] | None, bare: bool
) -> NounPhrase | None:
    """A phrase of one word, or None when nothing of one word fits the slot."""
    if slot.person:
        kind = draw.pick(_ONE_WORD)
        if kind == "pronoun" and pronouns is not None:
            return pronoun_phrase(draw, draw.pick(pronouns))
        if kind != "bare" or not bare:
            name = draw.pick(draw.lexicon.names), draw.key()
            return NounPhrase([name], [name], determiners.THIRD, german.MASCULINE)
    noun = draw.pick(slot.nouns) if bare else None
    if noun is None or not (noun.plural or noun.bare):
        return None
    many = 1 if noun.plural else 0
    return noun_group(draw, noun, many=many, determiner=determiners.NONE, modifiers=0, case=case)


def short_phrase(
    draw: Draw, slot: Slot, *, words: int, case: int, choices: Choices = determiners.ANY
) -> NounPhrase:
    """A phrase of two to four words: a noun with determiner, adjective or both."""
    noun = draw.pick(slot.nouns)
    number = MASS if not noun.plural else draw.pick(_NUMBER)
    if choices is determiners.ANY and (words == 4 or (number == MASS and not noun.bare)):
        choices = determiners.FULL
    determiner = draw.pick(choices[noun.relation][number])
    many = 1 if number == MANY else 0
    modifiers = words - 1 - (1 if determiner.english[many] else 0)
    return noun_group(draw, noun, many=many, determiner=determiner, modifiers=modifiers, case=case)


def negated_phrase(draw: Draw, slot: Slot, *, words: int, case: int, negation: int) -> NounPhrase:
    """An object with `kein`: `a book` after `not`, `books`, `cold milk`."""
    noun = draw.pick(slot.nouns)
    many = 1 if noun.plural and (words == 1 or draw.pick(_NUMBER) == MANY) else 0
    bare = many or noun.bare
    modifiers = max(min(words - (1 if bare else 2), 1), 0)
    return noun_group(
        draw,
        noun,
        many=many,
        determiner=determiners.NOT_ANY if bare else determiners.NOT_A,
        modifiers=modifiers,
        case=case,
        negation=negation,
    )


def long_phrase(draw: Draw, slot: Slot, *, words: int, case: int, choices: Choices) -> NounPhrase:
    """A phrase of five to nine words: two noun groups, joined by `and` or as a genitive."""
    left_words = draw.integer(max(2, words - 5), min(4, words - 3))
    right_words = words - 1 - left_words
    coordinated = determiners.KNOWN if choices is determiners.KNOWN else determiners.PLAIN
    if draw.flip(0.5):
        head = short_phrase(draw, slot, words=left_words, case=case, choices=determiners.HEAD)
        if head.owned:
            return _with_genitive(draw, head, words=right_words)
    else:
        head = short_phrase(draw, slot, words=left_words, case=case, choices=coordinated)
    same = draw.lexicon.slot((head.noun_class,))
    other = head
    bits = draw.bits
    while other.english[-1][0] == head.english[-1][0]:
        draw.bits = bits
        other = short_phrase(draw, same, words=right_words, case=case, choices=coordinated)
    key = draw.key()
    return NounPhrase(
        [*head.english, ("and", key), *other.english],
        [*head.german, ("und", key), *other.german],
        determiners.PLURAL,
        german.PLURAL,
        head.noun_class,
        adjective=other.adjective or head.adjective,
    )


def _with_genitive(draw: Draw, head: NounPhrase, *, words: int) -> NounPhrase:
    person = draw.lexicon.slot(("person",))
    owner = short_phrase(draw, person, words=words, case=german.GENITIVE, choices=determiners.PLAIN)
    head.english += [("of", -owner.german[0][1]), *owner.english]
    head.german += owner.german
    return head
