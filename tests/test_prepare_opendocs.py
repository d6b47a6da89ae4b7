import gzip
import importlib
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polib
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
try:
    recipe = importlib.import_module("prepare_opendocs")
    alignment, filters, markup, packages, sources, splitting = (
        importlib.import_module(f"opendocs.{name}")
        for name in ("alignment", "filters", "markup", "packages", "sources", "splitting")
    )
    sentences = importlib.import_module("opendocs.sentences").sentences
finally:
    sys.path.remove(str(ROOT / "scripts"))


def html(body):
    return f"<html><head><title>x</title></head><body>{body}</body></html>"


def texts(blocks):
    return [block.text for block in blocks if block.text]


def pairs_of(files):
    return [
        (pair.english, pair.german)
        for pair in alignment.aligned_texts({k: v.encode() for k, v in files.items()})
    ]


def catalogue(*entries):
    file = polib.POFile()
    for entry in entries:
        file.append(polib.POEntry(**entry))
    return file.to_binary()


def pair(english, german="", *, source="s", document="d"):
    return filters.Pair(source, document, english, german or english + " de")


# From markup to text


def test_html_blocks_are_plain_text_without_navigation_code_and_footnotes():
    page = html(
        '<div class="navheader"><p>Next</p></div><h1>A <b>bold</b>\n title</h1><pre>code</pre>'
        '<ul><li>An item<ul><li>inside</li></ul></li></ul><p>Text<a class="footnote">1</a> .</p>'
    )
    assert texts(markup.html_blocks(page)) == ["A bold title", "An item", "inside", "Text."]


def test_keys_menus_and_quotes_of_docbook_become_characters():
    source = (
        "<article><para>Press <keycombo><keycap>Ctrl</keycap><keycap>S</keycap></keycombo>, or "
        "<menuchoice><shortcut><keycap>X</keycap></shortcut><guimenu>File</guimenu>"
        "<guimenuitem>Save</guimenuitem></menuchoice>, for <quote>all</quote>.</para></article>"
    )
    assert texts(markup.xml_blocks(source, {})) == ['Press Ctrl+S, or File > Save, for "all".']


def test_entities_come_from_the_file_before_those_of_the_project():
    source = (
        '<!DOCTYPE article [<!ENTITY app "<b>My &kind;</b>"> <!ENTITY kind "Editor">]>'
        "<article><para>&app; in &project;, &auml;&amp;</para></article>"
    )
    blocks = markup.xml_blocks(source, {"project": "KDE", "kind": "Nothing"})
    assert texts(blocks) == ["My Editor in KDE, ä&"]


@pytest.mark.parametrize(
    "missing", ['<img src="a.png"/>', '<xref linkend="b"/>', '<ulink url="c"/>', "&unknown;"]
)
def test_text_that_cannot_be_shown_leaves_a_hole_and_is_dropped(missing):
    (block,) = markup.xml_blocks(f"<article><para>See {missing} there.</para></article>", {})
    assert block.text == f"See {markup.HOLE} there."
    assert filters.rejection(block.text, "Siehe dort.") == "something missing in the text"


def test_of_wordings_for_several_systems_the_usual_one_is_kept():
    switch = '<span class="switchinline"><span class="MAC">Cmd</span><span>Ctrl</span></span>'
    assert texts(markup.html_blocks(html(f"<p>Press {switch} now.</p>"))) == ["Press Ctrl now."]


# From two versions to pairs


@pytest.mark.parametrize(
    ("german", "english"),
    [
        ("usr/share/doc/HTML/de/kate/index.docbook", "usr/share/doc/HTML/en/kate/index.docbook"),
        ("usr/share/help/de/eog/a.page", "usr/share/help/C/eog/a.page"),
        ("usr/share/debian-reference/ch1.de.html", "usr/share/debian-reference/ch1.en.html"),
        ("usr/share/developers-reference/de/l.html", "usr/share/developers-reference/l.html"),
        ("usr/share/doc/h/html/de-DE/a.html", "usr/share/doc/h/html/en-US/a.html"),
        ("doc/maint-guide-de/html/a.de.html", "doc/maint-guide/html/a.en.html"),
        ("doc/apt-doc/guide.de.html/ch1.html", "doc/apt-doc/guide.html/ch1.html"),
    ],
)
def test_the_english_version_is_found_by_the_name_of_the_german_one(german, english):
    assert alignment.english_path(german, {german: b"", english: b"", "other": b""}) == english
    assert alignment.english_path(english, {german: b"", english: b""}) is None
    assert alignment.english_path(german, {german: b""}) is None


