"""Time and peak memory of attention mechanisms against the length of the input.

One layer of each, with its projections, on one sentence; forward alone (as in translating) and
forward with backward (as in training). Each point is measured in a process of its own; a series
ends at the first point that takes too much time or memory.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmt.models.attention import (
    AdditiveAttention,
    Attend,
    SelfAttention,
    additive_attention,
    dot_product_weights,
)
from nmt.models.encoder_attention import EncoderAttention, dense_mask
from scripts.benchmarks.timing import clock_of, isolated, numbers, peak_memory

NUM_HEADS = 8
WINDOW = 64  # as in the block-sparse kernels
RANDOM_FEATURES = 64
PATH_LENGTH_OF = 512  # tokens, for which paths are counted
_FIT_POINTS = 4
Layer = Callable[[Tensor], Tensor]
Passes = Callable[[int], Callable[[], None]]  # of a length


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    add = parser.add_argument
    add("--lengths", type=numbers, default=[2**k for k in range(6, 14)], metavar="N,...")
    add("--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS), metavar="NAME",
        help="(default: all)")  # fmt: skip
    add("--width", type=int, default=256, help="D (%(default)s); 8 heads")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--rounds", type=int, default=5, help="runs of a point, of which the median counts")
    add("--seconds", type=float, default=60.0, help="wall time of a point at most (%(default)s)")
    add("--mib", type=float, default=4096.0, help="memory of a point at most (%(default)s)")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures all series, prints a line for each point and returns the figures."""
    device = "cpu" if arguments.device == "cpu" else torch.cuda.get_device_name()
    series = {}
    for name in arguments.mechanisms:
        mechanism = MECHANISMS[name]
        points, stopped = _measure_series(name, mechanism, arguments)
        series[name] = {
            "operations": mechanism.operations,
            "sequential": mechanism.sequential,
            "path_length": path_length(mechanism),
            "points": points,
            "stopped": stopped,
            "fitted": {
                quantity: fitted_exponent([(p["length"], p["both"][quantity]) for p in points])
                for quantity in ("seconds", "mib")
            },
        }
    return {"device": device, "series": series}


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
    mib = arguments.mib if arguments.device == "cpu" else None
    for length in sorted(arguments.lengths):
        point: dict[str, Any] = {"length": length, "forward": {}, "both": {}}
        for direction in ("forward", "both"):
            passes = functools.partial(_one_pass, mechanism, direction == "both", arguments)
            for quantity, measure in {"seconds": _time, "mib": _memory}.items():
                task = functools.partial(measure, passes, length, arguments)
                result = isolated(task, seconds=arguments.seconds, mib=mib)
                if isinstance(result, str):
                    print(f"{name:22}{length:8}  stopped: {result}", flush=True)
                    return points, f"{result} at {length}"
                point[direction][quantity] = result
        points.append(point)
        both = point["both"]
        print(f"{name:22}{length:8}{both['seconds']:12.5f} s{both['mib']:10.1f} MiB", flush=True)
    return points, None


def _one_pass(
    mechanism: Mechanism, backward: bool, arguments: argparse.Namespace, length: int
) -> Callable[[], None]:
    """Returns a function that makes one pass; on a GPU in bf16, as training does there."""
    torch.manual_seed(0)
    dtype = torch.float32 if arguments.device == "cpu" else torch.bfloat16
    shape = (1, length, arguments.width)
    x = torch.randn(shape, device=arguments.device, dtype=dtype, requires_grad=backward)
    layer = mechanism.make(x)

    def work() -> None:
        with torch.set_grad_enabled(backward):
            output = layer(x)
        if backward:
            output.sum().backward()  # type: ignore[no-untyped-call]

    return work


def _time(passes: Passes, length: int, arguments: argparse.Namespace) -> float:
    work, clock = passes(length), clock_of(arguments.device)
    work()
    seconds = []
    for _ in range(arguments.rounds):
        start = clock()
        work()
        seconds.append(clock() - start)
    return statistics.median(seconds)


def _memory(passes: Passes, length: int, arguments: argparse.Namespace) -> float:
    passes(16)()  # loads what PyTorch loads at the first use
    if arguments.device == "cpu":
        return peak_memory(lambda: passes(length)())
    work = passes(length)
    work()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


