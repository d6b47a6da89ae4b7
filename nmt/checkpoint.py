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
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from nmt.decoding.hypothesis import Search
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer

FORMAT_VERSION = 1
HYPER_PARAMETERS = (
    *("model", "tokenizer", "lowercase", "source_lang", "target_lang", "decoding"),
    *("optimizer", "scheduler", "token_budget", "label_smoothing", "seed"),
)
_ADDED_LATER = {"lowercase": False}  # hyper-parameters that older files lack, and what they did
_BUILT = ("model", "decoding")
ALLOWED_TARGETS = ("nmt.models.", "nmt.decoding.")
_ENTRIES = ("format_version", "global_step", "hyper_parameters", "state_dict")
_WEIGHTS_PREFIX = "model."


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
    _load_weights(model, content["state_dict"], path)
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
    content = _read(Path(path))
    _check_keys("entry", _ENTRIES, content, path, extra_allowed=True)
    if content["format_version"] != FORMAT_VERSION:
        raise ValueError(
            f"checkpoint {path} has format_version {content['format_version']!r} and this version "
            f"of nmt reads {FORMAT_VERSION}: use the version of nmt that wrote it."
        )
    _check_types(content, {"hyper_parameters": Mapping, "state_dict": Mapping}, path)
    hyper_parameters = _ADDED_LATER | dict(content["hyper_parameters"])
    _check_keys("hyper-parameter", HYPER_PARAMETERS, hyper_parameters, path)
    _check_types(hyper_parameters, {"tokenizer": bytes, **dict.fromkeys(_BUILT, Mapping)}, path)
    _check_types(content["state_dict"], dict.fromkeys(content["state_dict"], Tensor), path)
    return {**content, "hyper_parameters": hyper_parameters}


def check_resumable(
    path: str | Path, *, model: torch.nn.Module, tokenizer: bytes, languages: tuple[str, str]
) -> None:
    """Refuses to continue the training of a model with the checkpoint of another.

    Raises:
        ValueError: As `load_checkpoint`, or the tokenizer, the languages (source, target) or the
            weights are not those of the checkpoint.
    """
    content = _read(Path(path))
    _check_keys("entry", (*_ENTRIES, "optimizer_states"), content, path, extra_allowed=True)
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


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        kind = "is a directory" if path.is_dir() else "does not exist"
        raise ValueError(f"checkpoint {path} {kind}: give the path of a .ckpt file.")
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} ({path.stat().st_size} bytes) is no checkpoint or is cut short: "
            f"{_advice(path)}."
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise ValueError(
            f"checkpoint {path} holds more than tensors and plain values, so it was not loaded and "
            "none of its code was run: use only files written by train.py."
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, LookupError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise ValueError(f"checkpoint {path} is damaged ({reason}): {_advice(path)}.") from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} holds a {type(content).__name__}, no checkpoint: give a file of train.py."
        )
    return content


def _advice(path: Path) -> str:
    """Returns what to do without this file: use the newest whole one beside it, if there is one."""
    others = [other for other in path.parent.glob("*.ckpt") if other != path]
    whole = [other for other in others if zipfile.is_zipfile(other)]
    if not whole:
        return "copy it again, or give another .ckpt file written by train.py"
    return f"copy it again, or use {max(whole, key=lambda other: other.stat().st_mtime)}"


def _load_weights(
    model: torch.nn.Module, state_dict: Mapping[str, Tensor], path: str | Path
) -> None:
    expected = {_WEIGHTS_PREFIX + name: tensor for name, tensor in model.state_dict().items()}
    _check_keys("weight", expected, state_dict, path)
    for name, tensor in expected.items():
        if state_dict[name].shape != tensor.shape:
            raise ValueError(
                f"weight {name!r} of checkpoint {path} has shape {tuple(state_dict[name].shape)} "
                f"where its model config needs {tuple(tensor.shape)}: use the file as it was saved."
            )
    model.load_state_dict({name: state_dict[_WEIGHTS_PREFIX + name] for name in model.state_dict()})


def _check_keys(
    kind: str,
    expected: Iterable[str],
    found: Mapping[str, Any],
    path: str | Path,
    *,
    extra_allowed: bool = False,
) -> None:
    names = set(expected)
    missing = sorted(names - set(found))
    unexpected = [] if extra_allowed else sorted(map(str, set(found) - names))
    faults = [
        f"{fault} {kind} {', '.join(map(repr, keys[:5]))}{' ...' if len(keys) > 5 else ''}"
        for fault, keys in (("lacks the", missing), ("has the unexpected", unexpected))
        if keys
    ]
    if faults:
        raise ValueError(
            f"checkpoint {path} {' and '.join(faults)}: "
            "use it with the version of nmt that wrote it."
        )


def _check_types(
    content: Mapping[str, Any], expected: Mapping[str, type], path: str | Path
) -> None:
    for name, kind in expected.items():
        if not isinstance(content[name], kind):
            raise ValueError(
                f"checkpoint {path} holds a {type(content[name]).__name__} as {name!r}, where a "
                f"{kind.__name__} belongs: use the file as it was saved."
            )


def _check_device(device: str | torch.device) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise ValueError(
            f"device {str(device)!r} cannot be used here ({reason}): try 'cpu'."
        ) from error
