"""The one error of a user, the one place that turns it into a line, and the checks of values.

What a user can mend is raised as a `UserError` and printed as one line on stderr, exit status 1.
Anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

FULL_ERROR = "HYDRA_FULL_ERROR"  # "1" in the environment: every error with its traceback


class UserError(ValueError):
    """What the user can mend, in one sentence: the value, what was expected, the remedy."""


def flag_main(task: Callable[[Sequence[str] | None], int | None]) -> Callable[..., int]:
    """Makes a function of command-line arguments a program; what it returns is the status."""

    @functools.wraps(task)
    def program(argv: Sequence[str] | None = None) -> int:
        try:
            return task(argv) or 0
        except (Exception, KeyboardInterrupt) as error:
            status = None if os.environ.get(FULL_ERROR) == "1" else status_of(error)
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
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 128 + 2
    if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    message = _sentence(error)
    if message is None:
        return None
    print(f"error{where}:", " ".join(message.split()), file=sys.stderr)
    return 1


def user_error(error: BaseException | None) -> UserError | None:
    """Returns the `UserError` that caused an error; Hydra wraps those of constructors."""
    while error is not None and not isinstance(error, UserError):
        error = error.__cause__
    return error


def _sentence(error: BaseException) -> str | None:
    if cause := user_error(error):
        return str(cause)
    if isinstance(error, OSError):  # the system does not give a file
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return None


def at_least(name: str, value: Any, least: int = 1) -> None:
    """Refuses what is not a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(f"{name} is {value!r}; it must be a whole number of at least {least}.")


def share(name: str, value: Any) -> None:
    """Refuses what is not a number in [0, 1): a rate of dropout or smoothing."""
    if not _is_number(value) or not 0 <= value < 1:
        raise UserError(f"{name} is {value!r}; it must be a number in [0, 1).")


def positive(name: str, value: Any, *, most: float = math.inf) -> None:
    """Refuses what is not a finite number above 0 (and at most `most`)."""
    if not _is_number(value) or not 0 < value <= most or math.isinf(value):
        limit = "" if math.isinf(most) else f" of at most {most}"
        raise UserError(f"{name} is {value!r}; it must be a positive number{limit}.")


def between(name: str, value: Any, low: float, high: float) -> None:
    """Refuses what is not a number from `low` to `high`."""
    if not _is_number(value) or not low <= value <= high:
        raise UserError(f"{name} is {value!r}; it must be a number from {low} to {high}.")


def flag(name: str, value: Any) -> None:
    """Refuses what is neither true nor false: `no` in quotes would count as true."""
    if not isinstance(value, bool):
        raise UserError(f"{name} is {value!r}; it must be true or false.")


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuses a value that is not one of the `choices`."""
    if value not in choices:
        raise UserError(f"{name} is {value!r}; it must be one of {', '.join(choices)}.")


def divides(name: str, value: int, of_name: str, of_value: int) -> None:
    """Refuses a size that does not divide another one."""
    if of_value % value:
        raise UserError(f"{name} is {value}; it must divide {of_name}, which is {of_value}.")


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
