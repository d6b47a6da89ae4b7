"""Attention outside translation: which language a line is in, and what is done with the answer."""

import gzip
import importlib.util
import io
import logging
import sys
import zlib
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from nmt.cli.untranslated import name_untranslated
from rich.color import Color

from nmt.data.cleaning import CleaningRules, clean
from nmt.data.datamodule import TranslationDataModule
from nmt.data.hashed_words import ngrams_of, pack, words_of
from nmt.data.language_identification import (
    CERTAIN,
    LEAST_WORDS,
    Judgement,
    LanguageCheck,
    LanguageIdentifier,
    load_identifier,
)
from nmt.grammar import generate_splits
from nmt.models.attention import AdditiveAttention
from nmt.models.language_classifier import LanguageClassifier
from nmt.translator import ScoredText, Translation

TINY = {"num_buckets": 101, "width": 5, "hidden": 3, "attention_dim": 7}
RULES = {
    "empty": False,
    "max_length": None,
    "max_length_ratio": None,
    "identical": False,
    "duplicates": False,
}
ENGLISH = "The old man sees the dog because the woman is in the garden."
GERMAN = "Der alte Mann sieht den Hund, weil die Frau in dem Garten ist."


@pytest.fixture(scope="module")
def program():
    path = Path(__file__).parents[2] / "scripts" / "language_id.py"
    spec = importlib.util.spec_from_file_location("language_id", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def splits():
    made = generate_splits(train_size=500, valid_size=40, test_per_bucket=10)
    return {
        name: ([pair.source for pair in pairs], [pair.target for pair in pairs])
        for name, pairs in made.items()
    }


@pytest.fixture(scope="module")
def identifier(program, splits):
    return program.train_identifier(
        splits["train"], ("en", "de"), updates=180, batch_size=32, seed=1
    )


@pytest.fixture
def model_file(identifier, tmp_path):
    path = tmp_path / "en-de.pt"
    identifier.save(path)
    return path


def untrained(seed=1, languages=("en", "de")):
    torch.manual_seed(seed)
    return LanguageIdentifier(languages, LanguageClassifier(**TINY))


def test_a_short_training_tells_the_languages_of_the_grammar_apart(program, splits, identifier):
    for name in ("test", "test_long"):
        right, total = program.accuracy(identifier, splits[name])
        assert total == 2 * len(splits[name][0])
        assert right >= 0.99 * total


def test_chinese_without_spaces_is_told_from_english_in_sentences_never_seen(program):
    english = ["I like books.", "The cat sleeps.", "We drink tea.", "He sees the dog.", "Go home."]
    chinese = ["我喜欢书。", "猫在睡觉。", "我们喝茶。", "他看见那只狗。", "回家吧。"]
    identifier = program.train_identifier(
        (english, chinese), ("en", "zh"), updates=40, batch_size=8, seed=1
    )
    judged = identifier.identify(["他们喜欢喝茶。", "They like the tea.", "我用Linux看书。"])
    assert [one.language for one in judged] == ["zh", "en", "zh"]


def test_names_say_nothing(identifier):
    (judged,) = identifier.identify(["Peter"])
    assert judged.probability < CERTAIN
    assert not identifier.clearly_in("en", ["Peter David Peter David Peter David Peter"])[0]


def test_padding_and_other_lines_do_not_change_the_answer(identifier):
    texts = ["A dog.", "", ENGLISH, GERMAN * 3, "  ", "Ein Hund schläft.", ENGLISH * 9]
    together = identifier.identify(texts)
    for text, judged in zip(texts, together, strict=True):
        (alone,) = identifier.identify([text])
        assert (alone.language, alone.words) == (judged.language, judged.words)
        assert alone.probability == pytest.approx(judged.probability, abs=1e-5)
        assert alone.weights == pytest.approx(judged.weights, abs=1e-5)
        assert len(alone.weights) == len(text.split())


def test_the_weights_are_those_of_the_attention_of_the_bahdanau_model():
    """With v = 0 every word of a line weighs the same, and fillers nothing."""
    model = untrained().model
    assert isinstance(model.alignment, AdditiveAttention)
    torch.nn.init.zeros_(model.alignment.v)
    _, weights = model(*pack([["a", "b"], ["a", "b", "c", "d", "e"]], 101))
    expected = torch.tensor([[0.5, 0.5, 0, 0, 0], [0.2] * 5])
    torch.testing.assert_close(weights, expected)


def test_a_line_without_words_is_in_no_language(identifier):
    assert identifier.identify(["", " \t"]) == [Judgement("en", 0.5, (), ())] * 2
    assert identifier.clearly_in("en", [""]) == [False]


def test_words_are_split_at_white_space_and_chinese_at_every_character():
    assert words_of(" Don't  stop,\u3000now. ") == ["Don't", "stop,", "now."]
    assert words_of("我喜欢Linux系统。") == ["我", "喜", "欢", "Linux", "系", "统", "。"]


def test_ngrams_are_one_to_four_characters_of_the_marked_word_in_lower_case():
    parts = ["<", "a", "ß", ">", "<a", "aß", "ß>", "<aß", "aß>", "<aß>"]
    assert ngrams_of("Aß", 97) == [zlib.crc32(part.encode()) % 97 for part in parts]


def test_evidence_is_the_number_of_different_words_of_letters():
    words = ("The", "the", "(don’t),", "--all", "a.tar", "x2", "/etc", "42", "...", "我")
    judged = Judgement("en", 0.9, words, (0.05, 0.3, 0.2, 0.1, 0.05, 0.1, 0.05, 0.05, 0.05, 0.05))
    assert judged.evidence == 3  # the, don't, 我
    assert judged.without_most_looked_at == "The (don’t), --all a.tar x2 /etc 42 ... 我"


class OneWordTells(torch.nn.Module):
    """Looks at one word alone: a line with it is in the second language, others in the first."""

    num_buckets = 10_007

    def __init__(self, word):
        super().__init__()
        self.ngrams = ngrams_of(word, self.num_buckets)

    def forward(self, ngrams, starts, mask):
        ends = [*starts[1:].tolist(), len(ngrams)]
        words = [ngrams[a:b].tolist() for a, b in zip(starts.tolist(), ends, strict=True)]
        found = torch.zeros(mask.shape)
        found[mask] = torch.tensor([float(word == self.ngrams) for word in words])
        return 20.0 * found.amax(1) - 10.0, found


def test_one_word_is_not_enough_however_certain_the_model_is():
    identifier = LanguageIdentifier(("en", "de"), OneWordTells("und"))
    line = "one two und three four five six seven"
    assert identifier.identify([line])[0].probability > CERTAIN
    assert identifier.clearly_in("de", [line, f"{line} und"]) == [False, False]
    assert identifier.clearly_in("en", [line.replace("und ", "")]) == [True]


def test_few_words_are_not_enough(identifier):
    words = GERMAN.split()
    texts = [" ".join(words[: LEAST_WORDS - 1]), " ".join(words[:2] * 5), " ".join(words)]
    assert [judged.language for judged in identifier.identify(texts)] == ["de"] * 3
    assert identifier.clearly_in("de", texts) == [False, False, True]
    assert identifier.clearly_in("en", texts) == [False, False, False]


def test_the_rule_removes_what_is_clearly_wrong_and_counts_it(identifier):
    pairs = [
        (ENGLISH, GERMAN),
        (GERMAN, ENGLISH),  # swapped
        (ENGLISH, f"{ENGLISH} Peter"),  # not translated
        (f"{GERMAN} Peter", GERMAN),
        ("A dog.", "A dog."),
        ("Peter", "Peter"),
        ("ls -l | grep x 2> y", "ls -l | grep x 2> y"),
        ("", ""),
        (ENGLISH, ENGLISH),
        (ENGLISH, GERMAN),
    ]
    source, target = zip(*pairs, strict=True)
    found = clean(
        Dataset.from_dict({"source": source, "target": target}),
        rules=CleaningRules(**RULES | {"identical": True, "duplicates": True}, language="m.pt"),
        language_check=LanguageCheck(identifier, "en", "de"),
    )
    assert found.rows.tolist() == [0]
    assert found.report.removed == {"identical": 5, "language": 3, "duplicates": 1}
    found = clean(
        Dataset.from_dict({"source": source, "target": target}),
        rules=CleaningRules(**RULES, language="m.pt"),
        language_check=LanguageCheck(identifier, "en", "de"),
    )
    assert found.rows.tolist() == [0, 4, 5, 6, 7, 9]
    assert found.report.removed == {"language": 4}
    assert "a side in the wrong language" in found.report.table()


@pytest.mark.parametrize("value", [True, 3])
def test_a_rule_without_a_file_is_refused(value):
    with pytest.raises(ValueError, match=rf"cleaning\.language is {value}; set it to a model file"):
        CleaningRules(**RULES, language=value)


@pytest.fixture
def make(splits, tmp_path):
    def make_module(language, target_lang="de", with_text=True):
        for number, code in enumerate(("en", target_lang)):
            for split, name in (("train", "train"), ("valid", "valid"), ("test", "test")):
                lines = list(splits[name][number])
                if split == "train" and number == 1:
                    lines[3] = splits[name][0][3] + " " + ENGLISH
                data = "".join(f"{line}\n" for line in lines).encode()
                if with_text:
                    (tmp_path / f"{split}.{code}.gz").write_bytes(gzip.compress(data))
        return TranslationDataModule(
            name="toy",
            source_lang="en",
            target_lang=target_lang,
            cleaning=RULES | {"language": str(language) if language else language},
            tokenizer={"vocab_size": 300, "model_type": "bpe", "character_coverage": 1.0},
            token_budget=100,
            eval_token_budget=100,
            num_workers=0,
            seed=1,
            directory=str(tmp_path),
            cache_dir=str(tmp_path / "cache"),
        )

    return make_module


def test_a_run_is_cleaned_with_the_model_and_again_with_another_one(make, model_file):
    module = make(model_file)
    assert len(module.split("train")) == 499
    assert module.cleaning_reports["toy"].removed == {"language": 1}
    assert make(False).cleaning_reports["toy"].removed == {}
    untrained().save(model_file)
    assert make(model_file).cleaning_reports["toy"].removed == {"language": 0}


def test_the_name_of_a_cleaned_text_follows_the_weights_not_the_file(identifier, model_file):
    def key(identifier, *languages):
        return LanguageCheck(identifier, *languages).key()

    same = load_identifier(model_file)
    assert key(same, "en", "de") == key(identifier, "en", "de")
    assert key(same, "en", "de") != key(same, "de", "en")
    assert key(untrained(1), "en", "de") != key(untrained(2), "en", "de")
    swapped = untrained(1, languages=("de", "en"))  # the same weights say the opposite
    assert key(untrained(1), "en", "de") != key(swapped, "en", "de")


def test_an_unusable_model_is_refused_before_any_text_is_read(make, model_file, tmp_path):
    with pytest.raises(ValueError, match=r"\Adata\.cleaning\.language: .*no\.pt does not exist: g"):
        make(tmp_path / "no.pt", with_text=False).prepare_data()
    with pytest.raises(ValueError, match=r"tells en from de, not en from fr: train one .*\.\Z"):
        make(model_file, target_lang="fr", with_text=False).prepare_data()


def test_a_file_holds_all_it_takes(identifier, model_file):
    loaded = load_identifier(model_file, languages=("de", "en"))
    assert loaded.identify([ENGLISH, GERMAN]) == identifier.identify([ENGLISH, GERMAN])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "has format_version 2 and this version of nmt reads 1"),
        ({"languages": print}, "holds more than tensors and plain values"),
        ({"more": 1}, "has the unexpected entry 'more'"),
        ({"state_dict": {}}, "lacks the weight 'ahead"),
        ({"hyper_parameters": TINY | {"depth": 2}}, "has the unexpected hyper-parameter 'depth'"),
        ({"hyper_parameters": {"width": 5}}, "lacks the hyper-parameter 'attention_dim', 'hid"),
        ({"languages": ["en", "de", "fr"]}, "names 3 languages, where two belong"),
    ],
)
def test_another_file_is_refused(tmp_path, change, message):
    path = tmp_path / "m.pt"
    untrained().save(path)
    torch.save(torch.load(path) | change, path)
    with pytest.raises(ValueError, match=message):
        load_identifier(path)


