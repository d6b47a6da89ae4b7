"""Training inputs, translated: a model that fails on these too is not held up by the new."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from nmt.evaluation.by_length import sort_by_length
from nmt.evaluation.results import TranslatedSentence
from nmt.study.presentation import (
    Results,
    Section,
    Table,
    add_legend,
    draw_ranges,
    main_split,
    score_figure,
    system_styles,
    with_interval,
)
from nmt.study.statistics import score_sentences
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.study.measure import TrainedRun

INPUTS_PER_RANGE = 100
_SEED = 1


def measure(run: TrainedRun) -> Mapping[str, Any]:
    """Translates up to 100 training inputs of each range of lengths, drawn with a fixed seed.

    Where the run joins pairs, the inputs are joined in the same sizes, but in groups of our own:
    runs that differ in their seed get the same inputs.

    Returns:
        train: Translated sentences; `index` is the number of the (first) pair.
    """
    pairs = run.pairs("train")
    inputs = training_inputs(len(pairs), run.joined_sizes)
    sources = [run.join_sources([pairs[index][0] for index in group]) for group in inputs]
    lengths = [run.length(source) for source in sources]
    chosen = sample_by_length(lengths)
    found = run.translator.translate([sources[i] for i in chosen], batch_tokens=run.batch_tokens)
    rows = [
        TranslatedSentence(
            index=inputs[i][0],
            source=sources[i],
            reference=run.join_targets([pairs[index][1] for index in inputs[i]]),
            hypothesis=translation.text,
            score=translation.score,
            source_words=lengths[i],
        )
        for i, translation in zip(chosen, found, strict=True)
    ]
    return {"train": [asdict(row) for row in rows]}


def training_inputs(num_pairs: int, sizes: Sequence[int]) -> list[list[int]]:
    """Puts random pairs together, groups of these sizes being equally likely; sorted."""
    from nmt.data.joining import JoinedPairs

    alike = np.ones(num_pairs, dtype=np.int64)
    return sorted(JoinedPairs(alike, alike, sizes=sizes, seed=_SEED).groups(0))


def sample_by_length(lengths: Sequence[int]) -> list[int]:
    """Returns the numbers of up to 100 inputs of each range of lengths, ascending."""
    draw = random.Random(_SEED)
    return sorted(
        index
        for _, members in sort_by_length(lengths)
        for index in draw.sample(members, min(INPUTS_PER_RANGE, len(members)))
    )


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Scores translations of training inputs by length."""
    name = "training sentences"
    probed = comparison.probed("train", name, text=lambda row: row["source"])
    if not any(system.label in probed for system in comparison.shown):
        return {"train": None}
    sentences = {
        label: [[TranslatedSentence(**row) for row in rows] for rows in runs]
        for label, runs in probed.items()
    }
    scores = score_sentences(
        sentences,
        seeds=comparison.main.seeds,
        target_lang=comparison.target_lang,
        ranges_like=comparison.main.ranges,
    )
    return {
        "train": {
            label: {"num_sentences": len(scores.lengths), "buckets": scores.table(label)}
            for label in sentences
        }
    }


def draw(results: Results) -> Mapping[str, Figure]:
    """Draws BLEU by length on training sentences (dashed) beside the test sentences (solid)."""
    trained, tested = results["train"], main_split(results)
    figure, axes = score_figure("BLEU by input length: test and training sentences")
    curves = [
        (table[label]["buckets"], replace(style, dashes=dashes), f"{label}, {name}")
        for label, style in system_styles(results).items()
        if label in trained
        for table, name, dashes in ((tested, results["split"], "-"), (trained, "train", "--"))
    ]
    draw_ranges(axes, results, curves)
    add_legend(figure, columns=2, handlelength=4)
    return {"training_sentences": figure}


def tell(results: Results) -> Iterator[Section]:
    """Tells under-training from failure to generalise."""
    test = main_split(results)
    rows = []
    for label, system in results["train"].items():
        beside = {bucket["range"]: bucket["bleu"] for bucket in test[label]["buckets"]}
        rows += [
            (
                label,
                bucket["range"],
                str(bucket["num_sentences"]),
                with_interval(bucket["bleu"]),
                with_interval(beside.get(bucket["range"])),
            )
            for bucket in system["buckets"]
        ]
    columns = ("system", "range", "n (training)", "BLEU, training", f"BLEU, {results['split']}")
    yield Section(
        "Training sentences",
        [
            "This is a sample of the training data, up to 100 inputs of each length range. A "
            "training of less than one pass has not seen all of it. Where training joins pairs, "
            "these are joined in new groups. A system that fails on what it was trained on as it "
            "fails on new inputs has not fitted its data: it had too little training or too little "
            "capacity. A system that does well only here has not generalised."
        ],
        {"training_sentences": "BLEU on test (solid) and training sentences"},
        [Table(columns, rows)],
    )
