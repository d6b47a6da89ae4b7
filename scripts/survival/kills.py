"""Trains in a process of its own and kills it: when, and what happened."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from survival.phase import Phase, read_phase

# Kinds of moments, and up to how many seconds after reaching one the kill comes.
DELAYS = {
    "anywhere": 3.0,
    "accumulating": 0.005,
    "validating": 0.1,
    "saving": 0.02,
    "starting": 8.0,
    "testing": 0.5,
}


@dataclass(frozen=True)
class Kill:
    """When a run is to be killed.

    Attributes:
        kind: What it is doing then, a key of `DELAYS`.
        update: Not before so many updates.
        delay: Seconds from there.
    """

    kind: str
    update: int
    delay: float


def plan_kills(count: int, *, updates: int, kinds: Sequence[str], seed: int) -> list[Kill]:
    """Draws the moments of the kills, spread over the run; the last is in the test after it.

    Args:
        count: How many.
        updates: Of the whole run.
        kinds: Keys of `DELAYS`; `testing` is added for the last.
        seed: Of the draws.
    """
    draw = random.Random(seed)
    at = sorted(draw.randrange(updates) for _ in range(count))
    drawn = [kinds[number % len(kinds)] for number in range(count - 1)]
    draw.shuffle(drawn)
    return [
        Kill(kind, update, draw.uniform(0, DELAYS[kind]))
        for kind, update in zip([*drawn, "testing"], at, strict=True)
    ]


def start(command: Sequence[str], *, folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Starts a training in a process group of its own, one thread each process."""
    scripts = Path(__file__).parents[1]
    paths = [str(scripts), str(scripts.parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@contextlib.contextmanager
def killed_in_the_end(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Leaves no process of a training behind, whatever happens."""
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def kill_at(process: subprocess.Popen[bytes], kill: Kill, phase_file: Path) -> Phase | None:
    """Waits for the moment and kills all processes of the run, as a power failure would.

    Returns:
        What the run was doing; None when it ended before.
    """
    while kill.kind != "starting" and not _reached(kill, read_phase(phase_file)):
        if process.poll() is not None:
            return None
        time.sleep(0.002)
    time.sleep(kill.delay)
    if process.poll() is not None:
        return None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return read_phase(phase_file)


def _reached(kill: Kill, phase: Phase) -> bool:
    if kill.kind == "anywhere":
        return phase.name != "starting" and phase.update >= kill.update
    return phase.name == kill.kind and phase.update >= kill.update
