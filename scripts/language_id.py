"""Tells two languages apart with attention: trains on the two sides of a parallel corpus.

    python scripts/language_id.py train --data built-in --output en-de.pt
    python scripts/language_id.py train --source train.en.gz --target train.de.gz --output en-de.pt
    python scripts/language_id.py classify en-de.pt < text

`train` prints the accuracy on lines that it was not trained on. `classify` prints for each line

    language TAB probability TAB line TAB the three words looked at most, each with its weight

and in a terminal the line alone, its words the brighter the more the model looked at them. The
model file is also what data.cleaning.language and `scripts/translate.py --check-language` take.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.text import Text

from nmt.checks import at_least
from nmt.cli.translate import option_name, read_lines
from nmt.data.files import Languages, language_of, read_parallel
from nmt.data.hashed_words import pack, words_of
from nmt.data.language_identification import (
    Judgement,
    LanguageIdentifier,
    load_identifier,
)
from nmt.evaluation.figures import draw_lines, save_png
from nmt.grammar import generate_splits
from nmt.models.language_classifier import LanguageClassifier

MODEL = {"num_buckets": 2**14, "width": 32, "hidden": 48, "attention_dim": 32}
LEARNING_RATE = 3e-3
LONGEST_STRETCH = 24  # words
ONE_IN = 20  # lines are held out where no other text is given
DRAWN_LINES, DRAWN_WORDS = 20, 40  # at most, and in a line, of a figure
Sides = tuple[Sequence[str], Sequence[str]]


def train_identifier(
    sides: Sides, languages: tuple[str, str], *, updates: int, batch_size: int, seed: int
) -> LanguageIdentifier:
    """Trains on random stretches of random lines, as many of each language.

    A stretch has 1 to `LONGEST_STRETCH` words, every length alike: so the model learns how little
    a few words say, and that what stands on both sides, such as names, says nothing.

    Raises:
        ValueError: A side is blank.
    """
    torch.manual_seed(seed)
    draw = random.Random(seed)
    lines = _with_words(sides, "training")
    model = LanguageClassifier(**MODEL)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, updates)
    answers = torch.arange(2.0).repeat_interleave(batch_size)
    for _ in range(updates):
        chosen = [text for side in lines for text in draw.choices(side, k=batch_size)]
        stretches = [_stretch(words_of(text), draw) for text in chosen]
        odds, _ = model(*pack(stretches, model.num_buckets))
        loss = F.binary_cross_entropy_with_logits(odds, answers)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return LanguageIdentifier(languages, model)


def _with_words(sides: Sides, name: str) -> Sides:
    """Returns the lines of each side that are not blank."""
    source, target = ([text for text in side if words_of(text)] for side in sides)
    if not (source and target):
        raise ValueError(f"a side of the {name} text has no line with words: give more lines.")
    return source, target


def _stretch(words: Sequence[str], draw: random.Random) -> Sequence[str]:
    length = min(len(words), draw.randint(1, LONGEST_STRETCH))
    start = draw.randrange(len(words) - length + 1)
    return words[start : start + length]


def accuracy(identifier: LanguageIdentifier, sides: Sides) -> tuple[int, int]:
    """Returns how many lines of both sides, none of them blank, get their language; and all."""
    right = total = 0
    for language, texts in zip(identifier.languages, sides, strict=True):
        right += sum(judged.language == language for judged in identifier.identify(texts))
        total += len(texts)
    return right, total


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    options = _parser().parse_args(argv)
    try:
        at_least("threads", options.threads, 1)
        torch.set_num_threads(options.threads)
        options.run(options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="train|classify")
    train = commands.add_parser("train", help="train on the two sides of a parallel corpus")
    add = train.add_argument
    add("--data", choices=("built-in",), help="the built-in corpus instead of files")
    add("--source", metavar="FILE", help="lines of one language, plain or .gz")
    add("--target", metavar="FILE", help="lines of the other one")
    add("--source-lang", metavar="CODE", help="its language (default: the ending of the file)")
    add("--target-lang", metavar="CODE", help="its language (default: the ending of the file)")
    add("--held-out", nargs=2, metavar="FILE", help="source and target of the lines to measure on "
        f"(default: one in {ONE_IN} of the training lines)")  # fmt: skip
    add("--output", type=Path, required=True, metavar="MODEL", help="a .pt file")
    add("--updates", type=int, default=600, metavar="N", help="(default: %(default)s)")
    add("--batch-size", type=int, default=64, metavar="N",
        help="lines of each language in an update (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=1, metavar="N", help="(default: %(default)s)")
    train.set_defaults(run=_train)
    classify = commands.add_parser("classify", help="say the language of each line of text")
    classify.add_argument("model", metavar="MODEL", help="a .pt file that `train` wrote")
    classify.add_argument("--png", type=Path, metavar="FILE", help="draw the attention as well")
    classify.set_defaults(run=_classify)
    for command in (train, classify):
        command.add_argument("--threads", type=int, default=1, metavar="N", help="CPU threads")
    return parser


def _train(options: argparse.Namespace) -> None:
    at_least("updates", options.updates, 1)
    at_least("batch_size", options.batch_size, 1)
    languages, sides, held_out = _text(options)
    measured = _with_words(held_out, "held-out")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    start = time.process_time()
    identifier = train_identifier(
        sides,
        languages,
        updates=options.updates,
        batch_size=options.batch_size,
        seed=options.seed,
    )
    seconds = time.process_time() - start
    identifier.save(options.output)
    right, total = accuracy(identifier, measured)
    print(f"{options.output}: {languages[0]} and {languages[1]}, {seconds:.0f} CPU seconds")
    print(f"held-out lines: {right:,} of {total:,} right ({right / total:.2%})")


def _text(options: argparse.Namespace) -> tuple[tuple[str, str], Sides, Sides]:
    """Returns the languages, the training lines and the held-out lines."""
    if options.data is None and None in (options.source, options.target):
        raise ValueError("give --data built-in, or both --source FILE and --target FILE.")
    if options.data is not None:
        for name in ("source", "target", "source_lang", "target_lang", "held_out"):
            if getattr(options, name) is not None:
                raise ValueError(
                    f"{option_name(name)} has no meaning with --data built-in: give one of the two."
                )
        splits = generate_splits(train_size=10_000)
        train, test = (
            ([pair.source for pair in splits[name]], [pair.target for pair in splits[name]])
            for name in ("train", "test")
        )
        return ("en", "de"), train, test
    languages = (
        options.source_lang or language_of(Path(options.source)),
        options.target_lang or language_of(Path(options.target)),
    )
    if languages[0] == languages[1]:
        raise ValueError(
            f"both sides are called {languages[0]}: give files that end in their languages, such "
            "as train.en and train.de."
        )
    text = read_parallel([options.source, options.target], Languages(*languages, {}))
    if options.held_out:
        other = read_parallel(options.held_out, Languages(*languages, {}))
        return languages, (text.source, text.target), (other.source, other.target)
    rest = [number for number in range(len(text.source)) if number % ONE_IN]
    train = [text.source[row] for row in rest], [text.target[row] for row in rest]
    return languages, train, (text.source[::ONE_IN], text.target[::ONE_IN])


def _classify(options: argparse.Namespace) -> None:
    identifier = load_identifier(options.model)
    console = Console(highlight=False, soft_wrap=True)
    if options.png is not None:
        options.png.parent.mkdir(parents=True, exist_ok=True)
    shown: list[Judgement] = []
    left_out = 0
    for line in read_lines(sys.stdin.buffer):
        (judged,) = identifier.identify([line])
        if judged.words and options.png is not None:
            fits = len(shown) < DRAWN_LINES and len(judged.words) <= DRAWN_WORDS
            shown += [judged] if fits else []
            left_out += not fits
        answer = f"{judged.language}\t{judged.probability:.4f}\t" if judged.words else ""
        if console.is_terminal:
            console.print(Text(answer) + coloured(line, judged))
        else:
            print(f"{answer}{line}\t{most_looked_at(judged)}" if judged.words else line)
    if left_out:
        print(
            f"warning: {left_out} lines are not drawn: a figure has at most {DRAWN_LINES} lines of "
            f"at most {DRAWN_WORDS} words.",
            file=sys.stderr,
        )
    if shown:
        figure = draw_lines(
            [(judged.words, judged.weights) for judged in shown],
            names=[f"{judged.language} {judged.probability:.4f}" for judged in shown],
            title=f"{' or '.join(identifier.languages)}?",
        )
        save_png(figure, options.png)


def coloured(line: str, judged: Judgement) -> Text:
    """Returns the line with the background of each word as bright as its attention weight."""
    text, place = Text(line), 0
    for word, weight in zip(judged.words, judged.weights, strict=True):
        place = line.index(word, place)
        light = round(255 * weight / max(judged.weights))
        ink = "black" if light > 127 else "white"
        text.stylize(f"{ink} on #{light:02x}{light * 3 // 4:02x}00", place, place + len(word))
        place += len(word)
    return text


def most_looked_at(judged: Judgement) -> str:
    """Returns the three words with the greatest attention weights."""
    order = sorted(range(len(judged.words)), key=judged.weights.__getitem__, reverse=True)
    return " ".join(f"{judged.words[place]}:{judged.weights[place]:.2f}" for place in order[:3])


if __name__ == "__main__":
    sys.exit(main())
