"""Translates lines of text; the program behind `scripts/translate.py` and `nmt-translate`.

One line in, one line out, in order. The format, whatever the locale:

* UTF-8. Bytes that are not become U+FFFD, with a warning that names the line. A byte order mark
  at the beginning is removed. UTF-16 is refused, and so is gzip unless the file is named .gz.
* Only LF or CRLF ends a line; lines are written with LF. A final line without a line end counts.
* A blank line stays blank.
* With `--num-hypotheses N`, N > 1, up to N lines for every input line, best first:
  line number (from 1), TAB, score, TAB, translation.
* With `--alignment`, TAB and the links after each translation: `source-target` pairs from 0.
* With `--score FILE` each line is the natural logarithm of p(translation | source), TAB, the
  perplexity of a token.

The score is log p / length^penalty, where length counts tokens and EOS: CTranslate2's formula.

Nothing else goes to standard output; warnings, errors, progress (where standard error is a
terminal) and the total of `--score` go to standard error. Where standard input is a terminal each
line is answered at once. Exit status: 0 when every line was translated, 1 when not, 2 for a usage
error.

The files of the translate program: opened, plain or compressed, and not written over.

Bytes to lines of text: what the translate program reads.

What `nmt.cli.translate --engine ctranslate2` does differently: the translator it opens.

The options of the translate program, and the search that they ask for.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import gzip
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from nmt.checks import UserError, flag_main
from nmt.export.engine import ExportedTranslator

if TYPE_CHECKING:
    from nmt.decoding.search import Search
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmt.alignment import pharaoh
from nmt.translator import Translation

if TYPE_CHECKING:
    from nmt.export.engine import ExportedTranslator
    from nmt.translator import TranslationScore, Translator

logger = logging.getLogger(__name__)


_READ = ("input", "prefix", "score", "checkpoint")


def open_bytes(path: str | Path, mode: Literal["rb", "wb"]) -> IO[bytes]:
    """Opens a file, a compressed one where its name ends in .gz.

    Raises:
        UserError: It cannot be opened.
    """
    try:
        opened = gzip.open(path, mode) if Path(path).suffix == ".gz" else open(path, mode)  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{path} cannot be opened: {error.strerror}.") from error
    return cast(IO[bytes], opened)


def open_input(path: str | None, stack: contextlib.ExitStack) -> IO[bytes]:
    """Returns the text to translate: a file, which `stack` closes, or standard input.

    Raises:
        UserError: It cannot be opened, or is closed.
    """
    if path is not None:
        return stack.enter_context(open_bytes(path, "rb"))
    if sys.stdin is None:
        raise UserError("standard input is closed: give --input FILE.")
    return sys.stdin.buffer


def open_output(options: argparse.Namespace, stack: contextlib.ExitStack) -> IO[bytes]:
    """Returns where translations go: a file, which `stack` closes, or standard output.

    Raises:
        UserError: It cannot be opened, is closed, or as `check_output`.
    """
    if options.output is None:
        if sys.stdout is None:
            raise UserError("standard output is closed: give --output FILE.")
        return sys.stdout.buffer
    check_output(options)
    return stack.enter_context(open_bytes(options.output, "wb"))


def check_output(options: argparse.Namespace) -> None:
    """Looks at `options.output`, a path, before anything is written.

    Raises:
        UserError: It is a directory, or a file that is read from too.
    """
    if os.path.isdir(options.output):
        raise UserError(f"{options.output} is a directory: give the name of a file.")
    if not os.path.exists(options.output):
        return
    for path in (getattr(options, name) for name in _READ):
        if path is not None and os.path.exists(path) and os.path.samefile(path, options.output):
            raise UserError(f"{options.output} is read from too: write to another file.")


_GZIP = b"\x1f\x8b"


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
        UserError: It begins as UTF-16 or compressed files do.
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
        raise UserError("the text is UTF-16: convert it with iconv -f UTF-16 -t UTF-8.")
    if beginning.startswith(_GZIP):
        raise UserError("the text is compressed: name the file .gz, or pipe it through zcat.")


_AVAILABLE = {
    *("checkpoint", "engine", "input", "output", "device", "threads"),
    *("beam_size", "length_penalty", "num_hypotheses", "patience"),
    *("max_length", "max_length_ratio", "min_length", "max_source_length"),
    *("batch_tokens", "chunk_size", "first_line"),
}


def open_exported(
    options: argparse.Namespace, parser: argparse.ArgumentParser
) -> ExportedTranslator:
    """Loads the exported model that the options name.

    Args:
        options: Of the translate program.
        parser: That read them; an option that differs from its default was asked for.

    Raises:
        UserError: An option was asked for that the engine lacks, or there is no such model.
    """
    for name, value in vars(options).items():
        if name not in _AVAILABLE and value != parser.get_default(name):
            raise UserError(
                f"{option_name(name)} is not available with --engine ctranslate2: "
                "leave it out, or translate with the checkpoint and --engine torch."
            )
    return ExportedTranslator.from_folder(
        options.checkpoint, device=options.device, threads=options.threads or 0
    )


PROGRAM = "nmt-translate"


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the program."""
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Translates lines of text: one line in, one line out, in order, UTF-8.",
    )
    made.add_argument("checkpoint", metavar="CHECKPOINT", help="a .ckpt file written by training")
    _add_files(made.add_argument_group("text"))
    _add_search(made.add_argument_group("search (default: as the checkpoint was tested)"))
    _add_sampling(made.add_argument_group("sampling (any of these draws instead of searching)"))
    _add_machine(made.add_argument_group("machine"))
    made.set_defaults(first_line=1)  # of the input, where several processes share it
    return made


