"""The joint SentencePiece vocabulary: learnt from text, then text to piece ids and back.

Text of the model is white-space words with single spaces between them: `encode` and `decode` both
say so, hence a piece never spans two words, a word boundary is always the mark `▁`, and decoded
text has no line break. References are never passed through here.

Kudo, Richardson (2018), "SentencePiece" and Kudo (2018), "Subword Regularization" (unigram).
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Literal

import sentencepiece

from nmt import BOS, EOS, PAD, UNK
from nmt.checks import UserError

logger = logging.getLogger(__name__)


LengthUnit = Literal["word", "character"]

_UNITS: tuple[LengthUnit, ...] = ("word", "character")

_LANGUAGES_WITHOUT_SPACES = ("zh", "zho", "chi", "cmn", "yue", "ja", "jpn")


def default_unit(language: str) -> LengthUnit:
    """Returns the unit lengths are counted in for a language code such as `de` or `zh-cn`."""
    base = language.replace("_", "-").split("-")[0].lower()
    return "character" if base in _LANGUAGES_WITHOUT_SPACES else "word"


def check_unit(unit: str) -> LengthUnit:
    """Returns the unit if there is one of that name."""
    for known in _UNITS:
        if unit == known:
            return known
    raise UserError(
        f"length_unit is {unit!r}, but lengths are counted in {' or '.join(_UNITS)}; "
        "set data.length_unit to one of these or to null."
    )


def count_units(text: str, unit: LengthUnit) -> int:
    """Counts white-space tokens (punctuation attached), or characters that are not white space."""
    words = text.split()
    return len(words) if unit == "word" else sum(map(len, words))


MODEL_TYPES = ("unigram", "bpe")
MAX_LINE_BYTES = 65_536
_RESERVED = "▅"  # SentencePiece marks unknown characters with it while training: line is skipped
# The result depends on the number of threads (sums of floats), so it is the same everywhere.
_TRAINING_THREADS = 8
_WORD_MARK = "▁"
_REPLACE = str.maketrans(
    {_WORD_MARK: "_", "\0": "\N{REPLACEMENT CHARACTER}", "\N{SOFT HYPHEN}": None}
)
_NEVER_IN_A_LINE = (0x00, 0x0A, 0x0D)
# White space, control characters, and format characters such as U+200B and U+FEFF.
_INVISIBLE = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]*"
)


def is_blank(text: str) -> bool:
    """Says whether a text has no visible character."""
    return _INVISIBLE.fullmatch(text) is not None


def normalise(text: str) -> str:
    """Returns the text the model sees: words joined by single spaces, accents composed (NFC).

    Soft hyphens go, and a text without a visible character becomes empty. U+2581, which marks word
    boundaries, becomes `_`; NUL and lone surrogates become U+FFFD or `?`.
    """
    if is_blank(text):
        return ""
    text = " ".join(text.translate(_REPLACE).split())
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return text.encode("utf-8", errors="replace").decode("utf-8")


class Tokenizer:
    """A trained SentencePiece model; picklable, and a function of its arguments alone.

    Attributes:
        model: The serialised model.
        vocab_size: Number of pieces V, ids 0 ... V - 1.
        sha256: Hexadecimal digest of `model`.
        forbidden_ids: Ids that a search must never emit: PAD, UNK, BOS and the byte pieces of
            LF, CR and NUL.
        lowercase: Whether texts are lower-cased before they are encoded.
    """

    def __init__(self, model: bytes, *, lowercase: bool = False) -> None:
        """Loads the model.

        Args:
            model: As `train_tokenizer` returns it.
            lowercase: For models that were trained on lower-cased text: lower-case what is to be
                encoded, and say so the first time that this changes a text.
        """
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise UserError(
                "The tokenizer is not a SentencePiece model; give the .model file that "
                "SentencePiece wrote."
            ) from error
        _check_special_ids(self._processor)
        if "".join(self._processor.encode("a b", out_type=str)).endswith(_WORD_MARK):
            raise UserError(
                "The tokenizer has its word mark at the end of words; train it without "
                "treat_whitespace_as_suffix."
            )
        self.model = model
        self.lowercase = lowercase
        self._lowercase_was_told = False
        self._cuts: dict[tuple[str, float], tuple[list[list[int]], list[float]]] = {}
        self._whole: dict[str, list[int]] = {}
        try:
            self._is_unigram = bool(self._processor.nbest_encode("a", nbest_size=2))
        except RuntimeError:
            self._is_unigram = False
        self.vocab_size: int = self._processor.get_piece_size()
        self.sha256 = hashlib.sha256(model).hexdigest()
        self.forbidden_ids = (PAD, UNK, BOS, *_byte_ids(self._processor, _NEVER_IN_A_LINE))

    def __reduce__(self) -> tuple[Callable[..., Tokenizer], tuple[bytes]]:
        return partial(Tokenizer, lowercase=self.lowercase), (self.model,)

    def encode(self, text: str) -> list[int]:
        """Returns the piece ids of a text without special ids; never fails, never samples."""
        (text,) = self._as_trained([text])
        ids: list[int] = self._processor.encode(normalise(text))
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns `encode` of every text, faster."""
        ids: list[list[int]] = self._processor.encode(list(map(normalise, self._as_trained(texts))))
        return ids

    def sample(self, ids: Sequence[int], *, alpha: float, draw: random.Random) -> list[int]:
        """Returns other pieces of the same text, drawn word by word.

        Of a unigram model it is one of the likeliest cuts (`cuts`), of a BPE model what
        BPE-dropout at the rate `alpha` gives (`merge`). SentencePiece's own sampling is not used:
        it draws otherwise in every process.
        """
        drawn: list[int] = []
        for word in self.decode(ids).split():
            if self._is_unigram:
                cuts, weights = self.cuts(word, alpha)
                drawn += draw.choices(cuts, cum_weights=weights)[0]
            else:
                if word not in self._whole:  # a tag, which merges do not lead to
                    usual = self._processor.encode(word)
                    self._whole[word] = [] if self.merge(word) == usual else usual
                drawn += self._whole[word] or self.merge(word, alpha, draw)
        return drawn

    def cuts(self, word: str, alpha: float) -> tuple[list[list[int]], list[float]]:
        """Returns the 64 likeliest cuts of a word into pieces, and their cumulative weights.

        A cut weighs p ** alpha (Kudo 2018, section 3.3); p is a product over pieces, none of which
        spans two words, so that drawing word by word is drawing a cut of the text.

        Raises:
            RuntimeError: The model is not unigram.
        """
        if (word, alpha) not in self._cuts:
            cuts = self._processor.nbest_encode(word, nbest_size=64, out_type=int)
            logs = [alpha * sum(map(self._processor.get_score, cut)) for cut in cuts]
            weights = list(accumulate(math.exp(log - max(logs)) for log in logs))
            self._cuts[word, alpha] = cuts, weights
        return self._cuts[word, alpha]

    def merge(
        self, word: str, dropout: float = 0.0, draw: random.Random | None = None
    ) -> list[int]:
        """Merges the characters of a word as a BPE model learnt to, the earliest learnt first.

        Each possible merge is left out of a step with the probability `dropout`, and the word is
        done when a step has none left (Provilkov et al. 2020, section 3.1).
        """
        pieces = [_WORD_MARK, *word]
        while True:
            merges = [
                (-self._processor.get_score(token), place)
                for place, pair in enumerate(pairwise(pieces))
                if (token := self._processor.piece_to_id("".join(pair))) != UNK
                and (draw is None or draw.random() >= dropout)
            ]
            if not merges:
                break
            place = min(merges)[1]
            pieces[place : place + 2] = ["".join(pieces[place : place + 2])]
        ids = [self._processor.piece_to_id(piece) for piece in pieces]
        return [
            token
            for known, piece in zip(ids, pieces, strict=True)
            for token in ([known] if known != UNK else _byte_ids(self._processor, piece.encode()))
        ]

    def _as_trained(self, texts: Sequence[str]) -> Sequence[str]:
        """Returns the texts as the model knows them, in lower case or as they are."""
        if not self.lowercase:
            return texts
        lowered = [text.lower() for text in texts]
        if not self._lowercase_was_told and lowered != list(texts):
            self._lowercase_was_told = True
            logger.warning("this model was trained on lower-cased text; the input is lower-cased")
        return lowered

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of the ids up to EOS; PAD, BOS and ids outside 0 ... V - 1 are dropped.

        The text is words with single spaces: no line break, whatever the ids.
        """
        text: str = self._processor.decode(self._without_specials(ids))
        return " ".join(text.replace("\0", "").split())

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the piece of every id, special ids included."""
        return [self._processor.id_to_piece(int(token)) for token in ids]

    def piece_words(self, ids: Sequence[int]) -> list[int]:
        """Returns for every id the index of its white-space word; -1 for PAD, BOS and EOS."""
        words: list[int] = []
        word, at_boundary = -1, True
        for token, piece in zip(ids, self.pieces(ids), strict=True):
            if token in (PAD, BOS, EOS):
                words.append(-1)
                continue
            at_boundary = at_boundary or piece.startswith(_WORD_MARK)
            if at_boundary and piece != _WORD_MARK:
                word, at_boundary = word + 1, False
            words.append(word + 1 if at_boundary else word)
        return [min(index, max(word, 0)) for index in words]

    def piece_characters(self, ids: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns for every id which characters of the text it writes, white space not counted.

        All byte pieces of a character have that character; a lone `▁` has the next one, an
        unknown piece counts as one, and PAD, BOS and EOS have none.
        """
        places: list[tuple[int, ...]] = []
        place = missing = 0  # of the character at `place`, so many bytes are still to come
        for token, piece in zip(ids, self.pieces(ids), strict=True):
            if token in (PAD, BOS, EOS):
                places.append(())
            elif self._processor.is_byte(int(token)):
                missing = (missing or _num_bytes(int(piece[1:-1], 16))) - 1
                places.append((place,))
                place += missing == 0
            else:
                count = 1 if token == UNK else len(piece.replace(_WORD_MARK, ""))
                places.append(tuple(range(place, place + max(1, count))))
                place += count
        return places

    def _without_specials(self, ids: Sequence[int]) -> list[int]:
        kept: list[int] = []
        for token in map(int, ids):
            if token == EOS:
                break
            if token not in (PAD, BOS) and 0 <= token < self.vocab_size:
                kept.append(token)
        return kept


def _check_special_ids(processor: sentencepiece.SentencePieceProcessor) -> None:
    found = {
        "pad": (processor.pad_id(), PAD),
        "unk": (processor.unk_id(), UNK),
        "bos": (processor.bos_id(), BOS),
        "eos": (processor.eos_id(), EOS),
    }
    wrong = [f"{name}={has} (not {want})" for name, (has, want) in found.items() if has != want]
    if wrong:
        raise UserError(
            f"The tokenizer has the special ids {', '.join(wrong)}, where -1 means none; train it "
            f"with pad_id={PAD}, unk_id={UNK}, bos_id={BOS}, eos_id={EOS}, or leave "
            "data.tokenizer.path empty to have one trained."
        )


def _num_bytes(first: int) -> int:
    """Returns how many bytes the UTF-8 character has that begins with this byte."""
    return 1 + sum(first >= start for start in (0xC0, 0xE0, 0xF0))


def _byte_ids(
    processor: sentencepiece.SentencePieceProcessor, values: Iterable[int]
) -> tuple[int, ...]:
    ids = (processor.piece_to_id(f"<0x{value:02X}>") for value in values)
    return tuple(token for token in ids if token != UNK)


# Training


def train_tokenizer(
    lines: Iterable[str],
    *,
    vocab_size: int,
    model_type: str = "unigram",
    character_coverage: float = 1.0,
    user_defined_symbols: Sequence[str] = (),
) -> bytes:
    """Learns a SentencePiece model with byte fallback; same lines, same bytes.

    The size is a soft limit: small data yield fewer pieces than requested, and the log says so.

    Args:
        lines: Training text of both languages, one sentence each.
        vocab_size: Pieces wanted, the 4 special and 256 byte pieces included.
        model_type: `unigram` or `bpe`.
        character_coverage: Share of the characters in the text that get a piece of their own.
        user_defined_symbols: Tags that always are one piece, such as `<2de>`.

    Returns:
        The serialised model, for `Tokenizer`.
    """
    counts = {"used": 0, "skipped": 0}
    buffer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_usable_lines(lines, counts),
            model_writer=buffer,
            vocab_size=vocab_size,
            model_type=model_type,
            character_coverage=character_coverage,
            user_defined_symbols=list(user_defined_symbols),
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
        raise UserError(_training_failure(str(error), vocab_size, counts)) from error
    _report_training(buffer.getvalue(), vocab_size, counts)
    return buffer.getvalue()


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
            f"data.tokenizer.vocab_size is {vocab_size}, but the special pieces and the characters "
            f"of the training text alone need {found[1]}; set data.tokenizer.vocab_size={found[1]} "
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
    note = "" if actual == vocab_size else f" ({vocab_size} requested: the text yields no more)"
    logger.info("Trained a tokenizer of %d pieces on %d lines%s.", actual, counts["used"], note)
