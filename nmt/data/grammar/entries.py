"""The entries of the lexicon: words of both languages with every form inflected once."""

from collections.abc import Mapping
from dataclasses import dataclass

from nmt.data.grammar.draw import Table

# How a noun goes with possessives and genitives: not at all (`the rain`), well (`her book`), or so
# that it needs them or an article that points at someone known (`my mother`, hardly `a mother`).
UNOWNED, OWNED, RELATED = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun, its forms by case.

    Attributes:
        english: Singular and plural.
        article: `a` or `an`.
        gender: Column of the singular in tables of `german`.
        singular: German forms by case.
        plural: German forms by case, empty when there is no plural.
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
        english: English words.
        german: German words.
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
    """What may fill one place in a sentence: nouns of some classes; `person` if people may."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with its frame.

    Attributes:
        english: Finite forms by agreement, then base and participle; without `particles`.
        particles: English words behind the verb: `up` of `wake up`, `for` of `look for`.
        german: Finite forms by agreement (without prefix), infinitive and participle (with it).
        frame: `intransitive`, `locative`, `transitive`, `dative`, `ditransitive`,
            `prepositional`, `motion`, `clausal` or `copula`.
        prepositions: The choices of a `locative`, `motion` or `prepositional` verb, else None.
        least: Fewest English words of a clause with this verb.
    """

    english: tuple[str, str, str]
    base: str
    participle: str
    particles: tuple[str, ...]
    german: tuple[str, str, str]
    infinitive: str
    german_participle: str
    prefix: str
    auxiliary: tuple[str, str, str]
    frame: str
    case: int
    subject: Slot
    object: Slot | None
    prepositions: Table[Preposition] | None
    state: bool
    passing: bool
    negatable: bool
    pronouns: bool
    manner: bool
    place: bool
    least: int
