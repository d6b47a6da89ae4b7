"""The demo: what is answered, that it is escaped, and the page in a real browser."""

import contextlib
import importlib.util
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
from nmt.decoding.greedy import GreedySearch
from nmt.demo.app import (
    MAX_CHARACTERS,
    Model,
    answers,
    escaped,
    load_models,
    main,
    make_app,
    page,
    respond,
)
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
    return [
        Model(
            f"<{name}>",
            Translator(
                tiny_model(name, vocab_size=tokenizer.vocab_size),
                tokenizer,
                GreedySearch(),
                source_lang="en",
                target_lang="de",
            ),
        )
        for name in NAMES
    ]


def test_every_model_answers_with_its_beams_and_its_attention_if_it_has_one(models):
    rnn, *attending = found = answers(models, "the old man", beam_size=3)
    assert [answer.name for answer in found] == ["<rnn>", "<bahdanau>", "<transformer>"]
    assert {answer.languages for answer in found} == {"en-de"}
    for answer in found:
        scores = [beam.score for beam in answer.alternatives]
        assert 1 <= len(scores) <= 3
        assert scores == sorted(scores, reverse=True)
    assert rnn.attention is None
    assert "no attention to show" in rnn.note
    for model, answer in zip(models[1:], attending, strict=True):
        text = answer.alternatives[0].text
        expected = model.translator.attention("the old man", text)
        assert answer.attention.source_words == ("the", "old", "man")
        assert answer.attention.target_words == tuple(text.split())
        np.testing.assert_allclose(answer.attention.weights, expected.weights, atol=1e-6)


def test_a_model_that_cannot_answer_says_why_and_the_others_still_do(models, tokenizer):
    short = tiny_model(
        "transformer", vocab_size=tokenizer.vocab_size, positions="learned", max_positions=2
    )
    models[0] = Model("short", Translator(short, tokenizer, GreedySearch()))
    found = answers(models, "the old man", beam_size=1)
    assert found[0].alternatives == ()
    assert "max_positions is 2" in found[0].note
    assert all(answer.alternatives for answer in found[1:])


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


def test_every_target_word_carries_a_weight_for_each_source_word(models):
    found = answers(models[1:], "the old man", beam_size=1)
    rows = re.findall(r'data-weights="\[([^]]*)\]"', page(found))
    assert len(rows) == sum(len(answer.attention.target_words) for answer in found)
    assert {row.count(",") for row in rows} == {2}


def test_models_are_named_after_their_run(tmp_path, tokenizer):
    path = tmp_path / "multi30k-transformer" / "run1" / "checkpoints" / "best.ckpt"
    path.parent.mkdir(parents=True)
    (model,) = load_models([str(write_checkpoint(path, tokenizer.model))])
    assert model.name == "multi30k-transformer/run1"
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
