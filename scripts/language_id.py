"""Which of two languages a line is in: a small classifier with the Bahdanau model's attention.

    python scripts/language_id.py train --source train.en.gz --target train.de.gz --output en-de.pt
    python scripts/language_id.py classify en-de.pt < text
    python scripts/language_id.py filter en-de.pt --source a.en --target a.de --output clean/train

`train` learns from the two sides of any parallel corpus (`--data built-in`: of the built-in one)
and prints its accuracy on lines it was not trained on. `classify` prints for each line

    language TAB probability TAB line TAB the three words looked at most, each with its weight

`filter` writes the pairs of two files that have no side clearly in the other language:
clean/train.en and clean/train.de. File names end in the language (and .gz).
"""

from __future__ import annotations

import argparse
import functools
import random
import re
import sys
import time
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.checks import UserError, flag_main
from nmt.data.batch import answer_in_order
from nmt.data.files import Languages, iterate_lines, iterate_parallel, language_of
from nmt.grammar import generate_splits
from nmt.models.attention import AdditiveAttention, additive_attention

Sides = tuple[Sequence[str], Sequence[str]]
NUM_BUCKETS, WIDTH, HIDDEN, ATTENTION_DIM = 2**14, 32, 48, 32
LEARNING_RATE = 3e-3
LINES_AN_UPDATE = 64  # of each language
LONGEST_STRETCH = 24  # words
ONE_IN = 20  # lines are held out where no other text is given
WORDS_AT_ONCE = 8_192
CERTAIN = 0.999  # probability of the wrong language
LEAST_WORDS = 5  # different ones of letters: fewer are too often names, code or quoted titles

_CHARACTERS = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # kana and Chinese characters
_WORD = re.compile(rf"[{_CHARACTERS}]|[^\s{_CHARACTERS}]+")
# Letters, an apostrophe within, punctuation around; but "--all", "/etc" and "$x" are code.
_PLAIN = re.compile(r"[^\w\-/$%.~]*([^\W\d_]+(?:['’][^\W\d_]+)?)\W*")


def words_of(text: str) -> list[str]:
    """Splits at white space and around each Chinese or Japanese character."""
    return _WORD.findall(text)


@functools.lru_cache(maxsize=100_000)
def ngrams_of(word: str) -> list[int]:
    """Returns the hashes of the character n-grams (1 to 4, ends marked, lower case) of a word.

    As in fastText (Bojanowski et al. 2017): endings and letters such as ß count in words never
    seen, and there is no vocabulary to store.
    """
    marked = f"<{word.lower()}>"
    return [
        zlib.crc32(marked[start : start + size].encode("utf-8", "surrogatepass")) % NUM_BUCKETS
        for size in range(1, 5)
        for start in range(len(marked) - size + 1)
    ]


@dataclass(frozen=True)
class Judgement:
    """What a model says of one line: the likelier language, and the weight of each word.

    The words of a blank line are none, and its language is the first with probability 0.5.
    """

    language: str
    probability: float
    words: tuple[str, ...]
    weights: tuple[float, ...]

    @property
    def evidence(self) -> int:
        """How many different words are words: of letters, not options, file names or numbers."""
        plain = filter(None, map(_PLAIN.fullmatch, self.words))
        return len({word[1].lower() for word in plain})

    @property
    def most_looked_at(self) -> list[tuple[str, float]]:
        """The words with their weights, the greatest first."""
        pairs = zip(self.words, self.weights, strict=True)
        return sorted(pairs, key=lambda pair: -pair[1])


