"""The export to CTranslate2 computes what the checkpoint computes, and refuses what it cannot."""

import io
import json
import math
import random
import sys

import pytest
import torch
from checkpoints import write_checkpoint
from models_for_tests import OPTIONS, tiny_model

from nmt import BOS, EOS, PAD
from nmt.cli.translate import main as translate_main
from nmt.data.preparation import train_tokenizer
from nmt.decoding.beam import BeamSearch
from nmt.decoding.greedy import GreedySearch
from nmt.decoding.sampling import Sampling
from nmt.decoding.search import Hypothesis
from nmt.export.conversion import export_checkpoint, import_ctranslate2, to_ctranslate2
from nmt.export.engine import ExportedTranslator
from nmt.models.encoder_attention import LINEAR, SPARSE
from nmt.tokenizer import Tokenizer
from nmt.translator import Translator

pytest.importorskip("ctranslate2", reason="needs pip install 'nmt[export]'")

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf"}


def sentences(count, *, seed=3, longest=9):
    draw = random.Random(seed)
    return [" ".join(draw.choices(list(WORDS), k=draw.randint(1, longest))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([*sentences(99), *WORDS.values(), "ä ö ü"], vocab_size=320)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, tokenizer):
    return write_checkpoint(tmp_path_factory.mktemp("run") / "best.ckpt", tokenizer)


@pytest.fixture(scope="module")
def folder(checkpoint, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "model"
    export_checkpoint(checkpoint, path)
    return path


@pytest.fixture(scope="module")
def trained(checkpoint):
    return Translator.from_checkpoint(checkpoint)


@pytest.fixture(scope="module")
def exported(folder):
    return ExportedTranslator.from_folder(folder, threads=1)


def assert_same(found, expected):
    assert [f.source for f in found] == [e.source for e in expected]
    for one, other in zip(found, expected, strict=True):
        assert [a.tokens for a in one.alternatives] == [a.tokens for a in other.alternatives]
        for mine, theirs in zip(one.alternatives, other.alternatives, strict=True):
            assert (mine.text, mine.finished) == (theirs.text, theirs.finished)
            assert mine.score == pytest.approx(theirs.score, abs=1e-4)
            assert mine.log_prob == pytest.approx(theirs.log_prob, abs=1e-3)


def test_greedy_translations_of_200_sentences_are_identical_and_so_are_their_scores(
    trained, exported
):
    texts = sentences(200)
    search = GreedySearch(max_length=13)
    expected = trained.translate(texts, search=search)
    assert len({e.text for e in expected}) > 50
    assert_same(exported.translate(texts, search=search), expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "sinusoidal"},
        {"positions": "learned"},
        {"num_kv_heads": 4},
        {"num_kv_heads": 1},
        {"encoder_layers": 1, "decoder_layers": 2},
    ],
)
def test_every_kind_of_transformer_is_exported(tokenizer, tmp_path, changes):
    path = write_checkpoint(tmp_path / "best.ckpt", tokenizer, **changes)
    export_checkpoint(path, tmp_path / "model")
    texts, search = sentences(20), GreedySearch(max_length=13)
    expected = Translator.from_checkpoint(path).translate(texts, search=search)
    engine = ExportedTranslator.from_folder(tmp_path / "model", threads=1)
    assert_same(engine.translate(texts, search=search), expected)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_length": 3},
        {"max_length": 40, "max_length_ratio": 0.1},
        {"max_length": 9, "min_length": 5},
    ],
)
def test_limits_are_passed_and_what_they_end_is_unfinished(trained, exported, limits):
    """Each sentence has its own, from its length; CTranslate2 would have one for all, of 256."""
    texts, search = sentences(30, longest=20), GreedySearch(**limits)
    expected = trained.translate(texts, search=search)
    assert not all(e.alternatives[0].finished for e in expected)
    assert_same(exported.translate(texts, search=search), expected)


def test_a_long_source_is_not_cut_by_the_engine(trained, exported):
    text = " ".join(sentences(220))
    assert len(trained.tokenizer.encode(text)) > 1024
    search = GreedySearch(max_length=7)
    options = {"search": search, "max_source_length": 5000}
    assert_same(exported.translate([text], **options), trained.translate([text], **options))


