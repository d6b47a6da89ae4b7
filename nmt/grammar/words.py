"""The words of a lexicon, inflected, and how they are read from its entries; English inflection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nmt.grammar import german
from nmt.grammar.tokens import Table

# How a noun goes with possessives and genitives: not at all (`the rain`), well (`her book`), or so
# that it needs them or an article that points at someone known (`my mother`, hardly `a mother`).
UNOWNED, OWNED, RELATED = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun; the German forms are by case, those of the plural empty when there is none.

    Attributes:
        english: Singular and plural.
        article: `a` or `an`.
        gender: Column of the singular in tables of `german`.
        noun_class: Semantic class, for selectional preferences.
        bare: The singular may lack any article (`milk`).
        relation: `UNOWNED`, `OWNED` or `RELATED`.
    """

    english: tuple[str, str]
    article: str
    gender: int
    singular: tuple[str, ...]
    plural: tuple[str, ...]
    noun_class: str
    bare: bool
    relation: int


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective; `forms` by ending, `german` uninflected as after `sein`.

    `gradable` ones go with `very`; `passing` ones tell a state that ends (`has been tired`).
    """

    english: str
    article: str
    german: str
    forms: Mapping[str, str]
    gradable: bool
    passing: bool
    classes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverbial of fixed words.

    Attributes:
        links: Word positions (English, German, sure).
        tenses: Tenses that a time goes with.
        article: `a` or `an` before it, for an adverb of degree.
        comma: English has a comma behind it when it comes first.
    """

    english: tuple[str, ...]
    german: tuple[str, ...]
    links: tuple[tuple[int, int, bool], ...]
    tenses: tuple[str, ...]
    article: str
    comma: bool


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """What may fill one place in a sentence: nouns of some classes."""

    nouns: Table[Noun]
    classes: tuple[str, ...]

    @property
    def person(self) -> bool:
        """Whether pronouns and names fit."""
        return "person" in self.classes


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """A preposition with the case it governs and the nouns it is used with."""

    english: tuple[str, ...]
    german: str
    case: int
    slot: Slot


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Verb:
    """A verb with its frame.

    Attributes:
        english: Finite forms by agreement, then base and participle; without `particles`.
        particles: English words behind the verb: `up` of `wake up`, `for` of `look for`.
        german: Finite forms by agreement (without prefix), infinitive and participle (with it).
        frame: `intransitive`, `locative`, `transitive`, `dative`, `ditransitive`,
            `prepositional`, `motion`, `clausal` or `copula`.
        prepositions: The choices of a `locative`, `motion` or `prepositional` verb, else None.
        passing: A copula whose adjective tells a state that ends, so that the perfect makes sense.
        least: Fewest English words of a clause with this verb.
    """

    english: tuple[str, str, str]
    base: str
    participle: str
    particles: tuple[str, ...] = ()
    german: tuple[str, str, str]
    infinitive: str
    german_participle: str
    prefix: str = ""
    auxiliary: tuple[str, str, str]
    frame: str
    case: int
    subject: Slot
    object: Slot | None = None
    prepositions: Table[Preposition] | None = None
    state: bool = False
    passing: bool = False
    negatable: bool = True
    pronouns: bool = True
    manner: bool = False
    place: bool = False
    least: int


_WITHOUT_OWNER = frozenset({"cause", "drink", "staple"})


def read_noun(entry: Mapping[str, Any], *, noun_class: str, bare: bool) -> Noun:
    """A noun from its lexicon line."""
    article, nominative = entry["de"].split()
    gender = german.GENDERS[article]
    singular, plural = german.noun_forms(
        nominative,
        gender=gender,
        genitive=entry.get("des"),
        oblique=entry.get("den"),
        plural=entry.get("die"),
    )
    relation = OWNED if entry.get("owned", noun_class not in _WITHOUT_OWNER) else UNOWNED
    return Noun(
        english=(entry["en"], entry.get("ens") or english_plural(entry["en"])),
        article=_article(entry),
        gender=gender,
        singular=singular,
        plural=plural,
        noun_class=noun_class,
        bare=bare and not plural,
        relation=RELATED if entry.get("related") else relation,
    )


def read_adjective(entry: Mapping[str, Any]) -> Adjective:
    """An adjective from its lexicon line."""
    return Adjective(
        english=entry["en"],
        article=_article(entry),
        german=entry["de"],
        forms=german.adjective_forms(entry.get("stem", entry["de"])),
        gradable=entry.get("gradable", True),
        passing=entry.get("passing", False),
        classes=tuple(entry["of"]),
    )


def read_adverb(entry: Mapping[str, Any]) -> Adverb:
    """An adverbial from its lexicon line; without `links` as many words are linked in order."""
    source, target = tuple(entry["en"].split()), tuple(entry["de"].split())
    named = entry.get("links") or [f"{index}-{index}" for index in range(len(source))]
    links = []
    for link in named:
        left, right = link.removesuffix("?").split("-")
        links.append((int(left), int(right), not link.endswith("?")))
    return Adverb(
        english=source,
        german=target,
        links=tuple(links),
        tenses=tuple(entry.get("tenses", ())),
        article=_article(entry),
        comma=entry.get("comma", False),
    )


def _article(entry: Mapping[str, Any]) -> str:
    """`a` or `an`, by the spelling unless the lexicon says otherwise."""
    return str(entry.get("article", "an" if entry["en"][0] in VOWELS else "a"))


SIBILANTS = ("s", "x", "z", "ch", "sh")
VOWELS = "aeiou"

# Finite forms by agreement: first person singular, third person singular, plural.
BE = ("am", "is", "are")
HAVE = ("have", "has", "have")
DO = ("do", "does", "do")


def english_plural(noun: str) -> str:
    """The regular plural: `boxes`, `cities`, `boys`."""
    if noun.endswith(SIBILANTS):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


def third_person(verb: str) -> str:
    """The third person singular present: `goes`, `carries`, `sees`."""
    return verb + "es" if verb.endswith("o") else english_plural(verb)


def english_participle(verb: str) -> str:
    """The regular past participle: `used`, `carried`, `opened`."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    return verb + "ed"
