"""What one training update spends its time on, as Lightning's trainer makes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from pytorch_lightning.profilers import Profiler

from nmt.data.batch import Batch
from nmt.data.loader import TrainLoader

DATA, FORWARD, BACKWARD, STEP, REST = STAGES = ("data", "forward", "backward", "step", "rest")
# Of Lightning's names for what it does, the last part. The step encloses forward and backward.
_STAGE_OF = {
    "train_dataloader_next": DATA,
    "batch_to_device": DATA,
    "training_step": FORWARD,
    "backward": BACKWARD,
    "optimizer_step": STEP,  # rescaling, clipping and the log of the update as well
}


class Stopwatch(Profiler):
    """Gives each moment of an update to the innermost stage that Lightning reports then.

    Attributes:
        laps: Seconds of every update that was followed by another one, by stage.
        batches: What every update was made of.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Takes the clock that is read at the start and at the end of all that Lightning does."""
        super().__init__()
        self._clock = clock
        self._enclosing = [REST]
        self.laps: list[dict[str, float]] = []
        self.batches: list[Batch] = []
        self._lap = dict.fromkeys(STAGES, 0.0)
        self._mark = clock()

    def start(self, action_name: str) -> None:
        """Begins a stage, or another part of the enclosing one."""
        self._spend()
        stage = _STAGE_OF.get(action_name.rsplit(".", 1)[-1], self._enclosing[-1])
        self._enclosing.append(stage)

    def stop(self, action_name: str) -> None:
        """Goes on with the enclosing stage."""
        self._spend()
        self._enclosing.pop()

    def batches_of(self, loader: TrainLoader) -> Iterator[Batch]:
        """Yields the loader's batches and begins a lap before each of them."""
        iterator = iter(loader)
        while True:
            self._spend()
            if self.batches:
                self.laps.append(self._lap)
            self._lap = dict.fromkeys(STAGES, 0.0)
            with self.profile("train_dataloader_next"):
                batch = next(iterator, None)
            if batch is None:
                return
            self.batches.append(batch)
            yield batch

    def _spend(self) -> None:
        now = self._clock()
        self._lap[self._enclosing[-1]] += now - self._mark
        self._mark = now


class TimedLoader:
    """A training loader whose batches a stopwatch sees; of a length, lest Lightning fetch ahead."""

    def __init__(self, loader: TrainLoader, stopwatch: Stopwatch) -> None:
        self._loader, self._stopwatch = loader, stopwatch

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Batch]:
        return self._stopwatch.batches_of(self._loader)


def clock_of(device: str, *, waits: bool) -> Callable[[], float]:
    """Returns CPU time on a CPU: that of one thread is the wall time of an idle machine.

    Args:
        device: cpu or cuda; on the latter it is wall time.
        waits: Whether to wait for the GPU: right for stages, but then it idles in between.
    """
    if device == "cpu":
        return time.process_time

    def finished() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return finished if waits else time.perf_counter
