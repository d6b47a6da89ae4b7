"""The lexicon: found, read, and turned into tables ready to draw from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

import nmt
from nmt.checks import UserError
from nmt.grammar import german
from nmt.grammar.tokens import Table, zipf, zipf_table
from nmt.grammar.verbs import VerbTables
from nmt.grammar.words import (
    Adjective,
    Noun,
    Preposition,
    Slot,
    read_adjective,
    read_adverb,
    read_noun,
)


def lexicon_path(name: str) -> Path:
    """Where the YAML file of a lexicon lies: inside the installed package, else the repository."""
    package = Path(nmt.__file__).resolve().parent
    places = (package / "_data" / "grammar", package.parent / "data" / "grammar")
    for place in places:
        path = place / f"{name}.yaml"
        if path.is_file():
            return path
    known = sorted({path.stem for place in places for path in place.glob("*.yaml")})
    raise UserError(f"there is no lexicon {name!r}: choose one of {', '.join(known) or 'none'}")


def read_lexicon(name: str) -> dict[str, Any]:
    """The content of a lexicon file; one with `extends` adds its words to those of another."""
    with lexicon_path(name).open(encoding="utf-8") as file:
        content = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    base = content.pop("extends", None)
    merged: dict[str, Any] = _merged(read_lexicon(base), content) if base else content
    return merged


def _merged(base: Any, extension: Any) -> Any:
    if isinstance(base, list):
        return base + extension
    shared = {key: _merged(base[key], extension[key]) for key in base if key in extension}
    return base | extension | shared


@lru_cache(maxsize=4)
def load_lexicon(name: str) -> Lexicon:
    """The lexicon of that name, read and inflected once per process."""
    return Lexicon(read_lexicon(name))


class Lexicon:
    """All words, and the distributions from which sentences draw them.

    Args:
        content: A lexicon file as read by `read_lexicon`.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.names: Table[str] = zipf_table(content["names"])
        self.nouns = {
            noun_class: [
                read_noun(entry, noun_class=noun_class, bare=noun_class in content["bare"])
                for entry in listed
            ]
            for noun_class, listed in content["nouns"].items()
        }
        self._slots: dict[tuple[str, ...], Slot] = {}
        self.adjectives = [read_adjective(entry) for entry in content["adjectives"]]
        self.adjectives_of = {name: self._adjectives(name) for name in self.nouns}
        self.gradable_of = {name: self._adjectives(name, gradable=True) for name in self.nouns}
        self.passing_of = {
            name: self._adjectives(name, passing=True) for name in ("person", "animal")
        }
        self.adverbs = {
            kind: [read_adverb(entry) for entry in listed]
            for kind, listed in content["adverbs"].items()
        }
        self.adverb_tables = {kind: zipf_table(listed) for kind, listed in self.adverbs.items()}
        self.degrees = self.adverb_tables["degree"]
        self.time = {
            tense: zipf_table([adverb for adverb in self.adverbs["time"] if tense in adverb.tenses])
            for tense in ("present", "perfect", "modal")
        }
        prepositions = {
            kind: [
                Preposition(
                    english=tuple(entry["en"].split()),
                    german=entry["de"],
                    case=german.CASES[entry["case"]],
                    slot=self.slot(tuple(entry["of"])),
                )
                for entry in listed
            ]
            for kind, listed in content["prepositions"].items()
        }
        self.places = zipf_table(prepositions["place"])
        self.causes = zipf_table(prepositions["cause"])
        self.companions = zipf_table(
            [noun for name in ("animal", "person") for noun in self.nouns[name] if noun.relation]
        )
        self.verbs = VerbTables(
            content["verbs"],
            slot=self.slot,
            prepositions=prepositions,
            classes=tuple(name for name in self.nouns if name != "cause"),
        )

    def slot(self, classes: tuple[str, ...]) -> Slot:
        """The slot for nouns of these classes, each class with its own Zipf weights."""
        if classes not in self._slots:
            weights: dict[Noun, float] = {}
            for name in classes:
                weights |= zipf(self.nouns[name])
            self._slots[classes] = Slot(Table(weights), classes)
        return self._slots[classes]

    def _adjectives(
        self, noun_class: str, *, gradable: bool = False, passing: bool = False
    ) -> Table[Adjective]:
        """The adjectives that fit a noun of the class; `gradable` and `passing` demand as much."""
        return zipf_table(
            [
                adjective
                for adjective in self.adjectives
                if noun_class in adjective.classes
                and adjective.gradable >= gradable
                and adjective.passing >= passing
            ]
        )
