"""A checkpoint: one file that holds everything needed to translate.

The file is what Lightning writes, read without Lightning and with `weights_only=True`: it can
hold tensors and plain values, never code. `torch.save` keeps the tokenizer's `bytes` as they are.

    format_version     int, raised when the meaning of a key changes; a key that is new has a
                       value that stands for files without it
    global_step        int, updates so far
    hyper_parameters   the arguments of `nmt.training.module.TranslationModule`
    state_dict         `model.<name>` -> tensor

Loading builds model and search from their plain options by `build`, the one factory. Several
checkpoints of one run can be averaged (Vaswani et al. 2017, section 6.1).
"""

from __future__ import annotations

import importlib
import inspect
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from nmt.checks import UserError
from nmt.decoding.search import Search
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer

FORMAT_VERSION = 1
HYPER_PARAMETERS = (
    *("model", "tokenizer", "lowercase", "source_lang", "target_lang", "decoding"),
    *("optimizer", "scheduler", "token_budget", "label_smoothing", "seed"),
)
_ADDED_LATER = {"lowercase": False}  # hyper-parameters that older files lack, and what they did
_ENTRIES = ("format_version", "global_step", "hyper_parameters", "state_dict")
_TYPES = {"tokenizer": bytes, "model": Mapping, "decoding": Mapping}
_MAY_CHANGE = ("dropout", "attention_dropout")  # of a model's options, within a run
_WEIGHTS = "model."  # before the name of each weight


@dataclass(frozen=True)
class Checkpoint:
    """A trained model with all it takes to use it.

    Attributes:
        model: In eval mode, on the requested device.
        tokenizer: The joint tokenizer of both languages.
        search: The search the run was tested with.
        source_lang: Language code, for example "en".
        target_lang: Language code, for example "de".
        config: The hyper-parameters as saved, without the tokenizer's bytes.
        updates: Optimizer steps done when the file was written.
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
        UserError: As `read_checkpoint`, a class is from outside nmt, a weight does not fit its
            model, or the device is not available.
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
        UserError: The file is missing, cut short, no checkpoint, of another format, holds code, or
            has a missing or unexpected key.
    """
    content = _read(Path(path))
    _check_keys("entry", _ENTRIES, content, path, extra_allowed=True)
    if content["format_version"] != FORMAT_VERSION:
        raise UserError(
            f"checkpoint {path} has format_version {content['format_version']!r} and this "
            f"version of nmt reads {FORMAT_VERSION}: use the version of nmt that wrote it."
        )
    _check_types({"hyper_parameters": Mapping, "state_dict": Mapping}, content, path)
    _check_types(dict.fromkeys(content["state_dict"], Tensor), content["state_dict"], path)
    hyper_parameters = _ADDED_LATER | dict(content["hyper_parameters"])
    _check_keys("hyper-parameter", HYPER_PARAMETERS, hyper_parameters, path)
    _check_types(_TYPES, hyper_parameters, path)
    return {**content, "hyper_parameters": hyper_parameters}


