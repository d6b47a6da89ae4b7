"""Shows that a restructuring changed nothing that a user sees: the same commands in two trees.

    python tests/unchanged.py --against 398a710 [--only compare,training,checkpoint,metrics,probes]

The old tree is a temporary `git worktree` of that commit, the new one is the tree this file lies
in, uncommitted changes included. Only published commands run and nothing is imported from `nmt`, so
its modules may move. A command runs in both trees at once; all of it takes four minutes of a core.

Exit status: 0 when nothing differs, 1 when something does.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("compare", "training", "checkpoint", "metrics", "probes")
MODELS = ("rnn", "bahdanau", "sutskever", "transformer")
# Times and what holds them, versions, names of modules, the limit of outputs, which follows the
# source since, and a figure without its points of few tokens: they must be there, not the same.
MAY_DIFFER = {
    *("seconds", "tokens_per_s", "checkpoint_sha256", "versions", "_target_", "max_length"),
    "loss_by_position.png",
}
MAY_GO = {"ter", "ter_signature"}  # computed on request only
# In commands {work} is what the tree that runs them writes to, {old} what the old tree writes to,
# and {tree} the code of the old tree.
TRAIN = (
    "train.py trainer=cpu trainer.precision=32-true threads=1 seed=1 "
    "num_validations=2 optimizer.lr=3e-2 "
    "data.grammar.train_size=600 data.grammar.valid_size=30 data.grammar.test_per_bucket=2 "
    "data.cache_dir={work}/cache"
)
TRANSLATE = "scripts/translate.py --threads 1 --input {old}/source.txt"
NBEST = "--beam-size 4 --num-hypotheses 4 --length-penalty 0.6"
PROBED = "{work}/runs/rnn {work}/runs/bahdanau"  # the pair that a report is about


class Tree(NamedTuple):
    """One version of the code, and a folder for what its commands write."""

    name: str
    root: Path
    work: Path

    def run(self, *command: str) -> str:
        """Runs a Python program of this tree; returns its standard output."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            last = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise RuntimeError(f"{self.name} tree: {' '.join(command)}\n{last}")
        return done.stdout


class Check(NamedTuple):
    """What both trees do, and which files of their folders have to be the same afterwards."""

    title: str
    files: tuple[str, ...]  # patterns
    commands: tuple[str, ...] = ()


def checks(old: Tree, new: Tree, sections: set[str]) -> Iterator[Check]:
    """Yields the checks in their order: later ones use what earlier ones have written."""
    if "compare" in sections:
        for name in sorted(path.parent.name for path in new.root.glob("results/*/results.json")):
            if (old.root / "results" / name / "results.json").exists():
                numbers = f"{{tree}}/results/{name}/results.json"
                command = f"scripts/compare.py --from {numbers} --output {{work}}/{name}"
                yield Check(f"compare --from results/{name}", report(name), (command,))
    if sections == {"compare"}:
        return
    for model in MODELS:
        command = f"{TRAIN} model={model} trainer.max_steps=20 hydra.run.dir={{work}}/runs/{model}"
        weights = (f"runs/{model}/checkpoints/*.ckpt", f"runs/{model}/metrics.csv")
        yield Check(f"20 updates of {model}: weights, learning curve", weights, (command,))
        if "metrics" in sections:
            scores = tuple(f"runs/{model}/{pattern}" for pattern in ("*.json", "*.jsonl", "*.png"))
            yield Check(f"20 updates of {model}: scores, translations", scores)
    if "checkpoint" in sections:
        write_sentences(old.work)
        yield from checkpoint_checks()
    if "probes" in sections:
        commands = (
            f"scripts/probe.py {PROBED} --threads 1",
            f"scripts/compare.py {PROBED} --output {{work}}/probed",
        )
        yield Check("probe and compare rnn and bahdanau", report("probed"), commands)


def report(folder: str) -> tuple[str, ...]:
    """Returns the files of a report that have to be the same: its words may change."""
    return (f"{folder}/results.json", f"{folder}/*.png")


def checkpoint_checks() -> Iterator[Check]:
    """Yields what both trees do with checkpoints of the old one."""
    best = "{old}/runs/%s/checkpoints/best.ckpt"
    ways = [(model, "beam", NBEST) for model in MODELS]
    ways += [(model, "greedy", "") for model in ("rnn", "sutskever")]
    ways += [(model, "aligned", "--alignment word") for model in ("bahdanau", "transformer")]
    scored = "--score {old}/references.txt"
    ways += [(model, "scored", scored) for model in ("bahdanau", "transformer")]
    ways += [("transformer", "drawn", "--top-p 0.9 --seed 3")]
    for model, way, options in ways:
        file = f"{model}_{way}.txt"
        command = f"{TRANSLATE} {best % model} {options} --output {{work}}/{file}"
        yield Check(f"old {model} translates: {way}", (file,), (command,))
    command = (
        f"scripts/evaluate.py checkpoint={best % 'bahdanau'} split=test output={{work}}/evaluated "
        "threads=1"
    )
    files = ("evaluated/*.json", "evaluated/*.jsonl", "evaluated/*.png")
    yield Check("old bahdanau is evaluated", files, (command,))
    command = (
        f"{TRAIN} ckpt_path={{old}}/runs/transformer/checkpoints/last.ckpt "
        "hydra.run.dir={work}/resumed trainer.max_steps=24"
    )
    yield Check("old transformer trains on", ("resumed/checkpoints/*.ckpt",), (command,))
    exported = f"{TRANSLATE} --engine ctranslate2 {NBEST}"
    commands = (
        f"scripts/export_ctranslate2.py {best % 'transformer'} {{work}}/export",
        f"{exported} {{work}}/export --output {{work}}/exported.txt",
    )
    yield Check("old transformer is exported", ("export/model.bin", "exported.txt"), commands)
    command = f"{exported} {{old}}/export --output {{work}}/from_old_export.txt"
    yield Check("the old export translates", ("from_old_export.txt",), (command,))


