"""The probes of a finished run: what they measure, by hand, and the files they leave."""

import json
import math
import shutil
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch
from models_for_tests import OPTIONS, tiny_model
from number_words import (
    corpus_options,
    make_run,
    model_options,
    pairs,
    trainer_options,
    write_split,
)
from omegaconf import OmegaConf

from nmt.alignment import attention_links, gold_links, score_alignment
from nmt.cli.probe import main
from nmt.data.batch import collate
from nmt.evaluation.results import TranslatedSentence
from nmt.scoring import TranslationScore
from nmt.study import measure
from nmt.study.findings import cost
from nmt.study.findings.cost import count_training_flops
from nmt.study.findings.joined import groups_by_size
from nmt.study.findings.likelihood import nll_by_length_and_position
from nmt.study.findings.training_inputs import sample_by_length, training_inputs
from nmt.study.measure import TrainedRun, probe_run
from nmt.translator import Translator


def finished_run(folder, *options):
    """Trains for one update and returns the run's folder."""
    run = make_run(*options, *trainer_options(folder, max_steps=1), "decoding.max_length=20")
    run.fit()
    OmegaConf.save(run.config, folder / "config.yaml", resolve=True)
    return folder


@pytest.fixture(scope="module")
def grammar(tmp_path_factory):
    """Options of a tiny corpus of the grammar, which has gold links and bits."""
    return [
        "data=grammar",
        f"data.cache_dir={tmp_path_factory.mktemp('cache')}",
        "data.grammar.train_size=150",
        "data.grammar.valid_size=11",
        "data.grammar.test_per_bucket=5",
        "data.tokenizer.vocab_size=400",
    ]


