import gzip
import logging
import multiprocessing
import pickle
import random
import time
from pathlib import Path

import hydra
import pytest
import torch

import nmt.grammar
from nmt import BOS, EOS, PAD
from nmt.data.cache import cached
from nmt.data.datamodule import TranslationDataModule
from nmt.grammar import GrammarPair
from nmt.tokenizer import Tokenizer, train_tokenizer

NOUNS = {"cat": "Katze", "dog": "Hund", "ship": "Schiff", "town": "Stadt", "tree": "Baum"}
OPTIONS = {
    "name": "toy",
    "source_lang": "en",
    "target_lang": "de",
    "cleaning": {
        "empty": True,
        "max_length": 11,
        "max_length_ratio": 5.0,
        "identical": True,
        "duplicates": True,
    },
    "tokenizer": {"vocab_size": 311, "model_type": "unigram", "character_coverage": 1.0},
    "token_budget": 67,
    "eval_token_budget": 131,
    "num_workers": 0,
    "seed": 1,
}


def sentences(count, seed):
    """Yields different pairs of 1 to 9 words."""
    draw = random.Random(seed)
    seen = set()
    while len(seen) < count:
        words = tuple(draw.choices(list(NOUNS), k=draw.randint(1, 9)))
        if words not in seen:
            seen.add(words)
            yield " ".join(words), " ".join(NOUNS[word] for word in words)


def write(path, lines):
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode("utf-8")))


