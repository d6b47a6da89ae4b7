"""Copies the configs and the lexicon into the wheel; all else is said in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = {"conf": "nmt/_conf", "data/grammar": "nmt/_data/grammar"}


class BuildWithData(build_py):
    """Builds the package with `FOLDERS` inside; an editable install reads the repository's."""

    def run(self) -> None:
        """Copies after the modules are in place."""
        super().run()
        if self.editable_mode:
            return
        for source, target in FOLDERS.items():
            place = Path(self.build_lib) / target
            shutil.rmtree(place, ignore_errors=True)
            for file in sorted(Path(source).rglob("*.yaml")):
                copy = place / file.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


setup(cmdclass={"build_py": BuildWithData})
