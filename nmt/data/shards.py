"""Work on a large corpus, piece by piece, in several processes.

The pieces depend on the size of the corpus alone, so that the result is the same on every machine.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

Result = TypeVar("Result")

ROWS = 2**16  # of a shard
_MOST_PROCESSES = 8
_PR_SET_PDEATHSIG = 1


def shards(num_rows: int) -> list[range]:
    """Returns the rows of each shard, in order; one without rows for an empty corpus."""
    return [range(start, min(start + ROWS, num_rows)) for start in range(0, max(1, num_rows), ROWS)]


def default_processes() -> int:
    """Returns the number of CPUs, up to eight."""
    return min(os.cpu_count() or 1, _MOST_PROCESSES)


def map_shards(
    work: Callable[[range], Result], num_rows: int, *, processes: int | None = None
) -> list[Result]:
    """Returns what `work` gives for the rows of each shard, in order.

    A corpus of one shard is worked on in this process, a larger one in forks of it: memory that
    they take goes back to the system, and what they read is not counted here.

    Args:
        work: Its result is sent between processes, so it should be small or arrays.
        num_rows: Of the corpus.
        processes: How many, None: `default_processes`.

    Raises:
        Exception: What `work` raised first.
        ValueError: A process was ended from outside.
    """
    tasks = shards(num_rows)
    if len(tasks) == 1:
        return [work(tasks[0])]
    return _in_forks(work, tasks, min(processes or default_processes(), len(tasks)))


def apart(work: Callable[[], Result], num_rows: int) -> Result:
    """Returns what `work` gives, in a fork of this process where the corpus is large."""
    if len(shards(num_rows)) == 1:
        return work()
    return _in_forks(lambda rows: work(), [range(num_rows)], 1)[0]


def _in_forks(
    work: Callable[[range], Result], tasks: Sequence[range], processes: int
) -> list[Result]:
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("fork"),  # nothing to send, nothing to import anew
        initializer=_begin,
        initargs=(work, os.getpid()),
    )
    try:
        with pool:
            return list(pool.map(_do, tasks))
    except BrokenProcessPool:
        raise ValueError(
            "A process that prepared data was ended by the system, mostly for want of memory: "
            "free some and start again; earlier steps are kept."
        ) from None
    except ValueError as error:  # an answer to the user; the cause says where in the process
        raise ValueError(str(error)) from error


_work: Callable[[range], Any]  # of this process, a fork


def _begin(work: Callable[[range], Any], parent: int) -> None:
    """Lets this process not outlive the one that wants its results, where the system is Linux."""
    global _work
    _work = work
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _do(rows: range) -> Any:
    return _work(rows)
