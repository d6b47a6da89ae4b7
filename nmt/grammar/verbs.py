"""The verbs in tables for each need of a clause; tense, modality and negation in both languages.

The tense mapping, one to one: simple present = Präsens, present perfect = Perfekt (with `haben` or
`sein` as the German verb asks), modal + infinitive = Modalverb + Infinitiv. No other tense occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nmt.grammar import determiners, german
from nmt.grammar.determiners import CAN, MAY, MUST, SHOULD, WANT, Modal
from nmt.grammar.tokens import Draw, Table, Token, zipf, zipf_table
from nmt.grammar.words import (
    BE,
    DO,
    HAVE,
    Preposition,
    Slot,
    Verb,
    english_participle,
    third_person,
)

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
_LEAST_WORDS = {  # English words of a clause, without particles
    "intransitive": 2,
    "locative": 5,
    "transitive": 3,
    "dative": 3,
    "ditransitive": 4,
    "prepositional": 4,
    "motion": 5,
    "clausal": 2,
}
_PLACES = {"locative": "place", "motion": "direction"}  # their kind of prepositions
SHORTEST_CLAUSE = 2
LONG_CLAUSE = 8  # from so many words on, tables are the same and intransitive verbs rarer

Slots = Callable[[tuple[str, ...]], Slot]


class VerbTables:
    """All verbs, indexed by what a clause needs.

    Args:
        content: The `verbs` of a lexicon file, by frame.
        slot: Gives the slot of some noun classes.
        prepositions: The prepositions of the lexicon by kind.
        classes: Noun classes that can be subjects of `be`; people and animals among them.

    Attributes:
        any: All but those that govern a that-clause (`clausal`).
        action: The same without `be`.
        of, action_of: By the class of the subject.
        with_object: By the class of the one object, which counts as a word.
        with_place: Something that happens at a place.
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
            _copula(slot(classes), passing=False),
            _copula(slot(("person", "animal")), passing=True),
        ]
        self.clausal = zipf_table(self.by_frame["clausal"])
        weights = {
            verb: FRAME_WEIGHTS[frame] * weight / sum(zipf(listed).values())
            for frame, listed in self.by_frame.items()
            if frame != "clausal"
            for verb, weight in zipf(listed).items()
        }

        def by_length(verbs: Iterable[Verb], *, least: int = SHORTEST_CLAUSE) -> VerbsByLength:
            return VerbsByLength({verb: weights[verb] for verb in verbs}, least)

        def about(verbs: Iterable[Verb], noun_class: str) -> VerbsByLength:
            return by_length((v for v in verbs if noun_class in v.subject.classes), least=3)

        actions = [verb for verb in weights if verb.frame != "copula"]
        objects = [verb for verb in weights if verb.object and verb.frame != "ditransitive"]
        self.any = by_length(weights)
        self.action = by_length(actions)
        self.with_place = by_length(verb for verb in weights if verb.place)
        self.of = {name: about(weights, name) for name in classes}
        self.action_of = {name: about(actions, name) for name in classes}
        self.with_object = {
            name: by_length((v for v in objects if v.object and name in v.object.classes), least=3)
            for name in classes
        }


class VerbsByLength:
    """Tables of the verbs that fit into a clause, for each number of English words.

    Args:
        weights: All verbs; in long clauses intransitive ones are half as frequent.
        least: Shorter clauses get the table for so many words.
    """

    def __init__(self, weights: Mapping[Verb, float], least: int) -> None:
        self._least = least
        self._tables = {}
        for words in range(least, LONG_CLAUSE + 1):
            rarer = 0.5 if words == LONG_CLAUSE else 1.0
            fitting = {
                verb: weight * (rarer if verb.frame == "intransitive" else 1.0)
                for verb, weight in weights.items()
                if verb.least <= words
            }
            if fitting:
                self._tables[words] = Table(fitting)

    def __contains__(self, words: int) -> bool:
        return self._length(words) in self._tables

    def __call__(self, words: int) -> Table[Verb]:
        """The verbs for a clause of so many English words."""
        return self._tables[self._length(words)]

    def _length(self, words: int) -> int:
        return min(max(words, self._least), LONG_CLAUSE)


