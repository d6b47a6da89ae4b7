"""Speed of translation: the cache, grouped-query attention, and beam search with its time split.

All models have random weights and every translation is forced to a number of tokens, so that the
sides of a comparison do the same work. Sentences are random ids in one batch. Rates are per CPU
second of one thread: the wall time of an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from unittest import mock

import torch
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

KV_HEADS = (8, 2, 1)
CAPTION_LENGTHS = (8, 20)  # tokens of a source without EOS
BEAM_SIZE = 5
BEAM_TOKENS = 30
CACHE_TOKENS = 20
# Where the verbs of a model and its state spend time; the rest is bookkeeping.
PARTS = {"start": "encode", "step": "step", "select": "reorder", "reorder": "reorder"}
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
    models = {f"8/{heads}": transformer(arguments, num_kv_heads=heads) for heads in KV_HEADS}
    search = GreedySearch(min_length=CACHE_TOKENS, max_length=CACHE_TOKENS)
    figures = {}
    rates = _rates(search, models, batch, arguments)
    for name, rate in rates.items():
        ratio, kib = rate / rates["8/8"], cache_kib(models[name], CACHE_TOKENS)
        figures[name] = {
            "sentences_per_second": rate,
            "ratio": ratio,
            "cache_kib_per_sentence": kib,
        }
        print(
            f"{name} heads, {CACHE_TOKENS} tokens, greedy: {rate:8.1f}, ratio {ratio:.2f}, "
            f"cache {kib:.1f} KiB a sentence",
            flush=True,
        )
    return figures


def _beam(
    sources: Sequence[list[int]], batch: Batch, arguments: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """Measures beam search with all models, and with the exported one where that is possible."""
    width = arguments.width
    recurrent = {"encoder_hidden": width, "decoder_hidden": 2 * width}
    models = {
        "transformer 8/8": transformer(arguments, num_kv_heads=8),
        "transformer 8/2": transformer(arguments, num_kv_heads=2),
        "transformer 8/2 in bf16": transformer(arguments, num_kv_heads=2).bfloat16(),
        "bahdanau": _model("bahdanau", arguments, **recurrent, attention_dim=width),
        "rnn": _model("rnn", arguments, **recurrent),
    }
    search = BeamSearch(beam_size=BEAM_SIZE, min_length=BEAM_TOKENS, max_length=BEAM_TOKENS)
    exported = exported_search(models["transformer 8/2"], sources, search, arguments)
    others = {"transformer 8/2 in CTranslate2": exported} if exported else {}
    figures: dict[str, dict[str, Any]] = {}
    for name, rate in _rates(search, models, batch, arguments, others).items():
        figures[name] = {"sentences_per_second": rate}
        line = f"{name}, {BEAM_TOKENS} tokens, beam {BEAM_SIZE}: {rate:8.1f}"
        if name in models:
            work = functools.partial(search, models[name], *batch)
            shares = shares_of(models[name], work, rounds=arguments.rounds)
            figures[name]["shares"] = shares
            line += "".join(f", {part} {share:.0%}" for part, share in shares.items())
        print(line, flush=True)
    return figures


def _rates(
    search: Search,
    models: Mapping[str, EncoderDecoder],
    batch: Batch,
    arguments: argparse.Namespace,
    others: Mapping[str, Callable[[], int]] | None = None,
) -> dict[str, float]:
    """Returns sentences a second of one search with each model, and of the others."""
    sides = {name: lambda m=model: len(search(m, *batch)) for name, model in models.items()}
    return interleaved_rates(
        sides | dict(others or {}), seconds=arguments.seconds, rounds=arguments.rounds
    )


def transformer(arguments: argparse.Namespace, *, num_kv_heads: int) -> EncoderDecoder:
    """Returns a new Transformer of 8 heads."""
    return _model(
        "transformer",
        arguments,
        num_heads=8,
        num_kv_heads=num_kv_heads,
        feed_forward=4 * arguments.width,
        encoder_layers=arguments.layers,
        decoder_layers=arguments.layers,
    )


def _model(name: str, arguments: argparse.Namespace, **sizes: int) -> EncoderDecoder:
    """Builds a model of `conf/model` with other sizes."""
    options: Any = OmegaConf.load(config_directory() / "model" / f"{name}.yaml")
    options = {**options, "width": arguments.width, **sizes}
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


@dataclass(frozen=True)
class _Prefix(State):
    """What `start` of the model returned, and all tokens since, (N, T) int64."""

    start: Any
    tokens: Tensor

    def select(self, rows: Tensor) -> _Prefix:
        return _Prefix(self.start.select(rows), self.tokens[rows])

    def reorder(self, rows: Tensor) -> _Prefix:
        return _Prefix(self.start.reorder(rows), self.tokens[rows])


class Uncached(EncoderDecoder):
    """A model without a cache: reads the source once, and the whole prefix at every step."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def start(self, source: Tensor, source_mask: Tensor | None) -> _Prefix:
        """Reads the source."""
        return _Prefix(self.model.start(source, source_mask), source[:, :0])

    def step(self, tokens: Tensor, state: _Prefix) -> tuple[Tensor, _Prefix]:
        """Reads all tokens so far."""
        prefix = torch.cat([state.tokens, tokens], 1)
        logits, _ = self.model.step(prefix, state.start)
        return logits[:, -tokens.shape[1] :], _Prefix(state.start, prefix)

    def attention(self, source: Tensor, source_mask: Tensor | None, target_in: Tensor) -> NoReturn:
        """Is not for searches."""
        raise NotImplementedError


def shares_of(
    model: EncoderDecoder, work: Callable[[], object], *, rounds: int
) -> dict[str, float]:
    """Returns the share of a search's time in each of `PARTS` and in bookkeeping, the rest.

    `work` searches with the model, `rounds` times, of which the medians are returned.
    """
    state = type(model.start(torch.tensor([[EOS]]), None))
    verbs = [(model, "start"), (model, "step"), (state, "select"), (state, "reorder")]
    found: dict[str, list[float]] = {name: [] for name in (*PARTS.values(), "bookkeeping")}

    def timed(verb: Callable[..., Any], part: str, spent: dict[str, float]) -> Any:
        def call(*inputs: Any) -> Any:
            start, before = time.process_time(), sum(spent.values())
            result = verb(*inputs)
            nested = sum(spent.values()) - before  # a verb that calls another
            spent[part] += time.process_time() - start - nested
            return result

        return call

    for _ in range(rounds):
        seconds = dict.fromkeys(PARTS.values(), 0.0)
        with contextlib.ExitStack() as patches:
            for owner, name in verbs:
                call = timed(getattr(owner, name), PARTS[name], seconds)
                patches.enter_context(mock.patch.object(owner, name, call))
            start = time.process_time()
            work()
            total = time.process_time() - start
        for part, spent in (seconds | {"bookkeeping": total - sum(seconds.values())}).items():
            found[part].append(spent / total)
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
