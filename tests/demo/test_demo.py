"""The demo: what is answered, that it is escaped, and the page in a real browser."""

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import chromium
import numpy as np
import pytest
from checkpoints import write_checkpoint
from models_for_tests import tiny_model

from nmt.data.preparation import train_tokenizer
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.demo.app import MAX_CHARACTERS, MAX_LENGTH, escaped, load_models, main, make_app, respond
from nmt.tokenizer import Tokenizer
from nmt.translator import Translator

NAMES = ["rnn", "bahdanau", "transformer"]
SCRIPT = Path(__file__).parents[2] / "scripts" / "demo.py"
EVIL = """<img src=x onerror="window.hacked=1"> ${window.hacked=1} {{hacked}} `ä`"""


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(train_tokenizer(["the old man", "der alte Mann", "ein Hund"], vocab_size=300))


@pytest.fixture
def models(tokenizer):
    """All three, untrained: they babble."""
    return [(f"<{name}>", translator_of(name, tokenizer)) for name in NAMES]


def translator_of(name, tokenizer, **changes):
    model = tiny_model(name, vocab_size=tokenizer.vocab_size, **changes)
    return Translator(model, tokenizer, GreedySearch(), source_lang="en", target_lang="de")


def test_every_model_answers_with_its_beams_and_its_attention_if_it_has_one(models):
    text = "the old man"
    answers = respond(models, text, 3).split("<section")[1:]
    for (name, translator), shown in zip(models, answers, strict=True):
        assert f"<h3>{escaped(name)}, en-de</h3>" in shown
        scores = list(map(float, re.findall(r"<td>(-[\d.]+)</td>", shown)))
        assert 1 <= len(scores) <= 3
        assert scores == sorted(scores, reverse=True)
        rows = [json.loads(row) for row in re.findall(r'data-weights="([^"]*)"', shown)]
        if name == "<rnn>":
            assert "no attention to show" in shown
            assert rows == []
        else:
            search = BeamSearch(beam_size=3, max_length=MAX_LENGTH)
            (best,) = translator.translate([text], search=search)
            attention = translator.attention(text, best.text)
            np.testing.assert_allclose(rows, attention.weights.mean(0), atol=1e-3)


def test_a_model_that_cannot_answer_says_why_and_the_others_still_do(models, tokenizer):
    models[0] = "", translator_of("transformer", tokenizer, positions="learned", max_positions=2)
    short, *others = respond(models, "the old man", 1).split("<section")[1:]
    assert "max_positions is 2" in short
    assert "<table" not in short
    assert all("<table" in shown for shown in others)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" \n", "Type a sentence first"),
        ("a" * (MAX_CHARACTERS + 1), f"has {MAX_CHARACTERS + 1} characters"),
    ],
)
def test_what_cannot_be_translated_gives_a_message_and_no_model_is_asked(text, reason):
    assert reason in respond([None], text, 4)


def test_texts_are_escaped_for_html_and_for_the_templates_of_the_page(models):
    assert escaped("<b>&\"'${x}{{y}}") == (
        "&lt;b&gt;&amp;&quot;&#x27;&#36;&#123;x&#125;&#123;&#123;y&#125;&#125;"
    )
    shown = respond(models, EVIL, 2)
    assert "&lt;img" in shown
    assert not re.search(r"<img|\$|\{|`|<rnn>", shown)


def test_models_are_named_after_their_run(tmp_path, tokenizer):
    path = tmp_path / "multi30k-transformer" / "run1" / "checkpoints" / "best.ckpt"
    path.parent.mkdir(parents=True)
    ((name, _),) = load_models([str(write_checkpoint(path, tokenizer.model))])
    assert name == "multi30k-transformer/run1"
    with pytest.raises(ValueError, match="does not exist"):
        load_models([str(tmp_path / "best.ckpt")])


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(ValueError, match=r"pip install 'nmt\[demo\]'"):
        make_app([])


@pytest.mark.parametrize(
    "options", [["--port", "99999"], ["--host", "192.0.2.1"], ["--threads", "0"]]
)
def test_what_cannot_be_had_is_an_error_in_one_sentence(options, capsys):
    assert main(["no.ckpt", *options]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert options[1] in line


needs_gradio = pytest.mark.skipif(
    importlib.util.find_spec("gradio") is None, reason="needs pip install 'nmt[demo]'"
)
needs_chromium = pytest.mark.skipif(chromium.PROGRAM is None, reason="needs Chromium")


@pytest.fixture
def address(tokenizer, tmp_path):
    """Serves three models as a user would, on a free port, until the test is over."""
    paths = [
        str(write_checkpoint(tmp_path / f"{name}.ckpt", tokenizer.model, name)) for name in NAMES
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, str(SCRIPT), *paths, "--port", str(port), "--device", "cpu"],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[1]), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )
    with contextlib.closing(socket.socket()) as client:
        while client.connect_ex(("127.0.0.1", port)) != 0:
            assert server.poll() is None
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/"
    server.terminate()
    server.wait(60)


@pytest.fixture
def tab(tmp_path):
    opened = chromium.Page(tmp_path / "profile")
    yield opened
    opened.close()


@needs_gradio
@needs_chromium
def test_the_page_in_a_browser(address, tab):
    """Typing, translating, pointing, too long a text, hostile text; no other server is asked."""
    tab.call("Page.navigate", url=address)
    tab.wait_for("!!document.querySelector('#nmt-translate')")

    def translate(text):
        tab.value("document.querySelector('#nmt-text textarea').select()")
        tab.call("Input.insertText", text=text)
        tab.value("document.querySelector('#nmt-translate').click()")

    translate("the old man")
    tab.wait_for("document.querySelectorAll('.nmt-model').length == 3")
    assert tab.value("document.querySelectorAll('.nmt-target .nmt-word').length") > 1
    word = ".nmt-target .nmt-word[data-weights]"
    tab.point_at(word)
    weights = tab.value(f"JSON.parse(document.querySelector('{word}').dataset.weights)")
    colours = tab.wait_for(
        f"""(c => c.every(x => x) && c)([...document.querySelector('{word}')
        .closest('.nmt-model').querySelectorAll('.nmt-source .nmt-word')]
        .map(s => s.style.backgroundColor))"""
    )
    alphas = [float(colour.rstrip(")").split(",")[3]) for colour in colours]
    np.testing.assert_allclose(alphas, weights, atol=0.01)

    translate("a" * (MAX_CHARACTERS + 1))
    tab.wait_for("document.querySelector('.nmt-message')?.innerText.includes('shorten it')")
    assert tab.value("document.querySelectorAll('.nmt-model').length") == 0

    translate(EVIL)
    tab.wait_for("document.querySelectorAll('.nmt-model').length == 3")
    source = "[...document.querySelectorAll('.nmt-source')].map(s => s.innerText)"
    assert set(tab.value(source)) == {EVIL}
    assert not tab.value("'hacked' in window || !!document.querySelector('.nmt-model img')")
    others = [u for u in tab.requests if not u.startswith((address, "data:", "blob:", "about:"))]
    assert others == []
