"""A run folder gives back exactly what was measured, and refuses what does not belong together."""

import hashlib
import json
import os
from dataclasses import replace

import pytest

from nmt.evaluation import results
from nmt.evaluation.metrics import score
from nmt.evaluation.results import (
    TranslatedSentence,
    corpus_sha256,
    read_run,
    score_split,
    write_metrics,
    write_translations,
)

SEPARATORS = "a\u2028b\x85c\x0bd\re\x1cf"


def sentence(index, hypothesis="Ein Mädchen läuft.", length=3):
    return TranslatedSentence(
        index=index,
        source=f"A girl runs, {index}.",
        reference=f"Ein Mädchen läuft, {index}.",
        hypothesis=hypothesis,
        score=-0.5,
        source_words=length,
    )


@pytest.fixture
def result():
    sentences = [sentence(0), sentence(1, hypothesis=SEPARATORS, length=11), sentence(2, "")]
    return score_split("test", sentences, target_lang="de", unit="word")


def test_a_line_holds_one_sentence_and_other_separators_survive(tmp_path, result):
    path = write_translations(tmp_path, result)
    assert path == tmp_path / "test.jsonl"
    lines = path.read_bytes().decode("utf-8").split("\n")
    assert len(lines) == 3 + 1
    assert json.loads(lines[1])["hypothesis"] == SEPARATORS
    assert "läuft" in lines[0]
    keys = ["index", "source", "reference", "hypothesis", "score", "source_words"]
    assert list(json.loads(lines[0])) == keys


def test_a_run_is_read_back_as_written(tmp_path, result):
    other = score_split("test_long", [sentence(0, length=67)], target_lang="de", unit="word")
    for split in (result, other):
        write_translations(tmp_path, split)
    metrics = {r.name: r.metrics() for r in (result, other)} | {"seed": 1, "device": "cpu"}
    write_metrics(tmp_path, metrics)
    run = read_run(tmp_path)
    assert run.metrics == metrics
    assert run.splits == {"test": result.sentences, "test_long": other.sentences}
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "metrics.json",
        "test.jsonl",
        "test_long.jsonl",
    ]


def test_an_entry_has_the_scores_their_signatures_and_the_test_set(result):
    scores = score(
        [s.hypothesis for s in result.sentences],
        [s.reference for s in result.sentences],
        target_lang="de",
    )
    entry = result.metrics()
    assert (entry["bleu"], entry["chrf"], entry["unfinished"]) == (scores.bleu, scores.chrf, 0)
    assert "ter" not in entry
    assert entry["signature"] == scores.signature
    assert [bucket.num_sentences for bucket in result.buckets[:3]] == [2, 1, 0]
    assert (entry["num_sentences"], entry["num_empty"]) == (3, 1)
    assert entry["sha256"] == corpus_sha256(result.sentences)


def test_what_only_some_sentences_have_is_kept_and_counted(tmp_path):
    sentences = [
        replace(sentence(number), more_references=["Ein Kind läuft."], finished=number > 0)
        for number in range(3)
    ]
    result = score_split("test", sentences, target_lang="de", unit="word", metrics=["ter"])
    entry = result.metrics()
    assert (entry["unfinished"], entry["ter"]) == (1, result.scores.ter)
    write_translations(tmp_path, result)
    write_metrics(tmp_path, {"test": entry})
    assert read_run(tmp_path).splits == {"test": sentences}


def test_bytes_of_a_file_name_survive(tmp_path):
    path = os.fsdecode(b"r\xe9sultat.ckpt")
    write_metrics(tmp_path, {"checkpoint": path})
    assert read_run(tmp_path).metrics == {"checkpoint": path}


def test_the_hash_of_a_test_set_is_that_of_its_pasted_lines():
    pasted = "A girl runs, 0.\tEin Mädchen läuft, 0.\nA girl runs, 1.\tEin Mädchen läuft, 1.\n"
    expected = hashlib.sha256(pasted.encode("utf-8")).hexdigest()
    assert corpus_sha256([sentence(0), sentence(1)]) == expected
    assert corpus_sha256([sentence(0, "anders"), sentence(1, "noch anders")]) == expected
    assert corpus_sha256([sentence(1), sentence(0)]) != expected


def test_metrics_that_cannot_be_written_leave_the_old_ones_whole(tmp_path, monkeypatch):
    write_metrics(tmp_path, {"seed": 1})
    with pytest.raises(TypeError):
        write_metrics(tmp_path, {"seed": {1, 2}})

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(results.Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_metrics(tmp_path, {"seed": 2})
    assert json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")) == {"seed": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("metrics.json", None, r"metrics\.json cannot be read"),
        ("metrics.json", lambda text: text[:9], r"metrics\.json is damaged"),
        ("test.jsonl", None, r"test\.jsonl cannot be read"),
        ("test.jsonl", lambda text: text.split("\n", 1)[1], "2 sentences that are not the 3"),
        ("test.jsonl", lambda text: text[:-20], r"test\.jsonl is damaged"),
        ("test.jsonl", lambda text: '{"index": 0}\n', r"test\.jsonl holds what is no translation"),
    ],
)
def test_a_damaged_run_is_refused_naming_the_file(tmp_path, result, name, damage, message):
    write_translations(tmp_path, result)
    write_metrics(tmp_path, {"test": result.metrics()})
    path = tmp_path / name
    if damage is None:
        path.unlink()
    else:
        path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_run(tmp_path)
