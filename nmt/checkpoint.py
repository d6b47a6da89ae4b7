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
import logging
import zipfile
from collections.abc import Mapping, Sequence
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

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
_ENTRIES: dict[str, type] = {
    "format_version": int,
    "global_step": int,
    "hyper_parameters": Mapping,
    "state_dict": Mapping,
}
HYPER_PARAMETERS: dict[str, type] = {  # with the type of those that translating needs
    "model": Mapping,
    "tokenizer": bytes,
    "decoding": Mapping,
    "source_lang": str,
    "target_lang": str,
    **dict.fromkeys(("lowercase", "optimizer", "scheduler"), object),
    **dict.fromkeys(("token_budget", "label_smoothing", "seed"), object),
}
_ADDED_LATER = {"lowercase": False}  # hyper-parameters that older files lack, and what they did
_MAY_CHANGE = ("dropout", "attention_dropout")  # of a model's options, within a run


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
    content = read_checkpoint(path)
    config: dict[str, Any] = dict(content["hyper_parameters"])
    tokenizer = Tokenizer(config.pop("tokenizer"), lowercase=config["lowercase"])
    model = build(config["model"], allowed=("nmt.models.",), vocab_size=tokenizer.vocab_size)
    _load_weights(model, content["state_dict"], path)
    try:
        model.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise UserError(f"device {str(device)!r} cannot be used ({reason}): try 'cpu'.") from error
    return Checkpoint(
        model=model.eval(),
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
            has a missing, misplaced or unexpected value.
    """
    path = Path(path)
    if not path.is_file():
        fault = "is a directory" if path.is_dir() else "does not exist"
        raise UserError(f"checkpoint {path} {fault}: give the path of a .ckpt file.")
    try:
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():  # which torch.load does not do
                raise zipfile.BadZipFile(f"{damaged} has another checksum")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise UserError(
            f"checkpoint {path} holds more than tensors and plain values, so it was not loaded "
            "and none of its code was run: use only files written by train.py."
        ) from error
    except (zipfile.BadZipFile, RuntimeError, EOFError, ValueError, LookupError) as error:
        raise UserError(
            f"{path} ({path.stat().st_size} bytes) is no checkpoint, is cut short or damaged "
            f"({str(error)[:200]}): copy it again, or give another .ckpt file of its run."
        ) from error
    _check({"checkpoint": content}, {"checkpoint": dict}, path)
    _check(content, _ENTRIES, path, more=True)
    if content["format_version"] != FORMAT_VERSION:
        raise UserError(
            f"checkpoint {path} has format_version {content['format_version']!r} and this "
            f"version of nmt reads {FORMAT_VERSION}: use the version of nmt that wrote it."
        )
    hyper_parameters = _ADDED_LATER | dict(content["hyper_parameters"])
    _check(hyper_parameters, HYPER_PARAMETERS, path)
    return {**content, "hyper_parameters": hyper_parameters}


def _check(
    found: Mapping[str, Any], expected: Mapping[str, type], path: Path, *, more: bool = False
) -> None:
    """Names what a part of a file lacks, should not have, or has in a wrong place."""
    faults = [f"lacks {name!r}" for name in expected.keys() - found.keys()]
    if not more:
        faults += [f"has the unexpected {name!r}" for name in found.keys() - expected.keys()]
    faults += [
        f"holds a {type(found[name]).__name__} as {name!r}"
        for name, kind in expected.items()
        if name in found and not isinstance(found[name], kind)
    ]
    if faults:
        raise UserError(
            f"checkpoint {path} {', '.join(sorted(faults))}: give a .ckpt file of train.py, as it "
            "was saved."
        )


def _load_weights(model: torch.nn.Module, weights: Mapping[str, Tensor], path: str | Path) -> None:
    try:
        model.load_state_dict({name.removeprefix("model."): w for name, w in weights.items()})
    except RuntimeError as error:  # PyTorch names the weights that are missing, or do not fit
        raise UserError(f"checkpoint {path}: {' '.join(str(error).split())}.") from error


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
    target = None
    if isinstance(name, str) and name.startswith(allowed):
        module, _, attribute = name.rpartition(".")
        try:
            target = getattr(importlib.import_module(module), attribute, None)
        except ImportError as error:
            raise UserError(f"_target_ {name!r} cannot be imported: {error}.") from error
    if not callable(target) or not f"{getattr(target, '__module__', '')}.".startswith(allowed):
        below = " or ".join(prefix.rstrip(".") for prefix in allowed)
        raise UserError(
            f"_target_ {name!r} is not allowed: name a class or function that is defined below "
            f"{below}."
        )
    arguments = {key: value for key, value in config.items() if not key.startswith("_")} | extra
    try:
        inspect.signature(target).bind(**arguments)
    except TypeError as error:
        raise UserError(f"{name} {error}: correct its options.") from error
    return target(**arguments)


def load_weights_of_run(
    path: str | Path, model: torch.nn.Module, config: Mapping[str, Any], *, resume: bool
) -> None:
    """Gives the model of a run the weights of a checkpoint, and refuses those of another model.

    Args:
        path: Of the checkpoint.
        model: Of the run.
        config: The hyper-parameters of the run. Some options of a model have no weights, such as
            its positions; dropout may change.
        resume: Whether the run continues that of the checkpoint. Else it only begins with its
            weights: the languages may be others, and an average will do.

    Raises:
        UserError: As `read_checkpoint`, or something is not as in the checkpoint.
    """
    content = read_checkpoint(path)
    saved = content["hyper_parameters"]
    if resume and "optimizer_states" not in content:
        raise UserError(
            f"checkpoint {path} has no optimizer to resume with, as an average: give a last.ckpt."
        )
    for name in ("lowercase", *(("source_lang", "target_lang") if resume else ())):
        if saved[name] != config[name]:
            raise UserError(
                f"checkpoint {path} has data.{name}={saved[name]} and this run {config[name]}: "
                f"give data.{name}={saved[name]}."
            )
    if saved["tokenizer"] != config["tokenizer"]:
        raise UserError(
            f"checkpoint {path} has another tokenizer than this run: resume with the data options "
            "of its run, which are in its config.yaml, or train it on other data with init_from= "
            "instead of ckpt_path=."
        )
    options = config["model"]
    wanted = [
        f"model.{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in saved["model"].items()
        if name in options and options[name] != value and name not in _MAY_CHANGE
    ]
    if saved["model"].get("_target_") != options.get("_target_"):
        wanted = ["the model= and the options of its run, which are in its config.yaml"]
    if wanted:
        raise UserError(f"checkpoint {path} is of another model: give {' '.join(wanted)}.")
    _load_weights(model, content["state_dict"], path)
    languages = f"{saved['source_lang']}-{saved['target_lang']}"
    logger.info("Starting from %s (%s, %d updates).", path, languages, content["global_step"])


def average_checkpoints(paths: Sequence[str | Path]) -> dict[str, Any]:
    """Returns the content of a checkpoint whose weights are the mean of several.

    It translates and is evaluated like any other; it cannot be resumed, having no optimizer. One
    file gives its own weights; the order of the files does not matter.

    Raises:
        UserError: A file cannot be loaded, or is of another model or tokenizer than the others.
    """
    first_path, *others = sorted(map(Path, paths))
    first = read_checkpoint(first_path)
    sums = {name: weight.double() for name, weight in first["state_dict"].items()}
    updates = first["global_step"]
    for path in others:
        content = read_checkpoint(path)
        updates = max(updates, content["global_step"])
        for name in ("model", "tokenizer", "lowercase", "source_lang", "target_lang"):
            if content["hyper_parameters"][name] != first["hyper_parameters"][name]:
                raise UserError(
                    f"checkpoint {path} has another {name} than the first one: average "
                    "checkpoints of one run, or of runs that differ in their seed alone."
                )
        for name, weight in content["state_dict"].items():
            sums[name] += weight
    return {
        "format_version": FORMAT_VERSION,
        "global_step": updates,
        "hyper_parameters": first["hyper_parameters"],
        "state_dict": {
            name: (total / len(paths)).to(first["state_dict"][name].dtype)
            for name, total in sums.items()
        },
    }
