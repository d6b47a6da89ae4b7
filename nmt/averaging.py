"""The average of several checkpoints of one run (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.checkpoint import read_checkpoint


def average_checkpoints(paths: Sequence[str | Path]) -> dict[str, Any]:
    """Returns the content of a checkpoint whose weights are the mean of several.

    It translates and is evaluated like any other; it cannot be resumed, having no optimizer. One
    file gives its own weights; the order of the files does not matter.

    Raises:
        ValueError: No file, one given twice, one that cannot be loaded, or one of another model or
            tokenizer.
    """
    if not paths:
        raise ValueError("there are 0 checkpoints to average: give the paths of one or more.")
    for path, times in Counter(Path(path).resolve() for path in paths).items():
        if times > 1:
            raise ValueError(f"checkpoint {path} is given {times} times: give each file once.")
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
            raise ValueError(
                f"checkpoint {path} has another {name} than the first one: average checkpoints of "
                "one run, or of runs that differ in their seed alone."
            )
    shapes = {name: weight.shape for name, weight in content["state_dict"].items()}
    if weights and shapes != {name: weight.shape for name, weight in weights.items()}:
        raise ValueError(
            f"checkpoint {path} has other weights than the first one: average checkpoints of one "
            "run."
        )


def save_average(paths: Sequence[str | Path], output: str | Path) -> None:
    """Averages checkpoints into a file, which is there whole or not at all.

    Raises:
        ValueError: As `average_checkpoints`, or there is no folder for the file.
        OSError: The file cannot be written.
    """
    if not Path(output).parent.is_dir():
        raise ValueError(f"{Path(output).parent} is no folder: make it, or give another output.")
    content = average_checkpoints(paths)
    temporary = Path(output).with_name(f".{Path(output).name}.partial")
    torch.save(content, temporary)
    temporary.replace(output)
