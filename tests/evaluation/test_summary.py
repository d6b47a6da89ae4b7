"""The printed summary fits 80 columns, shows the text as it is, and loses nothing."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from nmt.evaluation.results import (
    TranslatedSentence,
    print_examples,
    print_facts,
    print_paths,
    print_scores,
    score_split,
)

LONG = (
    "Der Bäcker, dem die alte Frau gestern das frische Brot zurückgegeben hat, lacht, weil die "
    "Donaudampfschifffahrtsgesellschaftskapitänsmützenfabrikbesitzerinnenvereinigung schläft."
)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=80)


def lines_of(console):
    return console.file.getvalue().split("\n")


def sentences(*texts, lengths=None):
    lengths = lengths or [3] * len(texts)
    return [
        TranslatedSentence(index, f"source {index}", text, text, -0.1, length)
        for index, (text, length) in enumerate(zip(texts, lengths, strict=True))
    ]


def result(name, *texts, lengths=None, unit="word"):
    return score_split(name, sentences(*texts, lengths=lengths), target_lang="de", unit=unit)


def test_scores_signatures_and_counts_of_every_split_are_shown(console):
    results = [
        result("test_2017_mscoco", *["Das ist ein langer Satz."] * 1237),
        result("valid", "Noch ein langer Satz hier.", ""),
    ]
    print_scores(console, results)
    lines = lines_of(console)
    assert max(map(cell_len, lines)) <= 80
    table = [line.split() for line in lines]
    assert ["test_2017_mscoco", "1,237", "100.00", "100.00", "1.00", "0"] in table
    assert ["valid", "2", "100.00", "100.00", "1.00", "1"] in table
    text = console.file.getvalue()
    for signature in (results[0].scores.signature, results[0].scores.chrf_signature):
        assert signature in text


def test_lengths_are_shown_with_unit_n_and_method_without_the_validation_split(console):
    four_long, short = "Das ist ein langer Satz.", "Ja"
    test = result("test", short, four_long, four_long, lengths=[1, 35, 36], unit="character")
    print_scores(console, [test, result("valid", four_long)])
    text = " ".join(console.file.getvalue().split())
    assert "split characters n BLEU" in text
    assert "test 1-10 1 100.00" in text
    assert "test 11-20 0 - - - -" in text
    assert "test 31-40 2 100.00" in text
    assert "valid 1-10" not in text
    assert "effective order" in text


def test_long_sentences_wrap_beside_their_labels_and_are_complete(console):
    print_examples(console, sentences(LONG))
    lines = lines_of(console)
    assert max(map(cell_len, lines)) <= 80
    start = next(i for i, line in enumerate(lines) if line.startswith("translation"))
    printed = "".join(line[len("translation") :] for line in lines[start:])
    assert printed.replace(" ", "") == LONG.replace(" ", "")
    assert all(
        line[: len("translation  ")].strip() in {"", "translation"} for line in lines[start:]
    )


def test_sentences_that_look_like_markup_or_emoji_are_printed_as_they_are(console):
    text = "[bold]Er[/bold] [/x] sagt :smile: [1]"
    print_examples(console, [TranslatedSentence(0, text, text, text, -0.1, 3)])
    assert console.file.getvalue().count(text) == 3


def test_examples_are_of_different_lengths_and_no_more_than_there_are(console):
    texts = [f"Satz {number}" for number in range(9)]
    print_examples(console, sentences(*texts, lengths=[9, 8, 7, 6, 5, 4, 3, 2, 1]), count=3)
    shown = [line.split()[-1] for line in lines_of(console) if line.startswith("source")]
    assert shown == ["7", "4", "1"]
    print_examples(console, sentences("Nur einer", "", lengths=[3, 3]), count=5)
    assert console.file.getvalue().count("Nur einer") == 2
    assert "(empty)" in console.file.getvalue()


def test_facts_and_paths_are_printed_whole(console):
    path = "outputs/" + "ein-langer-name/" * 7 + "metrics.json"
    print_facts(console, [("updates", "1,500 [0 skipped]")])
    print_paths(console, [path])
    lines = [line.rstrip() for line in lines_of(console)]
    assert "updates  1,500 [0 skipped]" in lines
    assert path in lines
