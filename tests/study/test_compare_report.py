"""The report is drawn from results.json alone, opens without a network, and says what failed."""

import html
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path

import pytest
from fabricated_runs import corpus, write_probes, write_run

from nmt.cli.compare import main
from nmt.evaluation.figures import font_families, save_figure
from nmt.study import statistics
from nmt.study.findings import contrasts
from nmt.study.findings.alignment import draw_heat_map
from nmt.study.findings.by_length import draw_by_length
from nmt.study.findings.memory_slots import draw_words_per_vector
from nmt.study.presentation import system_styles
from nmt.study.report import compare, read_results, write_report

ROOT = Path(__file__).parents[2]
LENGTHS = [3, 5, 7, 9, 10, 11, 13, 15, 17, 20, 25]
SPLITS = {"test": corpus(LENGTHS), "test_long": corpus([31, 33], seed=1)}
PROBES = {
    "nll": {
        "test": [
            {"low": 1, "high": 10, "positions": [{"low": 1, "high": 5, "nll": 3.0, "tokens": 9}]},
            {
                "low": 81,
                "high": None,
                "positions": [{"low": 1, "high": None, "nll": 9, "tokens": 9}],
            },
        ]
    },
    "bits": {"test": [3.0 * length for length in LENGTHS]},
    "joined": [
        {
            "num_joined": number,
            "source_words": 12 * number,
            "reference": "eins zwei drei vier fünf",
            "joined": "eins zwei drei vier",
            "alone": "eins zwei drei vier fünf",
        }
        for number in (1, 2)
    ],
    "train": [
        {
            "index": index,
            "source": "one",
            "reference": "eins zwei drei vier",
            "hypothesis": "eins zwei drei vier",
            "score": 0.0,
            "source_words": 4 * index,
        }
        for index in (1, 2, 3)
    ],
}
ATTENTION = {
    "attention": [
        {
            "index": 4,
            "split": "test",
            "source_words": ["he", "<runs>", "."],
            "target_words": ["er", "läuft", "."],
            "weights": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0, 0, 1.0]],
        }
    ],
    "alignment": {"layer": 0, "aer": 0.25, "precision": 0.7, "recall": 0.8, "num_sentences": 11},
}


def wrong(share):
    return lambda length: min(0.9, share * length)


@pytest.fixture(scope="module", autouse=True)
def few_trials():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contrasts, "NUM_TRIALS", 50)
        patch.setattr(statistics, "FEWEST_INPUTS", 1)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """rnn, bahdanau with and without slots, all probes."""
    folder = tmp_path_factory.mktemp("runs")
    for name, share, slots in (("rnn", 0.04, None), ("bahdanau", 0, None), ("bahdanau", 0.02, 2)):
        run = write_run(
            folder / f"{name}{slots}",
            wrong(share),
            model_name=name,
            splits=SPLITS,
            model={"memory_slots": slots},
        )
        write_probes(run, **PROBES, **(ATTENTION if name == "bahdanau" else {}))
    return folder


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    with (folder.parent / "out").open("w", encoding="utf-8") as printed, redirect_stdout(printed):
        assert main([str(runs), "--output", str(folder)]) == 0
    return folder


def text_of(results, folder):
    folder.mkdir(exist_ok=True)
    write_report(folder, results)
    page = (folder / "report.html").read_text(encoding="utf-8")
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())


def test_the_committed_numbers_redraw_every_file_byte_by_byte(report, tmp_path):
    again = tmp_path / "again"
    assert main(["--from", str(report / "results.json"), "--output", str(again)]) == 0
    files = sorted(path.name for path in report.iterdir())
    assert files == sorted(path.name for path in again.iterdir())
    for name in files:
        assert (report / name).read_bytes() == (again / name).read_bytes(), name


def test_all_figures_are_there_and_small(report):
    figures = {path.stem for path in report.glob("*.svg")}
    assert figures == {
        "bleu_by_length",
        "chrf_by_length",
        "joined_inputs",
        "slots_by_length",
        "words_per_vector",
        "training_sentences",
        "loss_by_position",
        "bleu_by_bits",
        "attention_4",
    }
    for name in figures:
        for path in (report / f"{name}.png", report / f"{name}.svg"):
            assert path.stat().st_size < 300_000
        assert "<dc:date>" not in (report / f"{name}.svg").read_text(encoding="utf-8")


