"""Building the Bible corpus, on made-up markup and verses: no test needs the text itself."""

import pytest

from scripts import prepare_bible
from scripts.prepare_bible import Verse, links, parse_verse, passages, split_by_chapter

LENGTHS = (5, 15, 25, 35, 45, 55)  # words of the verses of a chapter, one in each range


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("En el<note>Or, <i>at</i> the</note> principio", "En el principio"),
        ("<title>Book one</title>In the beginning", "In the beginning"),
        ('<title canonical="true">Salmo de David.</title>Oh Dios', "Salmo de David. Oh Dios"),
        ("llamado<transChange type='added'>á ser</transChange>apóstol", "llamado á ser apóstol"),
        ("dijo:<q marker=''/>¿Quién?<lb/>  Yo", "dijo: ¿Quién? Yo"),
        ("<milestone type='x-p' marker='¶'/>¶ And God said", "And God said"),
        ("<note>all of it</note>", ""),
    ],
)
def test_a_verse_is_its_words_without_notes_titles_and_missing_spaces(markup, text):
    assert parse_verse(markup).text == text


def test_strongs_numbers_cover_their_words_and_those_that_occur_twice_are_left_out():
    verse = parse_verse(
        '<w lemma="strong:H07225">In the beginning</w> '
        '<w lemma="strong:H0430 strong:H0853">God</w> <w lemma="strong:H01254">created</w>, '
        '<w lemma="strong:H05921">and</w> <w lemma="strong:H05921">he</w> '
        '<note>lit. <w lemma="strong:H09999">it</w></note> rested.'
    )
    assert verse.text == "In the beginning God created, and he rested."
    assert verse.numbers == {"H07225": (0, 1, 2), "H0430": (3,), "H0853": (3,), "H01254": (4,)}


def test_phrases_with_the_same_number_are_linked():
    source = Verse("En el principio crió Dios", {"H1": (0, 1, 2), "H2": (4,), "H3": (3,)})
    target = Verse("In beginning God made", {"H1": (0, 1), "H2": (2,), "H4": (3,)})
    assert links(source, target) == "0-0 0-1 1-0 1-1 2-0 2-1 4-2"


def test_a_passage_ends_where_a_verse_is_missing_or_a_chapter_ends():
    references = [("Gen", 1, 1), ("Gen", 1, 2), ("Gen", 1, 4), ("Gen", 2, 5), ("Exod", 2, 6)]
    expected = ["Gen 1:1", "Gen 1:1", "Gen 1:4", "Gen 2:5", "Exod 2:6"]
    assert passages(references) == expected


@pytest.fixture
def parts(monkeypatch):
    """The split of 131 chapters; every fourth one ends with the same verse as all the others do."""
    monkeypatch.setattr(prepare_bible, "LEAST", 20)
    monkeypatch.setattr(prepare_bible, "MOST", 23)
    monkeypatch.setattr(prepare_bible, "VALID_CHAPTERS", 7)
    lengths, texts = {}, {}
    for chapter in range(1, 132):
        for number, length in enumerate(LENGTHS, 1):
            words = [f"w{chapter}x{number}x{k}" for k in range(length)]
            repeated = number == 2 and chapter % 4 == 0
            reference = ("Gen", chapter, number)
            lengths[reference] = length
            texts[reference] = [" ".join(["selah"] * length if repeated else words)] * 3
    found, left_out = split_by_chapter(lengths, texts)
    return found, left_out, lengths, texts


def test_no_chapter_is_in_two_parts_and_nothing_but_repeats_and_surplus_is_left_out(parts):
    found, left_out, lengths, _ = parts
    places = [{reference[:2] for reference in found[name]} for name in ("train", "valid", "test")]
    assert len(set.union(*places)) == sum(map(len, places)) == 131
    assert len(places[1]) == 7
    kept = sum(len(found[name]) for name in ("train", "valid", "test"))
    assert kept + sum(left_out.values()) == len(lengths)


def test_repeats_of_the_training_text_are_dropped_from_the_other_parts_only(parts):
    found, left_out, _, texts = parts
    repeated = {
        name: [r for r in references if "selah" in texts[r][0]]
        for name, references in found.items()
    }
    assert repeated["train"]
    assert repeated["valid"] == repeated["test"] == repeated["test_chapters"] == []
    assert left_out["test verses that repeat a training verse"] > 0


def test_each_range_of_the_test_has_at_most_so_many_verses_and_all_beyond_the_last(parts):
    found, _, lengths, _ = parts
    counts = [sum(lengths[r] == length for r in found["test"]) for length in LENGTHS]
    assert all(20 <= count <= 23 for count in counts[:-1])
    assert counts[-1] == len({reference[:2] for reference in found["test_chapters"]})
    assert set(found["test"]) <= set(found["test_chapters"])


def test_most_of_the_8_grams_of_one_training_verse_make_a_repeat():
    known = " ".join(f"a{k}" for k in range(20))
    repeats = prepare_bible._Repeats([[known]])
    assert repeats.has(["b " + known[: known.index(" a19")].upper() + "!"])
    assert not repeats.has([" ".join(f"{'a' if k < 12 else 'b'}{k}" for k in range(20))])
    assert not repeats.has(["a1 a2 a3 a4 a5 a6"])
