"""What training costs in floating-point operations, for each target token."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmt.data.batch import Batch
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.study.probes.trained_run import TrainedRun

logger = logging.getLogger(__name__)


NUM_BATCHES = 4


def probe_cost(run: TrainedRun) -> float | None:
    """Returns the operations of training per target token, over the first batches of a run.

    Padding is paid for; EOS is a target token. None where nothing was counted.
    """
    batches = list(islice(run.data.train_dataloader(), NUM_BATCHES))
    total = count_training_flops(run.translator.model, batches)
    if not total:
        logger.warning("No operation of %s can be counted.", type(run.translator.model).__name__)
        return None
    return total / sum(batch.num_target_tokens for batch in batches)


def count_training_flops(model: EncoderDecoder, batches: list[Batch]) -> int:
    """Counts the operations of forward and backward passes over these batches.

    Counted are matrix products, a multiplication and an addition as two: those of linear layers,
    of recurrences (they are products to PyTorch on a CPU, where this runs), of attention, and of
    the output layer. Not counted are element-wise operations, softmax, and the optimizer's step.

    All products are over the rows of a batch, so one row is run and counted for all.

    Args:
        model: Is copied.
        batches: With padding, as in training.
    """
    model = copy.deepcopy(model).cpu().train()
    total = 0
    for batch in batches:
        # A CPU's fused attention is one operation that the counter does not know.
        with (
            sdpa_kernel(SDPBackend.MATH),
            _without_onednn(),
            FlopCounterMode(display=False) as counter,
        ):
            model(batch.source[:1], None, batch.target_in[:1]).sum().backward()
        total += counter.get_total_flops() * len(batch)
    return total


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Computes without oneDNN, whose LSTM is one operation that the counter does not know."""
    enabled = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = enabled
