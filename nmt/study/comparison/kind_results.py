"""Inputs of one sentence and of several, scored apart, and what they are from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nmt.evaluation.results import TranslatedSentence
from nmt.study.comparison.probe_results import range_entry
from nmt.study.comparison.split_scores import SplitScores, score_sentences

NUM_SOURCES = 6  # that a length range names; the others are counted


def kind_results(
    sentences: Mapping[str, Sequence[Sequence[TranslatedSentence]]], *, target_lang: str
) -> dict[str, Any] | None:
    """Scores the inputs of each kind by length; None where the corpus does not tell them apart.

    Args:
        sentences: The same sentences by the label of a system, then by seed.
        target_lang: Language code that decides BLEU's tokenizer.
    """
    first = next(iter(sentences.values()))[0]
    if any(sentence.kind is None for sentence in first):
        return None
    found = {}
    for kind in sorted({str(sentence.kind) for sentence in first}, reverse=True):
        places = [place for place, sentence in enumerate(first) if sentence.kind == kind]
        chosen = {
            label: [[run[place] for place in places] for run in runs]
            for label, runs in sentences.items()
        }
        scores = score_sentences(chosen, target_lang=target_lang)
        found[kind] = {
            "systems": {
                label: [range_entry(scores, label, each) for each in scores.ranges]
                for label in chosen
            },
            "sources": _sources(scores),
        }
    return found


def _sources(scores: SplitScores) -> list[dict[str, Any]]:
    """Counts the sentences of each length range by collection: a document's name up to its "/"."""
    rows = []
    for each in scores.ranges:
        names = [
            (scores.texts[place].document or "unknown").split("/")[0] for place in each.members
        ]
        counts = Counter(names).most_common()
        rows.append(
            {
                "range": each.label,
                "num_sentences": len(each.members),
                "largest": dict(counts[:NUM_SOURCES]),
                "num_others": len(counts[NUM_SOURCES:]),
            }
        )
    return rows