def test_the_headline_has_a_line_and_a_band_for_each_system_and_split(report):
    results = read_results(report / "results.json")
    axes = draw_by_length(results, "bleu", "BLEU").axes[0]
    lines = [line for line in axes.lines if line.get_marker() != "None"]
    drawn = [line.get_ydata().tolist() for line in lines]
    assert drawn == [
        [
            bucket["bleu"]["value"]
            for bucket in results["splits"][split]["systems"][label]["buckets"]
        ]
        for split in ("test", "test_long")
        for label in ("rnn", "bahdanau")
    ]
    assert len(axes.collections) == len(lines)
    (shade,) = axes.patches
    assert shade.get_x() == pytest.approx(1.5)  # behind 11-20, as training ended at 20
    (label,) = axes.texts
    assert label.get_text() == "extrapolation: longer than any training input (over 20 words)"


def test_the_minimal_pair_looks_the_same_whatever_it_is_compared_with():
    roles = {"rnn": "constant", "bahdanau": "attended"}

    def styles(*labels):
        names = [(label, label.split(",")[0]) for label in labels]
        systems = [
            {"label": label, "model_name": name, "role": roles.get(name, ""), "shown": True}
            for label, name in names
        ]
        return system_styles({"systems": systems})

    few = styles("bahdanau", "transformer")
    many = styles("rnn, updates=1", "rnn, updates=2", "bahdanau", "transformer", "a", "b")
    assert (many["bahdanau"], many["transformer"]) == (few["bahdanau"], few["transformer"])
    assert styles("rnn")["rnn"] == many["rnn, updates=1"]
    assert len({style.colour for style in many.values()}) == 6


def test_points_of_the_load_of_a_vector_are_those_of_the_results(report):
    results = read_results(report / "results.json")
    for place, key in enumerate(("words_per_vector", "bits_per_vector")):
        axes = draw_words_per_vector(results).axes[place]
        drawn = {
            point
            for container in axes.containers
            for point in zip(*container.lines[0].get_data(), strict=True)
        }
        slots = results["slots"]
        assert drawn == {
            (point[key], point["bleu"]["value"])
            for point in [*slots["points"], *slots["final_state"]]
        }


def test_the_page_needs_no_other_file_and_every_figure_is_shown(report):
    page = (report / "report.html").read_text(encoding="utf-8")
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) == len(list(report.glob("*.svg")))
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert "url(" not in page
    assert "<script" not in page
    markdown = (report / "report.md").read_text(encoding="utf-8")
    names = set(re.findall(r"!\[[^]]*\]\(([^)]*)\)", markdown))
    assert names == {path.name for path in report.glob("*.png")}


def test_tables_of_the_markdown_have_as_many_cells_as_columns(report):
    lines = (report / "report.md").read_text(encoding="utf-8").split("\n")
    widths = {0}
    for before, line in pairwise(lines):
        if line.startswith("|"):
            width = len(re.findall(r"(?<!\\)\|", line))
            assert width == len(re.findall(r"(?<!\\)\|", before)) or not before.startswith("|")
            widths.add(width)
    assert len(widths) > 3


def test_the_terminal_names_the_statistic_and_the_files(report):
    printed = (report.parent / "out").read_text(encoding="utf-8")
    assert "Primary statistic: (bahdanau − rnn at 11-20)" in printed
    assert str(report / "report.html") in printed


def test_parts_without_a_probe_are_left_out(tmp_path):
    write_run(tmp_path / "a", wrong(0.01))
    text = text_of(compare([tmp_path]), tmp_path / "out")
    for title in ("Joined inputs", "Memory slots", "Loss by target", "Attention as", "Paired"):
        assert title not in text
    assert "What this does not show" in text
    assert "not ours" in text
    assert not (tmp_path / "out" / "joined_inputs.png").exists()


