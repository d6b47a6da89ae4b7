"""Fair measuring: rates of sides that take turns, and time and memory of a process of its own."""

import ctypes
import multiprocessing
import resource
import signal
import statistics
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection

import torch

MIB = 2**20


def numbers(text: str) -> list[int]:
    """Parses the value of an option such as 1,2,3."""
    return [int(part) for part in text.split(",")]


def interleaved_rates(
    sides: Mapping[str, Callable[[], int]], *, seconds: float, rounds: int
) -> dict[str, float]:
    """Runs the sides in turn (A B A B ...) and returns the median rate of each.

    Args:
        sides: For each side a function that does one piece of work and returns its size.
        seconds: CPU time in all, besides one piece of each side to warm up. CPU time of one
            thread is the wall time of an idle machine: another program's load is left out.
        rounds: Turns of each side.
    """
    for work in sides.values():
        work()
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            rates[name].append(rate_of(work, seconds / rounds / len(sides)))
    return {name: statistics.median(values) for name, values in rates.items()}


def clock_of(device: str, *, wall: bool = False, waits: bool = True) -> Callable[[], float]:
    """Returns CPU time for a CPU, or wall time: for a GPU always.

    `waits` for the GPU: right for stages, but then it idles in between.
    """
    if device == "cpu":
        return time.perf_counter if wall else time.process_time

    def finished() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return finished if waits else time.perf_counter


def rate_of(
    work: Callable[[], int], seconds: float, clock: Callable[[], float] = time.process_time
) -> float:
    """Returns the summed sizes of pieces of work per second, over at least `seconds`."""
    size = 0
    start = clock()
    while True:
        size += work()
        elapsed = clock() - start
        if elapsed >= seconds:
            return size / elapsed


def isolated(task: Callable[[], float], *, seconds: float, mib: float | None) -> float | str:
    """Returns what `task` returns in a fork of this process, or why it returned nothing.

    The process is ended after `seconds` of wall time, and where it takes `mib` beyond what it has
    at its start. It has no threads that this process has started.
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


def _run(task: Callable[[], float], sender: Connection, mib: float | None) -> None:
    if mib is not None:
        size = int((status_mib("VmSize") + mib) * MIB)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        sender.send(task())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        sender.send("memory" if "memory" in text.lower() else text)


def peak_memory(task: Callable[[], object]) -> float:
    """Returns by how many MiB the resident memory of this process grows while `task` runs.

    On Linux. Large blocks are mapped one by one, so that memory freed before does not count.
    """
    ctypes.CDLL(None).mallopt(-3, 65_536)  # M_MMAP_THRESHOLD
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")
    before = status_mib("VmRSS")
    task()
    return max(0.0, status_mib("VmHWM") - before)


def status_mib(name: str) -> float:
    """Returns a size from /proc/self/status in MiB: VmRSS, its peak VmHWM, VmSize."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(name))
