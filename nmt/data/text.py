"""Parallel text as Arrow files: written once, a few rows at a time, and memory-mapped from then on.

However large a corpus is, little of it is in memory. Names of results are digests of content.

A folder of finished results: each made once, by one process, and there whole or not at all.

Work on a large corpus, piece by piece, in several processes.

The pieces depend on the size of the corpus alone, so that the result is the same on every machine.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow
import xxhash
from datasets import Dataset, concatenate_datasets
from filelock import FileLock

from nmt.checks import UserError
from nmt.data.files import Languages, Pairs, iterate_parallel


def cached(cache_dir: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Returns the folder `cache_dir/name`, which `make` fills if it is not there yet.

    Safe with several processes: one makes it, under a temporary name, the others wait.

    Raises:
        UserError: The cache folder cannot be written.
        OSError: `make` cannot read what it needs.
    """
    final = cache_dir / name
    if final.is_dir():
        return final
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(cache_dir / f"{name}.lock"):
            if not final.is_dir():
                _make(final, make)
    except OSError as error:
        if error.filename and not Path(error.filename).is_relative_to(cache_dir):
            raise  # something that is read
        raise UserError(
            f"data.cache_dir {cache_dir} cannot be written ({error}); set it to another folder."
        ) from error
    return final


def _make(final: Path, make: Callable[[Path], None]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=f"{final.name}.", dir=final.parent))
    try:
        make(temporary)
        os.replace(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def key_of(*parts: Any) -> str:
    """Returns a short name for anything that can be written as JSON."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]


Result = TypeVar("Result")

ROWS = 2**16  # of a shard
_MOST_PROCESSES = 8
_PR_SET_PDEATHSIG = 1


def shards(num_rows: int) -> list[range]:
    """Returns the rows of each shard, in order; one without rows for an empty corpus."""
    return [range(start, min(start + ROWS, num_rows)) for start in range(0, max(1, num_rows), ROWS)]


def default_processes() -> int:
    """Returns the number of CPUs, up to eight."""
    return min(os.cpu_count() or 1, _MOST_PROCESSES)


def map_shards(
    work: Callable[[range], Result], num_rows: int, *, processes: int | None = None
) -> list[Result]:
    """Returns what `work` gives for the rows of each shard, in order.

    A corpus of one shard is worked on in this process, a larger one in forks of it: memory that
    they take goes back to the system, and what they read is not counted here.

    Args:
        work: Its result is sent between processes, so it should be small or arrays.
        num_rows: Of the corpus.
        processes: How many, None: `default_processes`.

    Raises:
        Exception: What `work` raised first.
        UserError: A process was ended from outside.
    """
    tasks = shards(num_rows)
    if len(tasks) == 1:
        return [work(tasks[0])]
    return _in_forks(work, tasks, min(processes or default_processes(), len(tasks)))


def apart(work: Callable[[], Result], num_rows: int) -> Result:
    """Returns what `work` gives, in a fork of this process where the corpus is large."""
    if len(shards(num_rows)) == 1:
        return work()
    return _in_forks(lambda rows: work(), [range(num_rows)], 1)[0]


def _in_forks(
    work: Callable[[range], Result], tasks: Sequence[range], processes: int
) -> list[Result]:
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("fork"),  # nothing to send, nothing to import anew
        initializer=_begin,
        initargs=(work, os.getpid()),
    )
    try:
        with pool:
            return list(pool.map(_do, tasks))
    except BrokenProcessPool:
        raise UserError(
            "A process that prepared data was ended by the system, mostly for want of memory: "
            "free some and start again; earlier steps are kept."
        ) from None
    except ValueError as error:  # an answer to the user; the cause says where in the process
        raise UserError(str(error)) from error


_work: Callable[[range], Any]  # of this process, a fork


def _begin(work: Callable[[range], Any], parent: int) -> None:
    """Lets this process not outlive the one that wants its results, where the system is Linux."""
    global _work
    _work = work
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _do(rows: range) -> Any:
    return _work(rows)


_VERSION = 1  # of the format
_ROWS_AT_ONCE = 10_000
_BYTES_AT_ONCE = 2**20
_SIDES = ("source", "target")
_SCHEMA = pyarrow.schema({side: pyarrow.string() for side in _SIDES})


@dataclass(frozen=True)
class Text:
    """Parallel text with the columns source, target and perhaps others.

    Attributes:
        dataset: The text.
        key: A digest of source and target, or of what they were read from.
    """

    dataset: Dataset
    key: str


def text_of_files(files: Sequence[str | Path], languages: Languages, *, cache_dir: Path) -> Text:
    """Returns the pairs of two line files or of one table, see `iterate_parallel`.

    Raises:
        UserError: The files cannot be read, or do not hold both sides.
    """
    pairs = iterate_parallel(files, languages)  # refuses what is no corpus
    columns = [languages.column(code) for code in (languages.source, languages.target)]
    names = [Path(file).name for file in files]
    sides = (languages.source, languages.target)
    key = key_of(_VERSION, [_digest(Path(file)) for file in files], names, sides, columns)

    def make(folder: Path) -> None:
        _write(_tables(pairs), folder / "text.arrow", _SCHEMA)

    return _cached_text(cache_dir, key, make)


def lowercased(text: Text, *, cache_dir: Path) -> Text:
    """Returns the same with both sides in lower case; other columns are kept."""
    sides = text.dataset.select_columns([*_SIDES])

    def pairs() -> Pairs:
        for rows in sides.iter(batch_size=_ROWS_AT_ONCE):
            for source, target in zip(rows["source"], rows["target"], strict=True):
                yield source.lower(), target.lower()

    def make(folder: Path) -> None:
        _write(_tables(pairs()), folder / "text.arrow", _SCHEMA)

    lower = _cached_text(cache_dir, key_of(_VERSION, "lowercase", text.key), make)
    others = text.dataset.remove_columns([*_SIDES])  # which the key does not cover
    if not others.column_names:
        return lower
    return Text(concatenate_datasets([lower.dataset, others], axis=1), lower.key)


def content_key(dataset: Dataset) -> str:
    """Returns a digest of the texts in the columns source and target, wherever they lie."""
    digests = [xxhash.xxh3_128() for _ in range(4)]
    for table in dataset.select_columns([*_SIDES]).with_format("arrow").iter(_ROWS_AT_ONCE):
        for number, side in enumerate(_SIDES):
            for chunk in table[side].cast(pyarrow.large_binary()).chunks:
                _, offsets, content = chunk.buffers()
                starts = np.frombuffer(offsets, np.int64)[chunk.offset :][: len(chunk) + 1]
                digests[number].update(memoryview(content or b"")[starts[0] : starts[-1]])
                digests[2 + number].update(np.diff(starts).tobytes())
    return key_of([digest.hexdigest() for digest in digests])


def _digest(path: Path) -> str:
    """Returns a digest of the bytes of a file; a missing one is for its reader to complain of."""
    digest = xxhash.xxh3_128()
    if path.is_file():
        with path.open("rb") as file:
            while block := file.read(_BYTES_AT_ONCE):
                digest.update(block)
    return digest.hexdigest()


def _tables(pairs: Pairs) -> Iterator[pyarrow.Table]:
    while rows := list(islice(pairs, _ROWS_AT_ONCE)):
        columns = [pyarrow.array(column, "string") for column in zip(*rows, strict=True)]
        yield pyarrow.Table.from_arrays(columns, schema=_SCHEMA)


def _write(tables: Iterator[pyarrow.Table], path: Path, schema: pyarrow.Schema) -> None:
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, schema) as writer:
        for table in tables:
            writer.write_table(table)


def _cached_text(cache_dir: Path, key: str, make: Callable[[Path], None]) -> Text:
    folder = cached(cache_dir, f"text-{key}", make)
    return Text(Dataset.from_file(str(folder / "text.arrow")), key)
