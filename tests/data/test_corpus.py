import gzip
import json
import logging
import time

import datasets
import huggingface_hub
import pyarrow
import pyarrow.parquet
import pytest

from nmt.data.corpus import Corpus, Origin, build_options
from nmt.data.files import Languages, read_lines, read_parallel

EN_DE = Languages("en", "de", {})


def write(path, text, *, newline="\n"):
    data = text.replace("\n", newline).encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def write_splits(directory, *, suffix="", sizes=(5, 2, 3), names=("train", "valid", "test")):
    for name, size in zip(names, sizes, strict=True):
        for lang in ("en", "de"):
            text = "".join(f"{lang} {name} {k}\n" for k in range(size))
            write(directory / f"{name}.{lang}{suffix}", text)


def load(tmp_path, *, source_lang="en", target_lang="de", lowercase=False, **origin):
    corpus = Corpus(
        "toy",
        (source_lang, target_lang),
        build_options(Origin, origin, where="data"),
        cache_dir=tmp_path / "cache",
        lowercase=lowercase,
    )
    return {name: corpus.split(name) for name in corpus.splits}


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub_cache")


# Lines


def test_only_line_feeds_end_a_line(tmp_path):
    source = [
        "one",
        "two\u2028two",
        "three\u0085three",
        "four\rfour",
        "five\x0bfive\x1cfive\x0b",
        "six",
    ]
    target = [f"Zeile {k}" for k in range(1, 7)]
    files = [
        write(tmp_path / "a.en", "\n".join(source) + "\n"),
        write(tmp_path / "a.de.gz", "\n".join(target)),
    ]
    text = read_parallel(files, EN_DE)
    assert text.source == source
    assert text.target == target


@pytest.mark.parametrize("form", ["lf", "crlf", "bom", "no final newline", "gzip"])
def test_line_ends_and_byte_order_mark_do_not_matter(tmp_path, form):
    text = "Ein Mädchen läuft.\n\nEin Hund.\n"
    name = "a.de.gz" if form == "gzip" else "a.de"
    text = text.removesuffix("\n") if form == "no final newline" else text
    text = "\ufeff" + text if form == "bom" else text
    path = write(tmp_path / name, text, newline="\r\n" if form in ("crlf", "bom") else "\n")
    assert read_lines(path) == ["Ein Mädchen läuft.", "", "Ein Hund."]


def test_invalid_utf8_is_refused_with_file_and_line(tmp_path):
    path = tmp_path / "a.de"
    path.write_bytes(b"gut\nsch\xffn\ngut\n")
    with pytest.raises(ValueError, match=r"a\.de, line 2 is not valid UTF-8"):
        read_lines(path)


def test_damaged_and_missing_files_are_named(tmp_path):
    whole = gzip.compress(b"ein Satz\n" * 99)
    (tmp_path / "cut.de.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "plain.de.gz").write_bytes(b"no gzip")
    for name in ("cut.de.gz", "plain.de.gz"):
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            read_lines(tmp_path / name)
    with pytest.raises(ValueError, match=r"no file .*none\.de"):
        read_lines(tmp_path / "none.de")


def test_unequal_files_are_refused_with_names_and_counts(tmp_path):
    files = [write(tmp_path / "a.en", "x\n" * 13), write(tmp_path / "a.de", "y\n" * 11)]
    with pytest.raises(ValueError, match=r"a\.en has 13 lines but .*a\.de has 11"):
        read_parallel(files, EN_DE)


def test_files_named_by_language_are_matched_by_it(tmp_path):
    files = [write(tmp_path / "a.de", "ja\n"), write(tmp_path / "a.en.gz", "yes\n")]
    assert read_parallel(files, EN_DE).source == ["yes"]
    files = [write(tmp_path / "a.txt", "yes\n"), write(tmp_path / "b.txt", "ja\n")]
    assert read_parallel(files, EN_DE).source == ["yes"]


# Tables


def test_tsv_has_no_quoting(tmp_path):
    path = write(tmp_path / "a.tsv", 'one\teins\n"two\tzwei\nthree\tdrei\nfour"\t"vier\n')
    text = read_parallel([path], EN_DE)
    assert text.source == ["one", '"two', "three", 'four"']
    assert text.target == ["eins", "zwei", "drei", '"vier']


def test_a_tsv_row_without_two_fields_is_named(tmp_path):
    path = write(tmp_path / "a.tsv", "one\teins\ntwo\n")
    with pytest.raises(ValueError, match=r"a\.tsv, line 2 has 1 tab-separated fields"):
        read_parallel([path], EN_DE)


def test_tsv_columns_can_be_numbered_and_must_be_where_there_are_more_than_two(tmp_path):
    path = write(tmp_path / "a.tsv", "7\teins\tone\n")
    with pytest.raises(ValueError, match=r"line 1 has 3 .* example data\.columns=\{en: 1, de: 2\}"):
        read_parallel([path], EN_DE)
    text = read_parallel([path], Languages("en", "de", {"en": 2, "de": 1}))
    assert (text.source, text.target) == (["one"], ["eins"])


@pytest.mark.parametrize(
    "shape", [{"en": "yes", "de": "ja"}, {"translation": {"en": "yes", "de": "ja"}}]
)
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_both_shapes_of_tables_load(tmp_path, shape, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        write(path, json.dumps({"id": 7, **shape}) + "\n")
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"id": 7, **shape}]), path)
    text = read_parallel([path], EN_DE)
    assert (text.source, text.target) == (["yes"], ["ja"])


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_other_columns_are_listed_and_can_be_named(tmp_path, kind):
    path, row = tmp_path / f"a.{kind}", {"eng": "yes", "deu": "ja"}
    if kind == "jsonl":
        write(path, json.dumps(row) + "\n")
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    with pytest.raises(ValueError, match=r"no column 'en' .* but eng, deu"):
        read_parallel([path], EN_DE)
    text = read_parallel([path], Languages("en", "de", {"en": "eng", "de": "deu"}))
    assert (text.source, text.target) == (["yes"], ["ja"])


