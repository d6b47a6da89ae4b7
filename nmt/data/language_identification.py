"""Which of two languages a line is in, and whether that is beyond doubt.

A model file holds, for `torch.load(weights_only=True)`:

    format_version    int, raised when the meaning of a key or of an n-gram changes
    languages         the two language codes
    hyper_parameters  the arguments of `nmt.models.language_classifier.LanguageClassifier`
    state_dict        its weights
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.checkpoint import (
    FileKind,
    check_keys,
    check_types,
    check_version,
    load_weights,
    read_weights_file,
)
from nmt.data.hashed_words import pack, words_of
from nmt.models.language_classifier import LanguageClassifier
from nmt.translator import batches_by_length

FORMAT_VERSION = 1
CERTAIN = 0.999  # probability of the wrong language
LEAST_WORDS = 5  # different ones of letters: fewer are names, code and quoted titles too often

# Letters, an apostrophe within, punctuation around; but "--all", "/etc" and "$x" are code.
_PLAIN = re.compile(r"[^\w\-/$%.~]*([^\W\d_]+(?:['’][^\W\d_]+)?)\W*")
_ENTRIES = ("format_version", "languages", "hyper_parameters", "state_dict")
_KIND = FileKind("language identifier", ".pt", "scripts/language_id.py")
_CELLS = 8192  # lines x longest line of a batch, one word more


@dataclass(frozen=True)
class Judgement:
    """What a model says of one line.

    Attributes:
        language: The likelier of the two; the first one for a line without words.
        probability: Of that language, from 0.5.
        words: Of the line.
        weights: How much the model looked at each; they sum to 1.
    """

    language: str
    probability: float
    words: tuple[str, ...]
    weights: tuple[float, ...]

    @property
    def evidence(self) -> int:
        """How many different words are words: of letters, not options, file names or numbers."""
        plain = filter(None, map(_PLAIN.fullmatch, self.words))
        return len({word[1].lower() for word in plain})

    @property
    def without_most_looked_at(self) -> str:
        """The line without the word looked at most, wherever that occurs."""
        most = self.words[max(range(len(self.words)), key=self.weights.__getitem__)]
        return " ".join(word for word in self.words if word != most)


class LanguageIdentifier:
    """A trained classifier of two languages.

    Attributes:
        languages: Their codes.
        model: Answers with the odds of the second one.
    """

    def __init__(self, languages: tuple[str, str], model: LanguageClassifier) -> None:
        self.languages = languages
        self.model = model.eval()

    @torch.inference_mode()
    def identify(self, texts: Sequence[str]) -> list[Judgement]:
        """Judges each line by itself: the answer does not depend on the others."""
        lines = [words_of(text) for text in texts]
        found = [Judgement(self.languages[0], 0.5, (), ())] * len(texts)
        for rows in batches_by_length([len(words) for words in lines], _CELLS):
            odds, weights = self.model(*pack([lines[row] for row in rows], self.model.num_buckets))
            for row, second, looked in zip(rows, odds.sigmoid().tolist(), weights, strict=True):
                words = tuple(lines[row])
                language = self.languages[second > 0.5]
                probability = max(second, 1 - second)
                seen = tuple(looked[: len(words)].tolist())
                found[row] = Judgement(language, probability, words, seen)
        return found

    def clearly_in(self, language: str, texts: Sequence[str]) -> list[bool]:
        """Says of each line whether it is in `language`, not in the other one, beyond doubt.

        That is: with probability `CERTAIN`, by at least `LEAST_WORDS` different words of letters,
        and still so without the one word that the model looked at most.
        """

        def certain(judgement: Judgement) -> bool:
            return judgement.language == language and judgement.probability >= CERTAIN

        judged = self.identify(texts)
        suspects = [
            row
            for row, judgement in enumerate(judged)
            if certain(judgement) and judgement.evidence >= LEAST_WORDS
        ]
        again = self.identify([judged[row].without_most_looked_at for row in suspects])
        clear = {row for row, judgement in zip(suspects, again, strict=True) if certain(judgement)}
        return [row in clear for row in range(len(texts))]

    def save(self, path: Path) -> None:
        """Writes the model file."""
        content = {
            "format_version": FORMAT_VERSION,
            "languages": list(self.languages),
            "hyper_parameters": self.model.hyper_parameters,
            "state_dict": self.model.state_dict(),
        }
        torch.save(content, path)

    def digest(self) -> str:
        """Returns a name for what this model answers."""
        weights = self.model.state_dict()
        meaning = (FORMAT_VERSION, CERTAIN, LEAST_WORDS, self.languages)
        digest = hashlib.sha256(repr(meaning).encode())
        for name in weights:
            digest.update(weights[name].numpy().tobytes())
        return digest.hexdigest()[:16]


def load_identifier(
    path: str | Path, *, languages: tuple[str, str] | None = None
) -> LanguageIdentifier:
    """Reads a model file that `scripts/language_id.py train` wrote.

    Args:
        path: Of the file.
        languages: The two it must tell apart, in any order; None takes any.

    Raises:
        ValueError: The file is missing, cut short, no such file, of another format, holds code or
            wrong keys; or it is of other languages.
    """
    path = Path(path)
    content = read_weights_file(path, _KIND)
    check_keys("entry", _ENTRIES, content, path, _KIND)
    check_version(content, FORMAT_VERSION, path, _KIND)
    kinds = {"languages": list, "hyper_parameters": dict, "state_dict": Mapping}
    check_types(kinds, content, path, _KIND)
    arguments = inspect.signature(LanguageClassifier).parameters
    check_keys("hyper-parameter", arguments, content["hyper_parameters"], path, _KIND)
    if len(content["languages"]) != 2:
        raise ValueError(
            f"language identifier {path} names {len(content['languages'])} languages, where two "
            "belong: use the file as it was saved."
        )
    first, second = content["languages"]
    if languages is not None and {first, second} != set(languages):
        raise ValueError(
            f"language identifier {path} tells {first} from {second}, not "
            f"{' from '.join(languages)}: train one for these with scripts/language_id.py."
        )
    model = LanguageClassifier(**content["hyper_parameters"])
    load_weights(model, content["state_dict"], path, _KIND)
    return LanguageIdentifier((first, second), model)


@dataclass(frozen=True)
class LanguageCheck:
    """Finds pairs with a side that is clearly in the language of the other side.

    Attributes:
        identifier: Of the two languages.
        source_lang: What the sources should be in.
        target_lang: What the targets should be in.
    """

    identifier: LanguageIdentifier
    source_lang: str
    target_lang: str

    def key(self) -> str:
        """Returns a name for what this check finds."""
        return f"{self.source_lang}-{self.target_lang}-{self.identifier.digest()}"

    def wrong(self, sources: Sequence[str], targets: Sequence[str]) -> list[bool]:
        """Says of each pair whether one of its sides, or both, are in the wrong language."""
        of_sources = self.identifier.clearly_in(self.target_lang, sources)
        of_targets = self.identifier.clearly_in(self.source_lang, targets)
        return [any(sides) for sides in zip(of_sources, of_targets, strict=True)]
