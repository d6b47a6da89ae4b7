"""The pages in docs/ say what is so: code runs, names exist, both languages agree."""

import ast
import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from nmt.config import config_directory

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("attention*.md"))
TEXTS = [*sorted(DOCS.glob("*.md")), *ROOT.glob("README*.md"), ROOT / "results" / "README.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
CODE_LINK = re.compile(r"\[`([\w.]+)`\]\(((?:\.\./)*(?:nmt|scripts)/[\w/]+\.py)\)")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def python_blocks(text):
    """Yields (line number, code, what it must print) of each python block.

    What a block must print is the block of text that follows it, with nothing but empty lines
    between them.
    """
    blocks = list(BLOCK.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] == "python":
            adjoins = following and not text[block.end() : following.start()].strip()
            printed = following[2] if adjoins and following[1] == "text" else ""
            yield text.count("\n", 0, block.start(2)) + 1, block[2], printed


def run_page(path, blocks):
    """Runs blocks in one namespace, each at its line of the page, and compares what they print."""
    namespace = {"__name__": "page"}
    for line, code, printed in blocks:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * (line - 1) + code, path, "exec"), namespace)
        assert output.getvalue() == printed, f"{path}:{line}"


def names_in(path):
    """Returns the functions, classes, methods and constants of a file."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{e.name}" for e in node.body if isinstance(e, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(path):
    text = path.read_text(encoding="utf-8")
    blocks = list(python_blocks(text))
    english = path.with_name(path.name.replace(".zh.md", ".md"))
    if english != path:  # the same code is not run twice
        assert [b[1:] for b in blocks] == [
            b[1:] for b in python_blocks(english.read_text(encoding="utf-8"))
        ]
    else:
        run_page(path, blocks)


def test_the_code_of_the_readme_that_needs_no_checkpoint_runs():
    path = ROOT / "README.md"
    blocks = list(python_blocks(path.read_text(encoding="utf-8")))
    run_page(path, [block for block in blocks if "from_checkpoint" not in block[1]])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_name_of_code_that_a_page_links_to_is_in_that_file(path):
    links = CODE_LINK.findall(path.read_text(encoding="utf-8"))
    assert len(links) > 20
    assert [
        link for link in links if link[0] not in names_in((path.parent / link[1]).resolve())
    ] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_formulas_are_what_github_shows_as_formulas(path):
    """GitHub would show `\\,` as a comma and `\\\\` as one backslash."""
    text = BLOCK.sub("", path.read_text(encoding="utf-8"))
    formulas = re.findall(r"\$\$.+?\$\$|\$[^$\n]+\$", text, flags=re.S)
    assert len(formulas) > 50
    inline = re.sub(r"\$\$.+?\$\$", "", text)
    beside = re.findall(r"(^|.)\$[^$\n]+\$(?=(.|$))", inline, flags=re.M)
    assert [pair for pair in beside if pair[0] not in " (|*" or re.match(r"\w", pair[1])] == []
    assert [formula for formula in formulas if re.search(r"\\[^A-Za-z ]|<", formula)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_section_with_an_equation_names_the_code_that_computes_it(path):
    sections = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.M)
    with_equations = [section for section in sections if "$$" in section]
    assert len(with_equations) > 5
    assert [s.splitlines()[0] for s in with_equations if not CODE_LINK.search(s)] == []


@pytest.mark.parametrize("path", TEXTS, ids=str)
def test_every_relative_link_leads_to_a_file(path):
    links = LINK.findall(BLOCK.sub("", path.read_text(encoding="utf-8")))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (path.parent / link).exists()] == []


def test_every_path_that_the_development_page_names_exists():
    text = BLOCK.sub("", (DOCS / "development.md").read_text(encoding="utf-8"))
    paths = re.findall(r"`((?:nmt|conf|scripts|tests)/[\w/.]+)`", text)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_readmes_fit_a_page():
    for path in ROOT.glob("README*.md"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 150
        assert max(map(len, lines)) <= 120


def train_commands(path):
    """Yields the options of each `python train.py` of a page, but for placeholders and sweeps."""
    for language, code in BLOCK.findall(path.read_text(encoding="utf-8")):
        lines = code.replace("\\\n", " ").splitlines() if language == "bash" else []
        for words in (shlex.split(line, comments=True) for line in lines):
            if "train.py" in words and "-m" not in words:
                yield [word for word in words[words.index("train.py") + 1 :] if "..." not in word]


@pytest.mark.parametrize("path", TEXTS, ids=str)
def test_every_training_command_has_options_that_exist(path):
    for options in train_commands(path):
        if "model=mine" not in options:
            with initialize_config_dir(str(config_directory()), version_base="1.3"):
                compose("train", overrides=options)