def test_untranslated_lines_are_named_and_counted(identifier, model_file, caplog):
    texts = [GERMAN, ENGLISH, "", "OK", GERMAN]
    translations = [
        Translation("", (ScoredText(text, (), 0.0, 0.0, True), ScoredText(ENGLISH, (), 0, 0, True)))
        for text in texts
    ]
    with caplog.at_level(logging.WARNING):
        passed = name_untranslated(translations, str(model_file), ("en", "de"), first=7)
        assert list(passed) == translations
    assert caplog.messages == [
        "line 8 looks untranslated (en)",
        "1 of 5 translations look untranslated (en)",
    ]
    with pytest.raises(ValueError, match="tells en from de, not en from zh"):
        name_untranslated([], str(model_file), ("en", "zh"), first=1)


def test_the_program_trains_on_files_and_measures_on_lines_it_has_not_seen(
    program, splits, tmp_path, capsys
):
    for code, side in zip(("en", "de"), splits["train"], strict=True):
        text = "".join(f"{line}\n" for line in side)
        (tmp_path / f"a.{code}").write_text(text, encoding="utf-8")
    files = [f"--source={tmp_path / 'a.en'}", f"--target={tmp_path / 'a.de'}"]
    output = tmp_path / "new" / "m.pt"
    arguments = ["train", *files, f"--output={output}", "--updates=3", "--batch-size=2"]
    assert program.main(arguments) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{output}: en and de, ")
    assert " of 50 right (" in second  # one in twenty of both sides
    assert load_identifier(output).languages == ("en", "de")


