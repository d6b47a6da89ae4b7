"""A classifier of two languages with the Bahdanau model's attention: train, classify, filter."""

import zlib
from pathlib import Path

import pytest
import torch

from nmt.grammar import generate_splits
from scripts import language_id

ENGLISH = "The old man sees the dog because the woman is in the garden."
GERMAN = "Der alte Mann sieht den Hund, weil die Frau in dem Garten ist."


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def splits():
    made = generate_splits(train_size=500, valid_size=0, test_per_bucket=10)
    return {
        name: ([pair.source for pair in pairs], [pair.target for pair in pairs])
        for name, pairs in made.items()
    }


@pytest.fixture(scope="module")
def identifier(splits):
    return language_id.train_identifier(splits["train"], ("en", "de"), updates=180, seed=1)


@pytest.fixture
def model_file(identifier, tmp_path):
    identifier.save(tmp_path / "en-de.pt")
    return str(tmp_path / "en-de.pt")


def test_a_short_training_is_enough_for_the_grammar(splits, identifier):
    for name in ("test", "test_long"):
        right, total = language_id.accuracy(identifier, splits[name])
        assert total == 2 * len(splits[name][0])
        assert right >= 0.99 * total


def test_chinese_without_spaces_is_distinguished_from_english():
    english = ["I like books.", "The cat sleeps.", "We drink tea.", "He sees the dog.", "Go home."]
    chinese = ["我喜欢书。", "猫在睡觉。", "我们喝茶。", "他看见那只狗。", "回家吧。"]
    identifier = language_id.train_identifier((english, chinese), ("en", "zh"), updates=40, seed=1)
    judged = identifier.identify(["他们喜欢喝茶。", "They like the tea.", "我用Linux看书。"])
    assert [one.language for one in judged] == ["zh", "en", "zh"]


def test_padding_and_other_lines_do_not_change_the_answer(identifier):
    texts = ["A dog.", "", ENGLISH, GERMAN * 3, "  ", "Ein Hund schläft.", ENGLISH * 9]
    for text, judged in zip(texts, identifier.identify(texts), strict=True):
        (alone,) = identifier.identify([text])
        assert (alone.language, alone.words) == (judged.language, judged.words)
        assert alone.probability == pytest.approx(judged.probability, abs=1e-5)
        assert alone.weights == pytest.approx(judged.weights, abs=1e-5)
        assert len(alone.weights) == len(text.split())


def test_with_v_of_zero_every_word_of_a_line_weighs_the_same():
    model = language_id.LanguageIdentifier(("en", "de"))
    torch.nn.init.zeros_(model.alignment.v)
    _, weights = model([["a", "b"], ["a", "b", "c", "d", "e"]])
    expected = torch.tensor([[0.5, 0.5, 0, 0, 0], [0.2] * 5])
    torch.testing.assert_close(weights, expected)


def test_words_and_their_ngrams():
    assert language_id.words_of(" Don't  stop,\u3000now. ") == ["Don't", "stop,", "now."]
    words = ["我", "喜", "欢", "Linux", "系", "统", "。"]
    assert language_id.words_of("我喜欢Linux系统。") == words
    parts = ["<", "a", "ß", ">", "<a", "aß", "ß>", "<aß", "aß>", "<aß>"]
    expected = [zlib.crc32(part.encode()) % 2**14 for part in parts]
    assert language_id.ngrams_of("Aß") == expected


def test_few_words_names_and_code_are_not_clear(identifier):
    words = GERMAN.split()
    texts = [" ".join(words[:4]), " ".join(words[:2] * 5), "Peter David " * 4, " ".join(words)]
    assert identifier.clearly_in("de", texts) == [False, False, False, True]
    assert not any(identifier.clearly_in("en", texts))
    code = ("The", "the", "(don’t),", "--all", "a.tar", "x2", "/etc", "42", "...", "我")
    assert language_id.Judgement("en", 0.9, code, (0.1,) * 10).evidence == 3  # the, don't, 我


def test_training_measures_on_lines_it_has_not_seen(splits, tmp_path, capsys):
    source, target = (
        write(tmp_path / f"a.{code}", side)
        for code, side in zip(("en", "de"), splits["train"], strict=True)
    )
    output = tmp_path / "new" / "m.pt"
    options = ["--source", source, "--target", target, "--updates=2"]
    assert language_id.main(["train", *options, f"--output={output}"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{output}: en and de, ")
    assert " of 50 right (" in second  # one in twenty of both sides
    assert language_id.load_identifier(str(output)).languages == ("en", "de")


def test_classifying_says_what_was_looked_at(model_file, tmp_path, capsys):
    text = write(tmp_path / "text", [GERMAN, "", "Peter"])
    assert language_id.main(["classify", model_file, "--input", text]) == 0
    german, blank, name = capsys.readouterr().out.splitlines()
    language, probability, line, looked = german.split("\t")
    assert (language, line, blank) == ("de", GERMAN, "")
    assert float(probability) > language_id.CERTAIN
    words = {word.rpartition(":")[0] for word in looked.split(" ")}
    assert len(words) == 3
    assert words <= set(GERMAN.split())
    assert name.endswith("\tPeter\tPeter:1.00")


def test_filtering_drops_pairs_with_a_side_in_the_wrong_language(model_file, tmp_path, capsys):
    pairs = [
        (ENGLISH, GERMAN),
        (GERMAN, ENGLISH),  # swapped
        (ENGLISH, f"{ENGLISH} Peter"),  # not translated
        (f"{GERMAN} Peter", GERMAN),
        ("A dog.", "A dog."),
        ("ls -l | grep x 2> y", "ls -l | grep x 2> y"),
        ("", ""),
    ]
    source, target = (
        write(tmp_path / f"a.{code}", side)
        for code, side in zip(("en", "de"), zip(*pairs, strict=True), strict=True)
    )
    stem = tmp_path / "clean" / "train"
    options = ["--source", source, "--target", target, "--output", str(stem)]
    assert language_id.main(["filter", model_file, *options]) == 0
    assert capsys.readouterr().out.endswith("train.de: 4 of 7 pairs kept\n")
    kept = [pairs[0], *pairs[4:]]
    for number, code in enumerate(("en", "de")):
        lines = Path(f"{stem}.{code}").read_text(encoding="utf-8").split("\n")[:-1]
        assert lines == [pair[number] for pair in kept]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--output=m.pt"], "give --data built-in, or both"),
        (["train", "--source=a.en", "--target=a.de", "--output=m.pt"], "There is no file a.en"),
        (["filter", "{m}", "--source=a.en", "--target=a.fr", "--output=x"], "distinguishes en and"),
    ],
)
def test_the_program_refuses_in_one_sentence(arguments, message, model_file, capsys):
    arguments = [argument.replace("{m}", model_file) for argument in arguments]
    assert language_id.main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
