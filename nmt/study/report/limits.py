"""The sections of the report on literature and on what was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nmt.study.report.document import Results, Section, Table, shown_labels

SMALL_MODEL = 20_000_000

_CONTEXT = (
    ("Bahdanau et al. 2015, RNNencdec-30 / -50", "WMT14 En-Fr, tokenised BLEU", "13.93 / 17.82"),
    ("Bahdanau et al. 2015, RNNsearch-30 / -50", "WMT14 En-Fr, tokenised BLEU", "21.50 / 26.75"),
    ("Britz et al. 2017, without attention", "equal parameters", "9.98 to 11.57"),
    ("Britz et al. 2017, with attention", "equal parameters", "22.47"),
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
            "The budgets are those of the table: the order of the systems may differ with more "
            "training, and a longer input also has more places for errors."
        )
    items.append("BLEU and chrF count matching n-grams; nobody read and judged the translations.")
    return Section("What this does not show", items=items, is_box=True)


def _parameters(system: Mapping[str, Any]) -> int:
    return (system["embedding_parameters"] or 0) + (system["other_parameters"] or 0)
