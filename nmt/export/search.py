"""The search of CTranslate2, asked for what a search of this package is asked for.

What differs from this package's own search:

* Greedy search finds the same hypotheses. Beam search may not: CTranslate2 fills the places of
  finished hypotheses and stops after `beam_size` of them, ours goes on while something better is
  possible.
* The engine divides the probability of ids that are never emitted among the others while it
  searches. Scores are therefore computed afterwards, by teacher forcing: they are the model's, as
  `nmt.decoding.hypothesis` defines them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from nmt.decoding.hypothesis import Hypothesis, Search
from nmt.special_tokens import EOS
from nmt.tokenizer import Tokenizer


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
        for name in sorted(options.keys() - cls.__dataclass_fields__.keys()):
            raise ValueError(
                f"{name} is not available with CTranslate2: leave it out, or translate with the "
                "checkpoint instead of its export."
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
        self._never = [[self._pieces[token]] for token in tokenizer.forbidden_ids]

    def __call__(
        self, sources: Sequence[Sequence[int]], limit: int, options: EngineOptions
    ) -> list[list[Hypothesis]]:
        """Translates a batch.

        Args:
            sources: Ids without EOS, at least one each.
            limit: Most tokens of a hypothesis, EOS not counted, for all of them; replaces the
                options' own limits.
            options: The others.

        Returns:
            For each source its hypotheses, best first; those that the limit ended come last.
        """
        pieces = [[self._pieces[token] for token in source] for source in sources]
        found = self._ask(pieces, limit, options, options.num_hypotheses)
        # What reached the limit took the places of what ended before it: then look further.
        rows = [i for i, own in enumerate(found) if not all(map(self._ended, own))]
        again = self._ask([pieces[i] for i in rows], limit, options, options.beam_size)
        for i, own in zip(rows, again, strict=True):
            ended = [hypothesis for hypothesis in own if self._ended(hypothesis)]
            cut = [tuple(h[:limit]) for h in own if not self._ended(h)]
            unique = [list(hypothesis) for hypothesis in dict.fromkeys(cut)]
            found[i] = (ended + unique)[: options.num_hypotheses]
        return self._scored(pieces, found, options.length_penalty)

    def _ended(self, hypothesis: list[str]) -> bool:
        return hypothesis[-1] == self._eos

    def _ask(
        self, sources: list[list[str]], limit: int, options: EngineOptions, num_hypotheses: int
    ) -> list[list[list[str]]]:
        """Returns the pieces of hypotheses; the last is EOS, or it is number limit + 1."""
        if not sources:
            return []
        results = self._engine.translate_batch(
            sources,
            beam_size=options.beam_size,
            num_hypotheses=num_hypotheses,
            length_penalty=options.length_penalty,
            suppress_sequences=self._never,
            max_input_length=0,  # else it cuts what is longer than 1024
            max_decoding_length=limit + 1,
            min_decoding_length=options.min_length,
            return_end_token=True,  # else the length penalty does not count it
        )
        return [result.hypotheses for result in results]

    def _scored(
        self, sources: list[list[str]], found: list[list[list[str]]], length_penalty: float
    ) -> list[list[Hypothesis]]:
        repeated = [source for source, own in zip(sources, found, strict=True) for _ in own]
        targets = [[p for p in h if p != self._eos] for own in found for h in own]
        scored = iter(self._engine.score_batch(repeated, targets, max_input_length=0))
        answers = [
            [self._hypothesis(h, next(scored).log_probs, length_penalty) for h in own]
            for own in found
        ]
        for answer in answers:
            answer.sort(key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
        return answers

    def _hypothesis(
        self, pieces: list[str], log_probs: Sequence[float], length_penalty: float
    ) -> Hypothesis:
        """Scores pieces; `log_probs` has EOS last, which counts only where it was written."""
        log_prob = sum(log_probs[: len(pieces)])
        return Hypothesis(
            tokens=tuple(self._ids[piece] for piece in pieces if piece != self._eos),
            score=log_prob / len(pieces) ** length_penalty,
            log_prob=log_prob,
            finished=self._ended(pieces),
        )
