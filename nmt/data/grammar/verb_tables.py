"""The verbs of a lexicon in tables: by length of the clause, class of subject, class of object."""

from collections.abc import Callable, Mapping
from typing import Any

from nmt.data.grammar import german, reading
from nmt.data.grammar.draw import Table, zipf_table, zipf_weights
from nmt.data.grammar.entries import Preposition, Slot, Verb

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
SHORTEST_CLAUSE = 2
LONG_CLAUSE = 8  # from so many words on, tables are the same and intransitive verbs rarer

Slots = Callable[[tuple[str, ...]], Slot]
_Weighted = list[tuple[Verb, float]]


class VerbTables:
    """All verbs, indexed by what a clause needs.

    Args:
        content: The `verbs` of a lexicon file, by frame.
        slot: Gives the slot of some noun classes.
        prepositions: The prepositions of the lexicon by kind.
        classes: Noun classes that can be subjects of `be`; people and animals among them.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        *,
        slot: Slots,
        prepositions: Mapping[str, list[Preposition]],
        classes: tuple[str, ...],
    ) -> None:
        self.by_frame = {
            frame: [_verb(entry, frame, slot, prepositions) for entry in listed]
            for frame, listed in content.items()
        }
        self.by_frame["copula"] = [
            reading.copula(slot(classes), passing=False),
            reading.copula(slot(("person", "animal")), passing=True),
        ]
        self.clausal = zipf_table(self.by_frame["clausal"])
        weighted = [
            (verb, FRAME_WEIGHTS[frame] * weight / sum(zipf_weights(len(listed))))
            for frame, listed in self.by_frame.items()
            if frame != "clausal"
            for verb, weight in zip(listed, zipf_weights(len(listed)), strict=True)
        ]
        actions = [pair for pair in weighted if pair[0].frame != "copula"]
        objects = [pair for pair in weighted if pair[0].frame != "ditransitive"]
        self._any = _by_length(weighted)
        self._action = _by_length(actions)
        self._with_place = _by_length([pair for pair in weighted if pair[0].place])
        self._of = {name: _by_length(_with_subject(weighted, name)) for name in classes}
        self._action_of = {name: _by_length(_with_subject(actions, name)) for name in classes}
        self._with_object = {name: _by_length(_with_object(objects, name)) for name in classes}

    def any(self, words: int) -> Table[Verb]:
        """Verbs for a clause of so many English words."""
        return self._any[min(max(words, SHORTEST_CLAUSE), LONG_CLAUSE)]

    def action(self, words: int) -> Table[Verb]:
        """The same without `be`."""
        return self._action[min(max(words, SHORTEST_CLAUSE), LONG_CLAUSE)]

    def of(self, noun_class: str, words: int) -> Table[Verb]:
        """Verbs whose subject may be of the class, in a clause of at least three words."""
        return self._of[noun_class][min(max(words, 3), LONG_CLAUSE)]

    def action_of(self, noun_class: str, words: int) -> Table[Verb]:
        """The same without `be`; people and animals only."""
        return self._action_of[noun_class][min(max(words, 3), LONG_CLAUSE)]

    def with_object(self, noun_class: str, words: int) -> Table[Verb] | None:
        """Verbs whose one object may be of the class, or None; the object counts as a word."""
        return self._with_object[noun_class].get(min(max(words, 3), LONG_CLAUSE))

    def with_place(self, words: int) -> Table[Verb]:
        """Verbs of something that happens at a place."""
        return self._with_place[min(max(words, SHORTEST_CLAUSE), LONG_CLAUSE)]


def _with_subject(weighted: _Weighted, noun_class: str) -> _Weighted:
    return [pair for pair in weighted if noun_class in pair[0].subject.classes]


def _with_object(weighted: _Weighted, noun_class: str) -> _Weighted:
    return [pair for pair in weighted if pair[0].object and noun_class in pair[0].object.classes]


def _by_length(weighted: _Weighted) -> dict[int, Table[Verb]]:
    """The verbs that fit each length; in long clauses intransitive ones are half as frequent."""
    tables = {}
    for words in range(SHORTEST_CLAUSE, LONG_CLAUSE + 1):
        fitting = [pair for pair in weighted if pair[0].least <= words]
        if fitting:
            halved = 0.5 if words == LONG_CLAUSE else 1.0
            weights = [
                weight * (halved if verb.frame == "intransitive" else 1.0)
                for verb, weight in fitting
            ]
            tables[words] = Table([verb for verb, _ in fitting], weights)
    return tables


def _verb(
    entry: Mapping[str, Any],
    frame: str,
    slot: Slots,
    prepositions: Mapping[str, list[Preposition]],
) -> Verb:
    classes = tuple(entry.get("of", ()))
    choices = None
    if frame == "locative":
        choices = zipf_table(_narrowed(prepositions["place"], classes, slot))
    elif frame == "motion":
        choices = zipf_table(_narrowed(prepositions["direction"], classes, slot))
    elif frame == "prepositional":
        words = tuple(entry["en"].split()[1:])
        case = german.CASES[entry["case"]]
        choices = zipf_table([Preposition(words, entry["prep"], case, slot(classes))])
    return reading.verb(
        entry,
        frame=frame,
        subject=slot(tuple(entry["subject"])),
        object_slot=slot(classes) if classes and frame not in ("locative", "motion") else None,
        prepositions=choices,
    )


def _narrowed(
    choices: list[Preposition], classes: tuple[str, ...], slot: Slots
) -> list[Preposition]:
    """The prepositions that go with some of the classes, with those classes only."""
    shared = [(choice, tuple(c for c in choice.slot.classes if c in classes)) for choice in choices]
    return [
        Preposition(choice.english, choice.german, choice.case, slot(names))
        for choice, names in shared
        if names
    ]
