"""Checkpoints of seeded tiny models, as training would write them."""

from __future__ import annotations

from pathlib import Path

import torch
from models_for_tests import OPTIONS, TARGETS, tiny_model

from nmt.checkpoint import FORMAT_VERSION, HYPER_PARAMETERS
from nmt.tokenizer import Tokenizer

LOUD = 8.0  # times what the layers write as they are drawn: else the last token is repeated


def write_checkpoint(
    path: Path, tokenizer: bytes, name: str = "transformer", *, lowercase: bool = False, **changes
) -> Path:
    """Saves an en-de model of that name; `changes` replace its default options."""
    torch.manual_seed(11)
    model = tiny_model(name, vocab_size=Tokenizer(tokenizer).vocab_size, **changes)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("gamma"):
                parameter.uniform_(0.5, 1.5)
            if parameter_name.endswith(("output.weight", "down.weight")):
                parameter *= LOUD
    hyper_parameters = dict.fromkeys(HYPER_PARAMETERS) | {
        "model": {"_target_": TARGETS[name], **OPTIONS[name], **changes},
        "tokenizer": tokenizer,
        "lowercase": lowercase,
        "source_lang": "en",
        "target_lang": "de",
        "decoding": {
            "_target_": "nmt.decoding.beam.BeamSearch",
            "beam_size": 3,
            "max_length": 13,
        },
    }
    content = {
        "format_version": FORMAT_VERSION,
        "global_step": 17,
        "hyper_parameters": hyper_parameters,
        "state_dict": {f"model.{key}": value for key, value in model.state_dict().items()},
    }
    torch.save(content, path)
    return path
