"""Writes a large parallel corpus of sentences of the built-in grammar."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from nmt.grammar import Grammar

SPLITS = {"valid": 1_000, "test": 1_000}  # inputs, beside those for training
MOST_SENTENCES = 50_000
_WORDS = (3, 14)  # of a sentence

Sentences = list[tuple[str, str]]


def write_corpus(directory: Path, num_pairs: int, *, seed: int = 1) -> None:
    """Writes `{train,valid,test}.{en,de}`; a file is there whole or not at all.

    As in the grammar's own corpus an input is one to three sentences. Millions of inputs are made
    of the same 50,000 sentences, so that it takes a minute; no two inputs are equal.
    """
    directory.mkdir(parents=True, exist_ok=True)
    sizes = SPLITS | {"train": num_pairs}
    random_numbers = random.Random(seed)
    sentences = list(islice(_sentences(random_numbers), min(MOST_SENTENCES, sum(sizes.values()))))
    inputs = _inputs(sentences, random_numbers)
    for split, size in sizes.items():
        _write(directory, split, islice(inputs, size))


def _sentences(random_numbers: random.Random) -> Iterator[tuple[str, str]]:
    """Yields different single sentences of the grammar and their translations."""
    grammar = Grammar(lexicon="full")
    seen = set()
    while True:
        pair = grammar.pair(random_numbers.randint(*_WORDS), random_numbers)
        if pair.num_sentences == 1 and pair.source not in seen:
            seen.add(pair.source)
            yield pair.source, pair.target


def _inputs(sentences: Sentences, random_numbers: random.Random) -> Iterator[tuple[str, str]]:
    """Yields each sentence in one input of it alone, and different inputs of two and of three."""
    alone = iter(sentences)
    seen = set()
    while True:
        count = random_numbers.randint(1, 3)
        if count == 1 and (pair := next(alone, None)):
            yield pair
            continue
        numbers = tuple(int(random_numbers.random() * len(sentences)) for _ in range(max(2, count)))
        if (key := hash(numbers)) not in seen:  # of integers: the same in every process
            seen.add(key)
            chosen = [sentences[number] for number in numbers]
            yield " ".join(en for en, _ in chosen), " ".join(de for _, de in chosen)


def _write(directory: Path, split: str, pairs: Iterator[tuple[str, str]]) -> None:
    files = [directory / f"{split}.{language}" for language in ("en", "de")]
    unfinished = [path.with_name(f".{path.name}.partial") for path in files]
    with ExitStack() as stack:
        english, german = (
            stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
            for path in unfinished
        )
        for en, de in pairs:
            english.write(en + "\n")
            german.write(de + "\n")
    for whole, written in zip(files, unfinished, strict=True):
        written.replace(whole)