class LanguageIdentifier(nn.Module):
    """A bidirectional LSTM over words, attention pooling, one number.

    A word is the mean of the embeddings of its n-grams. In place of a decoder state, the final
    state of the reader itself asks the words how much each has to say about the language.

    B lines, S words in the longest, D = WIDTH, M = 2 x HIDDEN.
    """

    def __init__(self, languages: tuple[str, str]) -> None:
        super().__init__()
        self.languages = languages
        self.embedding = nn.EmbeddingBag(NUM_BUCKETS, WIDTH, mode="mean")
        self.reader = nn.LSTM(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
        self.alignment = AdditiveAttention(
            query_width=2 * HIDDEN, memory_width=2 * HIDDEN, attention_dim=ATTENTION_DIM
        )
        self.output = nn.Linear(2 * HIDDEN, 1)

    def forward(self, lines: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Weighs the words of each line, of which there is at least one, and judges their mean.

        Returns:
            log p(second language) / p(first language) (B,), and the attention weights (B, S).
        """
        ngrams = [ngrams_of(word) for words in lines for word in words]
        starts = torch.tensor([0, *map(len, ngrams)]).cumsum(0)[:-1]
        words = self.embedding(torch.tensor([n for word in ngrams for n in word]), starts)
        lengths = torch.tensor([len(words) for words in lines])
        mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
        embedded = words.new_zeros(*mask.shape, words.shape[-1])
        embedded[mask] = words  # (B, S, D)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        read, (final, _) = self.reader(packed)
        memory, _ = pad_packed_sequence(read, batch_first=True)  # h_j (B, S, M)
        query = self.alignment.query(torch.cat([*final], -1))
        weights = additive_attention(query, self.alignment.key(memory), self.alignment.v, mask)
        context = (weights.unsqueeze(1) @ memory).squeeze(1)  # sum_j alpha_j h_j (B, M)
        return self.output(context).squeeze(-1), weights

    @torch.inference_mode()
    def identify(self, texts: Sequence[str]) -> list[Judgement]:
        """Judges each line by itself."""
        lines = (tuple(words_of(text)) for text in texts)
        return list(answer_in_order(lines, len, self._judge, batch_tokens=WORDS_AT_ONCE))

    def _judge(self, lines: list[tuple[str, ...]]) -> list[Judgement]:
        """Judges the words of lines, of which the longest is first: blank ones come last."""
        real = [words for words in lines if words]
        blank = [Judgement(self.languages[0], 0.5, (), ())] * (len(lines) - len(real))
        if not real:
            return blank
        odds, weights = self(real)
        judged = [
            Judgement(
                self.languages[second > 0.5],
                max(second, 1 - second),
                words,
                tuple(looked[: len(words)].tolist()),
            )
            for words, second, looked in zip(real, odds.sigmoid().tolist(), weights, strict=True)
        ]
        return judged + blank

    def clearly_in(self, language: str, texts: Sequence[str]) -> list[bool]:
        """Says of each line whether it is beyond doubt in `language`, not in the other one.

        That is: with probability `CERTAIN`, by at least `LEAST_WORDS` different words of letters,
        and still so without the one word that the model looked at most.
        """

        def certain(judged: Judgement) -> bool:
            return judged.language == language and judged.probability >= CERTAIN

        judged = self.identify(texts)
        suspects = [n for n, j in enumerate(judged) if certain(j) and j.evidence >= LEAST_WORDS]
        shortened = [
            " ".join(word for word in judged[n].words if word != judged[n].most_looked_at[0][0])
            for n in suspects
        ]
        again = zip(suspects, self.identify(shortened), strict=True)
        clear = {n for n, judgement in again if certain(judgement)}
        return [n in clear for n in range(len(texts))]

    def save(self, path: Path) -> None:
        """Writes the model file."""
        torch.save({"languages": list(self.languages), "weights": self.state_dict()}, path)


def load_identifier(path: str) -> LanguageIdentifier:
    """Reads a model file that `train` wrote."""
    content = torch.load(path, weights_only=True)
    model = LanguageIdentifier(tuple(content["languages"]))
    model.load_state_dict(content["weights"])
    return model.eval()


def train_identifier(
    sides: Sides, languages: tuple[str, str], *, updates: int, seed: int
) -> LanguageIdentifier:
    """Trains on random stretches of random lines, as many of each language.

    A stretch has 1 to `LONGEST_STRETCH` words, every length alike: so the model learns how little
    a few words say, and that what stands on both sides, such as names, says nothing.
    """
    torch.manual_seed(seed)
    draw = random.Random(seed)

    def stretch(text: str) -> list[str]:
        words = words_of(text)
        length = min(len(words), draw.randint(1, LONGEST_STRETCH))
        start = draw.randrange(len(words) - length + 1)
        return words[start : start + length]

    lines = [[text for text in side if words_of(text)] for side in sides]
    if not all(lines):
        raise UserError("a side of the text has no line with words: give more lines.")
    model = LanguageIdentifier(languages)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, updates)
    answers = torch.arange(2.0).repeat_interleave(LINES_AN_UPDATE)
    for _ in range(updates):
        drawn = [text for side in lines for text in draw.choices(side, k=LINES_AN_UPDATE)]
        odds, _ = model([stretch(text) for text in drawn])
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(odds, answers).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def accuracy(identifier: LanguageIdentifier, sides: Sides) -> tuple[int, int]:
    """Returns how many lines with words get the language of their side, and how many there are."""
    right = total = 0
    for language, texts in zip(identifier.languages, sides, strict=True):
        judged = [found for found in identifier.identify(texts) if found.words]
        right += sum(found.language == language for found in judged)
        total += len(judged)
    return right, total


def _train(options: argparse.Namespace) -> None:
    languages, sides, held_out = _text(options)
    start = time.process_time()
    identifier = train_identifier(sides, languages, updates=options.updates, seed=options.seed)
    seconds = time.process_time() - start
    options.output.parent.mkdir(parents=True, exist_ok=True)
    identifier.save(options.output)
    right, total = accuracy(identifier, held_out)
    print(f"{options.output}: {' and '.join(languages)}, {seconds:.0f} CPU seconds")
    print(f"held-out lines: {right:,} of {total:,} right ({right / total:.2%})")


def _text(options: argparse.Namespace) -> tuple[tuple[str, str], Sides, Sides]:
    """Returns the languages, the training lines and the held-out lines."""
    if options.data is not None:
        codes, splits = ("en", "de"), generate_splits(train_size=10_000)
        pairs, held_out = (
            [(pair.source, pair.target) for pair in splits[name]] for name in ("train", "test")
        )
    elif options.source is None or options.target is None:
        raise UserError("give --data built-in, or both --source FILE and --target FILE.")
    else:
        languages = _languages(options)
        codes = languages.codes
        pairs = [*iterate_parallel([options.source, options.target], languages)]
        held_out = pairs[::ONE_IN]
        if options.held_out:
            held_out = [*iterate_parallel(options.held_out, languages)]
        else:
            del pairs[::ONE_IN]
    return codes, _sides(pairs), _sides(held_out)


def _sides(pairs: Sequence[tuple[str, str]]) -> Sides:
    source, target = zip(*pairs, strict=True)
    return source, target


def _languages(options: argparse.Namespace) -> Languages:
    languages = Languages(language_of(Path(options.source)), language_of(Path(options.target)))
    if languages.source == languages.target:
        raise UserError(f"both files end in .{languages.source}: name them by their languages.")
    return languages


def _classify(options: argparse.Namespace) -> None:
    identifier = load_identifier(options.model)
    for line in iterate_lines(options.input):
        (judged,) = identifier.identify([line])
        if judged.words:
            looked = " ".join(f"{word}:{weight:.2f}" for word, weight in judged.most_looked_at[:3])
            print(f"{judged.language}\t{judged.probability:.4f}\t{line}\t{looked}")
        else:
            print(line)


def _filter(options: argparse.Namespace) -> None:
    identifier = load_identifier(options.model)
    languages = _languages(options)
    if set(languages.codes) != set(identifier.languages):
        raise UserError(
            f"{options.model} distinguishes {' and '.join(identifier.languages)}, not "
            f"{' and '.join(languages.codes)}: train a model for these."
        )
    pairs = iterate_parallel([options.source, options.target], languages)
    names = [Path(f"{options.output}.{code}") for code in languages.codes]
    names[0].parent.mkdir(parents=True, exist_ok=True)
    kept = total = 0
    with ExitStack() as stack:
        outputs = [stack.enter_context(name.open("w", encoding="utf-8")) for name in names]
        while chunk := list(islice(pairs, 10_000)):
            sources, targets = zip(*chunk, strict=True)
            swapped = identifier.clearly_in(languages.target, sources)
            untranslated = identifier.clearly_in(languages.source, targets)
            for pair, *wrong in zip(chunk, swapped, untranslated, strict=True):
                if not any(wrong):
                    kept += 1
                    for output, line in zip(outputs, pair, strict=True):
                        output.write(f"{line}\n")
            total += len(chunk)
    print(f"{names[0]}, {names[1]}: {kept:,} of {total:,} pairs kept")


@flag_main
def main(argv: Sequence[str] | None) -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="train|classify|filter")
    train = commands.add_parser("train", help="train on the two sides of a parallel corpus")
    train.add_argument("--data", choices=("built-in",), help="the built-in corpus, not files")
    train.add_argument("--held-out", nargs=2, metavar="FILE", help="source and target of the lines "
        f"to measure on (default: one in {ONE_IN} of the training lines)")  # fmt: skip
    train.add_argument("--output", type=Path, required=True, metavar="MODEL", help="a .pt file")
    train.add_argument("--updates", type=int, default=600, metavar="N", help="(default: 600)")
    train.add_argument("--seed", type=int, default=1, metavar="N", help="(default: 1)")
    train.set_defaults(run=_train)
    classify = commands.add_parser("classify", help="say the language of each line of text")
    classify.add_argument("--input", default="/dev/stdin", metavar="FILE", help="(default: stdin)")
    classify.set_defaults(run=_classify)
    clean = commands.add_parser("filter", help="drop pairs with a side in the wrong language")
    clean.add_argument("--output", required=True, metavar="STEM", help="writes STEM.en, STEM.de")
    clean.set_defaults(run=_filter)
    for command in (classify, clean):
        command.add_argument("model", metavar="MODEL", help="a .pt file that `train` wrote")
    for command in (train, clean):
        for side in ("source", "target"):
            command.add_argument(f"--{side}", required=command is clean, metavar="FILE")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    options.run(options)


if __name__ == "__main__":
    sys.exit(main())
