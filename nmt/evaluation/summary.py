"""What a person reads in the terminal when a model has been evaluated; fits 80 columns.

Sentences and paths go in as `Text`, never as markup: a translation may hold "[/b]" or ":smile:".
"""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nmt.evaluation.length import BUCKET_METHOD, trim_empty
from nmt.evaluation.run_results import SplitResult, TranslatedSentence


def print_scores(console: Console, results: Sequence[SplitResult]) -> None:
    """Prints BLEU, chrF and TER of every split with their signatures, then BLEU by length.

    Validation splits are left out of the lengths unless there are no others.
    """
    table = _table("split", "sentences", "BLEU", "chrF", "TER", "length ratio", "empty")
    for result in results:
        scores = result.scores
        table.add_row(
            result.name,
            f"{scores.num_sentences:,}",
            *(f"{value:.2f}" for value in (scores.bleu, scores.chrf, scores.ter)),
            f"{scores.length_ratio:.2f}",
            f"{scores.num_empty:,}",
        )
    _print_heading(console, "Scores")
    console.print(table)
    scores = results[0].scores
    signatures = (scores.signature, scores.chrf_signature, scores.ter_signature)
    for name, signature in zip(("BLEU", "chrF", "TER "), signatures, strict=True):
        console.print(Text(f"{name} {signature}", style="dim"), soft_wrap=True)
    _print_lengths(console, [r for r in results if not r.name.startswith("valid")] or results)


def _print_lengths(console: Console, results: Sequence[SplitResult]) -> None:
    columns = ("split", f"{results[0].unit}s", "n", "BLEU", "chrF", "length ratio", "brevity pen.")
    table = _table(*columns)
    for result in results:
        for bucket in trim_empty(result.buckets):
            values = (bucket.bleu, bucket.chrf, bucket.length_ratio, bucket.brevity_penalty)
            cells = ["-" if value is None else f"{value:.2f}" for value in values]
            table.add_row(result.name, bucket.label, f"{bucket.num_sentences:,}", *cells)
        table.add_section()
    _print_heading(console, "BLEU and chrF by source length")
    console.print(table)
    console.print(Text(BUCKET_METHOD, style="dim"))


def print_examples(
    console: Console, sentences: Sequence[TranslatedSentence], *, count: int = 3
) -> None:
    """Prints some translations below their sources and references: short, medium and long ones."""
    by_length = sorted(sentences, key=lambda sentence: (sentence.source_words, sentence.index))
    count = min(count, len(by_length))
    _print_heading(console, "Translations")
    for number in range(count):
        sentence = by_length[(2 * number + 1) * len(by_length) // (2 * count)]
        grid = _pairs()
        grid.add_row("source", Text(sentence.source))
        grid.add_row("reference", Text(sentence.reference))
        grid.add_row("translation", Text(sentence.hypothesis or "(empty)", style="bold"))
        if number:
            console.print()
        console.print(grid)


def print_facts(console: Console, facts: Sequence[tuple[str, str]]) -> None:
    """Prints pairs of a name and a value, such as ("updates", "1,500"), below each other."""
    grid = _pairs()
    for name, value in facts:
        grid.add_row(Text(name), Text(value))
    _print_heading(console, "Run")
    console.print(grid)


def print_paths(console: Console, paths: Sequence[str | Path]) -> None:
    """Prints the files written, each on one line however long, so that it can be copied."""
    _print_heading(console, "Written")
    for path in paths:
        console.print(Text(str(path)), soft_wrap=True)


def _print_heading(console: Console, heading: str) -> None:
    console.print()
    console.print(Text(heading, style="bold"))


def _table(*columns: str) -> Table:
    """Makes a table whose first column is text and whose others are numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    return table


def _pairs() -> Table:
    """Makes a grid of names and texts; long texts wrap within their column."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid
