"""Speed of translation: the cache, grouped-query attention, and beam search with its time split.

All models have random weights and every translation is forced to a number of tokens, so that the
sides of a comparison do the same work. Sentences are random ids in one batch. Rates are per CPU
second of one thread: the wall time of an idle machine.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from torch import Tensor

from nmt import BOS, EOS
from nmt.checkpoint import build
from nmt.config import config_directory
from nmt.data.batch import collate_source
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.search import Search
from nmt.export.conversion import to_ctranslate2
from nmt.models.encoder_decoder import EncoderDecoder, State
from scripts.benchmarks.timing import interleaved_rates, numbers

NUM_HEADS = 8
KV_HEADS = (8, 2, 1)
CAPTION_LENGTHS = (8, 20)  # tokens of a source without EOS
BEAM_SIZE = 5
BEAM_TOKENS = 30
CACHE_TOKENS = 20
PARTS = ("encode", "step", "reorder")  # of a search; the rest is bookkeeping
Batch = tuple[Tensor, Tensor | None]  # source (B, S) and its mask


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    add = parser.add_argument
    add("--sentences", type=int, default=100, help="of the batch (%(default)s)")
    add("--lengths", type=numbers, default=[20, 100], metavar="N,...",
        help="tokens of greedy translations (20,100)")  # fmt: skip
    add("--width", type=int, default=256, help="D (%(default)s); the rest follows from it")
    add("--layers", type=int, default=3, help="of encoder and decoder (%(default)s)")
    add("--vocab-size", type=int, default=8000, help="V (%(default)s)")
    add("--seconds", type=float, default=60, help="CPU seconds of a comparison (%(default)s)")
    add("--rounds", type=int, default=5, help="turns of each side (%(default)s)")
    add("--seed", type=int, default=1)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Makes the comparisons, prints them and returns the figures."""
    torch.manual_seed(arguments.seed)
    draw = random.Random(arguments.seed)
    sources = [
        draw.choices(range(EOS + 1, arguments.vocab_size), k=draw.randint(*CAPTION_LENGTHS))
        for _ in range(arguments.sentences)
    ]
    batch = collate_source(sources)
    print(f"{len(sources)} sentences of {batch[0].shape[1]} tokens at most; sentences/s, medians")
    return {
        "cache": {str(n): _cache(n, batch, arguments) for n in arguments.lengths},
        "grouped_query": _grouped_query(batch, arguments),
        "beam": _beam(sources, batch, arguments),
    }


