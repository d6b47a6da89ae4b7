"""The models at tiny sizes, a different number for every dimension."""

from nmt.models.encoder_decoder import EncoderDecoder
from nmt.models.recurrent import RecurrentEncoderDecoder
from nmt.models.sutskever import StackedEncoderDecoder
from nmt.models.transformer import Transformer

MODEL_NAMES = ["sutskever", "rnn", "bahdanau", "transformer"]
ATTENDING = ["bahdanau", "transformer"]
VOCAB_SIZE = 53

RECURRENT = {
    "width": 13,
    "encoder_hidden": 7,
    "decoder_hidden": 17,
    "encoder_layers": 1,
    "dropout": 0.0,
    "memory_slots": None,
}
KINDS = {
    "sutskever": StackedEncoderDecoder,
    "rnn": RecurrentEncoderDecoder,
    "bahdanau": RecurrentEncoderDecoder,
    "transformer": Transformer,
}
TARGETS = {name: f"{kind.__module__}.{kind.__qualname__}" for name, kind in KINDS.items()}
OPTIONS = {
    "sutskever": {"width": 13, "hidden": 17, "layers": 2, "dropout": 0.0, "reverse_source": True},
    "rnn": {**RECURRENT, "attention": "none", "attention_dim": None},
    "bahdanau": {**RECURRENT, "attention": "additive", "attention_dim": 11},
    "transformer": {
        "width": 24,
        "num_heads": 4,
        "num_kv_heads": 2,
        "feed_forward": 19,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "positions": "rope",
        "max_positions": 41,
        "memory_slots": None,
    },
}


def tiny_model(name: str, *, vocab_size: int = VOCAB_SIZE, **options) -> EncoderDecoder:
    """Returns a new model of that name in evaluation mode; `options` replace its defaults."""
    return KINDS[name](vocab_size=vocab_size, **{**OPTIONS[name], **options}).eval()
