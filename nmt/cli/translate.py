"""Translates lines of text; the program behind `scripts/translate.py` and `nmt-translate`.

One line in, one line out, in order. The format, whatever the locale:

* A line is what `nmt.data.lines` says. Bytes that are not UTF-8 become U+FFFD, with a warning that
  names the line. Lines are written with LF. A blank line stays blank.
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
"""

from __future__ import annotations

import argparse
import gzip
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from nmt.checks import UserError, at_least, flag_main
from nmt.data.lines import decode_lines

if TYPE_CHECKING:
    from nmt.decoding.search import Search
    from nmt.scoring import TranslationScore
    from nmt.translator import SentenceTranslator, Translation

logger = logging.getLogger(__name__)

PROGRAM = "nmt-translate"
_SEARCH = ("beam_size", "length_penalty", "max_length", "max_length_ratio", "min_length")
_SAMPLING = ("temperature", "top_k", "top_p", "seed")
_NOT_SCORING = (*_SEARCH, *_SAMPLING, "num_hypotheses", "prefix", "alignment", "max_source_length")
_NOT_EXPORTED = (*_SAMPLING, "prefix", "alignment", "score", "precision")


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Runs the program."""
    if sys.stderr is None:  # closed: then messages go nowhere, and not into an opened file
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    options = parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, format=f"{PROGRAM}: %(message)s")
    if options.score is not None:
        _refuse(options, _NOT_SCORING, "has no meaning with --score, which searches nothing")
    if options.engine == "ctranslate2":
        _refuse(options, _NOT_EXPORTED, "is not available with --engine ctranslate2")
    if options.threads is not None:
        at_least("threads", options.threads)
        import torch

        torch.set_num_threads(options.threads)
    _run(options)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the program."""
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Translates lines of text: one line in, one line out, in order, UTF-8.",
        epilog="Several processes: split -n l/4 in.txt part. (GNU), translate each part by a "
        "process with --threads 1, and cat the outputs in order.",
    )
    made.add_argument("checkpoint", metavar="CHECKPOINT", help="a .ckpt file written by training")
    add = made.add_argument_group("text").add_argument
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
    search = made.add_argument_group("search (default: as the checkpoint was tested)")
    add = search.add_argument
    add("--beam-size", type=int, metavar="N", help="1 is greedy search")
    add("--length-penalty", type=float, metavar="X", help="score = log p / length^X")
    add("--num-hypotheses", type=int, metavar="N", help="alternatives for every line")
    add("--max-length", type=int, metavar="N", help="most target tokens of a line")
    add("--max-length-ratio", type=float, metavar="X", help="the same for each source token (+10)")
    add("--min-length", type=int, metavar="N", help="fewest target tokens of a line")
    sampling = made.add_argument_group("sampling (any of these draws instead of searching)")
    add = sampling.add_argument
    add("--temperature", type=float, metavar="X", help="below 1 more certain, above 1 more varied")
    add("--top-k", type=int, metavar="N", help="draw from the N most probable tokens")
    add("--top-p", type=float, metavar="X", help="draw from the fewest tokens of probability X")
    add("--seed", type=int, metavar="N", help="another seed gives other translations")
    add = made.add_argument_group("machine").add_argument
    add("--max-source-length", type=int, default=1024, metavar="N", help="cut longer lines")
    add("--batch-tokens", type=int, default=4096, metavar="N", help="source tokens in a batch")
    add("--chunk-size", type=int, default=2048, metavar="N", help="lines read ahead (%(default)s)")
    add(
        "--engine",
        choices=("torch", "ctranslate2"),
        default="torch",
        help="ctranslate2: CHECKPOINT is a folder that scripts/export_ctranslate2.py wrote",
    )
    add("--device", default="auto", help="cpu, cuda, cuda:1, ... or auto (default)")
    add("--precision", default="fp32", help="fp32 (default), bf16 or fp16")
    add("--threads", type=int, metavar="N", help="CPU threads")
    return made


def search_for(search: Search, options: argparse.Namespace) -> Search:
    """Returns the search of a checkpoint, changed as the options say; what both have is kept."""
    from nmt.decoding.beam import BeamSearch
    from nmt.decoding.sampling import Sampling

    names = (*_SEARCH, *_SAMPLING, "num_hypotheses")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    for kind in (type(search), BeamSearch, Sampling):
        known = {field.name for field in fields(kind)}
        if given.keys() <= known:
            kept = {name: value for name, value in asdict(search).items() if name in known}
            return kind(**kept | given)
    samples = next(name for name in _SAMPLING if name in given)
    searches = next(name for name in _SEARCH if name in given)
    raise UserError(
        f"{_flag(samples)} samples and {_flag(searches)} searches: give one of the two."
    )


