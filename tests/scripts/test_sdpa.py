"""Attention is fused at every place: the kernels that PyTorch runs, by their names."""

import argparse
import importlib
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

SMALL = {"dtype": torch.float32, "num_sentences": 3, "length": 7, "num_heads": 4}


@pytest.fixture
def sdpa(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    return importlib.import_module("benchmarks.sdpa")


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
def test_no_call_of_the_transformer_writes_down_the_weights(sdpa, num_kv_heads):
    rows = sdpa.attention_calls(device="cpu", num_kv_heads=num_kv_heads, **SMALL)
    seen = {(row["phase"], row["place"], row["padded"]) for row in rows}
    places = ("encoder self", "decoder self", "cross")
    phases = ("train", "greedy", "beam", "prefix")
    assert seen == {(p, q, r) for p in phases for q in places for r in (False, True)}
    assert {row["kernel"] for row in rows} == {"flash_attention_for_cpu"}


def test_a_call_that_writes_them_down_is_told_by_its_name_and_its_memory(sdpa, capsys):
    arguments = argparse.Namespace(device="cpu", sentences=3, length=32, heads=4, kv_heads=2)
    fused = sdpa.run(arguments)
    assert all(row["math_mib"] > row["mib"] for row in fused if row["place"] == "encoder self")
    with sdpa_kernel(SDPBackend.MATH), pytest.raises(ValueError, match=r"cross \(train\)"):
        sdpa.run(arguments)
