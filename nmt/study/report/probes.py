"""The sections of the report that rest on probes."""

from __future__ import annotations

from nmt.study.report.document import (
    FigureReference,
    Results,
    Section,
    Table,
    number,
    with_interval,
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
        "Joined inputs: the same content, longer",
        [
            "The same sentences, translated one by one and joined into one input, scored against "
            "the same references: the content is the same, the input longer. "
            "Inputs of more sentences than any in training are also of a new kind: where a system "
            "falls there only, length and kind cannot be told apart."
        ],
        [FigureReference("joined_inputs", "BLEU of joined inputs and of their parts alone")],
        [Table(columns, rows)],
    )


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
            "A sample of the training data, up to 100 inputs of each length range. A training of "
            "less than one pass has not seen all of it, and where training joins pairs, these are "
            "joined anew. Where a system fails on what it was trained on as on new inputs, it has "
            "not fitted its data (under-training, or too little capacity); where it does well on "
            "that only, it has not generalised."
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
            "correct ones before it. It sees what is lost where BLEU has no room to show it. "
            "Systems with different tokenizers have different tokens: compare their curves only."
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
            "Weights while the reference is read in, not a translation, of the "
            + ("layer (from 0) with the lowest error on validation" if rows else "last layer")
            + ". Heat maps show the lowest seed."
        ],
        figures,
        [table] if rows else [],
    )


def example(results: Results) -> Section:
    """One long input and what became of it."""
    found, longest = results["example"], results["task"]["longest_train"]
    within = f"that is not longer than the longest training input ({longest})"
    rows = [("source", found["source"]), ("reference", found["reference"])]
    rows += [(label, text or "(empty)") for label, text in found["hypotheses"].items()]
    return Section(
        "One long input",
        [
            f"The longest input of {results['split']!r} ({found['source_words']} "
            f"{results['task']['unit']}s; of several, the first) "
            f"{within if found['source_words'] <= longest else 'of all'}, lowest seed."
        ],
        tables=[Table(("", "text"), rows, is_numeric=False)],
    )
