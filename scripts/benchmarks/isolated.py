"""Runs a function in a process of its own, with a limit on its time and on its memory."""

import multiprocessing
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection

MIB = 2**20


def isolated(task: Callable[[], float], *, seconds: float, mib: float | None) -> float | str:
    """Returns what `task` returns in a fork of this process, or why there is nothing.

    Args:
        task: Must not need threads that this process has started.
        seconds: Wall time after which the process is ended.
        mib: Memory it may take beyond what it has at its start; None: no limit.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(task, sender, mib))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            return "time"
        result: float | str = receiver.recv()
    except EOFError:  # ended by the system
        process.join()
        return "memory" if process.exitcode == -signal.SIGKILL else f"exit {process.exitcode}"
    finally:
        process.kill()
        process.join()
        receiver.close()
    return result


def peak_memory(task: Callable[[], object]) -> float:
    """Returns by how many MiB the resident memory of this process grows at most while `task` runs.

    On Linux; large blocks are mapped one by one, so that what was freed before does not count.
    """
    import ctypes

    ctypes.CDLL(None).mallopt(-3, 65_536)  # M_MMAP_THRESHOLD
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")
    before = status_mib("VmRSS")
    task()
    return max(0.0, status_mib("VmHWM") - before)


def _run(task: Callable[[], float], sender: Connection, mib: float | None) -> None:
    if mib is not None:
        size = int((status_mib("VmSize") + mib) * MIB)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        sender.send(task())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        sender.send("memory" if "memory" in text.lower() else text)


def status_mib(name: str) -> float:
    """Returns a size from /proc/self/status in MiB: VmRSS, its peak VmHWM, VmSize."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(name))
