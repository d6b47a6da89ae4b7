"""The tables of docs/attention.md and docs/attention.zh.md, between their markers."""

from collections.abc import Mapping, Sequence
from typing import Any

from nmt.checks import UserError

LEFT_OUT = "–"
_STEPS = 4  # between the lengths that are shown

_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "mechanism": "mechanism",
        "operations": "operations",
        "sequential": "sequential steps",
        "path": "longest path, n = 512",
        "never": "never",
        "time": "time, n = {}",
        "memory": "memory, n = {}",
        "exponents": "exponent of n: time / memory",
        "limit memory": "too much memory",
        "limit time": "too slow",
        "measured": "One layer, width {width}, 8 heads, one sentence, forward and backward, the "
        "median of {rounds}; {device}, threads: {threads}, torch {torch}.",
        "unmeasured": "*Not measured yet.*",
        "setup": "{updates:,} updates, {training}; seeds averaged: {seeds}.",
        "alone": "training pairs not joined",
        "several": "training pairs joined, so many at a time: {}",
        "encoder": "`encoder_attention`",
        "positions": "`positions`",
        "probe": "60-80 words, joined",
        "probe alone": "the same, alone",
        "joined": "`test_joined`, {}",
    },
    "zh": {
        "mechanism": "机制",
        "operations": "运算量",
        "sequential": "顺序步数",
        "path": "最长路径，n = 512",
        "never": "不可达",
        "time": "时间，n = {}",
        "memory": "内存，n = {}",
        "exponents": "n 的指数：时间 / 内存",
        "limit memory": "内存超限",
        "limit time": "时间超限",
        "measured": "单层，宽度 {width}，8 个头，一个句子，前向加反向，{rounds} 次的中位数；"
        "{device}，线程数 {threads}，torch {torch}。",
        "unmeasured": "*尚未测量。*",
        "setup": "{updates:,} 次更新，{training}；取平均的随机种子数：{seeds}。",
        "alone": "训练句对不拼接",
        "several": "训练句对每次拼接的个数：{}",
        "encoder": "`encoder_attention`",
        "positions": "`positions`",
        "probe": "60-80 词，拼接",
        "probe alone": "同样的句子，单独翻译",
        "joined": "`test_joined`，{} 句",
    },
}


def replace_between(text: str, name: str, content: str) -> str:
    """Returns a page with what stands between the markers of a table replaced.

    Raises:
        UserError: There are no such markers.
    """
    start, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise UserError(f"The page needs one line {start.strip()!r} and one {end!r}.")
    before, rest = text.split(start)
    return f"{before}{start}{content}{end}{rest.split(end)[1]}"


def cost_tables(cost: Mapping[str, Any], language: str) -> str:
    """Returns what is known of each mechanism's cost, and what was measured of it.

    Args:
        cost: what `scripts/benchmark.py attention` wrote.
        language: "en" or "zh".
    """
    words, series = _WORDS[language], cost["figures"]["series"]
    theory = [
        [name, f"O({each['operations']})", f"O({each['sequential']})", _path(each, words)]
        for name, each in series.items()
    ]
    theory_head = [words[key] for key in ("mechanism", "operations", "sequential", "path")]
    lengths = _shown_lengths(series)
    measured = [
        [name, *_points(each, lengths, words), _exponents(each)] for name, each in series.items()
    ]
    head = [words["mechanism"]]
    head += [words[key].format(f"{n:,}") for key in ("time", "memory") for n in lengths]
    caption = words["measured"].format(
        **{key: cost["options"][key] for key in ("width", "rounds", "threads")},
        device=cost["figures"]["device"],
        torch=cost["versions"]["torch"],
    )
    return "\n".join(
        [_table(theory_head, theory), caption, "", _table([*head, words["exponents"]], measured)]
    )


def _shown_lengths(series: Mapping[str, Any]) -> list[int]:
    """Returns the longest length of any series, and those each 4 times shorter: three at most."""
    lengths = {point["length"] for each in series.values() for point in each["points"]}
    longest = max(lengths)
    wanted = [longest // _STEPS**2, longest // _STEPS, longest]
    return [length for length in wanted if length in lengths]


def _points(each: Mapping[str, Any], lengths: Sequence[int], words: Mapping[str, str]) -> list[str]:
    points = {point["length"]: point["both"] for point in each["points"]}
    reason = (each["stopped"] or "").rpartition(" at ")[0]
    missing = words.get(f"limit {reason}", reason) or LEFT_OUT
    times = [f"{1000 * points[n]['seconds']:.3g} ms" if n in points else missing for n in lengths]
    memory = [f"{points[n]['mib']:.3g} MiB" if n in points else missing for n in lengths]
    return [_plain(cell) for cell in times + memory]


def _plain(cell: str) -> str:
    """Writes 1.23e+03 as 1,230."""
    number, _, unit = cell.partition(" ")
    return f"{float(number):,.0f} {unit}" if "e+" in number else cell


def _exponents(each: Mapping[str, Any]) -> str:
    fitted = [each["fitted"][quantity] for quantity in ("seconds", "mib")]
    return " / ".join(LEFT_OUT if value is None else f"{value:.2f}" for value in fitted)


def _path(each: Mapping[str, Any], words: Mapping[str, str]) -> str:
    return words["never"] if each["path_length"] is None else str(each["path_length"])


def bleu_tables(bleu: Mapping[str, Any] | None, language: str) -> str:
    """Returns a table for each way of training, a row for each pair of options.

    Args:
        bleu: what `pages.runs.read_runs` returned; None: nothing was measured.
        language: "en" or "zh".
    """
    words = _WORDS[language]
    if bleu is None:
        return words["unmeasured"] + "\n"
    setups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for run in bleu["runs"]:
        setups.setdefault((run["updates"], run["joined_in_training"]), []).append(run)
    return "\n".join(_bleu_table(runs, words) for runs in setups.values())


def _bleu_table(runs: Sequence[Mapping[str, Any]], words: Mapping[str, str]) -> str:
    columns = {"test": "`test`", "test_long": "`test_long`"}
    columns |= {key: words[key] for key in ("probe", "probe alone")}
    counts = sorted(
        {int(key.split()[1]) for run in runs for key in run["bleu"] if "joined " in key}
    )
    columns |= {f"joined {count}": words["joined"].format(count) for count in counts}
    columns = {k: v for k, v in columns.items() if any(k in run["bleu"] for run in runs)}
    groups: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for run in runs:
        key = (run["encoder_attention"], run["positions"])
        groups.setdefault(key, []).append(run["bleu"])
    rows = [
        [*(f"`{option}`" for option in key), *(_mean(scores, column) for column in columns)]
        for key, scores in groups.items()
    ]
    joined = runs[0]["joined_in_training"]
    caption = words["setup"].format(
        updates=runs[0]["updates"],
        training=words["several"].format(joined) if joined else words["alone"],
        seeds=", ".join(sorted({str(len(scores)) for scores in groups.values()})),
    )
    head = [words["encoder"], words["positions"], *columns.values()]
    return f"{caption}\n\n{_table(head, rows)}"


def _mean(scores: Sequence[Mapping[str, float]], column: str) -> str:
    found = [score[column] for score in scores if column in score]
    return f"{sum(found) / len(found):.1f}" if len(found) == len(scores) else LEFT_OUT


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
