"""What is each system, and what did its training cost?"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from nmt.study.findings.contrasts import scores_at_ends
from nmt.study.presentation import Results, Section, Table, number, with_interval
from nmt.study.systems import Comparison, System

if TYPE_CHECKING:
    from nmt.data.batch import Batch
    from nmt.models.encoder_decoder import EncoderDecoder
    from nmt.study.measure import TrainedRun

logger = logging.getLogger(__name__)

NUM_BATCHES = 4


def measure(run: TrainedRun) -> Mapping[str, Any]:
    """Counts the operations of training per target token, over the first batches of a run.

    Padding is paid for; EOS is a target token. None where nothing was counted.
    """
    batches = list(islice(run.data.train_dataloader(), NUM_BATCHES))
    total = count_training_flops(run.translator.model, batches)
    if not total:
        logger.warning("No operation of %s can be counted.", type(run.translator.model).__name__)
    tokens = sum(batch.num_target_tokens for batch in batches)
    return {"flops_per_target_token": total / tokens if total else None}


def count_training_flops(model: EncoderDecoder, batches: Sequence[Batch]) -> int:
    """Counts the operations of forward and backward passes over these batches.

    Counted are matrix products, a multiplication and an addition as two: those of linear layers,
    of recurrences (they are products to PyTorch on a CPU, where this runs), of attention, and of
    the output layer. Not counted are element-wise operations, softmax, and the optimizer's step.
    All products are over the rows of a batch, so one row is run and counted for all.

    Args:
        model: Is copied.
        batches: With padding, as in training.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

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
    """Computes without oneDNN, whose LSTM is one operation that the counter does not know.

    PyTorch's own `mkldnn.flags` warns of TF32 on machines without an Intel GPU.
    """
    import torch

    enabled = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = enabled


def score(comparison: Comparison) -> Mapping[str, Any]:
    """Describes every system."""
    shown = comparison.shown
    return {"systems": [_describe(s, is_shown=s in shown) for s in comparison.systems]}


def _describe(system: System, *, is_shown: bool) -> dict[str, Any]:
    parameters = system.metrics.get("num_parameters") or {}
    total, embedding = parameters.get("total"), parameters.get("embedding")
    flops = (run.probes.get("flops_per_target_token") for run in system.runs)
    return {
        "label": system.label,
        "model_name": system.model_name,
        "role": system.role,
        "memory_slots": system.memory_slots,
        "shown": is_shown,
        "seeds": system.seeds,
        "runs": [run.directory.name for run in system.runs],
        "embedding_parameters": embedding,
        "other_parameters": None if total is None else total - embedding,
        "updates": system.mean("updates"),
        "target_tokens": system.mean("target_tokens_seen"),
        "seconds": system.mean("seconds"),
        "flops_per_target_token": next((float(found) for found in flops if found), None),
        "device": system.metrics.get("device"),
        # Without that of the data: paths are of the machine that trained.
        "config": {k: v for k, v in system.config.items() if not k.startswith("data.")},
    }


def tell(results: Results) -> Iterator[Section]:
    """Tabulates size, budget, cost, and the score at both ends."""
    falls = results["falls"]
    ends = next(iter(falls.values()), {"short_range": "shortest", "long_range": "longest"})
    columns = ["model", "seeds", "embedding", "other", "updates", "target tokens", "FLOPs"]
    columns += ["minutes", f"BLEU {ends['short_range']}", f"BLEU {ends['long_range']}"]
    columns += ["long − short"]
    rows = []
    for system in results["systems"]:
        at_ends = scores_at_ends(results, system["label"]) if falls else ()
        flops, tokens = system["flops_per_target_token"], system["target_tokens"]
        seconds = system["seconds"]
        rows.append(
            (
                system["label"],
                ", ".join(map(str, system["seeds"])),
                number(system["embedding_parameters"], 0),
                number(system["other_parameters"], 0),
                number(system["updates"], 0),
                number(tokens, 0),
                "–" if flops is None or tokens is None else f"{flops * tokens:.2g}",
                number(None if seconds is None else seconds / 60),
                *([number(bleu["value"]) for bleu in at_ends] or ["–", "–"]),
                with_interval(falls.get(system["label"])),
            )
        )
    note = (
        "“Embedding” and “other” count parameters. Updates, target tokens and minutes are means "
        "over seeds. Minutes depend on what else the machine was running. FLOPs are those of the "
        "whole training, where a probe counted them."
    )
    yield Section("The systems", tables=[Table(columns, rows)], after=[note])
