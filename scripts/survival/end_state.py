"""Two runs compared bit by bit: what they left on the disk, without the times."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

PARTS = {  # of a checkpoint
    "weights": ("state_dict", "current_model_state", "averaging_state"),
    "optimizer": ("optimizer_states", "lr_schedulers", "MixedPrecision"),
    "counters": ("counters", "global_step", "epoch"),
    "position": ("loops",),
    "scores": ("callbacks",),
    "options": ("hyper_parameters", "format_version"),
}
_TIMES = ("seconds", "tokens_per_s")


def differences(first: Path, second: Path) -> dict[str, list[str]]:
    """Returns for each part of two run folders the names of what is not the same.

    Raises:
        OSError: A file is missing.
    """
    found: dict[str, list[str]] = {}
    for name in ("last", "best"):
        contents = [_checkpoint(folder, name) for folder in (first, second)]
        for part, keys in PARTS.items():
            sides = [{key: content.get(key) for key in keys} for content in contents]
            found[f"{name}.ckpt: {part}"] = _unequal(*sides)
    for name, read in (("metrics.csv", _rows), ("metrics.json", _json)):
        found[name] = _unequal(read(first / name), read(second / name))
    paths = {path.name for folder in (first, second) for path in folder.glob("*.jsonl")}
    found["translations"] = [
        name for name in sorted(paths) if _bytes(first / name) != _bytes(second / name)
    ]
    return found


def _checkpoint(folder: Path, name: str) -> dict[str, Any]:
    path = folder / "checkpoints" / f"{name}.ckpt"
    content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return dict(_without_folder(content, str(folder.resolve())))


def _without_folder(value: Any, folder: str) -> Any:
    """Returns nested values whose paths are relative to the folder of the run."""
    if isinstance(value, str):
        return value.removeprefix(folder)
    if isinstance(value, Mapping):
        return {
            _without_folder(key, folder): _without_folder(inner, folder)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_folder(inner, folder) for inner in value]
    return value


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _unequal(first: Any, second: Any) -> list[str]:
    """Returns the dotted names of the values that differ, or that one side alone has."""
    sides = [dict(_leaves(side, "")) for side in (first, second)]
    names = sides[0].keys() | sides[1].keys()
    return sorted(name for name in names if not _same(*(side.get(name) for side in sides)))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yields name and value of everything that is no dict or list, times left out."""
    if isinstance(value, Mapping):
        items = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(key), inner) for key, inner in enumerate(value)]
    else:
        yield name, value
        return
    yield name, len(items)
    for key, inner in items:
        if key not in _TIMES:
            yield from _leaves(inner, f"{name}.{key}" if name else key)


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return (
            first.dtype == second.dtype
            and first.shape == second.shape
            and first.numpy().tobytes() == second.numpy().tobytes()
        )
    # repr tells 1 from 1.0 and True, 0.0 from -0.0, and NaN is as good as another
    return type(first) is type(second) and repr(first) == repr(second)