@dataclass(frozen=True)
class Mechanism:
    """One line of the table.

    Attributes:
        make: Builds the layer, x (1, n, D) -> (1, n, D), for inputs like x.
        operations: Theoretical order for n tokens of width d, with a window w or F features.
        sequential: Order of operations that must follow each other.
        pattern: The kind of `EncoderAttention` whose paths are counted; None: neither of them.
    """

    make: Callable[[Tensor], Layer]
    operations: str
    sequential: str = "1"
    pattern: str | None = "full"


def recurrent(x: Tensor) -> Layer:
    """Makes a GRU."""
    gru = nn.GRU(x.shape[-1], x.shape[-1], batch_first=True, device=x.device, dtype=x.dtype)
    return lambda inputs: gru(inputs)[0]


def additive(x: Tensor) -> Layer:
    """Makes Bahdanau's attention with every position as a query."""
    width, length = x.shape[-1], x.shape[1]
    attention = AdditiveAttention(
        query_width=width, memory_width=width, attention_dim=width // NUM_HEADS
    ).to(x)

    def forward(inputs: Tensor) -> Tensor:
        keys = attention.key(inputs).expand(length, -1, -1)
        return additive_attention(attention.query(inputs[0]), keys, attention.v, None) @ inputs

    return forward


def self_attention(x: Tensor, attend: Attend, num_kv_heads: int = NUM_HEADS) -> Layer:
    """Makes a layer whose heads read in the given way."""
    heads = {"num_heads": NUM_HEADS, "num_kv_heads": num_kv_heads}
    layer = SelfAttention(x.shape[-1], **heads, dropout=0.0).to(x)
    return lambda inputs: layer(*layer.project(inputs, None), attend)


def by_hand(x: Tensor) -> Layer:
    """Makes softmax(Q K^T / sqrt(d)) V with the weights written down."""

    def attend(query: Tensor, keys: Tensor, values: Tensor, *, dropout: float = 0.0) -> Tensor:
        return dot_product_weights(query, keys, None) @ values

    return self_attention(x, attend)


def encoder(kind: str, num_kv_heads: int = NUM_HEADS) -> Callable[[Tensor], Layer]:
    """Makes one of the encoder's mechanisms; the mask, one for all layers, is made beforehand."""

    def make(x: Tensor) -> Layer:
        attend, *_ = encoder_attention(kind, x.shape[-1]).to(x.device).of_layers(x, None, None)
        return self_attention(x, attend, num_kv_heads)

    return make


MECHANISMS = {
    "recurrent": Mechanism(recurrent, "n d²", "n", None),
    "additive": Mechanism(additive, "n² d"),
    "dot product by hand": Mechanism(by_hand, "n² d"),
    **{
        f"SDPA, {heads} KV heads": Mechanism(encoder("full", heads), "n² d")
        for heads in (8, 4, 2, 1)
    },
    "sliding window": Mechanism(encoder("sliding_window"), "n w d", "1", "sliding_window"),
    "BigBird": Mechanism(encoder("bigbird"), "n w d", "1", "bigbird"),
    "local": Mechanism(encoder("local"), "n w d", "1", "local"),
    "linear (elu + 1)": Mechanism(encoder("linear"), "n d²/H"),
    "linear (Performer)": Mechanism(encoder("performer"), "n F d"),
}


def encoder_attention(kind: str, width: int) -> EncoderAttention:
    """Returns the mechanism with the sizes of this benchmark."""
    return EncoderAttention(
        kind,
        num_layers=1,
        head_width=width // NUM_HEADS,
        window=WINDOW,
        global_tokens=1,
        random_blocks=1,
        random_features=RANDOM_FEATURES,
    )


def path_length(mechanism: Mechanism, length: int = PATH_LENGTH_OF) -> int | None:
    """Returns how many layers it takes until every position has read every other one.

    Counted on the mask itself; None where some positions never read some others.
    """
    if mechanism.pattern is None:
        return length - 1
    if mechanism.pattern == "full":
        return 1
    x = torch.empty(1, length, NUM_HEADS)
    sees = encoder_attention(mechanism.pattern, NUM_HEADS).visible(x, None, 0)
    edges = dense_mask(sees, x)[0].float()
    read, layers = edges, 1
    while not bool(read.all()):
        further = (edges @ read).clamp(max=1)
        if torch.equal(further, read):
            return None
        read, layers = further, layers + 1
    return layers
