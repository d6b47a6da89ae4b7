"""Builds a Spanish-English corpus of Bible verses: long natural sentences, with gold links.

    python scripts/prepare_bible.py DIR
    python train.py data=bible data.directory=DIR

Three public-domain texts come from Debian's packages (Reina-Valera 1909, World English Bible, King
James Version), downloaded and unpacked without root; `--modules FOLDER` reads SWORD modules from
anywhere else. Verses with the same book, chapter and number are pairs. DIR gets the World English
Bible as English side, DIR/kjv the King James Version: `{train,valid,test}.{es,en}`, and
`{valid,test}.documents.tsv` with the chapter of each line. `test` has as many verses of each length
as there are; `test_chapters` has the same chapters whole, so that text runs on: a document there
is a passage without a gap. `kjv/{valid,test}.es-en.links` has a line of Pharaoh links (`2-3 2-4`,
word numbers from 0, Spanish first) for each pair: phrases that carry the same Strong's number,
which names one Hebrew or Greek word of the original.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import random
import re
import subprocess
import sys
import tempfile
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from nmt.checks import UserError, flag_main

PACKAGES = ("sword-text-sparv", "sword-text-web", "sword-text-kjv")
MODULES = {"es": "spaRV1909eb", "web": "engWEB2015eb", "kjv": "engKJV2006eb"}
RANGE_ENDS = (10, 20, 30, 40, 50)  # source words; the last range is open
LEAST, MOST = 150, 250  # test verses of a range; of the last one all there are
VALID_CHAPTERS = 40
NGRAM = 8
SEED = 1
# Two verses of more than this ratio of lengths are not translations: the texts number differently.
LARGEST_RATIO = 2.2

Reference = tuple[str, int, int]  # book (OSIS), chapter, verse


@dataclass(frozen=True)
class Verse:
    """A verse: words separated by single spaces, and where its Strong's numbers stand."""

    text: str
    numbers: Mapping[str, tuple[int, ...]]  # of those that occur once, the words they cover


class _Markup(HTMLParser):
    """Takes the text out of OSIS, with the Strong's numbers of each piece of it.

    Notes and titles go with their text, but for the headings of psalms, which belong to the verse.
    Tags do not always have spaces around them ("llamado<transChange>á ser"): words get them back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[str, tuple[str, ...]]] = []
        self._numbers: list[tuple[str, ...]] = []
        self._dropped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "w":
            lemma = dict(attrs).get("lemma") or ""
            self._numbers.append(tuple(re.findall(r"[GH]\d+", lemma)))
        elif tag == "note" or (
            tag == "title" and (self._dropped or ("canonical", "true") not in attrs)
        ):
            self._dropped += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "w" and self._numbers:
            self._numbers.pop()
        elif tag in ("note", "title") and self._dropped:
            self._dropped -= 1

    def handle_data(self, data: str) -> None:
        if not self._dropped and data:
            self.pieces.append((data.replace("¶", " "), self._numbers[-1] if self._numbers else ()))


def parse_verse(markup: str) -> Verse:
    """Returns the words of a verse in OSIS markup, and the words of its Strong's numbers."""
    parser = _Markup()
    parser.feed(markup)
    parser.close()
    text = ""
    spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for piece, numbers in parser.pieces:
        if re.search(r"[\w,.;:!?)”’]$", text) and re.match(r"[\w(“‘¡¿]", piece):
            text += " "
        for number in numbers:
            spans[number].append((len(text), len(text) + len(piece)))
        text += piece
    words = list(re.finditer(r"\S+", text))
    found = {
        number: tuple(
            k for k, word in enumerate(words) if word.end() > start and word.start() < end
        )
        for number, [(start, end), *others] in spans.items()
        if not others
    }
    return Verse(" ".join(word.group() for word in words), found)


