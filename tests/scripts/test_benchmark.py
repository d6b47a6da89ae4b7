"""The decode benchmark measures what it says: searches without a cache, and their time by verb."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from models_for_tests import VOCAB_SIZE, tiny_model

from nmt import EOS, PAD
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from scripts.benchmarks import decode

ROOT = Path(__file__).parents[2]
BENCHMARK = ROOT / "scripts" / "benchmark.py"
SOURCE = torch.tensor([[5, 7, 11, 13, EOS], [17, 19, EOS, PAD, PAD], [23, 29, 31, EOS, PAD]])
SEARCHES = [
    GreedySearch(min_length=5, max_length=5),
    BeamSearch(beam_size=3, max_length=9, num_hypotheses=2),
]


def run(*arguments):
    return subprocess.run(
        [sys.executable, BENCHMARK, *map(str, arguments)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam"])
def test_a_model_without_cache_finds_the_same(model, search):
    cached = search(model, SOURCE, SOURCE != PAD)
    uncached = search(decode.Uncached(model), SOURCE, SOURCE != PAD)
    for ours, theirs in zip(cached, uncached, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-5)


def test_a_model_without_cache_reads_the_whole_prefix_at_every_step(model, monkeypatch):
    read = []
    step = model.step
    monkeypatch.setattr(
        model, "step", lambda tokens, state: read.append(tokens.shape[1]) or step(tokens, state)
    )
    GreedySearch(min_length=4, max_length=4)(decode.Uncached(model), SOURCE, SOURCE != PAD)
    assert read == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "beam"])
def test_a_timed_model_finds_the_same_and_its_shares_add_up(model, search):
    found = []
    shares = decode.shares_of(
        model, lambda: found.append(search(model, SOURCE, SOURCE != PAD)), rounds=1
    )
    assert found == [search(model, SOURCE, SOURCE != PAD)]
    assert list(shares) == ["encode", "step", "reorder", "bookkeeping"]
    assert sum(shares.values()) == pytest.approx(1)
    assert all(share >= 0 for share in shares.values())
    assert shares["step"] > 0


def test_ctranslate2_makes_as_many_steps(monkeypatch):
    """As many tokens, and one step more for EOS; with random weights some sentence goes on."""
    ctranslate2 = pytest.importorskip("ctranslate2", reason="needs pip install 'nmt[export]'")
    lengths = []

    class Recorder(ctranslate2.Translator):
        def translate_batch(self, *arguments, **options):
            found = super().translate_batch(*arguments, **options)
            lengths.extend(len(one.hypotheses[0]) for one in found)
            return found

    monkeypatch.setattr(ctranslate2, "Translator", Recorder)
    torch.manual_seed(3)
    search = BeamSearch(beam_size=2, min_length=6, max_length=6)
    options = argparse.Namespace(vocab_size=VOCAB_SIZE, threads=1)
    sources = [[5, 7, 11, 13], [17, 19], [23, 29, 31]]
    decode.exported_search(tiny_model("transformer"), sources, search, options)()
    assert len(lengths) == 3
    assert max(lengths) == 6 + 1


@pytest.mark.parametrize(("num_kv_heads", "share"), [(8, 1), (2, 1 / 4), (1, 1 / 8)])
def test_the_cache_of_self_attention_shrinks_with_the_key_value_heads(num_kv_heads, share):
    model = tiny_model("transformer", width=48, num_heads=8, num_kv_heads=num_kv_heads)
    keys_and_values, layers, tokens, bytes_each = 2, 2, 20, 4
    all_heads = keys_and_values * layers * tokens * 48 * bytes_each / 1024
    assert decode.cache_kib(model, tokens) == all_heads * share


def test_the_decode_benchmark_gives_all_its_figures(tmp_path):
    output = tmp_path / "figures.json"
    sizes = ["--width", 16, "--layers", 1, "--vocab-size", 290, "--sentences", 3]
    options = ["--lengths", "2,3", "--seconds", 0.001, "--rounds", 1, "--output", output]
    done = run("decode", *sizes, *options)
    assert done.returncode == 0, done.stderr
    figures = json.loads(output.read_text(encoding="utf-8"))["figures"]
    assert list(figures["cache"]) == ["2", "3"]
    of_cache = [heads["cache_kib_per_sentence"] for heads in figures["grouped_query"].values()]
    assert of_cache == [of_cache[0], of_cache[0] / 4, of_cache[0] / 8]
    beam = figures["beam"]
    assert {"transformer 8/8", "transformer 8/2", "bahdanau", "rnn"} <= set(beam)
    assert all(side["sentences_per_second"] > 0 for side in beam.values())
