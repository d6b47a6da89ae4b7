"""What a search may not do for a batch: exceed limits, emit forbidden ids, leave a given prefix."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.hypothesis import LengthLimited, length_limits, never_emitted
from nmt.decoding.next_tokens import NextTokens
from nmt.special_tokens import BOS, EOS, PAD


class Constraints:
    """The rules of one call of a search; every search asks them before it chooses.

    Args:
        search: Its length limits.
        source: (B, S) int64.
        source_mask: (B, S) bool, or None.
        forbidden_ids: Ids never to emit unless a prefix has them.
        prefixes: For each sentence the tokens that its hypotheses begin with, of any lengths;
            None for no prefixes.

    Attributes:
        limits: (B,) int64, tokens that each sentence may have, EOS aside: what `length_limits`
            says, but as many as its prefix has.

    Raises:
        ValueError: A prefix holds a special id, there is not one for each sentence, or EOS is
            forbidden.
    """

    def __init__(
        self,
        search: LengthLimited,
        source: Tensor,
        source_mask: Tensor | None,
        *,
        forbidden_ids: Sequence[int],
        prefixes: Sequence[Sequence[int]] | None,
    ) -> None:
        device = source.device
        self._never = never_emitted(forbidden_ids, and_eos=False, device=device)
        self._not_yet = never_emitted(forbidden_ids, and_eos=True, device=device)
        self._min_length = search.min_length
        self._forced = _table(prefixes or [()] * len(source), len(source), device)
        self.limits = torch.maximum(
            length_limits(search, source, source_mask), (self._forced != PAD).sum(-1)
        )

    def next_tokens(self, logits: Tensor, sentences: Tensor, length: int) -> NextTokens:
        """Returns what may follow hypotheses of `length` tokens.

        Args:
            logits: (N, T, V) of any float type; the last of the T is used.
            sentences: (B',) int64, to which the rows belong in turn; N / B' rows each.
            length: Tokens that the hypotheses have.

        Raises:
            ValueError: No token is left to choose.
        """
        forbidden = self._not_yet if length < self._min_length else self._never
        vocab_size = logits.shape[-1]
        if len(forbidden) >= vocab_size:
            raise ValueError(
                f"All {vocab_size} ids of the vocabulary are forbidden at a step: "
                "allow at least one besides EOS."
            )
        forced = None
        if length < self._forced.shape[1]:
            forced = self._forced[sentences, length]
            forced = forced.repeat_interleave(len(logits) // max(1, len(sentences)))
        return NextTokens(logits[:, -1].float(), forbidden, forced)


def _table(prefixes: Sequence[Sequence[int]], num_sentences: int, device: torch.device) -> Tensor:
    """Returns the tokens of the prefixes and PAD after them, (B, longest)."""
    if len(prefixes) != num_sentences:
        raise ValueError(
            f"There are {len(prefixes)} prefixes for {num_sentences} sentences: "
            "give one for each, an empty one where nothing is forced."
        )
    for prefix in prefixes:
        special = {PAD, BOS, EOS}.intersection(prefix)
        if special:
            raise ValueError(
                f"A prefix holds the special id {min(special)}: leave special ids out of prefixes."
            )
    longest = max(map(len, prefixes), default=0)
    rows = [[*prefix, *[PAD] * (longest - len(prefix))] for prefix in prefixes]
    return torch.tensor(rows, dtype=torch.long, device=device).view(num_sentences, longest)
