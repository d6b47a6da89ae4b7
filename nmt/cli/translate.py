"""Translates lines of text; the program behind `scripts/translate.py` and `nmt-translate`.

One line in, one line out, in order. The format, whatever the locale:

* UTF-8. Bytes that are not become U+FFFD, with a warning that names the line. A byte order mark
  at the beginning is removed. UTF-16 is refused, and so is gzip unless the file is named .gz.
* Only LF or CRLF ends a line; lines are written with LF. A final line without a line end counts.
* A blank line stays blank.
* With `--num-hypotheses N`, N > 1, up to N lines for every input line, best first:
  line number (from 1), TAB, score, TAB, translation.
* With `--alignment`, TAB and the links after each translation: `source-target` pairs from 0.
* With `--check-language MODEL` standard error names the lines whose (best) translation is clearly
  still in the source language, and their number at the end. The output is the same.
* With `--score FILE` each line is the natural logarithm of p(translation | source), TAB, the
  perplexity of a token.

The score is log p / length^penalty, where length counts tokens and EOS: CTranslate2's formula.

Nothing else goes to standard output; warnings, errors, progress (where standard error is a
terminal) and the total of `--score` go to standard error. Where standard input is a terminal each
line is answered at once. Exit status: 0 when every line was translated, 1 when not, 2 for a usage
error.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nmt.cli.files import open_bytes, open_input, open_output
from nmt.cli.sharding import launched, translate_share
from nmt.cli.text_lines import prompted, read_lines
from nmt.cli.translate_options import PROGRAM, parser, refuse_with_score, search_for
from nmt.translation import Translation, pharaoh

if TYPE_CHECKING:
    from nmt.export.engine import ExportedTranslator
    from nmt.scoring import TranslationScore
    from nmt.translator import Translator


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    if sys.stderr is None:  # closed: then messages go nowhere, and not into an opened file
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    options = parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, format=f"{PROGRAM}: %(message)s")
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
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        print(
            f"{PROGRAM}: error: a .gz file is damaged or not compressed ({error}): "
            "compress it again.",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        reason = error.strerror or error
        print(f"{PROGRAM}: error: text cannot be read or written ({reason}).", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    import torch

    from nmt.decoding.hypothesis import check_at_least

    if options.threads is not None:
        check_at_least("threads", options.threads, 1)
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
        from nmt.cli.exported import open_exported

        return open_exported(options, parser())
    if Path(options.checkpoint, "model.bin").is_file():
        raise ValueError(
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
        ValueError: An option is out of range, the model of --check-language is unusable, or as
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
    if options.check_language is not None:
        from nmt.cli.untranslated import name_untranslated

        translations = name_untranslated(
            translations,
            options.check_language,
            (translator.source_lang, translator.target_lang),
            first=options.first_line,
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
        ValueError: There are more or fewer translations than lines, or as
            `Translator.stream_scores`.
    """
    from nmt.source_batches import paired

    translations = read_lines(stack.enter_context(open_bytes(options.score, "rb")))
    return _score_lines(
        translator.stream_scores(
            paired(lines, translations, "translations"),
            batch_tokens=options.batch_tokens,
            chunk_size=1 if at_once else options.chunk_size,
        )
    )


def _score_lines(scores: Iterable[TranslationScore]) -> Iterator[bytes]:
    from nmt.scoring import perplexity

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
