"""Does attention find the right words? Against gold links, and as heat maps of two sentences."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from nmt.evaluation.figures import CELL_INCHES, COLOURS, draw_panel, font_families, new_figure
from nmt.study.presentation import Results, Section, Table, number
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.alignment import AlignmentScores
    from nmt.study.measure import TrainedRun

logger = logging.getLogger(__name__)

NUM_VALIDATION = 300
SHOWN_LENGTHS = (12, 25)
WIDEST_BESIDE = 14  # words; two longer sentences side by side cannot be read


def measure(run: TrainedRun) -> Mapping[str, Any]:
    """Scores the attention and shows it for two sentences of the test split.

    Everything is teacher-forced on the references. The decoder layer is the one with the lowest
    error rate on validation; without gold links it is the last.

    Returns:
        alignment (where there are gold links) and attention; nothing for a model that has no
        attention over words.
    """
    try:
        run.translator.attention("a", "a")
    except ValueError as refusal:
        logger.info("no attention is shown: %s", refusal)
        return {}
    if run.column(run.headline_split, "sure") is None:
        return {"attention": _shown(run, layer=-1)}
    by_layer = _scores(run, run.data.valid_splits[0], NUM_VALIDATION)
    layer = min(range(len(by_layer)), key=lambda number: by_layer[number].aer)
    alignment = {
        "layer": layer,
        **asdict(_scores(run, run.headline_split, None)[layer]),
        "valid_aer_by_layer": [scores.aer for scores in by_layer],
    }
    return {"alignment": alignment, "attention": _shown(run, layer=layer)}


def _scores(run: TrainedRun, split: str, most: int | None) -> list[AlignmentScores]:
    """Returns the scores of each decoder layer on the first sentences of a split."""
    from nmt.alignment import attention_links, gold_links, score_alignment

    pairs = run.pairs(split)[:most]
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1]))  # like lengths together
    attentions = run.translator.attentions([pairs[i] for i in order], batch_tokens=run.batch_tokens)
    by_sentence = [[attention_links(layer) for layer in each.weights] for each in attentions]
    columns = (run.column(split, name) or [] for name in ("sure", "possible"))
    sure, possible = ([gold_links(column[i]) for i in order] for column in columns)
    return [
        score_alignment(list(found), sure=sure, possible=possible)
        for found in zip(*by_sentence, strict=True)
    ]


def _shown(run: TrainedRun, *, layer: int) -> list[dict[str, Any]]:
    """Shows the sentences closest to 12 and 25 words, the first of equals: a fact of the split.

    They are of the first test set with linked phrases, if there is one, and show these.
    """
    linked = (name for name in run.data.test_splits if run.column(name, "links") is not None)
    split = next(linked, run.headline_split)
    lengths, pairs, links = (
        run.data.source_units(split),
        run.pairs(split),
        run.column(split, "links"),
    )
    chosen = {min(range(len(pairs)), key=lambda i: abs(lengths[i] - n)) for n in SHOWN_LENGTHS}
    rows = []
    for index in sorted(chosen, key=lambda i: lengths[i]):
        attention = run.translator.attention(*pairs[index])
        row = {
            "index": index,
            "split": split,
            "source_words": list(attention.source_words),
            "target_words": list(attention.target_words),
            "weights": [[round(float(w), 4) for w in row] for row in attention.weights[layer]],
        }
        rows.append(row | ({} if links is None else {"links": links[index]}))
    return rows


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Averages error rate, precision and recall over seeds, and collects the heat maps."""
    attending = [
        system.label
        for system in comparison.systems
        if system.memory_slots is None and any("attention" in run.probes for run in system.runs)
    ]
    scored = comparison.probed("alignment", "alignment", expected=attending)
    shown = comparison.probed("attention", "attention weights", expected=attending)
    alignment = {
        label: average(rows, "aer", "precision", "recall")
        | {"num_sentences": rows[0]["num_sentences"]}
        for label, rows in scored.items()
    }
    return {"alignment": alignment or None, "attention": _shared(shown) or None}