def test_files_of_the_same_structure_are_paired_block_by_block():
    files = {
        "help/en/a.html": html("<h1>Dogs</h1><p>They bark.</p>"),
        "help/de/a.html": html("<h1>Hunde</h1><p>Sie bellen.</p>"),
    }
    assert pairs_of(files) == [("Dogs", "Hunde"), ("They bark.", "Sie bellen.")]


def test_where_the_structure_differs_only_sections_that_agree_are_paired():
    english = '<h2 id="one">Dogs</h2><p>They bark.</p><h2 id="two">Cats</h2><p>They purr.</p>'
    german = '<h2 id="one">Hunde</h2><p>Sie</p><p>bellen.</p><h2 id="two">Katzen</h2><p>Miau.</p>'
    files = {"help/C/a.html": html(english), "help/de/a.html": html(german)}
    assert pairs_of(files) == [("Cats", "Katzen"), ("They purr.", "Miau.")]


def test_project_entities_differ_by_language():
    files = {
        "customization/en/user.entities": '<!ENTITY Enter "<keycap>Enter</keycap>">',
        "customization/de/user.entities": '<!ENTITY Enter "<keycap>Eingabe</keycap>">',
        "HTML/en/k/index.docbook": "<book><para>Press &Enter;.</para></book>",
        "HTML/de/k/index.docbook": "<book><para>&Enter; drücken.</para></book>",
    }
    assert pairs_of(files) == [("Press Enter.", "Eingabe drücken.")]


def test_messages_lose_accelerators_context_and_formatting():
    content = catalogue(
        {"msgid": "_Save all files", "msgstr": "Alle _Dateien speichern"},
        {"msgid": "Use my_file now", "msgstr": "Nimm jetzt my_file"},
        {"msgid": "?hut:Build <b>a hut</b> now", "msgstr": "Baut nun <b>eine Hütte</b>"},
        {"msgid": "First part.\n\nSecond part.", "msgstr": "Teil eins.\n\nTeil zwei."},
        {"msgid": "One file", "msgid_plural": "Files", "msgstr_plural": {0: "a", 1: "b"}},
        {"msgid": "Not translated", "msgstr": ""},
    )
    found = list(alignment.catalogue_texts(content, document="x"))
    assert [(pair.english, pair.german) for pair in found] == [
        ("Build a hut now", "Baut nun eine Hütte"),
        ("First part.", "Teil eins."),
        ("Second part.", "Teil zwei."),
        ("Use my_file now", "Nimm jetzt my_file"),
        ("Save all files", "Alle Dateien speichern"),
    ]


def test_tags_of_a_message_that_are_no_formatting_leave_a_hole():
    content = catalogue({"msgid": "Type <command> to go", "msgstr": "Tippt <Befehl> ein"})
    (found,) = alignment.catalogue_texts(content, document="x")
    assert found.english == found.german == markup.HOLE


# Which pairs are dropped


@pytest.mark.parametrize(
    ("english", "german", "reason"),
    [
        ("Open the file.", "Öffnen Sie die Datei.", None),
        ("Shows " + "many " * 150 + "dogs.", "Zeigt Hunde.", "too long"),
        ("Broken \ufffd text here.", "Kaputter Text hier.", "broken characters"),
        ("Version 7: GIMP", "version 8 – Gimp", "both sides are the same"),
        ("No", "Nein", "hardly any letters"),
        ("It barks.", "Dies ist der Hund, von dem wir sprachen, und er bellt.", "lengths too"),
        ("Hello %s and welcome", "Hallo %s und willkommen", "code or variables"),
        ("See (the first. Then", "Siehe (den ersten). Dann", "a bracket is not closed"),
        ("Set x = 1 / 2 + 3", "Setzt x = 1 / 2 + 3 an", "mostly no words"),
        ("Open the file of the dog", "Open the file of the Hund", "wrong language"),
        ("Run gimp without Python support", "Run gimp ohne Python support", "hardly translated"),
        ("It holds 10 dogs.", "Es fasst 25 Hunde.", "different numbers"),
        ("A. Dogs! Cats! Cows! Pigs!", "Hunde, Katzen, Kühe, Schweine", "different numbers of"),
    ],
)
def test_a_pair_is_dropped_for_the_first_rule_that_it_breaks(english, german, reason):
    found = filters.rejection(english, german)
    assert (found is None) == (reason is None)
    assert found is None or found.startswith(reason)


