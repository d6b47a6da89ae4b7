"""Loads a checkpoint: one file that holds everything needed to translate.

The file is what Lightning writes, read without Lightning and with `weights_only=True`: it can
hold tensors and plain values, never code. `torch.save` keeps the tokenizer's `bytes` as they are.

    format_version     int, raised when the meaning of a key changes; a key that is new has a
                       value that stands for files without it
    global_step        int, updates so far
    hyper_parameters   the arguments of `nmt.training.translation_module.TranslationModule`
    state_dict         `model.<name>` -> tensor
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nmt.decoding.hypothesis import Search
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer
from nmt.weights_file import (
    FileKind,
    check_keys,
    check_types,
    check_version,
    load_weights,
    read_weights_file,
)

FORMAT_VERSION = 1
HYPER_PARAMETERS = (
    *("model", "tokenizer", "lowercase", "source_lang", "target_lang", "decoding"),
    *("optimizer", "scheduler", "token_budget", "label_smoothing", "seed"),
)
_ADDED_LATER = {"lowercase": False}  # hyper-parameters that older files lack, and what they did
_BUILT = ("model", "decoding")
ALLOWED_TARGETS = ("nmt.models.", "nmt.decoding.")
_ENTRIES = ("format_version", "global_step", "hyper_parameters", "state_dict")
_MAY_CHANGE = ("dropout", "attention_dropout")  # of a model's options, within a run
_WEIGHTS_PREFIX = "model."
_CHECKPOINT = FileKind("checkpoint", ".ckpt", "train.py")


@dataclass(frozen=True)
class Checkpoint:
    """A trained model with all it takes to use it.

    Attributes:
        model: in eval mode, on the device asked for.
        tokenizer: the joint tokenizer of both languages.
        search: the search the run was tested with.
        source_lang: language code, for example "en".
        target_lang: language code, for example "de".
        config: the hyper-parameters as saved, without the tokenizer's bytes.
        updates: optimizer steps done when the file was written.
    """

    model: EncoderDecoder
    tokenizer: Tokenizer
    search: Search
    source_lang: str
    target_lang: str
    config: dict[str, Any]
    updates: int


def load_checkpoint(path: str | Path, *, device: str | torch.device = "cpu") -> Checkpoint:
    """Rebuilds model, tokenizer and search from one file; no other file is needed.

    Raises:
        ValueError: The file is missing, cut short, no checkpoint, of another format, holds code, a
            missing or unexpected key or a class from outside nmt; or the device is not available.
    """
    _check_device(device)
    content = read_checkpoint(path)
    config: dict[str, Any] = dict(content["hyper_parameters"])
    tokenizer = Tokenizer(config.pop("tokenizer"), lowercase=config["lowercase"])
    model = build(config["model"], allowed=("nmt.models.",), vocab_size=tokenizer.vocab_size)
    load_weights(model, content["state_dict"], Path(path), _CHECKPOINT, prefix=_WEIGHTS_PREFIX)
    return Checkpoint(
        model=model.to(device).eval(),
        tokenizer=tokenizer,
        search=build(config["decoding"], allowed=("nmt.decoding.",)),
        source_lang=config["source_lang"],
        target_lang=config["target_lang"],
        config=config,
        updates=content["global_step"],
    )


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Returns the plain content of a checkpoint, on the CPU: no code of the file is run.

    Raises:
        ValueError: The file is missing, cut short, no checkpoint, of another format, holds code, or
            a missing or unexpected key.
    """
    path = Path(path)
    content = read_weights_file(path, _CHECKPOINT)
    check_keys("entry", _ENTRIES, content, path, _CHECKPOINT, extra_allowed=True)
    check_version(content, FORMAT_VERSION, path, _CHECKPOINT)
    parts: dict[str, type] = {"hyper_parameters": Mapping, "state_dict": Mapping}
    check_types(parts, content, path, _CHECKPOINT)
    hyper_parameters = _ADDED_LATER | dict(content["hyper_parameters"])
    check_keys("hyper-parameter", HYPER_PARAMETERS, hyper_parameters, path, _CHECKPOINT)
    parts = {"tokenizer": bytes, **dict.fromkeys(_BUILT, Mapping)}
    check_types(parts, hyper_parameters, path, _CHECKPOINT)
    return {**content, "hyper_parameters": hyper_parameters}


