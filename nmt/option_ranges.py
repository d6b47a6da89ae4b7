"""The ranges of options, checked before anything that takes seconds is imported."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

_BETTER = {"valid_bleu": "max", "valid_loss": "min", "valid_perplexity": "min"}

Range = tuple[str, Callable[[Any], bool]]


def check_ranges(config: DictConfig) -> None:
    """Refuses options without a value and numbers outside their range; absent options pass.

    Raises:
        ValueError: One sentence naming the option as it is typed, its value and its range.
    """
    for option in _missing(OmegaConf.to_container(config)):
        raise ValueError(f"{option} has no value; give {option}=VALUE.")
    absent = object()
    for option, (text, inside) in _RANGES.items():
        value = OmegaConf.select(config, option, default=absent)
        if value is not absent and not inside(value):
            raise ValueError(f"{option} is {value!r}; it must be {text}.")
    for callback in ("callbacks.best", "callbacks.early_stopping"):
        monitor, mode = (OmegaConf.select(config, f"{callback}.{x}") for x in ("monitor", "mode"))
        if monitor is not None and mode != _BETTER[monitor]:
            raise ValueError(
                f"{callback}.mode is {mode!r}; it must be {_BETTER[monitor]} for {monitor}."
            )


def _missing(node: Any, prefix: str = "") -> Iterator[str]:
    """Yields the dotted names of the options that are `???`, without resolving others."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _missing(value, f"{prefix}.{name}" if prefix else str(name))
    elif node == "???":
        yield prefix


def _whole(minimum: int) -> Range:
    return f"a whole number of at least {minimum}", lambda x: type(x) is int and x >= minimum


def _number(text: str, inside: Callable[[float], bool]) -> Range:
    return text, lambda x: type(x) in (int, float) and inside(x)


def _or_null(bounds: Range) -> Range:
    return f"{bounds[0]}, or null", lambda x: x is None or bounds[1](x)


_LANGUAGE = ("a language code such as en", lambda x: isinstance(x, str) and x != "")
_POSITIVE = _number("a positive number", lambda x: 0 < x < math.inf)
_SHARE = (
    "a whole number of batches of at least 1 or a share above 0 and up to 1.0",
    lambda x: (type(x) is int and x >= 1) or (type(x) is float and 0 < x <= 1),
)
_PRECISIONS = ("auto", "32-true", "bf16-mixed", "16-mixed")
_MONITOR = (f"one of {', '.join(_BETTER)}", lambda x: x in _BETTER)
_RANGES: dict[str, Range] = {
    "seed": (
        "a whole number from 0 to 4294967295",  # what NumPy takes
        lambda x: type(x) is int and 0 <= x < 2**32,
    ),
    "label_smoothing": _number("a number in [0, 1)", lambda x: 0 <= x < 1),
    "num_validations": _whole(1),
    "threads": _or_null(_whole(1)),
    "data.source_lang": _LANGUAGE,
    "data.target_lang": _LANGUAGE,
    "data.token_budget": _whole(1),
    "data.eval_token_budget": _whole(1),
    "data.num_workers": _whole(0),
    "data.tokenizer.vocab_size": _whole(1),
    "data.tokenizer.model_type": ("unigram or bpe", lambda x: x in ("unigram", "bpe")),
    "data.tokenizer.character_coverage": _number("a number in (0, 1]", lambda x: 0 < x <= 1),
    "optimizer.lr": _POSITIVE,
    "optimizer.weight_decay": _number("a number of at least 0", lambda x: 0 <= x < math.inf),
    "trainer.precision": (f"one of {', '.join(_PRECISIONS)}", lambda x: x in _PRECISIONS),
    "trainer.max_steps": _whole(1),
    "trainer.max_epochs": (
        "a whole number of at least 1, or -1 for no limit",
        lambda x: type(x) is int and (x >= 1 or x == -1),
    ),
    "trainer.accumulate_grad_batches": _whole(1),
    "trainer.gradient_clip_val": _or_null(_POSITIVE),
    "trainer.log_every_n_steps": _whole(1),
    "trainer.limit_train_batches": _SHARE,
    "trainer.limit_val_batches": _SHARE,  # 0: no best checkpoint could be chosen
    "callbacks.best.monitor": _MONITOR,
    "callbacks.early_stopping.monitor": _MONITOR,
}
