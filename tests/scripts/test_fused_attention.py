"""Attention is fused at every call of the Transformer: the kernels that PyTorch runs, by name.

Every call is caught and run under torch.profiler: of the encoder's self-attention, the decoder's
and the cross-attention; in training and in decoding with one token (greedy), with several
hypotheses of a sentence (beam) and with a given prefix; with padding and without. On a machine with
a GPU there too, in bf16 as in training and in fp32.
"""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile

from nmt.models.transformer import Transformer

MATH = "math"
KERNEL = "_scaled_dot_product_"  # what the names of the kernels begin with
BEAM, HEADS, SENTENCES, LENGTH = 5, 4, 3, 32
DEVICES = [("cpu", torch.float32)]
if torch.cuda.is_available():
    DEVICES += [("cuda", torch.bfloat16), ("cuda", torch.float32)]


class Calls(TorchFunctionMode):
    """Notes kernel and memory of every call of PyTorch's attention, and memory of the math."""

    def __init__(self, device):
        super().__init__()
        self.device, self.rows = device, []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not F.scaled_dot_product_attention:
            return func(*args, **kwargs or {})
        kernel, mib, output = self.profiled(lambda: func(*args, **kwargs or {}))
        with sdpa_kernel(SDPBackend.MATH):
            _, math_mib, _ = self.profiled(lambda: func(*args, **kwargs or {}))
        self.rows.append((kernel, mib, math_mib))
        return output

    def profiled(self, call):
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        with profile(
            activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True
        ) as profiled:
            output = call()
        events = profiled.events()
        if self.device == "cuda":
            allocated = torch.cuda.max_memory_allocated() - before
        else:
            allocated = sum(max(0, event.self_cpu_memory_usage) for event in events)
        names = {e.name.partition(KERNEL)[2] for e in events if KERNEL in e.name} - {""}
        # The choice may be noted as an operation of its own; the slow one has but one name.
        kernel = MATH if "attention_math" in names else " ".join(sorted(names))
        return kernel, allocated / 2**20, output


def attention_calls(device, dtype, num_kv_heads):
    """Yields phase, padded, place, kernel, MiB and MiB of the math for every call."""
    model = Transformer(
        vocab_size=100,
        width=32 * HEADS,
        num_heads=HEADS,
        num_kv_heads=num_kv_heads,
        feed_forward=64,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.1,
        attention_dropout=0.0,
        positions="rope",
        max_positions=1024,
        memory_slots=None,
    ).to(device, dtype)
    tokens = torch.randint(4, 100, (SENTENCES, LENGTH), device=device)
    lengths = torch.linspace(1, LENGTH, SENTENCES, device=device).ceil()
    for mask in (None, torch.arange(LENGTH, device=device) < lengths.unsqueeze(1)):
        for phase in (train, greedy, beam, prefix):
            model.train(phase is train)
            with Calls(device) as calls, torch.inference_mode(phase is not train):
                phase(model, tokens, mask)
            places = ["encoder self"] + ["decoder self", "cross"] * (len(calls.rows) // 2)
            for place, row in zip(places, calls.rows, strict=True):
                yield phase.__name__, mask is not None, place, *row


def train(model, tokens, mask):
    model(tokens, mask, tokens).float().sum().backward()


def greedy(model, tokens, mask):
    _, state = model.step(tokens[:, :1], model.start(tokens, mask))
    model.step(tokens[:, :1], state)


def beam(model, tokens, mask):
    rows = torch.arange(len(tokens), device=tokens.device).repeat_interleave(BEAM)
    _, state = model.step(tokens[:, :1], model.start(tokens, mask))
    model.step(tokens[rows, :1], state.select(rows))


def prefix(model, tokens, mask):
    _, state = model.step(tokens[:, :3], model.start(tokens, mask))
    model.step(tokens[:, :2], state)


@pytest.mark.parametrize(("device", "dtype"), DEVICES, ids=str)
@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
def test_no_call_of_the_transformer_writes_down_the_weights(device, dtype, num_kv_heads):
    rows = list(attention_calls(device, dtype, num_kv_heads))
    phases, places = (
        ("train", "greedy", "beam", "prefix"),
        ("encoder self", "decoder self", "cross"),
    )
    assert {row[:3] for row in rows} == {
        (phase, padded, place) for phase in phases for padded in (False, True) for place in places
    }
    assert [row for row in rows if row[3] in ("", MATH)] == []
    assert all(math > mib for _, _, place, _, mib, math in rows if place == "encoder self")


def test_a_call_that_writes_them_down_is_noticed():
    with sdpa_kernel(SDPBackend.MATH):
        assert {row[3] for row in attention_calls("cpu", torch.float32, 2)} == {MATH}
