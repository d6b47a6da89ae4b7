"""Loads the splits of a data set from the Hugging Face hub, or says in one sentence why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import datasets
import huggingface_hub
from datasets import Dataset
from huggingface_hub.errors import HfHubHTTPError

from nmt.data.tables import Languages, missing_column

_SECONDS_TO_ANSWER = 5.0
_FORMATS = ("parquet", "json")


@dataclass(frozen=True, kw_only=True)
class HubOptions:
    """Where a data set is on the hub.

    Attributes:
        path: `owner/name`, or a local folder of parquet or JSON files.
        revision: Commit hash, tag or branch; ignored for a local folder.
        splits: Our split name to theirs, or to a slice such as `train[:-2000]`.
        config: Their configuration (subset) name, None if there is one only.
    """

    path: str
    revision: str
    splits: Mapping[str, str]
    config: str | None = None


def load_hub(options: HubOptions, languages: Languages, *, where: str) -> dict[str, Dataset]:
    """Returns the splits with columns source and target; missing values are empty texts.

    Data sets are plain parquet or JSON; code of a data set is never run.

    Args:
        options: Where it is on the hub.
        languages: Which column is source and which target.
        where: What the options of the corpus are called in the configuration.

    Raises:
        ValueError: The hub does not answer within seconds, or the set is not as described.
    """
    local = Path(options.path).is_dir()
    if not local and not huggingface_hub.constants.HF_HUB_OFFLINE:
        _check_that_hub_answers(options, where)
    loaded = {}
    for name, expression in options.splits.items():
        revision = None if local else options.revision
        dataset = _load_split(options, expression, revision=revision, where=where)
        loaded[name] = select_sides(dataset, languages, where=f"{options.path} ({name})")
    return loaded


def select_sides(dataset: Dataset, languages: Languages, *, where: str) -> Dataset:
    """Reduces a table of either shape, `{en, de}` or `{translation: {en, de}}`, to both sides.

    Raises:
        ValueError: No such columns; the message lists those found.
    """
    found = dataset.column_names
    dataset = dataset.flatten()
    names = []
    for language in (languages.source, languages.target):
        column = languages.column(language)
        inside = f"translation.{column}"
        if column not in dataset.column_names and inside not in dataset.column_names:
            raise ValueError(missing_column(column, found, where=where))
        names.append(column if column in dataset.column_names else inside)
    dataset = dataset.select_columns(names)
    dataset = dataset.rename_columns(dict(zip(names, ("source", "target"), strict=True)))
    if any(dataset.data.column(side).null_count for side in ("source", "target")):
        dataset = dataset.map(lambda row: {side: text or "" for side, text in row.items()})
    return dataset


def _check_that_hub_answers(options: HubOptions, where: str) -> None:
    """Asks once, since `datasets` retries for minutes."""
    try:
        huggingface_hub.HfApi().dataset_info(
            options.path, revision=options.revision, timeout=_SECONDS_TO_ANSWER
        )
    except HfHubHTTPError as error:
        raise ValueError(
            f"The hub refuses the data set {options.path} at revision {options.revision} "
            f"({_first_line(error)}); check {where}.hub.path and {where}.hub.revision."
        ) from error
    except Exception as error:  # which one depends on the HTTP library and the proxy
        raise ValueError(_unreachable(options, _first_line(error), where)) from error


def _load_split(
    options: HubOptions, expression: str, *, revision: str | None, where: str
) -> Dataset:
    try:
        builder = datasets.load_dataset_builder(options.path, options.config, revision=revision)
        if builder.name not in _FORMATS:
            raise ValueError(f"its files are {builder.name}")
        return datasets.load_dataset(
            options.path, options.config, revision=revision, split=expression
        )
    except ConnectionError as error:
        raise ValueError(_unreachable(options, _first_line(error), where)) from error
    except (RuntimeError, ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        raise ValueError(
            f"The data set {options.path} (config {options.config}, split {expression}) cannot be "
            f"loaded: {_first_line(error)}; only parquet and JSON data without code are read."
        ) from error


def _unreachable(options: HubOptions, reason: str, where: str) -> str:
    return (
        f"The data set {options.path} cannot be fetched from the hub ({reason}); give a local copy "
        f"with {where}.directory=DIR, use data=files or data=grammar, or set HF_HUB_OFFLINE=1 if "
        "it was downloaded before."
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
