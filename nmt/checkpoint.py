"""Loads a checkpoint: one file that holds everything needed to translate.

The file is what Lightning writes, read without Lightning and with `weights_only=True`: it can
hold tensors and plain values, never code. `torch.save` keeps the tokenizer's `bytes` as they are.

    format_version     int, raised when the meaning of a key changes; a key that is new has a
                       value that stands for files without it
    global_step        int, updates so far
    hyper_parameters   the arguments of `nmt.training.module.TranslationModule`
    state_dict         `model.<name>` -> tensor

Reads files of weights written by `torch.save`: tensors and plain values, never code.

The average of several checkpoints of one run (Vaswani et al. 2017, section 6.1).
"""

from __future__ import annotations

import importlib
import inspect
import zipfile
from collections import Counter
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


@dataclass(frozen=True)
class FileKind:
    """What a file of weights is called in error messages.

    Attributes:
        name: Such as "checkpoint".
        suffix: Of its files, such as ".ckpt".
        writer: The program that writes them.
    """

    name: str
    suffix: str
    writer: str


def read_weights_file(path: Path, kind: FileKind) -> dict[str, Any]:
    """Returns the content of a file, on the CPU; none of its code is run.

    Raises:
        UserError: The file is missing, cut short, holds code, or is of another kind.
    """
    if not path.is_file():
        fault = "is a directory" if path.is_dir() else "does not exist"
        best = path / "checkpoints" / f"best{kind.suffix}"  # in the folder of a run
        wanted = str(best) if best.is_file() else f"the path of a {kind.suffix} file"
        raise UserError(f"{kind.name} {path} {fault}: give {wanted}.")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # which torch.load does not do
    except OSError as error:
        raise UserError(f"{kind.name} {path} cannot be read: {error.strerror}.") from error
    except zipfile.BadZipFile:
        raise UserError(
            f"{path} ({path.stat().st_size} bytes) is no {kind.name} or is cut short: "
            f"{_advice(path, kind)}."
        ) from None
    if damaged is not None:
        raise UserError(
            f"{kind.name} {path} is damaged ({damaged} has another checksum): "
            f"{_advice(path, kind)}."
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise UserError(
            f"{kind.name} {path} holds more than tensors and plain values, so it was not loaded "
            f"and none of its code was run: use only files written by {kind.writer}."
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, LookupError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise UserError(
            f"{kind.name} {path} is damaged ({reason}): {_advice(path, kind)}."
        ) from error
    if not isinstance(content, dict):
        raise UserError(
            f"{path} holds a {type(content).__name__}, no {kind.name}: "
            f"give a file of {kind.writer}."
        )
    return content


def check_version(content: Mapping[str, Any], version: int, path: Path, kind: FileKind) -> None:
    """Raises UserError where a file is of another format than this version of nmt reads."""
    if content["format_version"] != version:
        raise UserError(
            f"{kind.name} {path} has format_version {content['format_version']!r} and this "
            f"version of nmt reads {version}: use the version of nmt that wrote it."
        )


def check_keys(
    what: str,
    expected: Iterable[str],
    found: Mapping[str, Any],
    path: Path,
    kind: FileKind,
    *,
    extra_allowed: bool = False,
) -> None:
    """Raises UserError naming the keys that a part of a file lacks or should not have."""
    names = set(expected)
    missing = sorted(names - set(found))
    unexpected = [] if extra_allowed else sorted(map(str, set(found) - names))
    faults = [
        f"{fault} {what} {', '.join(map(repr, keys[:5]))}{' ...' if len(keys) > 5 else ''}"
        for fault, keys in (("lacks the", missing), ("has the unexpected", unexpected))
        if keys
    ]
    if faults:
        raise UserError(
            f"{kind.name} {path} {' and '.join(faults)}: "
            "use it with the version of nmt that wrote it."
        )


def check_types(
    expected: Mapping[str, type], found: Mapping[str, Any], path: Path, kind: FileKind
) -> None:
    """Raises UserError naming a part of a file that is of another type than it should be."""
    for name, wanted in expected.items():
        if not isinstance(found[name], wanted):
            raise UserError(
                f"{kind.name} {path} holds a {type(found[name]).__name__} as {name!r}, where a "
                f"{wanted.__name__} belongs: use the file as it was saved."
            )


def load_weights(
    model: torch.nn.Module,
    state_dict: Mapping[str, Tensor],
    path: Path,
    kind: FileKind,
    *,
    prefix: str = "",
) -> None:
    """Gives a model the weights of a file, where they stand under `prefix` + their names.

    Raises:
        UserError: A weight is missing, unexpected or of another shape.
    """
    expected = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    check_keys("weight", expected, state_dict, path, kind)
    check_types(dict.fromkeys(expected, Tensor), state_dict, path, kind)
    for name, tensor in expected.items():
        if state_dict[name].shape != tensor.shape:
            raise UserError(
                f"weight {name!r} of {kind.name} {path} has shape "
                f"{tuple(state_dict[name].shape)} where its model config needs "
                f"{tuple(tensor.shape)}: use the file as it was saved."
            )
    model.load_state_dict({name: state_dict[prefix + name] for name in model.state_dict()})


def _advice(path: Path, kind: FileKind) -> str:
    """Returns what to do without this file: use the newest whole one beside it, if there is one."""
    others = [other for other in path.parent.glob(f"*{kind.suffix}") if other != path]
    whole = [other for other in others if zipfile.is_zipfile(other)]
    if not whole:
        return f"copy it again, or give another {kind.suffix} file written by {kind.writer}"
    return f"copy it again, or use {max(whole, key=lambda other: other.stat().st_mtime)}"


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
        UserError: The file is missing, cut short, no checkpoint, of another format, holds code, a
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
        UserError: The file is missing, cut short, no checkpoint, of another format, holds code, or
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
        UserError: As `load_checkpoint`, or something is not as in the checkpoint.
    """
    path = Path(path)
    content = read_checkpoint(path)
    check_keys("entry", ("optimizer_states",), content, path, _CHECKPOINT, extra_allowed=True)
    found = {name: tensor.shape for name, tensor in content["state_dict"].items()}
    expected = {_WEIGHTS_PREFIX + name: tensor.shape for name, tensor in model.state_dict().items()}
    before = tuple(content["hyper_parameters"][f"{side}_lang"] for side in ("source", "target"))
    if before != languages:
        raise UserError(
            f"checkpoint {path} translates {'-'.join(before)} and this run {'-'.join(languages)}: "
            "resume with data.source_lang and data.target_lang of its run."
        )
    same_tokenizer = content["hyper_parameters"]["tokenizer"] == tokenizer
    if found != expected or not same_tokenizer:
        other = "model" if same_tokenizer else "tokenizer"
        raise UserError(
            f"checkpoint {path} has another {other} than this run: resume with the model and data "
            "options of its run, which are in its config.yaml."
        )
    for name, value in content["hyper_parameters"]["model"].items():
        if name in options and options[name] != value and name not in _MAY_CHANGE:
            raise UserError(
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
        UserError: No target, one outside `allowed`, or arguments it does not take.
    """
    name = config.get("_target_")
    target = _import_target(name, tuple(allowed))
    arguments = {key: value for key, value in config.items() if not key.startswith("_")} | extra
    try:
        inspect.signature(target).bind(**arguments)
    except TypeError as error:
        raise UserError(f"{name} {error}: correct its options.") from error
    return target(**arguments)


def _import_target(name: Any, allowed: tuple[str, ...]) -> Any:
    refusal = f"_target_ {name!r} is not allowed: name a class or function below " + " or ".join(
        prefix.rstrip(".") for prefix in allowed
    )
    if not isinstance(name, str) or not name.startswith(allowed):
        raise UserError(f"{refusal}.")
    module_name, _, attribute = name.rpartition(".")
    try:
        target = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"_target_ {name!r} does not exist ({error}): check its name.") from error
    if not callable(target) or not f"{getattr(target, '__module__', '')}.".startswith(allowed):
        raise UserError(f"{refusal}.")
    return target


def _check_device(device: str | torch.device) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise UserError(
            f"device {str(device)!r} cannot be used here ({reason}): try 'cpu'."
        ) from error


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
    for path, times in Counter(Path(path).resolve() for path in paths).items():
        if times > 1:
            raise UserError(f"checkpoint {path} is given {times} times: give each file once.")
    sums: dict[str, Tensor] = {}
    average: dict[str, Any] = {}
    for path in sorted(map(Path, paths)):
        content = read_checkpoint(path)
        if not average:
            average = {key: content[key] for key in ("format_version", "hyper_parameters")}
            average["global_step"] = 0
        _check_alike(content, average, sums, path)
        average["global_step"] = max(average["global_step"], content["global_step"])
        for name, weight in content["state_dict"].items():
            sums[name] = sums[name] + weight.double() if name in sums else weight.double()
    average["state_dict"] = {
        name: (sums[name] / len(paths)).to(weight.dtype)
        for name, weight in content["state_dict"].items()
    }
    return average


def _check_alike(
    content: dict[str, Any], first: dict[str, Any], weights: dict[str, Tensor], path: Path
) -> None:
    for name in ("model", "tokenizer", "lowercase", "source_lang", "target_lang"):
        if content["hyper_parameters"][name] != first["hyper_parameters"][name]:
            raise UserError(
                f"checkpoint {path} has another {name} than the first one: average checkpoints of "
                "one run, or of runs that differ in their seed alone."
            )
    shapes = {name: weight.shape for name, weight in content["state_dict"].items()}
    if weights and shapes != {name: weight.shape for name, weight in weights.items()}:
        raise UserError(
            f"checkpoint {path} has other weights than the first one: average checkpoints of one "
            "run."
        )


def save_average(paths: Sequence[str | Path], output: str | Path) -> None:
    """Averages checkpoints into a file, which is there whole or not at all.

    Raises:
        UserError: As `average_checkpoints`, or there is no folder for the file.
        OSError: The file cannot be written.
    """
    if not Path(output).parent.is_dir():
        raise UserError(f"{Path(output).parent} is no folder: make it, or give another output.")
    content = average_checkpoints(paths)
    temporary = Path(output).with_name(f".{Path(output).name}.partial")
    torch.save(content, temporary)
    temporary.replace(output)
