"""Translates lines of text; the program behind `scripts/translate.py` and `nmt-translate`.

One line in, one line out, in order. The format, whatever the locale:

* UTF-8. Bytes that are not become U+FFFD, with a warning that names the line. A byte order mark
  at the beginning is removed.
* Only LF or CRLF ends a line; lines are written with LF. A final line without a line end counts.
* A blank line stays blank.
* With `--num-hypotheses N`, N > 1, up to N lines for every input line, best first:
  line number (from 1), TAB, score, TAB, translation.

Nothing but translations goes to standard output; warnings and errors go to standard error. Exit
status: 0 when every line was translated, 1 when not, 2 for a usage error.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import logging
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from nmt.cli.sharding import launched, translate_share

if TYPE_CHECKING:
    from nmt.decoding.hypothesis import Search
    from nmt.export.engine import ExportedTranslator
    from nmt.translator import Translation, Translator

_PROGRAM = "nmt-translate"
_BOM = b"\xef\xbb\xbf"
logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    options = _parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, format=f"{_PROGRAM}: %(message)s")
    try:
        if launched():
            translate_share(options, _run)
        else:
            _run(options)
    except BrokenPipeError:
        # Whoever read the translations has seen enough. Python would complain when it
        # flushes standard output at exit, so that goes nowhere from here on.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13  # as if SIGPIPE had ended it
    except KeyboardInterrupt:
        return 128 + 2
    except (ValueError, OSError, EOFError, zlib.error) as error:
        print(f"{_PROGRAM}: error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Translates lines of text: one line in, one line out, in order, UTF-8.",
    )
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", help="a .ckpt file written by training")
    add("--input", metavar="FILE", help="text to translate, .gz too (default: standard input)")
    add("--output", metavar="FILE", help="where translations go (default: standard output)")
    add("--beam-size", type=int, metavar="N", help="1 is greedy search (default: as trained)")
    add("--length-penalty", type=float, metavar="X", help="score = log p / length^X")
    add("--num-hypotheses", type=int, metavar="N", help="alternatives for every line")
    add("--max-length", type=int, metavar="N", help="most target tokens of a line")
    add("--max-length-ratio", type=float, metavar="X", help="the same for each source token (+10)")
    add("--min-length", type=int, metavar="N", help="fewest target tokens of a line")
    add("--max-source-length", type=int, default=1024, metavar="N", help="cut longer lines")
    add("--batch-tokens", type=int, default=4096, metavar="N", help="source tokens in a batch")
    add(
        "--chunk-size", type=int, default=2048, metavar="N", help="lines read ahead (default: 2048)"
    )
    add(
        "--engine",
        choices=("torch", "ctranslate2"),
        default="torch",
        help="ctranslate2: CHECKPOINT is a folder that scripts/export_ctranslate2.py wrote",
    )
    add("--device", default="auto", help="cpu, cuda, cuda:1, ... or auto (default)")
    add("--threads", type=int, metavar="N", help="CPU threads")
    parser.set_defaults(first_line=1)
    return parser


def _run(options: argparse.Namespace) -> None:
    import torch

    from nmt.decoding.hypothesis import check_at_least

    if options.threads is not None:
        check_at_least("threads", options.threads, 1)
        torch.set_num_threads(options.threads)
    with contextlib.ExitStack() as stack:
        source = _open_input(options.input, stack)
        interactive = options.chunk_size == 1 or source.isatty()
        translator = _translator(options)
        translations = translator.stream(
            read_lines(source, first=options.first_line),
            search=search_for(translator.search, options),
            batch_tokens=options.batch_tokens,
            max_source_length=options.max_source_length,
            chunk_size=1 if interactive else options.chunk_size,
        )
        target = _open_output(options, stack)
        for number, translation in enumerate(translations, options.first_line):
            for line in output_lines(translation, number, options.num_hypotheses):
                target.write(line.encode("utf-8") + b"\n")
            if interactive:
                target.flush()
        target.flush()


def _translator(options: argparse.Namespace) -> Translator | ExportedTranslator:
    if options.engine == "ctranslate2":
        from nmt.cli.exported import open_exported

        return open_exported(options, _parser())
    from nmt.translator import Translator

    return Translator.from_checkpoint(options.checkpoint, device=options.device)


def search_for(search: Any, options: argparse.Namespace) -> Search:
    """Returns the search of a checkpoint, changed as the options say.

    Raises:
        ValueError: An option is out of range.
    """
    from nmt.decoding.beam import BeamSearch

    given = {
        field.name: getattr(options, field.name)
        for field in fields(BeamSearch)
        if getattr(options, field.name) is not None
    }
    if given.keys() <= {field.name for field in fields(search)}:
        changed: Search = replace(search, **given)
        return changed
    return BeamSearch(**{**asdict(search), **given})


def read_lines(stream: Iterable[bytes], *, first: int = 1) -> Iterator[str]:
    """Yields the lines of UTF-8 bytes without their LF or CRLF, the byte order mark removed.

    Args:
        stream: Of bytes, line by line.
        first: The number of its first line in the whole text.
    """
    for number, line in enumerate(stream, first):
        if number == 1:
            line = line.removeprefix(_BOM)
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


def output_lines(translation: Translation, number: int, num_hypotheses: int | None) -> list[str]:
    """Returns what is printed for one input line.

    Args:
        translation: Of that line.
        number: Of that line, from 1.
        num_hypotheses: As asked for; None or 1 prints the translation alone.
    """
    if num_hypotheses is None or num_hypotheses == 1:
        return [translation.text]
    return [f"{number}\t{best.score:.6f}\t{best.text}" for best in translation.alternatives]


def _open_input(path: str | None, stack: contextlib.ExitStack) -> IO[bytes]:
    return sys.stdin.buffer if path is None else _open(path, "rb", stack)


def _open_output(options: argparse.Namespace, stack: contextlib.ExitStack) -> IO[bytes]:
    if options.output is None:
        return sys.stdout.buffer
    exist = options.input is not None and os.path.exists(options.output)
    if exist and os.path.samefile(options.input, options.output):
        raise ValueError(f"{options.output} is the input too: write to another file.")
    return _open(options.output, "wb", stack)


def _open(path: str, mode: Literal["rb", "wb"], stack: contextlib.ExitStack) -> IO[bytes]:
    try:
        opened = gzip.open(path, mode) if path.endswith(".gz") else open(path, mode)  # noqa: SIM115
    except OSError as error:
        raise ValueError(f"{path} cannot be opened: {error.strerror}.") from error
    return stack.enter_context(cast(IO[bytes], opened))
