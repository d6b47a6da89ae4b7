"""Signals that ask a run to stop, and the death of the process that started it."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.lightning import LightningEnvironment

# A batch system's time limit or preemption, Ctrl-C, and what SLURM scripts often ask for.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_WATCH_SECONDS = 5.0


class Stopped(SystemExit):
    """The run was told to stop and has saved where it stands; the program ends."""


class StopSignals:
    """Takes the first signal as a wish, to be granted between two updates; Ctrl-C twice is at once.

    Lightning's own handlers raise, or save, wherever the run stands, and send to other ranks from
    within the handler; in their place this one only notes.

    Attributes:
        received: The first signal that came; None so far.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Takes over from now on; only a main thread can."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}

    def restore(self) -> None:
        """Gives the signals back to who had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def agreed(self, trainer: pl.Trainer) -> bool:
        """Returns whether any rank was told to stop; every rank must ask at the same place."""
        told = self.received is not None
        return bool(trainer.strategy.reduce_boolean_decision(told, all=False))

    def exit_status(self, trainer: pl.Trainer) -> int:
        """Returns 128 + signal, as shells do; 0 for all ranks but the first.

        Lightning kills the first rank at once when another ends with an error.
        """
        return 128 + (self.received or signal.SIGTERM) if trainer.is_global_zero else 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


def end_with_parent(trainer: pl.Trainer) -> None:
    """Lets a rank that Lightning's launcher started end soon after its first rank has died.

    torchrun and SLURM see to that themselves; Lightning watches the other direction only.
    """
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if not isinstance(environment, LightningEnvironment) or trainer.local_rank == 0:
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
