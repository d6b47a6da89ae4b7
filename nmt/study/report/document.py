"""The parts of a report: sections of texts, tables and figures, and how numbers are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Rows of texts under column names; numeric ones are set flush right after the first column."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    is_numeric: bool = True

    @property
    def rule(self) -> str:
        """The line below the head of a Markdown table."""
        right = "---:|" if self.is_numeric else "---|"
        return "|---|" + right * (len(self.columns) - 1)


@dataclass(frozen=True)
class FigureReference:
    """A figure by the name of its files, and what it shows."""

    name: str
    caption: str


@dataclass(frozen=True)
class Section:
    """Paragraphs, figures, tables, paragraphs and a list, in this order."""

    title: str
    before: Sequence[str] = ()
    figures: Sequence[FigureReference] = ()
    tables: Sequence[Table] = ()
    after: Sequence[str] = ()
    items: Sequence[str] = ()
    is_box: bool = False


def number(value: float | None, digits: int = 1) -> str:
    """Formats a number for people: thousands apart, "–" for none."""
    if value is None:
        return "–"
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")  # + 0.0: no minus zero


def with_interval(found: Mapping[str, Any] | None) -> str:
    """Formats a value with its interval: "12.3 [11.0, 13.5]"."""
    if found is None or found["value"] is None:
        return "–"
    value, low, high = (number(found[key]) for key in ("value", "low", "high"))
    return f"{value}\u00a0[{low},\u00a0{high}]"  # no line break within


def shown_labels(results: Results) -> list[str]:
    """Returns the labels of the systems without memory slots, in order."""
    return [system["label"] for system in results["systems"] if system["shown"]]
