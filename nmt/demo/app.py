"""A page to try models on: what they answer, its HTML, and the Gradio application around it.

Nothing is sent anywhere: usage statistics are switched off, and a Content-Security-Policy makes the
browser refuse to load anything that does not come from this server. Every text from outside is
escaped.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nmt.alignment import WordAttention
from nmt.checks import UserError, at_least, flag_main
from nmt.decoding.beam import BeamSearch
from nmt.translator import ScoredText, Translator

MAX_CHARACTERS = 500
MAX_LENGTH = 128  # target tokens
_MOST_BEAMS = 10
_POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:"


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Serves until it is interrupted; the program behind `scripts/demo.py`."""
    parser = argparse.ArgumentParser(description="Serves a page to try models on.")
    parser.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help="a .ckpt file each")
    parser.add_argument("--host", default="127.0.0.1", help="address to serve (%(default)s)")
    parser.add_argument("--port", type=int, default=7860, help="(%(default)s)")
    parser.add_argument("--device", default="auto", help="cpu, cuda, ... or auto (default)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (%(default)s)")
    options = parser.parse_args(argv)
    at_least("threads", options.threads)
    torch.set_num_threads(options.threads)
    address = _bound(options.host, options.port)
    app = make_app(load_models(options.checkpoints, device=options.device))
    import uvicorn  # comes with gradio

    print(f"Open http://{options.host}:{address.getsockname()[1]} (Ctrl+C ends it).", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[address])


@dataclass(frozen=True)
class Model:
    """A translator and what it is called."""

    name: str
    translator: Translator


@dataclass(frozen=True)
class Answer:
    """What one model says.

    Attributes:
        name: Of the model.
        languages: For example "en-de".
        alternatives: Its translations, best first; none where it refused.
        attention: Of the best translation; None where there is none to show.
        note: Why something is missing; blank when nothing is.
    """

    name: str
    languages: str
    alternatives: tuple[ScoredText, ...]
    attention: WordAttention | None
    note: str


def load_models(paths: Sequence[str], *, device: str = "cpu") -> list[Model]:
    """Loads checkpoints, each named after the last two folders of its run."""
    models = []
    for path in paths:
        translator = Translator.from_checkpoint(path, device=device)
        folders = [part for part in Path(path).resolve().parts[1:-1] if part != "checkpoints"]
        models.append(Model("/".join(folders[-2:]), translator))
    return models


def respond(models: Sequence[Model], text: str, beam_size: int) -> str:
    """Returns the HTML for what was typed."""
    text = text.strip()
    if not text:
        return message("Type a sentence first.")
    if len(text) > MAX_CHARACTERS:
        return message(
            f"The text has {len(text)} characters and this page takes {MAX_CHARACTERS}: "
            "shorten it, or use scripts/translate.py."
        )
    return page(answers(models, text, beam_size=int(beam_size)))


def answers(models: Sequence[Model], text: str, *, beam_size: int) -> list[Answer]:
    """Asks every model; one that cannot answer says why and the others still do."""
    search = BeamSearch(beam_size=beam_size, num_hypotheses=beam_size, max_length=MAX_LENGTH)
    return [_answer(model, text, search) for model in models]


def _answer(model: Model, text: str, search: BeamSearch) -> Answer:
    languages = f"{model.translator.source_lang}-{model.translator.target_lang}"
    try:
        (translation,) = model.translator.translate([text], search=search)
    except UserError as refusal:
        return Answer(model.name, languages, (), None, str(refusal))
    attention, note = None, ""
    try:
        attention = model.translator.attention(text, translation.text)
    except UserError as refusal:
        note = f"No attention is shown: {refusal}"
    return Answer(model.name, languages, translation.alternatives, attention, note)


# The page's framework has templates of its own, which must not see these in a text.
_TEMPLATE_CHARACTERS = {ord(c): f"&#{ord(c)};" for c in "{}$`\\"}

STYLE = """
.nmt-models { display: flex; flex-wrap: wrap; gap: 1rem; }
.nmt-model { flex: 1 1 20rem; border: 1px solid #8884; border-radius: .5rem; padding: .8rem 1rem; }
.nmt-model h3 { margin: 0 0 .5rem; font-size: 1rem; overflow-wrap: anywhere; }
.nmt-target { font-size: 1.15rem; line-height: 1.8; }
.nmt-source { line-height: 1.8; opacity: .85; }
.nmt-word { padding: .1rem .15rem; border-radius: .2rem; }
.nmt-target .nmt-word[data-weights] { cursor: pointer; border-bottom: 1px dotted currentColor; }
.nmt-target .nmt-word[data-weights]:hover,
.nmt-target .nmt-word[data-weights]:focus { outline: 2px solid #0072B2; }
.nmt-beams { width: 100%; font-size: .9rem; border-collapse: collapse; }
.nmt-beams td, .nmt-beams th { text-align: left; vertical-align: top; }
.nmt-beams td, .nmt-beams th { padding: .15rem .6rem .15rem 0; }
.nmt-beams td:first-child { font-variant-numeric: tabular-nums; }
.nmt-note, .nmt-message { font-style: italic; }
"""