def average(rows: Sequence[Mapping[str, Any]], *keys: str) -> dict[str, Any]:
    """Averages entries over seeds; names the layers, and of the first entry each seed."""
    return {
        **{key: float(np.mean([row[key] for row in rows])) for key in keys},
        "layers": sorted({row["layer"] for row in rows}),
        "by_seed": [row[keys[0]] for row in rows],
    }


def score_cells(label: str, row: Mapping[str, Any], *keys: str, count: str) -> tuple[str, ...]:
    """Returns the row of a table for what `average` gives: the scores between layer and count."""
    return (
        label,
        ", ".join(map(str, row["layers"])),
        *(number(row[key], 3) for key in keys),
        ", ".join(number(each, 3) for each in row["by_seed"]),
        f"{row[count]:,}",
    )


def _shared(shown: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]) -> list[dict[str, Any]]:
    """Picks the sentences that all systems with attention weights share, lowest seed."""
    maps = {
        label: {
            (entry["split"], entry["index"]): {
                "source_words": entry["source_words"],
                "target_words": entry["target_words"],
                "weights": [[round(weight, 3) for weight in row] for row in entry["weights"]],
                **{key: entry[key] for key in ("links",) if key in entry},
            }
            for entry in runs[0]
        }
        for label, runs in shown.items()
    }
    shared = sorted(set.intersection(*map(set, maps.values()))) if maps else []
    return [
        {
            "split": split,
            "index": index,
            "systems": {label: entries[split, index] for label, entries in maps.items()},
        }
        for split, index in shared
    ]


def draw(results: Results) -> Mapping[str, Figure]:
    """Draws the heat maps."""
    return {
        f"attention_{entry['index']}": draw_heat_map(entry["systems"])
        for entry in results["attention"] or ()
    }


def draw_heat_map(systems: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draws the attention weights of one sentence, a panel a system.

    Rows are words of the reference from the top, columns words of the source. Linked words are
    outlined, where the corpus knows any.
    """
    words = [w for s in systems.values() for w in (*s["source_words"], *s["target_words"])]
    fonts = font_families("".join(words))
    columns = max(len(system["source_words"]) for system in systems.values())
    rows = max(len(system["target_words"]) for system in systems.values())
    across = 1 if columns > WIDEST_BESIDE else len(systems)
    down = len(systems) // across
    width = (max(2.2, CELL_INCHES * columns) + 1.3) * across
    figure = new_figure(width, (max(2.0, CELL_INCHES * rows) + 1.3) * down)
    panels = figure.subplots(down, across, squeeze=False).flat
    for axes, (label, system) in zip(panels, systems.items(), strict=True):
        image = draw_panel(
            axes,
            system["weights"],
            rows=system["target_words"],
            columns=system["source_words"],
            name=label,
            fonts=fonts,
        )
        for source, target in system.get("links", ()):
            corner = (source - 0.5, target - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=COLOURS[1], linewidth=1))
    figure.colorbar(
        image, ax=figure.axes, shrink=0.6, aspect=30, label="attention weight", pad=0.01
    )
    return figure


def tell(results: Results) -> Iterator[Section]:
    """Tabulates alignment error rates and shows the heat maps."""
    rows = [
        score_cells(label, row, "aer", "precision", "recall", count="num_sentences")
        for label, row in (results["alignment"] or {}).items()
    ]
    figures = {
        f"attention_{entry['index']}": f"Sentence {entry['index']} of {entry['split']!r}: words of "
        "the reference in rows, of the source in columns"
        f"{'; linked phrases are outlined' if _has_links(entry) else ''}"
        for entry in results["attention"] or ()
    }
    columns = ("system", "layer", "AER", "precision", "recall", "AER by seed", "sentences")
    table = Table(columns, rows, "Attention scored against gold links (lower AER is better)")
    layer = "the layer (from 0) with the lowest error on validation" if rows else "the last layer"
    yield Section(
        "Attention as alignment",
        [
            f"These are the attention weights of {layer} while the model reads the reference "
            "instead of its own translation. Heat maps show the lowest seed."
        ],
        figures,
        [table] if rows else [],
    )


def _has_links(entry: Mapping[str, Any]) -> bool:
    return any("links" in system for system in entry["systems"].values())
