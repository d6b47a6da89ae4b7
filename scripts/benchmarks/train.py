"""Speed, memory and time split of training, for each model, and what options change of it.

    scripts/benchmark.py train --output train.json
    scripts/benchmark.py train --against trainer.precision=32-true --against compile=true
    scripts/benchmark.py train --models transformer_base --device cuda data.token_budget=25000
    scripts/benchmark.py train --models transformer --threads 2 --busy 1

The trainer, loader and module are those that train.py builds, without validation, checkpoints and
progress bar. Each side has its own process, so that its memory is its own; the sides take turns,
round by round, with the same batches in each round. A CPU is timed by CPU seconds: those of one
thread are the wall time of an idle machine. With --busy it is timed by wall time, each round once
idle and once beside processes that compute.

The share of the matrix products' rate divides the operations that `nmt.study` counts, padding
included, by what `torch.mm` makes between the rounds in the precision of the side: at the size of
the model's feed-forward on a CPU; on a GPU with a large square product, which makes it the MFU.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.profilers import Profiler

from nmt.checks import UserError
from nmt.config import check_config, config_directory
from nmt.data.batch import Batch
from nmt.data.datamodule import TranslationDataModule
from nmt.study.findings.cost import count_training_flops
from nmt.training.machine import precision_of_run
from nmt.training.run import build_module, build_trainer
from scripts.benchmarks.timing import clock_of, rate_of, status_mib

# Beside the files of conf/model: 3 + 3 layers with the defaults of other toolkits. A feed-forward
# of 1024 has two matrices with ReLU and three with SwiGLU, where 684 makes the same size.
_WIDTH_256 = (
    *("model=transformer", "model.width=256", "model.num_heads=8", "model.num_kv_heads=2"),
    *("model.dropout=0.1", "data.tokenizer.vocab_size=8000"),
)
SIZES = {
    "transformer_256": (*_WIDTH_256, "model.feed_forward=1024"),
    "transformer_256_as_relu": (*_WIDTH_256, "model.feed_forward=684"),
}
_GRAMMAR = {
    "cpu": ("data=grammar", "data.grammar.train_size=4000"),
    "cuda": ("data=grammar",),  # all of it: batches are larger
}
_WITHOUT = ("best", "last", "zero_bleu", "progress")  # callbacks that validate, save or draw
WARM_UP = 2  # updates before those that count
_PEAK_SIZE = 8192  # of the square product that shows a GPU's rate
DATA, FORWARD, BACKWARD, STEP, REST = STAGES = ("data", "forward", "backward", "step", "rest")
# The last part of Lightning's names for what it does. The step encloses forward and backward.
_STAGE_OF = {
    "train_dataloader_next": DATA,
    "batch_to_device": DATA,
    "training_step": FORWARD,
    "backward": BACKWARD,
    "optimizer_step": STEP,  # rescaling, clipping and the log of the update as well
}
Figures = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    add = parser.add_argument
    add("--models", type=lambda text: text.split(","), metavar="NAME,...",
        default=["rnn", "bahdanau", "transformer", "transformer_256"],
        help=f"of conf/model, or {', '.join(SIZES)}")  # fmt: skip
    add("--against", action="append", default=[], metavar="OPTION",
        help="of train.py; measured beside each model as it is: trainer.precision=32-true, "
        "compile=true, +optimizer.fused=true, ...")  # fmt: skip
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--updates", type=int, default=10, help="of a round (%(default)s)")
    add("--rounds", type=int, default=5, help="turns of each side (%(default)s)")
    add("--busy", type=int, default=0, metavar="N",
        help="also measure beside N processes that compute, pinned to no core")  # fmt: skip
    add("options", nargs="*", help="of train.py, for all: data=multi30k data.directory=DIR ... "
        "(default: the built-in corpus)")  # fmt: skip


def run(arguments: argparse.Namespace) -> list[Figures]:
    """Measures all sides, prints them and returns the figures of each."""
    chosen = any(option.startswith("data=") for option in arguments.options)
    shared = [
        "trainer=cpu" if arguments.device == "cpu" else "trainer=gpu",
        *([] if chosen else _GRAMMAR[arguments.device]),
        "data.token_budget=1024",
        *arguments.options,
    ]
    figures = []
    for name in arguments.models:
        model = (*SIZES.get(name, (f"model={name}",)), *shared)
        variants = ["", *arguments.against]
        settings = [
            Setting((*model, variant) if variant else model,
                    arguments.device, arguments.threads, arguments.updates, arguments.busy > 0)
            for variant in variants
        ]  # fmt: skip
        measured = measure(settings, arguments.rounds, busy=arguments.busy)
        for variant, found in zip(variants, measured, strict=True):
            figures.append({"model": name, "against": variant, **found})
    _print_summary(figures, arguments)
    return figures


@dataclass(frozen=True)
class Setting:
    """What a side trains and how it is timed; `updates` of a round besides `WARM_UP`."""

    options: tuple[str, ...]
    device: str
    threads: int
    updates: int
    wall: bool = False  # wall time on a CPU too


def measure(settings: Sequence[Setting], rounds: int, *, busy: int = 0) -> list[Figures]:
    """Trains each side in a process of its own, in turns; ratios are to the first side."""
    for setting in settings:
        prepare(setting)
    with contextlib.ExitStack() as stack:
        spawn = multiprocessing.get_context("spawn")
        sides = [stack.enter_context(ProcessPoolExecutor(1, spawn)) for _ in settings]

        def each(*, waits: bool = False) -> list[Figures]:
            """Returns a round of each side, one after the other."""
            pairs = zip(sides, settings, strict=True)
            return [side.submit(_round, setting, waits).result() for side, setting in pairs]

        measured, beside = [], []
        for _ in range(rounds):
            measured.append(each())
            if busy:
                with computing(busy):
                    beside.append(each())
        # On a GPU a split must wait for it, a speed must not.
        splits = [each(waits=True)] if settings[0].device == "cuda" else measured
    base = [sides[0] for sides in measured]
    found = [
        summary(idle, split, base)
        for idle, split in zip(zip(*measured, strict=True), zip(*splits, strict=True), strict=True)
    ]
    for one, idle, loaded in zip(
        found, zip(*measured, strict=True), zip(*beside, strict=True), strict=False
    ):
        one["busy_to_idle"] = _median_ratio(loaded, idle)
    return found


def _median_ratio(rounds: Sequence[Figures], base: Sequence[Figures]) -> float:
    key = "target_tokens_per_second"
    return float(statistics.median(a[key] / b[key] for a, b in zip(rounds, base, strict=True)))


@contextlib.contextmanager
def computing(count: int) -> Iterator[None]:
    """Keeps so many other processes busy meanwhile."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def summary(
    rounds: Sequence[Figures], splits: Sequence[Figures], base: Sequence[Figures]
) -> Figures:
    """Returns the figures of a side: medians, and shares of its time.

    Args:
        rounds: What `Training.round` returned.
        splits: The rounds that show how its time is split.
        base: The rounds of the side it is compared with.
    """
    rates = [one["target_tokens_per_second"] for one in rounds]
    matmul = [one["matmul_flops_per_second"] for one in rounds]
    shares = [rate / peak for rate, peak in zip(rates, matmul, strict=True)]
    seconds = {stage: sum(one["seconds"][stage] for one in splits) for stage in STAGES}
    first = {key: value for key, value in rounds[0].items() if key != "seconds"}
    return first | {  # the peak of the first: later ones hold on to what earlier trainers had
        "target_tokens_per_second": statistics.median(rates),
        "matmul_flops_per_second": statistics.median(matmul),
        "share_of_matmul": first["flops_per_target_token"] * statistics.median(shares),
        "ratio": _median_ratio(rounds, base),
        "time": {stage: spent / sum(seconds.values()) for stage, spent in seconds.items()},
    }


