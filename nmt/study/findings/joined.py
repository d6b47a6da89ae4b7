"""Joined inputs: the same sentences alone and as parts of one longer input.

Long test sentences differ from short ones in more than their length. Here the content is the same;
what a joined input loses against its sentences translated alone is lost to length, or, with more
sentences than in any training input, to their number.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from nmt.evaluation.figures import shade
from nmt.evaluation.results import TranslatedSentence
from nmt.study.presentation import (
    Results,
    Section,
    Table,
    add_legend,
    draw_lines,
    number,
    score_figure,
    system_styles,
    with_interval,
)
from nmt.study.statistics import Estimate, score_sentences
from nmt.study.systems import Comparison

if TYPE_CHECKING:
    from nmt.study.measure import TrainedRun

MOST_JOINED = 8
LONGEST_SENTENCE = 15
LONGEST_MEAN = 80
NUM_SENTENCES = 240
RUNNING_TEXT = "test_chapters"  # a test set of neighbouring sentences, see prepare_bible.py
RUNNING_SIZES = (2, 3)
LONGEST_RUNNING = 50  # words of a group
MOST_GROUPS = 400  # of a size
_SEED = 1


def measure(run: TrainedRun) -> Mapping[str, Any]:
    """Translates sentences of the test split alone and in groups of 1 to 8, joined.

    A corpus with a test set of running text has `neighbours` joined, so that the text of a group
    runs on. Any other has its single sentences of at most 15 words joined, see `groups_by_size`.
    Inputs of more sentences than training ever had are extrapolation, like lengths it never had.

    Returns:
        joined: A row a group: num_joined, source_words, and the texts reference, joined (the
        translation of the joined input) and alone (the translations of its sentences, joined);
        document, in running text.
    """
    if RUNNING_TEXT in run.data.test_splits:
        pairs, documents = run.pairs(RUNNING_TEXT), run.column(RUNNING_TEXT, "document")
        assert documents is not None
        groups = neighbours(documents, [run.length(source) for source, _ in pairs])
        rows = list(_translate(run, pairs, groups))
        for row, group in zip(rows, groups, strict=True):
            row["document"] = documents[group[0]]
        return {"joined": rows}
    pairs = run.pairs(run.headline_split)
    lengths = [run.length(source) for source, _ in pairs]
    single = run.column(run.headline_split, "num_sentences") or [1] * len(pairs)
    candidates = [
        index
        for index, length in enumerate(lengths)
        if single[index] == 1 and 0 < length <= LONGEST_SENTENCE
    ]
    return {"joined": list(_translate(run, pairs, groups_by_size(candidates, lengths)))}


def groups_by_size(candidates: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Draws 240 sentences with a fixed seed and cuts them into groups, once for each size.

    Every size has the same sentences in the same order: their references are one text, cut
    otherwise, so that scores of different sizes compare too, not only joined and alone within a
    size. Where a size does not divide their number, the last ones are left out (2 of 240 for groups
    of 7, none for the others). Sizes whose inputs have more than 80 words in the mean are left out.

    Args:
        candidates: Numbers of the sentences to choose from.
        lengths: The length of every sentence of the split.

    Returns:
        The groups of one, then those of two, and so on up to eight.
    """
    order = random.Random(_SEED).sample(candidates, min(NUM_SENTENCES, len(candidates)))
    groups = []
    for size in range(1, MOST_JOINED + 1):
        whole = [order[i : i + size] for i in range(0, len(order) - size + 1, size)]
        num_words = sum(lengths[index] for group in whole for index in group)
        if whole and num_words <= LONGEST_MEAN * len(whole):
            groups += whole
    return groups


def neighbours(documents: Sequence[str], lengths: Sequence[int]) -> list[list[int]]:
    """Groups neighbouring sentences of a document, given the document and length of each.

    Groups of a size do not overlap and have at most `LONGEST_RUNNING` words; each begins as early
    as it can. Of more than `MOST_GROUPS` of a size some are drawn with a fixed seed. The content of
    one size is not that of the other.

    Returns:
        Each sentence of a group alone, then the groups of two, then those of three.
    """
    groups: list[list[int]] = []
    for size in RUNNING_SIZES:
        found, start = [], 0
        while start + size <= len(documents):
            group = list(range(start, start + size))
            same = documents[group[0]] == documents[group[-1]]
            fits = same and sum(lengths[index] for index in group) <= LONGEST_RUNNING
            found += [group] if fits else []
            start += size if fits else 1
        groups += sorted(random.Random(_SEED).sample(found, min(MOST_GROUPS, len(found))))
    return [[index] for index in sorted({i for group in groups for i in group})] + groups