@pytest.mark.parametrize("line", ["{", "[1]"])
def test_a_line_that_is_no_json_object_is_named(tmp_path, line):
    path = write(tmp_path / "a.jsonl", '{"en": "yes", "de": "ja"}\n' + line + "\n")
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2 is no JSON object"):
        read_parallel([path], EN_DE)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('["yes"]', "holds a list"),
        ('{"a": 1}', "holds a dict"),
        ('"\\ud800"', "holds half a surrogate"),
    ],
)
def test_a_value_that_is_no_text_is_refused(tmp_path, value, message):
    path = write(tmp_path / "a.jsonl", f'{{"en": {value}, "de": "ja"}}\n')
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 1, column 'en', {message}"):
        read_parallel([path], EN_DE)


def test_a_damaged_table_is_named(tmp_path):
    write(tmp_path / "a.parquet", "PAR1 and no more")
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read"):
        read_parallel([tmp_path / "a.parquet"], EN_DE)


# Corpora


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("direction", [("en", "de"), ("de", "en")])
def test_a_directory_is_loaded_in_both_directions(tmp_path, suffix, direction):
    write_splits(tmp_path, suffix=suffix)
    source, target = direction
    splits = load(tmp_path, directory=str(tmp_path), source_lang=source, target_lang=target)
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 5,
        "valid": 2,
        "test": 3,
    }
    assert splits["test"][2] == {"source": f"{source} test 2", "target": f"{target} test 2"}


def test_splits_have_the_names_the_config_gives_them(tmp_path):
    write_splits(tmp_path, names=("train", "val", "test_2016"))
    write_splits(tmp_path, names=("x", "y", "test_2017"))
    stems = {"train": "train", "valid": "val", "test": "test_2016", "more": "test_2017", "no": "z"}
    splits = load(tmp_path, directory=str(tmp_path), directory_splits=stems)
    assert list(splits) == ["train", "valid", "test", "more"]
    assert splits["more"]["source"][0] == "en test_2017 0"


def test_a_missing_half_or_split_is_named(tmp_path):
    write_splits(tmp_path)
    (tmp_path / "valid.de").unlink()
    with pytest.raises(ValueError, match=r"valid\.en is there, but valid\.de"):
        load(tmp_path, directory=str(tmp_path))
    (tmp_path / "valid.en").unlink()
    with pytest.raises(ValueError, match=r"has no valid\.en"):
        load(tmp_path, directory=str(tmp_path))
    with pytest.raises(ValueError, match="no such folder"):
        load(tmp_path, directory=str(tmp_path / "none"))


def test_wrong_sizes_are_reported(tmp_path, caplog):
    write_splits(tmp_path)
    with caplog.at_level(logging.INFO):
        load(tmp_path, directory=str(tmp_path), expected_sizes={"train": 5, "test": 3})
    assert "toy, train: 5 pairs." in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    load(tmp_path, directory=str(tmp_path), expected_sizes={"train": 5, "test": 7})
    assert "toy is not the known one: test has 3 pairs, not 7" in caplog.text


def test_text_is_read_as_written_unless_lower_case_is_asked_for(tmp_path):
    write_splits(tmp_path)
    text = "Der ﬁnale\u00a0Ärger  ½ e\u0301\n"
    write(tmp_path / "test.de", text * 3)
    assert load(tmp_path, directory=str(tmp_path))["test"]["target"][0] == text[:-1]
    lowered = load(tmp_path, directory=str(tmp_path), lowercase=True)["test"]
    assert lowered["target"][0] == text[:-1].lower() != text[:-1]


def test_files_can_be_any_pair_or_table(tmp_path):
    write_splits(tmp_path)
    splits = load(
        tmp_path,
        train=[str(tmp_path / "train.en"), str(tmp_path / "train.de")],
        valid=[write(tmp_path / "v.tsv", "yes\tja\n")],
        test=write(tmp_path / "t.jsonl", '{"en": "no", "de": "nein"}\n'),
    )
    assert [len(split) for split in splits.values()] == [5, 1, 1]
    assert splits["test"][0] == {"source": "no", "target": "nein"}


