"""Tense, modality and negation: the finite verb and what belongs to it, in both languages.

The tense mapping, one to one: simple present = Präsens, present perfect = Perfekt (with `haben` or
`sein` as the German verb asks), modal + infinitive = Modalverb + Infinitiv. No other tense occurs.
"""

from dataclasses import dataclass

from nmt.data.grammar import determiners, english
from nmt.data.grammar.determiners import CAN, MAY, MUST, SHOULD, WANT, Modal
from nmt.data.grammar.draw import Draw, Table
from nmt.data.grammar.entries import Verb
from nmt.data.grammar.tokens import Token


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
_MODALS = [
    (Tense("modal", 1, CAN), 6.0),
    (Tense("modal", 1, MUST), 5.0),
    (Tense("modal", 2, WANT), 4.0),
    (Tense("modal", 1, SHOULD), 2.5),
    (Tense("modal", 1, MAY), 2.0),
]
_NOT_MODALS = [
    (Tense("modal", 1, CAN, True), 2.0),
    (Tense("modal", 4, WANT, True), 1.5),
    (Tense("modal", 2, SHOULD, True), 1.0),
    (Tense("modal", 2, MAY, True), 0.8),
]
_PRESENT = [(PRESENT, 52.0)]
_PERFECT = [(PERFECT, 18.0)]
_NEGATED = [(NOT_PRESENT, 9.0)]
_NOT_PERFECT = [(NOT_PERFECT, 3.0)]
_GROUPS = {
    "any": _PRESENT + _PERFECT + _MODALS + _NEGATED + _NOT_PERFECT + _NOT_MODALS,
    "positive": _PRESENT + _PERFECT + _MODALS,
    "question": [
        (DO_PRESENT, 52.0),
        *_PERFECT,
        *[(tense, weight) for tense, weight in _MODALS if tense.modal is not WANT],
        (Tense("modal", 3, WANT), 4.0),
    ],
    "timeless": _PRESENT + _MODALS,  # beside a temporal clause
    "plain": _PRESENT,
    "state": _PRESENT + _NEGATED,
    "clausal": _PRESENT + _PERFECT + _NEGATED,
    "copula": [*_PRESENT, (IS_NOT, 10.0)],
    "passing": [*_PRESENT, (PERFECT, 12.0), (IS_NOT, 10.0), (NOT_PERFECT, 3.0)],
}
_MOST_EXTRA = 4
_TABLES = {
    (name, room): Table(
        [tense for tense, _ in pairs if tense.extra <= room],
        [weight for tense, weight in pairs if tense.extra <= room],
    )
    for name, pairs in _GROUPS.items()
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
        if verb.frame == "copula":
            return VerbGroup(
                [(verb.english[agreement], key), *nots], [], finite, [], last, negation
            )
        if negation or question:
            auxiliary = [(english.DO[agreement], -key), *nots]
            return VerbGroup(
                auxiliary, [(verb.base, key), *particles], finite, bracket, last, negation
            )
        main = [(verb.english[agreement], key), *particles]
        return VerbGroup([], main, finite, bracket, last, negation)
    helper = draw.key()
    if tense.name == "perfect":
        finite = (verb.auxiliary[agreement], helper)
        bracket = [(verb.german_participle, key)]
        auxiliary = [(english.HAVE[agreement], helper), *nots]
        main = [(verb.participle, key), *particles]
        return VerbGroup(auxiliary, main, finite, bracket, [*bracket, finite], negation)
    assert tense.modal is not None
    modal = tense.modal
    finite = (modal.german[agreement], helper)
    bracket = [(verb.infinitive, key)]
    main = [(verb.base, key), *particles]
    if modal is WANT:
        want = modal.english[determiners.PLURAL if negation or question else agreement]
        auxiliary = [(english.DO[agreement], -helper), *nots] if negation or question else []
        main = [(want, helper), ("to", -key), *main]
    elif modal is CAN and negation:
        negation = -helper  # `cannot` holds both
        auxiliary = [("cannot", helper)]
    else:
        auxiliary = [(modal.english[agreement], helper), *nots]
    return VerbGroup(auxiliary, main, finite, bracket, [*bracket, finite], negation)
