"""The lexicon: found, read, checked and turned into tables ready to draw from."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

import nmt
from nmt.data.grammar import entries, german
from nmt.data.grammar.draw import Table, zipf_weights
from nmt.data.grammar.entries import Adjective, Adverb, Noun, Preposition, Slot, Verb

T = TypeVar("T")

# How often each frame is used in a clause with room for all of them.
FRAME_WEIGHTS = {
    "transitive": 0.42,
    "copula": 0.13,
    "intransitive": 0.13,
    "ditransitive": 0.09,
    "motion": 0.07,
    "dative": 0.06,
    "prepositional": 0.06,
    "locative": 0.06,
}
LONG_CLAUSE = 8  # from so many words on, intransitive verbs are half as frequent


def lexicon_path(name: str) -> Path:
    """Where the YAML file of a lexicon lies: inside the installed package, else the repository.

    Raises:
        ValueError: There is no such file.
    """
    package = Path(nmt.__file__).resolve().parent
    places = (package / "_data" / "grammar", package.parent / "data" / "grammar")
    for place in places:
        path = place / f"{name}.yaml"
        if path.is_file():
            return path
    known = sorted({path.stem for place in places for path in place.glob("*.yaml")})
    raise ValueError(f"there is no lexicon {name!r}: choose one of {', '.join(known) or 'none'}")


def read_lexicon(name: str) -> dict[str, Any]:
    """The content of a lexicon file; one with `extends` adds its words to those of another."""
    with lexicon_path(name).open(encoding="utf-8") as file:
        content: dict[str, Any] = yaml.load(
            file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
    base = content.pop("extends", None)
    if base is None:
        return content
    merged: dict[str, Any] = _merged(read_lexicon(base), content)
    return merged


def _merged(base: Any, extension: Any) -> Any:
    if isinstance(base, Mapping):
        keys = list(base) + [key for key in extension if key not in base]
        return {
            key: _merged(base[key], extension[key])
            if key in base and key in extension
            else base.get(key, extension.get(key))
            for key in keys
        }
    return list(base) + list(extension)


@lru_cache(maxsize=4)
def load_lexicon(name: str) -> "Lexicon":
    """The lexicon of that name, read and inflected once per process."""
    return Lexicon(read_lexicon(name))


class Lexicon:
    """All words, and the distributions from which sentences draw them.

    Args:
        content: A lexicon file as read by `read_lexicon`.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        bare = set(content["bare"])
        self.names: Table[str] = Table(content["names"], zipf_weights(len(content["names"])))
        self.nouns: dict[str, list[Noun]] = {
            noun_class: [
                entries.noun(entry, noun_class=noun_class, bare=noun_class in bare)
                for entry in listed
            ]
            for noun_class, listed in content["nouns"].items()
        }
        self._slots: dict[tuple[str, ...], Slot] = {}
        self.adjectives: list[Adjective] = [
            entries.adjective(entry) for entry in content["adjectives"]
        ]
        self.adjectives_of = {name: self._adjectives(name, gradable=False) for name in self.nouns}
        self.gradable_of = {name: self._adjectives(name, gradable=True) for name in self.nouns}
        self.adverbs: dict[str, list[Adverb]] = {
            kind: [entries.adverb(entry) for entry in listed]
            for kind, listed in content["adverbs"].items()
        }
        self.adverb_tables = {kind: _zipf(listed) for kind, listed in self.adverbs.items()}
        self.degrees = self.adverb_tables["degree"]
        self.time = {
            tense: _zipf([adverb for adverb in self.adverbs["time"] if tense in adverb.tenses])
            for tense in ("present", "perfect", "modal")
        }
        self.prepositions: dict[str, list[Preposition]] = {
            kind: [self._preposition(entry) for entry in listed]
            for kind, listed in content["prepositions"].items()
        }
        self.places = _zipf(self.prepositions["place"])
        self.causes = _zipf(self.prepositions["cause"])
        self.companions: Table[Noun] = _zipf(
            [noun for name in ("animal", "person") for noun in self.nouns[name] if noun.relation]
        )
        self._index_verbs(content["verbs"])

    def slot(self, classes: tuple[str, ...]) -> Slot:
        """The slot for nouns of these classes, each class with its own Zipf weights."""
        if classes not in self._slots:
            for name in classes:
                if name not in self.nouns:
                    raise ValueError(
                        f"the lexicon has no noun class {name!r}: add it or correct the name"
                    )
            nouns = [noun for name in classes for noun in self.nouns[name]]
            weights = [weight for name in classes for weight in zipf_weights(len(self.nouns[name]))]
            self._slots[classes] = Slot(Table(nouns, weights), classes)
        return self._slots[classes]

    def verbs_for(self, words: int) -> Table[Verb]:
        """The verbs that fit a clause of so many English words, 2 at least."""
        return self._by_size[min(words, LONG_CLAUSE)]

    def _adjectives(self, noun_class: str, *, gradable: bool) -> Table[Adjective]:
        fitting = [
            adjective
            for adjective in self.adjectives
            if noun_class in adjective.classes and (adjective.gradable or not gradable)
        ]
        return _zipf(fitting)

    def _preposition(self, entry: Mapping[str, Any], classes: tuple[str, ...] = ()) -> Preposition:
        return Preposition(
            english=tuple(entry["en"].split()),
            german=entry["de"],
            case=german.CASES[entry["case"]],
            slot=self.slot(classes or tuple(entry["of"])),
        )

    def _index_verbs(self, content: Mapping[str, Any]) -> None:
        self.verbs: dict[str, list[Verb]] = {
            frame: [self._verb(entry, frame) for entry in listed]
            for frame, listed in content.items()
        }
        described = tuple(name for name in self.nouns if name != "cause")
        self.copula = entries.copula(self.slot(described))
        self.verbs["copula"] = [self.copula]
        self.clausal = _zipf(self.verbs["clausal"])
        weighted = [
            (verb, FRAME_WEIGHTS[frame] * weight / sum(zipf_weights(len(listed))))
            for frame, listed in self.verbs.items()
            if frame != "clausal"
            for verb, weight in zip(listed, zipf_weights(len(listed)), strict=True)
        ]
        self.actions_by_size = {
            size: _fitting([(v, w) for v, w in weighted if v.frame != "copula"], size)
            for size in range(2, LONG_CLAUSE + 1)
        }
        self._by_size = {size: _fitting(weighted, size) for size in range(2, LONG_CLAUSE + 1)}
        #: Verbs by the class of their subject and the words of the clause (capped).
        self.with_subject = {
            (name, size): _fitting([(v, w) for v, w in weighted if name in v.subject.classes], size)
            for name in described
            for size in range(3, LONG_CLAUSE + 1)
        }
        #: The same without the copula, for a second verb phrase with the subject of the first.
        self.actions = {
            (name, size): _fitting(
                [(v, w) for v, w in weighted if name in v.subject.classes and v.frame != "copula"],
                size,
            )
            for name in ("person", "animal")
            for size in range(3, LONG_CLAUSE + 1)
        }
        #: Verbs by the class of their object; ditransitive verbs stand aside.
        objects = [(v, w) for v, w in weighted if v.object and v.frame != "ditransitive"]
        by_object = {
            name: [(v, w) for v, w in objects if v.object and name in v.object.classes]
            for name in described
        }
        self.with_object = {
            (name, size): _fitting(listed, size)
            for name, listed in by_object.items()
            for size in range(3, LONG_CLAUSE + 1)
            if any(verb.least <= size for verb, _ in listed)
        }
        self.with_place = {
            size: _fitting([(v, w) for v, w in weighted if v.place], size)
            for size in range(2, LONG_CLAUSE + 1)
        }

    def _verb(self, entry: Mapping[str, Any], frame: str) -> Verb:
        classes = tuple(entry.get("of", ()))
        prepositions = None
        if frame in ("locative", "motion"):
            choices = self.prepositions["place" if frame == "locative" else "direction"]
            shared = [
                (choice, tuple(name for name in choice.slot.classes if name in classes))
                for choice in choices
            ]
            prepositions = _zipf(
                [
                    Preposition(choice.english, choice.german, choice.case, self.slot(names))
                    for choice, names in shared
                    if names
                ]
            )
        elif frame == "prepositional":
            word = entry["en"].split()[1]
            governed = {"en": word, "de": entry["prep"], "case": entry["case"]}
            prepositions = _zipf([self._preposition(governed, classes)])
        objects = self.slot(classes) if classes and frame not in ("locative", "motion") else None
        return entries.verb(
            entry,
            frame=frame,
            subject=self.slot(tuple(entry["subject"])),
            object_slot=objects,
            prepositions=prepositions,
        )


def _zipf(items: list[T]) -> Table[T]:
    return Table(items, zipf_weights(len(items)))


def _fitting(weighted: list[tuple[Verb, float]], size: int) -> Table[Verb]:
    """The verbs that need at most `size` words; in long clauses few intransitive ones."""
    fitting = [
        (verb, weight / 2 if size >= LONG_CLAUSE and verb.frame == "intransitive" else weight)
        for verb, weight in weighted
        if verb.least <= size
    ]
    return Table([verb for verb, _ in fitting], [weight for _, weight in fitting])
