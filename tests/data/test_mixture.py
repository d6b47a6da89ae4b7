import json
from collections import Counter

import hydra
import pytest
from number_words import (
    corpus_options,
    make_run,
    model_options,
    pairs,
    trainer_options,
    write_split,
)

from nmt.cli.evaluate import write_results
from nmt.config import check_config, config_directory
from nmt.data.datamodule import TranslationDataModule
from nmt.decoding.search import Hypothesis

WEIGHTS = {"news": 2, "talks": 0.5}


@pytest.fixture
def corpora(tmp_path):
    """41 and 60 training pairs; what `talks` is scored on is a copy of the source."""
    copies = [(f"{word} one two three four",) * 2 for word in ("six", "seven", "eight")]
    sets = {
        "news": {"train": pairs(41, seed=1) + pairs(3, seed=1), "valid": pairs(5, seed=2)},
        "talks": {"train": pairs(60, seed=3), "valid": copies, "test": pairs(4, seed=4)},
    }
    return {
        name: {
            split: write_split(tmp_path / name, split, content) for split, content in splits.items()
        }
        | {"weight": WEIGHTS[name]}
        for name, splits in sets.items()
    }


@pytest.fixture
def make(corpora, tmp_path):
    def make_module(**options):
        defaults = {
            "name": "mixture",
            "source_lang": "en",
            "target_lang": "de",
            "cleaning": {
                "empty": True,
                "max_length": 50,
                "max_length_ratio": 5.0,
                "identical": True,
                "duplicates": True,
            },
            "tokenizer": {"vocab_size": 311, "model_type": "unigram", "character_coverage": 1.0},
            "token_budget": 67,
            "eval_token_budget": 131,
            "num_workers": 0,
            "seed": 1,
            "cache_dir": str(tmp_path / "cache"),
            "corpora": corpora,
        }
        return TranslationDataModule(**defaults | options)

    return make_module


def test_splits_are_called_by_their_corpus(make):
    module = make()
    module.prepare_data()
    assert module.valid_splits == ["valid_news", "valid_talks"]
    assert module.test_splits == ["test_talks"]
    assert module.split("test_talks")["source"][:] == [source for source, _ in pairs(4, seed=4)]
    with pytest.raises(ValueError, match="no split 'test'; choose one of train, valid_news"):
        module.split("test")


def test_an_epoch_has_each_pair_as_often_as_its_corpus_says(make):
    module = make()
    module.prepare_data()
    train = module.split("train")
    assert len(train) == 101
    assert module.longest_train_source_words == max(module.source_units("train"))
    loader = module.train_dataloader()
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        seen = Counter()
        for batch in loader:
            seen.update(batch.index.tolist())
            assert [module.tokenizer.decode(row) for row in batch.target_out.tolist()] == [
                train[row]["target"] for row in batch.index.tolist()
            ]
        assert {seen[row] for row in range(41)} == {2}
        assert Counter(seen[row] for row in range(41, 101)) == {0: 30, 1: 30}


def test_the_tokenizer_learns_from_the_weighted_text(make, corpora, monkeypatch):
    taken = []

    def train(lines, **options):
        taken.extend(lines)
        raise KeyboardInterrupt

    monkeypatch.setattr("nmt.data.preparation.train_tokenizer", train)
    with pytest.raises(KeyboardInterrupt):
        _ = make().tokenizer
    assert len(taken) == 2 * (2 * 41 + 30)
    lines = Counter(taken)
    news, talks = (dict(pairs(n, seed=s)) for n, s in ((41, 1), (60, 3)))
    assert all(lines[source] >= 2 for source in news)
    assert sum(source in lines for source in talks if source not in news) <= 30


