"""scripts/stress.py on a toy program in train.py's place: what it kills, and what it notices."""

import json
from collections import Counter

import pytest
import torch

from scripts import stress
from scripts.stress import DELAYS, differences, plan_kills

TOY = """
import json, sys, time
from pathlib import Path

options = dict(word.lstrip("+").split("=", 1) for word in sys.argv[1:] if "=" in word)
run, phase = Path(options["hydra.run.dir"]), Path(options["callbacks.phase.path"])
last = run / "checkpoints" / "last.ckpt"
last.parent.mkdir(exist_ok=True)
done, total = 0, 0
if "ckpt_path" in options:
    done, total = json.loads(last.read_text())
    total += FORGETS
while done < 40:
    done, total = done + 1, total + done
    phase.write_text(f"training {done}")
    if done % 5 == 0:
        (run / "partial").write_text(json.dumps([done, total]))
        (run / "partial").replace(last)
    time.sleep(0.01)
phase.write_text("testing 40")
time.sleep(1)
"""


@pytest.fixture
def write_run(tmp_path):
    """Writes what a run leaves, with one value of it changed."""

    def write(name, *, weight=0.5, score=7.0, seconds=3.0, loss="0.25", text="ein"):
        folder = tmp_path / name
        (folder / "checkpoints").mkdir(parents=True)
        content = {
            "state_dict": {"w": torch.tensor([weight, float("nan")])},
            "callbacks": {"best": {"path": f"{folder}/checkpoints/best.ckpt", "score": score}},
            "counters": {"seconds": seconds, "tokens": 3},
            "loops": {"batch": [1, 2]},
        }
        for file in ("last.ckpt", "best.ckpt"):
            torch.save(content, folder / "checkpoints" / file)
        log = f"step,loss,tokens_per_s\n1,{loss},{seconds}\n"
        (folder / "metrics.csv").write_text(log, encoding="utf-8")
        (folder / "metrics.json").write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
        (folder / "test.jsonl").write_text(text, encoding="utf-8")
        return folder

    return write


def test_only_the_times_of_a_run_may_differ(write_run):
    first = write_run("a")
    assert not any(differences(first, write_run("b", seconds=4.0)).values())
    changes = {
        "weight": (1e-30, "last.ckpt: state_dict", "w"),
        "score": (7, "best.ckpt: callbacks", "best.score"),  # an int
        "loss": ("0.250", "metrics.csv", "0.loss"),
        "text": ("eine", "translations", "test.jsonl"),
    }
    for key, (value, part, name) in changes.items():
        found = differences(first, write_run(key, **{key: value}))
        assert found[part] == [name]


def test_kills_are_spread_over_the_run_and_end_in_its_test():
    plan = plan_kills(11, updates=100, seed=3)
    assert [kill.update for kill in plan] == sorted(kill.update for kill in plan)
    *kinds, last = DELAYS
    assert Counter(kill.kind for kill in plan) == dict.fromkeys(kinds, 2) | {last: 1}
    assert plan[-1].kind == "testing"
    assert all(0 <= kill.delay <= DELAYS[kill.kind] for kill in plan)
    assert plan != plan_kills(11, updates=100, seed=4)


@pytest.mark.parametrize("forgets", [0, 1])
def test_a_run_that_forgets_after_a_kill_is_found(tmp_path, monkeypatch, forgets, capsys):
    toy = tmp_path / "toy.py"
    toy.write_text(TOY.replace("FORGETS", str(forgets)), encoding="utf-8")
    monkeypatch.setattr(stress, "TRAIN", toy)
    monkeypatch.setattr(stress, "UPDATES", 20)
    monkeypatch.setattr(stress, "DELAYS", {"anywhere": 0.1, "testing": 0.5})

    def compare(first, second):
        ends = [
            (run / "checkpoints" / "last.ckpt").read_text(encoding="utf-8")
            for run in (first, second)
        ]
        return {"last.ckpt": [] if ends[0] == ends[1] else ["sum"]}

    monkeypatch.setattr(stress, "differences", compare)
    status = stress.main(["--kills", "3", "--folder", str(tmp_path / "runs")])
    output = capsys.readouterr().out
    assert output.count("kill ") >= 3
    assert "testing" in output
    assert status == (1 if forgets else 0), output
