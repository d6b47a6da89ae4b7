"""The HTML of answers; every text that comes from outside is escaped."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from nmt.demo.answers import Answer, Shown

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


def _attention(shown: Shown) -> list[str]:
    target = " ".join(
        f'<span class="nmt-word" tabindex="0" data-weights="'
        f'{json.dumps([round(float(weight), 3) for weight in row])}">{escaped(word)}</span>'
        for word, row in zip(shown.target_words, shown.weights, strict=True)
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
