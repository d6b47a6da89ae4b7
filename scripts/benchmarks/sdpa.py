"""Which kernel of PyTorch's attention runs at each place of the Transformer, and its memory.

Every call that a model makes is caught and run under torch.profiler: of the encoder's
self-attention, the decoder's and the cross-attention; in training, and in decoding with one token
(greedy), with several hypotheses of a sentence (beam) and with a given prefix; with padding and
without; on a GPU in bf16, as training is there, and in fp32. Ends with an error where the kernel
that writes down all weights runs, so that a script can rely on it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile

from nmt.models.transformer import Transformer

MATH = "math"
_KERNEL = "_scaled_dot_product_"  # what the names of the kernels begin with
_BEAM = 5
_TYPES = {"cpu": (torch.float32,), "cuda": (torch.bfloat16, torch.float32)}
_SHOWN = ("type", "phase", "padded", "place")
Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--sentences", type=int, default=16, help="B (%(default)s)")
    add("--length", type=int, default=64, help="S and T (%(default)s)")
    add("--heads", type=int, default=8, help="of width 32 (%(default)s)")
    add("--kv-heads", type=int, default=2, help="they share (%(default)s)")


def run(arguments: argparse.Namespace) -> list[Row]:
    """Runs all phases, prints a line for each place and returns the rows.

    Raises:
        ValueError: At some place no fused kernel ran.
    """
    rows = [
        {"type": str(dtype).removeprefix("torch."), **row}
        for dtype in _TYPES[arguments.device]
        for row in attention_calls(
            device=arguments.device,
            dtype=dtype,
            num_sentences=arguments.sentences,
            length=arguments.length,
            num_heads=arguments.heads,
            num_kv_heads=arguments.kv_heads,
        )
    ]
    print(
        f"{'type':10}{'phase':8}{'padded':8}{'place':14}{'kernel':26}{'MiB':>8}{'MiB of math':>13}"
    )
    for row in {tuple(row[key] for key in _SHOWN): row for row in rows}.values():
        padded = "yes" if row["padded"] else "no"
        print(
            f"{row['type']:10}{row['phase']:8}{padded:8}{row['place']:14}{row['kernel']:26}"
            f"{row['mib']:8.2f}{row['math_mib']:13.2f}"
        )
    unfused = {f"{row['place']} ({row['phase']})" for row in rows if row["kernel"] in ("", MATH)}
    if unfused:
        raise ValueError(f"attention is not fused here: {', '.join(sorted(unfused))}.")
    return rows


def attention_calls(
    *,
    device: str,
    dtype: torch.dtype,
    num_sentences: int,
    length: int,
    num_heads: int,
    num_kv_heads: int,
) -> list[Row]:
    """Returns what every call of a model of one layer each did.

    Returns:
        For each call phase, padded, place, kernel, mib, and math_mib: what it would allocate with
        all weights written down. On a CPU the sum over its operations, on a GPU the peak.
    """
    torch.manual_seed(0)
    model = _model(num_heads, num_kv_heads).to(device, dtype)
    tokens = torch.randint(4, 100, (num_sentences, length), device=device)
    lengths = torch.linspace(1, length, num_sentences, device=device).ceil()
    padding = torch.arange(length, device=device) < lengths.unsqueeze(1)
    rows = []
    for mask in (None, padding):
        for phase, work in _phases(model, tokens, mask).items():
            with _Calls(device) as calls:
                work()
            places = ["encoder self"] + ["decoder self", "cross"] * (len(calls.rows) // 2)
            rows += [
                {"phase": phase, "padded": mask is not None, "place": place, **row}
                for place, row in zip(places, calls.rows, strict=True)
            ]
    return rows


def _phases(
    model: Transformer, tokens: Tensor, mask: Tensor | None
) -> dict[str, Callable[[], object]]:
    first = tokens[:, :1]

    def train() -> None:
        model.train()(tokens, mask, tokens).float().sum().backward()

    def greedy() -> None:
        _, state = model.step(first, model.start(tokens, mask))
        model.step(first, state)

    def beam() -> None:
        rows = torch.arange(len(tokens), device=tokens.device).repeat_interleave(_BEAM)
        _, state = model.step(first, model.start(tokens, mask))
        model.step(first[rows], state.select(rows))

    def prefix() -> None:
        _, state = model.step(tokens[:, :3], model.start(tokens, mask))
        model.step(tokens[:, :2], state)

    def decoding(search: Callable[[], None]) -> Callable[[], None]:
        def work() -> None:
            model.eval()
            with torch.inference_mode():
                search()

        return work

    return {
        "train": train,
        "greedy": decoding(greedy),
        "beam": decoding(beam),
        "prefix": decoding(prefix),
    }


def _model(num_heads: int, num_kv_heads: int) -> Transformer:
    return Transformer(
        vocab_size=100,
        width=32 * num_heads,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        feed_forward=64,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.1,
        attention_dropout=0.0,
        positions="rope",
        max_positions=1024,
        memory_slots=None,
    )


class _Calls(TorchFunctionMode):
    """Notes kernel and memory of every call of PyTorch's attention."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = device
        self.rows: list[Row] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs a call of PyTorch."""
        if func is not F.scaled_dot_product_attention:
            return func(*args, **kwargs or {})
        row, output = self._profiled(lambda: func(*args, **kwargs or {}))
        with sdpa_kernel(SDPBackend.MATH):
            written_out, _ = self._profiled(lambda: func(*args, **kwargs or {}))
        self.rows.append({**row, "math_mib": written_out["mib"]})
        return output

    def _profiled(self, call: Callable[[], Any]) -> tuple[Row, Any]:
        if self._device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        with profile(
            activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True
        ) as profiled:
            output = call()
        events = profiled.events() or []
        if self._device == "cuda":
            allocated = torch.cuda.max_memory_allocated() - before
        else:
            allocated = sum(max(0, event.self_cpu_memory_usage) for event in events)
        names = {e.name.partition(_KERNEL)[2] for e in events if _KERNEL in e.name} - {""}
        # The choice may be noted as an operation of its own; the slow one has but one name.
        kernel = MATH if "attention_math" in names else " ".join(sorted(names))
        return {"kernel": kernel, "mib": allocated / 2**20}, output