def build(
    config: Mapping[str, Any],
    *,
    allowed: tuple[str, ...] = ("nmt.models.", "nmt.decoding."),
    **extra: Any,
) -> Any:
    """Calls the class or function `config["_target_"]` with the other keys; the one factory.

    Args:
        config: Plain values; other keys that begin with an underscore are Hydra's and ignored.
        allowed: Dotted prefixes; the target must be defined, not just reachable, below one.
        extra: Arguments that no config can hold (vocabulary size, parameters).

    Raises:
        UserError: No target, one outside `allowed`, or arguments it does not take.
    """
    name = config.get("_target_")
    refusal = f"_target_ {name!r} is not allowed: name a class or function below " + " or ".join(
        prefix.rstrip(".") for prefix in allowed
    )
    if not isinstance(name, str) or not name.startswith(allowed):
        raise UserError(f"{refusal}.")
    module, _, attribute = name.rpartition(".")
    try:
        target = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"_target_ {name!r} does not exist ({error}): check its name.") from error
    if not callable(target) or not f"{getattr(target, '__module__', '')}.".startswith(allowed):
        raise UserError(f"{refusal}.")
    arguments = {key: value for key, value in config.items() if not key.startswith("_")} | extra
    try:
        inspect.signature(target).bind(**arguments)
    except TypeError as error:
        raise UserError(f"{name} {error}: correct its options.") from error
    return target(**arguments)


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
        UserError: As `read_checkpoint`, or something is not as in the checkpoint.
    """
    content = read_checkpoint(path)
    if "optimizer_states" not in content:
        raise UserError(
            f"checkpoint {path} has no optimizer to resume with, as an average: give a last.ckpt."
        )
    saved = content["hyper_parameters"]
    before = (saved["source_lang"], saved["target_lang"])
    if before != languages:
        raise UserError(
            f"checkpoint {path} translates {'-'.join(before)} and this run {'-'.join(languages)}: "
            "resume with data.source_lang and data.target_lang of its run."
        )
    _check_same_model(content, path, model=model, options=options, tokenizer=tokenizer)
    updates: int = content["global_step"]
    return updates


def load_initial_weights(
    path: str | Path,
    *,
    model: torch.nn.Module,
    options: Mapping[str, Any],
    tokenizer: bytes,
    lowercase: bool,
) -> None:
    """Gives a new model the weights of a checkpoint, whose languages and data may be others.

    Args:
        path: Of the checkpoint, perhaps an average.
        model: Gets the weights.
        options: What it was built from.
        tokenizer: The SentencePiece model of this run.
        lowercase: Whether this run lower-cases its text.

    Raises:
        UserError: As `read_checkpoint`, or something is not as in the checkpoint.
    """
    content = read_checkpoint(path)
    saved = content["hyper_parameters"]
    if saved["lowercase"] != lowercase:
        raise UserError(
            f"checkpoint {path} has data.lowercase={saved['lowercase']} and this run {lowercase}: "
            f"start from it with data.lowercase={saved['lowercase']}."
        )
    _check_same_model(content, path, model=model, options=options, tokenizer=tokenizer)
    _load_weights(model, content["state_dict"], path)


def _check_same_model(
    content: Mapping[str, Any],
    path: str | Path,
    *,
    model: torch.nn.Module,
    options: Mapping[str, Any],
    tokenizer: bytes,
) -> None:
    """Refuses the weights of another model; some options, such as positions, have no weights."""
    saved = content["hyper_parameters"]
    if saved["tokenizer"] != tokenizer:
        raise UserError(
            f"checkpoint {path} has another tokenizer than this run: resume with the data options "
            "of its run, which are in its config.yaml, or train it on other data with init_from= "
            "instead of ckpt_path=."
        )
    wanted = [
        f"model.{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in saved["model"].items()
        if name in options and options[name] != value and name not in _MAY_CHANGE
    ]
    expected = {_WEIGHTS + name: weight for name, weight in model.state_dict().items()}
    same_class = saved["model"].get("_target_") == options.get("_target_")
    if not same_class or (not wanted and _shapes(content["state_dict"]) != _shapes(expected)):
        wanted = ["the model= and the options of its run, which are in its config.yaml"]
    if wanted:
        raise UserError(f"checkpoint {path} is of another model: give {' '.join(wanted)}.")


def average_checkpoints(paths: Sequence[str | Path]) -> dict[str, Any]:
    """Returns the content of a checkpoint whose weights are the mean of several.

    It translates and is evaluated like any other; it cannot be resumed, having no optimizer. One
    file gives its own weights; the order of the files does not matter.

    Raises:
        UserError: No file, one given twice, one that cannot be loaded, or one of another model or
            tokenizer.
    """
    if not paths:
        raise UserError("there are 0 checkpoints to average: give the paths of one or more.")
    resolved = [Path(path).resolve() for path in paths]
    for path in resolved:
        if resolved.count(path) > 1:
            raise UserError(f"checkpoint {path} is given {resolved.count(path)} times: once do.")
    first: dict[str, Any] = {}
    sums: dict[str, Tensor] = {}
    updates = 0
    for path in sorted(map(Path, paths)):
        content = read_checkpoint(path)
        first = first or content
        for name in ("model", "tokenizer", "lowercase", "source_lang", "target_lang"):
            if content["hyper_parameters"][name] != first["hyper_parameters"][name]:
                raise UserError(
                    f"checkpoint {path} has another {name} than the first one: average "
                    "checkpoints of one run, or of runs that differ in their seed alone."
                )
        if _shapes(content["state_dict"]) != _shapes(first["state_dict"]):
            raise UserError(
                f"checkpoint {path} has other weights than the first one: average checkpoints of "
                "one run."
            )
        updates = max(updates, content["global_step"])
        for name, weight in content["state_dict"].items():
            sums[name] = sums[name] + weight.double() if name in sums else weight.double()
    return {
        "format_version": FORMAT_VERSION,
        "global_step": updates,
        "hyper_parameters": first["hyper_parameters"],
        "state_dict": {
            name: (sums[name] / len(paths)).to(weight.dtype)
            for name, weight in first["state_dict"].items()
        },
    }


def save_average(paths: Sequence[str | Path], output: str | Path) -> None:
    """Averages checkpoints into a file, which is there whole or not at all."""
    output = Path(output)
    if not output.parent.is_dir():
        raise UserError(f"{output.parent} is no folder: make it, or give another output.")
    content = average_checkpoints(paths)
    temporary = output.with_name(f".{output.name}.partial")
    torch.save(content, temporary)
    temporary.replace(output)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        fault = "is a directory" if path.is_dir() else "does not exist"
        best = path / "checkpoints" / "best.ckpt"  # in the folder of a run
        wanted = best if best.is_file() else "the path of a .ckpt file"
        raise UserError(f"checkpoint {path} {fault}: give {wanted}.")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # which torch.load does not do
        if damaged is not None:
            raise zipfile.BadZipFile(f"{damaged} has another checksum")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise UserError(
            f"checkpoint {path} holds more than tensors and plain values, so it was not loaded "
            "and none of its code was run: use only files written by train.py."
        ) from error
    except OSError as error:
        raise UserError(f"checkpoint {path} cannot be read: {error.strerror}.") from error
    except (zipfile.BadZipFile, RuntimeError, EOFError, ValueError, LookupError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise UserError(
            f"{path} ({path.stat().st_size} bytes) is no checkpoint, is cut short or damaged "
            f"({reason}): {_advice(path)}."
        ) from error
    if not isinstance(content, dict):
        raise UserError(f"{path} holds a {type(content).__name__}, no checkpoint of train.py.")
    return content


def _advice(path: Path) -> str:
    """Returns what to do without this file: use the newest whole one beside it, if there is one."""
    others = [other for other in path.parent.glob("*.ckpt") if other != path]
    whole = [other for other in others if zipfile.is_zipfile(other)]
    if not whole:
        return "copy it again, or give another .ckpt file written by train.py"
    return f"copy it again, or use {max(whole, key=lambda other: other.stat().st_mtime)}"


def _check_keys(
    what: str,
    expected: Iterable[str],
    found: Mapping[str, Any],
    path: str | Path,
    *,
    extra_allowed: bool = False,
) -> None:
    """Names the keys that a part of a file lacks or should not have."""
    names = set(expected)
    unexpected = set() if extra_allowed else set(found) - names
    faults = [
        f"{fault} {what} {', '.join(sorted(map(repr, keys))[:5])}{' ...' if len(keys) > 5 else ''}"
        for fault, keys in (("lacks the", names - set(found)), ("has the unexpected", unexpected))
        if keys
    ]
    if faults:
        raise UserError(
            f"checkpoint {path} {' and '.join(faults)}: use it with the version of nmt that wrote "
            "it."
        )


def _check_types(expected: Mapping[str, type], found: Mapping[str, Any], path: str | Path) -> None:
    for name, wanted in expected.items():
        if not isinstance(found[name], wanted):
            raise UserError(
                f"checkpoint {path} holds a {type(found[name]).__name__} as {name!r}, where a "
                f"{wanted.__name__} belongs: use the file as it was saved."
            )


def _load_weights(model: torch.nn.Module, weights: Mapping[str, Tensor], path: str | Path) -> None:
    _check_keys("weight", (_WEIGHTS + name for name in model.state_dict()), weights, path)
    try:
        model.load_state_dict({name.removeprefix(_WEIGHTS): w for name, w in weights.items()})
    except RuntimeError as error:  # a shape
        reason = " ".join(str(error).split())
        raise UserError(f"checkpoint {path}: {reason}; use the file as it was saved.") from error


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in weights.items()}


def _check_device(device: str | torch.device) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise UserError(
            f"device {str(device)!r} cannot be used here ({reason}): try 'cpu'."
        ) from error
