"""TER with the numbers of sacreBLEU in a small part of its time.

TER (Snover et al. 2006) is edit distance after greedy shifts of word blocks. sacreBLEU computes a
full distance for each shift it considers, half a second for one bad translation of 70 words. Here
a bit-parallel edit distance (Myers 1999, in the form of Hyyro 2003) bounds what each shift can gain
and only those that could be the best are measured by sacreBLEU. The candidates, their order and
their limits, hence the score, stay the same.
"""

from collections.abc import Iterator
from typing import Any

from sacrebleu.metrics.lib_ter import BeamEditDistance, trace_to_alignment
from sacrebleu.metrics.ter import TER

# The limits of Tercom and of sacreBLEU (`sacrebleu.metrics.lib_ter`).
MAX_SHIFT_SIZE = 10
MAX_SHIFT_DISTANCE = 50
MAX_SHIFT_CANDIDATES = 1000

_FLIP = str.maketrans("id", "di")

# A shift, the preferred one largest: gain in edits, length, -start, -target, the words after it.
_Shift = tuple[int, int, int, int, list[str]]


class FastTER(TER):
    """sacreBLEU's TER, same options, scores and signature, with the faster search for shifts."""

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: dict[str, Any]
    ) -> list[float]:
        """Returns the least number of edits and the mean reference length of one sentence."""
        references = ref_kwargs["ref_words"]
        num_edits = min(count_edits(hypothesis.split(), words) for words in references)
        return [num_edits, sum(map(len, references)) / len(references)]


def count_edits(hypothesis: list[str], reference: list[str]) -> int:
    """Counts the shifts, insertions, deletions and substitutions that make the reference."""
    if not reference:
        return len(hypothesis)
    search = _ShiftSearch(reference)
    words, num_shifts = hypothesis, 0
    while (shifted := search.best_shift(words)) is not None:
        words, num_shifts = shifted, num_shifts + 1
    return num_shifts + search.distance(words)


class _ShiftSearch:
    """Finds the shifts of one sentence, with the candidates tried so far as its budget."""

    def __init__(self, reference: list[str]) -> None:
        self._reference = reference
        self._exact = BeamEditDistance(reference)
        self._bound = _DistanceBound(reference)
        self._num_candidates = 0

    def distance(self, words: list[str]) -> int:
        """Returns sacreBLEU's edit distance to the reference, without further shifts."""
        return int(self._exact(words)[0])

    def best_shift(self, words: list[str]) -> list[str] | None:
        """Returns the words after the shift that gains most, None where none gains.

        Ties go to the longest block, then the earliest start, then the earliest target.
        """
        before, trace = self._exact(words)
        # sacreBLEU traces reference from hypothesis; the alignment wants it the other way round.
        alignment = trace_to_alignment(trace.translate(_FLIP))
        candidates = []
        self._bound.start(words)
        for start, start_in_reference, length in _useful_blocks(words, self._reference, alignment):
            for target in _targets(start_in_reference, length, alignment[0]):
                shifted = _shift(words, start, length, target)
                gain = before - self._bound.after(min(start, target), shifted)
                candidates.append((gain, length, -start, -target, shifted))
            if self._num_candidates + len(candidates) >= MAX_SHIFT_CANDIDATES:
                return None
        self._num_candidates += len(candidates)
        return self._measure(candidates, before)

    def _measure(self, candidates: list[_Shift], before: int) -> list[str] | None:
        """Returns the best of the candidates, whose gains are still the most they can be."""
        best: _Shift | None = None
        for candidate in sorted(candidates, reverse=True):
            if candidate[0] <= 0 or (best is not None and candidate <= best):
                break
            measured = (before - self.distance(candidate[-1]), *candidate[1:])
            best = measured if best is None else max(best, measured)
        return best[-1] if best is not None and best[0] > 0 else None


class _DistanceBound:
    """Edit distance to one reference, each column of the matrix kept in two integers.

    sacreBLEU looks only near the diagonal, so its distance is this one or larger.
    """

    def __init__(self, reference: list[str]) -> None:
        self._positions: dict[str, int] = {}
        for index, word in enumerate(reference):
            self._positions[word] = self._positions.get(word, 0) | 1 << index
        self._all = (1 << len(reference)) - 1
        self._last = 1 << (len(reference) - 1)
        self._columns = [(self._all, 0, len(reference))]

    def start(self, words: list[str]) -> None:
        """Keeps the columns of `words`, from which shifted versions are then computed."""
        del self._columns[1:]
        for word in words:
            self._columns.append(self._advance([word], *self._columns[-1]))

    def after(self, num_kept: int, shifted: list[str]) -> int:
        """Returns the distance of `shifted`, whose first `num_kept` words are those of `start`."""
        return self._advance(shifted[num_kept:], *self._columns[num_kept])[2]

    def _advance(
        self, words: list[str], rises: int, falls: int, distance: int
    ) -> tuple[int, int, int]:
        for word in words:
            equal = self._positions.get(word, 0)
            diagonal = (((equal & rises) + rises) ^ rises) | equal
            right_rises = falls | (self._all & ~(diagonal | rises))
            right_falls = rises & diagonal
            distance += bool(right_rises & self._last) - bool(right_falls & self._last)
            right_rises = right_rises << 1 | 1
            vertical = equal | falls
            rises = (right_falls << 1 | ~(vertical | right_rises)) & self._all
            falls = right_rises & vertical & self._all
        return rises, falls, distance


def _useful_blocks(
    words: list[str], reference: list[str], alignment: tuple[dict[int, int], list[int], list[int]]
) -> Iterator[tuple[int, int, int]]:
    """Yields blocks (start, start in the reference, length) that match but do not lie right yet."""
    align, reference_errors, word_errors = alignment
    for start, start_in_reference, length in _equal_blocks(words, reference):
        if (
            any(word_errors[start : start + length])
            and any(reference_errors[start_in_reference : start_in_reference + length])
            and not start <= align[start_in_reference] < start + length
        ):
            yield start, start_in_reference, length


def _equal_blocks(words: list[str], reference: list[str]) -> Iterator[tuple[int, int, int]]:
    positions: dict[str, list[int]] = {}
    for index, word in enumerate(reference):
        positions.setdefault(word, []).append(index)
    for start, word in enumerate(words):
        for start_in_reference in positions.get(word, ()):
            if abs(start_in_reference - start) > MAX_SHIFT_DISTANCE:
                continue
            pairs = zip(words[start:], reference[start_in_reference:], strict=False)
            for length, (ours, theirs) in enumerate(pairs, start=1):
                if ours != theirs or length > MAX_SHIFT_SIZE:
                    break
                yield start, start_in_reference, length


def _targets(start_in_reference: int, length: int, align: dict[int, int]) -> Iterator[int]:
    """Yields where to put a block: behind what is aligned to it or to its left neighbour."""
    previous = -1
    for position in range(start_in_reference - 1, start_in_reference + length):
        if position >= 0 and position not in align:
            return
        target = align[position] + 1 if position >= 0 else 0
        if target != previous:
            yield target
        previous = target


def _shift(words: list[str], start: int, length: int, target: int) -> list[str]:
    """Moves the block of `length` words at `start` to `target`, an index before the move.

    A target inside the block moves it right by as many words, as in sacreBLEU.
    """
    block, end = words[start : start + length], start + length
    if target < start:
        return words[:target] + block + words[target:start] + words[end:]
    if target <= end:
        target += length
    return words[:start] + words[end:target] + block + words[target:]