def test_beams_have_exact_scores_with_the_end_counted_best_first(trained, exported):
    search = BeamSearch(beam_size=4, num_hypotheses=3, length_penalty=0.7, max_length=13)
    translations = exported.translate(sentences(20), search=search)
    assert sum(len(translation.alternatives) for translation in translations) > 40
    for translation in translations:
        assert len(translation.alternatives) <= 3
        keys = [(not a.finished, -a.score) for a in translation.alternatives]
        assert keys == sorted(keys)
        pairs = [(translation.source, a.tokens) for a in translation.alternatives]
        for found, scored in zip(translation.alternatives, trained.score(pairs), strict=True):
            log_probs = scored.token_log_probs[: len(found.tokens) + found.finished]
            assert found.log_prob == pytest.approx(sum(log_probs), abs=1e-3)
            assert found.score == pytest.approx(found.log_prob / len(log_probs) ** 0.7, abs=1e-3)


def test_suppressed_pieces_are_never_emitted(tokenizer, tmp_path):
    """A model that wants a line feed above all."""
    path = write_checkpoint(tmp_path / "best.ckpt", tokenizer)
    content = torch.load(path, weights_only=True)
    forbidden = Tokenizer(tokenizer).forbidden_ids
    content["state_dict"]["model.embedding.table.weight"][list(forbidden)] *= 9.0
    torch.save(content, path)
    export_checkpoint(path, tmp_path / "model")
    engine = ExportedTranslator.from_folder(tmp_path / "model", threads=1)
    for beam_size in (1, 3):
        search = BeamSearch(beam_size=beam_size, max_length=13)
        for translation in engine.translate(sentences(20), search=search):
            assert not set(translation.alternatives[0].tokens) & {PAD, BOS, EOS, *forbidden}
    expected = Translator.from_checkpoint(path).translate(sentences(20), search=GreedySearch())
    assert_same(engine.translate(sentences(20), search=GreedySearch()), expected)


def test_blank_sentences_batches_and_chunks_do_not_matter(exported):
    texts = ["one", "", "two three", "\u3000", *sentences(20)]
    whole = exported.translate(texts)
    assert [whole[1].text, whole[3].text] == ["", ""]
    assert_same(list(exported.stream(texts, chunk_size=3, batch_tokens=11)), whole)


def test_the_folder_holds_what_it_takes_to_use_it_without_nmt(folder, tokenizer):
    assert {path.name for path in folder.iterdir()} == {
        *("model.bin", "config.json", "shared_vocabulary.json"),
        *("spm.model", "nmt.json", "README.md"),
    }
    assert (folder / "spm.model").read_bytes() == tokenizer
    readme = (folder / "README.md").read_text(encoding="utf-8")
    code = readme.split("```python\n")[1].split("```")[0]
    code = code.replace('"spm.model"', repr(str(folder / "spm.model")))
    code = code.replace('Translator(".",', f"Translator({str(folder)!r},").replace("print(", "str(")
    found = {}
    exec(code.replace("1024,  # else it cuts what is longer than 256", "13,"), found)
    expected = ExportedTranslator.from_folder(folder).translate(
        ["A sentence."], search=BeamSearch(beam_size=5, max_length=12)
    )
    assert found["pieces"].decode(found["result"].hypotheses[0][:-1]) == expected[0].text


def test_languages_and_search_are_those_of_the_checkpoint(exported, trained):
    assert (exported.source_lang, exported.target_lang) == ("en", "de")
    assert exported.search == trained.search == BeamSearch(beam_size=3, max_length=13)


def test_int8_is_smaller_and_still_translates(checkpoint, folder, tmp_path):
    export_checkpoint(checkpoint, tmp_path / "model", quantization="int8")
    size, whole = ((path / "model.bin").stat().st_size for path in (tmp_path / "model", folder))
    assert size < 0.5 * whole
    engine = ExportedTranslator.from_folder(tmp_path / "model", threads=1)
    assert len(engine.translate(sentences(7))) == 7


