"""Does attention find the right words? Against gold links, and as heat maps of two sentences.

The grammar links every word. Other corpora may know of some words only which phrases belong
together: verses with Strong's numbers link about a third. There is no error rate then; what is
counted is how often the source word that attention prefers lies in the linked phrase.
"""

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
from nmt.study.statistics import Floats
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.alignment import AlignmentScores
    from nmt.study.measure import TrainedRun

logger = logging.getLogger(__name__)

NUM_VALIDATION = 300
SHOWN_LENGTHS = (12, 25)
Pairs = Sequence[tuple[int, int]]  # source word, target word, from 0
WIDEST_BESIDE = 14  # words; two longer sentences side by side cannot be read


def measure(run: TrainedRun) -> Mapping[str, Any]:
    """Scores the attention and shows it for two sentences of the test split.

    Everything is teacher-forced on the references. The decoder layer is the one with the lowest
    error rate on validation; without gold links of all words it is the last.

    Returns:
        alignment (where there are gold links of all words), linked_phrases (where there are some)
        and attention; nothing for a model that has no attention over words.
    """
    try:
        run.translator.attention("a", "a")
    except ValueError as refusal:
        logger.info("no attention is shown: %s", refusal)
        return {}
    linked = next((s for s in run.data.test_splits if run.column(s, "links") is not None), None)
    if run.column(run.headline_split, "sure") is None:
        phrases = {} if linked is None else {"linked_phrases": _linked_phrases(run, linked)}
        return phrases | {"attention": _shown(run, linked or run.headline_split, layer=-1)}
    by_layer = _scores(run, run.data.valid_splits[0], NUM_VALIDATION)
    layer = min(range(len(by_layer)), key=lambda number: by_layer[number].aer)
    alignment = {
        "layer": layer,
        **asdict(_scores(run, run.headline_split, None)[layer]),
        "valid_aer_by_layer": [scores.aer for scores in by_layer],
    }
    return {"alignment": alignment, "attention": _shown(run, run.headline_split, layer=layer)}


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


def _linked_phrases(run: TrainedRun, split: str) -> dict[str, Any]:
    """Counts the hits; the layer is chosen on every other pair and scored on those between.

    Returns:
        layer, num_links, precision, recall, and precision by chance: of a source word at random
        (uniform), and of the one at the same share of its sentence (diagonal).
    """
    found = run.translator.attentions(run.pairs(split), batch_tokens=run.batch_tokens)
    counts = np.array(
        [
            [hits(np.asarray(layer), [(i, j) for i, j in pair]) for layer in each.weights]
            for each, pair in zip(found, run.column(split, "links") or [], strict=True)
        ]
    )  # (pairs, layers, 5)
    layer = int(precision(counts[::2].sum(0)).argmax())
    linked, hit, uniform, diagonal, words = counts[1::2, layer].sum(0).tolist()
    return {
        "split": split,
        "layer": layer,
        "num_links": int(linked),
        "precision": hit / linked,
        "recall": hit / max(1, words),
        "uniform": uniform / linked,
        "diagonal": diagonal / linked,
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


def _shown(run: TrainedRun, split: str, *, layer: int) -> list[dict[str, Any]]:
    """Shows the sentences closest to 12 and 25 words, the first of equals: a fact of the split."""
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
    """Averages rates over seeds, and collects the heat maps."""
    attending = [
        system.label
        for system in comparison.systems
        if system.memory_slots is None and any("attention" in run.probes for run in system.runs)
    ]
    scored = comparison.probed("alignment", "alignment", expected=attending)
    shown = comparison.probed("attention", "attention weights", expected=attending)
    linked = comparison.probed("linked_phrases", "linked phrases", expected=[])
    alignment = {
        label: _average(rows, "num_sentences", "aer", "precision", "recall")
        for label, rows in scored.items()
    }
    phrases = {
        label: _average(rows, "num_links", "precision", "recall", "uniform", "diagonal")
        for label, rows in linked.items()
    }
    return {
        "alignment": alignment or None,
        "attention": _shared(shown) or None,
        "linked_phrases": phrases or None,
    }


def _average(rows: Sequence[Mapping[str, Any]], count: str, *keys: str) -> dict[str, Any]:
    """Averages entries over seeds; names the layers, and of the first entry each seed."""
    return {
        **{key: float(np.mean([row[key] for row in rows])) for key in keys},
        "layers": sorted({row["layer"] for row in rows}),
        "by_seed": [row[keys[0]] for row in rows],
        count: rows[0][count],
    }


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
    """Tabulates alignment error rates and shows the heat maps; then the linked phrases."""
    if results["attention"] or results["alignment"]:
        yield _tell_alignment(results)
    if results.get("linked_phrases"):
        yield _tell_linked_phrases(results)


def _tell_alignment(results: Results) -> Section:
    rows = _rows(results["alignment"] or {}, "num_sentences", "aer", "precision", "recall")
    figures = {
        f"attention_{entry['index']}": f"Sentence {entry['index']} of {entry['split']!r}: words of "
        "the reference in rows, of the source in columns"
        f"{'; linked phrases are outlined' if _has_links(entry) else ''}"
        for entry in results["attention"] or ()
    }
    columns = ("system", "layer", "AER", "precision", "recall", "AER by seed", "sentences")
    table = Table(columns, rows, "Attention scored against gold links (lower AER is better)")
    layer = "the layer (from 0) with the lowest error on validation" if rows else "the last layer"
    return Section(
        "Attention as alignment",
        [
            f"These are the attention weights of {layer} while the model reads the reference "
            "instead of its own translation. Heat maps show the lowest seed."
        ],
        figures,
        [table] if rows else [],
    )


def _tell_linked_phrases(results: Results) -> Section:
    columns = ("system", "layer", "hits", "recall", "uniform", "diagonal", "hits by seed", "words")
    keys = ("precision", "recall", "uniform", "diagonal")
    rows = _rows(results["linked_phrases"], "num_links", *keys)
    text = (
        "Some words of the test set have a gold link to a phrase of the source. A hit is a target "
        "word whose most attended source word lies in that phrase, while the model reads the "
        "reference. Uniform and diagonal are what a word at random and the word at the same "
        "place in its sentence would hit. The layer is chosen on every other pair and scored on "
        "the rest. Recall is hits divided by all linked pairs of words: it stays below 1 where "
        "phrases have several words."
    )
    return Section("Attention and linked phrases", [text], tables=[Table(columns, rows)])


def _rows(found: Mapping[str, Any], count: str, *keys: str) -> list[tuple[str, ...]]:
    """Returns the rows of a table of what `_average` gives."""
    return [
        (
            label,
            ", ".join(map(str, row["layers"])),
            *(number(row[key], 3) for key in keys),
            ", ".join(number(each, 3) for each in row["by_seed"]),
            f"{row[count]:,}",
        )
        for label, row in found.items()
    ]


def _has_links(entry: Mapping[str, Any]) -> bool:
    return any("links" in system for system in entry["systems"].values())
