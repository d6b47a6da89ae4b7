"""The sections of the report that rest on probes, on literature, and on what was not measured."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from nmt.report.document import (
    FigureReference,
    Results,
    Section,
    Table,
    number,
    shown_labels,
    with_interval,
)

SMALL_MODEL = 20_000_000

_CONTEXT = (
    ("Bahdanau et al. 2015, RNNencdec-30 / -50", "WMT14 En-Fr, tokenised BLEU", "13.93 / 17.82"),
    ("Bahdanau et al. 2015, RNNsearch-30 / -50", "WMT14 En-Fr, tokenised BLEU", "21.50 / 26.75"),
    ("Britz et al. 2017, without attention", "equal parameters", "9.98 to 11.57"),
    ("Britz et al. 2017, with attention", "equal parameters", "22.47"),
)


def joined(results: Results) -> Section | None:
    """The control that changes length alone."""
    found = results["joined"]
    if found is None:
        return None
    columns = ("system", "joined", "mean length", "n", "BLEU joined", "BLEU alone", "difference")
    rows = [
        (
            label,
            str(group["num_joined"]),
            number(group["source_words"]),
            str(group["num_groups"]),
            *(with_interval(system[kind][place]) for kind in ("joined", "alone", "difference")),
        )
        for label, system in found["systems"].items()
        for place, group in enumerate(found["groups"])
    ]
    return Section(
        "Joined inputs: length alone",
        [
            "The same sentences, translated one by one and joined into one input, scored against "
            "the same references: between the two nothing changes but the length of the input. "
            "Inputs of more sentences than any in training are also of a new kind: where a system "
            "falls there only, it is the kind and not the length."
        ],
        [FigureReference("joined_inputs", "BLEU of joined inputs and of their parts alone")],
        [Table(columns, rows)],
    )


def slots(results: Results) -> Section | None:
    """How BLEU depends on the load of a memory vector."""
    found = results["slots"]
    if found is None:
        return None
    columns = ["systems", "points", "words per vector", "k left out", "bits per vector"]
    columns += ["length", "separate"]
    keys = ["r2_words_per_vector", "r2_left_out", "r2_bits_per_vector", "r2_length", "r2_separate"]
    rows = [
        (fit["family"], str(fit["num_points"]), *(number(fit.get(key), 3) for key in keys))
        for fit in found["fits"]
    ]
    return Section(
        "Memory slots: words per vector",
        [
            "The source is pooled into k vectors before attention, with the same parameters for "
            "every k. A vector then holds input length / k words (at least one), all of the input "
            "for the systems with one final state.",
        ],
        [
            FigureReference("slots_by_length", "BLEU by input length for each number of slots k"),
            FigureReference(
                "words_per_vector",
                "Each point is one k and one length range, with its 95 % interval; the line is the "
                "best falling step function of the load through the points with slots",
            ),
        ],
        [
            _slots_table(results),
            Table(columns, rows, "How well one curve fits: R² of non-increasing (isotonic) fits"),
        ],
        [
            _rises(results),
            "R² is the share of the variance of BLEU between points (one for each k and length "
            "range, unweighted) that the best non-increasing function explains: one function of "
            "words per vector for all k; the same where the points of each k are predicted from "
            "the curve through those of all others (below 0: worse than the mean); one of bits "
            "per vector; one of input length for all k, which knows no slots; and a separate "
            "function of length for each k, the most that falling curves could explain. The "
            "systems with one final state are shown but not fitted.",
            "What came before: Britz, Guan and Luong (2017), Efficient Attention using a "
            "Fixed-Size Memory Representation, attend to K fixed contexts; Vázquez et al. (2020), "
            "A Systematic Study of Inner-Attention-Based Sentence Representations in Multilingual "
            "Neural Machine Translation, vary an attention bridge and look at sentence length.",
        ],
    )


def _rises(results: Results) -> str:
    """Says whether BLEU rises with the number of slots in every range, as the protocol expects."""
    slots = results["slots"]
    scores = {(point["system"], point["range"]): point["bleu"] for point in slots["points"]}
    ranges = list(dict.fromkeys(point["range"] for point in slots["points"]))
    steps = [step for labels in slots["families"].values() for step in pairwise(labels)]
    falls = [
        (fewer, more, each, scores[more, each]["high"] < scores[fewer, each]["low"])
        for fewer, more in steps
        for each in ranges
        if scores[more, each]["value"] < scores[fewer, each]["value"]
    ]
    if not falls:
        return "As expected, mean BLEU rises with the number of slots in every range."
    places = "; ".join(f"{more} below {fewer} at {each}" for fewer, more, each, _ in falls)
    return (
        "The expectation that BLEU rises with the number of slots in every range does not hold "
        f"for the means at {len(falls)} of {len(steps) * len(ranges)} steps ({places}); at "
        f"{sum(clear for *_, clear in falls)} of them the intervals do not overlap."
    )


def _slots_table(results: Results) -> Table:
    points = results["slots"]["points"]
    ranges = list(dict.fromkeys(point["range"] for point in points))
    rows = []
    for label in dict.fromkeys(point["system"] for point in points):
        scores = {p["range"]: p["bleu"] for p in points if p["system"] == label}
        rows.append((label, *(with_interval(scores.get(name)) for name in ranges)))
    return Table(("BLEU by input length", *ranges), rows)


def train(results: Results) -> Section | None:
    """BLEU on training sentences: under-training or bottleneck."""
    found = results["train"]
    if found is None:
        return None
    test = results["splits"][results["split"]]["systems"]
    rows = []
    for label, system in found.items():
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
    return Section(
        "Training sentences",
        [
            "A sample of sentences seen in training. Where a system fails on them as on new ones, "
            "it has not fitted its data (under-training, or too little capacity); where it does "
            "well on them only, it has not generalised."
        ],
        [FigureReference("training_sentences", "BLEU on test (solid) and training sentences")],
        [Table(columns, rows)],
    )


def nll(results: Results) -> Section | None:
    """The loss of reference tokens by position."""
    if results["nll"] is None:
        return None
    return Section(
        "Loss by target position",
        [
            "Mean negative log-likelihood of the reference's tokens, each predicted from the "
            "correct ones before it. It sees what is lost where BLEU has no room to show it."
        ],
        [FigureReference("loss_by_position", "Loss by target position for each input length")],
    )


def bits(results: Results) -> Section | None:
    """BLEU against information instead of words."""
    found = results["bits"]
    if found is None:
        return None
    columns = ("bits", "n", *found["systems"])
    rows = [
        (
            f"{number(each['low'])} to {number(each['high'])}",
            str(each["num_sentences"]),
            *(with_interval(system[place]) for system in found["systems"].values()),
        )
        for place, each in enumerate(found["ranges"])
    ]
    return Section(
        "Information instead of words",
        ["The grammar knows how many bits each sentence carries; each range holds a sixth."],
        [FigureReference("bleu_by_bits", "BLEU by bits of information in the input")],
        [Table(columns, rows)],
    )


def attention(results: Results) -> Section | None:
    """Alignment error rates and heat maps."""
    rows = [
        (
            label,
            ", ".join(map(str, row["layers"])),
            *(number(row[key], 3) for key in ("aer", "precision", "recall")),
            ", ".join(number(aer, 3) for aer in row["by_seed"]),
            f"{row['num_sentences']:,}",
        )
        for label, row in (results["alignment"] or {}).items()
    ]
    figures = [
        FigureReference(
            f"attention_{entry['index']}",
            f"Sentence {entry['index']} of {entry['split']!r}: words of the reference in rows, of "
            "the source in columns",
        )
        for entry in results["attention"] or ()
    ]
    if not rows and not figures:
        return None
    columns = ("system", "layer", "AER", "precision", "recall", "AER by seed", "sentences")
    table = Table(columns, rows, "Attention scored against gold links (lower AER is better)")
    return Section(
        "Attention as alignment",
        [
            "Weights while the reference is read in, not a translation; the layer was chosen on "
            "the validation set. Heat maps show the lowest seed."
        ],
        figures,
        [table] if rows else [],
    )


def example(results: Results) -> Section:
    """One long input and what became of it."""
    found = results["example"]
    rows = [("source", found["source"]), ("reference", found["reference"])]
    rows += [(label, text or "(empty)") for label, text in found["hypotheses"].items()]
    return Section(
        "One long input",
        [
            f"The longest input of {results['split']!r} that is not longer than the longest "
            f"training input ({found['source_words']} {results['task']['unit']}s; of several, the "
            "first), lowest seed."
        ],
        tables=[Table(("", "text"), rows, is_numeric=False)],
    )


def context() -> Section:
    """Published numbers, which are not comparable."""
    return Section(
        "Context, not ours",
        ["Published figures on other data and at other scales; not comparable with the above."],
        tables=[Table(("system", "setting", "BLEU"), _CONTEXT, is_numeric=False)],
        after=[
            "Bahdanau, Cho and Bengio (2015), Neural Machine Translation by Jointly Learning to "
            "Align and Translate. Britz, Goldie, Luong and Le (2017), Massive Exploration of "
            "Neural Machine Translation Architectures."
        ],
    )


def limits(results: Results) -> Section:
    """What these runs cannot say."""
    task, systems = results["task"], results["systems"]
    items = []
    largest = max((_parameters(system) for system in systems), default=0)
    if 0 < largest < SMALL_MODEL:
        items.append(f"Small models: {largest:,} parameters at most.")
    if task["data"] == "grammar":
        items.append(
            "A controlled grammar with a small vocabulary and one right translation of every "
            "sentence, not natural language."
        )
    items.append(f"One corpus and one language pair, {task['source_lang']}-{task['target_lang']}.")
    counts = {len(system["seeds"]) for system in systems}
    if min(counts) < 5:
        seeds = "1 seed" if min(counts) == 1 else f"{min(counts)} seeds"
        items.append(f"Few trainings: {seeds} of {'some systems' if len(counts) > 1 else 'each'}.")
    if len(shown_labels(results)) > 1:
        items.append(
            "The budget is fixed: the order of the systems may differ with more training, and a "
            "longer input also has more places for errors."
        )
    items.append("BLEU and chrF count matching n-grams; nobody read and judged the translations.")
    return Section("What this does not show", items=items, is_box=True)


def _parameters(system: Mapping[str, Any]) -> int:
    return (system["embedding_parameters"] or 0) + (system["other_parameters"] or 0)