def read_module(folder: Path, name: str) -> dict[Reference, Verse]:
    """Reads the verses of a SWORD module."""
    from pysword.modules import SwordModules

    modules = SwordModules(str(folder))
    if name not in modules.parse_modules():
        raise UserError(f"{folder} has no SWORD module {name}; it needs mods.d/ and modules/.")
    bible = modules.get_bible_from_module(name)
    # pysword unpacks a whole book for each verse; once is enough.
    bible._decompressed_text = functools.lru_cache(4)(bible._decompressed_text)
    verses = {}
    for book in itertools.chain(*bible.get_structure().get_books().values()):
        for chapter, length in enumerate(book.chapter_lengths, 1):
            for number in range(1, length + 1):
                place = {"books": [book.name], "chapters": [chapter], "verses": [number]}
                verse = parse_verse(bible.get(**place, clean=False))
                if verse.text:
                    verses[book.osis_name, chapter, number] = verse
    return verses


def download(folder: Path) -> Path:
    """Fetches and unpacks Debian's packages; returns the folder of SWORD modules."""
    for package in PACKAGES:
        command = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package]
        try:
            subprocess.run(command, cwd=folder, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(
                f"{package} could not be downloaded ({error}); run `apt-get update`, or give a "
                "folder of SWORD modules with --modules."
            ) from None
    for file in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", file, folder], check=True)
    return folder / "usr/share/sword"


def split_by_chapter(
    lengths: Mapping[Reference, int], texts: Mapping[Reference, Sequence[str]]
) -> tuple[dict[str, list[Reference]], Counter[str]]:
    """Divides the verses so that no chapter is in two parts.

    Chapters are drawn at random for test until each of `RANGES` has `LEAST` verses, of which at
    most `MOST` are taken; then `VALID_CHAPTERS` for validation. A verse of either that repeats a
    training verse is left out.

    `lengths` are in source words, in the order of the book, and `texts` has all versions. Returns
    the verses of train, valid, test and test_chapters, and how many were left out, by reason.
    """
    chapters = sorted({reference[:2] for reference in lengths})
    random.Random(SEED).shuffle(chapters)
    for num_test in range(50, len(chapters) // 2, 10):
        place = dict.fromkeys(chapters[:num_test], "test")
        place |= dict.fromkeys(chapters[num_test : num_test + VALID_CHAPTERS], "valid")
        parts: dict[str, list[Reference]] = {"train": [], "valid": [], "test": []}
        for reference in lengths:
            parts[place.get(reference[:2], "train")].append(reference)
        if min(_by_range(parts["test"], lengths)[:-1]) < LEAST:
            continue  # before the repeats, which take long
        repeats = _Repeats(texts[reference] for reference in parts["train"])
        left_out: Counter[str] = Counter()
        for name in ("valid", "test"):
            new = [reference for reference in parts[name] if not repeats.has(texts[reference])]
            left_out[f"{name} verses that repeat a training verse"] = len(parts[name]) - len(new)
            parts[name] = new
        if min(_by_range(parts["test"], lengths)[:-1]) >= LEAST:
            parts["test_chapters"] = parts["test"]
            chosen = set(_at_most(parts["test"], lengths))
            left_out[f"test verses beyond {MOST} of a range"] = len(parts["test"]) - len(chosen)
            parts["test"] = [reference for reference in parts["test"] if reference in chosen]
            return parts, left_out
    raise UserError(f"Half of the chapters have too few test verses; {LEAST} a range are needed.")


def _by_range(references: Iterable[Reference], lengths: Mapping[Reference, int]) -> list[int]:
    numbers = Counter(bisect_left(RANGE_ENDS, lengths[reference]) for reference in references)
    return [numbers[k] for k in range(len(RANGE_ENDS) + 1)]


def _at_most(
    references: Sequence[Reference], lengths: Mapping[Reference, int]
) -> Iterator[Reference]:
    """Yields all verses of the last range, and at most `MOST` of each other one."""
    taken: Counter[int] = Counter()
    for reference in random.Random(SEED).sample(references, len(references)):
        number = bisect_left(RANGE_ENDS, lengths[reference])
        taken[number] += 1
        if number == len(RANGE_ENDS) or taken[number] <= MOST:
            yield reference


class _Repeats:
    """Recognises verses of the training data: the same text, or most of its 8-grams in one."""

    def __init__(self, training: Iterable[Sequence[str]]) -> None:
        self._texts: set[str] = set()
        self._verses: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
        for number, versions in enumerate(training):
            for text, ngrams in map(_plain, versions):
                self._texts.add(text)
                for ngram in ngrams:
                    self._verses[ngram].add(number)

    def has(self, versions: Sequence[str]) -> bool:
        for text, ngrams in map(_plain, versions):
            shared = Counter(verse for ngram in ngrams for verse in self._verses.get(ngram, ()))
            if text in self._texts or max(shared.values(), default=0) > len(ngrams) / 2:
                return True
        return False


def _plain(text: str) -> tuple[str, set[tuple[str, ...]]]:
    """Returns the words of a text in lower case without punctuation, and their 8-grams."""
    words = re.findall(r"\w+", text.lower())
    return " ".join(words), {tuple(words[i : i + NGRAM]) for i in range(len(words) - NGRAM + 1)}


def links(source: Verse, target: Verse) -> str:
    """Returns the links of phrases that share a Strong's number, in Pharaoh's format."""
    shared = source.numbers.keys() & target.numbers.keys()
    pairs = {(i, j) for key in shared for i in source.numbers[key] for j in target.numbers[key]}
    return " ".join(f"{i}-{j}" for i, j in sorted(pairs))


def passages(references: Iterable[Reference]) -> list[str]:
    """Returns the verse that the passage without a gap begins with, for each verse: `Gen 3:1`."""
    found: list[str] = []
    before: Reference = ("", 0, 0)
    for book, chapter, number in references:
        runs_on = before == (book, chapter, number - 1)
        found.append(found[-1] if runs_on else f"{book} {chapter}:{number}")
        before = book, chapter, number
    return found


def build(modules: Path, directory: Path) -> None:
    """Reads the three texts, divides the verses, writes the corpus and prints what it holds."""
    spanish, web, kjv = (read_module(modules, name) for name in MODULES.values())
    common = [reference for reference in spanish if reference in web and reference in kjv]
    lengths, texts = {}, {}
    for reference in common:
        versions = [version[reference].text for version in (spanish, web, kjv)]
        shortest, *_, longest = sorted(len(text.split()) for text in versions)
        if longest <= 8 or longest <= LARGEST_RATIO * shortest:
            lengths[reference], texts[reference] = len(versions[0].split()), versions
    parts, left_out = split_by_chapter(lengths, texts)
    for folder, english in ((directory, web), (directory / "kjv", kjv)):
        folder.mkdir(parents=True, exist_ok=True)
        for name, references in parts.items():
            _write(folder / f"{name}.es", (spanish[reference].text for reference in references))
            _write(folder / f"{name}.en", (english[reference].text for reference in references))
            if name != "train":
                places = [f"{book} {chapter}" for book, chapter, _ in references]
                places = passages(references) if name == "test_chapters" else places
                _write(folder / f"{name}.documents.tsv", places)
    for name in ("valid", "test"):
        rows = (links(spanish[reference], kjv[reference]) for reference in parts[name])
        _write(directory / "kjv" / f"{name}.es-en.links", rows)
    print(f"{len(common):,} verses stand in all three texts.")
    misaligned = len(common) - len(lengths)
    print(f"{misaligned} left out: lengths that differ by more than {LARGEST_RATIO} times")
    for reason, number in left_out.items():
        print(f"{number:,} left out: {reason}")
    ranges = [f"{end - 9}-{end}" for end in RANGE_ENDS] + [f"{RANGE_ENDS[-1] + 1}+"]
    head = [*ranges, "all", "chapters"]
    print("source words".ljust(14) + "".join(label.rjust(8) for label in head))
    for name, references in parts.items():
        numbers = [*_by_range(references, lengths), len(references)]
        numbers.append(len({reference[:2] for reference in references}))
        print(name.ljust(14) + "".join(f"{number:,}".rjust(8) for number in numbers))


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Builds the corpus."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder for the corpus")
    parser.add_argument("--modules", type=Path, metavar="FOLDER", help="has mods.d/ and modules/")
    options = parser.parse_args(argv)
    if importlib.util.find_spec("pysword") is None:
        raise UserError("pysword is missing; install it with `pip install -e '.[bible]'`.")
    with tempfile.TemporaryDirectory() as folder:
        build(options.modules or download(Path(folder)), options.directory)


if __name__ == "__main__":
    sys.exit(main())
