"""Builds an English-German corpus of free-software documentation from Debian or Ubuntu packages.

Needs no root: packages are downloaded to DIR/packages (kept, and not fetched again) and read there,
never installed. Train on the result with `data=opendocs data.directory=DIR`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

try:
    from opendocs.alignment import aligned_texts
    from opendocs.filters import Pair, clean
    from opendocs.packages import (
        Package,
        check_system,
        copyright_notice,
        download,
        known_packages,
        read_texts,
    )
    from opendocs.sources import SOURCES
    from opendocs.splitting import SplitRules, Splits, split
    from opendocs.writing import readme, write_corpus
except ModuleNotFoundError as error:
    raise SystemExit(
        f"The Python package {error.name} is missing; install what this needs with "
        "`pip install -e '.[opendocs]'`."
    ) from None

MIN_TRAIN_PAIRS = 10_000

console = Console()


def main() -> None:
    """Builds the corpus; what goes wrong is said in one sentence."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder for the corpus")
    arguments = parser.parse_args()
    try:
        build(arguments.directory)
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    except OSError as error:
        parser.exit(2, f"{error}; choose a folder that can be written and has 2 GB of space.\n")


def build(directory: Path) -> None:
    """Fetches the packages, and writes the corpus and its README.md.

    Args:
        directory: Where to; made if need be.

    Raises:
        ValueError: No Debian, no network, a damaged package, or too little text.
    """
    check_system()
    packages = fetch(directory / "packages")
    removed: Counter[str] = Counter()
    pairs: list[Pair] = []
    for source in SOURCES:
        with console.status(f"reading {source.name}"):
            files = read(packages[source.name], directory)
            pairs += clean(aligned_texts(files), source=source.name, removed=removed)
    console.print(f"{len(pairs):,} clean pairs; dividing them")
    splits = split(pairs, rules=SplitRules(), removed=removed)
    if len(splits.train) < MIN_TRAIN_PAIRS:
        raise ValueError(
            f"Only {len(splits.train):,} training pairs were found, fewer than {MIN_TRAIN_PAIRS:,};"
            " see above which packages are missing, run `apt-get update` (as root) and try again."
        )
    write_corpus(splits, directory)
    text = readme(splits, sources=SOURCES, packages=packages, removed=removed)
    (directory / "README.md").write_text(text, encoding="utf-8")
    report(splits, removed)
    command = f"python train.py data=opendocs data.directory={directory}"
    console.print(f"Train on it with: {command}", soft_wrap=True)


def fetch(folder: Path) -> dict[str, list[Package]]:
    """Downloads the packages of all sources, and says which ones are missing.

    Args:
        folder: Where to.

    Returns:
        The packages that are there, by name of their source.

    Raises:
        ValueError: None is there.
    """
    names = {source.name: source.packages.split() for source in SOURCES}
    known = known_packages(name for listed in names.values() for name in listed)
    size = sum(package.size for package in known.values())
    console.print(f"{len(known)} packages, {size / 1e6:,.0f} MB")
    with Progress(console=console) as progress:
        task = progress.add_task("downloading", total=len(known))
        failed = download(
            list(known.values()),
            folder=folder,
            progress=lambda done: progress.update(task, advance=done),
        )
    if len(failed) == len(known):
        raise ValueError(
            "No package could be downloaded; check the network, and run `apt-get update` (as root) "
            "in case apt's lists are old."
        )
    unknown = [name for listed in names.values() for name in listed if name not in known]
    _say_missing("not in this release", unknown)
    _say_missing("could not be downloaded", [package.name for package in failed])
    return {
        source: [known[name] for name in listed if name in known and known[name] not in failed]
        for source, listed in names.items()
    }


def read(packages: Sequence[Package], directory: Path) -> dict[str, bytes]:
    """Reads the documentation of a source, and keeps the licence of each package.

    Args:
        packages: Of one source, downloaded.
        directory: The corpus; licences go to its folder `copyright`.

    Returns:
        Content by path.
    """
    notices = directory / "copyright"
    notices.mkdir(parents=True, exist_ok=True)
    files: dict[str, bytes] = {}
    for package in packages:
        texts = read_texts(directory / "packages" / package.file_name)
        if notice := copyright_notice(texts):
            (notices / f"{package.name}.txt").write_bytes(notice)
        files |= texts
    return files


def report(splits: Splits, removed: Mapping[str, int]) -> None:
    """Prints what was kept and what was left out."""
    table = Table("pairs", "", title="opendocs")
    table.columns[1].justify = "right"
    for reason, count in removed.items():
        table.add_row(f"- {reason}", f"{count:,}", style="dim")
    for name in ("train", "valid", "test"):
        table.add_row(name, f"{len(getattr(splits, name)):,}", style="bold")
    console.print(table)


def _say_missing(reason: str, names: Sequence[str]) -> None:
    """Says which packages the corpus has to do without."""
    if names:
        console.print(f"{len(names)} packages {reason}: {', '.join(names)}", style="yellow")


if __name__ == "__main__":
    main()
