"""Translates text with an exported model in CTranslate2, called like `nmt.translator.Translator`.

translator = ExportedTranslator.from_folder("exported", threads=1)
for translation in translator.translate(["A man is running.", "It is raining."]):
    print(translation.text, translation.score)

Greedy search finds the same hypotheses as ours. Beam search may not: CTranslate2 stops after
`patience x beam_size` finished hypotheses (Kasai et al. 2022), ours when none can get better.

CTranslate2 divides the probability of pieces that it must not emit among the others, and a score
that counts as one of `nmt.decoding.search` must not. So the engine is first left free. Only what
then holds a forbidden piece, or passed its limit, is searched again without those pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from nmt.checks import UserError
from nmt.data.batch import collate_source
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.search import Hypothesis, Search
from nmt.export.conversion import import_ctranslate2
from nmt.export.folder import ExportedModel, read_folder
from nmt.special_tokens import EOS
from nmt.tokenizer import Tokenizer
from nmt.translator import (
    ScoredText,
    Sentence,
    Translation,
    scored_texts,
    translate_stream,
)

_PATIENCE = 2.0  # with 1, CTranslate2's default, BLEU was 0.3 to 0.4 lower; 4 was like 2


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
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], search: BeamSearch
    ) -> list[list[Hypothesis]]:
        """Translates a batch.

        Args:
            sources: Ids without EOS, at least one each.
            limits: Most tokens of a hypothesis, EOS not counted, for each source.
            search: What is asked for, but for its limit.

        Returns:
            For each source its hypotheses, best first; those that the limit ended come last.
        """
        pieces = [[self._pieces[token] for token in source] for source in sources]
        found = [
            [
                self._hypothesis(own, score * len(own) ** search.length_penalty, search)
                for own, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in self._ask(pieces, max(limits), search, return_scores=True)
        ]
        for row, limit in enumerate(limits):
            # where EOS is forbidden at first, probabilities shift as well
            if search.min_length or not all(self._is_fine(one, limit) for one in found[row]):
                found[row] = self._suppressed(pieces[row], limit, search)
        return found

    def _is_fine(self, hypothesis: Hypothesis, limit: int) -> bool:
        tokens = hypothesis.tokens
        return hypothesis.finished and len(tokens) <= limit and self._forbidden.isdisjoint(tokens)

    def _suppressed(self, source: list[str], limit: int, search: BeamSearch) -> list[Hypothesis]:
        """Searches again without forbidden pieces, and scores by teacher forcing."""
        (result,) = self._ask([source], limit, search, suppress_sequences=self._never)
        cut = [own if own[-1] == self._eos else own[:limit] for own in result.hypotheses]
        targets = [[piece for piece in own if piece != self._eos] for own in cut]
        scored = self._engine.score_batch([source] * len(cut), targets, max_input_length=0)
        answers = [  # a score has EOS in the end, even where it was not written
            self._hypothesis(own, sum(score.log_probs[: len(own)]), search)
            for own, score in zip(cut, scored, strict=True)
        ]
        return sorted(answers, key=lambda one: (not one.finished, -one.score))

    def _ask(self, sources: list[list[str]], limit: int, search: BeamSearch, **more: Any) -> Any:
        """Returns what the engine finds; the last piece is EOS, or it is number limit + 1."""
        return self._engine.translate_batch(
            sources,
            beam_size=search.beam_size,
            patience=search.patience or _PATIENCE,
            num_hypotheses=search.num_hypotheses,
            length_penalty=search.length_penalty,
            max_input_length=0,  # else it cuts what is longer than 1024
            max_decoding_length=limit + 1,
            min_decoding_length=min(search.min_length, limit),
            return_end_token=True,  # else the length penalty does not count it
            **more,
        )

    def _hypothesis(self, pieces: list[str], log_prob: float, search: BeamSearch) -> Hypothesis:
        return Hypothesis(
            tokens=tuple(self._ids[piece] for piece in pieces if piece != self._eos),
            score=log_prob / len(pieces) ** search.length_penalty,
            log_prob=log_prob,
            finished=pieces[-1] == self._eos,
        )


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
        of_engine = _as_beam(search or self.search)

        def translate(batch: Sequence[Sentence]) -> Iterator[tuple[ScoredText, ...]]:
            for hypotheses in self._translate_batch(batch, of_engine):
                yield scored_texts(hypotheses, self.tokenizer)

        return translate_stream(
            texts,
            self.tokenizer,
            translate,
            batch_tokens=batch_tokens,
            max_source_length=max_source_length,
            chunk_size=chunk_size,
            first_line=first_line,
        )

    def _translate_batch(
        self, batch: Sequence[Sentence], search: BeamSearch
    ) -> list[list[Hypothesis]]:
        most = self._max_positions
        for sentence in batch:
            if most is not None and len(sentence.ids) >= most:
                raise UserError(
                    f"line {sentence.line} has {len(sentence.ids) + 1} source tokens, but the "
                    f"exported model has {most} positions: set max_source_length to {most - 1} "
                    "or less."
                )
        sources = [sentence.ids for sentence in batch]
        limits = search.limits(*collate_source(sources))
        if most is not None:
            limits = limits.clamp(max=most - 1)
        return self._find(sources, limits.tolist(), search)


def _as_beam(search: Search) -> BeamSearch:
    """Greedy search is a beam of one."""
    if isinstance(search, GreedySearch):
        return BeamSearch(beam_size=1, **asdict(search))
    if not isinstance(search, BeamSearch):
        raise UserError(
            f"CTranslate2 has no {type(search).__name__} like ours: search with --beam-size N "
            "(a BeamSearch), or translate with the checkpoint."
        )
    return search
