"""Time and peak memory of attention mechanisms against the length of the input.

One layer of each, with its projections, on one sentence; forward alone (as in translating) and
forward with backward (as in training). Each point is measured in a process of its own; a series
ends at the first point that takes too much time or memory.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.arguments import numbers
from benchmarks.isolated import isolated, peak_memory
from benchmarks.mechanisms import MECHANISMS, Mechanism, path_length

DIRECTIONS = ("forward", "both")
_FIT_POINTS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    add = parser.add_argument
    add("--lengths", type=numbers, default=[2**k for k in range(6, 14)], metavar="N,...")
    add("--mechanisms", type=_names, default=list(MECHANISMS), metavar="NAME;...",
        help="; between names (default: all)")  # fmt: skip
    add("--width", type=int, default=256, help="D (%(default)s); 8 heads")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--rounds", type=int, default=5, help="runs of a point, of which the median counts")
    add("--seconds", type=float, default=60.0, help="wall time of a point at most (%(default)s)")
    add("--mib", type=float, default=4096.0, help="memory of a point at most (%(default)s)")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures all series, prints a line for each point and returns the figures."""
    series = {}
    for name in arguments.mechanisms:
        mechanism = MECHANISMS[name]
        points, stopped = _measure_series(name, mechanism, arguments)
        series[name] = {
            "operations": mechanism.operations,
            "exponent": mechanism.exponent,
            "sequential": mechanism.sequential,
            "path_length": path_length(mechanism),
            "points": points,
            "stopped": stopped,
            "fitted": {
                quantity: fitted_exponent([(p["length"], p["both"][quantity]) for p in points])
                for quantity in ("seconds", "mib")
            },
        }
    return {"device": _device_name(arguments.device), "series": series}


def fitted_exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """Returns the slope of log y over log n by least squares, over the longest inputs.

    None with fewer than two points above 0: short inputs are ruled by costs that do not grow.
    """
    last = [point for point in points if point[1] > 0][-_FIT_POINTS:]
    if len(last) < 2:
        return None
    x, y = np.log(np.array(last, dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])


def _measure_series(
    name: str, mechanism: Mechanism, arguments: argparse.Namespace
) -> tuple[list[dict[str, Any]], str | None]:
    points: list[dict[str, Any]] = []
    for length in sorted(arguments.lengths):
        point: dict[str, Any] = {"length": length}
        for direction in DIRECTIONS:
            point[direction] = {}
            for quantity in ("seconds", "mib"):
                task = _task(mechanism, length, direction, quantity, arguments)
                mib = arguments.mib if arguments.device == "cpu" else None
                result = isolated(task, seconds=arguments.seconds, mib=mib)
                if isinstance(result, str):
                    print(f"{name:22}{length:8}  stopped: {result}", flush=True)
                    return points, f"{result} at {length}"
                point[direction][quantity] = result
        points.append(point)
        both = point["both"]
        print(f"{name:22}{length:8}{both['seconds']:12.5f} s{both['mib']:10.1f} MiB", flush=True)
    return points, None


def _task(
    mechanism: Mechanism,
    length: int,
    direction: str,
    quantity: str,
    arguments: argparse.Namespace,
) -> Callable[[], float]:
    def task() -> float:
        torch.manual_seed(0)
        device = arguments.device
        work = _work(mechanism, length, arguments.width, device, backward=direction == "both")
        if quantity == "seconds":
            work()
            return statistics.median(_seconds(work, device) for _ in range(arguments.rounds))
        _work(mechanism, 16, arguments.width, device, backward=direction == "both")()
        if device == "cpu":
            return peak_memory(
                lambda: _work(
                    mechanism, length, arguments.width, device, backward=direction == "both"
                )()
            )
        work()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 2**20

    return task


def _work(
    mechanism: Mechanism, length: int, width: int, device: str, *, backward: bool
) -> Callable[[], None]:
    """Returns a function that makes one pass; on a GPU in bf16, as training does there."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    x = torch.randn(1, length, width, device=device, dtype=dtype, requires_grad=backward)
    layer = mechanism.make(x)

    def work() -> None:
        with torch.set_grad_enabled(backward):
            output = layer(x)
        if backward:
            output.sum().backward()  # type: ignore[no-untyped-call]

    return work


def _seconds(work: Callable[[], None], device: str) -> float:
    """CPU time on a CPU: that of one thread is the wall time of an idle machine."""
    if device == "cpu":
        start = time.process_time()
        work()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _device_name(device: str) -> str:
    return "cpu" if device == "cpu" else torch.cuda.get_device_name()


def _names(text: str) -> list[str]:
    names = [part.strip() for part in text.split(";")]
    for name in names:
        if name not in MECHANISMS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {'; '.join(MECHANISMS)}")
    return names