def test_systems_that_do_not_differ_fail_the_expectation_in_words(tmp_path):
    for name in ("rnn", "bahdanau"):
        write_run(tmp_path / name, wrong(0), model_name=name)
    text = text_of(compare([tmp_path]), tmp_path / "out")
    assert "The expectation fails: the interval includes 0" in text
    assert "Under-training" not in text
    assert "With one seed" in text


def test_a_baseline_that_fails_short_inputs_is_called_under_trained(tmp_path):
    write_run(tmp_path / "rnn", wrong(0.1))
    write_run(tmp_path / "bahdanau", wrong(0), model_name="bahdanau")
    text = text_of(compare([tmp_path]), tmp_path / "out")
    assert "At 1-10, where no bottleneck should show, rnn has" in text
    assert "Under-training is not excluded." in text


@pytest.mark.parametrize(("most", "is_new"), [(3, True), (2, False)])
def test_inputs_joined_of_more_than_in_training_are_called_new(tmp_path, most, is_new):
    for name in ("rnn", "bahdanau"):
        write_run(
            tmp_path / name,
            wrong(0.02),
            model_name=name,
            splits={"test_joined": corpus([4, 14])},
            data={"concatenate": {"train": [1, 2], "test": [1, most]}},
        )
    text = text_of(compare([tmp_path], split="test_joined"), tmp_path / "report")
    said = "Training joined at most 2 sentences, the test set up to 3"
    assert (said in text) == is_new


def test_a_longer_trained_baseline_that_has_learnt_short_inputs_is_named_beside_it(tmp_path):
    data = {"name": "grammar"}
    write_run(tmp_path / "a", wrong(0.1), data=data)
    write_run(tmp_path / "b", wrong(0.0), updates=400, data=data)
    write_run(tmp_path / "c", wrong(0), model_name="bahdanau", data=data)
    text = text_of(compare([tmp_path]), tmp_path / "out")
    assert "Under-training is not excluded" not in text
    assert "But rnn, max_steps=400, which has learnt short inputs (100.0 BLEU), has 100.0" in text


def test_other_budgets_of_the_baseline_stand_beside_the_primary_statistic(tmp_path):
    write_run(tmp_path / "a", wrong(0.0), updates=400)
    write_run(tmp_path / "b", wrong(0.05))
    write_run(tmp_path / "c", wrong(0), model_name="bahdanau")
    text = text_of(compare([tmp_path]), tmp_path / "out")
    assert "Primary statistic: (bahdanau − rnn, max_steps=100 at" in text
    assert (
        "Other systems with one constant context: rnn, max_steps=400 (400 updates) has 100.0"
        in text
    )
    assert "tested against rnn, max_steps=100" in text


def test_slots_that_help_and_slots_that_do_not_are_told_apart(tmp_path):
    for slots, share in ((1, 0.05), (2, 0.0), (4, 0.03)):
        write_run(
            tmp_path / f"{slots}",
            wrong(share),
            model_name="bahdanau",
            model={"memory_slots": slots},
            splits=SPLITS,
        )
    text = text_of(compare([tmp_path / "1", tmp_path / "2"]), tmp_path / "out")
    assert "As expected, mean BLEU rises" in text
    text = text_of(compare([tmp_path]), tmp_path / "out")
    assert "The means do not at 3 of 6 steps" in text


def test_intervals_of_few_seeds_say_what_they_do_not_hold(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / f"b{seed}", wrong(0), model_name="bahdanau", seed=seed)
    text = text_of(compare([tmp_path]), tmp_path / "out")
    assert "Student's t with n − 1 degrees of freedom" in text
    assert "With one seed" not in text
    write_run(tmp_path / "rnn", wrong(0.1))
    text = text_of(compare([tmp_path]), tmp_path / "out")
    assert "With one seed (rnn), an interval shows how other test sentences" in text


def test_probes_of_slots_alone_leave_no_empty_figures(tmp_path):
    write_run(tmp_path / "rnn", wrong(0.1), splits=SPLITS)
    slots = {"memory_slots": 2}
    run = write_run(tmp_path / "slots", wrong(0), model_name="bahdanau", model=slots, splits=SPLITS)
    write_probes(run, **PROBES)
    text = text_of(compare([tmp_path]), tmp_path / "out")
    assert "Training sentences" not in text