@pytest.fixture
def directory(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for seed, (name, count) in enumerate({"train": 151, "valid": 13, "test": 17}.items()):
        pairs = list(sentences(count, seed))
        if name == "train":
            pairs += [pairs[0], ("", "Hund"), ("cat", "cat"), ("cat " * 12, "Katze " * 12)]
        else:
            pairs[3] = ("", " ")
            pairs[5] = ("cat " * 200, "Katze " * 200)
        write(folder / f"{name}.en.gz", [source for source, _ in pairs])
        write(folder / f"{name}.de.gz", [target for _, target in pairs])
    return folder


@pytest.fixture
def make(directory, tmp_path):
    def make_module(**options):
        options = {"directory": str(directory), "cache_dir": str(tmp_path / "cache")} | options
        return TranslationDataModule(**OPTIONS | options)

    return make_module


def texts(module, batch):
    return [module.tokenizer.decode(row) for row in batch.target_out.tolist()]


def test_training_batches_hold_every_clean_pair_once(make):
    module = make()
    module.prepare_data()
    module.setup("fit")
    assert module.cleaning_reports["toy"].removed == {
        "empty": 1,
        "max_length": 1,
        "max_length_ratio": 0,
        "identical": 1,
        "duplicates": 1,
    }
    split = module.split("train")
    assert len(split) == module.cleaning_reports["toy"].kept == 151
    seen = []
    for batch in module.train_dataloader():
        seen += batch.index.tolist()
        assert texts(module, batch) == [split[row]["target"] for row in batch.index.tolist()]
        assert batch.source.numel() <= 67
        assert batch.target_out.numel() <= 67
    assert sorted(seen) == list(range(151))


def test_evaluation_keeps_every_pair_whatever_its_length(make):
    module = make()
    module.setup()
    assert module.test_splits == ["test"]
    for loader, name in [
        (module.eval_loader("valid"), "valid"),
        (module.eval_loader("test"), "test"),
    ]:
        batches = list(loader)
        indices = [row for batch in batches for row in batch.index.tolist()]
        assert sorted(indices) == list(range(len(module.split(name))))
        assert len(module.split(name)) == {"valid": 13, "test": 17}[name]
        longest = next(batch for batch in batches if 5 in batch.index)
        assert longest.num_target_tokens > 200
    assert module.split("test")[3] == {"source": "", "target": " "}


def test_one_split_is_read_without_the_others(make, directory):
    for language in ("en", "de"):
        (directory / f"train.{language}.gz").unlink()
    assert len(make().split("test")) == 17
    with pytest.raises(ValueError, match=r"no train\.en"):
        make().prepare_data()


def test_training_on_joined_pairs_reads_every_pair_once_in_batches_of_the_budget(make):
    module = make(concatenate={"train": [1, 2, 3], "test": [1, 2]})
    module.setup("fit")
    sources = module.split("train")["source"][:]
    loader = module.train_dataloader()
    texts_of_epochs = []
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        texts_of_epochs.append([])
        for batch in loader:
            assert batch.source.numel() <= 67
            texts_of_epochs[-1] += [module.tokenizer.decode(row) for row in batch.source.tolist()]
        words = " ".join(texts_of_epochs[-1]).split()
        assert sorted(words) == sorted(" ".join(sources).split())
    assert len(texts_of_epochs[0]) < 151
    assert set(texts_of_epochs[0]) != set(texts_of_epochs[1])
    longest = max(len(text.split()) for text in texts_of_epochs[0])
    assert module.longest_train_source_words == longest > 9


def test_joined_test_inputs_hold_the_test_set_once_for_each_size(make):
    module = make(concatenate={"train": [1], "test": [1, 2]})
    assert module.test_splits == ["test", "test_joined"]
    alone, joined = module.split("test"), module.split("test_joined")
    assert len(joined) == 17 + 9
    assert joined[:17]["target"] == alone["target"][:]
    assert joined[17]["source"] == f"{alone[0]['source']} {alone[1]['source']}"
    assert joined[25] == {side: alone[16][side] for side in ("source", "target")}


@pytest.mark.parametrize("sizes", [[], [0], "12", 2, [1.0]])
def test_impossible_sizes_of_joined_inputs_are_refused(make, sizes):
    with pytest.raises(ValueError, match=r"data\.concatenate\.test is .*each 1 or more"):
        make(concatenate={"train": [1], "test": sizes})


def test_a_batch_is_pieces_with_the_special_tokens(make):
    module = make()
    module.setup()
    batch = next(iter(module.eval_loader("valid")))
    assert batch.target_in[:, 0].tolist() == [BOS] * len(batch)
    for row, index in enumerate(batch.index.tolist()):
        ids = module.tokenizer.encode(module.split("valid")[index]["source"])
        filler = [PAD] * (batch.source.shape[1] - len(ids) - 1)
        assert batch.source[row].tolist() == [*ids, EOS, *filler]


def test_references_are_the_raw_text(make, directory):
    raw = [f"Der ﬁnale\u00a0Ärger  ½ {k}" for k in range(17)]
    write(directory / "test.de.gz", raw)
    module = make()
    assert module.split("test")["target"][:] == raw


def test_the_other_direction_swaps_the_sides(make):
    forth, back = make(), make(source_lang="de", target_lang="en")
    row = forth.split("valid")[7]
    assert back.split("valid")[7] == {"source": row["target"], "target": row["source"]}


def test_a_second_start_makes_nothing_again(make, monkeypatch):
    first = make()
    first.prepare_data()
    monkeypatch.setattr("nmt.data.preparation.train_tokenizer", None)
    monkeypatch.setattr(Tokenizer, "encode_batch", None)
    monkeypatch.setattr("nmt.data.cleaning._find", None)
    second = make()
    second.prepare_data()
    assert second.tokenizer.model == first.tokenizer.model
    batches = zip(first.train_dataloader(), second.train_dataloader(), strict=True)
    assert all(torch.equal(a.source, b.source) for a, b in batches)


@pytest.mark.parametrize("change", ["file", "rule", "tokenizer", "direction"])
def test_a_change_is_never_answered_from_the_cache(make, directory, change):
    before = make()
    before.prepare_data()
    options = {}
    if change == "file":
        for lang in ("en", "de"):
            write(directory / f"train.{lang}.gz", [f"{lang} new {k}" for k in range(7)])
    elif change == "rule":
        options = {"cleaning": OPTIONS["cleaning"] | {"max_length": 3}}
    elif change == "tokenizer":
        options = {"tokenizer": OPTIONS["tokenizer"] | {"model_type": "bpe"}}
    else:
        options = {"source_lang": "de", "target_lang": "en"}
    module = make(**options)
    module.setup()
    decoded = {}
    for batch in module.train_dataloader():
        decoded |= dict(zip(batch.index.tolist(), texts(module, batch), strict=True))
    expected = [" ".join(row["target"].split()) for row in module.split("train")]
    assert [decoded[row] for row in range(len(decoded))] == expected
    if change == "rule":
        assert module.longest_train_source_words == 3
    if change == "tokenizer":
        assert module.tokenizer.model != before.tokenizer.model


def test_a_given_tokenizer_is_used(make, tmp_path):
    model = train_tokenizer(list(NOUNS.values()) * 9, vocab_size=283)
    (tmp_path / "given.model").write_bytes(model)
    path = str(tmp_path / "given.model")
    module = make(tokenizer=OPTIONS["tokenizer"] | {"path": path})
    assert module.tokenizer.model == model
    (tmp_path / "no.ckpt").write_bytes(b"no checkpoint")
    for name in ("none.model", "no.ckpt"):
        with pytest.raises(ValueError, match=rf"tokenizer\.path .*{name} cannot be read"):
            _ = make(tokenizer=OPTIONS["tokenizer"] | {"path": str(tmp_path / name)}).tokenizer


def test_no_pair_left_is_an_error_with_the_counts(make, directory):
    write(directory / "train.en.gz", ["", "same"])
    write(directory / "train.de.gz", ["leer", "same"])
    with pytest.raises(ValueError, match=r"removed all 2 training pairs .*'empty': 1"):
        make().prepare_data()


def test_three_pairs_make_batches(make, directory):
    for lang in ("en", "de"):
        write(directory / f"train.{lang}.gz", [f"{lang} {k}" for k in range(3)])
    module = make()
    module.setup()
    assert sorted(row for batch in module.train_dataloader() for row in batch.index) == [0, 1, 2]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_sampled_pieces_are_a_function_of_epoch_and_pair(make, model_type):
    def drawn(epoch, **options):
        sampled = {"sampling": 0.2, "model_type": model_type}
        module = make(tokenizer=OPTIONS["tokenizer"] | sampled, **options)
        module.setup()
        loader = module.train_dataloader()
        loader.sampler.set_epoch(epoch)
        rows = [
            row for b in loader for row in zip(b.index.tolist(), b.source.tolist(), strict=True)
        ]
        return {index: [piece for piece in source if piece] for index, source in rows}

    first = drawn(0)
    assert drawn(0, num_workers=1) == drawn(0, token_budget=131) == first
    assert sum(first[index] != pieces for index, pieces in drawn(1).items()) > len(first) / 2


def test_pairs_can_be_sent_to_workers(make):
    module = make()
    module.setup()
    pairs = module.eval_loader("valid").dataset
    sent = pickle.loads(pickle.dumps(pairs))
    assert torch.equal(sent[[5, 2]].source, pairs[[5, 2]].source)
    assert len(pickle.dumps(pairs)) < 1000


def test_an_unknown_split_is_named(make):
    with pytest.raises(ValueError, match="no split 'tset'; choose one of train, valid, test"):
        make().split("tset")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token_budget": 0}, r"data\.token_budget is 0"),
        ({"eval_token_budget": "many"}, r"data\.eval_token_budget is 'many'"),
        ({"num_workers": -1}, r"data\.num_workers is -1"),
        ({"length_unit": "piece"}, "length_unit is 'piece'"),
        ({"cleaning": {"max_lenght": 3}}, "max_lenght.*its keys are .*max_length"),
        ({"cleaning": {"empty": True}}, "missing a required .*'max_length'"),
        ({"cleaning": OPTIONS["cleaning"] | {"language": "m.pt"}}, "language.*its keys are empty"),
        ({"tokenizer": OPTIONS["tokenizer"] | {"model_type": "word"}}, "model_type is 'word'; it"),
        ({"source_lang": "de"}, "both de"),
        ({"source_lang": False}, r"data\.source_lang is False"),
        ({"tain": "a.tsv"}, "unexpected keyword argument 'tain'"),
        ({"tokenizer": {"vocabsize": 3}}, "vocabsize.*its keys are vocab_size"),
        ({"tokenizer": 4000}, r"data\.tokenizer is 4000"),
        ({"directory": None}, r"set data\.directory"),
    ],
)
def test_impossible_options_are_refused_before_anything_is_read(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


CONFIGS = Path(__file__).parents[2] / "conf"
NAMES = sorted({path.stem for path in (CONFIGS / "data").glob("*.yaml")} - {"default"})


def configured(name, *overrides):
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = hydra.compose(overrides=[f"+data={name}", *overrides])
    return hydra.utils.instantiate(config.data)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("direction", [("en", "de"), ("de", "en")])
def test_every_data_config_builds_for_local_files(name, direction, directory, tmp_path):
    source, target = direction
    module = configured(
        name,
        f"data.directory={directory}",
        "data.directory_splits={train:train,valid:valid,test:test}",
        "data.grammar=null",
        f"data.cache_dir={tmp_path / 'cache'}",
        f"data.source_lang={source}",
        f"data.target_lang={target}",
    )
    module.setup()
    assert module.tokenizer.vocab_size < 400
    assert len(module.split("valid")) == 13


# The cache


def slowly(folder):
    with open(folder.parent / "made", "a", encoding="utf-8") as file:
        file.write("x")
    time.sleep(0.3)
    (folder / "result").write_text("whole", encoding="utf-8")


def test_two_processes_make_one_result(tmp_path):
    context = multiprocessing.get_context("fork")
    args = (tmp_path / "cache", "name", slowly, Path)
    processes = [context.Process(target=cached, args=args) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "cache" / "made").read_text(encoding="utf-8") == "x"
    assert (tmp_path / "cache" / "name" / "result").read_text(encoding="utf-8") == "whole"


def test_an_interrupted_result_is_not_there(tmp_path):
    def interrupted(folder):
        (folder / "result").write_text("half", encoding="utf-8")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, "name", interrupted, Path)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert not (cached(tmp_path, "name", lambda folder: None, Path) / "result").exists()