def _verb(
    entry: Mapping[str, Any], frame: str, slot: Slots, places: Mapping[str, list[Preposition]]
) -> Verb:
    """A verb from its lexicon line, in one of the frames."""
    base, *particles = entry["en"].split()
    prefix, _, stem = entry["de"].rpartition("|")
    classes = tuple(entry.get("of", ()))
    objects = slot(classes) if classes else None
    prepositions = None
    if frame == "prepositional":
        case = german.CASES[entry["case"]]
        prepositions = [Preposition(tuple(particles), entry["prep"], case, slot(classes))]
        particles = []
    elif frame in _PLACES:
        prepositions = _narrowed(places[_PLACES[frame]], classes, slot)
        objects = None
    return Verb(
        english=(base, third_person(base), base),
        base=base,
        participle=entry.get("pp", english_participle(base)).split()[0],
        particles=tuple(particles),
        german=german.present_forms(stem, third=entry.get("er"), first=entry.get("ich")),
        infinitive=prefix + stem,
        german_participle=prefix + (entry.get("part") or german.participle_of(stem)),
        prefix=prefix,
        auxiliary=german.SEIN if entry.get("aux") == "sein" else german.HABEN,
        frame=frame,
        case=german.DATIVE if frame == "dative" else german.ACCUSATIVE,
        subject=slot(tuple(entry["subject"])),
        object=objects,
        prepositions=zipf_table(prepositions) if prepositions else None,
        state=entry.get("kind") == "state",
        negatable=entry.get("negatable", True),
        pronouns=entry.get("pronouns", True),
        manner="manner" in entry.get("with", ()),
        place="place" in entry.get("with", ()),
        least=_LEAST_WORDS[frame] + len(particles),
    )


def _copula(subject: Slot, *, passing: bool) -> Verb:
    """`be` / `sein` with a predicative adjective: the one verb that the lexicon does not list."""
    return Verb(
        english=BE,
        base="be",
        participle="been",
        german=german.SEIN,
        infinitive="sein",
        german_participle="gewesen",
        auxiliary=german.SEIN,
        frame="copula",
        case=german.NOMINATIVE,
        subject=subject,
        passing=passing,
        least=3,
    )


def _narrowed(
    choices: list[Preposition], classes: tuple[str, ...], slot: Slots
) -> list[Preposition]:
    """The prepositions that go with some of the classes, with those classes only."""
    shared = [(choice, tuple(c for c in choice.slot.classes if c in classes)) for choice in choices]
    return [replace(choice, slot=slot(names)) for choice, names in shared if names]


@dataclass(frozen=True, slots=True, eq=False)
class Tense:
    """One way to put a verb; `extra` counts English words beside the verb itself."""

    name: str  # present, perfect or modal
    extra: int
    modal: Modal | None = None
    negated: bool = False


PRESENT = Tense("present", 0)
PERFECT = Tense("perfect", 1)
NOT_PRESENT = Tense("present", 2, negated=True)  # does not see
NOT_PERFECT = Tense("perfect", 2, negated=True)  # has not seen
DO_PRESENT = Tense("present", 1)  # does ... see
IS_NOT = Tense("present", 1, negated=True)  # the copula has no do-support
_PRESENT = {PRESENT: 52.0}
_PERFECT = {PERFECT: 18.0}
_NEGATED = {NOT_PRESENT: 9.0}
_NOT_PERFECT = {NOT_PERFECT: 3.0}
_MODALS = {
    Tense("modal", 1, CAN): 6.0,
    Tense("modal", 1, MUST): 5.0,
    Tense("modal", 2, WANT): 4.0,
    Tense("modal", 1, SHOULD): 2.5,
    Tense("modal", 1, MAY): 2.0,
}
_NOT_MODALS = {
    Tense("modal", 1, CAN, negated=True): 2.0,
    Tense("modal", 4, WANT, negated=True): 1.5,
    Tense("modal", 2, SHOULD, negated=True): 1.0,
    Tense("modal", 2, MAY, negated=True): 0.8,
}
_GROUPS = {
    "any": _PRESENT | _PERFECT | _MODALS | _NEGATED | _NOT_PERFECT | _NOT_MODALS,
    "positive": _PRESENT | _PERFECT | _MODALS,
    "question": {
        DO_PRESENT: 52.0,
        **_PERFECT,
        **{tense: weight for tense, weight in _MODALS.items() if tense.modal is not WANT},
        Tense("modal", 3, WANT): 4.0,
    },
    "timeless": _PRESENT | _MODALS,  # beside a temporal clause
    "plain": _PRESENT,
    "state": _PRESENT | _NEGATED,
    "clausal": _PRESENT | _PERFECT | _NEGATED,
    "copula": _PRESENT | {IS_NOT: 10.0},
    "passing": _PRESENT | {PERFECT: 12.0, IS_NOT: 10.0, NOT_PERFECT: 3.0},
}
_MOST_EXTRA = 4
_TABLES = {
    (name, room): Table({tense: group[tense] for tense in group if tense.extra <= room})
    for name, group in _GROUPS.items()
    for room in range(1, _MOST_EXTRA + 1)
}


