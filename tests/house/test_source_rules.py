"""Text files are opened with an encoding, in every source file: never with the locale's."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "train.py"] + [
    path for place in ("nmt", "scripts", "tests") for path in sorted((ROOT / place).rglob("*.py"))
]
OPENERS = re.compile(r"(?:.*\.)?(open|read_text|write_text|NamedTemporaryFile)", re.DOTALL)
BINARY_UNLESS_ASKED = re.compile(r"(gzip|bz2|lzma)\.open|(tempfile\.)?NamedTemporaryFile")
NOT_FILES = ("os.", "tarfile.", "webbrowser.")


def opened_without_encoding(source):
    """Yields the line numbers of calls that would decode with the locale's encoding."""
    for call in ast.walk(ast.parse(source)):
        function = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        opener = OPENERS.fullmatch(function)
        keywords = {word.arg: word.value for word in call.keywords} if opener else {}
        if not opener or function.startswith(NOT_FILES) or {"encoding", None} & keywords.keys():
            continue
        modes = [keywords["mode"]] if "mode" in keywords else call.args[:2]
        literals = [getattr(mode, "value", None) for mode in modes]
        mode = next((m for m in literals if isinstance(m, str) and set(m) <= set("rwaxbt+")), "")
        in_a_variable = len(modes) == 2 and isinstance(modes[1], ast.Name)
        text_by_default = not BINARY_UNLESS_ASKED.fullmatch(function)
        is_text = "b" not in mode and ("t" in mode or text_by_default) and not in_a_variable
        if is_text or opener[1] in ("read_text", "write_text"):
            yield call.lineno


def test_text_files_are_opened_with_an_encoding():
    found = {
        str(path): lines
        for path in FILES
        if (lines := list(opened_without_encoding(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "call",
    [
        *("open(p)", "open(p, 'w')", "p.open()", "p.open(mode='a')", "p.read_text()"),
        *("p.write_text(s)", "gzip.open(p, 'rt')", "tempfile.NamedTemporaryFile('wt')"),
    ],
)
def test_the_rule_sees_a_missing_encoding(call):
    assert list(opened_without_encoding(call)) == [1]
    separator = "" if call.endswith("()") else ", "
    assert list(opened_without_encoding(f"{call[:-1]}{separator}encoding='utf-8')")) == []


@pytest.mark.parametrize("call", ["open(p, 'rb')", "p.open('wb')", "gzip.open(p)", "os.open(p, 1)"])
def test_the_rule_lets_binary_files_pass(call):
    assert list(opened_without_encoding(call)) == []