def test_an_empty_split_is_refused(tmp_path):
    write_splits(tmp_path, sizes=(5, 0, 3))
    with pytest.raises(ValueError, match="valid split of toy is empty"):
        load(tmp_path, directory=str(tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"data=toy needs local files; set data\.directory"),
        ({"directory": "a", "grammar": {}}, "more than one origin"),
        ({"hub": {"path": "a"}}, r"data\.hub .*missing a required .*'revision'"),
        ({"hub": {"paht": "a"}}, "paht.*its keys are path"),
        ({"train": ["a", "b"]}, r"data\.valid is missing"),
    ],
)
def test_impossible_options_are_refused_before_anything_is_read(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "none", **options)


# The hub, which a local folder of the same schema stands for


def hub_options(folder, **options):
    splits = {"train": "train[:-3]", "valid": "train[-3:-1]", "test": "train[-1:]"}
    return {"path": str(folder), "revision": "main", "splits": splits} | options


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("kind", ["flat", "translation", "named"])
def test_hub_sets_of_every_shape_load(tmp_path, kind):
    rows = [{"en": f"yes {k}", "de": f"ja {k}" if k else None, "id": k} for k in range(7)]
    if kind == "translation":
        rows = [{"translation": {"de": row["de"], "en": row["en"]}} for row in rows]
    if kind == "named":
        rows = [{"english": row["en"], "non_english": row["de"]} for row in rows]
    folder = tmp_path / "set"
    folder.mkdir()
    if kind == "flat":
        write(folder / "train.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "train.parquet")
    columns = {"en": "english", "de": "non_english"} if kind == "named" else {}
    splits = load(tmp_path, hub=hub_options(folder), columns=columns)
    assert [len(split) for split in splits.values()] == [4, 2, 1]
    assert splits["train"][0] == {"source": "yes 0", "target": ""}
    assert splits["test"][0] == {"source": "yes 6", "target": "ja 6"}
    if kind != "named":
        with pytest.raises(ValueError, match="no column 'fr'"):
            load(tmp_path, hub=hub_options(folder), target_lang="fr")


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("name", ["set.py", "train.csv"])
def test_hub_sets_with_code_or_other_formats_are_refused_in_one_sentence(tmp_path, name):
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder / name, "en,de\n")
    with pytest.raises(ValueError, match="only parquet and JSON data without code") as caught:
        load(tmp_path, hub=hub_options(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("hub_cache")
@pytest.mark.parametrize("offline", [True, False])
def test_without_the_hub_the_error_comes_at_once_with_the_remedy(tmp_path, monkeypatch, offline):
    def no_network(*args, **kwargs):
        raise OSError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", no_network)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", offline)
    started = time.monotonic()
    with pytest.raises(ValueError, match=r"somebody/pairs cannot be fetched.*data\.directory=DIR"):
        load(tmp_path, hub=hub_options("somebody/pairs"))
    assert time.monotonic() - started < 5


def test_documents_beside_the_text_become_columns(tmp_path):
    write_splits(tmp_path)
    write(tmp_path / "test.documents.tsv.gz", "a\na\nb\n")
    splits = load(tmp_path, directory=str(tmp_path))
    assert splits["test"]["document"][:] == ["a", "a", "b"]
    assert splits["valid"].column_names == ["source", "target"]
    write(tmp_path / "test.documents.tsv.gz", "a\n")
    with pytest.raises(ValueError, match="has 1 lines for the 3 pairs of test"):
        load(tmp_path, directory=str(tmp_path))


def test_links_beside_the_text_have_the_source_first_in_either_direction(tmp_path):
    write_splits(tmp_path)
    write(tmp_path / "test.en-de.links", "0-1 2-0\n\n1-1\n")
    found = [
        load(tmp_path, directory=str(tmp_path), source_lang=source, target_lang=target)["test"]
        for source, target in (("en", "de"), ("de", "en"))
    ]
    assert found[0]["links"][:] == [[[0, 1], [2, 0]], [], [[1, 1]]]
    assert found[1]["links"][:] == [[[1, 0], [0, 2]], [], [[1, 1]]]
    write(tmp_path / "test.en-de.links", "0-1\n")
    with pytest.raises(ValueError, match="has 1 lines for the 3 pairs of test"):
        load(tmp_path, directory=str(tmp_path))["test"]


def test_lower_casing_keeps_other_columns_as_they_are_now(tmp_path):
    write_splits(tmp_path)
    for name in ("Man", "Kde"):
        write(tmp_path / "test.documents.tsv.gz", f"{name}\n" * 3)
        test = load(tmp_path, directory=str(tmp_path), lowercase=True)["test"]
        assert test["document"][:] == [name] * 3
        assert test["source"][:] == [text.lower() for text in test["source"]]
