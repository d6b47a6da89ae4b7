"""Builds an options class from a part of the configuration, or says which key is wrong."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

Options = TypeVar("Options")


def build_options(cls: type[Options], values: Mapping[str, Any], *, where: str) -> Options:
    """Returns `cls(**values)`.

    Args:
        cls: A dataclass; its fields are the keys.
        values: The part of the configuration.
        where: Its name there, such as `data.cleaning`.

    Raises:
        ValueError: A key that does not exist (the nearest is named), or one that is missing.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{where} is {values!r}; give it keys and values.")
    assert dataclasses.is_dataclass(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.0)
            raise ValueError(f"There is no option {where}.{name}; did you mean {near[0]}?")
    needed = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
    if missing := [name for name in needed if name not in values]:
        raise ValueError(f"{where} lacks {', '.join(missing)}; give a value.")
    return cls(**values)
