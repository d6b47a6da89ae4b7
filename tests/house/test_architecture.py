"""The arrows of the house: who may import whom."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "nmt").rglob("*.py"))

# Layers from the bottom up. A file may import its own layer and lower ones; two layers of one
# rank do not know each other.
RANKS = {
    "checks": 0,
    "grammar": 1,
    "models": 1,
    "tokenizer": 1,
    "decoding": 2,
    "data": 2,
    "evaluation": 2,
    "alignment": 3,
    "checkpoint": 3,
    "scoring": 3,
    "config": 4,
    "translator": 4,
    "training": 5,
    "export": 5,
    "study": 6,
    "demo": 6,
    "cli": 7,
}
LIGHTNING = {"pytorch_lightning", "lightning"}
TORCH_ONLY = LIGHTNING | {"hydra", "omegaconf", "datasets", "sentencepiece"}
FORBIDDEN = {
    "models": TORCH_ONLY,
    "decoding": TORCH_ONLY,
    "grammar": TORCH_ONLY | {"torch"},
    "evaluation": LIGHTNING | {"torch"},
    "checkpoint": LIGHTNING,
    "config": LIGHTNING,
    "alignment": LIGHTNING,
    "scoring": LIGHTNING,
    "export": LIGHTNING,
    "demo": LIGHTNING,
    "translator": LIGHTNING,
}
CATCH_ALL_NAMES = {"utils", "util", "helpers", "common", "builders", "misc"}


def layer_of(module: str) -> str:
    """Returns the second part of a dotted name: nmt.data.batch belongs to data."""
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> set[str]:
    """Returns the dotted names that a file imports, wherever in it, `from a import b` as a.b."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down_only(path):
    layer = layer_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for name in imports_of(path):
        top = name.split(".")[0]
        assert top not in {"scripts", "tests", "train"}, f"imports {name}"
        assert top not in FORBIDDEN.get(layer, set()), f"{layer}/ imports {name}"
        if top == "nmt" and layer_of(name) in RANKS and layer in RANKS and layer_of(name) != layer:
            assert RANKS[layer_of(name)] < RANKS[layer], f"{layer} imports {name}"


def test_every_part_of_the_package_has_its_place_in_the_layers():
    parts = {layer_of(".".join(p.relative_to(ROOT).with_suffix("").parts)) for p in FILES}
    assert parts - {"__init__"} <= RANKS.keys()


def test_no_file_is_a_catch_all():
    files = [*FILES, *(ROOT / "scripts").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    assert not [path for path in files if path.stem in CATCH_ALL_NAMES]