def _translate(
    run: TrainedRun, pairs: Sequence[tuple[str, str]], groups: Sequence[Sequence[int]]
) -> Iterator[dict[str, Any]]:
    sources = [run.join_sources([pairs[index][0] for index in group]) for group in groups]
    hypotheses = run.translate(sources)
    alone = {
        group[0]: text for group, text in zip(groups, hypotheses, strict=True) if len(group) == 1
    }
    for group, source, hypothesis in zip(groups, sources, hypotheses, strict=True):
        yield {
            "num_joined": len(group),
            "source_words": run.length(source),
            "reference": run.join_targets([pairs[index][1] for index in group]),
            "joined": hypothesis,
            "alone": run.join_targets([alone[index] for index in group]),
        }


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Scores joined inputs and the same sentences translated alone, by number joined."""
    probed = comparison.probed("joined", "joined inputs", text=lambda row: row["reference"])
    if not any(system.label in probed for system in comparison.shown):
        return {"joined": None}
    first = next(iter(probed.values()))[0]
    numbers = np.array([row["num_joined"] for row in first])
    words = np.array([row["source_words"] for row in first])
    groups = {int(size): np.flatnonzero(numbers == size) for size in np.unique(numbers)}
    systems: dict[str, Any] = {}
    kept: dict[str, list[Estimate]] = {}
    for label, runs in probed.items():
        texts = {kind: [_sentences(rows, kind) for rows in runs] for kind in ("joined", "alone")}
        scores = score_sentences(
            texts,
            seeds=dict.fromkeys(texts, comparison.main.seeds[label]),
            target_lang=comparison.target_lang,
            strata=numbers.tolist(),
        )
        joined, alone = ([scores.bleu(kind, each) for each in groups.values()] for kind in texts)
        both = list(zip(joined, alone, strict=True))
        kept[label] = [long.over(short) for long, short in both]
        systems[label] = {
            "joined": [each.entry() for each in joined],
            "alone": [each.entry() for each in alone],
            "difference": [long.minus(short).entry() for long, short in both],
            "kept": [share.entry() for share in kept[label]],
        }
    constant = [s.label for s in comparison.systems if s.role == "constant" and s.label in kept]
    for label in kept.keys() - constant:
        systems[label]["kept_more_than"] = {
            baseline: [
                share.minus(other).entry()
                for share, other in zip(kept[label], kept[baseline], strict=True)
            ]
            for baseline in constant
        }
    sizes = [
        {
            "num_joined": size,
            "source_words": float(words[members].mean()),
            "num_groups": len(members),
        }
        for size, members in groups.items()
    ]
    return {"joined": {"groups": sizes, "systems": systems}}


def _sentences(rows: Sequence[Mapping[str, Any]], kind: str) -> list[TranslatedSentence]:
    return [
        TranslatedSentence(
            index=index,
            source="",
            reference=row["reference"],
            hypothesis=row[kind],
            score=0.0,
            source_words=row["source_words"],
            document=row.get("document"),
        )
        for index, row in enumerate(rows)
    ]


def draw(results: Results) -> Mapping[str, Figure]:
    """Draws BLEU of joined inputs (solid) and of the same sentences translated alone (dashed)."""
    joined, unit = results["joined"], results["task"]["unit"]
    figure, axes = score_figure("The same sentences, joined into one input or alone")
    xs = [group["source_words"] for group in joined["groups"]]
    curves = [
        (joined["systems"][label][kind], replace(style, dashes=dashes), f"{label}, {kind}")
        for label, style in system_styles(results).items()
        if label in joined["systems"]
        for kind, dashes in (("joined", "-"), ("alone", "--"))
    ]
    ticks = [f"{x:.0f}\n{g['num_joined']}" for x, g in zip(xs, joined["groups"], strict=True)]
    axes.set_xticks(xs, ticks, fontsize=8.5)
    draw_lines(axes, xs, curves, f"mean input length ({unit}s) / sentences joined")
    longest, right = results["task"]["longest_train"], axes.get_xlim()[1]
    if longest < max(xs):
        shade(axes, longest, right, f"extrapolation: over {longest} {unit}s")
        axes.set_xlim(right=right)
    add_legend(figure, columns=2, handlelength=4)
    return {"joined_inputs": figure}


def tell(results: Results) -> Iterator[Section]:
    """Tells the control that changes length alone."""
    found = results["joined"]
    columns = ["system", "joined", "mean length", "n"]
    columns += ["BLEU joined", "BLEU alone", "difference", "share kept"]
    rows = [
        (
            label,
            str(group["num_joined"]),
            number(group["source_words"]),
            str(group["num_groups"]),
            *(with_interval(system[kind][place]) for kind in ("joined", "alone", "difference")),
            with_interval(system["kept"][place], digits=2) if "kept" in system else "–",
        )
        for label, system in found["systems"].items()
        for place, group in enumerate(found["groups"])
    ]
    more = [
        f"Of {group['num_joined']} joined, {label} keeps "
        f"{with_interval(gaps[place], digits=2)} more of its BLEU than {baseline}."
        for label, system in found["systems"].items()
        for baseline, gaps in system.get("kept_more_than", {}).items()
        for place, group in enumerate(found["groups"])
        if group["num_joined"] > 1
    ]
    yield Section(
        "Joined inputs: the same content, longer",
        [
            "The same sentences are translated one by one and joined into one input, and scored "
            "against the same references. The content is the same; only the input is longer. An "
            "input of more sentences than any in training is also of a new kind: where a system "
            "falls only there, this does not distinguish length from kind."
        ],
        {"joined_inputs": "BLEU of joined inputs and of their parts alone"},
        [Table(columns, rows)],
        items=more,
    )
