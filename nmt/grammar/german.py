"""German inflection: nouns in four cases, adjective endings, determiners, pronouns, verb forms.

Forms are indexed by column, then by case. A column is the gender of a singular or the plural:
0 masculine, 1 feminine, 2 neuter, 3 plural. A case is 0 nominative, 1 accusative, 2 dative,
3 genitive.
"""

from __future__ import annotations

from typing import Literal

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = 0, 1, 2, 3
CASES = {"nom": NOMINATIVE, "acc": ACCUSATIVE, "dat": DATIVE, "gen": GENITIVE}
MASCULINE, FEMININE, NEUTER, PLURAL = 0, 1, 2, 3
GENDERS = {"der": MASCULINE, "die": FEMININE, "das": NEUTER}

Declension = Literal["weak", "mixed", "strong"]
Forms = tuple[tuple[str, str, str, str], ...]

DEFINITE: Forms = (
    ("der", "den", "dem", "des"),
    ("die", "die", "der", "der"),
    ("das", "das", "dem", "des"),
    ("die", "die", "den", "der"),
)
RELATIVE: Forms = (
    ("der", "den", "dem", "dessen"),
    ("die", "die", "der", "deren"),
    ("das", "das", "dem", "dessen"),
    ("die", "die", "denen", "deren"),
)
_STRONG: Forms = (
    ("er", "en", "em", "en"),
    ("e", "e", "er", "er"),
    ("es", "es", "em", "en"),
    ("e", "e", "en", "er"),
)
_WEAK: Forms = (
    ("e", "en", "en", "en"),
    ("e", "e", "en", "en"),
    ("e", "e", "en", "en"),
    ("en", "en", "en", "en"),
)
_MIXED: Forms = (
    ("er", "en", "en", "en"),
    ("e", "e", "en", "en"),
    ("es", "es", "en", "en"),
    ("en", "en", "en", "en"),
)
ADJECTIVE_ENDINGS: dict[Declension, Forms] = {"weak": _WEAK, "mixed": _MIXED, "strong": _STRONG}

# Endings of `dies-`, `jed-`, `viel-`, as the definite article's; of `ein`, `mein`, thrice none.
DER_WORD: Forms = (
    ("er", "en", "em", "es"),
    ("e", "e", "er", "er"),
    ("es", "es", "em", "es"),
    ("e", "e", "en", "er"),
)
EIN_WORD: Forms = (
    ("", "en", "em", "es"),
    ("e", "e", "er", "er"),
    ("", "", "em", "es"),
    ("e", "e", "en", "er"),
)

HABEN = ("habe", "hat", "haben")
SEIN = ("bin", "ist", "sind")

# Preposition and article in one word; (preposition, article) as written apart.
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("bei", "dem"): "beim",
}


def inflected(endings: Forms, stem: str) -> Forms:
    """The forms of a determiner: its stem with `DER_WORD` or `EIN_WORD`."""
    return tuple(tuple(stem + ending for ending in row) for row in endings)  # type: ignore[misc]


def invariable(word: str) -> Forms:
    """The forms of a word without inflection, `zwei` or `Annas`."""
    return ((word, word, word, word),) * 4


def noun_forms(
    nominative: str, *, gender: int, genitive: str | None, oblique: str | None, plural: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The singular and plural of a noun by case; the plural is empty where there is none.

    `oblique` is the one form of all other singular cases of a weak noun (`den Studenten`);
    `genitive` is None for a regular one.
    """
    if oblique is not None:
        singular = (nominative, oblique, oblique, oblique)
    else:
        regular = nominative if gender == FEMININE else nominative + "s"
        singular = (nominative, nominative, nominative, genitive or regular)
    if plural is None:
        return singular, ()
    dative = plural if plural.endswith(("n", "s")) else plural + "n"
    return singular, (plural, plural, dative, plural)


def adjective_forms(stem: str) -> dict[str, str]:
    """The attributive forms of an adjective by ending."""
    stem = stem.removesuffix("e")  # müde: müde, müder
    return {ending: stem + ending for ending in ("e", "en", "er", "es", "em")}


def present_forms(infinitive: str, *, third: str | None, first: str | None) -> tuple[str, str, str]:
    """First and third person singular and the plural in the present, without separable prefix."""
    stem = infinitive.removesuffix("n").removesuffix("e")
    # Verbs in -eln drop the e of the stem: lächeln, ich lächle.
    regular = stem[:-2] + "le" if infinitive.endswith("eln") else stem + "e"
    return first or regular, third or _with_t(stem), infinitive


def participle_of(infinitive: str) -> str:
    """The regular participle: `gekauft`, `gearbeitet`; no ge- after be-, ver-, er- or in -ieren."""
    stem = infinitive.removesuffix("n").removesuffix("e")
    inseparable = infinitive.startswith(("be", "ver", "er", "ent", "zer")) and len(stem) > 4
    return ("" if inseparable or infinitive.endswith("ieren") else "ge") + _with_t(stem)


def _with_t(stem: str) -> str:
    return stem + ("et" if stem.endswith(("d", "t", "chn", "ffn")) else "t")
