"""What a translator answers: a sentence and its translations."""

from __future__ import annotations

from dataclasses import dataclass

Links = tuple[tuple[int, int], ...]
"""Pairs (source unit, target unit), numbered from 0."""


@dataclass(frozen=True)
class ScoredText:
    """One translation of a sentence.

    Attributes:
        text: The translation, without a line break.
        tokens: Its ids, without special ids.
        score: What the search ranks by, `log_prob / length ** length_penalty`.
        log_prob: Natural logarithm of the model's probability.
        finished: False where the length limit ended it.
        alignment: Links between words or pieces (see `nmt.alignments`); None unless asked for.
    """

    text: str
    tokens: tuple[int, ...]
    score: float
    log_prob: float
    finished: bool
    alignment: Links | None = None


@dataclass(frozen=True)
class Translation:
    """The translations of one sentence.

    Attributes:
        source: The sentence as given.
        alternatives: At least one, best first.
    """

    source: str
    alternatives: tuple[ScoredText, ...]

    @property
    def text(self) -> str:
        """The best translation."""
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        """The score of the best translation."""
        return self.alternatives[0].score


BLANK = ScoredText(text="", tokens=(), score=0.0, log_prob=0.0, finished=True)


def pharaoh(links: Links) -> str:
    """Returns links as `0-0 2-1`: source-target, in the order of the target."""
    return " ".join(f"{source}-{target}" for source, target in links)
