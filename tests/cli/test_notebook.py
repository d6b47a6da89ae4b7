"""The documented way to train and translate from Python, as a notebook would run it."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def test_the_example_of_the_docs_trains_and_translates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    namespace = {}
    exec(compile(code, PAGE, "exec"), namespace)
    assert namespace["best"].is_file()
    (translation,) = namespace["translator"].translate(["The old man sees a dog."])
    assert translation.source == "The old man sees a dog."
