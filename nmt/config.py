"""Runs the programs that have a config under Hydra, and checks the config before any work.

An option that Hydra refuses ends as any `UserError` does (`nmt.checks`): in one line, with the
nearest option that there is.
"""

from __future__ import annotations

import functools
import io
import os
import shlex
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.checks import UserError, at_least, dotted, one_of, share, status_of, user_error

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
        def job(config: DictConfig) -> None:
            _run_job(task, config)

        @functools.wraps(task)
        def program() -> None:
            _speak_utf8()
            # Hydra would print its errors, in several lines, and exit; what to say is ours.
            hydra._internal.utils.run_and_report = lambda func: func()
            run = hydra.main(
                version_base="1.3", config_path=str(config_directory()), config_name=config_name
            )(job)
            try:
                run()
            except (Exception, KeyboardInterrupt) as error:
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
    for option in sorted(OmegaConf.missing_keys(config)):
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


def _run_job(task: Callable[[DictConfig], None], config: DictConfig) -> None:
    job = HydraConfig.get()
    os.chdir(job.runtime.cwd)  # relative paths mean the same whatever hydra.job.chdir is
    try:
        task(config)
    except Exception as error:
        if job.mode == RunMode.MULTIRUN:  # it continues; Hydra raises the first error at the end
            if (
                status_of(error, where=f" in job {job.job.num} ({job.job.override_dirname})")
                is None
            ):
                traceback.print_exc()
        else:
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
    known = set()
    for file in root.rglob("*.yaml"):
        group = file.parent.name
        text = file.read_text(encoding="utf-8")
        top = file.parent == root or "@package _global_" in text
        options = OmegaConf.to_container(OmegaConf.create(text))
        known |= {group, *dotted(options, "" if top else group)}
    for argument in sys.argv[1:]:
        typed, _, value = argument.lstrip("+~").partition("=")
        inside = any(option.startswith(f"{typed}.") for option in known)
        near: list[str] = []
        if (root / typed).is_dir():  # a group: one of its files was meant
            names = {file.stem for file in (root / typed).glob("*.yaml")} - {value}
            near = [f"{typed}={name}" for name in get_close_matches(value, names, n=1)]
        elif typed not in known and not inside and not typed.startswith(("hydra", "-")):
            last = typed.rpartition(".")[2]
            same = sorted(option for option in known if option.rpartition(".")[2] == last)
            near = same[:2] or get_close_matches(typed, sorted(known), n=1)
        if near:
            return f"; did you mean {' or '.join(near)}?"
    return ""


def _speak_utf8() -> None:
    """Writes UTF-8 whatever the locale, and file names that are not as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