def write_sentences(work: Path) -> None:
    """Writes 30 sentences and their references, a line each."""
    lines = (work / "runs/rnn/valid.jsonl").read_text(encoding="utf-8").splitlines()[:30]
    for key, name in (("source", "source.txt"), ("reference", "references.txt")):
        text = "".join(json.loads(line)[key] + "\n" for line in lines)
        (work / name).write_text(text, encoding="utf-8")


def differences(check: Check, old: Tree, new: Tree) -> Iterator[str]:
    """Runs the commands of a check in both trees, and yields what is not the same afterwards."""

    def run(tree: Tree) -> None:
        folders = {"work": tree.work, "old": old.work, "tree": old.root}
        for command in check.commands:
            # Split before the folders get in, which may have spaces.
            tree.run(*(word.format(**folders) for word in command.split()))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, (old, new)))
    for pattern in check.files:
        files = sorted(old.work.glob(pattern))
        if not any(file.stat().st_size for file in files):
            yield f"{pattern}: nothing to compare"
        for name in (file.relative_to(old.work) for file in files):
            if (new.work / name).is_file():
                yield from unequal(read(old.work / name), read(new.work / name), str(name))
            else:
                yield f"{name} is not written"


def read(path: Path) -> Any:
    """Returns what a file holds, as far as it has to be the same."""
    if path.suffix == ".ckpt":
        weights: dict[str, torch.Tensor] = torch.load(path, weights_only=True)["state_dict"]
        return weights
    if path.suffix in {".png", ".bin"}:
        return path.read_bytes()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    lines = text.splitlines()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in lines]
    return list(csv.DictReader(lines)) if path.suffix == ".csv" else lines


def unequal(old: Any, new: Any, where: str) -> Iterator[str]:
    """Compares nested values: all that the old one has must be there and equal; more may be."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key in new:
                yield from unequal(value, new[key], f"{where}: {key}")
            elif key not in MAY_GO:
                yield f"{where}: {key} is lost"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (first, second) in enumerate(zip(old, new, strict=True)):
            yield from unequal(first, second, f"{where}: {index}")
    elif isinstance(old, torch.Tensor):
        if old.dtype != new.dtype or not torch.equal(old, new):
            yield f"{where} is another tensor"
    elif isinstance(old, bytes):
        if old != new and not MAY_DIFFER & {where.rpartition("/")[2]}:
            yield f"{where} has other bytes"
    elif repr(old) != repr(new) and not MAY_DIFFER & set(where.split(": ")):  # NaN equals itself
        yield f"{where}: {str(old)[:80]} -> {str(new)[:80]}"


def passes(check: Check, old: Tree, new: Tree) -> bool:
    """Makes one check and prints a line about it; an error counts as a difference."""
    start = time.monotonic()
    try:
        found = list(differences(check, old, new))
    except Exception as error:  # whatever the new tree wrote: the other checks go on
        found = [f"{type(error).__name__}: {error}"]
    verdict = "DIFFERENT" if found else "ok"
    print(f"{verdict:9}  {check.title} ({time.monotonic() - start:.0f} s)", flush=True)
    for text in found[:5] + [f"and {len(found) - 5} more"] * (len(found) > 5):
        print("           " + text.replace("\n", "\n           "), flush=True)
    return not found


def main() -> int:
    """Runs the program; returns its exit status."""
    parser = argparse.ArgumentParser(description="Shows that a restructuring changed nothing.")
    parser.add_argument("--against", required=True, metavar="COMMIT", help="the old tree")
    parser.add_argument("--only", default=",".join(SECTIONS), help="default: %(default)s")
    options = parser.parse_args()
    sections = set(options.only.split(","))
    if unknown := sections - set(SECTIONS):
        parser.error(f"--only knows {', '.join(SECTIONS)}, not {', '.join(sorted(unknown))}")
    git = ("git", "-C", str(ROOT), "worktree")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        old, new = Tree("old", work / "tree", work / "old"), Tree("new", ROOT, work / "new")
        subprocess.run([*git, "add", "-q", "--detach", str(old.root), options.against], check=True)
        try:
            for tree in (old, new):
                tree.work.mkdir()
                place = tree.run("-P", "-c", "import nmt; print(nmt.__file__)").strip()
                if not Path(place).is_relative_to(tree.root):
                    parser.error(f"the {tree.name} tree would run {place}")
            passed = [passes(check, old, new) for check in checks(old, new, sections)]
        finally:
            subprocess.run([*git, "remove", "--force", str(old.root)], check=False)
    print(f"{len(passed)} checks, {passed.count(False) or 'none'} different")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
