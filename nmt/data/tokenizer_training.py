"""Learns the joint SentencePiece vocabulary of a corpus.

Kudo, Richardson (2018), "SentencePiece" and Kudo (2018), "Subword Regularization" (unigram).
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable, Iterator

import sentencepiece

from nmt.special_tokens import BOS, EOS, PAD, UNK
from nmt.tokenizer import normalise

logger = logging.getLogger(__name__)

MODEL_TYPES = ("unigram", "bpe")
MAX_LINE_BYTES = 65_536
_RESERVED = "▅"  # SentencePiece marks unknown characters with it while training: line is skipped
# The result depends on the number of threads (sums of floats), so it is the same everywhere.
_TRAINING_THREADS = 8


def train_tokenizer(
    lines: Iterable[str],
    *,
    vocab_size: int,
    model_type: str = "unigram",
    character_coverage: float = 1.0,
) -> bytes:
    """Learns a SentencePiece model with byte fallback; same lines, same bytes.

    The size is a soft limit: small data yield fewer pieces than asked for, and the log says so.

    Args:
        lines: Training text of both languages, one sentence each.
        vocab_size: Pieces wanted, the 4 special and 256 byte pieces included.
        model_type: `unigram` or `bpe`.
        character_coverage: Share of the characters in the text that get a piece of their own.

    Returns:
        The serialised model, for `Tokenizer`.

    Raises:
        ValueError: An impossible option, or no usable text.
    """
    _check_training_options(vocab_size, model_type, character_coverage)
    counts = {"used": 0, "skipped": 0}
    buffer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_usable_lines(lines, counts),
            model_writer=buffer,
            vocab_size=vocab_size,
            model_type=model_type,
            character_coverage=character_coverage,
            hard_vocab_limit=False,
            byte_fallback=True,
            normalization_rule_name="identity",
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=_TRAINING_THREADS,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(_training_failure(str(error), vocab_size, counts)) from error
    _report_training(buffer.getvalue(), vocab_size, counts)
    return buffer.getvalue()


def _check_training_options(vocab_size: int, model_type: str, character_coverage: float) -> None:
    if model_type not in MODEL_TYPES:
        raise ValueError(
            f"tokenizer.model_type is {model_type!r}; set it to {' or '.join(MODEL_TYPES)}."
        )
    if not isinstance(vocab_size, int) or vocab_size < 1:
        raise ValueError(f"tokenizer.vocab_size is {vocab_size!r}; set it to a positive integer.")
    if not 0.9 <= character_coverage <= 1.0:
        raise ValueError(
            f"tokenizer.character_coverage is {character_coverage}; set it between 0.9 and 1."
        )


def _usable_lines(lines: Iterable[str], counts: dict[str, int]) -> Iterator[str]:
    for line in lines:
        text = normalise(line)
        if not text:
            continue
        if _RESERVED in text or len(text.encode("utf-8")) > MAX_LINE_BYTES:
            counts["skipped"] += 1
            continue
        counts["used"] += 1
        yield text


def _training_failure(message: str, vocab_size: int, counts: dict[str, int]) -> str:
    if not counts["used"]:
        return (
            f"The tokenizer has no text to learn from: {counts['skipped']} lines were skipped "
            f"(longer than {MAX_LINE_BYTES} bytes, or with the reserved character U+2585) and the "
            "others are blank; check the training data."
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"tokenizer.vocab_size is {vocab_size}, but the special pieces and the characters of "
            f"the training text alone need {found[1]}; set data.tokenizer.vocab_size={found[1]} "
            "or more, or lower data.tokenizer.character_coverage."
        )
    return f"SentencePiece could not train with vocab_size={vocab_size}: {message}"


def _report_training(model: bytes, vocab_size: int, counts: dict[str, int]) -> None:
    actual = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
    if counts["skipped"]:
        logger.warning(
            "The tokenizer was trained without %d of %d lines (longer than %d bytes, or with the "
            "reserved character U+2585).",
            counts["skipped"],
            counts["skipped"] + counts["used"],
            MAX_LINE_BYTES,
        )
    note = "" if actual == vocab_size else f" ({vocab_size} asked for: the text yields no more)"
    logger.info("Trained a tokenizer of %d pieces on %d lines%s.", actual, counts["used"], note)