def test_without_the_minimal_pair_there_is_no_primary_statistic(tmp_path):
    for name in ("rnn", "transformer"):
        write_run(tmp_path / name, wrong(0.01), model_name=name)
    text = text_of(compare([tmp_path]), tmp_path / "out")
    assert "There is no primary statistic" in text


def test_warnings_are_printed_and_reported(tmp_path, capsys):
    write_run(tmp_path / "rnn", wrong(0.01))
    write_run(tmp_path / "other", wrong(0.01), model_name="transformer", updates=77)
    out = tmp_path / "out"
    assert main([str(tmp_path / "rnn"), str(tmp_path / "other"), "--output", str(out)]) == 0
    assert "transformer 77" in capsys.readouterr().err
    assert "transformer 77" in (out / "report.md").read_text(encoding="utf-8")
    assert "transformer 77" in read_results(out / "results.json")["warnings"][0]


def test_marks_in_sentences_stay_text(report, tmp_path):
    results = read_results(report / "results.json")
    sentence = "<b>a</b> | *b* [c](d)\u2028`e` {{ f }}"
    results["example"]["hypotheses"]["rnn"] = sentence
    for drawn in ("joined", "train", "slots", "nll", "bits", "attention"):
        results[drawn] = None
    assert "<b>a</b> | *b* [c](d) `e` {{ f }}" in text_of(results, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;a&lt;/b&gt;" in page
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert r"\<b\>a\</b\> \| \*b\* \[c\](d) \`e\` {{ f }}" in markdown


def test_a_heat_map_shows_the_words_of_each_system():
    systems = dict.fromkeys(("bahdanau", "transformer"), ATTENTION["attention"][0])
    systems["transformer"] = systems["bahdanau"] | {"links": [[2, 0]]}
    figure = draw_heat_map(systems)
    first, second = figure.axes[:2]
    for axes, name in ((first, "bahdanau"), (second, "transformer")):
        assert [label.get_text() for label in axes.get_xticklabels()] == ["he", "<runs>", "."]
        assert [label.get_text() for label in axes.get_yticklabels()] == ["er", "läuft", "."]
        assert axes.get_xlabel() == name
        (image,) = axes.images
        assert image.get_array().tolist() == systems[name]["weights"]
    assert not first.patches
    assert [patch.get_xy() for patch in second.patches] == [(1.5, -0.5)]  # third word, first row


def test_chinese_words_are_drawn_with_a_font_that_has_them_or_the_lack_is_named(tmp_path):
    assert font_families("Größe läuft ÄÖÜß") == ["DejaVu Sans"]
    words = {"source_words": ["你", "好"], "target_words": ["hello"], "weights": [[0.5, 0.5]]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fonts = font_families("你好hello")
        figure = draw_heat_map({"bahdanau": words})
        png, _ = save_figure(figure, tmp_path, "attention_0")
    assert png.stat().st_size > 1000
    messages = {str(warning.message) for warning in caught}
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["你", "好"]
    assert not any("Last Resort" in font for font in fonts)
    if len(fonts) == 1:
        (message,) = messages
        assert "'你好'" in message
    else:
        assert not messages


@pytest.mark.parametrize(
    "arguments",
    [[], ["run", "--from", "results.json"], ["--from", "results.json", "--split", "test"]],
)
def test_a_wrong_call_explains_itself(arguments, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--output", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert "error:" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read"), ("{", "is damaged"), ('{"version": 99}', "version 99")],
)
def test_results_that_cannot_be_read_are_refused_in_one_line(content, message, tmp_path, capsys):
    path = tmp_path / "results.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert main(["--from", str(path), "--output", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused_before_the_work(tmp_path, capsys):
    (tmp_path / "out").touch()
    assert main([str(tmp_path / "no runs"), "--output", str(tmp_path / "out")]) == 1
    assert "is a file; name a folder" in capsys.readouterr().err


def test_comparing_needs_no_torch():
    """The import of the program, in a fresh interpreter."""

    code = "import sys, nmt.cli.compare, nmt.study.report;print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.split() == [b"False"]