# The grammar


@pytest.fixture
def stand_in(monkeypatch):
    calls = []

    def generate_splits(*, seed=1, train_size=5):
        calls.append(seed)
        pair = GrammarPair(
            source="the dogs sleep",
            target="die Hunde schlafen jetzt",
            sure=((1, 1), (2, 2)),
            possible=((0, 0), (2, 3)),
            bits=7.5,
            num_sentences=1,
        )
        return {"train": [pair] * train_size, "valid": [pair], "test": [pair], "test_long": [pair]}

    monkeypatch.setattr(nmt.grammar, "generate_splits", generate_splits)
    return calls


def test_the_grammar_is_generated_once_with_its_links(make, stand_in):
    options = {"directory": None, "grammar": {"seed": 3, "train_size": 7}}
    for _ in range(2):
        module = make(**options)
        assert module.test_splits == ["test", "test_long"]
        assert module.split("test_long")[0] == {
            "source": "the dogs sleep",
            "target": "die Hunde schlafen jetzt",
            "sure": [[1, 1], [2, 2]],
            "possible": [[0, 0], [2, 3]],
            "bits": 7.5,
            "num_sentences": 1,
        }
    assert stand_in == [3]
    assert module.cleaning_reports["toy"].total == 7


def test_the_grammar_backwards_swaps_text_and_links(make, stand_in):
    module = make(directory=None, grammar={}, source_lang="de", target_lang="en")
    row = module.split("valid")[0]
    assert (row["source"], row["target"]) == ("die Hunde schlafen jetzt", "the dogs sleep")
    assert row["possible"] == [[0, 0], [3, 2]]


