"""Exports a Transformer to CTranslate2: its weights in the engine's terms, in a folder.

Both compute the same function: pre-norm with RMSNorm and a last norm in either stack, SwiGLU,
rotary positions on half-split heads (or a table added to the embeddings), grouped key and value
heads, one tied embedding scaled by sqrt(D), no biases. The folder holds

    model.bin, config.json, shared_vocabulary.json   CTranslate2's
    spm.model                                        the SentencePiece model
    nmt.json                                         languages, the search the run was tested with,
                                                     the most tokens with EOS, if limited
    README.md                                        how to use it without nmt
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmt import BOS, EOS, UNK
from nmt.checkpoint import load_checkpoint
from nmt.checks import UserError
from nmt.models.encoder_decoder import EncoderDecoder
from nmt.models.positions import sinusoidal_table
from nmt.models.transformer import RMS_NORM_EPSILON, DecoderLayer, EncoderLayer, Transformer
from nmt.tokenizer import Tokenizer

FORMAT_VERSION = 1
DESCRIPTION = "nmt.json"
TOKENIZER = "spm.model"
QUANTIZATIONS = (
    *("float32", "float16", "bfloat16", "int16"),
    *("int8", "int8_float32", "int8_float16", "int8_bfloat16"),
)
SINUSOIDAL_POSITIONS = 2048  # rows of the table that is written; nmt computes them without end


def export_checkpoint(
    checkpoint: str | Path, folder: str | Path, *, quantization: str = "float32"
) -> None:
    """Writes a new or empty folder that `ctranslate2.Translator` loads.

    Raises:
        UserError: The folder is in use, CTranslate2 has no such model, or it is not installed.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not an empty folder: give the name of a new one.")
    trained = load_checkpoint(checkpoint)
    spec = to_ctranslate2(trained.model, trained.tokenizer, quantization=quantization)
    description = {
        "format_version": FORMAT_VERSION,
        "source_lang": trained.source_lang,
        "target_lang": trained.target_lang,
        "lowercase": trained.tokenizer.lowercase,
        "decoding": trained.config["decoding"],
        "max_positions": position_limit(trained.model),
        "quantization": quantization,
        "updates": trained.updates,
    }
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    (folder / TOKENIZER).write_bytes(trained.tokenizer.model)
    (folder / "README.md").write_text(_readme(description, trained.tokenizer), encoding="utf-8")
    # Last, so that a folder whose writing was interrupted is none.
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def _readme(description: dict[str, Any], tokenizer: Tokenizer) -> str:
    languages = f"{description['source_lang']}-{description['target_lang']}"
    lowercase = "\ntext = text.lower()  # and no capitals" if description["lowercase"] else ""
    never = json.dumps([[piece] for piece in tokenizer.pieces(tokenizer.forbidden_ids)])
    return f"""# {languages} translation model for CTranslate2

A Transformer trained with nmt ({description["updates"]} updates), stored as \
{description["quantization"]}.

With nmt: `python scripts/translate.py FOLDER --engine ctranslate2 < in.txt > out.txt`

Without nmt, after `pip install ctranslate2 sentencepiece`:

```python
import ctranslate2, sentencepiece

pieces = sentencepiece.SentencePieceProcessor(model_file="spm.model")
translator = ctranslate2.Translator(".", device="cpu")
text = " ".join("A sentence.".split())  # the model knows single spaces only{lowercase}
(result,) = translator.translate_batch(
    [pieces.encode(text, out_type=str)],
    beam_size=5,
    patience=2,  # stop when 2 x beam_size hypotheses have ended
    max_input_length=0,  # else CTranslate2 cuts what is longer than 1024 pieces
    max_decoding_length=1024,  # else it cuts what is longer than 256
    min_decoding_length=0,
    return_end_token=True,  # else the length penalty does not count it
    suppress_sequences={never},
)
print(pieces.decode([piece for piece in result.hypotheses[0] if piece != "</s>"]))
```

`</s>` is added to the source by CTranslate2; scores are log p / length^length_penalty.
"""


