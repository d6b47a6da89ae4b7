"""The text of the embedded grammar as data sets, generated once and then memory-mapped."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from datasets import Dataset

import nmt.data.grammar
from nmt.data.cache import cached, key_of
from nmt.data.grammar import GrammarPair, swapped
from nmt.data.grammar.lexicon import lexicon_path
from nmt.data.tables import Languages

logger = logging.getLogger(__name__)

_ROWS_PER_CHUNK = 10_000
_LINKS = pyarrow.list_(pyarrow.list_(pyarrow.int32()))
_SCHEMA = pyarrow.schema(
    {
        "source": pyarrow.string(),
        "target": pyarrow.string(),
        "sure": _LINKS,
        "possible": _LINKS,
        "bits": pyarrow.float64(),
        "num_sentences": pyarrow.int32(),
    }
)


def load_grammar(
    arguments: Mapping[str, Any], languages: Languages, *, cache_dir: Path
) -> dict[str, Dataset]:
    """Returns the splits, generating them where that has not happened yet.

    Columns: source, target, sure and possible (links [source word, target word], disjoint), bits,
    num_sentences.

    Args:
        arguments: Of `nmt.data.grammar.generate_splits`.
        languages: en-de, or de-en for the same pairs the other way round.
        cache_dir: Where the generated text is kept.

    Raises:
        ValueError: Languages that the grammar does not speak, or an impossible argument.
    """
    pair = (languages.source, languages.target)
    if sorted(pair) != ["de", "en"]:
        raise ValueError(
            f"The grammar speaks en-de and de-en, not {'-'.join(pair)}; set data.source_lang and "
            "data.target_lang to en and de."
        )
    _check_arguments(arguments)
    english_first = languages.source == "en"

    def make(folder: Path) -> None:
        logger.info("Generating the built-in corpus; this happens once.")
        splits = nmt.data.grammar.generate_splits(**arguments)
        for number, (name, pairs) in enumerate(splits.items()):
            _write(pairs, folder / f"{number}-{name}.arrow", english_first)

    key = key_of(dict(arguments), pair, _generator_digest())
    folder = cached(cache_dir, f"grammar-{key}", make)
    files = sorted(folder.glob("*.arrow"))
    return {file.stem.split("-", 1)[1]: Dataset.from_file(str(file)) for file in files}


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    known = list(inspect.signature(nmt.data.grammar.generate_splits).parameters)
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise ValueError(f"There is no option data.grammar.{name}; did you mean {near[0]}?")


def _generator_digest() -> str:
    """Digests program and lexicon, so that a change of either makes new text."""
    program = [Path(__file__), *Path(nmt.data.grammar.__file__).parent.glob("*.py")]
    lexicons = lexicon_path("core").parent.glob("*.yaml")
    digest = hashlib.sha256()
    for file in [*sorted(program), *sorted(lexicons)]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _write(pairs: Sequence[GrammarPair], path: Path, english_first: bool) -> None:
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, _SCHEMA) as writer:
        for start in range(0, len(pairs), _ROWS_PER_CHUNK):
            rows = list(pairs[start : start + _ROWS_PER_CHUNK])
            rows = rows if english_first else [swapped(pair) for pair in rows]
            columns = [
                pyarrow.array([getattr(pair, field.name) for pair in rows], type=field.type)
                for field in _SCHEMA  # the fields of a GrammarPair
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=_SCHEMA))
