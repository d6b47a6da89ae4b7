"""Entries from the lines of a lexicon file, with every form inflected."""

from collections.abc import Mapping
from typing import Any

from nmt.data.grammar import english, german
from nmt.data.grammar.draw import Table
from nmt.data.grammar.entries import (
    OWNED,
    RELATED,
    UNOWNED,
    Adjective,
    Adverb,
    Noun,
    Preposition,
    Slot,
    Verb,
)

_WITHOUT_OWNER = frozenset({"cause", "drink", "staple"})
_LEAST_WORDS = {
    "intransitive": 2,
    "locative": 5,
    "transitive": 3,
    "dative": 3,
    "ditransitive": 4,
    "prepositional": 4,
    "motion": 5,
    "clausal": 2,
}


def noun(entry: Mapping[str, Any], *, noun_class: str, bare: bool) -> Noun:
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
    word = entry["en"]
    many = entry.get("ens") or english.plural(word)
    return Noun(
        (word, many),
        _article(entry),
        gender,
        singular,
        plural,
        noun_class,
        bare=bare and not plural,
        relation=_relation(entry, noun_class),
    )


def adjective(entry: Mapping[str, Any]) -> Adjective:
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


def adverb(entry: Mapping[str, Any]) -> Adverb:
    """An adverbial from its lexicon line; without `links` as many words are linked in order."""
    source, target = tuple(entry["en"].split()), tuple(entry["de"].split())
    named = entry.get("links") or [f"{index}-{index}" for index in range(len(source))]
    links = []
    for link in named:
        left, right = link.removesuffix("?").split("-")
        links.append((int(left), int(right), not link.endswith("?")))
    if any(left >= len(source) or right >= len(target) for left, right, _ in links):
        raise ValueError(f"the links of {entry['en']!r} point outside its words: correct `links`")
    return Adverb(
        english=source,
        german=target,
        links=tuple(links),
        tenses=tuple(entry.get("tenses", ())),
        article=_article(entry),
        comma=entry.get("comma", False),
    )


def verb(
    entry: Mapping[str, Any],
    *,
    frame: str,
    subject: Slot,
    object_slot: Slot | None,
    prepositions: Table[Preposition] | None,
) -> Verb:
    """A verb from its lexicon line, in one of the frames."""
    base, *particles = entry["en"].split()
    prefix, _, stem = entry["de"].rpartition("|")
    participle = entry.get("part") or german.participle_of(stem)
    if frame == "prepositional":
        particles = []
    options = entry.get("with", ())
    return Verb(
        english=(base, english.third_person(base), base),
        base=base,
        participle=entry.get("pp", english.participle(base)).split()[0],
        particles=tuple(particles),
        german=german.present_forms(stem, third=entry.get("er"), first=entry.get("ich")),
        infinitive=prefix + stem,
        german_participle=prefix + participle,
        prefix=prefix,
        auxiliary=german.SEIN if entry.get("aux") == "sein" else german.HABEN,
        frame=frame,
        case=german.DATIVE if frame == "dative" else german.ACCUSATIVE,
        subject=subject,
        object=object_slot,
        prepositions=prepositions,
        state=entry.get("kind") == "state",
        passing=False,
        negatable=entry.get("negatable", True),
        pronouns=entry.get("pronouns", True),
        manner="manner" in options,
        place="place" in options,
        least=_LEAST_WORDS[frame] + len(particles),
    )


def copula(subject: Slot, *, passing: bool) -> Verb:
    """`be` / `sein` with a predicative adjective: the one verb that the lexicon does not list.

    With `passing` the adjective tells a state that ends, and the perfect makes sense.
    """
    return Verb(
        english=english.BE,
        base="be",
        participle="been",
        particles=(),
        german=german.SEIN,
        infinitive="sein",
        german_participle="gewesen",
        prefix="",
        auxiliary=german.SEIN,
        frame="copula",
        case=german.NOMINATIVE,
        subject=subject,
        object=None,
        prepositions=None,
        state=False,
        passing=passing,
        negatable=True,
        pronouns=False,
        manner=False,
        place=False,
        least=3,
    )


def _relation(entry: Mapping[str, Any], noun_class: str) -> int:
    if entry.get("related", False):
        return RELATED
    return OWNED if entry.get("owned", noun_class not in _WITHOUT_OWNER) else UNOWNED


def _article(entry: Mapping[str, Any]) -> str:
    default = "an" if english.starts_with_vowel(entry["en"]) else "a"
    return str(entry.get("article", default))
