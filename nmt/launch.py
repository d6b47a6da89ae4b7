"""What torchrun tells its processes: who they are, and where they meet before they compute."""

from __future__ import annotations

import os
from datetime import timedelta


def under_torchrun() -> bool:
    """Returns whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank_and_ranks() -> tuple[int, int]:
    """Returns the number of this process of torchrun, from 0, and how many there are."""
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def processes_and_nodes() -> tuple[int, int]:
    """Returns how many processes torchrun started on each node, and on how many nodes."""
    each = int(os.environ["LOCAL_WORLD_SIZE"])
    return each, int(os.environ["WORLD_SIZE"]) // each


class MeetingPoint:
    """Values that torchrun's processes give each other through its store, without computing.

    Args:
        purpose: Keeps the values of one use apart from those of others.
    """

    def __init__(self, purpose: str) -> None:
        import torch.distributed  # only here: it takes seconds

        self._store = torch.distributed.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            is_master=False,
            timeout=timedelta(minutes=10),
        )
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._prefix = f"nmt/{purpose}/{attempt}"

    def give(self, value: str) -> None:
        """Leaves a value of this process."""
        self._store.set(f"{self._prefix}/{os.environ['RANK']}", value)

    def take(self, rank: int, *, longest_wait: timedelta = timedelta(minutes=10)) -> str:
        """Waits for the value of a process, and returns it."""
        key = f"{self._prefix}/{rank}"
        self._store.wait([key], longest_wait)
        value: str = self._store.get(key).decode()
        return value
