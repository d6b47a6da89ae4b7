"""The training data loader: it knows where in an epoch it is, and resumes there.

Lightning saves and restores a loader that has `state_dict` and `load_state_dict`. It asks for the
iterator before it calls `set_epoch` on the sampler, so the iterator here starts only when its
first batch is wanted: workers would otherwise prefetch batches of the wrong epoch.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader

from nmt.checks import UserError
from nmt.data.batch import Batch
from nmt.data.sampler import Row, TokenBatchSampler

_GRACE_SECONDS = 30


def outlive_signals(worker: int) -> None:
    """Keeps a worker serving when a signal stops the whole run, which takes one more update.

    Batch systems and terminals signal the workers as well, and without them the run would fail.
    The run ends its workers; the alarm ends one whose run is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: signal.alarm(_GRACE_SECONDS))


class BatchDataset(Protocol):
    """A data set that is asked for a whole batch at once."""

    def __getitem__(self, rows: list[Row]) -> Batch:
        """Returns the pairs of these numbers as a batch."""


class TrainLoader(DataLoader[Batch]):
    """Yields this rank's training batches and resumes exactly, within an epoch as well.

    What counts as done is what was handed out, not what workers have prefetched: save between
    two batches, at the boundary of an update.
    """

    sampler: TokenBatchSampler

    def __init__(
        self,
        dataset: BatchDataset,
        sampler: TokenBatchSampler,
        *,
        num_workers: int = 0,
        pin_memory: bool = False,
        persistent_workers: bool = False,
    ) -> None:
        """Joins data set and sampler.

        Args:
            dataset: Gives a batch for a list of pair numbers.
            sampler: Gives these lists.
            num_workers: Processes that prepare batches ahead; 0 prepares them in this one.
            pin_memory: Put batches into page-locked memory, for a GPU.
            persistent_workers: Keep the workers from epoch to epoch.
        """
        # A generator of its own: starting workers draws a number and would move the global one.
        super().__init__(
            dataset,  # type: ignore[arg-type]
            sampler=sampler,
            batch_size=None,
            num_workers=num_workers,
            pin_memory=pin_memory,
            persistent_workers=persistent_workers and num_workers > 0,
            generator=torch.Generator().manual_seed(sampler.seed),
            worker_init_fn=outlive_signals,
        )
        self._position = (sampler.epoch, 0)  # epoch, batches handed out in it
        self._resume_from: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        """Returns the batches of the sampler's epoch that were not handed out before a resume."""
        # A generator: nothing below happens before the first batch is asked for.
        epoch = self.sampler.epoch
        done = 0
        if self._resume_from is not None and self._resume_from[0] == epoch:
            done = self._resume_from[1]
        self._resume_from = None
        self.sampler.start = done
        iterator = super().__iter__()
        self.sampler.start = 0
        for batches, batch in enumerate(iterator, start=done + 1):
            self._position = (epoch, batches)
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Returns the epoch, how many of its batches were handed out, and of which batches."""
        epoch, batches = self._position
        return {"epoch": epoch, "batches": batches, "fingerprint": self.sampler.fingerprint}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration resume where `state_dict` was called."""
        if state["fingerprint"] != self.sampler.fingerprint:
            raise UserError(
                f"The checkpoint stopped at batch {state['batches']} of epoch {state['epoch']} of "
                "other batches than these; resume with the data, token budget, seed, number of "
                "devices and accumulated batches it was trained with, or begin a new run with its "
                "weights: init_from=CHECKPOINT."
            )
        self._position = self._resume_from = (state["epoch"], state["batches"])
        self.sampler.set_epoch(state["epoch"])
