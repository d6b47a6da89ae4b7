"""Run folders with translations of number words that get worse as chosen, for tests of reports."""

import json
import random

import yaml

from nmt.evaluation.results import (
    TranslatedSentence,
    score_split,
    write_metrics,
    write_translations,
)

ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
GERMAN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]


def corpus(lengths, seed=0):
    """Returns (source, reference) of each length."""
    rng = random.Random(seed)
    numbers = [[rng.randrange(10) for _ in range(length)] for length in lengths]
    return [
        (" ".join(ENGLISH[n] for n in row), " ".join(GERMAN[n] for n in row)) for row in numbers
    ]


def translations(pairs, error_rate, seed):
    """Translates with some words wrong.

    Args:
        pairs: (source, reference)
        error_rate: From the number of source words to the share of wrong words.
        seed: Of the errors.
    """
    rng = random.Random(f"errors {seed}")
    rows = []
    for index, (source, reference) in enumerate(pairs):
        words = reference.split()
        rate = error_rate(len(words))
        words = [rng.choice(GERMAN) if rng.random() < rate else word for word in words]
        rows.append(TranslatedSentence(index, source, reference, " ".join(words), -0.5, len(words)))
    return rows


def write_run(
    directory,
    error_rate,
    *,
    model_name="rnn",
    seed=1,
    splits=None,
    model=None,
    data=None,
    languages=("en", "de"),
    **facts,
):
    """Writes a run folder: translations with errors, metrics and config; returns its path."""
    splits = splits or {"test": corpus([3, 7, 10, 11, 20, 25])}
    results = [
        score_split(
            name,
            translations(pairs, error_rate, seed=f"{model_name} {seed} {name}"),
            target_lang=languages[1],
            unit="word",
        )
        for name, pairs in splits.items()
    ]
    for result in results:
        write_translations(directory, result)
    metrics = {result.name: result.metrics() for result in results} | {
        "num_parameters": {"total": 1700, "embedding": 700},
        "updates": 100,
        "target_tokens_seen": 5000,
        "seconds": 60.5,
        "longest_train_source_words": 20,
        "length_unit": "word",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "seed": seed,
        "device": "cpu, 1 threads",
    }
    metrics |= facts
    write_metrics(directory, metrics)
    attention = {"rnn": "none", "bahdanau": "additive"}
    config = {
        "seed": seed,
        "model_name": model_name,
        "run_dir": str(directory),
        "threads": 1,
        "data": {"name": "number words", "seed": seed, "cache_dir": str(directory)} | (data or {}),
        "model": {"attention": attention.get(model_name), "memory_slots": None, **(model or {})},
        "optimizer": {"lr": 0.002},
        "trainer": {"max_steps": metrics["updates"], "devices": "auto"},
    }
    (directory / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return directory


def write_probes(directory, **values):
    """Writes `probes/`: `joined` and `train` as lines, everything else in `probes.json`."""
    folder = directory / "probes"
    folder.mkdir(exist_ok=True)
    for name in ("joined", "train"):
        rows = values.pop(name, None)
        if rows is not None:
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    if values:
        text = json.dumps({"version": 1, **values}, ensure_ascii=False)
        (folder / "probes.json").write_text(text, encoding="utf-8")
