import pytest
from datasets import Dataset

from nmt.data.cleaning import CleaningReport, CleaningRules, clean_text
from nmt.tokenizer import check_unit, count_units, default_unit

OFF = {
    "empty": False,
    "max_length": None,
    "max_length_ratio": None,
    "identical": False,
    "duplicates": False,
}


@pytest.fixture
def cleaned(tmp_path):
    def clean(pairs, *, units=("word", "word"), **rules):
        source, target = zip(*pairs, strict=True)
        numbers = list(range(len(pairs)))
        found = clean_text(
            Dataset.from_dict({"source": source, "target": target, "row": numbers}),
            CleaningRules(**{**OFF, **rules}),
            source_unit=units[0],
            target_unit=units[1],
            cache_dir=tmp_path,
            name="toy",
        )
        rows = found.dataset["row"][:]
        assert found.source_units.tolist() == [count_units(source[row], units[0]) for row in rows]
        return rows, found.report

    return clean


def test_nothing_is_removed_with_all_rules_off(cleaned):
    pairs = [("", "a"), ("b", "b"), ("b", "b"), ("c " * 999, "d")]
    rows, report = cleaned(pairs)
    assert rows == [0, 1, 2, 3]
    assert report == CleaningReport(4, {})


def test_both_halves_of_a_pair_go_when_one_is_blank(cleaned):
    pairs = [("a", "b"), ("c", "d"), ("", "e"), ("f", "g"), ("h", " "), ("\u3000\t", "i")]
    pairs += [("j", invisible) for invisible in ("\u200b", "\ufeff\u00ad ", "\x01")]
    rows, report = cleaned(pairs, empty=True)
    assert rows == [0, 1, 3]
    assert report.removed == {"empty": 6}
    assert report.kept == 3


def test_the_length_limit_is_inclusive(cleaned):
    words = {count: " ".join(["w"] * count) for count in (6, 7, 8)}
    pairs = [(words[6], words[7]), (words[7], words[7]), (words[8], words[7]), (words[7], words[8])]
    rows, report = cleaned(pairs, max_length=7)
    assert rows == [0, 1]
    assert report.removed == {"max_length": 2}


def test_lengths_are_in_the_unit_of_each_language(cleaned):
    pairs = [("我 喜欢 书。", "I like books."), ("我喜欢看很多书。", "I like books.")]
    rows, _ = cleaned(pairs, units=("character", "word"), max_length=5)
    assert rows == [0]


def test_the_length_ratio_is_inclusive_and_works_both_ways(cleaned):
    pairs = [("a b c d e f", "x y"), ("a b c d e f g", "x y"), ("x y", "a b c d e f g"), ("a", "")]
    rows, report = cleaned(pairs, max_length_ratio=3)
    assert rows == [0]
    assert report.removed == {"max_length_ratio": 3}


def test_untranslated_and_repeated_pairs_go(cleaned):
    pairs = [("a", "A"), ("b", "b "), ("a", "A"), ("a", "B"), ("A", "a")]
    rows, report = cleaned(pairs, identical=True, duplicates=True)
    assert rows == [0, 3, 4]
    assert report.removed == {"identical": 1, "duplicates": 1}


def test_a_pair_is_counted_under_one_rule_only(cleaned):
    pairs = [("", ""), ("", ""), ("a", "b")]
    rows, report = cleaned(pairs, empty=True, identical=True, duplicates=True)
    assert rows == [2]
    assert report.removed == {"empty": 2, "identical": 0, "duplicates": 0}


def test_the_table_says_what_was_removed_and_why():
    table = CleaningReport(29_011, {"empty": 3, "duplicates": 5}).table()
    lines = [line.split() for line in table.splitlines()]
    assert [line[-1] for line in lines] == ["29,011", "-3", "-5", "29,003"]
    assert all(len(line) < 80 for line in table.splitlines())


@pytest.mark.parametrize("name", ["max_length", "max_length_ratio"])
@pytest.mark.parametrize("value", [0, -1, True, "abc"])
def test_impossible_limits_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"cleaning\.{name} is {value!r}"):
        CleaningRules(**{**OFF, name: value})


def test_words_are_white_space_tokens_and_characters_are_not_white_space():
    assert count_units(" Don't  stop,\u00a0now. ", "word") == 3
    assert count_units("我 喜欢\u3000书。", "character") == 5
    assert [default_unit(code) for code in ("de", "zh", "zho_Hans", "ja", "en")] == [
        "word",
        "character",
        "character",
        "character",
        "word",
    ]
    with pytest.raises(ValueError, match="length_unit is 'piece'"):
        check_unit("piece")
