"""Bytes to lines of text: what the translate program reads."""

from __future__ import annotations

import codecs
import logging
import sys
from collections.abc import Iterable, Iterator

_GZIP = b"\x1f\x8b"
logger = logging.getLogger(__name__)


def prompted(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Asks for each line on standard error."""
    lines = iter(lines)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = next(lines, None)
        if line is None:
            print(file=sys.stderr)
            return
        yield line


def read_lines(stream: Iterable[bytes], *, first: int = 1) -> Iterator[str]:
    """Yields the lines of UTF-8 bytes without their LF or CRLF, the byte order mark removed.

    Args:
        stream: Of bytes, line by line.
        first: The number of its first line in the whole text.

    Raises:
        ValueError: It begins as UTF-16 or compressed files do.
    """
    for number, line in enumerate(stream, first):
        if number == 1:
            _check_text(line)
            line = line.removeprefix(codecs.BOM_UTF8)
            if not line:
                return
        text = line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
        try:
            yield text.decode("utf-8")
        except UnicodeDecodeError as error:
            logger.warning(
                "line %d is not valid UTF-8 (byte %d): what is not becomes U+FFFD",
                number,
                error.start + 1,
            )
            yield text.decode("utf-8", errors="replace")


def _check_text(beginning: bytes) -> None:
    """Refuses what is no text at all; a damaged line in a text is only warned of."""
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("the text is UTF-16: convert it with iconv -f UTF-16 -t UTF-8.")
    if beginning.startswith(_GZIP):
        raise ValueError("the text is compressed: name the file .gz, or pipe it through zcat.")