def test_labels_are_dropped_and_headings_of_two_words_kept():
    raws = [
        alignment.RawPair("d", "Move it down now", "Jetzt nach unten schieben", is_message=True),
        alignment.RawPair(
            "d", "Move the dog down now", "Den Hund jetzt nach unten schieben", is_message=True
        ),
        alignment.RawPair("d", "Moving down", "Nach unten bewegen"),
        alignment.RawPair("d", "Moving", "Bewegen"),
    ]
    removed = Counter()
    kept = list(filters.clean(raws, source="s", removed=removed))
    assert [pair.english for pair in kept] == ["Move the dog down now", "Moving down"]
    assert removed == {"a label: one word, or under five of a program": 2}


def test_numbering_goes_where_both_sides_have_it():
    raws = [
        alignment.RawPair("d", "2.1. Big dogs", "2.1. Große Hunde"),
        alignment.RawPair("d", "Figure 3. Small dogs", "Abbildung 3. Kleine Hunde"),
        alignment.RawPair("d", "12 wild dogs", "Es sind 12 wilde Hunde"),
    ]
    kept = list(filters.clean(raws, source="s", removed=Counter()))
    assert [(pair.english, pair.german) for pair in kept] == [
        ("Big dogs", "Große Hunde"),
        ("Small dogs", "Kleine Hunde"),
        ("12 wild dogs", "Es sind 12 wilde Hunde"),
    ]


def test_sentences_end_neither_at_abbreviations_nor_at_ordinals():
    assert sentences("See e.g. Dogs. They bark! „Why?“ Nobody knows") == [
        "See e.g. Dogs.",
        "They bark!",
        "„Why?“",
        "Nobody knows",
    ]
    assert sentences("Am 3. Mai kam z. B. Anna.") == ["Am 3. Mai kam z. B. Anna."]


# Splits

RULES = splitting.SplitRules(test_share=0.3, valid_share=0.2, largest_document=0.2)


@pytest.fixture
def corpus():
    """17 documents of 7 pairs."""
    return [
        pair(f"text{chr(97 + d)}{chr(97 + k)}", document=f"doc{d}")
        for d in range(17)
        for k in range(7)
    ]


def documents(pairs):
    return {pair.document for pair in pairs}


def test_documents_are_in_one_split_only(corpus):
    splits = splitting.split(corpus, rules=RULES, removed=Counter())
    parts = [documents(part) for part in (splits.train, splits.valid, splits.test)]
    assert all(parts)
    assert sum(map(len, parts)) == len(set.union(*parts)) == 17
    assert len(splits.test) == 35  # five documents of seven pairs are 29 % of 119


def test_a_document_that_is_most_of_its_source_is_for_training(corpus):
    large = [pair(f"word{chr(97 + k)}{chr(97 + k // 26)}", document="large") for k in range(300)]
    splits = splitting.split(large + corpus, rules=RULES, removed=Counter())
    assert "large" in documents(splits.train)
    assert "large" not in documents(splits.valid + splits.test)


@pytest.mark.parametrize("side", ["english", "german"])
def test_no_evaluation_pair_has_a_side_or_sentence_of_the_training_data(corpus, side):
    before = splitting.split(corpus, rules=RULES, removed=Counter())
    victim, known = before.test[0], before.train[0]
    text = {
        "english": (f"{known.english.upper()}. A new one!", "Neu."),
        "german": ("New.", f"Neues zuerst! {known.german.upper()}."),
    }[side]
    leaking = filters.Pair(victim.source, victim.document, *text)
    changed = [leaking if old == victim else old for old in corpus]
    removed = Counter()
    after = splitting.split(changed, rules=RULES, removed=removed)
    assert len(after.test) == len(before.test) - 1
    assert leaking not in after.test
    assert removed["evaluation: text or most 5-grams in training data"] == 1


def test_a_text_of_several_documents_is_not_evaluated(corpus):
    before = splitting.split(corpus, rules=RULES, removed=Counter())
    shared = filters.Pair("s", before.test[0].document, "Shared text!", "Geteilter Text!")
    again = filters.Pair("s", before.train[0].document, "shared text", "geteilter Text")
    after = splitting.split([*corpus, shared, again], rules=RULES, removed=Counter())
    assert "Shared text!" not in {pair.english for pair in after.test + after.valid}


def test_every_text_is_there_once(corpus):
    doubled = [*corpus, *(pair(old.english.upper(), document=old.document) for old in corpus)]
    removed = Counter()
    splits = splitting.split(doubled, rules=RULES, removed=removed)
    assert len(splits.train) + len(splits.valid) + len(splits.test) == len(corpus)
    assert removed["seen before"] == len(corpus)


def test_each_length_has_at_most_its_number_of_evaluation_pairs(corpus):
    rules = splitting.SplitRules(test_share=0.3, test_per_bucket=11, per_document=3)
    splits = splitting.split(corpus, rules=rules, removed=Counter())
    assert len(splits.test) == 11
    assert max(Counter(pair.document for pair in splits.test).values()) == 3