def _add_files(group: Any) -> None:
    add = group.add_argument
    add("--input", metavar="FILE", help="text to translate, .gz too (default: standard input)")
    add("--output", metavar="FILE", help="where translations go (default: standard output)")
    add("--prefix", metavar="FILE", help="what each translation begins with, line by line")
    add(
        "--alignment",
        choices=("word", "subword"),
        help="adds TAB and links of units, source-target from 0, such as 0-0 2-1",
    )
    add(
        "--score",
        metavar="FILE",
        help="translates nothing: log-probability TAB perplexity of these translations",
    )


def _add_search(group: Any) -> None:
    add = group.add_argument
    add("--beam-size", type=int, metavar="N", help="1 is greedy search")
    add("--length-penalty", type=float, metavar="X", help="score = log p / length^X")
    add("--num-hypotheses", type=int, metavar="N", help="alternatives for every line")
    add("--patience", type=float, metavar="X", help="stop at X beams of ended hypotheses")
    add("--max-length", type=int, metavar="N", help="most target tokens of a line")
    add("--max-length-ratio", type=float, metavar="X", help="the same for each source token (+10)")
    add("--min-length", type=int, metavar="N", help="fewest target tokens of a line")


def _add_sampling(group: Any) -> None:
    add = group.add_argument
    add("--temperature", type=float, metavar="X", help="below 1 more certain, above 1 more varied")
    add("--top-k", type=int, metavar="N", help="draw from the N most probable tokens")
    add("--top-p", type=float, metavar="X", help="draw from the fewest tokens of probability X")
    add("--seed", type=int, metavar="N", help="another seed gives other translations")


def _add_machine(group: Any) -> None:
    add = group.add_argument
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
    add("--precision", default="fp32", help="fp32 (default), bf16 or fp16")
    add("--threads", type=int, metavar="N", help="CPU threads")


def search_for(search: Any, options: argparse.Namespace) -> Search:
    """Returns the search of a checkpoint, changed as the options say.

    What the old and the new kind of search have in common is kept.

    Raises:
        UserError: An option is out of range, or two do not go together.
    """
    from nmt.decoding.beam import BeamSearch
    from nmt.decoding.sampling import Sampling

    given = given_search_options(options)
    if given.keys() <= _names(search):
        changed: Search = replace(search, **given)
        return changed
    kind = next((kind for kind in (BeamSearch, Sampling) if given.keys() <= _names(kind)), None)
    if kind is None:
        only_beam = min(given.keys() - _names(Sampling))
        only_sampling = min(given.keys() - _names(BeamSearch))
        raise UserError(
            f"{option_name(only_sampling)} samples and {option_name(only_beam)} searches: "
            "give one of the two."
        )
    kept = {name: value for name, value in asdict(search).items() if name in _names(kind)}
    return kind(**{**kept, **given})


def given_search_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of the search that were given, by attribute."""
    from nmt.decoding.beam import BeamSearch
    from nmt.decoding.sampling import Sampling

    names = _names(BeamSearch) | _names(Sampling)
    values = {name: getattr(options, name) for name in sorted(names)}
    return {name: value for name, value in values.items() if value is not None}


def refuse_with_score(options: argparse.Namespace) -> None:
    """Raises UserError where an option is given that has no meaning with --score."""
    names = ("prefix", "alignment")
    of_text = [name for name in names if getattr(options, name) is not None]
    unused = [*given_search_options(options), *of_text]
    if options.max_source_length != parser().get_default("max_source_length"):
        unused.append("max_source_length")
    if unused:
        raise UserError(
            f"{option_name(unused[0])} has no meaning with --score, which searches nothing: "
            "leave it out."
        )


def option_name(attribute: str) -> str:
    """Returns an option as it is typed."""
    return f"--{attribute.replace('_', '-')}"


def _names(search: Any) -> set[str]:
    return {field.name for field in fields(search)}


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Runs the program."""
    if sys.stderr is None:  # closed: then messages go nowhere, and not into an opened file
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    options = parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, format=f"{PROGRAM}: %(message)s")
    try:
        _run(options)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"a .gz file is damaged or not compressed ({error}): compress it again."
        ) from error


