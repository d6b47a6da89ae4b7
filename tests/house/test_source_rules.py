"""Rules that hold for every source file."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "train.py"] + [
    path for place in ("nmt", "scripts", "tests") for path in sorted((ROOT / place).rglob("*.py"))
]
OPENERS = {"open", "read_text", "write_text", "NamedTemporaryFile"}
BINARY_UNLESS_ASKED = {"gzip", "bz2", "lzma", "tempfile", "NamedTemporaryFile"}
NOT_FILES = {"os", "tarfile", "webbrowser"}


def opened_without_encoding(source):
    """Yields the line numbers of calls that would decode with the locale's encoding."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
            continue
        is_method = isinstance(call.func, ast.Attribute)
        name = call.func.attr if is_method else call.func.id
        owner = getattr(call.func.value, "id", None) if is_method else None
        if name not in OPENERS or owner in NOT_FILES:
            continue
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        modes = [keywords["mode"]] if "mode" in keywords else call.args[:2]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant)]
        mode = next((x for x in texts if isinstance(x, str) and set(x) <= set("rwaxbt+")), "")
        text_by_default = not BINARY_UNLESS_ASKED & {owner, name}
        is_text = "b" not in mode and ("t" in mode or text_by_default)
        if name in {"read_text", "write_text"}:
            is_text = True
        elif any(isinstance(mode, ast.Name) for mode in modes[-1:] if len(call.args) > 1):
            continue  # a mode in a variable
        if is_text and not {"encoding", None} & set(keywords):
            yield call.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_text_files_are_opened_with_an_encoding(path):
    assert list(opened_without_encoding(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "call",
    [
        *("open(p)", "open(p, 'w')", "p.open()", "p.open(mode='a')", "p.read_text()"),
        *("p.write_text(s)", "gzip.open(p, 'rt')"),
        "tempfile.NamedTemporaryFile('wt')",
    ],
)
def test_the_rule_sees_a_missing_encoding(call):
    assert list(opened_without_encoding(call)) == [1]
    separator = "" if call.endswith("()") else ", "
    assert list(opened_without_encoding(f"{call[:-1]}{separator}encoding='utf-8')")) == []


@pytest.mark.parametrize("call", ["open(p, 'rb')", "p.open('wb')", "gzip.open(p)", "os.open(p, 1)"])
def test_the_rule_lets_binary_files_pass(call):
    assert list(opened_without_encoding(call)) == []
