"""The files of the translate program: opened, plain or compressed, and not written over."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import sys
from pathlib import Path
from typing import IO, Literal, cast

_READ = ("input", "prefix", "score", "checkpoint", "check_language")


def open_bytes(path: str | Path, mode: Literal["rb", "wb"]) -> IO[bytes]:
    """Opens a file, a compressed one where its name ends in .gz.

    Raises:
        ValueError: It cannot be opened.
    """
    try:
        opened = gzip.open(path, mode) if Path(path).suffix == ".gz" else open(path, mode)  # noqa: SIM115
    except OSError as error:
        raise ValueError(f"{path} cannot be opened: {error.strerror}.") from error
    return cast(IO[bytes], opened)


def open_input(path: str | None, stack: contextlib.ExitStack) -> IO[bytes]:
    """Returns the text to translate: a file, which `stack` closes, or standard input.

    Raises:
        ValueError: It cannot be opened, or is closed.
    """
    if path is not None:
        return stack.enter_context(open_bytes(path, "rb"))
    if sys.stdin is None:
        raise ValueError("standard input is closed: give --input FILE.")
    return sys.stdin.buffer


def open_output(options: argparse.Namespace, stack: contextlib.ExitStack) -> IO[bytes]:
    """Returns where translations go: a file, which `stack` closes, or standard output.

    Raises:
        ValueError: It cannot be opened, is closed, or as `check_output`.
    """
    if options.output is None:
        if sys.stdout is None:
            raise ValueError("standard output is closed: give --output FILE.")
        return sys.stdout.buffer
    check_output(options)
    return stack.enter_context(open_bytes(options.output, "wb"))


def check_output(options: argparse.Namespace) -> None:
    """Looks at `options.output`, a path, before anything is written.

    Raises:
        ValueError: It is a directory, or a file that is read from too.
    """
    if os.path.isdir(options.output):
        raise ValueError(f"{options.output} is a directory: give the name of a file.")
    if not os.path.exists(options.output):
        return
    for path in (getattr(options, name) for name in _READ):
        if path is not None and os.path.exists(path) and os.path.samefile(path, options.output):
            raise ValueError(f"{options.output} is read from too: write to another file.")
