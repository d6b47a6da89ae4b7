"""Drops pairs that are no translations of text, and counts them by rule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from opendocs.alignment import RawPair
from opendocs.markup import HOLE
from opendocs.sentences import sentences

MAX_WORDS = 150

_ENGLISH_WORDS = """
    the of and to is that for this with are be you can not which from if by or it on when as have
    has your at
"""
_GERMAN_WORDS = """
    der die das und ist den zu von mit für ein eine nicht werden wird auf sie wenn im des dem einen
    einer oder als sind es diese dieser zum zur kann können auch bei aus nach dass sich wurde dieses
    diesen
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_GERMAN = frozenset(_GERMAN_WORDS.split())
_WORD = re.compile(r"[\"'“”„»«‚‘’(\[]*[^\W\d_][\w'’/-]*(?<!_)[\"'“”„»«‘’)\],.;:!?…]*$")
_CODE = re.compile(
    r"[{}|]|%[\w.@-]*[\w@]|[$%]\[|\$[\w(@{?]|;\s*$|=>|==|&&|::|\w\(\w+,|#include|</|/>|<\w+>|^\s*[#$>%]\s|^-{1,2}\w|"
    r"\.\.\.\]|^\S+\(\)?$|\\\w|^\W*\[|\w_\w+_\w|@\w+@|--\w+[ =]--|&\w+;|\(\w*_\w*\)|//|<<|>>"
)
_NUMBERING = re.compile(r"(?:\d+(?:\.\d+)*\.?|[A-Z]\.(?:\d+\.)*|[•*·‒–—―-])\s+(?=\S)")
_CAPTIONS = (
    re.compile(r"(?:Figure|Table|Example|Chapter|Appendix)\s+[\dA-Z][\d.]*[.:]?\s+(?=\S)"),
    re.compile(r"(?:Abbildung|Tabelle|Beispiel|Kapitel|Anhang)\s+[\dA-Z][\d.]*[.:]?\s+(?=\S)"),
)


@dataclass(frozen=True)
class Pair:
    """A clean pair.

    Attributes:
        source: Name of the source, such as `gimp`.
        document: Name of the document in it.
        english: Plain text.
        german: Its translation.
    """

    source: str
    document: str
    english: str
    german: str

    @property
    def words(self) -> int:
        """English words."""
        return len(self.english.split())

    @property
    def is_sentence(self) -> bool:
        """Whether both sides are one sentence (or a heading)."""
        return len(sentences(self.english)) == 1 == len(sentences(self.german))


def letters(text: str) -> str:
    """Returns the letters alone, in lower case: what duplicates have in common."""
    return re.sub(r"[\W\d_]+", "", text.lower())


def clean(raw_pairs: Iterable[RawPair], *, source: str, removed: Counter[str]) -> Iterator[Pair]:
    """Yields the usable pairs, without numbering and bullets.

    Args:
        raw_pairs: Aligned text.
        source: Name of the source.
        removed: Counts each dropped pair under the first rule that drops it.
    """
    for raw in raw_pairs:
        english, german = _without_labels(raw.english, raw.german)
        reason = rejection(english, german, min_words=5 if raw.is_message else 2)
        if reason is None:
            yield Pair(source, raw.document, english, german)
        else:
            removed[reason] += 1


def rejection(english: str, german: str, *, min_words: int = 1) -> str | None:
    """Returns the first rule that a pair breaks; None for a good one.

    Args:
        english: Plain text.
        german: Plain text.
        min_words: Fewest English words.
    """
    return next((name for name, bad in _RULES.items() if bad(english, german, min_words)), None)


def _without_labels(english: str, german: str) -> tuple[str, str]:
    """Removes numbers of sections and figures, and bullets, that both sides begin with."""
    for english_label, german_label in ((_NUMBERING, _NUMBERING), _CAPTIONS):
        first, second = english_label.match(english), german_label.match(german)
        if first and second:
            english, german = english[first.end() :], german[second.end() :]
    return english, german


def _words(text: str) -> list[str]:
    """Returns the words in lower case, without digits and punctuation."""
    return re.sub(r"[\W\d_]+", " ", text.lower()).split()


def _lengths_differ(english: str, german: str, min_words: int) -> bool:
    """Says whether one side is far longer, in words or characters; short texts may be."""
    a, b = len(english.split()), len(german.split())
    if max(a, b) <= 5:
        return not 0.25 <= len(german) / len(english) <= 4
    return not (0.4 <= b / a <= 2.5 and 0.55 <= len(german) / len(english) <= 2.2)


def _mostly_other_characters(text: str) -> bool:
    """Says whether less than 60 % of a text are letters, or of its tokens words."""
    tokens = text.split()
    characters = "".join(tokens)
    return sum(map(str.isalpha, characters)) < 0.6 * len(characters) or sum(
        map(bool, map(_WORD.match, tokens))
    ) < 0.6 * len(tokens)


def _wrong_language(english: str, german: str, min_words: int) -> bool:
    """Says whether the function words are those of the other language, or of none."""
    counts = []
    for text, own, other in (
        (english, _ENGLISH, _GERMAN),
        (german, _GERMAN, _ENGLISH),
    ):
        words = _words(text)
        mine, others = sum(word in own for word in words), sum(word in other for word in words)
        counts.append(others > mine or (len(words) >= 8 and mine == 0))
    return any(counts)


def _untranslated(english: str, german: str, min_words: int) -> bool:
    """Says whether most longer German words are words of the English side."""
    known = set(_words(english))
    long_words = [word for word in _words(german) if len(word) > 3]
    copied = sum(word in known for word in long_words)
    return len(german.split()) > 4 and copied > 0.6 * max(len(long_words), 1)


def _numbers_differ(english: str, german: str, min_words: int) -> bool:
    """Says whether most numbers of two digits or more are on one side alone."""
    a, b = (
        set(re.findall(r"\d{2,}", re.sub(r"(?<=\d)[., ](?=\d)", "", text)))
        for text in (english, german)
    )
    return len(a & b) < 0.5 * len(a | b)


_Rule = Callable[[str, str, int], bool]
_RULES: dict[str, _Rule] = {
    "empty": lambda a, b, n: not a.strip() or not b.strip(),
    "something missing in the text": lambda a, b, n: HOLE in a + b,
    "a label: one word, or under five of a program": lambda a, b, n: len(a.split()) < n,
    "too long": lambda a, b, n: max(len(a.split()), len(b.split())) > MAX_WORDS,
    "broken characters": lambda a, b, n: "\ufffd" in a + b,
    "both sides are the same": lambda a, b, n: letters(a) == letters(b),
    "hardly any letters": lambda a, b, n: min(len(letters(a)), len(letters(b))) < 3,
    "lengths too different": _lengths_differ,
    "code or variables": lambda a, b, n: bool(_CODE.search(a) or _CODE.search(b)),
    "a bracket is not closed": lambda a, b, n: any(s.count("(") > s.count(")") for s in (a, b)),
    "mostly no words": lambda a, b, n: _mostly_other_characters(a) or _mostly_other_characters(b),
    "a word of over 60 characters": lambda a, b, n: max(map(len, (a + " " + b).split())) > 60,
    "wrong language": _wrong_language,
    "hardly translated": _untranslated,
    "different numbers": _numbers_differ,
    "different numbers of sentences": lambda a, b, n: (
        abs(len(sentences(a)) - len(sentences(b))) > 2
    ),
}
