"""The report of a comparison as Markdown and as one HTML file, from `results.json` alone."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from nmt.evaluation.figures import save_figure
from nmt.study.figures.length import draw_by_length, draw_kinds, draw_train_by_length
from nmt.study.figures.probes import draw_bits, draw_heat_map, draw_joined, draw_nll
from nmt.study.figures.slots import draw_slots_by_length, draw_words_per_vector
from nmt.study.report import details, limits, probes, sections, slots
from nmt.study.report.document import Section

# What stands in Markdown for itself, not for emphasis, a link or a table.
_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\`*_[]<>|#~$"})


def write_report(directory: Path, results: Mapping[str, Any]) -> list[Path]:
    """Draws all figures and writes `report.md` and `report.html`.

    Args:
        directory: An existing folder.
        results: As `nmt.study.comparison.results.read_results` gives them.

    Returns:
        The files written.
    """
    figures = _draw_figures(directory, results)
    content = {
        "title": _title(results),
        "sections": _sections(results),
        "warnings": results["warnings"],
    }
    environment = Environment(
        loader=PackageLoader("nmt.study.report"),
        autoescape=lambda name: name is not None and "html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = _escape_markdown
    environment.filters["inline"] = lambda name: _inline(directory / f"{name}.svg")
    written = []
    for name in ("report.md", "report.html"):
        path = directory / name
        text = environment.get_template(f"{name}.jinja").render(content)
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return [*written, *figures]


def _sections(results: Mapping[str, Any]) -> list[Section]:
    found = [
        sections.headline(results),
        sections.systems_table(results),
        sections.primary_statistic(results),
        details.paired_tests(results),
        details.regression(results),
        details.kinds(results),
        probes.joined(results),
        slots.slots(results),
        probes.train(results),
        probes.nll(results),
        probes.bits(results),
        probes.attention(results),
        probes.example(results),
        limits.context(),
        limits.limits(results),
        details.per_range(results),
    ]
    return [section for section in found if section is not None]


def _draw_figures(directory: Path, results: Mapping[str, Any]) -> list[Path]:
    figures = {
        "bleu_by_length": draw_by_length(results),
        "chrf_by_length": draw_by_length(results, metric="chrf"),
    }
    for key, drawn in (
        ("kinds", {"bleu_by_kind": draw_kinds}),
        ("joined", {"joined_inputs": draw_joined}),
        (
            "slots",
            {"slots_by_length": draw_slots_by_length, "words_per_vector": draw_words_per_vector},
        ),
        ("train", {"training_sentences": draw_train_by_length}),
        ("nll", {"loss_by_position": draw_nll}),
        ("bits", {"bleu_by_bits": draw_bits}),
    ):
        if results[key] is not None:
            figures |= {name: draw(results) for name, draw in drawn.items()}
    for entry in results["attention"] or ():
        figures[f"attention_{entry['index']}"] = draw_heat_map(entry)
    return [
        path for name, figure in figures.items() for path in save_figure(figure, directory, name)
    ]


def _title(results: Mapping[str, Any]) -> str:
    task = results["task"]
    data = f"{task['data']}, " if task["data"] else ""
    return f"Translation quality by input length: {data}{task['source_lang']}-{task['target_lang']}"


def _escape_markdown(text: str) -> str:
    return " ".join(str(text).split()).translate(_MARKDOWN)


def _inline(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
