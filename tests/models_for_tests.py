"""The models of `conf/model`: at tiny sizes where `TINY` has some, else as they are."""

from pathlib import Path
from typing import Any

import yaml

from nmt.checkpoint import build
from nmt.models.encoder_decoder import EncoderDecoder

CONF = Path(__file__).parents[1] / "conf" / "model"
VOCAB_SIZE = 53

# A different number for every dimension.
RECURRENT = {"width": 13, "encoder_hidden": 7, "decoder_hidden": 17}
TINY = {
    "sutskever": {"width": 13, "hidden": 17},
    "rnn": RECURRENT,
    "bahdanau": {**RECURRENT, "attention_dim": 11},
    "transformer": {
        "width": 24,
        "num_heads": 4,
        "num_kv_heads": 2,
        "feed_forward": 19,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "max_positions": 41,
    },
}
MODEL_NAMES = list(TINY)
ATTENDING = ["bahdanau", "transformer"]


def configuration(name: str) -> dict[str, Any]:
    """Returns the keys of a file in `conf/model`, of those it inherits from, and of options.

    A name may have options behind it: `transformer positions=alibi`.
    """
    name, *options = name.split()
    own = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    own |= dict(option.split("=") for option in options)
    inherited: dict[str, Any] = {}
    for other in own.pop("defaults", []):
        inherited |= configuration(other) if other != "_self_" else {}
    return inherited | own


def tiny_model(name: str, *, vocab_size: int = VOCAB_SIZE, **changes: Any) -> EncoderDecoder:
    """Returns a new model of that name in evaluation mode; `changes` replace its options."""
    options = configuration(name) | {"dropout": 0.0} | TINY.get(name.split()[0], {}) | changes
    return build(options, vocab_size=vocab_size).eval()


# Files that inherit are other sizes of the same model.
ALL_NAMES = sorted(
    path.stem
    for path in CONF.glob("*.yaml")
    if "defaults" not in yaml.safe_load(path.read_text(encoding="utf-8"))
)
OPTIONS = {name: configuration(name) | sizes for name, sizes in TINY.items()}
TARGETS = {name: options.pop("_target_") for name, options in OPTIONS.items()}
