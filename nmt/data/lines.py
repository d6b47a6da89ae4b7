"""Reads the lines of local files.

One meaning of "a line" everywhere: only LF or CRLF ends it. U+2028, U+0085, a lone CR, 0x0B and
0x1C are characters like any other.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

_BOM = b"\xef\xbb\xbf"


def read_lines(path: str | Path) -> list[str]:
    """Returns `iterate_lines` as a list."""
    return list(iterate_lines(path))


def iterate_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, decompressed if its name ends in `.gz`.

    A byte order mark is removed, and a final line without a line end is a line.

    Raises:
        ValueError: No such file, damaged gzip, or invalid UTF-8 (naming file and line).
    """
    with _opened(Path(path)) as file:
        for number, line in enumerate(file, 1):
            line = line.removeprefix(_BOM) if number == 1 else line
            if not line:
                return  # a mark and nothing else
            if line.endswith(b"\n"):
                line = line[:-1].removesuffix(b"\r")
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError:
                raise ValueError(
                    f"{path}, line {number} is not valid UTF-8; convert the file to UTF-8 first."
                ) from None


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    """Opens a file, plain or compressed, and says what is wrong with it when it cannot be read."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise ValueError(
            f"There is no file {path} (relative paths start at {Path.cwd()}); check the path."
        ) from None
    except (zlib.error, EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be read ({error}); get the file again.") from error
