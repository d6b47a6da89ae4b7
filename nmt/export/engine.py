"""Translates text with an exported model in CTranslate2, called like `nmt.translator.Translator`.

translator = ExportedTranslator.from_folder("exported", threads=1)
for translation in translator.translate(["A man is running.", "It is raining."]):
    print(translation.text, translation.score)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from nmt.data.batch import collate_source
from nmt.decoding.hypothesis import Hypothesis, Search, length_limits
from nmt.export.conversion import import_ctranslate2
from nmt.export.folder import ExportedModel, read_folder
from nmt.export.search import EngineOptions, EngineSearch
from nmt.sentence_stream import Sentence, StreamOptions, scored_text, translate_stream
from nmt.translation import ScoredText, Translation


class ExportedTranslator:
    """An exported model, its tokenizer and a search: text in, text out.

    Args:
        exported: What its folder says.
        engine: The `ctranslate2.Translator` of that folder.
    """

    def __init__(self, exported: ExportedModel, engine: Any) -> None:
        self.tokenizer = exported.tokenizer
        self.search = exported.search
        self.source_lang = exported.source_lang
        self.target_lang = exported.target_lang
        self._max_positions = exported.max_positions
        self._find = EngineSearch(engine, exported.tokenizer)

    @classmethod
    def from_folder(cls, folder: str | Path, *, device: str = "cpu", threads: int = 0) -> Self:
        """Loads what `scripts/export_ctranslate2.py` wrote.

        Args:
            folder: The folder.
            device: `cpu`, `cuda`, `cuda:1`, ..., or `auto`: a GPU if there is one.
            threads: CPU threads; 0 leaves the choice to CTranslate2.

        Raises:
            ValueError: No exported model, no such device, or CTranslate2 is not installed.
        """
        exported = read_folder(folder)
        ctranslate2 = import_ctranslate2()
        kind, _, index = device.partition(":")
        try:
            engine = ctranslate2.Translator(
                str(folder), device=kind, device_index=int(index or 0), intra_threads=threads
            )
        except (RuntimeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"CTranslate2 cannot load {folder} on device {device!r} ({reason}): "
                "try device cpu, or export the checkpoint again."
            ) from error
        return cls(exported, engine)

    def translate(
        self,
        texts: Iterable[str],
        *,
        search: Search | None = None,
        batch_tokens: int = 4096,
        max_source_length: int = 1024,
    ) -> list[Translation]:
        """Translates all texts; options as in `stream`."""
        return list(
            self.stream(
                texts,
                search=search,
                batch_tokens=batch_tokens,
                max_source_length=max_source_length,
            )
        )

    def stream(
        self,
        texts: Iterable[str],
        *,
        search: Search | None = None,
        batch_tokens: int = 4096,
        max_source_length: int = 1024,
        chunk_size: int = 2048,
        first_line: int = 1,
    ) -> Iterator[Translation]:
        """Translates texts as they come, in order; arguments as in `Translator.stream`.

        Raises:
            ValueError: An option is out of range or the engine lacks it, a text is longer than the
                model's positions, or the model's output is not a number.
        """
        options = StreamOptions(
            batch_tokens=batch_tokens,
            max_source_length=max_source_length,
            chunk_size=chunk_size,
            first_line=first_line,
        )
        of_search = EngineOptions.of(search or self.search)

        def translate(batch: Sequence[Sentence]) -> Iterator[tuple[ScoredText, ...]]:
            for hypotheses in self._translate_batch(batch, of_search):
                yield tuple(scored_text(one, self.tokenizer) for one in hypotheses)

        return translate_stream(texts, self.tokenizer, translate, options)

    def _translate_batch(
        self, batch: Sequence[Sentence], options: EngineOptions
    ) -> list[list[Hypothesis]]:
        for sentence in batch:
            self._check_length(sentence)
        sources = [sentence.ids for sentence in batch]
        limits = length_limits(options, *collate_source(sources)).tolist()
        most = max(limits) if self._max_positions is None else self._max_positions - 1
        return self._find(sources, [min(limit, most) for limit in limits], options)

    def _check_length(self, sentence: Sentence) -> None:
        most, length = self._max_positions, len(sentence.ids) + 1
        if most is not None and length > most:
            raise ValueError(
                f"line {sentence.line} has {length} source tokens, but the exported model has "
                f"{most} positions: set max_source_length to {most - 1} or less."
            )
