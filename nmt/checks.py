"""The one error of a user, the one place that turns it into a line, and the checks of values.

What a user can mend is raised as a `UserError` and printed as one line on stderr, exit status 1.
Anything else is a bug and keeps its traceback. `HYDRA_FULL_ERROR=1` shows all tracebacks.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any


class UserError(ValueError):
    """What the user can mend, in one sentence: the value, what was expected, the remedy."""


def flag_main(task: Callable[[Sequence[str] | None], int | None]) -> Callable[..., int]:
    """Makes a function of command-line arguments a program; what it returns is the status."""

    @functools.wraps(task)
    def program(argv: Sequence[str] | None = None) -> int:
        try:
            return task(argv) or 0
        except (Exception, KeyboardInterrupt) as error:
            status = status_of(error)
            if status is None:
                raise
            return status

    return program


def status_of(error: BaseException, *, where: str = "") -> int | None:
    """Prints one line about an error that the user can mend and returns the exit status, or None.

    Args:
        error: What ended the program, or a job of a sweep.
        where: The job.
    """
    if os.environ.get("HYDRA_FULL_ERROR") == "1":  # every error with its traceback
        return None
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 128 + 2
    if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    if cause := user_error(error):
        message = str(cause)
    elif isinstance(error, OSError):  # the system does not give a file
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    else:
        return None
    print(f"error{where}:", " ".join(message.split()), file=sys.stderr)
    return 1


def user_error(error: BaseException | None) -> UserError | None:
    """Returns the `UserError` that caused an error; Hydra wraps those of constructors."""
    while error is not None and not isinstance(error, UserError):
        error = error.__cause__
    return error


def at_least(name: str, value: Any, least: int = 1) -> None:
    """Refuses what is not a whole number of at least `least`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    _require(whole and value >= least, name, value, f"be a whole number of at least {least}")


def share(name: str, value: Any) -> None:
    """Refuses what is not a number in [0, 1): a rate of dropout or smoothing."""
    _require(_is_number(value) and 0 <= value < 1, name, value, "be a number in [0, 1)")


def positive(name: str, value: Any, *, most: float = math.inf) -> None:
    """Refuses what is not a finite number above 0 (and at most `most`)."""
    limit = "" if math.isinf(most) else f" of at most {most}"
    inside = _is_number(value) and 0 < value <= most and not math.isinf(value)
    _require(inside, name, value, f"be a positive number{limit}")


def between(name: str, value: Any, low: float, high: float) -> None:
    """Refuses what is not a number from `low` to `high`."""
    inside = _is_number(value) and low <= value <= high
    _require(inside, name, value, f"be a number from {low} to {high}")


def flag(name: str, value: Any) -> None:
    """Refuses what is neither true nor false: `no` in quotes would count as true."""
    _require(isinstance(value, bool), name, value, "be true or false")


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuses a value that is not one of the `choices`."""
    _require(value in choices, name, value, f"be one of {', '.join(choices)}")


def divides(name: str, value: int, of_name: str, of_value: int) -> None:
    """Refuses a size that does not divide another one."""
    _require(of_value % value == 0, name, value, f"divide {of_name}, which is {of_value}")


def _require(fits: bool, name: str, value: Any, wanted: str) -> None:
    if not fits:
        raise UserError(f"{name} is {value!r}; it must {wanted}.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def dotted(options: Any, prefix: str = "") -> dict[str, Any]:
    """Returns nested options under their full names: `model.dropout`."""
    if not isinstance(options, dict):
        return {prefix: options}
    found: dict[str, Any] = {}
    for key, value in options.items():
        found |= dotted(value, f"{prefix}.{key}" if prefix else str(key))
    return found