def _run(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        source = stack.enter_context(_open(options.input)) if options.input else sys.stdin.buffer
        at_once = options.chunk_size == 1 or source.isatty()
        lines = _lines(_prompted(source) if source.isatty() else source)
        second = options.score or options.prefix
        others = _lines(stack.enter_context(_open(second))) if second else None
        found = _answers(options, lines, others, 1 if at_once else options.chunk_size)
        target = _output(options, stack)
        if sys.stderr.isatty() and not at_once and not target.isatty():
            found = _with_progress(found)
        for text in found:
            target.write(text.encode("utf-8"))
            if at_once:
                target.flush()
        target.flush()


def _answers(
    options: argparse.Namespace,
    lines: Iterable[str],
    others: Iterable[str] | None,
    chunk_size: int,
) -> Iterator[str]:
    """Loads the model and checks the options; returns what is printed for each line."""
    from nmt.translator import Translator, paired

    translator: SentenceTranslator
    if options.engine == "ctranslate2":
        from nmt.export.engine import ExportedTranslator

        translator = ExportedTranslator.from_folder(
            options.checkpoint, device=options.device, threads=options.threads or 0
        )
    else:
        translator = Translator.from_checkpoint(
            options.checkpoint, device=options.device, precision=options.precision
        )
        if options.score is not None:
            pairs = paired(lines, others or (), "translations")
            tokens = options.batch_tokens
            return _scores(
                translator.stream_scores(pairs, batch_tokens=tokens, chunk_size=chunk_size)
            )
    translations = translator.stream(
        lines,
        search=search_for(translator.search, options),
        batch_tokens=options.batch_tokens,
        max_source_length=options.max_source_length,
        chunk_size=chunk_size,
        prefixes=others,
        alignment=options.alignment,
    )
    return _translations(translations, several=(options.num_hypotheses or 1) > 1)


def _translations(translations: Iterable[Translation], *, several: bool) -> Iterator[str]:
    """Yields what is printed for each line; ends with a warning of translations that were cut."""
    from nmt.alignment import pharaoh

    number = unfinished = 0
    for number, translation in enumerate(translations, 1):
        unfinished += not translation.alternatives[0].finished
        text = ""
        for one in translation.alternatives if several else translation.alternatives[:1]:
            links = "" if one.alignment is None else f"\t{pharaoh(one.alignment)}"
            text += f"{number}\t{one.score:.6f}\t" * several + f"{one.text}{links}\n"
        yield text
    if unfinished:
        logger.warning(
            "%d of %d translations ended at the length limit before the model ended them; raise "
            "--max-length or --max-length-ratio",
            unfinished,
            number,
        )


def _scores(scores: Iterable[TranslationScore]) -> Iterator[str]:
    """Yields the score of each given translation as it is printed; ends with the total."""
    from nmt.scoring import perplexity

    log_prob, num_tokens, num_pairs = 0.0, 0, 0
    for one in scores:
        num_pairs += 1
        log_prob += one.log_prob
        num_tokens += len(one.tokens)
        yield f"{one.log_prob:.6f}\t{one.perplexity:.6f}\n"
    if num_pairs:
        print(
            f"{PROGRAM}: {num_pairs} translations, {num_tokens} tokens, log-probability "
            f"{log_prob:.4f}, perplexity {perplexity(log_prob, num_tokens):.4f}",
            file=sys.stderr,
        )


def _refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Refuses an option that was given and would do nothing."""
    for name in names:
        if getattr(options, name) != parser().get_default(name):
            raise UserError(f"{_flag(name)} {why}: leave it out.")


def _flag(attribute: str) -> str:
    return f"--{attribute.replace('_', '-')}"


def _open(path: str, mode: str = "rb") -> IO[bytes]:
    """Opens a file, a compressed one where its name ends in .gz."""
    return cast(IO[bytes], (gzip.open if path.endswith(".gz") else open)(path, mode))


def _output(options: argparse.Namespace, stack: ExitStack) -> IO[bytes]:
    if options.output is None:
        return sys.stdout.buffer
    path = Path(options.output)
    for read in (options.input, options.prefix, options.score, options.checkpoint):
        if read and path.exists() and path.samefile(read):
            raise UserError(f"{path} is read from too: write to another file.")
    return stack.enter_context(_open(options.output, "wb"))


def _lines(stream: Iterable[bytes]) -> Iterator[str]:
    def warn(number: int, error: UnicodeDecodeError) -> None:
        message = "line %d is not valid UTF-8 (byte %d): what is not becomes U+FFFD"
        logger.warning(message, number, error.start + 1)

    return decode_lines(stream, warn)


def _prompted(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Asks for each line on standard error."""
    ask = partial(print, "> ", end="", file=sys.stderr, flush=True)
    ask()
    for line in lines:
        yield line
        ask()
    print(file=sys.stderr)


def _with_progress(lines: Iterable[str]) -> Iterator[str]:
    """Passes lines on and counts them on standard error."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} lines"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield from progress.track(lines, total=None)
