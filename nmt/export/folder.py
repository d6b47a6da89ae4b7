"""Writes the folder of an exported model: what CTranslate2 reads, and what nmt needs to use it.

model.bin, config.json, shared_vocabulary.json   CTranslate2's
spm.model                                        the SentencePiece model
nmt.json                                         languages, the search the run was tested with,
                                                 the most tokens of a sentence with EOS, if limited
README.md                                        how to use it without nmt
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmt.checkpoint import load_checkpoint
from nmt.checks import UserError
from nmt.export.conversion import position_limit, to_ctranslate2
from nmt.tokenizer import Tokenizer

FORMAT_VERSION = 1
DESCRIPTION = "nmt.json"
TOKENIZER = "spm.model"


def export_checkpoint(
    checkpoint: str | Path, folder: str | Path, *, quantization: str = "float32"
) -> None:
    """Writes a folder that `ctranslate2.Translator` loads.

    Args:
        checkpoint: A `.ckpt` file of a Transformer.
        folder: New, or empty.
        quantization: How weights are stored: `nmt.export.conversion.QUANTIZATIONS`.

    Raises:
        UserError: The folder is in use, or CTranslate2 has no such model or quantization.
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