def check_resumable(
    path: str | Path,
    *,
    model: torch.nn.Module,
    options: Mapping[str, Any],
    tokenizer: bytes,
    languages: tuple[str, str],
) -> int:
    """Refuses to continue the training of a model with the checkpoint of another.

    Args:
        path: Of the checkpoint.
        model: Of this run.
        options: What it was built from. Some have no weights, such as its positions; dropout may
            change.
        tokenizer: The SentencePiece model of this run.
        languages: Source and target of this run.

    Returns:
        The updates done when the checkpoint was written.

    Raises:
        ValueError: As `load_checkpoint`, or something is not as in the checkpoint.
    """
    path = Path(path)
    content = read_checkpoint(path)
    check_keys("entry", ("optimizer_states",), content, path, _CHECKPOINT, extra_allowed=True)
    found = {name: tensor.shape for name, tensor in content["state_dict"].items()}
    expected = {_WEIGHTS_PREFIX + name: tensor.shape for name, tensor in model.state_dict().items()}
    before = tuple(content["hyper_parameters"][f"{side}_lang"] for side in ("source", "target"))
    if before != languages:
        raise ValueError(
            f"checkpoint {path} translates {'-'.join(before)} and this run {'-'.join(languages)}: "
            "resume with data.source_lang and data.target_lang of its run."
        )
    same_tokenizer = content["hyper_parameters"]["tokenizer"] == tokenizer
    if found != expected or not same_tokenizer:
        other = "model" if same_tokenizer else "tokenizer"
        raise ValueError(
            f"checkpoint {path} has another {other} than this run: resume with the model and data "
            "options of its run, which are in its config.yaml."
        )
    for name, value in content["hyper_parameters"]["model"].items():
        if name in options and options[name] != value and name not in _MAY_CHANGE:
            raise ValueError(
                f"checkpoint {path} has model.{name}={value} and this run {options[name]}: "
                f"resume with model.{name}={value}."
            )
    updates: int = content["global_step"]
    return updates


def build(
    config: Mapping[str, Any], *, allowed: Iterable[str] = ALLOWED_TARGETS, **extra: Any
) -> Any:
    """Calls the class or function `config["_target_"]` with the other keys; the one factory.

    Args:
        config: plain values; other keys that begin with an underscore are Hydra's and ignored.
        allowed: dotted prefixes; the target must be defined, not just reachable, below one.
        extra: arguments that no config can hold (vocabulary size, parameters).

    Raises:
        ValueError: No target, one outside `allowed`, or arguments it does not take.
    """
    name = config.get("_target_")
    target = _import_target(name, tuple(allowed))
    arguments = {key: value for key, value in config.items() if not key.startswith("_")} | extra
    try:
        inspect.signature(target).bind(**arguments)
    except TypeError as error:
        raise ValueError(f"{name} {error}: correct its options.") from error
    return target(**arguments)


def _import_target(name: Any, allowed: tuple[str, ...]) -> Any:
    refusal = f"_target_ {name!r} is not allowed: name a class or function below " + " or ".join(
        prefix.rstrip(".") for prefix in allowed
    )
    if not isinstance(name, str) or not name.startswith(allowed):
        raise ValueError(f"{refusal}.")
    module_name, _, attribute = name.rpartition(".")
    try:
        target = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"_target_ {name!r} does not exist ({error}): check its name.") from error
    if not callable(target) or not f"{getattr(target, '__module__', '')}.".startswith(allowed):
        raise ValueError(f"{refusal}.")
    return target


def _check_device(device: str | torch.device) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise ValueError(
            f"device {str(device)!r} cannot be used here ({reason}): try 'cpu'."
        ) from error
