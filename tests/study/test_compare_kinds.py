"""Inputs of one sentence and of several are scored and drawn apart, with what they are from."""

import json

import pytest
from fabricated_runs import corpus, write_run

from nmt.study import statistics
from nmt.study.findings import contrasts, kinds
from nmt.study.report import compare, write_report

LENGTHS = [4, 5, 6, 14, 15, 16]
KINDS = ["sentence", "multi", "sentence", "multi", "multi", "multi"]
DOCUMENTS = ["gimp/a", "gimp/b", "kde/c", "kde/d", "kde/d", "wesnoth/e"]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """One run of each of two systems, right but for long inputs of the rnn."""
    monkeypatch.setattr(contrasts, "NUM_TRIALS", 50)
    monkeypatch.setattr(statistics, "FEWEST_INPUTS", 1)
    splits = {"test": corpus(LENGTHS)}
    for name, error_rate in (("rnn", lambda n: float(n > 10)), ("bahdanau", lambda n: 0.0)):
        folder = write_run(tmp_path / name, error_rate, model_name=name, splits=splits)
        path = folder / "test.jsonl"
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for row, kind, document in zip(rows, KINDS, DOCUMENTS, strict=True):
            row |= {"kind": kind, "document": document}
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        path.write_text("".join(lines), encoding="utf-8")
    return compare([tmp_path])


def test_each_kind_is_scored_alone(results):
    found = results["kinds"]
    assert list(found) == ["sentence", "multi"]
    single, multi = found["sentence"]["systems"]["rnn"], found["multi"]["systems"]["rnn"]
    assert [(b["range"], b["num_sentences"]) for b in single] == [("1-10", 2)]
    assert [(b["range"], b["num_sentences"]) for b in multi] == [("1-10", 1), ("11-20", 3)]
    assert single[0]["bleu"]["value"] == pytest.approx(100)
    assert multi[1]["bleu"]["value"] < 60


def test_the_sources_of_each_range_are_counted_by_the_first_part_of_a_document(results):
    sources = results["kinds"]["multi"]["sources"]
    assert [(s["range"], s["largest"]) for s in sources] == [
        ("1-10", {"gimp": 1}),
        ("11-20", {"kde": 2, "wesnoth": 1}),
    ]


def test_the_report_shows_the_kinds_beside_each_other(results, tmp_path):
    titles = [axes.get_title("left") for axes in kinds.draw(results)["bleu_by_kind"].axes]
    assert titles == ["one sentence", "several sentences"]
    written = write_report(tmp_path, results)
    assert "bleu_by_kind.png" in {path.name for path in written}
    assert "kde 2, wesnoth 1" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_corpus_that_does_not_tell_kinds_apart_has_no_such_section(tmp_path):
    write_run(tmp_path / "rnn", lambda n: 0.0)
    assert compare([tmp_path])["kinds"] is None