def _run(options: argparse.Namespace) -> None:
    import torch

    from nmt.checks import at_least

    if options.threads is not None:
        at_least("threads", options.threads, 1)
        torch.set_num_threads(options.threads)
    with contextlib.ExitStack() as stack:
        source = open_input(options.input, stack)
        interactive = options.chunk_size == 1 or source.isatty()
        if options.score is not None:
            refuse_with_score(options)
        translator = _translator(options)
        lines = read_lines(
            prompted(source) if source.isatty() else source, first=options.first_line
        )
        if options.score is not None:
            found = score(
                cast("Translator", translator), lines, options, stack, at_once=interactive
            )
        else:
            found = translate(translator, lines, options, stack, at_once=interactive)
        target = open_output(options, stack)
        if sys.stderr.isatty() and not interactive and not target.isatty():
            found = with_progress(found)
        for line in found:
            target.write(line)
            if interactive:
                target.flush()
        target.flush()


def _translator(options: argparse.Namespace) -> Translator | ExportedTranslator:
    if options.engine == "ctranslate2":
        return open_exported(options, parser())
    if Path(options.checkpoint, "model.bin").is_file():
        raise UserError(
            f"{options.checkpoint} is a model for CTranslate2: add --engine ctranslate2."
        )
    from nmt.translator import Translator

    return Translator.from_checkpoint(
        options.checkpoint, device=options.device, precision=options.precision
    )


def translate(
    translator: Translator | ExportedTranslator,
    lines: Iterable[str],
    options: argparse.Namespace,
    stack: contextlib.ExitStack,
    *,
    at_once: bool,
) -> Iterator[bytes]:
    """Returns what is printed for each input line, as they come.

    Args:
        translator: A loaded model.
        lines: The input.
        options: Of the program.
        stack: Closes the file of prefixes.
        at_once: Answer each line before the next one is read.

    Raises:
        UserError: An option is out of range, or as
            `Translator.stream`.
    """
    more: dict[str, Any] = {}  # what not every engine has
    if options.prefix is not None:
        more["prefixes"] = read_lines(stack.enter_context(open_bytes(options.prefix, "rb")))
    if options.alignment is not None:
        more["alignment"] = options.alignment
    translations = translator.stream(
        lines,
        search=search_for(translator.search, options),
        batch_tokens=options.batch_tokens,
        max_source_length=options.max_source_length,
        chunk_size=1 if at_once else options.chunk_size,
        first_line=options.first_line,
        **more,
    )
    return (
        "".join(
            line + "\n" for line in output_lines(translation, number, options.num_hypotheses)
        ).encode("utf-8")
        for number, translation in enumerate(translations, options.first_line)
    )


def score(
    translator: Translator,
    lines: Iterable[str],
    options: argparse.Namespace,
    stack: contextlib.ExitStack,
    *,
    at_once: bool,
) -> Iterator[bytes]:
    """Returns the score of each given translation as it is printed; ends with the total on stderr.

    Arguments as in `translate`.

    Raises:
        UserError: There are more or fewer translations than lines, or as
            `Translator.stream_scores`.
    """
    from nmt.translator import paired

    translations = read_lines(stack.enter_context(open_bytes(options.score, "rb")))
    return _score_lines(
        translator.stream_scores(
            paired(lines, translations, "translations"),
            batch_tokens=options.batch_tokens,
            chunk_size=1 if at_once else options.chunk_size,
        )
    )


def _score_lines(scores: Iterable[TranslationScore]) -> Iterator[bytes]:
    from nmt.translator import perplexity

    log_prob, num_tokens, num_pairs = 0.0, 0, 0
    for one in scores:
        log_prob += one.log_prob
        num_tokens += len(one.tokens)
        num_pairs += 1
        yield f"{one.log_prob:.6f}\t{one.perplexity:.6f}\n".encode()
    if num_pairs:
        print(
            f"{PROGRAM}: {num_pairs} translations, {num_tokens} tokens, log-probability "
            f"{log_prob:.4f}, perplexity {perplexity(log_prob, num_tokens):.4f}",
            file=sys.stderr,
        )


def with_progress(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Passes lines on and counts them on standard error."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} lines"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield from progress.track(lines, total=None)


def output_lines(translation: Translation, number: int, num_hypotheses: int | None) -> list[str]:
    """Returns what is printed for one input line.

    Args:
        translation: Of that line.
        number: Of that line, from 1.
        num_hypotheses: As asked for; None or 1 prints the translation alone.
    """
    alternatives = translation.alternatives
    lines = [
        best.text if best.alignment is None else f"{best.text}\t{pharaoh(best.alignment)}"
        for best in alternatives
    ]
    if num_hypotheses is None or num_hypotheses == 1:
        return lines[:1]
    return [
        f"{number}\t{best.score:.6f}\t{line}"
        for best, line in zip(alternatives, lines, strict=True)
    ]
