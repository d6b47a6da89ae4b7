"""What training runs with other encoders and positions scored, for the table of the page."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.checks import UserError
from nmt.evaluation.metrics import bleu
from nmt.evaluation.results import Run, TranslatedSentence, read_run
from nmt.models.positions import POSITIONS
from nmt.models.variants import ENCODER_ATTENTIONS

PROBE_WORDS = range(60, 81)


def read_runs(directories: Sequence[Path]) -> dict[str, Any]:
    """Reads finished runs of Transformers on one corpus; those that were probed also with probes.

    Returns:
        {"runs": [{encoder_attention, positions, seed, updates, joined_in_training, bleu}]}, in the
        order of the options; bleu by column: test, test_long, "probe" (the joined inputs of 60 to
        80 words), "probe alone" (the same sentences one by one), "joined K" (`test_joined`, K
        sentences an input). A column that a run lacks is left out.

    Raises:
        UserError: A folder is no finished run of a Transformer, or its test set is another one.
    """
    runs = [read_run(directory) for directory in directories]
    entries = [_entry(run) for run in runs]
    for run in runs:
        if run.metrics["test"]["sha256"] != runs[0].metrics["test"]["sha256"]:
            raise UserError(
                f"{run.directory} has another test set than {runs[0].directory}; give runs of one "
                "corpus."
            )
    return {"runs": sorted(entries, key=_order)}


def _entry(run: Run) -> dict[str, Any]:
    path = run.directory / "config.yaml"
    if not path.is_file():
        raise UserError(f"{run.directory} has no config.yaml; name the folder of a finished run.")
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    model, concatenate = config["model"], config["data"].get("concatenate")
    if "positions" not in model:
        raise UserError(f"{run.directory} is no run of model=transformer; leave it out.")
    scores = {
        name: run.metrics[name]["bleu"] for name in ("test", "test_long") if name in run.splits
    }
    return {
        "encoder_attention": model.get("encoder_attention", "full"),
        "positions": model["positions"],
        "seed": run.metrics["seed"],
        "updates": run.metrics["updates"],
        "joined_in_training": ", ".join(map(str, concatenate["train"])) if concatenate else "",
        "bleu": {
            name: round(value, 2)
            for name, value in (
                scores | _probed(run) | (_joined(run, concatenate["test"]) if concatenate else {})
            ).items()
        },
    }


def _order(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        entry["joined_in_training"],
        entry["updates"],
        POSITIONS.index(entry["positions"]),
        ENCODER_ATTENTIONS.index(entry["encoder_attention"]),
        entry["seed"],
    )


def _probed(run: Run) -> dict[str, float]:
    """Scores the joined inputs of the probes; nothing where the run was not probed."""
    path = run.directory / "probes" / "joined.jsonl"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="\n") as lines:
        rows = [json.loads(line) for line in lines]
    rows = [row for row in rows if row["source_words"] in PROBE_WORDS]
    references, language = [row["reference"] for row in rows], run.metrics["target_lang"]
    return {
        column: bleu([row[key] for row in rows], references, target_lang=language)
        for column, key in (("probe", "joined"), ("probe alone", "alone"))
        if rows
    }


def _joined(run: Run, sizes: Sequence[int]) -> dict[str, float]:
    """Scores `test_joined` by how many sentences were joined: all of `test`, for each size."""
    sentences, scores, start = run.splits["test_joined"], {}, 0
    for size in sizes:
        end = start - (-len(run.splits["test"]) // size)
        scores[f"joined {size}"] = _bleu(sentences[start:end], run)
        start = end
    if start != len(sentences):
        raise UserError(
            f"{run.directory}/test_joined.jsonl has {len(sentences)} inputs where data.concatenate "
            f"makes {start}; evaluate the run again."
        )
    return scores


def _bleu(sentences: Sequence[TranslatedSentence], run: Run) -> float:
    return bleu(
        [sentence.hypothesis for sentence in sentences],
        [sentence.reference for sentence in sentences],
        target_lang=run.metrics["target_lang"],
    )