SCRIPT = """
(() => {
  const show = (word, on) => {
    const sources = word.closest(".nmt-model").querySelectorAll(".nmt-source .nmt-word");
    const weights = JSON.parse(word.dataset.weights);
    sources.forEach((source, i) => {
      source.style.backgroundColor = on ? `rgba(230, 159, 0, ${weights[i]})` : "";
      source.title = on ? `${Math.round(100 * weights[i])} %` : "";
    });
  };
  const listen = (name, on) => document.addEventListener(name, (event) => {
    const word = event.target.closest?.(".nmt-target .nmt-word[data-weights]");
    if (word) show(word, on);
  });
  listen("mouseover", true);
  listen("mouseout", false);
  listen("focusin", true);
  listen("focusout", false);
})();
"""


def escaped(text: str) -> str:
    """Returns a text as HTML that shows it and does nothing else."""
    return html.escape(text).translate(_TEMPLATE_CHARACTERS)


def message(text: str) -> str:
    """Returns a message in place of answers."""
    return f'<p class="nmt-message" role="alert">{escaped(text)}</p>'


def page(found: Sequence[Answer]) -> str:
    """Returns all answers side by side."""
    return f'<div class="nmt-models">{"".join(map(_section, found))}</div>'


def _section(answer: Answer) -> str:
    parts = [f"<h3>{escaped(answer.name)}, {escaped(answer.languages)}</h3>"]
    if answer.attention is not None:
        parts += _attention(answer.attention)
    elif answer.alternatives:
        parts.append(f'<p class="nmt-target">{escaped(answer.alternatives[0].text)}</p>')
    if answer.note:
        parts.append(f'<p class="nmt-note">{escaped(answer.note)}</p>')
    if answer.alternatives:
        parts.append(_beams(answer))
    return f'<section class="nmt-model">{"".join(parts)}</section>'


def _attention(shown: WordAttention) -> list[str]:
    target = " ".join(
        f'<span class="nmt-word" tabindex="0" data-weights="'
        f'{json.dumps([round(float(weight), 3) for weight in row])}">{escaped(word)}</span>'
        for word, row in zip(shown.target_words, shown.weights.mean(0), strict=True)
    )
    source = " ".join(
        f'<span class="nmt-word">{escaped(word)}</span>' for word in shown.source_words
    )
    return [f'<p class="nmt-target">{target}</p>', f'<p class="nmt-source">{source}</p>']


def _beams(answer: Answer) -> str:
    rows = "".join(
        f"<tr><td>{beam.score:.3f}</td><td>{escaped(beam.text)}"
        f"{'' if beam.finished else ' (cut at the length limit)'}</td></tr>"
        for beam in answer.alternatives
    )
    head = "<tr><th>log p / length</th><th>beam</th></tr>"
    return f'<table class="nmt-beams">{head}{rows}</table>'


def make_app(models: Sequence[Model]) -> Any:
    """Returns an ASGI application with the page at "/"."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        import gradio
        from fastapi import FastAPI, Request, Response
    except ImportError as error:
        raise UserError(
            f"Gradio cannot be imported ({error}): install it with pip install 'nmt[demo]'."
        ) from error
    app = FastAPI()

    @app.middleware("http")
    async def own_content_only(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = _POLICY
        return response

    return gradio.mount_gradio_app(
        app,
        _blocks(gradio, models),
        path="/",
        footer_links=[],
        ssr_mode=False,
        enable_monitoring=False,
        css=STYLE,
        head=f"<script>{SCRIPT}</script>",
    )


def _blocks(gradio: Any, models: Sequence[Model]) -> Any:
    with gradio.Blocks(title="nmt", analytics_enabled=False) as blocks:
        gradio.Markdown(
            "# nmt\nType a sentence; point at a word of a translation to see which source words "
            "the model looked at when it wrote it."
        )
        text = gradio.Textbox(
            label=f"Source sentence (at most {MAX_CHARACTERS} characters)",
            lines=2,
            elem_id="nmt-text",
        )
        beam_size = gradio.Slider(1, _MOST_BEAMS, value=4, step=1, label="Beam size")
        button = gradio.Button("Translate", variant="primary", elem_id="nmt-translate")
        output = gradio.HTML()
        gradio.on(
            [button.click, text.submit],
            lambda typed, beams: respond(models, typed, beams),
            inputs=[text, beam_size],
            outputs=output,
            api_name=False,
        )
    return blocks


def _bound(host: str, port: int) -> socket.socket:
    """Takes the address, before models are loaded; nobody is answered yet."""
    address = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        address.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        address.bind((host, port))
    except (OSError, OverflowError) as error:
        address.close()
        raise UserError(
            f"{host} port {port} cannot be served ({error}): choose another --host or --port."
        ) from error
    return address