def _print_summary(figures: list[Figures], arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.device}, {arguments.threads} thread(s), medians of {arguments.rounds} rounds "
        f"of {arguments.updates} updates\n"
        f"{'':26}{'V':>6}{'tokens/s':>10}{'ratio':>7}{'padding':>9}{'MFLOP/token':>13}"
        f"{'of matmul':>11}{'peak MiB':>10}  {' '.join(f'{stage:>8}' for stage in STAGES)}"
        f"{'  busy/idle' if arguments.busy else ''}"
    )
    for one in figures:
        print(
            f"{one['against'] or one['model']:26}{one['vocab_size']:6}"
            f"{one['target_tokens_per_second']:10,.0f}{one['ratio']:7.2f}{one['padding']:9.1%}"
            f"{one['flops_per_target_token'] / 1e6:13.1f}{one['share_of_matmul']:11.1%}"
            f"{one['peak_mib']:10,.0f}  "
            f"{' '.join(f'{share:8.1%}' for share in one['time'].values())}"
            + (f"{one['busy_to_idle']:11.2f}" if arguments.busy else "")
        )
    rates = [one["matmul_flops_per_second"] / 1e9 for one in figures]
    print(f"torch.mm: {min(rates):,.0f} to {max(rates):,.0f} GFLOP/s")


def composed(options: Sequence[str]) -> DictConfig:
    """Returns the checked config of train.py with these options; neither validates nor saves."""
    own = [
        *(f"~callbacks.{name}" for name in _WITHOUT),
        *("+trainer.enable_progress_bar=false", "num_validations=1"),
        *("run_dir=.", "model_name=model"),  # which Hydra would set
    ]
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        config = compose("train", [*options, *own])
    check_config(config)
    config.trainer.limit_val_batches = 0
    return config


