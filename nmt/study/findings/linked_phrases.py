"""Does attention look at the right phrase? On real text, where only some words have a gold link.

A corpus may know which phrases of a pair belong together without knowing it of every word: verses
with Strong's numbers link about a third of their words. So there is no error rate; what is counted
is how often the source word that attention prefers lies in the linked phrase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nmt.study.findings.alignment import average, score_cells
from nmt.study.presentation import Results, Section, Table
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.study.measure import TrainedRun

Pairs = Sequence[tuple[int, int]]  # source word, target word, from 0
Floats = NDArray[np.float64]


def measure(run: TrainedRun) -> Mapping[str, Any]:
    """Counts the hits of each decoder layer, teacher-forced on the references.

    The layer is chosen on every other pair and scored on those between.

    Returns:
        linked_phrases: layer, num_links, precision, recall, and precision by chance: of a source
        word at random (uniform), and of the one at the same share of its sentence (diagonal).
        Nothing without a test set with links, or of a model without attention over words.
    """
    split = next((s for s in run.data.test_splits if run.column(s, "links") is not None), None)
    if split is None:
        return {}
    try:
        run.translator.attention("a", "a")
    except ValueError:
        return {}
    links = run.column(split, "links") or []
    found = run.translator.attentions(run.pairs(split), batch_tokens=run.batch_tokens)
    counts = np.array(
        [
            [hits(np.asarray(layer), [(i, j) for i, j in pair]) for layer in each.weights]
            for each, pair in zip(found, links, strict=True)
        ]
    )  # (pairs, layers, 5)
    layer = int(precision(counts[::2].sum(0)).argmax())
    chosen = counts[1::2, layer].sum(0)
    linked, hit, uniform, diagonal, words = chosen.tolist()
    return {
        "linked_phrases": {
            "split": split,
            "layer": layer,
            "num_links": int(linked),
            "precision": hit / linked,
            "recall": float(chosen[1] / max(1, words)),
            "uniform": uniform / linked,
            "diagonal": diagonal / linked,
        }
    }


def hits(weights: Floats, links: Pairs) -> list[float]:
    """Counts for one pair what precision, recall and chance are made of.

    Args:
        weights: (T', S') attention between words.
        links: Of some of the words.

    Returns:
        The target words that have a link; those of them that attention hits; what uniform weights
        and what the diagonal would hit; the linked pairs of words.
    """
    num_targets, num_sources = weights.shape
    phrases: dict[int, set[int]] = {}
    for source, target in links:
        if source < num_sources and target < num_targets:
            phrases.setdefault(target, set()).add(source)
    hit = sum(int(weights[target].argmax()) in phrase for target, phrase in phrases.items())
    uniform = sum(len(phrase) / num_sources for phrase in phrases.values())
    diagonal = sum(
        int((target + 0.5) * num_sources / num_targets) in phrase
        for target, phrase in phrases.items()
    )
    return [len(phrases), hit, uniform, diagonal, sum(map(len, phrases.values()))]


def precision(counts: Floats) -> Floats:
    """Returns the share of linked target words that were hit; counts as `hits` gives them."""
    shares: Floats = counts[..., 1] / np.maximum(counts[..., 0], 1)
    return shares


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Averages over seeds."""
    probed = comparison.probed("linked_phrases", "linked phrases", expected=[])
    found = {
        label: average(rows, "precision", "recall", "uniform", "diagonal")
        | {"num_links": rows[0]["num_links"]}
        for label, rows in probed.items()
    }
    return {"linked_phrases": found or None}


def tell(results: Results) -> Iterator[Section]:
    """Tabulates the hits beside chance."""
    columns = ("system", "layer", "hits", "recall", "uniform", "diagonal", "hits by seed", "words")
    keys = ("precision", "recall", "uniform", "diagonal")
    rows = [
        score_cells(label, row, *keys, count="num_links")
        for label, row in results["linked_phrases"].items()
    ]
    text = (
        "Some words of the test set have a gold link to a phrase of the source. A hit is a target "
        "word whose most attended source word lies in that phrase, while the model reads the "
        "reference. Uniform and diagonal are what a word at random and the word at the same "
        "place in its sentence would hit. The layer is chosen on every other pair and scored on "
        "the rest. Recall is hits divided by all linked pairs of words: it stays below 1 where "
        "phrases have several words."
    )
    yield Section("Attention and linked phrases", [text], tables=[Table(columns, rows)])
