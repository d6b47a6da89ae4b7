"""A comparison holds what the runs hold, and refuses runs that cannot be compared."""

import json
import math
import shutil
from statistics import mean

import numpy as np
import pytest
import yaml
from fabricated_runs import corpus, translations, write_probes, write_run
from sacrebleu.metrics.chrf import CHRF

from nmt.evaluation.by_length import bleu_by_length, sort_by_length
from nmt.evaluation.metrics import failures
from nmt.evaluation.results import read_run
from nmt.study import statistics
from nmt.study.findings import contrasts
from nmt.study.findings.contrasts import compared_ranges
from nmt.study.findings.memory_slots import explained, half_load, isotonic_fit
from nmt.study.report import compare, write_report

LENGTHS = [3, 5, 7, 8, 9, 10, 11, 13, 15, 17, 19, 20, 21, 25]
SPLITS = {"test": corpus(LENGTHS), "test_long": corpus([31, 33, 35], seed=1)}


@pytest.fixture(autouse=True)
def few_trials_and_small_ranges(monkeypatch):
    monkeypatch.setattr(contrasts, "NUM_TRIALS", 50)
    monkeypatch.setattr(statistics, "FEWEST_INPUTS", 1)


def half_wrong(length):
    return 0.05 * length / 2


def almost_right(length):
    return 0.02


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two seeds of rnn and of bahdanau."""
    folder = tmp_path_factory.mktemp("runs")
    for name, errors in (("rnn", half_wrong), ("bahdanau", almost_right)):
        for seed in (1, 2):
            path = folder / f"{name}{seed}"
            write_run(path, errors, model_name=name, seed=seed, splits=SPLITS)
    return folder


@pytest.fixture
def runs(finished, tmp_path):
    """A copy of the finished runs, to be added to."""
    return shutil.copytree(finished, tmp_path / "runs")


def test_systems_come_in_a_fixed_order_whatever_the_folders_are_called(tmp_path):
    for folder, name, slots in (
        ("a", "transformer", None),
        ("b", "bahdanau", 16),
        ("c", "bahdanau", 2),
        ("d", "bahdanau", None),
        ("e", "rnn", None),
    ):
        write_run(tmp_path / folder, almost_right, model_name=name, model={"memory_slots": slots})
    labels = [system["label"] for system in compare([tmp_path])["systems"]]
    assert labels == [
        "rnn",
        "bahdanau",
        "transformer",
        "bahdanau, memory_slots=2",
        "bahdanau, memory_slots=16",
    ]


def test_a_label_names_what_distinguishes_systems_of_one_name(tmp_path):
    """An option that is null is one that is not there."""
    for folder, model in enumerate(({}, {"memory_slots": 4}, {"width": 16}, {"width": 32})):
        for seed in (1, 2):
            name = "rnn" if "width" in model else "bahdanau"
            options = {"positions": None} if seed == 2 else {}
            path = tmp_path / f"{folder}-{seed}"
            write_run(path, half_wrong, model_name=name, seed=seed, model=model | options)
    results = compare([tmp_path])
    assert {system["label"]: system["seeds"] for system in results["systems"]} == {
        "bahdanau": [1, 2],
        "bahdanau, memory_slots=4": [1, 2],
        "rnn, width=16": [1, 2],
        "rnn, width=32": [1, 2],
    }
    found = results["differences"]
    assert [entry["primary"] for entry in found] == [True, False, False]
    assert len({frozenset((e["baseline"], e["system"])) for e in found}) == 3


def test_scores_of_a_range_are_means_over_seeds_and_ranges_add_up(runs):
    table = compare([runs])["splits"]["test"]["systems"]["rnn"]
    expected = []
    for name in ("rnn1", "rnn2"):
        rows = read_run(runs / name).splits["test"]
        expected.append(
            bleu_by_length(
                [row.hypothesis for row in rows],
                [row.reference for row in rows],
                [row.source_words for row in rows],
                target_lang="de",
            )
        )
    assert [bucket["range"] for bucket in table["buckets"]] == ["1-10", "11-20", "21-30"]
    assert sum(bucket["num_sentences"] for bucket in table["buckets"]) == len(LENGTHS)
    for place, bucket in enumerate(table["buckets"]):
        for metric in ("bleu", "chrf"):
            seeds = [getattr(buckets[place], metric) for buckets in expected]
            assert bucket[metric]["by_seed"] == pytest.approx(seeds, rel=1e-5)
            assert bucket[metric]["value"] == pytest.approx(mean(seeds), rel=1e-5)
            assert bucket[metric]["low"] <= bucket[metric]["value"] <= bucket[metric]["high"]
        ratios = [buckets[place].length_ratio for buckets in expected]
        assert bucket["length_ratio"] == pytest.approx(mean(ratios), rel=1e-5)


def test_ranges_of_few_inputs_are_joined_but_the_contrast_keeps_its_ends(tmp_path, monkeypatch):
    """Three inputs of 1-10 and of 11-20, one of 21-30, which is longer than training."""
    monkeypatch.setattr(statistics, "FEWEST_INPUTS", 3)
    splits = {"test": corpus([3, 5, 7, 11, 15, 20, 25])}
    sentence = {"reference": "a", "hypothesis": "a", "source": "a", "score": 0.0}
    trained = [{"index": n, "source_words": n, **sentence} for n in (3, 15, 25, 35)]
    for name in ("rnn", "bahdanau"):
        write_run(tmp_path / name, half_wrong, model_name=name, splits=splits)
        write_probes(tmp_path / name, train=trained)
    results = compare([tmp_path])
    table = results["splits"]["test"]["systems"]["rnn"]["buckets"]
    assert [(b["range"], b["num_sentences"]) for b in table] == [("1-10", 3), ("11-30", 4)]
    table = results["train"]["rnn"]["buckets"]  # ranges of its own only beyond the test set
    assert [(b["range"], b["num_sentences"]) for b in table] == [
        ("1-10", 1), ("11-30", 2), ("31-40", 1),
    ]  # fmt: skip
    (contrast,) = results["differences"]
    assert (contrast["short"]["range"], contrast["long"]["range"]) == ("1-10", "11-20")
    assert [entry["range"] for entry in contrast["by_range"]] == ["11-30"]
    assert [test["range"] for test in results["tests"]["results"]] == ["all", "1-10", "11-30"]
    fall = results["falls"]["rnn"]
    assert fall["value"] == pytest.approx(fall["long"]["value"] - fall["short"]["value"], abs=1e-3)
    write_report(tmp_path, results)
    assert "| BLEU 11-20 |" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_the_score_of_the_whole_is_that_of_the_run_and_splits_are_never_mixed(runs):
    results = compare([runs])
    for split, lengths in (("test", LENGTHS), ("test_long", [31, 33, 35])):
        content = results["splits"][split]
        assert content["num_sentences"] == len(lengths)
        metrics = [read_run(runs / name).metrics[split] for name in ("rnn1", "rnn2")]
        scores = [entry["bleu"] for entry in metrics]
        assert content["systems"]["rnn"]["overall"]["bleu"]["by_seed"] == pytest.approx(
            scores, rel=1e-5
        )
        assert content["sha256"] == metrics[0]["sha256"]


def test_the_primary_statistic_is_the_difference_of_differences(runs):
    """Longest training input 20: the long range is 11-20, although the test has longer ones."""
    results = compare([runs])
    (found,) = results["differences"]
    assert (found["baseline"], found["system"], found["primary"]) == ("rnn", "bahdanau", True)
    assert (found["short"]["range"], found["long"]["range"]) == ("1-10", "11-20")
    value = {
        (label, bucket["range"]): bucket["bleu"]["value"]
        for label, system in results["splits"]["test"]["systems"].items()
        for bucket in system["buckets"]
    }
    long = value["bahdanau", "11-20"] - value["rnn", "11-20"]
    short = value["bahdanau", "1-10"] - value["rnn", "1-10"]
    statistic = found["difference_of_differences"]
    assert found["long"]["value"] == pytest.approx(long, abs=1e-3)
    assert statistic["value"] == pytest.approx(long - short, abs=1e-3)
    assert statistic["low"] < statistic["value"] < statistic["high"]
    beyond = {entry["range"]: entry["value"] for entry in found["by_range"]}
    assert list(beyond) == ["11-20", "21-30"]
    assert beyond["11-20"] == statistic["value"]
    gap = value["bahdanau", "21-30"] - value["rnn", "21-30"]
    assert beyond["21-30"] == pytest.approx(gap - short, abs=1e-3)


def test_the_long_range_is_41_to_50_or_with_joined_inputs_the_longest_of_training():
    ranges = [each for each in sort_by_length([5, 25, 45, 55, 65, 90]) if each[1]]
    for longest, alone, joined in (
        (49, "21-30", "21-30"),
        (50, "41-50", "41-50"),
        (60, "41-50", "51-60"),
        (85, "41-50", "61-70"),
    ):
        for most_joined, expected in ((None, alone), ({"train": 2}, joined)):
            task = {"longest_train": longest, "most_joined": most_joined}
            assert compared_ranges(ranges, task)[1][0].label == expected
    task = {"longest_train": 12, "most_joined": None}
    assert compared_ranges(ranges, task)[1][0].label == "81+"  # all but the first are beyond
    assert compared_ranges(ranges[:1], task) is None


def test_the_primary_pair_has_one_budget(tmp_path):
    write_run(tmp_path / "r", half_wrong, updates=400)
    write_run(tmp_path / "b", almost_right, model_name="bahdanau", updates=100)
    results = compare([tmp_path])
    assert [entry["primary"] for entry in results["differences"]] == [False]
    assert any("updates" in w and "400" in w and "100" in w for w in results["warnings"])


def test_the_regression_finds_the_slope_of_each_system(runs):
    (found,) = compare([runs])["differences"]
    regression = found["regression"]
    slopes = []
    for model in ("rnn", "bahdanau"):
        chrf = CHRF()
        rows = [read_run(runs / f"{model}{seed}").splits["test"] for seed in (1, 2)]
        scores = [
            mean(chrf.corpus_score([run[i].hypothesis], [[run[i].reference]]).score for run in rows)
            for i in range(len(LENGTHS))
        ]
        slopes.append(np.polyfit(np.array(LENGTHS) / 10, scores, 1)[0])
    assert regression["length_per_10"] == pytest.approx(slopes[0], rel=1e-4)
    assert regression["interaction"]["value"] == pytest.approx(slopes[1] - slopes[0], rel=1e-4)


def test_tests_cover_the_whole_and_every_range_and_are_corrected(runs):
    tests = compare([runs])["tests"]
    assert tests["baseline"] == "rnn"
    assert [test["range"] for test in tests["results"]] == ["all", "1-10", "11-20", "21-30"]
    assert all(test["p_holm"] >= test["p_value"] for test in tests["results"])
    assert tests["results"][0]["seeds"] == [1, 1]
    assert tests["results"][0]["p_holm"] < tests["results"][3]["p_value"]  # 2 sentences only


def test_the_example_is_the_longest_input_within_training_lengths(runs):
    found = compare([runs])["example"]
    assert (found["source_words"], found["index"]) == (20, LENGTHS.index(20))
    assert set(found["hypotheses"]) == {"rnn", "bahdanau"}


# --- refusals ---


def test_two_runs_of_one_system_and_seed_are_refused(tmp_path):
    for name in ("first", "second"):
        write_run(tmp_path / name, half_wrong)
    with pytest.raises(ValueError, match=r"first.*second.*same seed 1"):
        compare([tmp_path])


def test_a_run_named_twice_counts_once_with_an_evaluation_inside(runs):
    shutil.copytree(runs / "rnn1", runs / "rnn1" / "evaluation")
    assert len(compare([runs, runs / "rnn1"])["systems"]) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"splits": {"test": corpus([3, 4], seed=5)}}, "test set"),
        ({"languages": ("fr", "de")}, "source language"),
        ({"languages": ("en", "fr")}, "target language"),
        ({"length_unit": "character"}, "unit"),
    ],
)
def test_runs_that_measure_other_things_are_refused_naming_both(tmp_path, changes, message):
    write_run(tmp_path / "ours", half_wrong)
    write_run(tmp_path / "theirs", half_wrong, model_name="bahdanau", **changes)
    with pytest.raises(ValueError, match=f"ours and .*theirs.*{message}"):
        compare([tmp_path])


def test_another_tokenizer_of_bleu_is_refused(tmp_path):
    write_run(tmp_path / "ours", half_wrong)
    theirs = write_run(tmp_path / "theirs", half_wrong, seed=2)
    path = theirs / "metrics.json"
    text = path.read_text(encoding="utf-8").replace("tok:13a", "tok:zh")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="tok:13a in one and tok:zh"):
        compare([tmp_path])


def test_a_missing_split_is_refused_by_name(runs):
    with pytest.raises(ValueError, match=r"has no split 'dev', only test, test_long"):
        compare([runs], split="dev")


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no metrics\.json"):
        compare([tmp_path])


def test_translations_that_are_not_those_scored_are_refused(tmp_path):
    path = write_run(tmp_path / "run", half_wrong) / "test.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[0]["hypothesis"] = "etwas ganz anderes als vorher"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(ValueError, match=r"test\.jsonl scores .* BLEU, metrics\.json says"):
        compare([tmp_path])


def test_budgets_that_differ_are_warned_about_and_like_ones_are_not(runs):
    assert compare([runs])["warnings"] == []
    write_run(
        runs / "t", almost_right, model_name="transformer", splits=SPLITS, target_tokens_seen=9000
    )
    (warning,) = compare([runs])["warnings"]
    assert "target tokens" in warning
    assert "transformer 9,000" in warning


# --- probes ---


def test_without_probes_their_parts_are_empty(runs):
    results = compare([runs])
    for key in ("joined", "train", "slots", "nll", "bits", "alignment", "attention"):
        assert results[key] is None


def joined_rows(error_rate, seed):
    rows = []
    for number in (1, 2):
        for group in range(3):
            parts = corpus([4, 6][:number], seed=group)
            whole = [(" ".join(s for s, _ in parts), " ".join(r for _, r in parts))]
            (joined,) = translations(whole, error_rate, seed)
            alone = " ".join(row.reference for row in translations(parts, error_rate, seed))
            rows.append(
                {
                    "num_joined": number,
                    "source_words": joined.source_words,
                    "reference": joined.reference,
                    "joined": joined.hypothesis,
                    "alone": alone,
                }
            )
    return rows


def test_joined_inputs_are_scored_by_their_number(runs):
    for name in ("rnn1", "rnn2"):
        write_probes(runs / name, joined=joined_rows(half_wrong, name))
    results = compare([runs])
    groups = results["joined"]["groups"]
    assert [(g["num_joined"], g["source_words"], g["num_groups"]) for g in groups] == [
        (1, 4.0, 3),
        (2, 10.0, 3),
    ]
    rnn = results["joined"]["systems"]["rnn"]
    assert [entry["value"] for entry in rnn["alone"]] == pytest.approx([100, 100])
    assert rnn["joined"][1]["value"] < 100
    gap = rnn["joined"][1]["value"] - rnn["alone"][1]["value"]
    assert rnn["difference"][1]["value"] == pytest.approx(gap, abs=1e-3)
    assert results["warnings"] == [
        "The probe of joined inputs is missing in some runs of: bahdanau."
    ]


def test_loss_is_averaged_over_the_tokens_of_all_seeds(runs):
    for name, nll, tokens in (("rnn1", 6.0, 2), ("rnn2", 4.0, 8)):
        positions = [{"low": 1, "high": 5, "nll": nll, "tokens": tokens}]
        write_probes(runs / name, nll={"test": [{"low": 1, "high": 10, "positions": positions}]})
    (only,) = compare([runs])["nll"]["rnn"]
    assert only["positions"] == [{"low": 1, "high": 5, "nll": 1.0, "tokens": 10}]


def test_alignment_is_averaged_over_seeds_and_only_attention_is_expected_to_have_it(runs):
    for seed, aer in ((1, 0.2), (2, 0.4)):
        alignment = {"layer": 0, "aer": aer, "precision": 0.5, "recall": 0.5, "num_sentences": 9}
        write_probes(runs / f"bahdanau{seed}", alignment=alignment)
    results = compare([runs])
    assert results["warnings"] == []
    assert results["alignment"]["bahdanau"]["aer"] == pytest.approx(0.3)
    assert results["alignment"]["bahdanau"]["by_seed"] == [0.2, 0.4]


def test_bits_make_ranges_of_like_size_and_must_fit_the_test_set(runs):
    write_probes(runs / "rnn1", bits={"test": [2.0 * length for length in LENGTHS]})
    ranges = compare([runs])["bits"]["ranges"]
    assert sum(each["num_sentences"] for each in ranges) == len(LENGTHS)
    assert (ranges[0]["low"], ranges[-1]["high"]) == (6.0, 50.0)
    write_probes(runs / "rnn1", bits={"test": [1.0]})
    with pytest.raises(ValueError, match="bits of 1 sentences"):
        compare([runs])


def test_words_per_vector_are_counted_with_no_more_vectors_than_words(runs):
    model = {"memory_slots": 5}
    write_run(runs / "slots", half_wrong, model_name="bahdanau", model=model, splits=SPLITS)
    found = compare([runs])["slots"]
    assert found["families"] == {"bahdanau": ["bahdanau, memory_slots=5", "bahdanau"]}
    load = {
        (point["slots"], point["range"]): point["words_per_vector"]
        for point in [*found["points"], *found["final_state"]]
    }
    # 3, 5, 7, 8, 9 and 10 words on 3, 5, 5, 5, 5 and 5 vectors.
    assert load[5, "1-10"] == pytest.approx((1 + 1 + 1.4 + 1.6 + 1.8 + 2) / 6, rel=1e-5)
    assert load[None, "11-20"] == 1
    assert load[1, "21-30"] == 23


def test_averaged_weights_are_another_system(tmp_path):
    for seed, name in enumerate(("plain", "ema")):
        folder = write_run(tmp_path / name, half_wrong, seed=seed)
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    config["callbacks"] = {"ema": {"decay": 0.9}, "progress": {"refresh": 2}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    labels = {system["label"] for system in compare([tmp_path])["systems"]}
    assert labels == {"rnn", "rnn, decay=0.9"}


# --- small parts ---


def test_the_falling_fit_pools_what_rises():
    x = np.array([4.0, 1.0, 2.0, 3.0, 2.0])
    y = np.array([1.0, 8.0, 3.0, 6.0, 5.0])
    # At 2 the mean is 4, at 3 it is 6: both become (3 + 5 + 6) / 3.
    third = 14 / 3
    assert isotonic_fit(x, y) == pytest.approx([1, 8, third, third, third])


def test_half_load_is_where_the_falling_fit_has_half_of_its_first_value():
    load = np.array([1.0, 1.0, 2.0, 8.0])
    # 80 at 1, 50 at 2, 30 at 8: 40 is half way from 2 to 8 on a log axis.
    assert half_load(load, np.array([70.0, 90.0, 50.0, 30.0])) == pytest.approx(4)
    assert math.isnan(half_load(load, np.array([70.0, 90.0, 50.0, 45.0])))


def test_explained_variance():
    y = np.array([1.0, 3.0])
    assert explained(y, y) == 1
    assert explained(y, np.array([2.0, 2.0])) == 0
    assert explained(np.array([2.0, 2.0]), y) is None


@pytest.mark.parametrize(
    ("hypothesis", "unit", "expected"),
    [
        ("a b c d a b c d", "word", (True, False, False)),
        ("a b c d a b c e", "word", (False, False, False)),
        ("a a a a", "word", (False, False, False)),
        (" \u3000", "word", (False, True, False)),
        (" one  two ", "word", (False, False, True)),
        ("我们去我们去我们去", "character", (True, False, False)),
        ("我们去我们去我们去", "word", (False, False, False)),
    ],
)
def test_ways_to_fail(hypothesis, unit, expected):
    assert failures("one two", hypothesis, unit=unit) == expected
