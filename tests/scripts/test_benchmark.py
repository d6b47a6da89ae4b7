import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARK = ROOT / "scripts" / "benchmark.py"


def run(*arguments):
    return subprocess.run(
        [sys.executable, BENCHMARK, *map(str, arguments)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


@pytest.fixture
def files(tmp_path):
    """97 pairs of very unequal lengths."""
    source, target = tmp_path / "train.en", tmp_path / "train.de"
    counts = [1 + (k * k) % 29 for k in range(97)]
    source.write_text("".join("dog " * n + "\n" for n in counts), encoding="utf-8")
    target.write_text("".join("Hund " * n + "\n" for n in counts), encoding="utf-8")
    return source, target


def test_data_benchmark_compares_both_kinds_of_batches(files, tmp_path):
    source, target = files
    output = tmp_path / "figures.json"
    options = ["--tokenizer-size", 300, "--budget", 64, "--seconds", 0.01, "--rounds", 1]
    done = run("data", "--source", source, "--target", target, *options, "--output", output)
    assert done.returncode == 0, done.stderr
    assert "ratio" in done.stdout
    figures = json.loads(output.read_text(encoding="utf-8"))["figures"]
    ordered, shuffled = figures["length-sorted"], figures["shuffled"]
    assert ordered["padding"] < shuffled["padding"]
    assert ordered["target_tokens_per_batch"] == shuffled["target_tokens_per_batch"]
    assert figures["ratio"] > 0


def test_data_benchmark_refuses_files_of_unequal_length(files, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    data = importlib.import_module("benchmarks.data")
    source, target = files
    target.write_text("Hund\n", encoding="utf-8")
    parser = argparse.ArgumentParser()
    data.add_arguments(parser)
    arguments = parser.parse_args(["--source", str(source), "--target", str(target)])
    with pytest.raises(ValueError, match="97 lines but"):
        data.run(arguments)


def test_the_large_corpus_repeats_no_input_and_is_the_same_for_the_same_seed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    text = importlib.import_module("benchmarks.grammar_text")
    monkeypatch.setattr(text, "MOST_SENTENCES", 23)
    monkeypatch.setattr(text, "SPLITS", {"valid": 7, "test": 5})
    contents = []
    for folder in ("one", "same"):
        text.write_corpus(tmp_path / folder, 211)
        names = [f"{split}.{side}" for split in ("train", "valid", "test") for side in ("en", "de")]
        contents.append([(tmp_path / folder / n).read_text(encoding="utf-8") for n in names])
    assert contents[0] == contents[1]
    english, german = ("".join(contents[0][side::2]).splitlines() for side in (0, 1))
    assert [len(part.splitlines()) for part in contents[0]] == [211, 211, 7, 7, 5, 5]
    assert len(set(english)) == len(set(german)) == 223