def test_some_training_paragraphs_are_split_and_no_evaluation_paragraph_is(corpus):
    letters = "abcdefghijklmnopq"
    paragraphs = [
        pair(
            f"The dog {a}{b} barks. The cat {a}{b} purrs.",
            f"Der Hund {a}{b} bellt. Die Katze {a}{b} schnurrt.",
            document=f"doc{letters.index(a)}",
        )
        for a in letters
        for b in "xyz"
    ]
    splits = splitting.split(paragraphs, rules=RULES, removed=Counter())
    single = [pair.is_sentence for pair in splits.train]
    assert any(single)
    assert not all(single)
    assert not any(pair.is_sentence for pair in splits.valid + splits.test)


@pytest.mark.parametrize(("words", "number"), [(1, 0), (10, 0), (11, 1), (80, 7), (81, 8)])
def test_ranges_of_length_are_those_of_the_evaluation(words, number):
    assert splitting.bucket(words) == number


# Packages


def stanza(name, version="1:2.0-1", size=3):
    return (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nFilename: pool/{name}.deb\n"
        f"Size: {size}\nDescription: text\n more: text\n"
    )


def test_the_first_name_that_the_release_has_is_taken(monkeypatch):
    monkeypatch.setattr(
        packages, "_run", lambda command: "\n".join(stanza(n) for n in ("a-2-b", "a-1-b", "c"))
    )
    known = packages.known_packages(["a-{3,2,1}-b", "c", "gone"])
    assert {name: package.name for name, package in known.items()} == {
        "a-{3,2,1}-b": "a-2-b",
        "c": "c",
    }
    assert known["c"].file_name == "c_1%3a2.0-1_all.deb"


def test_a_system_without_package_lists_is_told_to_fetch_them(monkeypatch):
    monkeypatch.setattr(packages, "_run", lambda command: "")
    with pytest.raises(ValueError, match="apt-get update"):
        packages.known_packages(["a"])


def test_only_what_is_not_there_is_downloaded(monkeypatch, tmp_path):
    wanted = [packages.Package(name, "1", "all", 3) for name in ("here", "cut", "new", "gone")]
    (tmp_path / "here_1_all.deb").write_bytes(b"123")
    (tmp_path / "cut_1_all.deb").write_bytes(b"1")
    calls, done = [], []

    def run(command, *, folder):
        calls.append(command[command.index("download") + 1 :])
        for name in ("cut", "new"):
            (folder / f"{name}_1_all.deb").write_bytes(b"123")

    monkeypatch.setattr(packages, "_run", run)
    failed = packages.download(wanted, folder=tmp_path, progress=done.append)
    assert calls == [["cut=1", "new=1", "gone=1"]]
    assert [package.name for package in failed] == ["gone"]
    assert sum(done) == 4