def test_a_recurrent_model_is_refused_with_what_to_do_instead(tokenizer, tmp_path):
    path = write_checkpoint(tmp_path / "best.ckpt", tokenizer, "rnn")
    with pytest.raises(ValueError, match=r"Transformers only: .* scripts/translate\.py\.$"):
        export_checkpoint(path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "option",
    [
        {"memory_slots": 2},
        {"positions": "alibi"},
        *({"encoder_attention": kind} for kind in (*SPARSE, *LINEAR)),
    ],
    ids=str,
)
def test_what_the_engine_lacks_is_refused_by_name(tokenizer, option):
    tokenizer = Tokenizer(tokenizer)
    model = tiny_model("transformer", vocab_size=tokenizer.vocab_size, **option)
    ((name, value),) = option.items()
    with pytest.raises(ValueError, match=f"{name}={value}, which .* lacks"):
        to_ctranslate2(model, tokenizer, quantization="float32")


def test_a_source_beyond_the_last_position_is_refused(tokenizer, tmp_path):
    path = write_checkpoint(tmp_path / "best.ckpt", tokenizer, positions="learned")
    export_checkpoint(path, tmp_path / "model")
    engine = ExportedTranslator.from_folder(tmp_path / "model", threads=1)
    assert OPTIONS["transformer"]["max_positions"] == 41
    with pytest.raises(ValueError, match=r"line 2 has \d+ source tokens, .* 41 positions"):
        engine.translate(["one", "one two " * 30])
    # A translation ends there, whatever the limits say.
    search = GreedySearch(max_length=90, min_length=70)
    (longest,) = engine.translate(["one two three " * 4], search=search)
    assert len(longest.alternatives[0].tokens) == 40


def test_a_model_that_gives_no_numbers_is_named(exported, monkeypatch):
    nothing = Hypothesis(tokens=(7,), score=math.nan, log_prob=math.nan, finished=True)
    monkeypatch.setattr(exported, "_hypothesis", lambda *found: nothing)
    with pytest.raises(ValueError, match="not a number"):
        exported.translate(["one"])


def test_a_folder_in_use_is_refused(checkpoint, folder):
    with pytest.raises(ValueError, match="not an empty folder"):
        export_checkpoint(checkpoint, folder)


def test_a_folder_that_is_no_export_is_refused(tmp_path, folder):
    with pytest.raises(ValueError, match="is no exported model"):
        ExportedTranslator.from_folder(tmp_path)
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for content, message in (
        ({"format_version": 99}, "format_version is 99"),
        ([1], "is no exported model"),
        ({"format_version": 1}, "decoding"),
    ):
        (tmp_path / "nmt.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            ExportedTranslator.from_folder(tmp_path)


@pytest.mark.parametrize(
    "option", [{"search": Sampling()}, {"prefixes": ["eins"]}, {"alignment": "word"}]
)
def test_what_only_a_checkpoint_does_is_refused(exported, option):
    with pytest.raises(ValueError, match=r"no Sampling like ours|no prefix and aligns"):
        exported.translate(["one"], **option)


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ValueError, match=r"pip install 'nmt\[export\]'"):
        import_ctranslate2()


@pytest.fixture
def translate(monkeypatch):
    """Runs the translate program in this process: bytes in; status and bytes out."""

    def run(data, *arguments):
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        stdout = io.TextIOWrapper(written)
        monkeypatch.setattr(sys, "stdout", stdout)
        status = translate_main([str(argument) for argument in arguments])
        monkeypatch.undo()
        return status, written.getvalue()

    return run


def test_the_program_gives_the_same_with_either_engine(translate, checkpoint, folder):
    data = "\n".join([*sentences(9), "", "four"]).encode()
    options = ["--beam-size", "1", "--max-length", "11", "--threads", "1"]
    expected = translate(data, checkpoint, *options)
    assert expected[0] == 0
    assert expected[1].count(b"\n") == 11
    assert translate(data, folder, "--engine", "ctranslate2", *options) == expected


def test_the_program_refuses_a_checkpoint_with_the_other_engine(translate, checkpoint, capsys):
    assert translate(b"one\n", checkpoint, "--engine", "ctranslate2") == (1, b"")
    assert "is no exported model" in capsys.readouterr().err


def test_options_of_the_program_that_the_engine_lacks_are_refused_by_name(
    translate, folder, capsys
):
    assert translate(b"", folder, "--engine", "ctranslate2", "--top-k", "5") == (1, b"")
    assert "--top-k is not available with --engine ctranslate2" in capsys.readouterr().err
