"""The pictures and tables of docs/attention.md."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.models.attention import dot_product_weights
from nmt.models.encoder_attention import ENCODER_ATTENTIONS
from nmt.models.positions import POSITIONS
from scripts import attention_page
from scripts.benchmarks.attention import MECHANISMS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["attention.md", "attention.zh.md"]
PICTURES = ("saturation", "patterns", "positions", "cost")
SHOWN_LENGTHS = (512, 2048, 8192)


def rows_of(page):
    """Returns the cells of all lines of tables."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in x[1:-1].split("|")] for x in lines if x.startswith("| ")]


def figures(name):
    return json.loads((DOCS / "attention" / f"{name}.json").read_text(encoding="utf-8"))


def amount(number, unit):
    """Writes three digits, 1.23e+03 as 1,230."""
    text = f"{number:.3g}"
    return f"{float(text):,.0f} {unit}" if "e" in text else f"{text} {unit}"


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_cost_are_the_committed_figures(page):
    for name, series in figures("cost")["figures"]["series"].items():
        theory, measured = (row[1:] for row in rows_of(page) if row[0] == name)
        assert theory[:2] == [f"O({series['operations']})", f"O({series['sequential']})"]
        if series["path_length"] is None:
            assert theory[2] in ("never", "不可达")
        else:
            assert theory[2] == str(series["path_length"])
        points = {point["length"]: point["both"] for point in series["points"]}
        times = [points[n]["seconds"] * 1000 if n in points else None for n in SHOWN_LENGTHS]
        mibs = [points[n]["mib"] if n in points else None for n in SHOWN_LENGTHS]
        expected = [t if t is None else amount(t, "ms") for t in times]
        expected += [m if m is None else amount(m, "MiB") for m in mibs]
        limit = {"too much memory", "内存超限"}  # why a series ended before this length
        assert [None if cell in limit else cell for cell in measured[:-1]] == expected
        assert measured[-1] == " / ".join(f"{series['fitted'][q]:.2f}" for q in ("seconds", "mib"))


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_bleu_are_the_means_of_the_committed_scores(page):
    groups = {}
    for entry in figures("bleu")["runs"]:
        options = (entry["encoder_attention"], entry["positions"])
        key = (entry["joined_in_training"], entry["updates"], options)
        groups.setdefault(key, []).append(entry["bleu"])
    expected = [
        [f"`{option}`" for option in options]
        + [f"{np.mean([score[column] for score in scores]):.1f}" for column in scores[0]]
        for (_, _, options), scores in groups.items()
    ]
    assert [
        row
        for row in rows_of(page)
        if row[0].strip("`") in ENCODER_ATTENTIONS and row[1].strip("`") in POSITIONS
    ] == expected


def test_the_committed_figures_are_of_all_mechanisms():
    series = figures("cost")["figures"]["series"]
    assert list(series) == list(MECHANISMS)
    assert all(found["points"] for found in series.values())


def test_the_pages_show_all_pictures_and_none_is_large():
    for name in PICTURES:
        assert (DOCS / "attention" / f"{name}.png").stat().st_size < 150_000
        for page in PAGES:
            assert f"](attention/{name}.png)" in (DOCS / page).read_text(encoding="utf-8")


def test_the_script_draws_all_pictures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(attention_page, "NUM_DRAWS", 11)
    shutil.copy(DOCS / "attention" / "cost.json", tmp_path)
    assert attention_page.main(["--folder", str(tmp_path)]) == 0
    pictures = [tmp_path / f"{name}.png" for name in PICTURES]
    assert capsys.readouterr().out.splitlines() == [str(path) for path in pictures]
    assert all(path.stat().st_size > 1000 for path in pictures)


def test_patterns_are_distinguished_by_what_lets_a_key_be_seen():
    parts = {kind: attention_page.pattern_parts(kind) for kind in
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


def test_the_gradient_of_the_figure_is_that_of_autograd(monkeypatch):
    monkeypatch.setattr(attention_page, "NUM_DRAWS", 3)
    largest, gradient = attention_page.softmax_statistics(8, scaled=True)
    generator = torch.Generator().manual_seed(8)
    query, keys = (
        torch.randn(3, 1, n, 8, generator=generator) for n in (1, attention_page.NUM_KEYS)
    )
    for row in range(3):
        scores = (query[row] @ keys[row].mT / 8**0.5).double().flatten()
        jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(0), scores)
        torch.testing.assert_close(gradient[row], jacobian.norm(), rtol=1e-4, atol=0)
    weights = dot_product_weights(query, keys, None)
    torch.testing.assert_close(largest, weights.flatten(1).amax(1).double())