def _cache(length: int, batch: Batch, arguments: argparse.Namespace) -> dict[str, float]:
    """Compares the cached state with reading the whole prefix at each step, by greedy search."""
    model = transformer(arguments, num_kv_heads=2)
    count = max(1, arguments.sentences * min(arguments.lengths) // length)  # equally many tokens
    source, mask = batch
    batch = source[:count], None if mask is None else mask[:count]
    search = GreedySearch(min_length=length, max_length=length)
    rates = _rates(search, {"cached": model, "uncached": Uncached(model)}, batch, arguments)
    ratio = rates["cached"] / rates["uncached"]
    print(
        f"{length:4} tokens, {count} sentences, greedy: cached {rates['cached']:8.1f}, uncached "
        f"{rates['uncached']:8.1f}, ratio {ratio:.2f}",
        flush=True,
    )
    return {**rates, "ratio": ratio, "sentences": count}


def _grouped_query(batch: Batch, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Compares numbers of key and value heads: size of the cache and greedy search."""
    models = {
        f"{NUM_HEADS}/{heads}": transformer(arguments, num_kv_heads=heads) for heads in KV_HEADS
    }
    search = GreedySearch(min_length=CACHE_TOKENS, max_length=CACHE_TOKENS)
    rates = _rates(search, models, batch, arguments)
    figures = {}
    for name, model in models.items():
        ratio, kib = rates[name] / rates[f"{NUM_HEADS}/{NUM_HEADS}"], cache_kib(model, CACHE_TOKENS)
        figures[name] = {
            "sentences_per_second": rates[name],
            "ratio": ratio,
            "cache_kib_per_sentence": kib,
        }
        print(
            f"{name} heads, {CACHE_TOKENS} tokens, greedy: {rates[name]:8.1f}, ratio {ratio:.2f}, "
            f"cache {kib:.1f} KiB a sentence",
            flush=True,
        )
    return figures


def _beam(
    sources: Sequence[list[int]], batch: Batch, arguments: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Measures beam search with all models, and with the exported one where that is possible."""
    models: dict[str, EncoderDecoder] = {
        f"transformer {NUM_HEADS}/{heads}": transformer(arguments, num_kv_heads=heads)
        for heads in KV_HEADS[:2]
    }
    search = BeamSearch(beam_size=BEAM_SIZE, min_length=BEAM_TOKENS, max_length=BEAM_TOKENS)
    exported = exported_search(models[f"transformer {NUM_HEADS}/2"], sources, search, arguments)
    others = {f"transformer {NUM_HEADS}/2 in CTranslate2": exported} if exported else {}
    models["bahdanau"] = recurrent("bahdanau", arguments, attention_dim=arguments.width)
    models["rnn"] = recurrent("rnn", arguments)
    figures: dict[str, dict[str, Any]] = {}
    for name, rate in _rates(search, models, batch, arguments, others).items():
        figures[name] = {"sentences_per_second": rate}
        line = f"{name}, {BEAM_TOKENS} tokens, beam {BEAM_SIZE}: {rate:8.1f}"
        if name in models:
            shares = shares_of(
                models[name], lambda model: search(model, *batch), rounds=arguments.rounds
            )
            figures[name]["shares"] = shares
            line += "".join(f", {part} {share:.0%}" for part, share in shares.items())
        print(line, flush=True)
    return figures


def _rates(
    search: Search,
    models: Mapping[str, EncoderDecoder],
    batch: Batch,
    arguments: argparse.Namespace,
    exported: Mapping[str, Callable[[], int]] | None = None,
) -> dict[str, float]:
    """Returns sentences a second of one search with each model, and of the exported one."""

    def searching(model: EncoderDecoder) -> Callable[[], int]:
        return lambda: len(search(model, *batch))

    sides = {name: searching(model) for name, model in models.items()}
    sides |= exported or {}
    return interleaved_rates(sides, seconds=arguments.seconds, rounds=arguments.rounds)


def transformer(arguments: argparse.Namespace, *, num_kv_heads: int) -> EncoderDecoder:
    """Returns a new Transformer."""
    return _new(
        "transformer",
        arguments,
        num_heads=NUM_HEADS,
        num_kv_heads=num_kv_heads,
        feed_forward=4 * arguments.width,
        encoder_layers=arguments.layers,
        decoder_layers=arguments.layers,
    )


def recurrent(name: str, arguments: argparse.Namespace, **options: int) -> EncoderDecoder:
    """Returns a new recurrent model."""
    width = arguments.width
    return _new(name, arguments, encoder_hidden=width, decoder_hidden=2 * width, **options)


def _new(name: str, arguments: argparse.Namespace, **sizes: int) -> EncoderDecoder:
    """Builds a model of `conf/model` with other sizes."""
    changes = {"width": arguments.width, **sizes}.items()
    overrides = [f"model={name}", *(f"model.{key}={value}" for key, value in changes)]
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        options: Any = OmegaConf.to_container(compose("train", overrides).model, resolve=True)
    model: EncoderDecoder = build(options, vocab_size=arguments.vocab_size)
    return model.eval()


@torch.inference_mode()
def cache_kib(model: EncoderDecoder, length: int) -> float:
    """Returns KiB of keys and values that a Transformer keeps of `length` target tokens."""
    state = model.start(torch.tensor([[EOS]]), None)
    _, state = model.step(torch.full((1, length), BOS), state)
    tensors = [tensor for cache in state.past for tensor in (cache.keys, cache.values)]
    num_bytes: int = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return num_bytes / 1024


class _Wrapper(EncoderDecoder):
    """A model around another one, for searches only."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def attention(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> NoReturn:
        raise NotImplementedError


@dataclass(frozen=True)
class _Prefix(State):
    """What `start` of the model returned, and all tokens since, (N, T) int64."""

    start: Any
    tokens: Tensor

    def select(self, rows: Tensor) -> _Prefix:
        return _Prefix(self.start.select(rows), self.tokens[rows])

    def reorder(self, rows: Tensor) -> _Prefix:
        return _Prefix(self.start.reorder(rows), self.tokens[rows])


class Uncached(_Wrapper):
    """A model without a cache: reads the source once, and the whole prefix at every step."""

    def start(self, source: Tensor, source_mask: Tensor | None) -> _Prefix:
        """Reads the source."""
        return _Prefix(self.model.start(source, source_mask), source[:, :0])

    def step(self, tokens: Tensor, state: _Prefix) -> tuple[Tensor, _Prefix]:
        """Reads all tokens so far."""
        prefix = torch.cat([state.tokens, tokens], 1)
        logits, _ = self.model.step(prefix, state.start)
        return logits[:, -tokens.shape[1] :], _Prefix(state.start, prefix)


class _Clock(dict[str, float]):
    """CPU seconds of each of `PARTS`."""

    def time(self, part: str, work: Callable[..., Any], *inputs: Any) -> Any:
        start = time.process_time()
        result = work(*inputs)
        self[part] += time.process_time() - start
        return result


@dataclass(frozen=True)
class _TimedState(State):
    state: Any
    clock: _Clock

    def select(self, rows: Tensor) -> _TimedState:
        return _TimedState(self.clock.time("reorder", self.state.select, rows), self.clock)

    def reorder(self, rows: Tensor) -> _TimedState:
        return _TimedState(self.clock.time("reorder", self.state.reorder, rows), self.clock)


class _Timed(_Wrapper):
    def __init__(self, model: EncoderDecoder, clock: _Clock) -> None:
        super().__init__(model)
        self._clock = clock

    def start(self, source: Tensor, source_mask: Tensor | None) -> _TimedState:
        state = self._clock.time("encode", self.model.start, source, source_mask)
        return _TimedState(state, self._clock)

    def step(self, tokens: Tensor, state: _TimedState) -> tuple[Tensor, _TimedState]:
        logits, new = self._clock.time("step", self.model.step, tokens, state.state)
        return logits, _TimedState(new, self._clock)


def shares_of(
    model: EncoderDecoder, work: Callable[[EncoderDecoder], object], *, rounds: int
) -> dict[str, float]:
    """Returns the share of a search's time in each of `PARTS` and in bookkeeping, the rest.

    `work` searches with a model, `rounds` times, of which the medians are returned.
    """
    found: dict[str, list[float]] = {name: [] for name in (*PARTS, "bookkeeping")}
    for _ in range(rounds):
        clock = _Clock(dict.fromkeys(PARTS, 0.0))
        start = time.process_time()
        work(_Timed(model, clock))
        total = time.process_time() - start
        for part, seconds in clock.items():
            found[part].append(seconds / total)
        found["bookkeeping"].append(1 - sum(clock.values()) / total)
    return {name: statistics.median(values) for name, values in found.items()}


class _Pieces:
    """Names of ids in place of a tokenizer: all that the export needs."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def pieces(self, ids: Sequence[int]) -> list[str]:
        special = ("<pad>", "<unk>", "<s>", "</s>")
        return [special[token] if token <= EOS else f"piece{token}" for token in ids]


def exported_search(
    model: EncoderDecoder,
    sources: Sequence[list[int]],
    search: BeamSearch,
    arguments: argparse.Namespace,
) -> Callable[[], int] | None:
    """Returns a search of CTranslate2 for as many tokens; None where it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        return None
    names: Any = _Pieces(arguments.vocab_size)
    with tempfile.TemporaryDirectory(prefix="nmt-decode-") as folder:
        to_ctranslate2(model, names, quantization="float32").save(folder)
        engine = ctranslate2.Translator(folder, device="cpu", intra_threads=arguments.threads)
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
