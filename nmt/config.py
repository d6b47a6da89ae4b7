"""Runs the programs that have a config under Hydra, and checks the config before any work.

An option that Hydra refuses ends as any `UserError` does (`nmt.checks`): in one line, with the
nearest option that there is. `HYDRA_FULL_ERROR=1` shows all tracebacks.
"""

from __future__ import annotations

import functools
import io
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.checks import (
    FULL_ERROR,
    UserError,
    at_least,
    one_of,
    share,
    status_of,
    user_error,
)

PRECISIONS = ("auto", "32-true", "bf16-mixed", "16-mixed")


def config_directory() -> Path:
    """Returns where the yaml files lie: in the package when installed, else in the repository."""
    package = Path(__file__).resolve().parent
    installed = package / "_conf"
    return installed if installed.is_dir() else package.parent / "conf"


def hydra_main(config_name: str) -> Callable[[Callable[[DictConfig], None]], Callable[[], None]]:
    """Makes a function of a config the program of `conf/<config_name>.yaml`."""

    def decorate(task: Callable[[DictConfig], None]) -> Callable[[], None]:
        @functools.wraps(task)
        def program() -> None:
            _speak_utf8()
            full = os.environ.get(FULL_ERROR)

            @functools.wraps(task)
            def job(config: DictConfig) -> None:
                with _full_error(full):  # what the job starts sees the user's environment
                    _run_job(task, config, all_tracebacks=full == "1")

            run = hydra.main(
                version_base="1.3", config_path=str(config_directory()), config_name=config_name
            )(job)
            try:
                with _full_error("1"):  # lets Hydra raise what it would print
                    run()
            except (Exception, KeyboardInterrupt) as error:
                if full != "1":
                    _exit_if_mendable(error)
                raise

        return program

    return decorate


def check_config(config: DictConfig) -> None:
    """Refuses impossible options before any data is read; takes no memory.

    The model (on the meta device, with a vocabulary of 100), the search, the schedule and the
    optimizer are built as they will be: their constructors know what they take.

    Raises:
        UserError: One sentence with the option and its value.
    """
    for option, value in _options(OmegaConf.to_container(config)):
        if value == "???":
            raise UserError(f"{option} has no value; give {option}=VALUE.")
    for option, least in (  # options that no constructor of ours takes
        ("seed", 0),
        ("num_validations", 1),
        ("trainer.max_steps", 1),
        ("trainer.accumulate_grad_batches", 1),
        ("trainer.log_every_n_steps", 1),
    ):
        at_least(option, OmegaConf.select(config, option, default=least), least)
    if config.get("threads") is not None:
        at_least("threads", config.threads)
    share("label_smoothing", config.get("label_smoothing", 0.0))
    precision = OmegaConf.select(config, "trainer.precision", default="auto")
    one_of("trainer.precision", precision, PRECISIONS)
    import torch  # only here: it takes seconds

    from nmt.checkpoint import build
    from nmt.evaluation.metrics import check_metrics

    def check(group: str, allowed: str, **extra: Any) -> None:
        if config.get(group) is not None:
            options: Any = OmegaConf.to_container(config[group], resolve=True)
            try:
                build(options, allowed=(allowed,), **extra)
            except (TypeError, ValueError) as error:  # of the class that the user chose
                raise UserError(f"{group}: {error}; its options are {options}") from error

    with torch.device("meta"):
        check("model", "nmt.models.", vocab_size=100)
        check("optimizer", "torch.optim.", params=[torch.nn.Parameter(torch.zeros(1))])
    check("decoding", "nmt.decoding.")
    check("scheduler", "nmt.training.schedules.")
    target_lang = OmegaConf.select(config, "data.target_lang")
    if target_lang is not None:
        check_metrics(target_lang, config.metrics)


def _run_job(
    task: Callable[[DictConfig], None], config: DictConfig, *, all_tracebacks: bool
) -> None:
    job = HydraConfig.get()
    os.chdir(job.runtime.cwd)  # relative paths mean the same whatever hydra.job.chdir is
    try:
        task(config)
    except Exception as error:
        if job.mode == RunMode.MULTIRUN:  # it continues; Hydra raises the first error at the end
            where = f" in job {job.job.num} ({job.job.override_dirname})"
            if all_tracebacks or status_of(error, where=where) is None:
                traceback.print_exc()
        elif not all_tracebacks:
            _exit_if_mendable(error)  # else Hydra would add a line of its own
        raise
    finally:
        folder, cwd = Path(job.runtime.output_dir), Path(job.runtime.cwd)
        for unused in (folder, folder.parent):  # when nothing was written there
            if unused not in (cwd, *cwd.parents):
                with suppress(OSError):
                    unused.rmdir()


def _exit_if_mendable(error: BaseException) -> None:
    if isinstance(error, CompactHydraException | OmegaConfBaseException) and not user_error(error):
        error = UserError(_refusal(error))
    status = status_of(error)
    if status is not None:
        sys.exit(status)


def _refusal(error: Exception) -> str:
    """Returns what Hydra or OmegaConf says of an option, with the nearest one that there is."""
    if isinstance(error, OverrideParseException):
        key, _, value = error.override.partition("=")
        quoted = shlex.quote(f'{key}="{value}"')
        return f"cannot read {error.override!r}: write key=value and quote the value: {quoted}"
    text, _, _ = str(error).partition("Config search path:")
    if ours := text.partition("UserError raised while resolving interpolation: ")[2]:
        return ours.partition("\n")[0]  # of a resolver of ours
    if isinstance(error.__cause__, OmegaConfBaseException):
        text = f"{text} {str(error.__cause__).partition(chr(10))[0]}"
    return text.strip() + _nearest_option()


def _nearest_option() -> str:
    """Returns a hint for the first option on the command line that no file of `conf/` has."""
    root = config_directory()
    files = sorted(root.rglob("*.yaml"))
    groups = {file.parent.name for file in files}
    known = groups | {f"{file.parent.name}={file.stem}" for file in files}
    for file in files:
        text = file.read_text(encoding="utf-8")
        top = file.parent == root or "@package _global_" in text
        prefix = "" if top else f"{file.parent.name}."
        known |= {
            key for key, _ in _options(OmegaConf.to_container(OmegaConf.create(text)), prefix)
        }
    for argument in sys.argv[1:]:
        typed = argument.lstrip("+~").partition("=")[0]
        if typed in groups:
            typed = argument
        if typed not in known and not typed.startswith(("hydra", "-")):
            last = typed.rpartition(".")[2]
            same = sorted(key for key in known if key.rpartition(".")[2] == last)
            if near := same[:2] or get_close_matches(typed, sorted(known), n=1):
                return f"; did you mean {' or '.join(near)}?"
    return ""


def _options(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every option with its dotted name, groups included."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield f"{prefix}{name}", value
            yield from _options(value, f"{prefix}{name}.")


def _speak_utf8() -> None:
    """Writes UTF-8 whatever the locale, and file names that are not as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


@contextmanager
def _full_error(value: str | None) -> Iterator[None]:
    before = os.environ.pop(FULL_ERROR, None)
    if value is not None:
        os.environ[FULL_ERROR] = value
    try:
        yield
    finally:
        os.environ.pop(FULL_ERROR, None)
        if before is not None:
            os.environ[FULL_ERROR] = before