def test_keys_beside_the_corpora_hold_for_all_that_have_none_of_their_own(make, corpora, tmp_path):
    for name, row in (("turned", "eins\tone"), ("straight", "one\teins")):
        (tmp_path / f"{name}.tsv").write_text(f"{row}\n" * 3, encoding="utf-8")
    entries = {name: corpora["talks"] | {"valid": f"{tmp_path}/{name}.tsv"} for name in ("a", "b")}
    entries["a"]["valid"] = f"{tmp_path}/turned.tsv"
    entries["b"] |= {"valid": f"{tmp_path}/straight.tsv", "columns": {"en": 0, "de": 1}}
    module = make(corpora=entries, columns={"en": 1, "de": 0})
    assert [module.split(f"valid_{name}")[2]["source"] for name in "ab"] == ["one", "one"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": 0}, r"data\.corpora\.news\.weight is 0; it must be a positive"),
        ({"weight": -1.5}, r"weight is -1\.5"),
        ({"weight": "2"}, "weight is '2'"),
        ({"weight": True}, "weight is True"),
        ({"weight": float("inf")}, "weight is inf"),
        ({"wieght": 2}, r"data\.corpora\.news .*unexpected keyword argument 'wieght'"),
        ({"valid": None}, r"data\.corpora\.news\.valid is missing"),
        ({"train": None}, r"data\.corpora\.news\.train is missing"),
        ({"directory": "x"}, r"more than one origin: data\.corpora\.news\.hub or"),
    ],
)
def test_impossible_entries_are_refused_before_anything_is_read(make, corpora, change, message):
    with pytest.raises(ValueError, match=message):
        make(corpora=corpora | {"news": corpora["news"] | change})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corpora": {}}, r"data\.corpora is {}"),
        ({"corpora": ["a"]}, r"data\.corpora is \['a'\]"),
        ({"corpora": {"a/b": {}}}, r"data\.corpora\.a/b: call it by letters"),
        ({"directory": "x"}, r"data\.directory and data\.corpora are both given"),
        ({"concatenate": {"train": [1], "test": [1]}}, r"data\.concatenate joins pairs of one"),
    ],
)
def test_impossible_mixtures_are_refused_before_anything_is_read(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_a_mixture_needs_a_test_set(make, corpora):
    without = {key: value for key, value in corpora["talks"].items() if key != "test"}
    with pytest.raises(ValueError, match="has a test set"):
        make(corpora=corpora | {"talks": without}).prepare_data()


def test_two_splits_of_one_name_are_refused(make, corpora, tmp_path):
    splits = {name: name for name in ("train", "valid", "test")}
    directory = {"directory": str(tmp_path / "talks")}
    one = {"x": directory | {"directory_splits": splits | {"test_y": "test"}}}
    with pytest.raises(ValueError, match=r"data\.corpora\.y_x has a split .* called test_y_x"):
        make(corpora=one | {"y_x": directory}).prepare_data()


def test_a_mixture_can_be_written_on_the_command_line():
    news = "news:{train:[a.en,a.de],valid:[b.en,b.de],test:[c.en,c.de],weight:2}"
    options = [
        *("data=mixture", "data.source_lang=en", "data.target_lang=de"),
        f"data.corpora={{{news},talks:{{directory:.,weight:0.5}}}}",
        *("run_dir=x", "model_name=m"),
    ]
    with hydra.initialize_config_dir(str(config_directory()), version_base="1.3"):
        config = hydra.compose("train", overrides=options)
    check_config(config)
    assert config.data.corpora.talks.weight == 0.5
    hydra.utils.instantiate(config.data)


def copy_the_source(model, source, source_mask, *, forbidden_ids):
    return [[Hypothesis(tuple(row[:-1].tolist()), 0.0, 0.0, True)] for row in source]


def test_each_validation_set_is_scored_by_itself_and_the_means_are_followed(corpora, tmp_path):
    options = corpus_options(tmp_path / "unused")
    mixed = [
        option
        for option in options
        if not option.startswith(("data=", "data.train", "data.valid", "data.test="))
    ]
    run = make_run(
        "data=mixture",
        *mixed,
        *model_options("transformer"),
        *trainer_options(tmp_path / "run", max_steps=2),
        "decoding=greedy",
        **{"data.corpora": corpora},
    )
    run.module.validation_search = copy_the_source
    best = run.fit()
    logged = {name: float(value) for name, value in run.log[-1].items() if value}
    assert logged["valid_talks_bleu"] == pytest.approx(100)
    assert logged["valid_news_bleu"] == 0
    assert logged["valid_bleu"] == pytest.approx(50)
    losses = [logged["valid_news_loss"], logged["valid_talks_loss"]]
    assert losses[0] != losses[1]
    assert logged["valid_loss"] == pytest.approx(sum(losses) / 2)
    assert float(run.trainer.checkpoint_callback.best_model_score) == pytest.approx(50)
    write_results(run.config, run.data, run.module, best)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    sizes = {
        name: metrics[name]["num_sentences"]
        for name in metrics
        if name.startswith(("valid", "test"))
    }
    assert sizes == {"test_talks": 4, "valid_news": 5, "valid_talks": 3}
