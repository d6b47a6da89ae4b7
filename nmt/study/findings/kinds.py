"""Are long inputs one long sentence or several? Real text is both, and they are not the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.figure import Figure

from nmt.evaluation.figures import INK
from nmt.study.presentation import (
    Results,
    Section,
    Table,
    add_legend,
    draw_ranges,
    panel_figure,
    shown_labels,
    system_styles,
    with_interval,
)
from nmt.study.statistics import SplitScores, score_sentences
from nmt.study.systems import Comparison

NUM_SOURCES = 6  # that a length range names; the others are counted
_NAMES = {"sentence": "one sentence", "multi": "several sentences"}


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Scores the inputs of each kind by length; None where the corpus does not know two kinds."""
    texts = comparison.main.texts
    kinds = {sentence.kind for sentence in texts}
    if None in kinds or len(kinds) < 2:
        return {"kinds": None}
    found = {}
    for kind in sorted({str(sentence.kind) for sentence in texts}, reverse=True):
        places = [place for place, sentence in enumerate(texts) if sentence.kind == kind]
        chosen = {
            system.label: [
                [run[place] for place in places] for run in comparison.main.sentences[system.label]
            ]
            for system in comparison.shown
        }
        scores = score_sentences(
            chosen, seeds=comparison.main.seeds, target_lang=comparison.target_lang
        )
        found[kind] = {
            "systems": {label: scores.table(label) for label in chosen},
            "sources": _sources(scores),
        }
    return {"kinds": found}


def _sources(scores: SplitScores) -> list[dict[str, Any]]:
    """Counts the sentences of each length range by collection: a document's name up to its "/"."""
    rows = []
    for bucket, members in scores.ranges:
        names = [(scores.texts[place].document or "unknown").split("/")[0] for place in members]
        counts = Counter(names).most_common()
        rows.append(
            {
                "range": bucket.label,
                "num_sentences": len(members),
                "largest": dict(counts[:NUM_SOURCES]),
                "num_others": len(counts[NUM_SOURCES:]),
            }
        )
    return rows


def draw(results: Results) -> Mapping[str, Figure]:
    """Draws BLEU by length of inputs of one sentence and of several, a panel each."""
    kinds, styles = results["kinds"], system_styles(results)
    width = max(7.2, 5.4 * len(kinds))
    figure, panels = panel_figure("BLEU by input length and kind", len(kinds), width)
    for place, (axes, (kind, content)) in enumerate(zip(panels, kinds.items(), strict=True)):
        curves = [
            (content["systems"][label], style, "" if place else label)
            for label, style in styles.items()
        ]
        draw_ranges(axes, results, curves, name="" if place else "BLEU")
        axes.set_title(_NAMES.get(kind, kind), fontsize=10, color=INK, loc="left")
    add_legend(figure)
    return {"bleu_by_kind": figure}


def tell(results: Results) -> Iterator[Section]:
    """Shows both kinds, and where the inputs of each length are from."""
    labels = shown_labels(results)
    tables = []
    for kind, content in results["kinds"].items():
        rows = [
            (
                source["range"],
                f"{source['num_sentences']:,}",
                *(with_interval(content["systems"][label][place]["bleu"]) for label in labels),
            )
            for place, source in enumerate(content["sources"])
        ]
        name = _NAMES.get(kind, kind)
        tables.append(Table(("range", "n", *labels), rows, f"BLEU, inputs of {name}"))
        sources = [(each["range"], _tell_sources(each)) for each in content["sources"]]
        caption = f"Sources, inputs of {name}"
        tables.append(Table(("range", "sentences from"), sources, caption, is_numeric=False))
    yield Section(
        "One sentence or several",
        [
            "In real text, a long input is often several sentences: another kind of text, not only "
            "more of it. So the two kinds are shown separately, with the sources of the inputs of "
            "each length."
        ],
        {"bleu_by_kind": "BLEU by input length, for each kind of input"},
        tables,
    )


def _tell_sources(entry: Mapping[str, Any]) -> str:
    named = ", ".join(f"{name} {count:,}" for name, count in entry["largest"].items())
    others = entry["num_others"]
    more = f", {others} other collection{'' if others == 1 else 's'}" if others else ""
    return named + more
