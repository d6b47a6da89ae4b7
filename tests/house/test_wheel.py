"""The wheel alone, unpacked anywhere, is enough to train and to translate."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ["nmt", "conf", "data/grammar", "pyproject.toml", "README.md", "LICENSE"]
PROGRAMS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "scripts"
]


def run(command, **options):
    done = subprocess.run(
        command, capture_output=True, timeout=300, encoding="utf-8", errors="replace", **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy of the sources, so that nothing left over in the checkout gets in."""
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"], cwd=copy)
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with what the wheel installs and nothing else of this project."""
    place = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


@pytest.fixture
def call(installed, tmp_path):
    """Runs a program of the wheel from an empty folder."""

    def program(name, *arguments, stdin=None):
        module, function = PROGRAMS[name].split(":")
        code = (
            f"import sys, nmt, {module} as module\n"
            f"assert nmt.__file__.startswith({str(installed)!r}), nmt.__file__\n"
            f"sys.argv[0] = {name!r}\n"
            f"sys.exit(module.{function}())"
        )
        environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", code, *arguments]
        return run(command, cwd=tmp_path, env=environment, input=stdin)

    return program


def test_the_wheel_holds_package_configs_and_lexicon_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        *(str(path.relative_to(ROOT)) for path in (ROOT / "nmt").rglob("*.py")),
        *(str(path.relative_to(ROOT)) for path in (ROOT / "nmt").rglob("*.jinja")),
        *(f"nmt/_conf/{path.relative_to(ROOT / 'conf')}" for path in ROOT.glob("conf/**/*.yaml")),
        *(f"nmt/_data/grammar/{path.name}" for path in ROOT.glob("data/grammar/*.yaml")),
    }
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_explains_itself_from_an_empty_folder(call, name):
    assert len(call(name, "--help")) > 100


def test_the_wheel_trains_and_translates_from_an_empty_folder(call, tmp_path):
    for split, num_pairs in {"train": 31, "valid": 5, "test": 3}.items():
        for language, text in {"en": "the dog number {}", "de": "der Hund Nummer {}"}.items():
            lines = [f"{text.format(number)}\n" for number in range(num_pairs)]
            (tmp_path / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    files = [f"data.{split}=[{split}.en,{split}.de]" for split in ("train", "valid", "test")]
    languages = ["data=files", "data.source_lang=en", "data.target_lang=de"]
    call("nmt-train", *languages, *files, "data.tokenizer.vocab_size=300", "debug=fast")
    (checkpoint,) = tmp_path.glob("outputs/files-transformer/*/checkpoints/best.ckpt")
    text = "the dog number 3\n\nthe dog\n"
    translation = call("nmt-translate", str(checkpoint), "--max-length", "7", stdin=text)
    assert translation.count("\n") == 3


def test_the_wheel_reads_its_own_lexicon(installed, tmp_path):
    code = "from nmt.grammar.lexicon import lexicon_path; print(lexicon_path('core'))"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    found = run([sys.executable, "-c", code], cwd=tmp_path, env=environment).strip()
    assert Path(found) == installed / "nmt" / "_data" / "grammar" / "core.yaml"