def to_ctranslate2(model: EncoderDecoder, tokenizer: Tokenizer, *, quantization: str) -> Any:
    """Returns a `ctranslate2.specs.TransformerSpec` that is ready to be saved.

    Raises:
        UserError: The engine has no such model, or is not installed.
    """
    transformer = _supported(model)
    spec = _empty_spec(transformer)
    spec.encoder.embeddings[0].weight = _array(transformer.embedding.table.weight)
    spec.decoder.embeddings.weight = _array(transformer.embedding.table.weight)
    spec.decoder.projection.weight = spec.decoder.embeddings.weight
    for layer_spec, encoder in zip(spec.encoder.layer, transformer.encoder_layers, strict=True):
        _fill_layer(layer_spec, encoder)
    for layer_spec, decoder in zip(spec.decoder.layer, transformer.decoder_layers, strict=True):
        _fill_layer(layer_spec, decoder)
    spec.encoder.layer_norm.gamma = _array(transformer.encoder_norm.gamma)
    spec.decoder.layer_norm.gamma = _array(transformer.decoder_norm.gamma)
    _fill_positions(spec.encoder, transformer)
    _fill_positions(spec.decoder, transformer)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.bos_token = spec.config.decoder_start_token = pieces[BOS]
    spec.config.eos_token, spec.config.unk_token = pieces[EOS], pieces[UNK]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = RMS_NORM_EPSILON
    spec.validate()
    spec.optimize(quantization=quantization)
    return spec


def position_limit(model: EncoderDecoder) -> int | None:
    """Returns how many positions the exported model has; None where there is no limit."""
    positions = _supported(model).positions
    if positions.learned is not None:
        return positions.learned.table.num_embeddings
    return SINUSOIDAL_POSITIONS if positions.kind == "sinusoidal" else None


def _supported(model: EncoderDecoder) -> Transformer:
    if not isinstance(model, Transformer):
        lacking = f"holds a {type(model).__name__}, and CTranslate2 runs Transformers only"
    elif model.memory_slots is not None:
        lacking = f"has memory_slots={model.memory_slots}, which CTranslate2 lacks"
    elif model.encoder_attention.kind != "full":
        lacking = f"has encoder_attention={model.encoder_attention.kind}, which CTranslate2 lacks"
    elif model.positions.kind not in ("rope", "sinusoidal", "learned"):
        lacking = f"has positions={model.positions.kind}, which the export lacks"
    else:
        return model
    raise UserError(
        f"the checkpoint {lacking}: export another, or translate it with scripts/translate.py."
    )


def _empty_spec(model: Transformer) -> Any:
    specs = import_ctranslate2().specs
    attention = model.encoder_layers[0].self_attention
    num_heads, num_kv_heads = attention.num_heads, attention.num_kv_heads
    shared: dict[str, Any] = {
        "num_heads": num_heads,
        "num_heads_kv": None if num_kv_heads == num_heads else num_kv_heads,
        "pre_norm": True,
        "activation": specs.Activation.SWISH,
        "ffn_glu": True,
        "rms_norm": True,
        "rotary_interleave": False,
    }
    if model.positions.kind == "rope":
        shared["rotary_dim"] = model.embedding.table.embedding_dim // num_heads
    return specs.TransformerSpec(
        specs.TransformerEncoderSpec(num_layers=len(model.encoder_layers), **shared),
        specs.TransformerDecoderSpec(num_layers=len(model.decoder_layers), **shared),
    )


def _fill_layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    attention = layer.self_attention
    spec.self_attention.layer_norm.gamma = _array(layer.self_attention_norm.gamma)
    _fill_linear(spec.self_attention, attention.query_key_value, attention.output)
    if isinstance(layer, DecoderLayer):
        cross = layer.cross_attention
        spec.attention.layer_norm.gamma = _array(layer.cross_attention_norm.gamma)
        _fill_linear(spec.attention, cross.query, cross.key_value, cross.output)
    gate, up = layer.feed_forward.gate_up.weight.chunk(2)
    spec.ffn.layer_norm.gamma = _array(layer.feed_forward_norm.gamma)
    spec.ffn.linear_0.weight = _array(gate)
    spec.ffn.linear_0_noact.weight = _array(up)
    spec.ffn.linear_1.weight = _array(layer.feed_forward.down.weight)


def _fill_linear(spec: Any, *modules: nn.Linear) -> None:
    for linear, module in zip(spec.linear, modules, strict=True):
        linear.weight = _array(module.weight)


def _fill_positions(spec: Any, model: Transformer) -> None:
    positions = model.positions
    if positions.learned is not None:
        size = positions.learned.table.num_embeddings
        spec.position_encodings.encodings = _array(positions.learned.rows(0, size))
    elif positions.kind == "sinusoidal":
        width = model.embedding.table.embedding_dim
        spec.position_encodings.encodings = _array(sinusoidal_table(SINUSOIDAL_POSITIONS, width))


def _array(tensor: Tensor) -> Any:
    """Returns a copy: quantization works in place."""
    return tensor.detach().to("cpu", torch.float32, copy=True).numpy()


def import_ctranslate2() -> Any:
    """Returns the engine's package; raises UserError where it is not installed."""
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            f"CTranslate2 cannot be imported ({error}): install it with pip install 'nmt[export]'."
        ) from error
    return ctranslate2
