"""Fair timing of things to be compared."""

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved_rates(
    sides: Mapping[str, Callable[[], int]], *, seconds: float, rounds: int
) -> dict[str, float]:
    """Runs the sides in turn (A B A B ...) and returns the median rate of each.

    Args:
        sides: For each side a function that does one piece of work and returns its size.
        seconds: Process CPU time in all, besides one piece of each side to warm up. CPU time of
            one thread is the wall time of an idle machine, and another program's load is left out.
        rounds: Turns of each side.

    Returns:
        Sizes per CPU second.
    """
    for work in sides.values():
        work()
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            rates[name].append(rate_of(work, seconds / rounds / len(sides)))
    return {name: statistics.median(values) for name, values in rates.items()}


def rate_of(
    work: Callable[[], int], seconds: float, clock: Callable[[], float] = time.process_time
) -> float:
    """Returns the sizes of pieces of work by the time they take, over at least `seconds`."""
    size = 0
    start = clock()
    while True:
        size += work()
        elapsed = clock() - start
        if elapsed >= seconds:
            return size / elapsed
