"""English inflection: plural, third person, participle, a/an and the auxiliaries."""

from __future__ import annotations

SIBILANTS = ("s", "x", "z", "ch", "sh")
VOWELS = "aeiou"

# Finite forms by agreement: first person singular, third person singular, plural.
BE = ("am", "is", "are")
HAVE = ("have", "has", "have")
DO = ("do", "does", "do")


def plural(noun: str) -> str:
    """The regular plural: `boxes`, `cities`, `boys`."""
    if noun.endswith(SIBILANTS):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


def third_person(verb: str) -> str:
    """The third person singular present: `goes`, `carries`, `sees`."""
    return verb + "es" if verb.endswith("o") else plural(verb)


def participle(verb: str) -> str:
    """The regular past participle: `used`, `carried`, `opened`."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    return verb + "ed"


def starts_with_vowel(word: str) -> bool:
    """Whether `an` goes before the word as spelled; the lexicon overrides it (`article: an`)."""
    return word[0] in VOWELS
