"""Runs a program under Hydra with one-line errors, and checks a config before data is read.

Nothing heavy is imported until the options have been understood: a typing error costs no wait.
`HYDRA_FULL_ERROR=1` shows every error with its traceback.
"""

from __future__ import annotations

import functools
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.conf import RuntimeConf
from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.option_ranges import check_ranges
from nmt.override_errors import explain

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
        check_metrics(target_lang)


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
