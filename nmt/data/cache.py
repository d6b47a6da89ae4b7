"""A folder of finished results: each made once, by one process, and there whole or not at all.

The name of a result is a digest of everything it was made from, so a changed file, rule or option
makes a new one and nothing stale is ever used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from nmt.checks import UserError

Result = TypeVar("Result")


def cached(
    cache_dir: Path, name: str, make: Callable[[Path], None], load: Callable[[Path], Result]
) -> Result:
    """Returns what `load` finds in the folder `cache_dir/name`, which `make` fills if need be.

    Safe with several processes: one makes it, under a temporary name, and the others wait.
    """
    final = cache_dir / name
    if not final.is_dir():
        try:
            cache_dir.mkdir(parents=True, exist_ok=True)
            with FileLock(cache_dir / f"{name}.lock"):
                if not final.is_dir():
                    _make(final, make)
        except OSError as error:
            if error.filename and not Path(error.filename).is_relative_to(cache_dir):
                raise  # something that `make` reads
            raise UserError(
                f"data.cache_dir {cache_dir} cannot be written ({error}); set it to another folder."
            ) from error
    try:
        return load(final)
    except Exception as error:
        raise UserError(
            f"The cached result {final} is damaged ({error}); delete this folder and start again."
        ) from error


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
