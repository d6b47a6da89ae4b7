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

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from nmt import EOS
from nmt.checkpoint import build
from nmt.checks import UserError, between
from nmt.data.batch import collate_source
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.search import Hypothesis, Search
from nmt.export.conversion import DESCRIPTION, FORMAT_VERSION, TOKENIZER, import_ctranslate2
from nmt.tokenizer import Tokenizer
from nmt.translator import Sentence, SentenceTranslator

_PATIENCE = 2.0  # with 1, CTranslate2's default, BLEU was 0.3 to 0.4 lower; 4 was like 2


class ExportedTranslator(SentenceTranslator):
    """An exported model, its tokenizer and a search; it has no prefixes and no alignment."""

    def __init__(self, engine: Any, description: dict[str, Any], tokenizer: Tokenizer) -> None:
        """Takes the `ctranslate2.Translator` of a folder and what its `DESCRIPTION` says."""
        super().__init__(
            tokenizer,
            build(description["decoding"], allowed=("nmt.decoding.",)),
            source_lang=description["source_lang"],
            target_lang=description["target_lang"],
        )
        self._engine = engine
        self._max_positions: int | None = description["max_positions"]  # EOS counted
        self._pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        self._ids = {piece: token for token, piece in enumerate(self._pieces)}
        self._eos = self._pieces[EOS]
        self._never = [[self._pieces[token]] for token in tokenizer.forbidden_ids]

    @classmethod
    def from_folder(cls, folder: str | Path, *, device: str = "cpu", threads: int = 0) -> Self:
        """Loads what `scripts/export_ctranslate2.py` wrote.

        Args:
            folder: An exported model.
            device: `cpu`, `cuda`, `cuda:1`, ..., or `auto`: a GPU if there is one.
            threads: CPU threads; 0 leaves the choice to CTranslate2.

        Raises:
            UserError: No exported model, no such device, or CTranslate2 is not installed.
        """
        ctranslate2 = import_ctranslate2()
        kind, _, index = device.partition(":")
        try:
            description = json.loads(Path(folder, DESCRIPTION).read_text(encoding="utf-8"))
            between("format_version", description["format_version"], 1, FORMAT_VERSION)
            lowercase = description.get("lowercase", False)
            tokenizer = Tokenizer(Path(folder, TOKENIZER).read_bytes(), lowercase=lowercase)
            engine = ctranslate2.Translator(
                str(folder), device=kind, device_index=int(index or 0), intra_threads=threads
            )
            return cls(engine, description, tokenizer)
        except (OSError, LookupError, TypeError, ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"{folder} is no exported model that device {device!r} can load ({reason}): write "
                "one with scripts/export_ctranslate2.py CHECKPOINT DIR, or try device cpu."
            ) from error

    def _hypotheses(self, batch: Sequence[Sentence], search: Search) -> list[list[Hypothesis]]:
        beam = _as_beam(search)
        limits = self._limits(batch, beam)
        sources = [[self._pieces[token] for token in sentence.ids] for sentence in batch]
        found = []
        results = self._ask(sources, max(limits), beam, return_scores=True)
        for source, limit, result in zip(sources, limits, results, strict=True):
            own = [
                self._hypothesis(pieces, score * len(pieces) ** beam.length_penalty, beam)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            # where EOS is forbidden at first, probabilities shift as well
            if beam.min_length or not all(self._is_fine(one, limit) for one in own):
                own = self._suppressed(source, limit, beam)
            found.append(own)
        return found

    def _limits(self, batch: Sequence[Sentence], search: BeamSearch) -> list[int]:
        """Returns the most tokens of each translation, EOS not counted."""
        limits = search.limits(*collate_source([sentence.ids for sentence in batch]))
        most = self._max_positions
        if most is None:
            return limits.tolist()
        for sentence in batch:
            if len(sentence.ids) >= most:
                raise UserError(
                    f"line {sentence.line} has {len(sentence.ids) + 1} source tokens, but the "
                    f"exported model has {most} positions: set max_source_length to {most - 1} "
                    "or less."
                )
        return limits.clamp(max=most - 1).tolist()

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

    def _is_fine(self, hypothesis: Hypothesis, limit: int) -> bool:
        tokens = hypothesis.tokens
        allowed = set(tokens).isdisjoint(self.tokenizer.forbidden_ids)
        return hypothesis.finished and len(tokens) <= limit and allowed

    def _suppressed(self, source: list[str], limit: int, search: BeamSearch) -> list[Hypothesis]:
        """Searches again without forbidden pieces, and scores by teacher forcing.

        Hypotheses that the limit ended come last.
        """
        (result,) = self._ask([source], limit, search, suppress_sequences=self._never)
        cut = [own if own[-1] == self._eos else own[:limit] for own in result.hypotheses]
        targets = [[piece for piece in own if piece != self._eos] for own in cut]
        scored = self._engine.score_batch([source] * len(cut), targets, max_input_length=0)
        answers = [  # a score has EOS in the end, even where it was not written
            self._hypothesis(own, sum(score.log_probs[: len(own)]), search)
            for own, score in zip(cut, scored, strict=True)
        ]
        return sorted(answers, key=lambda one: (not one.finished, -one.score))


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
