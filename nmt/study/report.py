"""What a comparison found: one plain dict, `results.json`, and the report drawn from it.

Figures and report come from this dict alone, so that the committed numbers redraw them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from nmt.checks import UserError
from nmt.evaluation.figures import save_figure
from nmt.evaluation.results import read_objects
from nmt.study.findings import FINDINGS
from nmt.study.presentation import Results, Section, Table, shown_labels
from nmt.study.statistics import BOOTSTRAP_SEED, COVERAGE, NUM_RESAMPLES
from nmt.study.systems import read_comparison

VERSION = 2  # of results.json
SMALL_MODEL = 20_000_000
FEW_SEEDS = 5
# What stands in Markdown for itself, not for emphasis, a link or a table.
_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\`*_[]<>|#~$"})
_CONTEXT = (
    ("Bahdanau et al. 2015, RNNencdec-30 / -50", "WMT14 En-Fr, tokenised BLEU", "13.93 / 17.82"),
    ("Bahdanau et al. 2015, RNNsearch-30 / -50", "WMT14 En-Fr, tokenised BLEU", "21.50 / 26.75"),
    ("Britz et al. 2017, without attention", "equal parameters", "9.98 to 11.57"),
    ("Britz et al. 2017, with attention", "equal parameters", "22.47"),
)


def compare(paths: Sequence[Path], *, split: str = "test") -> dict[str, Any]:
    """Compares the runs in some folders on a split.

    Args:
        paths: Run folders, or folders that hold some.
        split: The split to compare on. Where all runs have `<split>_long` as well, it is measured
            by itself and never mixed with it.

    Raises:
        UserError: if the runs cannot be compared, or files are damaged.
    """
    comparison = read_comparison(paths, split=split)
    facts = comparison.systems[0].metrics[split]
    results: dict[str, Any] = {
        "version": VERSION,
        "split": split,
        "task": comparison.task,
        "signatures": {  # all is scored with the n-gram orders there are
            "BLEU": facts["signature"].replace("eff:no", "eff:yes"),
            "chrF": facts["chrf_signature"],
        },
        "bootstrap": {
            "seed": BOOTSTRAP_SEED,
            "resamples": NUM_RESAMPLES,
            "coverage": COVERAGE,
            "seeds": "t",  # in older files seeds were resampled
            "documents": comparison.main.has_documents,
        },
        "warnings": comparison.warnings,
    }
    for finding in FINDINGS:
        results |= finding.score(comparison)
    return plain(results)


def plain(results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what reading `results.json` gives: floats of six digits, no tuples."""
    return dict(json.loads(json.dumps(_rounded(results), allow_nan=False)))


def write_results(path: Path, results: Mapping[str, Any]) -> Path:
    """Writes `results.json`, on one line, and returns its path."""
    text = json.dumps(results, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
    return path


def read_results(path: Path) -> dict[str, Any]:
    """Reads `results.json`.

    Raises:
        UserError: if it is missing, damaged, or of another version.
    """
    (results,) = read_objects(path, "name a results.json or compare the runs again")
    if results.get("version") != VERSION:
        raise UserError(
            f"{path} has version {results.get('version')!r}, not {VERSION}; name a results.json "
            "that this program wrote or compare the runs again."
        )
    return results


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(round(value)) if 1e5 < abs(value) < 1e15 else float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    return value


def write_report(directory: Path, results: Results) -> list[Path]:
    """Draws all figures and writes `report.md` and `report.html`.

    Args:
        directory: An existing folder.
        results: As `read_results` gives them.

    Returns:
        The files written.
    """
    figures = [
        path
        for finding in FINDINGS
        if finding.is_in(results)
        for name, figure in finding.draw(results).items()
        for path in save_figure(figure, directory, name)
    ]
    task = results["task"]
    data = f"{task['data']}, " if task["data"] else ""
    languages = f"{task['source_lang']}-{task['target_lang']}"
    content = {
        "title": f"Translation quality by input length: {data}{languages}",
        "sections": _sections(results),
        "warnings": results["warnings"],
    }
    environment = Environment(
        loader=PackageLoader("nmt.study"),
        autoescape=lambda name: name is not None and "html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = lambda text: " ".join(str(text).split()).translate(_MARKDOWN)
    environment.filters["inline"] = lambda name: _inline(directory / f"{name}.svg")
    written = []
    for name in ("report.md", "report.html"):
        path = directory / name
        text = environment.get_template(f"{name}.jinja").render(content)
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return [*written, *figures]


def _inline(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def _sections(results: Results) -> list[Section]:
    there = [finding for finding in FINDINGS if finding.is_in(results)]
    found = [section for finding in there for section in finding.tell(results)]
    found += [
        _context(),
        Section("What this does not show", items=[*_limits(results)], is_box=True),
    ]
    return sorted(found, key=lambda section: section.is_appendix)


def _context() -> Section:
    return Section(
        "Context, not ours",
        [
            "These published figures are on other data and at other scales. They do not compare "
            "with the figures above."
        ],
        tables=[Table(("system", "setting", "BLEU"), _CONTEXT, is_numeric=False)],
        after=[
            "Bahdanau, Cho and Bengio (2015), Neural Machine Translation by Jointly Learning to "
            "Align and Translate. Britz, Goldie, Luong and Le (2017), Massive Exploration of "
            "Neural Machine Translation Architectures."
        ],
    )


def _limits(results: Results) -> Iterator[str]:
    task, systems = results["task"], results["systems"]
    sizes = [(s["embedding_parameters"] or 0) + (s["other_parameters"] or 0) for s in systems]
    if 0 < max(sizes) < SMALL_MODEL:
        yield f"The models are small: {max(sizes):,} parameters at most."
    if task.get("generated", bool(results["alignment"])):  # older files do not say it
        yield (
            "The text is from a controlled grammar with a small vocabulary and one right "
            "translation of every sentence. It is not natural language."
        )
    yield f"There is one corpus and one language pair, {task['source_lang']}-{task['target_lang']}."
    counts = {len(system["seeds"]) for system in systems}
    if min(counts) < FEW_SEEDS:
        seeds = "1 seed" if min(counts) == 1 else f"{min(counts)} seeds"
        of_which = "some systems" if len(counts) > 1 else "each system"
        yield f"There are few trainings: {seeds} of {of_which}."
    if len(shown_labels(results)) > 1:
        yield (
            "The budgets are those of the table: the order of the systems may differ with more "
            "training. A longer input also has more places for errors."
        )
    yield "BLEU and chrF count matching n-grams. Nobody read and judged the translations."
