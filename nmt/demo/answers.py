"""What the models of a demo answer to one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.decoding.beam import BeamSearch
from nmt.translation import ScoredText
from nmt.translator import Translator

MAX_CHARACTERS = 500
MAX_LENGTH = 128  # target tokens


@dataclass(frozen=True)
class Shown:
    """The attention of the best translation.

    Attributes:
        source_words: S' words.
        target_words: T' words.
        weights: (T', S'), the mean over layers and heads.
    """

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    weights: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Answer:
    """What one model says.

    Attributes:
        name: Of the model.
        languages: For example "en-de".
        alternatives: Its translations, best first; none where it refused.
        attention: None where there is none to show.
        note: Why something is missing; blank when nothing is.
    """

    name: str
    languages: str
    alternatives: tuple[ScoredText, ...]
    attention: Shown | None
    note: str


@dataclass(frozen=True)
class Model:
    """A translator and what it is called."""

    name: str
    translator: Translator


def load_models(paths: Sequence[str], *, device: str = "cpu") -> list[Model]:
    """Loads checkpoints, each named after the last two folders of its run.

    Raises:
        ValueError: No checkpoint, or one that cannot be used.
    """
    if not paths:
        raise ValueError("There is no checkpoint: give one or more .ckpt files.")
    models = []
    for path in paths:
        translator = Translator.from_checkpoint(path, device=device)
        folders = [part for part in Path(path).resolve().parts[1:-1] if part != "checkpoints"]
        models.append(Model("/".join(folders[-2:]), translator))
    return models


def check_text(text: str) -> str:
    """Returns the text without surrounding space.

    Raises:
        ValueError: It is blank or too long; the message is for the user of the page.
    """
    text = text.strip()
    if not text:
        raise ValueError("Type a sentence first.")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"The text has {len(text)} characters and this page takes {MAX_CHARACTERS}: "
            "shorten it, or use scripts/translate.py."
        )
    return text


def answers(models: Sequence[Model], text: str, *, beam_size: int) -> list[Answer]:
    """Asks every model; one that cannot answer says why and the others still do."""
    search = BeamSearch(beam_size=beam_size, num_hypotheses=beam_size, max_length=MAX_LENGTH)
    return [_answer(model, text, search) for model in models]


def _answer(model: Model, text: str, search: BeamSearch) -> Answer:
    languages = f"{model.translator.source_lang}-{model.translator.target_lang}"
    try:
        (translation,) = model.translator.translate([text], search=search)
    except ValueError as refusal:
        return Answer(model.name, languages, (), None, str(refusal))
    attention, note = None, ""
    try:
        found = model.translator.attention(text, translation.text)
        attention = Shown(found.source_words, found.target_words, found.weights.mean(0))
    except ValueError as refusal:
        note = f"No attention is shown: {refusal}"
    return Answer(model.name, languages, translation.alternatives, attention, note)
