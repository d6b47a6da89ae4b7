"""The figure of BLEU by length says what was measured, on how much, and where training ended."""

import math
import struct

import pytest

from nmt.evaluation.by_length import Bucket
from nmt.evaluation.figures import (
    draw_bleu_by_length,
    new_figure,
    save_as,
    set_score_axis,
)

EDGES = (10, 20, 30, None)


def curve(*bleus, counts=(7, 11, 13, 17)):
    lows = (1, 11, 21, 31)
    counts = [0 if bleu is None else count for bleu, count in zip(bleus, counts, strict=True)]
    return [
        Bucket(low, high, count, bleu, bleu, None, None)
        for low, high, count, bleu in zip(lows, EDGES, counts, bleus, strict=True)
    ]


def tick_labels(axes):
    return [label.get_text() for label in axes.get_xticklabels()]


def dashed_lines(axes):
    return [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"]


def chunk_names(png):
    names, position = [], 8
    while position < len(png):
        (length,) = struct.unpack(">I", png[position : position + 4])
        names.append(png[position + 4 : position + 8])
        position += 12 + length
    return names


def test_one_line_for_each_curve_with_its_name_and_values():
    curves = {"rnn": curve(90.0, 50.0, 20.0, 10.0), "Größe 2": curve(99.0, 98.0, 97.0, 96.0)}
    figure = draw_bleu_by_length(curves, unit="word")
    lines = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert lines == {"rnn": [90, 50, 20, 10], "Größe 2": [99, 98, 97, 96]}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["rnn", "Größe 2"]
    assert len({line.get_color() for line in figure.axes[0].lines}) == 2


def test_the_number_of_sentences_stands_under_each_range_and_the_unit_on_the_axis():
    axes = draw_bleu_by_length({"test": curve(9.0, 7.0, 5.0, 3.0)}, unit="character").axes[0]
    assert tick_labels(axes) == ["1–10\nn = 7", "11–20\nn = 11", "21–30\nn = 13", "31+\nn = 17"]
    assert "characters" in axes.get_xlabel()


def test_splits_of_other_sizes_show_all_their_counts():
    curves = {
        "a": curve(9.0, 7.0, None, None),
        "b": curve(None, 8.0, 6.0, 4.0, counts=(2, 3, 5, 7)),
    }
    axes = draw_bleu_by_length(curves, unit="word").axes[0]
    assert [label.split("\n")[1] for label in tick_labels(axes)] == [
        "n = 7",
        "n = 3 / 11",
        "n = 5",
        "n = 7",
    ]


def test_an_empty_range_is_a_gap_within_and_no_place_at_the_ends():
    axes = draw_bleu_by_length({"test": curve(None, 7.0, None, 5.0)}, unit="word").axes[0]
    assert [label.split("\n")[0] for label in tick_labels(axes)] == ["11–20", "21–30", "31+"]
    first, gap, last = axes.lines[0].get_ydata()
    assert (first, last) == (7, 5)
    assert math.isnan(gap)


@pytest.mark.parametrize(
    ("longest_train", "place"),
    [(20, 1.5), (10, 0.5), (15, 1.0), (27, 2.2), (35, 3.0), (0, -0.5)],
)
def test_lengths_beyond_training_are_shaded_from_the_longest_input_on(longest_train, place):
    """Range i covers i - 0.5 to i + 0.5; the open one counts as wide as its neighbour."""
    curves = {"test": curve(9.0, 7.0, 5.0, 3.0)}
    figure = draw_bleu_by_length(curves, unit="word", longest_train=longest_train)
    axes = figure.axes[0]
    assert dashed_lines(axes) == [pytest.approx(place)]
    (shade,) = axes.patches
    assert shade.get_x() == pytest.approx(place)
    assert shade.get_x() + shade.get_width() == pytest.approx(3.5)
    (label,) = axes.texts
    assert label.get_text() == f"longer than any training input (over {longest_train} words)"


def test_nothing_is_shaded_when_training_had_longer_inputs():
    curves = {"test": curve(9.0, 7.0, None, None)}
    axes = draw_bleu_by_length(curves, unit="word", longest_train=25).axes[0]
    assert (dashed_lines(axes), list(axes.patches), list(axes.texts)) == ([], [], [])


@pytest.mark.parametrize("best", [0.0, 9.9, 10.0, 79.0, 100.00000000000004])
def test_axes_of_scores_start_at_zero_and_hold_every_point_here_and_beside(best):
    high, low = new_figure(4, 3).subplots(1, 2, sharey=True)
    for axes, score in ((high, best), (low, 0.9 * best)):
        axes.plot([0, 1], [score, 0.0])
        set_score_axis(axes, "BLEU")
    assert high.get_ylim()[0] == 0
    assert high.get_ylim()[1] > best


def test_the_same_numbers_are_the_same_bytes_without_a_date(tmp_path):
    curves = {name: curve(99.0, 60.5, 30.25, 3.0) for name in "abcdefgh"}
    options = {"unit": "word", "longest_train": 20, "title": "Längen"}
    first, second = (
        save_as(draw_bleu_by_length(curves, **options), tmp_path / f"{name}.png").read_bytes()
        for name in ("first", "second")
    )
    assert first == second
    assert len(first) < 300_000
    assert not {b"tEXt", b"iTXt", b"tIME"} & set(chunk_names(first))
