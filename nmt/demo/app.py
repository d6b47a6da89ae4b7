"""The web application around the page: Gradio, without telemetry and without the internet.

Nothing is sent anywhere: the usage statistics are switched off, and a Content-Security-Policy makes
the browser refuse to load anything that does not come from this server.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nmt.demo.answers import MAX_CHARACTERS, Model, answers, check_text
from nmt.demo.page import SCRIPT, STYLE, message, page

_POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:"
_MOST_BEAMS = 10


def respond(models: Sequence[Model], text: str, beam_size: int) -> str:
    """Returns the HTML for what was typed."""
    try:
        text = check_text(text)
    except ValueError as refusal:
        return message(str(refusal))
    return page(answers(models, text, beam_size=int(beam_size)))


def make_app(models: Sequence[Model]) -> Any:
    """Returns an ASGI application with the page at "/".

    Raises:
        ValueError: Gradio is not installed.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        import gradio
        from fastapi import FastAPI, Request, Response
    except ImportError as error:
        raise ValueError(
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
