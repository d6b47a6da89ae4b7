"""Divides pairs into training, validation and test data by document."""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nmt.evaluation.length import DEFAULT_EDGES
from opendocs.filters import Pair, letters, rejection
from opendocs.sentences import sentences

_DocumentKey = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class SplitRules:
    """How evaluation data are chosen.

    Attributes:
        test_share: Share of the pairs of each source whose documents are kept for testing.
        valid_share: The same for validation.
        largest_document: Documents with a larger share of their source are for training only.
        test_per_bucket: Most test pairs of each range of lengths, in English words.
        valid_per_bucket: The same for validation.
        per_document: Most pairs of one document in a range.
        known_5grams: Largest share of English 5-grams that occur in training data.
    """

    test_share: float = 0.12
    valid_share: float = 0.06
    largest_document: float = 0.04
    test_per_bucket: int = 300
    valid_per_bucket: int = 200
    per_document: int = 12
    known_5grams: float = 0.3


@dataclass(frozen=True)
class Splits:
    """The corpus.

    Attributes:
        train: Training pairs, in random order.
        valid: Validation pairs, in the order of their documents.
        test: Test pairs.
    """

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def split(pairs: Sequence[Pair], *, rules: SplitRules, removed: Counter[str]) -> Splits:
    """Divides clean pairs; no text of an evaluation document is in the training data.

    Args:
        pairs: In any order that is always the same.
        rules: How evaluation pairs are chosen.
        removed: Counts pairs that are left out, by reason.
    """
    split_of = _assign(pairs, rules)
    documents: dict[str, set[_DocumentKey]] = defaultdict(set)
    for pair in pairs:
        documents[letters(pair.english)].add((pair.source, pair.document))
    parts: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    for pair in _unique(pairs, removed):
        name = split_of[pair.source, pair.document]
        if name != "train" and len(documents[letters(pair.english)]) > 1:
            removed["evaluation: in several documents"] += 1
        else:
            parts[name].append(pair)
    train = _shuffled(_unique(_parts_of(parts["train"]), removed))
    unseen = _unseen(parts["valid"] + parts["test"], train, limit=rules.known_5grams)
    chosen = {}
    for name, most in (("valid", rules.valid_per_bucket), ("test", rules.test_per_bucket)):
        new = [pair for pair in parts[name] if pair in unseen]
        removed["evaluation: text or most 5-grams in training data"] += len(parts[name]) - len(new)
        chosen[name] = _stratified(new, per_bucket=most, per_document=rules.per_document)
        removed["evaluation: range of lengths or document full"] += len(new) - len(chosen[name])
    return Splits(train, chosen["valid"], chosen["test"])


def bucket(words: int) -> int:
    """Returns the number of the range of lengths, from 0: 1-10 words, 11-20, ... 71-80, 81+."""
    return bisect_left(DEFAULT_EDGES, words)


def _hash(*parts: str) -> int:
    """Returns a number that depends on nothing but the text."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8], "big")


def _assign(pairs: Iterable[Pair], rules: SplitRules) -> dict[_DocumentKey, str]:
    """Returns the split of each document, drawn by its hash until the shares are reached."""
    sizes = Counter((pair.source, pair.document) for pair in pairs)
    totals: Counter[str] = Counter()
    for (source, _), size in sizes.items():
        totals[source] += size
    used: Counter[tuple[str, str]] = Counter()
    result: dict[_DocumentKey, str] = {}
    for key in sorted(sizes, key=lambda key: _hash(*key)):
        source, size = key[0], sizes[key]
        result[key] = "train"
        if size > max(rules.largest_document * totals[source], 10):
            continue
        for name, share in (("test", rules.test_share), ("valid", rules.valid_share)):
            if used[source, name] + size <= share * totals[source]:
                result[key] = name
                used[source, name] += size
                break
    return result


def _unique(pairs: Iterable[Pair], removed: Counter[str]) -> Iterator[Pair]:
    """Yields the first pair of each English text, compared by letters alone."""
    seen: set[str] = set()
    for pair in pairs:
        key = letters(pair.english)
        if key in seen:
            removed["seen before"] += 1
        else:
            seen.add(key)
            yield pair


def _parts_of(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Splits half of the paragraphs, by hash, where the sentences of both sides match."""
    for pair in pairs:
        english, german = sentences(pair.english), sentences(pair.german)
        parts = list(zip(english, german, strict=False))
        if (
            1 < len(english) == len(german)
            and _hash(pair.english) % 2
            and not any(rejection(first, second) for first, second in parts)
        ):
            yield from (replace(pair, english=first, german=second) for first, second in parts)
        else:
            yield pair


def _shuffled(pairs: Iterable[Pair]) -> list[Pair]:
    """Returns the pairs in a random order that is always the same."""
    result = list(pairs)
    random.Random(1).shuffle(result)
    return result


def _unseen(pairs: Sequence[Pair], train: Sequence[Pair], *, limit: float) -> set[Pair]:
    """Returns the pairs whose text, either side or any sentence, training data do not hold."""
    known = {letters(side) for pair in train for side in (pair.english, pair.german)}
    grams = {pair: _five_grams(pair.english) for pair in pairs}
    wanted = set().union(*grams.values())
    known_grams = {gram for pair in train for gram in _five_grams(pair.english) if gram in wanted}
    result = set()
    for pair in pairs:
        texts = [pair.english, pair.german, *sentences(pair.english), *sentences(pair.german)]
        if any(letters(text) in known for text in texts):
            continue
        if len(grams[pair] & known_grams) <= limit * len(grams[pair]):
            result.add(pair)
    return result


def _five_grams(text: str) -> set[str]:
    """Returns the sequences of five words."""
    words = text.lower().split()
    return {" ".join(words[k : k + 5]) for k in range(len(words) - 4)}


def _stratified(pairs: Sequence[Pair], *, per_bucket: int, per_document: int) -> list[Pair]:
    """Draws pairs by hash, equally many of each length as far as there are, in document order."""
    in_bucket: Counter[int] = Counter()
    in_document: Counter[tuple[str, str, int]] = Counter()
    chosen = []
    for pair in sorted(pairs, key=lambda pair: _hash(pair.english)):
        number = bucket(pair.words)
        place = (pair.source, pair.document, number)
        if in_bucket[number] < per_bucket and in_document[place] < per_document:
            in_bucket[number] += 1
            in_document[place] += 1
            chosen.append(pair)
    positions = {pair: k for k, pair in enumerate(pairs)}
    return sorted(chosen, key=positions.__getitem__)