@pytest.fixture(scope="module")
def attending(tmp_path_factory, grammar):
    """A run with attention on the grammar, probed."""
    model = model_options("transformer", decoder_layers=2)
    folder = finished_run(tmp_path_factory.mktemp("run"), *grammar, *model)
    probe_run(folder)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run without attention on a corpus without gold links, probed."""
    text = corpus_options(tmp_path_factory.mktemp("text"), test=13)
    folder = finished_run(tmp_path_factory.mktemp("run"), *text, *model_options("rnn"))
    probe_run(folder)
    return folder


def numbers(run):
    return json.loads((run / "probes" / "probes.json").read_text(encoding="utf-8"))


def lines(run, name):
    text = (run / "probes" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def data_of(run):
    return measure.load_run(run, device="cpu").data


# Joined inputs.


def test_every_group_size_has_the_same_sentences_in_the_same_order():
    groups = groups_by_size(range(50, 74), [9] * 100)
    by_size = {size: [g for g in groups if len(g) == size] for size in range(1, 9)}
    order = [index for (index,) in by_size[1]]
    assert sorted(order) == list(range(50, 74))
    assert order != sorted(order)
    assert groups == groups_by_size(range(50, 74), [9] * 100)
    for size, found in by_size.items():
        flat = [index for group in found for index in group]
        assert flat == order[: 24 - 24 % size]


def test_sizes_whose_inputs_are_too_long_in_the_mean_are_left_out():
    assert max(map(len, groups_by_size(range(24), [16] * 24))) == 5
    assert max(map(len, groups_by_size(range(24), [17] * 24))) == 4
    assert sorted(map(len, groups_by_size([4, 5], [3] * 9))) == [1, 1, 2]  # few make small ones
    assert groups_by_size([], []) == []


def test_joined_inputs_hold_the_references_of_their_sentences_and_translations_alone(plain):
    rows, data = lines(plain, "joined.jsonl"), data_of(plain)
    targets = data.split("test")["target"][:]
    alone = [row for row in rows if row["num_joined"] == 1]
    assert sorted(row["reference"] for row in alone) == sorted(targets)
    translations = {row["reference"]: row["alone"] for row in alone}
    assert all(row["joined"] == row["alone"] for row in alone)
    for row in rows:
        if row["num_joined"] == 2:
            (pair,) = [(t, u) for t in targets for u in targets if f"{t} {u}" == row["reference"]]
            assert row["alone"] == " ".join(translations[target] for target in pair)
            assert row["source_words"] == len(row["reference"].split())


def test_only_short_single_sentences_are_joined(attending):
    test = data_of(attending).split("test")
    single = {
        row["target"]
        for row in test
        if row["num_sentences"] == 1 and len(row["source"].split()) <= 15
    }
    alone = [row for row in lines(attending, "joined.jsonl") if row["num_joined"] == 1]
    assert {row["reference"] for row in alone} == single
    assert 0 < len(single) < len(test)


@pytest.mark.parametrize(
    ("languages", "joined"),
    [(("en", "zh"), ("a b c", "abc")), (("ja", "de"), ("abc", "a b c"))],
)
def test_languages_without_spaces_are_joined_without_one(languages, joined):
    data = SimpleNamespace(source_lang=languages[0], target_lang=languages[1])
    run = TrainedRun(translator=None, data=data, batch_tokens=1, joined_sizes=[1])
    assert (run.join_sources(["a", "b", "c"]), run.join_targets(["a", "b", "c"])) == joined


# Training inputs.


def test_a_hundred_inputs_of_each_length_are_drawn_or_all_there_are():
    lengths = [5] * 250 + [15] * 7 + [85] * 101
    chosen = sample_by_length(lengths)
    assert chosen == sorted(set(chosen)) == sample_by_length(lengths)
    counts = [sum(lengths[index] == length for index in chosen) for length in (5, 15, 85)]
    assert counts == [100, 7, 100]
    assert chosen[:100] != list(range(100))


def test_training_inputs_are_joined_in_the_sizes_of_the_run_every_pair_once():
    inputs = training_inputs(500, [1, 1, 3])
    assert sorted(index for group in inputs for index in group) == list(range(500))
    sizes = [len(group) for group in inputs]
    assert set(sizes) <= {1, 2, 3}  # the last group may be smaller than drawn
    assert sizes.count(2) <= 1
    assert sizes.count(1) > sizes.count(3) > 0
    assert training_inputs(9, [1]) == [[index] for index in range(9)]


def test_runs_of_another_seed_get_the_same_joined_training_inputs(tmp_path):
    text = corpus_options(tmp_path / "text", train=40, test=3)
    joined = "data.concatenate={train: [2], test: [1]}"
    found = []
    for seed in (1, 2):
        options = [*text, *model_options("rnn"), joined, f"seed={seed}"]
        probe_run(finished_run(tmp_path / str(seed), *options))
        rows = lines(tmp_path / str(seed), "train.jsonl")
        found.append([(row["index"], row["source"], row["reference"]) for row in rows])
    assert found[0] == found[1]
    assert len(found[0]) == 20
    assert "test_joined" in numbers(tmp_path / "2")["nll"]


def test_training_inputs_come_with_their_references(plain):
    train = data_of(plain).split("train")
    rows = [TranslatedSentence(**row) for row in lines(plain, "train.jsonl")]
    assert len(rows) == len(train)
    for row in rows:
        assert (row.source, row.reference) == (
            train[row.index]["source"],
            train[row.index]["target"],
        )
        assert row.source_words == len(row.source.split())


# Probability of the references.


def test_nll_is_summed_by_input_length_and_by_place_in_the_target():
    log_half = math.log(0.5)
    scores = [
        TranslationScore(tokens=(9,) * 7, token_log_probs=(log_half,) * 7),
        TranslationScore(tokens=(9,) * 2, token_log_probs=(-1.0, -2.0)),
        TranslationScore(tokens=(9,) * 82, token_log_probs=(0.0,) * 80 + (-3.0, -4.0)),
    ]
    first, second, last = nll_by_length_and_position(scores, [10, 11, 81], fewest=1)
    assert (first["low"], first["high"]) == (1, 10)
    assert first["positions"] == [
        {"low": 1, "high": 5, "nll": pytest.approx(-5 * log_half), "tokens": 5},
        {"low": 6, "high": 10, "nll": pytest.approx(-2 * log_half), "tokens": 2},
    ]
    assert (second["low"], second["high"]) == (11, 20)
    assert second["positions"] == [{"low": 1, "high": 5, "nll": 3.0, "tokens": 2}]
    assert (last["low"], last["high"]) == (81, None)
    assert last["positions"][-1] == {"low": 81, "high": None, "nll": 7.0, "tokens": 2}


def test_the_nll_of_a_run_covers_every_token_of_its_references(plain):
    translator = Translator.from_checkpoint(plain / "checkpoints" / "best.ckpt")
    test = data_of(plain).split("test")
    scores = translator.score(list(zip(test["source"], test["target"], strict=True)))
    cells = [cell for row in numbers(plain)["nll"]["test"] for cell in row["positions"]]
    assert sum(cell["tokens"] for cell in cells) == sum(len(score.tokens) for score in scores)
    total = -sum(score.log_prob for score in scores)
    assert sum(cell["nll"] for cell in cells) == pytest.approx(total, rel=1e-5)


# Attention.


def test_the_alignment_is_scored_on_test_with_the_layer_that_is_best_on_validation(attending):
    entry = numbers(attending)["alignment"]
    by_layer = entry["valid_aer_by_layer"]
    assert len(set(by_layer)) == 2
    assert entry["layer"] == by_layer.index(min(by_layer))
    translator = Translator.from_checkpoint(attending / "checkpoints" / "best.ckpt")
    test = data_of(attending).split("test")
    assert numbers(attending)["bits"]["test"] == test["bits"][:]
    found = [
        attention_links(translator.attention(row["source"], row["target"]).weights[entry["layer"]])
        for row in test
    ]
    gold = {name: [gold_links(row[name]) for row in test] for name in ("sure", "possible")}
    scores = score_alignment(found, **gold)
    assert asdict(scores).items() <= entry.items()


def test_two_sentences_of_about_12_and_25_words_are_shown(attending):
    short, long = numbers(attending)["attention"]
    test = data_of(attending).split("test")
    lengths = [len(source.split()) for source in test["source"]]
    for shown, length in ((short, 12), (long, 25)):
        distances = [abs(other - length) for other in lengths]
        assert shown["split"] == "test"
        assert shown["index"] == distances.index(min(distances))
        assert shown["source_words"] == test[shown["index"]]["source"].split()
        assert shown["target_words"] == test[shown["index"]]["target"].split()
        assert len(shown["weights"]) == len(shown["target_words"])
        for row in shown["weights"]:
            assert len(row) == len(shown["source_words"])
            assert sum(row) == pytest.approx(1, abs=0.01)


def test_what_a_run_does_not_have_is_left_out(plain):
    assert set(numbers(plain)) == {"version", "checkpoint_sha256", "flops_per_target_token", "nll"}


def test_attention_without_gold_links_is_shown_for_the_last_layer(tmp_path):
    text = corpus_options(tmp_path / "text")
    model = model_options("transformer", decoder_layers=2)
    run = finished_run(tmp_path / "run", *text, *model)
    probe_run(run)
    found = numbers(run)
    assert "alignment" not in found
    shown = found["attention"][0]
    translator = Translator.from_checkpoint(run / "checkpoints" / "best.ckpt")
    pair = (" ".join(shown["source_words"]), " ".join(shown["target_words"]))
    assert shown["weights"][0] == pytest.approx(
        translator.attention(*pair).weights[1][0].tolist(), abs=1e-4
    )


# Cost.


def batches():
    """One batch of three pairs: five source tokens and four target tokens, EOS counted."""
    example = {"source_ids": [4] * 4, "target_ids": [5] * 3}
    return [collate([{"index": i, **example} for i in range(3)])]


def test_the_operations_of_the_rnn_are_those_counted_by_hand():
    width, hidden, decoder, vocab, num_source, num_target = 13, 7, 17, 53, 5, 4
    context = 2 * hidden
    products = (
        num_source * 2 * 3 * hidden * (width + hidden)  # two directions, three gates
        + context * decoder  # initial state
        + num_target * 3 * decoder * (width + context + decoder)
        + num_target * (decoder + context + width) * width  # readout
        + num_target * width * vocab
    )
    # Backward takes each product twice, but for the gradient of the encoder's zero start.
    per_row = 3 * 2 * products - 2 * 2 * hidden * 3 * hidden
    assert count_training_flops(tiny_model("rnn"), batches()) == 3 * per_row


def test_the_operations_of_stacked_lstms_are_those_counted_by_hand():
    width, hidden, vocab, num_source, num_target = 13, 17, 53, 5, 4
    gates = 4 * hidden * (width + hidden) + 4 * hidden * (hidden + hidden)  # of two layers
    products = (num_source + num_target) * gates + num_target * (hidden + vocab) * width
    # Backward takes each product twice, but for the gradients of the encoder's zero start.
    per_row = 3 * 2 * products - 2 * 2 * 4 * hidden * hidden
    assert count_training_flops(tiny_model("sutskever"), batches()) == 3 * per_row


def test_attention_is_counted():
    """Attending to one vector fewer saves its keys, values, scores and sums in every layer."""

    def flops(memory_slots):
        return count_training_flops(tiny_model("transformer", memory_slots=memory_slots), batches())

    layers, width, num_target, num_source, key_value = 2, 24, 4, 5, 24
    pooled = 5 - 1
    attended = 2 * 2 * num_target * width
    projected = 2 * width * key_value
    pooling = 2 * width * pooled * num_source
    saved = layers * (attended + projected) * (num_source - pooled)
    assert flops(None) - flops(pooled) == 3 * (3 * saved - 2 * pooling)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_row_costs_what_a_batch_costs_divided_by_its_rows(name):
    (batch,) = batches()
    alone = collate([{"index": 0, "source_ids": [4] * 4, "target_ids": [5] * 3}])
    model = tiny_model(name)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert count_training_flops(model, [batch]) == 3 * count_training_flops(model, [alone])
    assert count_training_flops(model, [batch, alone]) == 4 * count_training_flops(model, [alone])
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_cost_of_a_run_is_for_a_target_token(plain):
    """Six operations a weight and token, roughly; every weight of these models is used."""
    translator = Translator.from_checkpoint(plain / "checkpoints" / "best.ckpt")
    weights = translator.model.num_parameters().total
    assert 3 * weights < numbers(plain)["flops_per_target_token"] < 12 * weights


# The folder.


def copied(run, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    return folder


def mark(run):
    """Changes what the probes found, to see whether it is kept."""
    path = run / "probes" / "joined.jsonl"
    path.write_text("", encoding="utf-8")
    return lambda: path.read_text(encoding="utf-8") == ""


def test_results_of_the_same_checkpoint_are_kept_wherever_the_run_lies(plain, tmp_path):
    run = copied(plain, tmp_path)
    is_kept = mark(run)
    assert probe_run(run) == run / "probes"
    assert is_kept()


def test_force_measures_again(plain, tmp_path):
    run = copied(plain, tmp_path)
    is_kept = mark(run)
    probe_run(run, force=True)
    assert not is_kept()
    for name in ("probes.json", "joined.jsonl", "train.jsonl"):
        again = (run / "probes" / name).read_bytes()
        assert again == (plain / "probes" / name).read_bytes()


@pytest.mark.parametrize("text", ['{"version": 1, "checkpoint_sha256": "00"}', "{", None])
def test_results_of_another_checkpoint_or_damaged_ones_are_replaced(plain, tmp_path, text):
    run = copied(plain, tmp_path)
    is_kept = mark(run)
    if text is None:
        (run / "probes" / "train.jsonl").unlink()
    else:
        (run / "probes" / "probes.json").write_text(text, encoding="utf-8")
    probe_run(run)
    assert not is_kept()
    assert numbers(run)["version"] == 1
    assert len(lines(run, "train.jsonl")) > 1


def test_a_probe_that_fails_leaves_nothing_behind(plain, tmp_path, monkeypatch):
    run = copied(plain, tmp_path)
    is_kept = mark(run)
    before = sorted(run.iterdir())
    monkeypatch.setattr(cost, "count_training_flops", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        probe_run(run, force=True)
    assert sorted(run.iterdir()) == before
    assert is_kept()


def test_of_several_corpora_the_first_test_set_is_measured(tmp_path):
    corpora = {
        name: {
            split: write_split(tmp_path / name, split, pairs(count, seed=count))
            for split, count in (("train", 31), ("valid", 5), ("test", tests)) if count
        }
        for name, tests in (("talks", 0), ("news", 7), ("web", 3))
    }  # fmt: skip
    run = finished_run(
        tmp_path,
        *("data=mixture", "data.source_lang=en", "data.target_lang=de"),
        f"data.corpora={json.dumps(corpora).replace(chr(34), '')}",
        *(f"data.cache_dir={tmp_path / 'cache'}", "data.tokenizer.vocab_size=311"),
        *model_options("bahdanau"),
    )
    probe_run(run)
    assert list(numbers(run)["nll"]) == ["test_news"]
    assert {shown["split"] for shown in numbers(run)["attention"]} == {"test_news"}


# The program.


def test_the_program_names_what_is_no_run(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert f"{tmp_path} has no checkpoints/best.ckpt: name the folder of a finished run." in error


def test_a_run_without_its_config_is_named(plain, tmp_path):
    run = copied(plain, tmp_path)
    (run / "config.yaml").unlink()
    with pytest.raises(FileNotFoundError, match=r"copy/config\.yaml"):
        probe_run(run, force=True)
