"""Translates text with an exported model in CTranslate2, called like `nmt.translator.Translator`.

translator = ExportedTranslator.from_folder("exported", threads=1)
for translation in translator.translate(["A man is running.", "It is raining."]):
    print(translation.text, translation.score)

The search of CTranslate2, asked for what a search of this package is asked for.

Greedy search finds the same hypotheses. Beam search may not: CTranslate2 fills the places of
finished hypotheses and stops after `patience x beam_size` of them (Kasai et al. 2022), ours goes on
while something better is possible.

CTranslate2 divides the probability of pieces that it must not emit among the others, and a score
that counts as one of `nmt.decoding.search` must not. So it is first left free. Only what then
holds a forbidden piece, or passed its limit, is searched again with those pieces suppressed, and
scored by teacher forcing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from nmt.checks import UserError
from nmt.data.batch import collate_source
from nmt.decoding.search import Hypothesis, Search, length_limits
from nmt.export.conversion import import_ctranslate2
from nmt.export.folder import ExportedModel, read_folder
from nmt.special_tokens import EOS
from nmt.tokenizer import Tokenizer
from nmt.translator import (
    ScoredText,
    Sentence,
    StreamOptions,
    Translation,
    scored_text,
    translate_stream,
)

_PATIENCE = 2.0  # with 1, CTranslate2's default, BLEU was 0.3 to 0.4 lower; 4 was like 2


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The options of a search that the engine has; meanings as in `nmt.decoding.beam.BeamSearch`.

    The defaults are those of `GreedySearch`.
    """

    max_length: int
    max_length_ratio: float
    min_length: int
    beam_size: int = 1
    num_hypotheses: int = 1
    length_penalty: float = 1.0

    @classmethod
    def of(cls, search: Search) -> Self:
        """Takes over the options of a search.

        Raises:
            UserError: The search has an option that the engine lacks.
        """
        options: dict[str, Any] = asdict(search)  # type: ignore[call-overload]
        if lacking := sorted(options.keys() - cls.__dataclass_fields__.keys()):
            raise UserError(
                f"CTranslate2 has no {type(search).__name__} with {', '.join(lacking)}: search "
                "with --beam-size N (a BeamSearch), or translate with the checkpoint."
            )
        return cls(**options)


class EngineSearch:
    """Finds hypotheses for token ids with a `ctranslate2.Translator`.

    Args:
        engine: The loaded model.
        tokenizer: The model's.
    """

    def __init__(self, engine: Any, tokenizer: Tokenizer) -> None:
        self._engine = engine
        self._pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        self._ids = {piece: token for token, piece in enumerate(self._pieces)}
        self._eos = self._pieces[EOS]
        self._forbidden = frozenset(tokenizer.forbidden_ids)
        self._never = [[self._pieces[token]] for token in tokenizer.forbidden_ids]

    def __call__(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], options: EngineOptions
    ) -> list[list[Hypothesis]]:
        """Translates a batch.

        Args:
            sources: Ids without EOS, at least one each.
            limits: Most tokens of a hypothesis, EOS not counted, for each source; they replace
                the options' own.
            options: The others.

        Returns:
            For each source its hypotheses, best first; those that the limit ended come last.
        """
        pieces = [[self._pieces[token] for token in source] for source in sources]
        found = self._free(pieces, max(limits), options)
        rows = [
            i
            for i, (hypotheses, limit) in enumerate(zip(found, limits, strict=True))
            # where EOS is forbidden at first, probabilities shift as well
            if options.min_length or not all(self._is_fine(h, limit) for h in hypotheses)
        ]
        # The engine has one limit for all in a call.
        for limit, group in groupby(sorted(rows, key=limits.__getitem__), limits.__getitem__):
            same = list(group)
            again = self._suppressed([pieces[i] for i in same], limit, options)
            for i, hypotheses in zip(same, again, strict=True):
                found[i] = hypotheses
        return found

    def _is_fine(self, hypothesis: Hypothesis, limit: int) -> bool:
        tokens = hypothesis.tokens
        return hypothesis.finished and len(tokens) <= limit and self._forbidden.isdisjoint(tokens)

    def _free(
        self, sources: list[list[str]], limit: int, options: EngineOptions
    ) -> list[list[Hypothesis]]:
        """Lets the engine emit anything."""
        results = self._ask(sources, limit, options, return_scores=True)
        return [
            [
                self._hypothesis(pieces, score * len(pieces) ** options.length_penalty, options)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]

    def _suppressed(
        self, sources: list[list[str]], limit: int, options: EngineOptions
    ) -> list[list[Hypothesis]]:
        """Suppresses forbidden pieces; what the limit ended comes last."""
        # All of the beam: what the limit ended must not take the places of what ended itself.
        results = self._ask(
            sources,
            limit,
            replace(options, num_hypotheses=options.beam_size),
            suppress_sequences=self._never,
        )
        found: list[list[list[str]]] = []
        for result in results:
            ended = [pieces for pieces in result.hypotheses if self._ended(pieces)]
            cut = [tuple(p[:limit]) for p in result.hypotheses if not self._ended(p)]
            unique = [list(pieces) for pieces in dict.fromkeys(cut)]
            found.append((ended + unique)[: options.num_hypotheses])
        return self._scored(sources, found, options)

    def _ask(
        self, sources: list[list[str]], limit: int, options: EngineOptions, **more: Any
    ) -> Any:
        """Returns what the engine finds; the last piece is EOS, or it is number limit + 1."""
        return self._engine.translate_batch(
            sources,
            beam_size=options.beam_size,
            patience=_PATIENCE,
            num_hypotheses=options.num_hypotheses,
            length_penalty=options.length_penalty,
            max_input_length=0,  # else it cuts what is longer than 1024
            max_decoding_length=limit + 1,
            min_decoding_length=min(options.min_length, limit),
            return_end_token=True,  # else the length penalty does not count it
            **more,
        )

    def _scored(
        self, sources: list[list[str]], found: list[list[list[str]]], options: EngineOptions
    ) -> list[list[Hypothesis]]:
        """Scores by teacher forcing, where EOS counts only if it was written."""
        repeated = [source for source, own in zip(sources, found, strict=True) for _ in own]
        targets = [[p for p in pieces if p != self._eos] for own in found for pieces in own]
        scored = iter(self._engine.score_batch(repeated, targets, max_input_length=0))
        answers = [
            [self._hypothesis(p, sum(next(scored).log_probs[: len(p)]), options) for p in own]
            for own in found
        ]
        for answer in answers:
            answer.sort(key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
        return answers

    def _hypothesis(self, pieces: list[str], log_prob: float, options: EngineOptions) -> Hypothesis:
        return Hypothesis(
            tokens=tuple(self._ids[piece] for piece in pieces if piece != self._eos),
            score=log_prob / len(pieces) ** options.length_penalty,
            log_prob=log_prob,
            finished=self._ended(pieces),
        )

    def _ended(self, pieces: list[str]) -> bool:
        return pieces[-1] == self._eos


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
            UserError: No exported model, no such device, or CTranslate2 is not installed.
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
            raise UserError(
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
            UserError: An option is out of range or the engine lacks it, a text is longer than the
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
            raise UserError(
                f"line {sentence.line} has {length} source tokens, but the exported model has "
                f"{most} positions: set max_source_length to {most - 1} or less."
            )
