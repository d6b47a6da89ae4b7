"""Fetches Debian packages with apt, without root, and reads the documentation in them."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_TEXT = re.compile(r"\.(html|docbook|page|xml)(\.gz)?$|/(de|en|entities)/[\w.-]+\.entities$")
_CATALOGUE = re.compile(r"/de/LC_MESSAGES/[^/]+\.mo$")
_OTHER_LANGUAGE = re.compile(
    r"/(?:help|HTML|html|installation-guide-\w+)/(?!(?:de|en|C|en-US|de-DE)/)[a-z]{2,3}([_@-]\w+)?/|"
    r"\.(?!(?:de|en)\.)[a-z]{2}([_-][A-Za-z]{2,4})?\.html|/customization/(?!de/|en/|entities/)"
)
_ALTERNATIVES = re.compile(r"^(.*)\{(.*)\}(.*)$")
_CHUNK = 20


@dataclass(frozen=True)
class Package:
    """A package as apt knows it.

    Attributes:
        name: Its name.
        version: Version, with epoch.
        architecture: Such as `all`.
        size: Bytes to download.
    """

    name: str
    version: str
    architecture: str
    size: int

    @property
    def file_name(self) -> str:
        """What `apt-get download` calls the file."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


def check_system() -> None:
    """Makes sure that this is Debian or a relative.

    Raises:
        ValueError: A program is missing.
    """
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(program) is None:
            raise ValueError(
                f"{program} was not found: this corpus is made of packages of Debian or Ubuntu; "
                "on other systems train on a set of the Hugging Face hub, such as data=opus100."
            )


def known_packages(names: Iterable[str]) -> dict[str, Package]:
    """Returns the packages that this system's archive has, by the name asked for.

    Args:
        names: Names; `a-{2,1}-b` stands for the first of `a-2-b` and `a-1-b` that exists.

    Raises:
        ValueError: None of them.
    """
    alternatives = {name: _alternatives(name) for name in names}
    wanted = [choice for choices in alternatives.values() for choice in choices]
    listing = _run(["apt-cache", "show", "--no-all-versions", *wanted])
    known = {package.name: package for package in map(_package, listing.split("\n\n")) if package}
    if not known:
        raise ValueError(
            "apt knows none of the packages; fetch its lists with `apt-get update` (as root) first."
        )
    return {
        name: known[present[0]]
        for name, choices in alternatives.items()
        if (present := [choice for choice in choices if choice in known])
    }


def download(
    packages: Sequence[Package], *, folder: Path, progress: Callable[[int], object]
) -> list[Package]:
    """Downloads what is not there yet; gives up when nothing arrives any more.

    Args:
        packages: What is wanted.
        folder: Where to.
        progress: Called with the number of packages done since the last call.

    Returns:
        The packages that could not be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [package for package in packages if not _is_there(package, folder)]
    progress(len(packages) - len(missing))
    for start in range(0, len(missing), _CHUNK):
        chunk = missing[start : start + _CHUNK]
        wanted = [f"{package.name}={package.version}" for package in chunk]
        _run(["apt-get", "-q", "-o", "Acquire::Retries=0", "download", *wanted], folder=folder)
        progress(len(chunk))
        if not any(_is_there(package, folder) for package in chunk):
            break
    return [package for package in packages if not _is_there(package, folder)]


def read_texts(archive: Path) -> dict[str, bytes]:
    """Returns the documentation files of a package in English and German, uncompressed, by path.

    Args:
        archive: The .deb file.

    Raises:
        ValueError: A damaged file.
    """
    texts: dict[str, bytes] = {}
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as files:
                for member in files:
                    if member.isfile() and _is_wanted(member.name):
                        content = files.extractfile(member)
                        assert content is not None
                        texts.update([_uncompressed(member.name, content.read())])
        except (tarfile.TarError, EOFError, gzip.BadGzipFile):
            raise ValueError(
                f"{archive} is damaged; delete it, and run this again to fetch it anew."
            ) from None
    return texts


def copyright_notice(texts: dict[str, bytes]) -> bytes:
    """Returns the licence file among the texts of a package; empty if there is none."""
    return next((texts[path] for path in sorted(texts) if path.endswith("/copyright")), b"")


def _alternatives(name: str) -> list[str]:
    """Returns the names that one with braces stands for."""
    match = _ALTERNATIVES.match(name)
    return [match[1] + choice + match[3] for choice in match[2].split(",")] if match else [name]


def _package(stanza: str) -> Package | None:
    """Reads a package from the lines that apt-cache prints of it."""
    fields = dict(
        line.split(": ", 1) for line in stanza.split("\n") if re.match(r"\w[\w-]*: ", line)
    )
    if "Filename" not in fields:
        return None
    return Package(
        fields["Package"], fields["Version"], fields["Architecture"], int(fields["Size"])
    )


def _is_there(package: Package, folder: Path) -> bool:
    """Says whether the complete file of a package lies in a folder."""
    path = folder / package.file_name
    return path.exists() and path.stat().st_size == package.size


def _is_wanted(path: str) -> bool:
    """Says whether a file may hold text in one of the two languages, or the licence."""
    if path.endswith("/copyright") or _CATALOGUE.search(path):
        return True
    return bool(_TEXT.search(path)) and not _OTHER_LANGUAGE.search(path)


def _uncompressed(path: str, content: bytes) -> tuple[str, bytes]:
    """Returns name and content of a file that may be compressed."""
    if path.endswith(".gz"):
        return path.removesuffix(".gz"), gzip.decompress(content)
    return path, content


def _run(command: list[str], *, folder: Path | None = None) -> str:
    """Returns what a program prints, whatever its exit code; what apt lacks is found afterwards."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    return result.stdout
