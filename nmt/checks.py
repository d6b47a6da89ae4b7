"""The only checks of values: one sentence that names the option, its value and what it must be.

A constructor calls them; nobody repeats what a constructor checks. All raise ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def at_least(name: str, value: Any, least: int = 1) -> None:
    """Refuses what is not a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}.")


def share(name: str, value: Any) -> None:
    """Refuses what is not a number in [0, 1): a rate of dropout or smoothing."""
    if not _is_number(value) or not 0 <= value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a number in [0, 1).")


def positive(name: str, value: Any, *, most: float = math.inf) -> None:
    """Refuses what is not a finite number above 0 (and at most `most`)."""
    if not _is_number(value) or not 0 < value <= most or math.isinf(value):
        limit = "" if math.isinf(most) else f" of at most {most}"
        raise ValueError(f"{name} is {value!r}; it must be a positive number{limit}.")


def between(name: str, value: Any, low: float, high: float) -> None:
    """Refuses what is not a number from `low` to `high`."""
    if not _is_number(value) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r}; it must be a number from {low} to {high}.")


def flag(name: str, value: Any) -> None:
    """Refuses what is neither true nor false: `no` in quotes would count as true."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it must be true or false.")


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuses a value that is not one of the `choices`."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}.")


def divides(name: str, value: int, of_name: str, of_value: int) -> None:
    """Refuses a size that does not divide another one."""
    if of_value % value:
        raise ValueError(f"{name} is {value}; it must divide {of_name}, which is {of_value}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
