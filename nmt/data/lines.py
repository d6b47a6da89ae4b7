"""What a line of text is, for every file and pipe that is read.

UTF-8; only LF or CRLF ends a line: U+2028, U+0085, a lone CR, 0x0B and 0x1C are characters like any
other. A byte order mark at the beginning is removed. A final line without a line end is a line.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator

from nmt.checks import UserError

_NO_TEXT = {
    codecs.BOM_UTF16_LE: "UTF-16: convert it with iconv -f UTF-16 -t UTF-8",
    codecs.BOM_UTF16_BE: "UTF-16: convert it with iconv -f UTF-16 -t UTF-8",
    b"\x1f\x8b": "compressed: name the file .gz, or pipe it through zcat",
}


def decode_lines(
    stream: Iterable[bytes],
    damaged: Callable[[int, UnicodeDecodeError], None],
    *,
    name: str = "the text",
) -> Iterator[str]:
    """Yields the lines of a stream of bytes without their ends.

    Args:
        stream: Of bytes, line by line.
        damaged: Is told the number of a line that is not UTF-8 and what is wrong with it. Unless
            it raises, what is not UTF-8 becomes U+FFFD.
        name: Of the stream, for messages.
    """
    for number, line in enumerate(stream, 1):
        if number == 1:
            for start, fault in _NO_TEXT.items():
                if line.startswith(start):
                    raise UserError(f"{name} is {fault}.")
            line = line.removeprefix(codecs.BOM_UTF8)
            if not line:
                return  # a mark and nothing else
        text = line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
        try:
            yield text.decode("utf-8")
        except UnicodeDecodeError as error:
            damaged(number, error)
            yield text.decode("utf-8", errors="replace")
