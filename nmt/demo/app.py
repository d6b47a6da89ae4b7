"""A page to try models on: what they answer, as HTML, and the Gradio application around it.

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
from pathlib import Path
from typing import Any

import torch

from nmt.alignment import WordAttention
from nmt.checks import UserError, at_least, between, flag_main
from nmt.decoding.beam import BeamSearch
from nmt.translator import Translator

Model = tuple[str, Translator]  # what it is called, and itself

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
    between("port", options.port, 0, 65535)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    address = socket.create_server((options.host, options.port), family=family)
    app = make_app(load_models(options.checkpoints, device=options.device))
    import uvicorn  # comes with gradio

    print(f"Open http://{options.host}:{address.getsockname()[1]} (Ctrl+C ends it).", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[address])


def load_models(paths: Sequence[str], *, device: str = "cpu") -> list[Model]:
    """Loads checkpoints, each named after the last two folders of its run."""
    models = []
    for path in paths:
        translator = Translator.from_checkpoint(path, device=device)
        folders = [part for part in Path(path).resolve().parts[1:-1] if part != "checkpoints"]
        models.append(("/".join(folders[-2:]), translator))
    return models


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


def respond(models: Sequence[Model], text: str, beam_size: int) -> str:
    """Returns the HTML for what was typed: the answers of all models side by side."""
    text = text.strip()
    problem = "" if text else "Type a sentence first."
    if len(text) > MAX_CHARACTERS:
        problem = (
            f"The text has {len(text)} characters and this page takes {MAX_CHARACTERS}: "
            "shorten it, or use scripts/translate.py."
        )
    if problem:
        return f'<p class="nmt-message" role="alert">{escaped(problem)}</p>'
    beams = int(beam_size)
    search = BeamSearch(beam_size=beams, num_hypotheses=beams, max_length=MAX_LENGTH)
    sections = [
        f'<section class="nmt-model"><h3>{escaped(name)}, {escaped(translator.source_lang)}-'
        f"{escaped(translator.target_lang)}</h3>{_answer(translator, text, search)}</section>"
        for name, translator in models
    ]
    return f'<div class="nmt-models">{"".join(sections)}</div>'


def _answer(translator: Translator, text: str, search: BeamSearch) -> str:
    """Returns the HTML of what a model says; one that cannot answer says why."""
    try:
        (translation,) = translator.translate([text], search=search)
    except UserError as refusal:
        return _paragraph(str(refusal), "note")
    try:
        best = _attention(translator.attention(text, translation.text))
    except UserError as refusal:
        best = _paragraph(translation.text, "target")
        best += _paragraph(f"No attention is shown: {refusal}", "note")
    rows = "".join(
        f"<tr><td>{beam.score:.3f}</td><td>{escaped(beam.text)}"
        f"{'' if beam.finished else ' (cut at the length limit)'}</td></tr>"
        for beam in translation.alternatives
    )
    head = "<tr><th>log p / length</th><th>beam</th></tr>"
    return f'{best}<table class="nmt-beams">{head}{rows}</table>'


def _attention(shown: WordAttention) -> str:
    target = " ".join(
        f'<span class="nmt-word" tabindex="0" data-weights="'
        f'{json.dumps([round(float(weight), 3) for weight in row])}">{escaped(word)}</span>'
        for word, row in zip(shown.target_words, shown.weights.mean(0), strict=True)
    )
    source = " ".join(
        f'<span class="nmt-word">{escaped(word)}</span>' for word in shown.source_words
    )
    return f'<p class="nmt-target">{target}</p><p class="nmt-source">{source}</p>'


def _paragraph(text: str, kind: str) -> str:
    return f'<p class="nmt-{kind}">{escaped(text)}</p>'


def escaped(text: str) -> str:
    """Returns a text as HTML that shows it and does nothing else."""
    return html.escape(text).translate(_TEMPLATE_CHARACTERS)


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