def test_the_real_grammar_makes_batches(make):
    grammar = {"train_size": 31, "valid_size": 5, "test_per_bucket": 2}
    module = make(directory=None, grammar=grammar)
    module.setup()
    sizes = {name: len(module.split(name)) for name in ("valid", "test", "test_long")}
    assert sizes == {"valid": 5, "test": 10, "test_long": 6}
    assert len(list(module.eval_loader("test_long"))) > 0
    row = module.split("test")[0]
    words = len(row["source"].split()), len(row["target"].split())
    links = row["sure"] + row["possible"]
    assert all(source < words[0] and target < words[1] for source, target in links)


def test_other_languages_and_keys_are_refused_by_the_grammar(make, stand_in):
    with pytest.raises(ValueError, match="en-de and de-en, not en-fr"):
        make(directory=None, grammar={}, target_lang="fr").prepare_data()
    with pytest.raises(ValueError, match=r"data\.grammar .*unexpected keyword argument 'sead'"):
        make(directory=None, grammar={"sead": 1}).prepare_data()
    assert stand_in == []


def test_the_cleaning_table_is_logged(make, caplog):
    with caplog.at_level(logging.INFO):
        make().split("train")
    assert "seen before" in caplog.text


def test_a_file_that_cannot_be_read_is_not_blamed_on_the_cache(tmp_path):
    def make(folder):
        (tmp_path / "gone.txt").read_bytes()

    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        cached(tmp_path / "cache", "a", make, Path)


def test_a_cache_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "cache").touch()
    with pytest.raises(ValueError, match=r"data\.cache_dir .*cache cannot be written"):
        cached(tmp_path / "cache", "a", lambda folder: None, Path)


@pytest.mark.parametrize("name", ["text", "cleaned", "tokenizer", "tokenised"])
def test_a_cut_file_in_the_cache_is_named_with_the_remedy(make, tmp_path, name):
    make().prepare_data()
    for file in (tmp_path / "cache").glob(f"{name}-*/*"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ValueError, match=rf"cache/{name}-\w+ is damaged .*delete this folder"):
        make().prepare_data()


def test_test_pairs_that_stand_in_training_are_counted(make, directory, caplog):
    for lang in ("en", "de"):
        lines = gzip.decompress((directory / f"train.{lang}.gz").read_bytes()).decode().split("\n")
        write(directory / f"test.{lang}.gz", [*lines[:3], *(f"{lang} {k}" for k in range(97))])
    module = make()
    module.prepare_data()
    assert module.seen_in_training == {"test": 3}
    assert "3 of 100 pairs of test stand in the training text too" in caplog.text


def test_a_large_corpus_is_prepared_by_several_processes_with_the_same_result(make, monkeypatch):
    whole = make()
    whole.prepare_data()
    monkeypatch.setattr("nmt.data.cleaning._ROWS_OF_A_PROCESS", 70)
    monkeypatch.setattr("nmt.data.preparation._LARGE", 70)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    parts = make(cache_dir=str(whole._cache_dir) + "2")
    parts.prepare_data()
    assert parts.cleaning_reports == whole.cleaning_reports
    assert parts.tokenizer.model == whole.tokenizer.model
    batches = zip(whole.train_dataloader(), parts.train_dataloader(), strict=True)
    assert all(torch.equal(a.source, b.source) for a, b in batches)
