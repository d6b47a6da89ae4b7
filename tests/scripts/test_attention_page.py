"""The pictures and tables of docs/attention.md."""

import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from fabricated_runs import corpus, write_probes, write_run

from nmt.models.attention import dot_product_weights

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PICTURES = ("saturation", "patterns", "positions", "cost")
RIGHT = "eins zwei drei vier fünf"
TEST = corpus([3, 7, 10, 11, 20])


@pytest.fixture
def script(monkeypatch):
    """Imports scripts/attention_page.py, or what it imports from scripts/."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module


def point(length, seconds, mib):
    return {"length": length, "both": {"seconds": seconds, "mib": mib}}


def series(points, *, path_length=1, stopped=None, seconds=None, mib=None):
    return {
        "operations": "n² d",
        "sequential": "1",
        "path_length": path_length,
        "points": points,
        "stopped": stopped,
        "fitted": {"seconds": seconds, "mib": mib},
    }


def cost_of(**found):
    options = {"width": "256", "rounds": "5", "threads": "1"}
    figures = {"device": "cpu", "series": found}
    return {"options": options, "versions": {"torch": "2.13"}, "figures": figures}


def run(directory, *, errors=0.0, seed=1, splits=None, **model):
    """Writes a run of a Transformer; `errors` is the share of wrong words."""
    return write_run(
        directory,
        lambda words: errors,
        model_name="transformer",
        seed=seed,
        splits=splits or {"test": TEST},
        model=model,
    )


def test_the_tables_in_the_pages_are_those_of_the_committed_figures(script, tmp_path):
    page = script("attention_page")
    copy = tmp_path / "docs"
    shutil.copytree(DOCS, copy)
    for path in page.fill(copy):
        expected = path.read_text(encoding="utf-8")
        assert (DOCS / path.name).read_text(encoding="utf-8") == expected, (
            "run python scripts/attention_page.py"
        )


def test_the_committed_figures_are_of_all_mechanisms(script):
    mechanisms = script("benchmarks.mechanisms").MECHANISMS
    cost = json.loads((DOCS / "attention" / "cost.json").read_text(encoding="utf-8"))
    assert list(cost["figures"]["series"]) == list(mechanisms)
    assert all(found["points"] for found in cost["figures"]["series"].values())


def test_the_pages_show_all_pictures_and_none_is_large():
    for name in PICTURES:
        assert (DOCS / "attention" / f"{name}.png").stat().st_size < 150_000
        for page in ("attention.md", "attention.zh.md"):
            assert f"](attention/{name}.png)" in (DOCS / page).read_text(encoding="utf-8")


def test_the_script_draws_and_fills_a_copy_of_the_pages(script, tmp_path, monkeypatch, capsys):
    page = script("attention_page")
    monkeypatch.setattr(script("pages.figures"), "NUM_DRAWS", 11)
    (tmp_path / "attention").mkdir()
    shutil.copy(DOCS / "attention" / "cost.json", tmp_path / "attention")
    for name in page.PAGES.values():
        markers = [
            f"<!-- {table}: begin -->\n<!-- {table}: end -->\n" for table in ("cost", "bleu")
        ]
        (tmp_path / name).write_text("\n".join(markers), encoding="utf-8")
    assert page.main(["--docs", str(tmp_path)]) == 0
    printed = [Path(line) for line in capsys.readouterr().out.splitlines()]
    pictures = [tmp_path / "attention" / f"{name}.png" for name in PICTURES]
    assert printed == [*pictures, *(tmp_path / name for name in page.PAGES.values())]
    assert all(path.stat().st_size > 1000 for path in pictures)
    assert "| recurrent |" in (tmp_path / "attention.zh.md").read_text(encoding="utf-8")


def test_a_page_without_markers_is_refused(script):
    replace_between = script("pages.tables").replace_between
    text = "a\n<!-- cost: begin -->\nold\n<!-- cost: end -->\nb\n"
    assert replace_between(text, "cost", "new\n") == text.replace("old", "new")
    with pytest.raises(ValueError, match="'<!-- bleu: begin -->'"):
        replace_between(text, "bleu", "new\n")


def test_the_cost_table_shows_three_lengths_and_why_a_series_ended(script):
    whole = [point(n, n / 1e5, 2.0 * n) for n in (64, 128, 256, 512, 1024)]
    text = script("pages.tables").cost_tables(
        cost_of(
            full=series(whole, seconds=1.0, mib=2.345),
            additive=series(whole[:4], path_length=None, stopped="memory at 1024"),
        ),
        "en",
    )
    rows = [line for line in text.splitlines() if line.startswith("| full") or "additive" in line]
    assert rows == [
        "| full | O(n² d) | O(1) | 1 |",
        "| additive | O(n² d) | O(1) | never |",
        "| full | 0.64 ms | 2.56 ms | 10.2 ms | 128 MiB | 512 MiB | 2,050 MiB | 1.00 / 2.35 |",
        "| additive | 0.64 ms | 2.56 ms | too much memory | 128 MiB | 512 MiB | too much memory "
        "| – / – |",
    ]
    assert "time, n = 64 | time, n = 256 | time, n = 1,024" in text


def test_both_languages_have_the_same_words(script):
    words = script("pages.tables")._WORDS
    assert words["en"].keys() == words["zh"].keys()


def test_patterns_are_told_apart_by_what_lets_a_key_be_seen(script):
    parts = {kind: script("pages.figures").pattern_parts(kind) for kind in
             ("full", "causal", "sliding_window", "bigbird", "local")}  # fmt: skip
    size = len(parts["full"])
    assert (parts["full"] == 1).all()
    np.testing.assert_array_equal(parts["causal"], np.tril(np.ones((size, size))))
    window = parts["sliding_window"]
    assert set(window[0, 7:]) == set(window[7:, 0]) == {2}  # the global token
    assert set(window[10]) == {0, 1, 2}
    assert window[10].tolist() == [2, 0, 0, 0] + [1] * 13 + [0] * (size - 17)
    random = (parts["bigbird"] == 3).sum(1)
    assert random[0] == 0  # the global token sees everything anyway
    assert set(random[1:]) == {5, 6}  # one block of 6, or what the global token leaves of it
    assert set(np.unique(parts["local"])) == {0, 1}


def test_the_gradient_of_the_figure_is_that_of_autograd(script, monkeypatch):
    figures = script("pages.figures")
    monkeypatch.setattr(figures, "NUM_DRAWS", 3)
    largest, gradient = figures.softmax_statistics(8, scaled=True)
    generator = torch.Generator().manual_seed(8)
    query, keys = (torch.randn(3, 1, n, 8, generator=generator) for n in (1, figures.NUM_KEYS))
    for row in range(3):
        scores = (query[row] @ keys[row].mT / 8**0.5).double().flatten()
        jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(0), scores)
        torch.testing.assert_close(gradient[row], jacobian.norm(), rtol=1e-4, atol=0)
    weights = dot_product_weights(query, keys, None)
    torch.testing.assert_close(largest, weights.flatten(1).amax(1).double())


def test_runs_are_ordered_by_option_and_seeds_are_averaged(script, tmp_path):
    rope = {"positions": "rope", "encoder_attention": "full"}
    runs = [
        run(tmp_path / "a", positions="alibi"),  # from before encoder_attention existed
        run(tmp_path / "b", errors=0.5, seed=2, **rope),
        run(tmp_path / "c", errors=0.0, seed=1, **rope),
        run(tmp_path / "d", positions="rope", encoder_attention="local"),
    ]
    bleu = script("pages.runs").read_runs(runs)
    found = [(r["encoder_attention"], r["positions"], r["seed"]) for r in bleu["runs"]]
    assert found == [
        ("full", "rope", 1),
        ("full", "rope", 2),
        ("local", "rope", 1),
        ("full", "alibi", 1),
    ]
    second = bleu["runs"][1]["bleu"]["test"]
    assert bleu["runs"][0]["bleu"] == {"test": 100.0}
    assert 0 < second < 90
    table = script("pages.tables").bleu_tables(bleu, "en")
    assert f"| `full` | `rope` | {(100 + second) / 2:.1f} |\n" in table
    assert "100 updates, training pairs not joined; seeds averaged: 1, 2." in table


def test_joined_inputs_of_60_to_80_words_are_scored_beside_their_sentences(script, tmp_path):
    folder = run(tmp_path / "run", positions="rope")
    rows = [
        {"num_joined": k, "source_words": words, "reference": RIGHT,
         "joined": hypothesis, "alone": RIGHT}
        for k, words, hypothesis in ((1, 59, "x"), (7, 60, RIGHT), (8, 81, "x"))
    ]  # fmt: skip
    write_probes(folder, joined=rows)
    (entry,) = script("pages.runs").read_runs([folder])["runs"]
    assert entry["bleu"] == {"test": 100.0, "probe": 100.0, "probe alone": 100.0}
    table = script("pages.tables").bleu_tables({"runs": [entry]}, "en")
    assert "| `test` | 60-80 words, joined | the same, alone |" in table


def test_joined_test_inputs_are_scored_by_how_many_sentences_they_have(script, tmp_path):
    joined = corpus([3, 7, 10, 11, 20], seed=4) + corpus([10, 21, 20], seed=5)
    folder = write_run(
        tmp_path / "run",
        lambda words: float(words in (10, 20, 21)),
        splits={"test": TEST, "test_joined": joined},
        model_name="transformer",
        model={"positions": "rope"},
    )
    path = folder / "config.yaml"
    sizes = {"train": [1, 2], "test": [1, 2]}
    text = path.read_text(encoding="utf-8").replace("data:", f"data:\n  concatenate: {sizes}", 1)
    path.write_text(text, encoding="utf-8")
    (entry,) = script("pages.runs").read_runs([folder])["runs"]
    assert entry["joined_in_training"] == "1, 2"
    assert entry["bleu"]["joined 1"] > 20 > entry["bleu"]["joined 2"]
    path.write_text(text.replace("'test': [1, 2]", "'test': [1, 3]"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"has 8 inputs where .* makes 7"):
        script("pages.runs").read_runs([folder])


def test_what_cannot_stand_in_one_table_is_refused(script, tmp_path, capsys):
    page = script("attention_page")
    first = run(tmp_path / "a", positions="rope")
    other = run(tmp_path / "b", positions="rope", splits={"test": corpus([4])})
    recurrent = write_run(tmp_path / "c", lambda words: 0.0)
    for wrong, reason in (
        (other, "has another test set"),
        (recurrent, "is no run of model=transformer"),
        (tmp_path, "has no metrics.json"),
    ):
        assert page.main(["--docs", str(tmp_path), "--bleu", str(first), str(wrong)]) == 1
        assert reason in capsys.readouterr().err


def test_what_was_not_measured_is_said_so(script):
    assert script("pages.tables").bleu_tables(None, "en") == "*Not measured yet.*\n"
