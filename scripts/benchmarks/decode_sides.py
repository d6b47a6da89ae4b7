"""What `benchmarks.decode` compares a model with, and how it sees where the time goes."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch import Tensor

from nmt.decoding.beam import BeamSearch
from nmt.export.conversion import to_ctranslate2
from nmt.models.encoder_decoder import EncoderDecoder, State
from nmt.special_tokens import BOS, EOS

PARTS = ("encode", "step", "reorder")


@dataclass(frozen=True)
class UncachedState(State):
    """The state before the first token, and all tokens since.

    Attributes:
        start: What `start` of the model returned.
        tokens: (N, T) int64.
    """

    start: Any
    tokens: Tensor

    def select(self, rows: Tensor) -> UncachedState:
        """Repeats or drops sentences (see `State`)."""
        return UncachedState(self.start.select(rows), self.tokens[rows])

    def reorder(self, rows: Tensor) -> UncachedState:
        """Permutes rows of the same sentence (see `State`)."""
        return UncachedState(self.start.reorder(rows), self.tokens[rows])


class Uncached(EncoderDecoder):
    """A model without a cache: reads the source once, and the whole prefix at every step."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def start(self, source: Tensor, source_mask: Tensor | None) -> UncachedState:
        """Reads the source once (see `EncoderDecoder`)."""
        return UncachedState(self.model.start(source, source_mask), source[:, :0])

    def step(self, tokens: Tensor, state: UncachedState) -> tuple[Tensor, UncachedState]:
        """Reads all tokens so far (see `EncoderDecoder`)."""
        prefix = torch.cat([state.tokens, tokens], 1)
        logits, _ = self.model.step(prefix, state.start)
        return logits[:, -tokens.shape[1] :], UncachedState(state.start, prefix)

    def attention(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> NoReturn:
        """Is not measured."""
        raise NotImplementedError


@dataclass
class Clock:
    """CPU seconds of each of `PARTS`."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Adds the time that its block takes."""
        start = time.process_time()
        yield
        self.seconds[part] += time.process_time() - start


@dataclass(frozen=True)
class TimedState(State):
    """A state whose changes are timed."""

    state: Any
    clock: Clock

    def select(self, rows: Tensor) -> TimedState:
        """Repeats or drops sentences (see `State`)."""
        with self.clock.of("reorder"):
            return TimedState(self.state.select(rows), self.clock)

    def reorder(self, rows: Tensor) -> TimedState:
        """Permutes rows of the same sentence (see `State`)."""
        with self.clock.of("reorder"):
            return TimedState(self.state.reorder(rows), self.clock)


class TimedModel(EncoderDecoder):
    """A model whose verbs are timed."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model
        self.clock = Clock()

    def start(self, source: Tensor, source_mask: Tensor | None) -> TimedState:
        """Reads the source (see `EncoderDecoder`)."""
        with self.clock.of("encode"):
            return TimedState(self.model.start(source, source_mask), self.clock)

    def step(self, tokens: Tensor, state: TimedState) -> tuple[Tensor, TimedState]:
        """Reads target tokens (see `EncoderDecoder`)."""
        with self.clock.of("step"):
            logits, new = self.model.step(tokens, state.state)
        return logits, TimedState(new, self.clock)

    def attention(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> NoReturn:
        """Is not measured."""
        raise NotImplementedError

    def shares(self, work: Callable[[EncoderDecoder], object], *, rounds: int) -> dict[str, float]:
        """Returns what part of the time of a search went where, medians of several searches.

        Args:
            work: Searches with the model.
            rounds: How often.

        Returns:
            The share of each of `PARTS`, and of bookkeeping: all the rest.
        """
        found: dict[str, list[float]] = {name: [] for name in (*PARTS, "bookkeeping")}
        for _ in range(rounds):
            self.clock = Clock()
            start = time.process_time()
            work(self)
            total = time.process_time() - start
            for part, seconds in self.clock.seconds.items():
                found[part].append(seconds / total)
            found["bookkeeping"].append(1 - sum(self.clock.seconds.values()) / total)
        return {name: statistics.median(values) for name, values in found.items()}


@torch.inference_mode()
def cache_kib(model: EncoderDecoder, length: int) -> float:
    """Returns KiB of keys and values that a Transformer keeps of `length` target tokens."""
    state = model.start(torch.tensor([[EOS]]), None)
    _, state = model.step(torch.full((1, length), BOS), state)
    tensors = [tensor for cache in state.past for tensor in (cache.keys, cache.values)]
    num_bytes: int = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return num_bytes / 1024


class _Pieces:
    """Names of ids, in place of a tokenizer: all that the export asks for."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def pieces(self, ids: Sequence[int]) -> list[str]:
        special = ("<pad>", "<unk>", "<s>", "</s>")
        return [special[token] if token <= EOS else f"piece{token}" for token in ids]


def exported_search(
    model: EncoderDecoder,
    sources: Sequence[list[int]],
    search: BeamSearch,
    *,
    vocab_size: int,
    threads: int,
) -> Callable[[], int] | None:
    """Returns a search of CTranslate2 for as many tokens; None where it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        return None
    names: Any = _Pieces(vocab_size)
    with tempfile.TemporaryDirectory(prefix="nmt-decode-") as folder:
        to_ctranslate2(model, names, quantization="float32").save(folder)
        engine = ctranslate2.Translator(folder, device="cpu", intra_threads=threads)
    pieces = [names.pieces(source) for source in sources]

    def work() -> int:
        results = engine.translate_batch(
            pieces,
            beam_size=search.beam_size,
            min_decoding_length=search.min_length,
            max_decoding_length=search.max_length + 1,  # EOS counts
        )
        return len(results)

    return work
