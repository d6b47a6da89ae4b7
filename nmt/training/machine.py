"""What a run takes of its machine: the precision of its products, and its threads.

Both are part of a result (sums are rounded and made in another order), so they are chosen once, at
the start of a run, and a resumed run takes them from there.

Precision is bf16 where the hardware multiplies it: a GPU, or a CPU with AMX or AVX512-BF16. The
weights, the sums and the optimizer stay in fp32.

Threads are all on an idle machine and one on a busy one. PyTorch's threads wait for each other
after every operation, and spin while they wait. Where another program holds one of the cores, all
of them wait for it: two threads on two cores can then be thirty times slower than one.
"""

from __future__ import annotations

import ctypes
import logging
import os
import statistics
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from omegaconf import DictConfig, OmegaConf

logger = logging.getLogger(__name__)

ROUNDS = 25
PATIENCE = 0.4  # seconds; on a busy machine a single round can take that long
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h
WORTH = 0.85  # of the time of one thread; above it more threads are not worth their cores


def precision_of_run(config: DictConfig) -> str:
    """Returns the precision of a run as Lightning names it.

    It is the option `trainer.precision`, and where that is `auto`, that of the run to be resumed,
    else what the hardware multiplies.
    """
    chosen: str = config.trainer.precision
    if chosen != "auto":
        return chosen
    if config.trainer.accelerator != "cpu" and torch.cuda.is_available():
        return "bf16-mixed" if torch.cuda.is_bf16_supported() else "32-true"
    if earlier := _recorded(config, "trainer.precision"):
        return "32-true" if earlier == "auto" else str(earlier)  # what auto was, on a CPU
    features = torch.cpu.get_capabilities()
    if not (features.get("amx_bf16") or features.get("avx512_bf16")):
        return "32-true"
    logger.info("This CPU multiplies bf16: trainer.precision is bf16-mixed, or give 32-true.")
    return "bf16-mixed"


def keep_freed_memory() -> None:
    """Lets this process keep the memory that it frees; does nothing without glibc.

    glibc returns blocks of more than 32 MB, such as logits, to the system at once. Getting them
    back, zeroed page by page, can take a fifth of an update (docs/benchmarks.md).
    """
    with suppress(OSError, AttributeError, TypeError):  # of other C libraries, and of Windows
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, -1)


def threads_of_run(config: DictConfig) -> int | None:
    """Returns the number of threads of a run; None leaves PyTorch's and Lightning's choice.

    It is the option `threads`, else that of the run to be resumed, else what a probe of half a
    second chooses. The choice is left alone where OMP_NUM_THREADS is set, on a GPU, and with
    several processes, whose threads Lightning divides.
    """
    if config.threads is not None:
        return int(config.threads)
    on_gpu = config.trainer.accelerator != "cpu" and torch.cuda.is_available()
    one_process = config.trainer.devices in ("auto", 1, "1") and config.trainer.num_nodes == 1
    if on_gpu or not one_process or "OMP_NUM_THREADS" in os.environ:
        return None
    earlier = _recorded(config, "threads")
    if earlier is not None and earlier <= torch.get_num_threads():
        return int(earlier)
    most, chosen = torch.get_num_threads(), choose_threads()
    if chosen < most:
        logger.info(
            "The machine is busy: this run takes 1 thread instead of %d; threads=%d takes all.",
            *(most, most),
        )
    return chosen


def _recorded(config: DictConfig, option: str) -> Any:
    """Returns an option of the run to be resumed; None in a new run."""
    recorded = Path(config.run_dir) / "config.yaml"
    if config.ckpt_path is None or not recorded.is_file():
        return None
    return OmegaConf.select(OmegaConf.load(recorded), option)


def choose_threads() -> int:
    """Returns PyTorch's number of threads where it is clearly faster than one, else 1."""
    most = torch.get_num_threads()
    if most == 1:
        return 1
    seconds: dict[int, list[float]] = {1: [], most: []}
    begin = time.perf_counter()
    while len(seconds[most]) < ROUNDS and time.perf_counter() - begin < PATIENCE:
        for number, measured in seconds.items():
            torch.set_num_threads(number)
            measured.append(_time_small_products())
    medians = {number: statistics.median(measured) for number, measured in seconds.items()}
    chosen = most if medians[most] < WORTH * medians[1] else 1
    torch.set_num_threads(chosen)
    return chosen


def _time_small_products() -> float:
    """Times operations of the size of a training step's."""
    rows, weights = torch.ones(512, 128), torch.ones(128, 384)
    start = time.perf_counter()
    for _ in range(5):
        torch.tanh(rows @ weights)
    return time.perf_counter() - start


class WarnOfCollapse(pl.Callback):
    """Warns once when batches on several CPU threads take far longer than they did before.

    Args:
        factor: How many times as long.
        batches: Number whose median is compared with the shortest such median so far.
    """

    def __init__(self, factor: float, batches: int) -> None:
        super().__init__()
        self.factor = factor
        self._seconds: deque[float] = deque(maxlen=batches)
        self._shortest = float("inf")
        self._warned = False

    def on_train_batch_start(self, *args: Any) -> None:
        """Starts the clock."""
        self._start = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any
    ) -> None:
        """Compares; a GPU does not wait for threads."""
        self._seconds.append(time.perf_counter() - self._start)
        threads = torch.get_num_threads()
        if self._warned or threads == 1 or trainer.strategy.root_device.type != "cpu":
            return
        if len(self._seconds) == self._seconds.maxlen:
            now = statistics.median(self._seconds)
            self._shortest = min(self._shortest, now)
            if now > self.factor * self._shortest:
                self._warned = True
                logger.warning(
                    "Updates take %.0f times as long as before: another program holds a core that "
                    "one of the %d threads waits for. Stop the run and resume it with "
                    "ckpt_path=last threads=1.",
                    *(now / self._shortest, threads),
                )
