"""Runs a program under Hydra with one-line errors, and checks a config before data is read.

Nothing heavy is imported until the options have been understood: a typing error costs no wait.
`HYDRA_FULL_ERROR=1` shows every error with its traceback.

The ranges of options, checked before anything that takes seconds is imported.

Turns Hydra's composition errors into one line that names what was typed and the remedy.
"""

from __future__ import annotations

import functools
import io
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.conf import RuntimeConf
from hydra.core.hydra_config import HydraConfig
from hydra.errors import (
    CompactHydraException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

_BETTER = {"valid_bleu": "max", "valid_loss": "min", "valid_perplexity": "min"}

Range = tuple[str, Callable[[Any], bool]]


def check_ranges(config: DictConfig) -> None:
    """Refuses options without a value and numbers outside their range; absent options pass.

    Raises:
        ValueError: One sentence naming the option as it is typed, its value and its range.
    """
    for option in _missing(OmegaConf.to_container(config)):
        raise ValueError(f"{option} has no value; give {option}=VALUE.")
    absent = object()
    for option, (text, inside) in _RANGES.items():
        value = OmegaConf.select(config, option, default=absent)
        if value is not absent and not inside(value):
            raise ValueError(f"{option} is {value!r}; it must be {text}.")
    for callback in ("callbacks.best", "callbacks.early_stopping"):
        monitor, mode = (OmegaConf.select(config, f"{callback}.{x}") for x in ("monitor", "mode"))
        if monitor is not None and mode != _BETTER[monitor]:
            raise ValueError(
                f"{callback}.mode is {mode!r}; it must be {_BETTER[monitor]} for {monitor}."
            )


def _missing(node: Any, prefix: str = "") -> Iterator[str]:
    """Yields the dotted names of the options that are `???`, without resolving others."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _missing(value, f"{prefix}.{name}" if prefix else str(name))
    elif node == "???":
        yield prefix


def _whole(minimum: int) -> Range:
    return f"a whole number of at least {minimum}", lambda x: type(x) is int and x >= minimum


def _number(text: str, inside: Callable[[float], bool]) -> Range:
    return text, lambda x: type(x) in (int, float) and inside(x)


def _or_null(bounds: Range) -> Range:
    return f"{bounds[0]}, or null", lambda x: x is None or bounds[1](x)


_LANGUAGE = ("a language code such as en", lambda x: isinstance(x, str) and x != "")
_POSITIVE = _number("a positive number", lambda x: 0 < x < math.inf)
_SHARE = (
    "a whole number of batches of at least 1 or a share above 0 and up to 1.0",
    lambda x: (type(x) is int and x >= 1) or (type(x) is float and 0 < x <= 1),
)
_PRECISIONS = ("auto", "32-true", "bf16-mixed", "16-mixed")
_MONITOR = (f"one of {', '.join(_BETTER)}", lambda x: x in _BETTER)
_RANGES: dict[str, Range] = {
    "seed": (
        "a whole number from 0 to 4294967295",  # what NumPy takes
        lambda x: type(x) is int and 0 <= x < 2**32,
    ),
    "label_smoothing": _number("a number in [0, 1)", lambda x: 0 <= x < 1),
    "num_validations": _whole(1),
    "threads": _or_null(_whole(1)),
    "data.source_lang": _LANGUAGE,
    "data.target_lang": _LANGUAGE,
    "data.token_budget": _whole(1),
    "data.eval_token_budget": _whole(1),
    "data.num_workers": _whole(0),
    "data.tokenizer.vocab_size": _whole(1),
    "data.tokenizer.model_type": ("unigram or bpe", lambda x: x in ("unigram", "bpe")),
    "data.tokenizer.character_coverage": _number("a number in (0, 1]", lambda x: 0 < x <= 1),
    "optimizer.lr": _POSITIVE,
    "optimizer.weight_decay": _number("a number of at least 0", lambda x: 0 <= x < math.inf),
    "trainer.precision": (f"one of {', '.join(_PRECISIONS)}", lambda x: x in _PRECISIONS),
    "trainer.max_steps": _whole(1),
    "trainer.max_epochs": (
        "a whole number of at least 1, or -1 for no limit",
        lambda x: type(x) is int and (x >= 1 or x == -1),
    ),
    "trainer.accumulate_grad_batches": _whole(1),
    "trainer.gradient_clip_val": _or_null(_POSITIVE),
    "trainer.log_every_n_steps": _whole(1),
    "trainer.limit_train_batches": _SHARE,
    "trainer.limit_val_batches": _SHARE,  # 0: no best checkpoint could be chosen
    "callbacks.best.monitor": _MONITOR,
    "callbacks.early_stopping.monitor": _MONITOR,
}


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


_FULL_ERROR = "HYDRA_FULL_ERROR"


def config_directory() -> Path:
    """Returns where the yaml files lie: in the package when installed, else in the repository."""
    package = Path(__file__).resolve().parent
    installed = package / "_conf"
    return installed if installed.is_dir() else package.parent / "conf"


def hydra_main(config_name: str) -> Callable[[Callable[[DictConfig], None]], Callable[[], None]]:
    """Makes a function of a config the program of `conf/<config_name>.yaml`.

    What the user can mend ends as one line on stderr and exit status 1: unknown or unreadable
    options, a `ValueError` raised by this package, and a file or folder that the system does not
    give. Other errors keep their traceback.
    """

    def decorate(task: Callable[[DictConfig], None]) -> Callable[[], None]:
        @functools.wraps(task)
        def job(config: DictConfig) -> None:
            with _full_error(None):  # as the user set it, for the processes the job starts
                _run_job(task, config)

        @functools.wraps(task)
        def program() -> None:
            for stream in (sys.stdout, sys.stderr):  # UTF-8 whatever the locale
                if isinstance(stream, io.TextIOWrapper):
                    stream.reconfigure(encoding="utf-8")
            if os.environ.get(_FULL_ERROR) == "1":
                return _under_hydra(task, config_name)
            try:
                with _full_error("1"):  # lets Hydra raise what it would print on many lines
                    return _under_hydra(job, config_name)
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
                sys.exit(128 + 2)
            except Exception as error:
                _exit_if_mendable(error)
                raise

        return program

    return decorate


def check_config(config: DictConfig) -> None:
    """Refuses impossible options before any data is read; takes no memory and no data.

    The model is built on the meta device with a vocabulary of 100; the search, the schedule and
    the optimizer are built as they will be.

    Raises:
        ValueError: One sentence naming the option as it is typed, its value and its range.
    """
    check_ranges(config)
    import torch  # after the ranges: it takes seconds

    from nmt.checkpoint import build
    from nmt.evaluation.metrics import check_metrics

    def check(group: str, allowed: str, **extra: Any) -> None:
        if config.get(group) is not None:
            options: Any = OmegaConf.to_container(config[group], resolve=True)
            with _named(group, options):
                build(options, allowed=(allowed,), **extra)

    with torch.device("meta"):
        check("model", "nmt.models.", vocab_size=100)
        check("optimizer", "torch.optim.", params=[torch.nn.Parameter(torch.zeros(1))])
    check("decoding", "nmt.decoding.")
    check("scheduler", "nmt.training.schedules.")
    target_lang = OmegaConf.select(config, "data.target_lang")
    if target_lang is not None:
        check_metrics(target_lang, config.metrics)


@contextmanager
def _named(group: str, options: dict[Any, Any]) -> Iterator[None]:
    """Puts the group before the option that an error of a constructor begins with."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error)
        first = re.split(r"\W", text, maxsplit=1)[0]
        if isinstance(error, TypeError):
            text = f"{text}; check the types of {options}"
        if text.startswith(f"{group}."):
            raise
        separator = "." if first in options else ": "
        raise ValueError(f"{group}{separator}{text}") from error


def _under_hydra(task: Callable[[DictConfig], None], config_name: str) -> None:
    @functools.wraps(task)
    def at_the_start_directory(config: DictConfig) -> None:
        # Relative paths of options mean the same whatever hydra.job.chdir is.
        os.chdir(HydraConfig.get().runtime.cwd)
        task(config)

    main = hydra.main(
        version_base="1.3", config_path=str(config_directory()), config_name=config_name
    )
    main(at_the_start_directory)()


def _run_job(task: Callable[[DictConfig], None], config: DictConfig) -> None:
    try:
        task(config)
    except Exception as error:
        # In a sweep Hydra collects the error and goes on; otherwise it would add a line of its own.
        if HydraConfig.get().mode == RunMode.RUN:
            _remove_if_empty(HydraConfig.get().runtime)
            _exit_if_mendable(error)
        raise


def _remove_if_empty(runtime: RuntimeConf) -> None:
    """Leaves no empty run folder behind; a program that writes where it was started has none."""
    if Path(runtime.output_dir) != Path(runtime.cwd):
        with suppress(OSError):
            Path(runtime.output_dir).rmdir()


def _exit_if_mendable(error: Exception) -> None:
    """Ends the program with one line when `error` is the user's, else returns."""
    if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + 13)
    current: BaseException | None = error
    while current is not None:
        ours = isinstance(current, ValueError) and _raised_in(current, ("nmt.", "hydra."))
        if ours and not isinstance(current, OmegaConfBaseException):  # which wraps one
            _fail(str(current))
        current = getattr(current, "cause", None) or current.__cause__
    if isinstance(error, CompactHydraException | OmegaConfBaseException):
        _fail(explain(error, config_directory()))
    if isinstance(error, OSError) and error.filename is not None:
        _fail(f"{error.filename}: {error.strerror}; check the path and its permissions.")
    if type(error).__name__ == "MisconfigurationException":  # Lightning's, without importing it
        _fail(str(error))


def _raised_in(error: BaseException, packages: tuple[str, ...]) -> bool:
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    return frames is not None and str(frames.tb_frame.f_globals["__name__"]).startswith(packages)


def _fail(text: str) -> NoReturn:
    print("error:", " ".join(text.split()), file=sys.stderr)
    sys.exit(1)


@contextmanager
def _full_error(value: str | None) -> Iterator[None]:
    before = os.environ.pop(_FULL_ERROR, None)
    if value is not None:
        os.environ[_FULL_ERROR] = value
    try:
        yield
    finally:
        os.environ.pop(_FULL_ERROR, None)
        if before is not None:
            os.environ[_FULL_ERROR] = before
