"""What the report says, section by section, from the results of a comparison.

Sentences here hold whatever the numbers are, or depend on them by a rule that is written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nmt.study.report.document import (
    FigureReference,
    Results,
    Section,
    Table,
    number,
    with_interval,
)

# On the built-in grammar a system below it on short inputs has not learnt the task yet.
TRAINED_BLEU = 80.0
FEW_SENTENCES = 30
ENOUGH_SEEDS = 5


def headline(results: Results) -> Section:
    """The figure of BLEU by length, and what is in it."""
    split, task = results["split"], results["task"]
    main = results["splits"][split]
    num_seeds = sorted({len(system["seeds"]) for system in results["systems"]})
    seeds = f"{num_seeds[0]}" if len(num_seeds) == 1 else f"{num_seeds[0]} to {num_seeds[-1]}"
    levels = (
        "seeds, then documents, then sentences"
        if results["bootstrap"]["documents"]
        else ("seeds, then sentences within each length range")
    )
    text = (
        f"{main['num_sentences']:,} sentences of {split!r} (SHA-256 {main['sha256'][:12]}), "
        f"{seeds} seed{'' if seeds == '1' else 's'} a system. Lines are means over seeds of corpus "
        f"BLEU in each range of input length in {task['unit']}s. Bands hold "
        f"{100 * results['bootstrap']['coverage']:.0f} % of {results['bootstrap']['resamples']:,} "
        f"resamples that draw {levels}, the same for all systems (random seed "
        f"{results['bootstrap']['seed']}). Each range is scored alone, with the n-gram orders that "
        "its translations have (effective order): ranges do not average to the score of the whole."
    )
    text += _few_seeds(results)
    if split == "test_joined":
        text += (
            " Each test sentence occurs once for each number of sentences joined; "
            f"{'tests' if results['bootstrap']['documents'] else 'resamples and tests'} take "
            "inputs as independent, so what is said of all of them is too certain."
        )
    elif results["bootstrap"]["documents"]:
        text += " The paired tests take sentences as independent, though documents hold several."
    after = [f"{name}: {signature}." for name, signature in results["signatures"].items()]
    if len(results["splits"]) > 1:
        other = next(name for name in results["splits"] if name != split)
        after.append(f"Dotted: {other!r}, longer inputs, scored by itself.")
    return Section(
        "BLEU by input length",
        before=[text],
        figures=[FigureReference("bleu_by_length", "BLEU by input length with 95 % bands")],
        after=after,
    )


def _few_seeds(results: Results) -> str:
    """Says what intervals over few trainings do not hold."""
    one = [system["label"] for system in results["systems"] if len(system["seeds"]) == 1]
    text = ""
    if one:
        names = "" if len(one) == len(results["systems"]) else f" ({'; '.join(one)})"
        text += (
            f" With one seed{names}, intervals hold what other test sentences would change, not "
            "what another training would."
        )
    if any(1 < len(system["seeds"]) < ENOUGH_SEEDS for system in results["systems"]):
        text += f" Intervals drawn from fewer than {ENOUGH_SEEDS} seeds are somewhat too narrow."
    return text


def systems_table(results: Results) -> Section:
    """What each system is, what it cost and what it scores at both ends."""
    falls = results["falls"]
    ends = next(iter(falls.values())) if falls else None
    short, long = (ends["short_range"], ends["long_range"]) if ends else ("shortest", "longest")
    columns = ["model", "seeds", "embedding", "other", "updates", "target tokens", "FLOPs"]
    columns += ["minutes", f"BLEU {short}", f"BLEU {long}", "long − short"]
    rows = []
    for system in results["systems"]:
        table = results["splits"][results["split"]]["systems"][system["label"]]["buckets"]
        scores = {bucket["range"]: bucket["bleu"]["value"] for bucket in table}
        flops, tokens = system["flops_per_target_token"], system["target_tokens"]
        total = None if flops is None or tokens is None else flops * tokens
        seconds = system["seconds"]
        rows.append(
            (
                system["label"],
                ", ".join(map(str, system["seeds"])),
                number(system["embedding_parameters"], 0),
                number(system["other_parameters"], 0),
                number(system["updates"], 0),
                number(tokens, 0),
                "–" if total is None else f"{total:.2g}",
                number(None if seconds is None else seconds / 60),
                number(scores.get(short)),
                number(scores.get(long)),
                with_interval(falls.get(system["label"])),
            )
        )
    note = (
        "Parameters of the embedding and others. Updates, tokens and minutes are means over seeds; "
        "minutes depend on what else ran on the machine. FLOPs are of the whole training, where a "
        "probe counted those of a target token."
    )
    return Section("The systems", tables=[Table(columns, rows)], after=[note])


def primary_statistic(results: Results) -> Section | None:
    """The difference of differences of the minimal pair, and of all others as secondary."""
    if not results["differences"]:
        return None
    found = [entry for entry in results["differences"] if "long" in entry]
    primary = next((entry for entry in found if entry["primary"]), None)
    before = []
    if any(entry["primary"] for entry in results["differences"]) and primary is None:
        before.append(
            "All inputs lie in one range of lengths, so there is no difference of differences."
        )
    elif primary is None:
        before.append(
            "The minimal pair (one constant context, attention; the same number of updates) is not "
            "among these runs, so there is no primary statistic."
        )
    else:
        before += _primary_sentences(results, primary)
    columns = ("contrast", "", "short", "long", "long minus short", "all")
    rows = [
        (
            f"{entry['system']} − {entry['baseline']}",
            "primary" if entry["primary"] else "secondary",
            with_interval(entry["short"]),
            with_interval(entry["long"]),
            with_interval(entry["difference_of_differences"]),
            with_interval(entry["overall"]),
        )
        for entry in found
    ]
    caption = ""
    if found:
        caption = (
            f"Differences in BLEU at {found[0]['short']['range']} (short) and "
            f"{found[0]['long']['range']} (long), 95 % intervals"
        )
    tables = [Table(columns, rows, caption), _by_range(found)] if rows else []
    return Section("What length costs: the difference of differences", before, tables=tables)


def _by_range(contrasts: Sequence[Mapping[str, Any]]) -> Table:
    ranges = [each["range"] for each in contrasts[0]["by_range"]]
    rows = [
        (f"{entry['system']} − {entry['baseline']}", *map(with_interval, entry["by_range"]))
        for entry in contrasts
    ]
    return Table(
        ("contrast", *ranges),
        rows,
        f"The difference in BLEU in every range minus that at {contrasts[0]['short']['range']}",
    )


def _primary_sentences(results: Results, primary: Mapping[str, Any]) -> list[str]:
    value = primary["difference_of_differences"]
    long, short = primary["long"]["range"], primary["short"]["range"]
    texts = [
        f"Primary statistic: ({primary['system']} − {primary['baseline']} at {long}) − "
        f"({primary['system']} − {primary['baseline']} at {short}) = {with_interval(value)} BLEU."
    ]
    if value["low"] is not None and value["low"] <= 0 <= value["high"]:
        texts.append(
            "The expectation fails: the interval includes 0, so these runs do not show that the "
            "gap between the two changes with input length."
        )
    elif value["high"] is not None and value["high"] < 0:
        texts.append(
            "The expectation fails: the gap is smaller on long inputs than on short ones, against "
            "what a bottleneck would do."
        )
    joined = results["task"]["most_joined"] or {}
    if results["split"] == "test_joined" and joined.get("test", 1) > joined.get("train", 1):
        texts.append(
            f"Training joined {joined.get('train', 1)} sentences at most and the test set "
            f"{joined['test']}: the longest inputs are also of a new kind."
        )
    texts += _other_budgets(results, primary["baseline"], long)
    table = results["splits"][results["split"]]["systems"]
    first = table[primary["baseline"]]["buckets"][0]
    if results["task"]["data"] != "grammar":
        texts += _behind_on_short(results, primary)
    elif first["bleu"]["value"] < TRAINED_BLEU:
        texts.append(_under_training(results, primary["baseline"], long))
    fewest = min(
        b["num_sentences"]
        for b in table[primary["baseline"]]["buckets"]
        if b["range"] in (long, short)
    )
    if fewest < FEW_SENTENCES:
        texts.append(f"One of the two ranges holds {fewest} sentences only.")
    return texts


def _behind_on_short(results: Results, primary: Mapping[str, Any]) -> list[str]:
    """Says how far the baseline is behind on short inputs, where no bottleneck should show."""
    if primary["short"]["low"] is None or primary["short"]["low"] <= 0:
        return []
    table = results["splits"][results["split"]]["systems"]
    ours, theirs = (
        table[primary[k]]["buckets"][0]["bleu"]["value"] for k in ("baseline", "system")
    )
    return [
        f"Under-training is not excluded: at {primary['short']['range']} {primary['baseline']} has "
        f"{number(ours)} BLEU where {primary['system']} has {number(theirs)}; part of its loss on "
        "long inputs may be missing training instead of a bottleneck."
    ]


def _under_training(results: Results, baseline: str, long: str) -> str:
    """Says what a baseline that fails short inputs leaves open, and which other one learnt them."""
    table = results["splits"][results["split"]]["systems"]
    first = table[baseline]["buckets"][0]
    mark = (
        f"{baseline} reaches {number(first['bleu']['value'])} BLEU at {first['range']}, below "
        f"{TRAINED_BLEU:.0f}, the mark for having learnt short inputs; part of its loss on long "
        "ones may be missing training instead of a bottleneck"
    )
    constants = [s["label"] for s in results["systems"] if s["role"] == "constant"]
    scores = {
        label: {b["range"]: b["bleu"]["value"] for b in table[label]["buckets"]}
        for label in constants
    }
    trained = [label for label in constants if scores[label][first["range"]] >= TRAINED_BLEU]
    if not trained:
        return f"Under-training is not excluded: {mark}."
    falls = (
        f"{label} passes the mark and has {number(scores[label][long])} at {long}"
        for label in trained
    )
    return f"{mark}. But {'; '.join(falls)}."


def _other_budgets(results: Results, baseline: str, long: str) -> list[str]:
    """Says what the other systems with one constant context score at both ends."""
    table = results["splits"][results["split"]]["systems"]
    parts = []
    for system in results["systems"]:
        if system["role"] == "constant" and system["label"] != baseline:
            scores = {b["range"]: b["bleu"] for b in table[system["label"]]["buckets"]}
            first = next(iter(scores))
            parts.append(
                f"{system['label']} ({number(system['updates'], 0)} updates) "
                f"{with_interval(scores[first])} at {first}, {with_interval(scores[long])} at "
                f"{long}"
            )
    return [f"Other systems with one constant context: {'; '.join(parts)}."] if parts else []
