"""Translates text with an exported model in CTranslate2, called like `nmt.translator.Translator`.

translator = ExportedTranslator.from_folder("exported", threads=1)
for translation in translator.translate(["A man is running.", "It is raining."]):
    print(translation.text, translation.score)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

from nmt.data.batch import collate_source
from nmt.decoding.hypothesis import Hypothesis, Search, check_at_least, length_limits
from nmt.export.conversion import import_ctranslate2
from nmt.export.folder import ExportedModel, read_folder
from nmt.export.search import EngineOptions, EngineSearch
from nmt.source_batches import batches_by_length, cut_source
from nmt.translation import BLANK, ScoredText, Translation


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
            ValueError: An option is out of range or the engine lacks it, or a text is longer than
                the model's positions.
        """
        check_at_least("batch_tokens", batch_tokens, 1)
        check_at_least("max_source_length", max_source_length, 1)
        check_at_least("chunk_size", chunk_size, 1)
        if isinstance(texts, str):
            raise ValueError("texts is one string; give a list of them, one a sentence.")
        options = EngineOptions.of(search or self.search)
        return self._stream(
            iter(texts), options, batch_tokens, max_source_length, chunk_size, first_line
        )

    def _stream(
        self,
        texts: Iterator[str],
        options: EngineOptions,
        batch_tokens: int,
        max_source_length: int,
        chunk_size: int,
        first_line: int,
    ) -> Iterator[Translation]:
        while chunk := list(islice(texts, chunk_size)):
            sources = self.tokenizer.encode_batch(chunk)
            for line, source in enumerate(sources, first_line):
                cut_source(source, line, max_source_length)
                self._check_length(source, line)
            alternatives: list[tuple[ScoredText, ...]] = [(BLANK,)] * len(chunk)
            for rows in batches_by_length([len(source) for source in sources], batch_tokens):
                found = self._translate_batch([sources[i] for i in rows], options)
                for i, hypotheses in zip(rows, found, strict=True):
                    alternatives[i] = tuple(map(self._scored_text, hypotheses))
            yield from map(Translation, chunk, alternatives)
            first_line += len(chunk)

    def _check_length(self, source: Sequence[int], line: int) -> None:
        most = self._max_positions
        if most is not None and len(source) + 1 > most:
            raise ValueError(
                f"line {line} has {len(source) + 1} source tokens, but the exported model has "
                f"{most} positions: set max_source_length to {most - 1} or less."
            )

    def _translate_batch(
        self, sources: Sequence[list[int]], options: EngineOptions
    ) -> list[list[Hypothesis]]:
        limits = length_limits(options, *collate_source(sources)).tolist()
        most = max(limits) if self._max_positions is None else self._max_positions - 1
        return self._find(sources, [min(limit, most) for limit in limits], options)

    def _scored_text(self, hypothesis: Hypothesis) -> ScoredText:
        return ScoredText(
            text=self.tokenizer.decode(hypothesis.tokens),
            tokens=hypothesis.tokens,
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            finished=hypothesis.finished,
        )
