"""The search of CTranslate2, asked for what a search of this package is asked for.

Greedy search finds the same hypotheses. Beam search may not: CTranslate2 fills the places of
finished hypotheses and stops after `patience x beam_size` of them (Kasai et al. 2022), ours goes on
while something better is possible.

CTranslate2 divides the probability of pieces that it must not emit among the others, and a score
that counts as one of `nmt.decoding.hypothesis` must not. So it is first left free. Only what then
holds a forbidden piece, or passed its limit, is searched again with those pieces suppressed, and
scored by teacher forcing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Self

from nmt.decoding.hypothesis import Hypothesis, Search
from nmt.special_tokens import EOS
from nmt.tokenizer import Tokenizer

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
            ValueError: The search has an option that the engine lacks.
        """
        options: dict[str, Any] = asdict(search)  # type: ignore[call-overload]
        if lacking := sorted(options.keys() - cls.__dataclass_fields__.keys()):
            raise ValueError(
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