def test_a_download_without_network_ends_early(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(packages, "_run", lambda command, *, folder: calls.append(command))
    wanted = [packages.Package(f"p{k}", "1", "all", 3) for k in range(97)]
    failed = packages.download(wanted, folder=tmp_path, progress=lambda done: None)
    assert failed == wanted
    assert len(calls) == 1


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_a_package_is_read_without_other_languages_and_other_files(tmp_path):
    root = tmp_path / "root"
    for name in (
        "DEBIAN/control",
        "usr/share/help/de/a/i.page",
        "usr/share/help/fr/a/i.page",
        "usr/share/help/C/a/i.png",
        "usr/share/locale/de/LC_MESSAGES/a.mo",
        "usr/share/locale/fr/LC_MESSAGES/a.mo",
        "usr/share/doc/a/copyright",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text\n", encoding="utf-8")
    control = "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: A <a@b.c>\nDescription: a\n"
    (root / "DEBIAN/control").write_text(control, encoding="utf-8")
    (root / "usr/share/help/C/a/i.page.gz").write_bytes(gzip.compress(b"packed"))
    archive = tmp_path / "a.deb"
    subprocess.run(["dpkg-deb", "--build", root, archive], check=True, capture_output=True)
    found = packages.read_texts(archive)
    assert {name.removeprefix("./usr/share/"): text for name, text in found.items()} == {
        "help/C/a/i.page": b"packed",
        "help/de/a/i.page": b"text\n",
        "locale/de/LC_MESSAGES/a.mo": b"text\n",
        "doc/a/copyright": b"text\n",
    }
    archive.write_bytes(archive.read_bytes()[:500])
    with pytest.raises(ValueError, match="damaged"):
        packages.read_texts(archive)


# The whole recipe


@pytest.fixture
def system(monkeypatch):
    """A system with two packages in place of Debian's."""

    def read_texts(archive):
        language = archive.name[:2]
        word = {"en": "The dog barks", "de": "Der Hund bellt"}[language]
        return {
            f"help/{language}/{letter}.html": html(
                "".join(f"<p>{word} {letter}{other} {letter * 5}</p>" for other in "vwxyz")
            ).encode()
            for letter in "abcdefghijklmnopqrst"
        } | {f"doc/{language}/copyright": b"free"}

    def known_packages(names):
        assert list(names) == ["en-doc", "de-doc", "fr-doc"]
        return {n: packages.Package(n, "1.5", "all", 9) for n in ("en-doc", "de-doc")}

    source = sources.Source("manual", "A manual", "GPL-2+", "en-doc de-doc fr-doc")
    monkeypatch.setattr(recipe, "SOURCES", (source,))
    monkeypatch.setattr(recipe, "MIN_TRAIN_PAIRS", 10)
    monkeypatch.setattr(recipe, "check_system", lambda: None)
    monkeypatch.setattr(recipe, "known_packages", known_packages)
    monkeypatch.setattr(recipe, "download", lambda wanted, folder, progress: [])
    monkeypatch.setattr(recipe, "read_texts", read_texts)
    return monkeypatch


def lines(path):
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_the_same_packages_make_the_same_files(system, tmp_path):
    contents = []
    for name in ("first", "second"):
        recipe.build(tmp_path / name)
        found = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        contents.append([(path.relative_to(tmp_path / name), path.read_bytes()) for path in found])
    assert contents[0] == contents[1]
    assert {str(path) for path, _ in contents[0]} == {
        "README.md",
        *(f"{split}.{side}.gz" for split in ("train", "valid", "test") for side in ("en", "de")),
        "valid.documents.tsv.gz",
        "test.documents.tsv.gz",
        "copyright/de-doc.txt",
        "copyright/en-doc.txt",
    }


def test_each_evaluation_pair_has_a_line_about_its_origin(system, tmp_path):
    recipe.build(tmp_path)
    english, german = lines(tmp_path / "test.en.gz"), lines(tmp_path / "test.de.gz")
    about = [line.split("\t") for line in lines(tmp_path / "test.documents.tsv.gz")]
    assert len(english) == len(german) == len(about) > 0
    for source, target, (document, origin, kind) in zip(english, german, about, strict=True):
        letter = source.split()[-1][0]
        assert source.removeprefix("The dog") == target.removeprefix("Der Hund").replace(
            "bellt", "barks"
        )
        assert (document, origin, kind) == (letter, "manual", "sentence")


def test_the_readme_names_packages_licences_and_counts(system, tmp_path):
    recipe.build(tmp_path)
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| manual | A manual | GPL-2+ |" in text
    assert "* manual: en-doc 1.5, de-doc 1.5" in text
    assert f"| train | {len(lines(tmp_path / 'train.en.gz'))} |" in text


def test_packages_that_are_missing_are_named(system, tmp_path, capsys):
    recipe.build(tmp_path)
    assert "1 packages not in this release: fr-doc" in capsys.readouterr().out


def fails(system, capsys, directory):
    system.setattr(sys, "argv", ["prepare_opendocs.py", str(directory)])
    with pytest.raises(SystemExit) as exit_:
        recipe.main()
    assert exit_.value.code == 2
    return capsys.readouterr().err


def test_without_network_it_ends_in_one_sentence(system, capsys, tmp_path):
    system.setattr(recipe, "download", lambda wanted, folder, progress: wanted)
    assert "check the network" in fails(system, capsys, tmp_path)


def test_too_little_text_is_an_error_and_writes_nothing(system, capsys, tmp_path):
    system.setattr(recipe, "MIN_TRAIN_PAIRS", 101)
    assert "fewer than 101" in fails(system, capsys, tmp_path)
    assert not list(tmp_path.glob("*.gz"))


def test_a_folder_that_cannot_be_made_is_an_error_of_one_sentence(system, capsys, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert "choose a folder" in fails(system, capsys, tmp_path / "file")


def test_other_systems_are_pointed_to_the_hub(system, capsys, tmp_path):
    system.setattr(recipe, "check_system", packages.check_system)
    system.setattr(packages.shutil, "which", lambda program: None)
    assert "data=opus100" in fails(system, capsys, tmp_path)


def test_every_source_lists_each_package_once():
    names = [name for source in sources.SOURCES for name in source.packages.split()]
    assert len(names) == len(set(names)) > 100
