"""Training speed with length-sorted batches against shuffled batches padded to their longest.

Both sides train the same model on the same pairs with as many batches an epoch, hence with the
same average number of real tokens an update: a shuffled batch holds a fixed number of
sentences, a length-sorted one as many as the token budget allows.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from nmt.checkpoint import build
from nmt.checks import UserError
from nmt.config import config_directory
from nmt.data.batch import Batch, collate
from nmt.data.files import read_lines
from nmt.data.sampler import TokenBatchSampler
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer, train_tokenizer
from nmt.training.loss import summed_cross_entropy
from scripts.benchmarks.timing import interleaved_rates

Examples = list[dict[str, Any]]
IndexLists = list[list[int]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this benchmark."""
    add = parser.add_argument
    add("--source", type=Path, required=True, help="lines, plain or .gz")
    add("--target", type=Path, required=True, help="their translations")
    add("--pairs", type=int, help="only the first so many pairs")
    add("--tokenizer-size", type=int, default=4000, help="pieces (%(default)s)")
    add("--model", default="transformer", help="of conf/model (%(default)s)")
    add("--budget", type=int, default=1024, help="tokens a batch (%(default)s)")
    add("--seconds", type=float, default=20, help="CPU seconds (%(default)s)")
    add("--rounds", type=int, default=5, help="turns of each side (%(default)s)")
    add("--seed", type=int, default=1)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measures both sides, prints them and returns the figures."""
    torch.manual_seed(arguments.seed)
    examples, vocab_size = tokenised(arguments)
    ordered = sorted_batches(examples, arguments.budget, arguments.seed)
    shuffled = shuffled_batches(len(examples), len(ordered), arguments.seed)
    sides = {"length-sorted": ordered, "shuffled": shuffled}
    step = training_step(arguments.model, vocab_size)
    rates = interleaved_rates(
        {name: worker(step, examples, batches) for name, batches in sides.items()},
        seconds=arguments.seconds,
        rounds=arguments.rounds,
    )
    figures: dict[str, Any] = {
        name: {"target_tokens_per_second": rates[name]} | shape_of(examples, batches)
        for name, batches in sides.items()
    }
    figures["ratio"] = rates["length-sorted"] / rates["shuffled"]
    print_summary(figures, arguments)
    return figures


def tokenised(arguments: argparse.Namespace) -> tuple[Examples, int]:
    """Returns the pairs as ids, and the size of the vocabulary that was learnt from them."""
    source, target = (read_lines(path) for path in (arguments.source, arguments.target))
    if len(source) != len(target):
        raise UserError(
            f"{arguments.source} has {len(source)} lines but {arguments.target} {len(target)}; "
            "give files whose lines are translations of each other."
        )
    source, target = source[: arguments.pairs], target[: arguments.pairs]
    tokenizer = Tokenizer(train_tokenizer(source + target, vocab_size=arguments.tokenizer_size))
    ids = zip(tokenizer.encode_batch(source), tokenizer.encode_batch(target), strict=True)
    examples = [
        {"index": index, "source_ids": source_ids, "target_ids": target_ids}
        for index, (source_ids, target_ids) in enumerate(ids)
    ]
    return examples, tokenizer.vocab_size


def lengths_of(examples: Examples) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns (2, pairs): tokens of each source and target, EOS counted."""
    sides = ("source_ids", "target_ids")
    return np.array([[len(example[side]) + 1 for example in examples] for side in sides])


def sorted_batches(examples: Examples, token_budget: int, seed: int) -> IndexLists:
    """Returns an epoch of the training sampler."""
    source, target = lengths_of(examples)
    sampler = TokenBatchSampler(source, target, token_budget=token_budget, seed=seed)
    return cast(IndexLists, list(sampler))  # nothing is joined


def shuffled_batches(num_pairs: int, num_batches: int, seed: int) -> IndexLists:
    """Returns the pairs in random order, in batches of the same number of sentences (+-1)."""
    order = np.random.default_rng(seed).permutation(num_pairs)
    return [indices.tolist() for indices in np.array_split(order, num_batches)]


def shape_of(examples: Examples, batches: IndexLists) -> dict[str, float]:
    """Returns the share of padding in an epoch, and batch sizes as averages."""
    lengths = lengths_of(examples)
    padded = sum(len(rows) * int(lengths[:, rows].max(axis=1).sum()) for rows in batches)
    return {
        "padding": 1 - int(lengths.sum()) / padded,
        "batches": len(batches),
        "target_tokens_per_batch": int(lengths[1].sum()) / len(batches),
        "sentences_per_batch": len(examples) / len(batches),
    }


def training_step(model_name: str, vocab_size: int) -> Callable[[Batch], int]:
    """Returns forward, backward and AdamW on one batch of a new model of `conf/model`."""
    with initialize_config_dir(str(config_directory()), version_base="1.3"):
        options = compose("train", overrides=[f"model={model_name}"]).model
    config: Any = OmegaConf.to_container(options, resolve=True)
    model: EncoderDecoder = build(config, vocab_size=vocab_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(batch: Batch) -> int:
        logits = model(batch.source, batch.source_mask, batch.target_in)
        loss = summed_cross_entropy(logits, batch.target_out, smoothing=0.1)
        (loss / batch.num_target_tokens).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return batch.num_target_tokens

    return step


def worker(
    step: Callable[[Batch], int], examples: Examples, batches: Sequence[list[int]]
) -> Callable[[], int]:
    """Returns a function that trains on the next batch and returns its target tokens."""
    endless: Iterator[list[int]] = itertools.cycle(batches)
    return lambda: step(collate([examples[index] for index in next(endless)]))


def print_summary(figures: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Prints a line for each side and the ratio."""
    print(f"{arguments.model}, {arguments.threads} thread(s), {arguments.rounds} rounds, medians")
    print("batches        target tokens/s   padding  sentences  target tokens")
    for name in ("length-sorted", "shuffled"):
        side = figures[name]
        print(
            f"{name:14}{side['target_tokens_per_second']:16,.0f}{side['padding']:10.1%}"
            f"{side['sentences_per_batch']:11.1f}{side['target_tokens_per_batch']:15.1f}"
        )
    print(f"ratio {figures['ratio']:.2f} (sentences and target tokens: averages of a batch)")
