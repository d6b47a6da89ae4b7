"""Checks of the options of a model: one sentence naming the option, its value and the range."""

from __future__ import annotations

from collections.abc import Sequence


def check_size(name: str, value: object, *, least: int = 1) -> None:
    """Refuses a size that is not a whole number of at least `least`.

    Raises:
        ValueError: `value` is not such a number.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}")


def check_dropout(name: str, value: object) -> None:
    """Refuses a dropout rate outside [0, 1).

    Raises:
        ValueError: `value` is not a number in that range.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a number in [0, 1)")


def check_flag(name: str, value: object) -> None:
    """Refuses what is neither true nor false.

    Raises:
        ValueError: `value` is something else.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it must be true or false")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuses a value that is not one of the `choices`.

    Raises:
        ValueError: `value` is none of them.
    """
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")


def check_divides(name: str, value: int, of_name: str, of_value: int) -> None:
    """Refuses a size that does not divide another one.

    Raises:
        ValueError: `value` does not divide `of_value`.
    """
    if of_value % value:
        raise ValueError(f"{name} is {value}; it must divide {of_name}, which is {of_value}")