def classify(program, model_file, data, monkeypatch, *options):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
    return program.main(["classify", str(model_file), *options])


def test_the_program_says_language_probability_and_what_it_looked_at(
    program, model_file, monkeypatch, capsys, tmp_path
):
    picture = tmp_path / "a.png"
    text = f"{GERMAN}\n\nPeter\n"
    assert classify(program, model_file, text, monkeypatch, f"--png={picture}") == 0
    german, blank, name = capsys.readouterr().out.splitlines()
    language, probability, line, looked = german.split("\t")
    assert (language, line, blank) == ("de", GERMAN, "")
    assert float(probability) > CERTAIN
    words = [word.rpartition(":")[0] for word in looked.split(" ")]
    assert len(words) == 3
    assert set(words) <= set(GERMAN.split())
    assert name.endswith("\tPeter\tPeter:1.00")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_figure_says_what_it_leaves_out(program, model_file, monkeypatch, capsys, tmp_path):
    picture = tmp_path / "new" / "a.png"
    text = "Peter\n" * 21 + "dog " * 41 + "\n"
    assert classify(program, model_file, text, monkeypatch, f"--png={picture}") == 0
    assert capsys.readouterr().err.startswith("warning: 2 lines are not drawn")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_word_looked_at_most_is_the_brightest(program):
    line = "a  dog a"
    text = program.coloured(line, Judgement("en", 1.0, ("a", "dog", "a"), (0.2, 0.6, 0.2)))
    assert text.plain == line
    assert [(span.start, span.end) for span in text.spans] == [(0, 1), (3, 6), (7, 8)]
    greens = [Color.parse(str(span.style).split()[-1]).triplet.green for span in text.spans]
    assert greens[1] > greens[0] == greens[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--output=m.pt"], "give --data built-in, or both"),
        (["train", "--source=a.en", "--output=m.pt"], "give --data built-in, or both"),
        *(
            (["train", "--data=built-in", *option, "--output=m.pt"], f"{option[0]} has no meaning")
            for option in (
                *(["--source", "a.en"], ["--target", "a.de"], ["--held-out", "b.en", "b.de"]),
                *(["--source-lang", "fr"], ["--target-lang", "fr"]),
            )
        ),
        (["train", "--data=built-in", "--output=m.pt", "--updates=0"], "updates is 0"),
        (["train", "--data=built-in", "--output=m.pt", "--batch-size=0"], "batch_size is 0"),
        (["train", "--data=built-in", "--output=m.pt", "--threads=0"], "threads is 0"),
        (["classify", "no.pt", "--threads=0"], "threads is 0"),
        (["train", "--source=a.en", "--target=a.de", "--output=m.pt"], "There is no file a.en"),
        (["classify", "no.pt"], "language identifier no.pt does not exist"),
    ],
)
def test_the_program_refuses_in_one_sentence(
    program, arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert program.main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "held_out", "message"),
    [
        ("one\n", False, "a side of the training text has no line with words"),
        ("\ntwo\n", False, "a side of the held-out text has no line with words"),
        ("\n\n", True, "a side of the training text has no line with words"),
    ],
)
def test_the_program_needs_lines_to_train_on_and_to_measure_on(
    program, text, held_out, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, content in (("a.en", text), ("a.de", text), ("b.en", "one\n"), ("b.de", "eins\n")):
        Path(name).write_text(content, encoding="utf-8")
    options = ["--held-out", "b.en", "b.de"] if held_out else []
    command = ["train", "--source=a.en", "--target=a.de", "--output=m.pt", "--updates=1", *options]
    assert program.main(command) == 1
    assert capsys.readouterr().err.startswith(f"error: {message}")
    assert not Path("m.pt").exists()