def prepare(setting: Setting) -> None:
    """Makes tokenizer and caches, which would otherwise count as memory of training."""
    config = composed(setting.options)
    Path(config.data.cache_dir).mkdir(parents=True, exist_ok=True)
    data: TranslationDataModule = instantiate(config.data)
    data.prepare_data()
    batches, needed = len(data.train_dataloader()), WARM_UP + setting.updates + 1
    if batches < needed:
        raise UserError(
            f"an epoch has {batches} batches but a round takes {needed}: give fewer --updates, a "
            "lower data.token_budget or more data."
        )


def _round(setting: Setting, waits: bool) -> Figures:
    return _training(setting).round(waits=waits)


@functools.cache
def _training(setting: Setting) -> Training:
    """The one training of a side's process."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(setting.threads)
    return Training(setting)


class Training:
    """The real path: module, loader and trainer as train.py builds them."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        max_steps = WARM_UP + setting.updates + 1  # the last one is not followed by another
        self._config = composed([*setting.options, f"trainer.max_steps={max_steps}"])
        self._data: TranslationDataModule = instantiate(self._config.data)
        self._data.prepare_data()
        torch.manual_seed(self._config.seed)
        self._module = build_module(self._config, self._data)
        loader = iter(self._data.train_dataloader())
        batches = [next(loader) for _ in range(WARM_UP + setting.updates)][WARM_UP:]
        self._tokens = sum(batch.num_target_tokens for batch in batches)
        model = self._module.model
        self._facts: Figures = {
            "parameters": model.num_parameters().total,
            "vocab_size": self._module.tokenizer.vocab_size,
            "padding": padding_of(batches),
            "flops_per_target_token": count_training_flops(model, batches) / self._tokens,
        }
        if self._config.compile:
            model.compile(dynamic=True)

    def round(self, *, waits: bool) -> Figures:
        """Makes the same updates as every round; returns seconds by stage, rates and the peak."""
        matmul = self._matmul_rate()
        setting = self._setting
        cuda = setting.device == "cuda"
        with tempfile.TemporaryDirectory(prefix="nmt-train-") as folder:
            self._config.run_dir = folder
            trainer = build_trainer(self._config)
            stopwatch = Stopwatch(clock_of(setting.device, wall=setting.wall, waits=waits))
            trainer.profiler = stopwatch  # type: ignore[attr-defined]
            if cuda:
                torch.cuda.reset_peak_memory_stats()
            trainer.fit(self._module, self._data.train_dataloader())
        laps = stopwatch.laps[WARM_UP:-1]
        seconds = {stage: sum(lap[stage] for lap in laps) for stage in STAGES}
        return {
            **self._facts,
            "target_tokens_per_second": self._tokens / sum(seconds.values()),
            "seconds": seconds,
            "matmul_flops_per_second": matmul,
            "peak_mib": (
                torch.cuda.max_memory_allocated() / 2**20 if cuda else status_mib("VmHWM")
            ),
        }

    def _matmul_rate(self) -> float:
        """Operations a second of `torch.mm`: of the feed-forward's size; on a GPU its best."""
        setting = self._setting
        rows, width = int(self._config.data.token_budget), int(self._config.model.width)
        sizes = (_PEAK_SIZE,) * 3 if setting.device == "cuda" else (rows, width, 4 * width)
        fp32 = precision_of_run(self._config) == "32-true"
        dtype = torch.float32 if fp32 else torch.bfloat16
        x = torch.randn(*sizes[:2], device=setting.device, dtype=dtype)
        weight = torch.randn(*sizes[1:], device=setting.device, dtype=dtype)
        operations: int = 2 * sizes[0] * sizes[1] * sizes[2]

        def work() -> int:
            torch.mm(x, weight)
            return operations

        work()
        return rate_of(work, 0.2, clock_of(setting.device, wall=setting.wall))


def padding_of(batches: Sequence[Batch]) -> float:
    """Returns the share of fillers in the source and target of these batches."""
    real = sum(
        batch.num_target_tokens
        + (batch.source.numel() if batch.source_mask is None else int(batch.source_mask.sum()))
        for batch in batches
    )
    return 1 - real / sum(batch.source.numel() + batch.target_in.numel() for batch in batches)


class Stopwatch(Profiler):
    """Gives each moment of an update to the innermost stage that Lightning reports then.

    Attributes:
        laps: Seconds by stage from the fetching of each batch to that of the next one.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock, self._mark = clock, clock()
        self._enclosing = [REST]
        self.laps: list[dict[str, float]] = []

    def start(self, action_name: str) -> None:
        """Begins a stage, or another part of the enclosing one."""
        self._spend()
        action = action_name.rsplit(".", 1)[-1]
        if action == "train_dataloader_next":
            self.laps.append(dict.fromkeys(STAGES, 0.0))
        self._enclosing.append(_STAGE_OF.get(action, self._enclosing[-1]))

    def stop(self, action_name: str) -> None:
        """Returns to the enclosing stage."""
        self._spend()
        self._enclosing.pop()

    def _spend(self) -> None:
        now = self._clock()
        if self.laps:
            self.laps[-1][self._enclosing[-1]] += now - self._mark
        self._mark = now
