"""The closed classes: determiners, pronouns and modal verbs, with the tables to draw them from.

Left out because one side would have two readings: `you` (du, ihr, Sie), `their` (ihr, as `her`),
accusative `them` (sie, as `her`), `it` (er, sie, es by the gender of its noun), `no` (kein is
`not a`), reflexives, and `must not` (darf nicht, as `may not`).
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.grammar import german
from nmt.grammar.german import Declension, Forms
from nmt.grammar.tokens import Table

SINGULAR, MANY, MASS = 0, 1, 2  # MASS: a noun without plural

# Agreement of a subject with its verb, an index into finite forms.
FIRST, THIRD, PLURAL = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """A determiner; `english` is None where it does not occur (singular, plural)."""

    english: tuple[str | None, str | None]
    forms: Forms
    declension: Declension


THE = Determiner(("the", "the"), german.DEFINITE, "weak")
AN = Determiner(("a", None), german.inflected(german.EIN_WORD, "ein"), "mixed")
NONE = Determiner(("", ""), german.invariable(""), "strong")
THIS = Determiner(("this", "these"), german.inflected(german.DER_WORD, "dies"), "weak")
EVERY = Determiner(("every", None), german.inflected(german.DER_WORD, "jed"), "weak")
MY = Determiner(("my", "my"), german.inflected(german.EIN_WORD, "mein"), "mixed")
HIS = Determiner(("his", "his"), german.inflected(german.EIN_WORD, "sein"), "mixed")
HER = Determiner(("her", "her"), german.inflected(german.EIN_WORD, "ihr"), "mixed")
OUR = Determiner(("our", "our"), german.inflected(german.EIN_WORD, "unser"), "mixed")
MANY_ = Determiner((None, "many"), german.inflected(german.DER_WORD, "viel"), "strong")
SOME = Determiner((None, "some"), german.inflected(german.DER_WORD, "einig"), "strong")
TWO = Determiner((None, "two"), german.invariable("zwei"), "strong")
THREE = Determiner((None, "three"), german.invariable("drei"), "strong")
NOT_A = Determiner(("a", None), german.inflected(german.EIN_WORD, "kein"), "mixed")
NOT_ANY = Determiner(("", ""), german.inflected(german.EIN_WORD, "kein"), "mixed")

#: Tables by the relation of the noun (`words.UNOWNED` ...), then by number (`SINGULAR` ...).
Choices = tuple[tuple[Table[Determiner], ...], ...]

_Weights = dict[Determiner, float]
_POINTED: _Weights = {THE: 45.0, THIS: 6.0}
_POSSESSIVES: _Weights = {MY: 8.0, HIS: 6.0, HER: 6.0, OUR: 4.0}
_POSSESSED: _Weights = {THE: 20.0, THIS: 1.0, MY: 12.0, HIS: 10.0, HER: 10.0, OUR: 6.0}
_ONE: _Weights = {AN: 25.0}
_EACH: _Weights = {AN: 25.0, EVERY: 4.0}
_SEVERAL: _Weights = {MANY_: 7.0, SOME: 6.0, TWO: 5.0, THREE: 2.0}
_BARE: _Weights = {NONE: 16.0}


def _choices(singular: _Weights, plural: _Weights, mass: _Weights) -> Choices:
    """Tables for what may stand beside the definite determiners, which are always possible."""
    extra = (singular, plural, mass)
    unowned = tuple(Table(_POINTED | group) for group in extra)
    owned = tuple(Table(_POINTED | _POSSESSIVES | group) for group in extra)
    return unowned, owned, (Table(_POSSESSED),) * 3


#: Anything, with room for at least one word beside the noun.
ANY = _choices(_EACH, _SEVERAL | _BARE, _BARE)
#: The same for four words, of which a noun without determiner could fill only three.
FULL = _choices(_EACH, _SEVERAL, {})
#: Parts of a coordination, heads of a relative clause and objects of a preposition. Neither
#: numerals nor bare plurals: `in zwei Schulen` would be both `in` and `into two schools`.
PLAIN = _choices(_ONE, {}, {})
#: Known things: under negation with `nicht`.
KNOWN = _choices({}, {}, {})
#: A head with a genitive after it, and causes: `the` alone.
HEAD: Choices = (((Table({THE: 1.0}),) * 3),) * 3


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun as subject or object; `first` if it includes the speaker."""

    english: str
    german: str
    agreement: int
    first: bool


_I = Pronoun("I", "ich", FIRST, True)
_HE = Pronoun("he", "er", THIRD, False)
_SHE = Pronoun("she", "sie", THIRD, False)
_WE = Pronoun("we", "wir", PLURAL, True)
_THEY = Pronoun("they", "sie", PLURAL, False)
SUBJECTS = Table({_HE: 27.0, _SHE: 23.0, _I: 20.0, _THEY: 17.0, _WE: 13.0})
#: Subjects of an accusative relative clause whose pronoun could else be taken for the subject.
MARKED_SUBJECTS = Table({_HE: 40.0, _I: 35.0, _WE: 25.0})

_ACCUSATIVE = {
    Pronoun("him", "ihn", THIRD, False): 35.0,
    Pronoun("her", "sie", THIRD, False): 30.0,
    Pronoun("me", "mich", FIRST, True): 20.0,
    Pronoun("us", "uns", PLURAL, True): 15.0,
}
_DATIVE = {
    Pronoun("him", "ihm", THIRD, False): 30.0,
    Pronoun("her", "ihr", THIRD, False): 25.0,
    Pronoun("them", "ihnen", PLURAL, False): 15.0,
    Pronoun("me", "mir", FIRST, True): 18.0,
    Pronoun("us", "uns", PLURAL, True): 12.0,
}


def _without_speaker(weights: dict[Pronoun, float]) -> dict[Pronoun, float]:
    return {pronoun: weight for pronoun, weight in weights.items() if not pronoun.first}


#: Object pronouns by case, then by whether the subject leaves room for the first person
#: (`I see me` would be reflexive).
OBJECTS = {
    german.ACCUSATIVE: (Table(_without_speaker(_ACCUSATIVE)), Table(_ACCUSATIVE)),
    german.DATIVE: (Table(_without_speaker(_DATIVE)), Table(_DATIVE)),
}


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb; `negated` is its English negation, empty when it has do-support or none."""

    english: tuple[str, str, str]
    german: tuple[str, str, str]
    negated: tuple[str, ...]


CAN = Modal(("can", "can", "can"), ("kann", "kann", "können"), ("cannot",))
MUST = Modal(("must", "must", "must"), ("muss", "muss", "müssen"), ())
SHOULD = Modal(("should",) * 3, ("sollte", "sollte", "sollten"), ("should", "not"))
MAY = Modal(("may", "may", "may"), ("darf", "darf", "dürfen"), ("may", "not"))
WANT = Modal(("want", "wants", "want"), ("will", "will", "wollen"), ())