def draw_tense(draw: Draw, verb: Verb, *, group: str, room: int) -> Tense:
    """A tense for the verb out of a group, with at most `room` English words beside the verb."""
    if group == "question" and (verb.state or room <= 0 or verb.frame == "copula"):
        return PRESENT if verb.frame == "copula" else DO_PRESENT
    if group == "plain" or room <= 0:
        return PRESENT
    if group in ("any", "positive", "timeless"):
        negative = group == "any" and verb.negatable
        if verb.state:
            group = "state" if negative else "plain"
        elif verb.frame == "copula":
            group = ("passing" if verb.passing else "copula") if negative else "plain"
        elif verb.frame == "clausal":
            group = "clausal" if negative else "plain"
    return draw.pick(_TABLES[group, min(room, _MOST_EXTRA)])


@dataclass(slots=True)
class VerbGroup:
    """The words of a verb.

    Attributes:
        auxiliary: English words between subject and adverb, `not` among them.
        main: English words after the adverb.
        finite: The German finite verb of a main clause.
        bracket: German words that close a main clause: prefix, participle or infinitive.
        last: German words that close a subordinate clause: the bracket and the finite verb.
        negation: Link key of `not`, 0 without a word of its own for `nicht`.
    """

    auxiliary: list[Token]
    main: list[Token]
    finite: Token
    bracket: list[Token]
    last: list[Token]
    negation: int


def verb_group(
    draw: Draw, verb: Verb, tense: Tense, *, agreement: int, question: bool
) -> VerbGroup:
    """The verb in a tense, agreeing with its subject; a question needs do-support as `not` does."""
    key = draw.key()
    particles = [(word, key) for word in verb.particles]
    negation = draw.key() if tense.negated else 0
    nots = [("not", negation)] if negation else []
    if tense.name == "present":
        finite = (verb.german[agreement], key)
        bracket = [(verb.prefix, key)] if verb.prefix else []
        last = [(verb.prefix + verb.german[agreement], key)]
        auxiliary, main = [], [(verb.english[agreement], key), *particles]
        if verb.frame == "copula":
            auxiliary, main = [*main, *nots], []
        elif negation or question:
            auxiliary, main = [(DO[agreement], -key), *nots], [(verb.base, key), *particles]
        return VerbGroup(auxiliary, main, finite, bracket, last, negation)
    helper = draw.key()
    if tense.modal is None:
        finite = (verb.auxiliary[agreement], helper)
        bracket = [(verb.german_participle, key)]
        auxiliary = [(HAVE[agreement], helper), *nots]
        main = [(verb.participle, key), *particles]
        return VerbGroup(auxiliary, main, finite, bracket, [*bracket, finite], negation)
    modal = tense.modal
    finite = (modal.german[agreement], helper)
    bracket = [(verb.infinitive, key)]
    auxiliary = [(modal.english[agreement], helper), *nots]
    main = [(verb.base, key), *particles]
    if modal is WANT:
        want = modal.english[determiners.PLURAL if negation or question else agreement]
        auxiliary = [(DO[agreement], -helper), *nots] if negation or question else []
        main = [(want, helper), ("to", -key), *main]
    elif modal is CAN and negation:
        negation = -helper  # `cannot` holds both
        auxiliary = [("cannot", helper)]
    return VerbGroup(auxiliary, main, finite, bracket, [*bracket, finite], negation)
