"""When a GPU has too little memory: which batch it was, and which option to lower."""

from __future__ import annotations

from nmt.data.batch import Batch
from nmt.special_tokens import PAD
from nmt.tokenizer import Tokenizer

_SHOWN = 60  # characters of a sentence


def out_of_memory(batch: Batch | None, tokenizer: Tokenizer, *, validating: bool) -> str:
    """Returns one sentence that names the batch, its longest pair and the option to lower.

    Args:
        batch: The newest one; None before the first.
        tokenizer: Of its ids.
        validating: Whether it is one of validation.
    """
    if batch is None:
        return "the GPU's memory is too small for this model: lower model.width or use another GPU."
    option = "data.eval_token_budget" if validating else "data.token_budget"
    more = "" if validating else " (and raise trainer.accumulate_grad_batches as much)"
    source, target = batch.source.cpu(), batch.target_out.cpu()
    lengths = (source != PAD).sum(1), (target != PAD).sum(1)
    longest = int((lengths[0] + lengths[1]).argmax())
    texts = [tokenizer.decode(side[longest].tolist())[:_SHOWN] for side in (source, target)]
    kind = "validation" if validating else "training"
    return (
        f"the GPU's memory is too small for a {kind} batch of {len(batch)} pairs, "
        f"{source.shape[1]} source and {target.shape[1]} target tokens long (the longest pair, "
        f"number {int(batch.index[longest])}: {texts[0]!r} = {texts[1]!r}): lower {option}{more}."
    )
