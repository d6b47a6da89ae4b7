"""Turns Hydra's composition errors into one line that names what was typed and the remedy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from hydra.errors import InstantiationException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException


def explain(error: Exception, config_directory: Path) -> str:
    """Returns one line about an error of Hydra or OmegaConf: option, value and what to do.

    Args:
        error: raised while options were parsed, composed, resolved or instantiated.
        config_directory: where the groups lie; names the choices and nearest keys.
    """
    text = str(error)
    cause = error.__cause__
    if isinstance(error, OverrideParseException):
        return _unreadable(error.override)
    if ambiguous := re.match(r"Ambiguous value for argument '(.*)'\n", text):
        advice = _quoting(ambiguous[1])
        return f"several values in {ambiguous[1]}: add -m for a run of each, or {advice}"
    if isinstance(error, MissingConfigException) and (choice := re.search(r"find '(.+)'", text)):
        return _unknown_choice(choice[1], config_directory)
    if (typed := re.match(r"Could not override '(.+)'", text)) and isinstance(
        cause, OmegaConfBaseException
    ):
        root = cause.parent_node._get_root() if cause.parent_node is not None else DictConfig({})
        return _unknown_option(typed[1], root, config_directory)
    if resolving := re.match(r"ValueError raised while resolving interpolation: (.*)\n", text):
        return resolving[1]  # of a resolver of ours
    if isinstance(error, MissingMandatoryValue):
        return f"option {error.full_key!r} has no value: give {error.full_key}=VALUE"
    if isinstance(error, InstantiationException) and isinstance(cause, Exception):
        place = re.search(r"full_key: (\S+)", text)
        return _one_line(f"{place[1]}: {cause}" if place else str(cause))
    if isinstance(cause, OmegaConfBaseException):
        return _one_line(f"{text} {cause}")
    return _one_line(text.partition("Config search path:")[0])


def _unreadable(override: str) -> str:
    if "=" not in override:
        return f"cannot read {override!r}: options are written key=value"
    return f"cannot read {override!r}: {_quoting(override)}"


def _quoting(override: str) -> str:
    """Returns the advice to quote a value for Hydra, and again for the shell."""
    key, _, value = override.partition("=")
    if value.startswith("["):
        quoted = "[" + ",".join(_quote(item.strip()) for item in value.strip("[]").split(",")) + "]"
    else:
        quoted = _quote(value)
    return f"quote the value, for the shell too: {shlex.quote(f'{key}={quoted}')}"


def _quote(value: str) -> str:
    r"""Returns `value` as Hydra's double-quoted string; only `\` before `"` is doubled there."""
    if value[:1] in ("'", '"') and value[0] == value[-1]:
        value = value[1:-1]
    escaped = re.sub(r'(\\*)"', r'\1\1\\"', value)
    return '"' + re.sub(r"(\\+)$", r"\1\1", escaped) + '"'


def _unknown_choice(name: str, config_directory: Path) -> str:
    group, _, choice = name.rpartition("/")
    available = sorted(path.stem for path in (config_directory / group).glob("*.yaml"))
    nearest = get_close_matches(choice, available, n=1)
    hint = f"; did you mean '{group}={nearest[0]}'?" if nearest else ""
    return f"unknown {group}={choice}{hint} (available: {', '.join(available) or 'none'})"


def _unknown_option(typed: str, config: DictConfig, config_directory: Path) -> str:
    groups = [path.name for path in config_directory.iterdir() if path.is_dir()]
    known = [*(key for key in _keys(config) if not key.startswith("hydra.")), *groups]
    if typed.startswith("hydra."):
        known = list(_keys(config))
    elsewhere = _choices_with(typed, config_directory)
    if elsewhere:
        group = typed.partition(".")[0]
        return f"unknown option {typed!r} here; it is an option of {group}={'|'.join(elsewhere)}"
    last = typed.rpartition(".")[2]
    nearest = [key for key in known if key.rpartition(".")[2] == last]
    nearest = nearest or get_close_matches(typed, known, n=1)
    if nearest:
        return f"unknown option {typed!r}; did you mean {' or '.join(map(repr, nearest[:3]))}?"
    return (
        f"unknown option {typed!r}; --cfg job lists all options, and +{typed}=VALUE adds a new one"
    )


def _choices_with(typed: str, config_directory: Path) -> Sequence[str]:
    """Returns the other choices of the group of `typed` that have this key."""
    group, _, key = typed.partition(".")
    files = sorted((config_directory / group).glob("*.yaml")) if key else []
    return [file.stem for file in files if key in set(_keys(OmegaConf.load(file)))]


def _keys(config: object, prefix: str = "") -> Iterator[str]:
    """Yields every dotted key of a config, inner nodes included, without resolving values."""
    if isinstance(config, DictConfig) and not config._is_none() and not config._is_missing():
        for name in map(str, config):
            yield f"{prefix}{name}"
            yield from _keys(config._get_node(name), f"{prefix}{name}.")


def _one_line(text: str) -> str:
    return " ".join(text.split())
