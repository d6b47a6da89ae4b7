"""Reads files of weights written by `torch.save`: tensors and plain values, never code."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor


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
        ValueError: The file is missing, cut short, holds code, or is of another kind.
    """
    if not path.is_file():
        fault = "is a directory" if path.is_dir() else "does not exist"
        best = path / "checkpoints" / f"best{kind.suffix}"  # in the folder of a run
        wanted = str(best) if best.is_file() else f"the path of a {kind.suffix} file"
        raise ValueError(f"{kind.name} {path} {fault}: give {wanted}.")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # which torch.load does not do
    except OSError as error:
        raise ValueError(f"{kind.name} {path} cannot be read: {error.strerror}.") from error
    except zipfile.BadZipFile:
        raise ValueError(
            f"{path} ({path.stat().st_size} bytes) is no {kind.name} or is cut short: "
            f"{_advice(path, kind)}."
        ) from None
    if damaged is not None:
        raise ValueError(
            f"{kind.name} {path} is damaged ({damaged} has another checksum): "
            f"{_advice(path, kind)}."
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise ValueError(
            f"{kind.name} {path} holds more than tensors and plain values, so it was not loaded "
            f"and none of its code was run: use only files written by {kind.writer}."
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, LookupError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise ValueError(
            f"{kind.name} {path} is damaged ({reason}): {_advice(path, kind)}."
        ) from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} holds a {type(content).__name__}, no {kind.name}: "
            f"give a file of {kind.writer}."
        )
    return content


def check_version(content: Mapping[str, Any], version: int, path: Path, kind: FileKind) -> None:
    """Raises ValueError where a file is of another format than this version of nmt reads."""
    if content["format_version"] != version:
        raise ValueError(
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
    """Raises ValueError naming the keys that a part of a file lacks or should not have."""
    names = set(expected)
    missing = sorted(names - set(found))
    unexpected = [] if extra_allowed else sorted(map(str, set(found) - names))
    faults = [
        f"{fault} {what} {', '.join(map(repr, keys[:5]))}{' ...' if len(keys) > 5 else ''}"
        for fault, keys in (("lacks the", missing), ("has the unexpected", unexpected))
        if keys
    ]
    if faults:
        raise ValueError(
            f"{kind.name} {path} {' and '.join(faults)}: "
            "use it with the version of nmt that wrote it."
        )


def check_types(
    expected: Mapping[str, type], found: Mapping[str, Any], path: Path, kind: FileKind
) -> None:
    """Raises ValueError naming a part of a file that is of another type than it should be."""
    for name, wanted in expected.items():
        if not isinstance(found[name], wanted):
            raise ValueError(
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
        ValueError: A weight is missing, unexpected or of another shape.
    """
    expected = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    check_keys("weight", expected, state_dict, path, kind)
    check_types(dict.fromkeys(expected, Tensor), state_dict, path, kind)
    for name, tensor in expected.items():
        if state_dict[name].shape != tensor.shape:
            raise ValueError(
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
