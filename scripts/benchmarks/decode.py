"""Speed of translation: the cache, grouped-query attention, and beam search with its time split.

All models have random weights and every translation is forced to a number of tokens, so that the
sides of a comparison do the same work. Sentences are one batch. Rates are per CPU second of one
thread: the wall time of an idle machine.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.arguments import numbers
from benchmarks.decode_sides import TimedModel, Uncached, cache_kib, exported_search
from benchmarks.timing import interleaved_rates
from nmt.data.batch import collate_source
from nmt.data.files import read_lines
from nmt.data.preparation import train_tokenizer
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.search import Search
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.models.recurrent import RecurrentEncoderDecoder
from nmt.models.transformer import Transformer
from nmt.special_tokens import EOS
from nmt.tokenizer import Tokenizer

NUM_HEADS = 8
KV_HEADS = (8, 2, 1)
CAPTION_LENGTHS = (8, 20)  # tokens of a source without EOS
BEAM_SIZE = 5
BEAM_TOKENS = 30
CACHE_TOKENS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    add = parser.add_argument
    add("--source", type=Path, help="lines of which the first are read (default: made up)")
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
    sources = source_ids(arguments)
    source, mask = collate_source(sources)
    print(f"{len(sources)} sentences of {source.shape[1]} tokens at most; sentences/s, medians")
    return {
        "cache": {str(n): _cache(n, source, mask, arguments) for n in arguments.lengths},
        "grouped_query": _grouped_query(source, mask, arguments),
        "beam": _beam(sources, source, mask, arguments),
    }


def source_ids(arguments: argparse.Namespace) -> list[list[int]]:
    """Returns the ids of the sentences: of a file, or random ones of the lengths of captions."""
    if arguments.source is not None:
        lines = read_lines(arguments.source)[: arguments.sentences]
        tokenizer = Tokenizer(train_tokenizer(lines, vocab_size=arguments.vocab_size))
        return tokenizer.encode_batch(lines)
    draw = random.Random(arguments.seed)
    return [
        [
            draw.randrange(EOS + 1, arguments.vocab_size)
            for _ in range(draw.randint(*CAPTION_LENGTHS))
        ]
        for _ in range(arguments.sentences)
    ]


def transformer(arguments: argparse.Namespace, *, num_kv_heads: int) -> EncoderDecoder:
    """Returns a new Transformer."""
    return Transformer(
        vocab_size=arguments.vocab_size,
        width=arguments.width,
        num_heads=NUM_HEADS,
        num_kv_heads=num_kv_heads,
        feed_forward=4 * arguments.width,
        encoder_layers=arguments.layers,
        decoder_layers=arguments.layers,
        dropout=0.0,
        attention_dropout=0.0,
        positions="rope",
        max_positions=1,
        memory_slots=None,
    ).eval()


def recurrent(arguments: argparse.Namespace, *, attention: str) -> EncoderDecoder:
    """Returns a new recurrent model: "none" for the constant context, or "additive"."""
    return RecurrentEncoderDecoder(
        vocab_size=arguments.vocab_size,
        width=arguments.width,
        encoder_hidden=arguments.width,
        decoder_hidden=2 * arguments.width,
        attention=attention,
        attention_dim=None if attention == "none" else arguments.width,
        encoder_layers=1,
        dropout=0.0,
        memory_slots=None,
    ).eval()


def _cache(
    length: int, source: Tensor, mask: Tensor | None, arguments: argparse.Namespace
) -> dict[str, float]:
    """Compares the cached state with reading the whole prefix at each step, by greedy search."""
    model = transformer(arguments, num_kv_heads=2)
    count = max(1, arguments.sentences * min(arguments.lengths) // length)  # equally many tokens
    source, mask = source[:count], None if mask is None else mask[:count]
    search = GreedySearch(min_length=length, max_length=length)
    rates = _rates(
        {
            "cached": _searching(search, model, source, mask),
            "uncached": _searching(search, Uncached(model), source, mask),
        },
        arguments,
    )
    ratio = rates["cached"] / rates["uncached"]
    print(
        f"{length:4} tokens, {count} sentences, greedy: cached {rates['cached']:8.1f}, uncached "
        f"{rates['uncached']:8.1f}, ratio {ratio:.2f}",
        flush=True,
    )
    return {**rates, "ratio": ratio, "sentences": count}


def _grouped_query(
    source: Tensor, mask: Tensor | None, arguments: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Compares numbers of key and value heads: size of the cache and greedy search."""
    models = {
        f"{NUM_HEADS}/{heads}": transformer(arguments, num_kv_heads=heads) for heads in KV_HEADS
    }
    search = GreedySearch(min_length=CACHE_TOKENS, max_length=CACHE_TOKENS)
    rates = _rates(
        {name: _searching(search, model, source, mask) for name, model in models.items()},
        arguments,
    )
    most = f"{NUM_HEADS}/{NUM_HEADS}"
    figures = {}
    for name, model in models.items():
        figures[name] = {
            "sentences_per_second": rates[name],
            "ratio": rates[name] / rates[most],
            "cache_kib_per_sentence": cache_kib(model, CACHE_TOKENS),
        }
        print(
            f"{name} heads, {CACHE_TOKENS} tokens, greedy: {rates[name]:8.1f}, ratio "
            f"{figures[name]['ratio']:.2f}, cache {figures[name]['cache_kib_per_sentence']:.1f} "
            "KiB a sentence",
            flush=True,
        )
    return figures


def _beam(
    sources: Sequence[list[int]],
    source: Tensor,
    mask: Tensor | None,
    arguments: argparse.Namespace,
) -> dict[str, dict[str, Any]]:
    """Measures beam search with all models, and with the exported one where that is possible."""
    models = {
        f"transformer {NUM_HEADS}/{heads}": transformer(arguments, num_kv_heads=heads)
        for heads in KV_HEADS[:2]
    }
    search = BeamSearch(beam_size=BEAM_SIZE, min_length=BEAM_TOKENS, max_length=BEAM_TOKENS)
    exported = exported_search(
        models[f"transformer {NUM_HEADS}/2"],
        sources,
        search,
        vocab_size=arguments.vocab_size,
        threads=arguments.threads,
    )
    models["bahdanau"] = recurrent(arguments, attention="additive")
    models["rnn"] = recurrent(arguments, attention="none")
    sides = {name: _searching(search, model, source, mask) for name, model in models.items()}
    if exported is not None:
        sides[f"transformer {NUM_HEADS}/2 in CTranslate2"] = exported
    rates = _rates(sides, arguments)
    figures: dict[str, dict[str, Any]] = {}
    for name, rate in rates.items():
        figures[name] = {"sentences_per_second": rate}
        line = f"{name}, {BEAM_TOKENS} tokens, beam {BEAM_SIZE}: {rate:8.1f}"
        if name in models:
            shares = TimedModel(models[name]).shares(
                lambda model: search(model, source, mask), rounds=arguments.rounds
            )
            figures[name]["shares"] = shares
            line += "".join(f", {part} {share:.0%}" for part, share in shares.items())
        print(line, flush=True)
    return figures


def _searching(
    search: Search, model: EncoderDecoder, source: Tensor, mask: Tensor | None
) -> Callable[[], int]:
    return lambda: len(search(model, source, mask))


def _rates(sides: dict[str, Callable[[], int]], arguments: argparse.Namespace) -> dict[str, float]:
    return interleaved_rates(sides, seconds=arguments.seconds, rounds=arguments.rounds)
