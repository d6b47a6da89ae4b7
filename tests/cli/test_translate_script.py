"""The translate program, from a checkpoint file and bytes to bytes."""

import gzip
import io
import itertools
import math
import os
import random
import subprocess
import sys
import types
from pathlib import Path

import pytest
from checkpoints import write_checkpoint

from nmt.cli.translate import main
from nmt.data.preparation import train_tokenizer
from nmt.translator import Translator

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "translate.py"
TEXT = ["Ein Mädchen läuft.", "Ein Mann.", "Zwei Hunde spielen im Schnee."]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """An untrained model: it babbles, but always the same for the same text."""
    tokenizer = train_tokenizer(TEXT * 20, vocab_size=300)
    path = tmp_path_factory.mktemp("run") / "best.ckpt"
    return str(write_checkpoint(path, tokenizer, encoder_layers=1))


@pytest.fixture(scope="module")
def expected(checkpoint):
    """What the Python interface says for each line of TEXT, as bytes."""
    translations = Translator.from_checkpoint(checkpoint).translate(TEXT)
    assert len({translation.text for translation in translations}) == 3
    return [translation.text.encode() for translation in translations]


@pytest.fixture
def translate(checkpoint, monkeypatch):
    """Runs the program in this process: bytes in; status and bytes out."""

    def run(data: bytes, *options: str) -> tuple[int, bytes]:
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        stdout = io.TextIOWrapper(written)  # kept, because it closes `written` when it goes
        monkeypatch.setattr(sys, "stdout", stdout)
        status = main([checkpoint, *options])
        monkeypatch.undo()
        return status, written.getvalue()

    return run


def as_file(lines):
    return b"".join(line + b"\n" for line in lines)


SOURCE = as_file(line.encode() for line in TEXT)


@pytest.mark.parametrize(
    "data",
    [
        SOURCE,
        SOURCE.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + SOURCE.replace(b"\n", b"\r\n"),
        SOURCE.removesuffix(b"\n"),
    ],
    ids=["LF", "CRLF", "BOM and CRLF", "no final line end"],
)
def test_one_line_out_for_each_line_in_whatever_ends_it(translate, expected, data):
    assert translate(data) == (0, as_file(expected))


def test_only_lf_and_crlf_end_a_line(translate):
    strange = "Ein\u2028Mann.\nEin\u0085Mann.\nEin\rMann.\nEin\x0bMann\x1c.\n\u3000\u2029\n"
    status, written = translate(strange.encode())
    assert status == 0
    assert written.count(b"\n") == len(written.decode().splitlines()) == 5


def test_bytes_that_are_not_utf8_are_replaced_with_a_warning(translate, expected, caplog):
    lines = SOURCE.split(b"\n")[:3]
    lines[1] = b"Ein \xff Mann."
    lines[2] = b"Zwei \0 Hunde."
    status, written = translate(as_file(lines))
    assert (status, written.count(b"\n")) == (0, 3)
    assert written.startswith(expected[0] + b"\n")
    damaged, unfinished = caplog.messages
    assert damaged.startswith("line 2 is not valid UTF-8")
    assert unfinished.startswith("3 of 3 translations ended at the length limit")
    assert written == translate(as_file(lines).replace(b"\xff", "\ufffd".encode()))[1]


def test_files_give_what_pipes_give(translate, expected, tmp_path):
    for name in ("source.txt", "source.txt.gz"):
        source, target = tmp_path / name, tmp_path / ("out-" + name)
        source.write_bytes(gzip.compress(SOURCE) if name.endswith(".gz") else SOURCE)
        assert translate(b"", "--input", str(source), "--output", str(target)) == (0, b"")
        written = target.read_bytes()
        assert (gzip.decompress(written) if name.endswith(".gz") else written) == as_file(expected)
        assert translate(b"", "--input", str(source)) == (0, as_file(expected))


def test_a_long_file_with_blanks_comes_out_line_for_line(translate, expected):
    """Lines of all kinds over many chunks; the last has no line end."""
    blanks = ["", "   ", "\u3000", "\t", "\u200b", "\ufeff\x01", "\u200d \xad"]
    kinds, answers = [*TEXT, *blanks], [*expected, *[b""] * len(blanks)]
    numbers = [*random.Random(3).choices(range(len(kinds)), k=1000), 0]
    data = "\r\n".join(kinds[number] for number in numbers).encode()
    written = as_file([answers[number] for number in numbers])
    assert translate(data, "--chunk-size", "13") == (0, written)


def test_no_more_than_a_chunk_is_read_ahead(checkpoint, monkeypatch):
    """What is written when each line is read: memory does not grow with the file."""
    written = io.BytesIO()
    waiting = []

    class Source(io.BytesIO):
        def __iter__(self):
            for number in range(50):
                waiting.append(number - written.getvalue().count(b"\n"))
                yield TEXT[number % 3].encode() + b"\n"

    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=Source()))
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(buffer=written))
    assert main([checkpoint, "--chunk-size", "5"]) == 0
    assert written.getvalue().count(b"\n") == 50
    assert max(waiting) == 4  # and the one being read: a chunk


def test_options_change_the_search(translate):
    _, longer = translate(SOURCE, "--max-length", "30")
    _, shorter = translate(SOURCE, "--max-length", "1")
    assert len(longer) > len(translate(SOURCE)[1]) > len(shorter)
    assert translate(SOURCE, "--beam-size", "1") == translate(
        SOURCE, "--beam-size", "1", "--length-penalty", "0"
    )


def test_alternatives_name_their_line_and_score(translate):
    status, written = translate(SOURCE + b"\n", "--num-hypotheses", "2")
    rows = [line.split("\t") for line in written.decode().split("\n")[:-1]]
    assert status == 0
    assert [row[0] for row in rows] == ["1", "1", "2", "2", "3", "3", "4"]
    assert all(
        float(first[1]) >= float(second[1])
        for first, second in itertools.pairwise(rows)
        if first[0] == second[0]
    )
    assert rows[-1][2] == ""


def test_a_file_of_prefixes_gives_each_translation_its_beginning(translate, tmp_path):
    prefixes = tmp_path / "prefixes"
    prefixes.write_bytes("Zwei Hunde\r\n\nEin Mädchen\n".encode())
    status, written = translate(SOURCE, "--prefix", str(prefixes), "--max-length", "20")
    _, plain = translate(SOURCE, "--max-length", "20")
    lines = written.decode().split("\n")
    assert status == 0
    assert lines[0].startswith("Zwei Hunde")
    assert lines[1] == plain.decode().split("\n")[1]
    assert lines[2].startswith("Ein Mädchen")


@pytest.mark.parametrize("granularity", ["word", "subword"])
def test_alignments_are_pharaoh_pairs_after_a_tab(translate, checkpoint, granularity):
    status, written = translate(SOURCE + b"\n", "--alignment", granularity)
    rows = [line.split("\t") for line in written.decode().split("\n")[:-1]]
    assert (status, len(rows), rows[3]) == (0, 4, ["", ""])
    translations = Translator.from_checkpoint(checkpoint).translate(TEXT, alignment=granularity)
    for row, translation in zip(rows, translations, strict=False):
        links = [tuple(map(int, pair.split("-"))) for pair in row[1].split()]
        assert row[0] == translation.text
        assert tuple(links) == translation.alternatives[0].alignment
        if granularity == "word" and "\ufffd" not in row[0]:  # bytes that are no characters
            assert [target for _, target in links] == list(range(len(row[0].split())))
            assert all(source < len(translation.source.split()) for source, _ in links)
    _, best = translate(SOURCE, "--alignment", granularity, "--num-hypotheses", "2")
    assert {line.count("\t") for line in best.decode().split("\n")[:-1]} == {3}


def test_sampling_draws_what_its_seed_says(translate, expected):
    drawn = [translate(SOURCE, "--seed", seed)[1] for seed in ("1", "2", "1")]
    assert drawn[0] == drawn[2] != drawn[1]
    assert translate(SOURCE, "--seed", "1", "--chunk-size", "1")[1] == drawn[0]
    assert drawn[0].count(b"\n") == 3
    assert translate(SOURCE, "--top-k", "1")[1] == translate(SOURCE, "--beam-size", "1")[1]
    status, several = translate(SOURCE, "--temperature", "2", "--num-hypotheses", "3")
    assert (status, several.count(b"\n")) == (0, 9)


def test_given_translations_are_scored(translate, checkpoint, tmp_path, capsys):
    references = ["A girl.", "", "Two dogs play."]
    path = tmp_path / "references"
    path.write_text("\n".join(references), encoding="utf-8")
    status, written = translate(SOURCE, "--score", str(path), "--chunk-size", "2")
    scores = Translator.from_checkpoint(checkpoint).score(zip(TEXT, references, strict=True))
    rows = [tuple(map(float, line.split("\t"))) for line in written.decode().split("\n")[:-1]]
    assert status == 0
    for row, score in zip(rows, scores, strict=True):
        assert row == pytest.approx((score.log_prob, score.perplexity), rel=1e-4)
    total, num_tokens = sum(s.log_prob for s in scores), sum(len(s.tokens) for s in scores)
    error = capsys.readouterr().err
    assert f"3 translations, {num_tokens} tokens" in error
    shown = float(error.rpartition("perplexity ")[2])
    assert shown == pytest.approx(math.exp(-total / num_tokens), rel=1e-4)


@pytest.mark.parametrize("lines", [2, 4])
@pytest.mark.parametrize("option", ["--score", "--prefix"])
def test_a_second_file_has_as_many_lines(translate, tmp_path, capsys, option, lines):
    path = tmp_path / "second"
    path.write_bytes(b"Ein\n" * lines)
    assert translate(SOURCE, option, str(path))[0] == 1
    error = capsys.readouterr().err
    name = {"--score": "translations", "--prefix": "prefixes"}[option]
    expected = ("only 2 " + name) if lines == 2 else "only 3 sources"
    assert error.startswith("error: There are ")
    assert expected in error


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self, buffer):
        super().__init__(buffer, encoding="utf-8")

    def isatty(self):
        return True


class TerminalBytes(io.BytesIO):
    def isatty(self):
        return True


def test_a_terminal_is_asked_for_each_line_and_answered_at_once(
    expected, monkeypatch, capsys, checkpoint, tmp_path
):
    flushed = []

    class Answers(io.BytesIO):
        def flush(self):
            flushed.append(self.getvalue())

    monkeypatch.setattr(sys, "stdin", Terminal(TerminalBytes(SOURCE)))
    answers = io.TextIOWrapper(Answers())
    monkeypatch.setattr(sys, "stdout", answers)
    assert main([checkpoint]) == 0
    assert flushed[:3] == [as_file(expected[:n]) for n in (1, 2, 3)]
    assert capsys.readouterr().err == "> > > > \n"
    flushed.clear()
    references = tmp_path / "references"
    references.write_bytes(as_file(expected))
    answered = []

    class Source(TerminalBytes):
        def __next__(self):
            answered.append(len(flushed))
            return super().__next__()

    monkeypatch.setattr(sys, "stdin", Terminal(Source(SOURCE)))
    answers = io.TextIOWrapper(Answers())
    monkeypatch.setattr(sys, "stdout", answers)
    assert main([checkpoint, "--score", str(references)]) == 0
    assert answered == [0, 1, 2, 3]


def test_progress_is_shown_on_a_terminal_only(translate, expected, monkeypatch, capsys):
    assert translate(SOURCE) == (0, as_file(expected))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True)
    assert translate(SOURCE) == (0, as_file(expected))
    assert "3 lines" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam-size", "0"], "beam_size is 0"),
        (["--top-p", "2"], "top_p is 2"),
        (["--temperature", "0"], "temperature is 0"),
        (["--top-k", "5", "--beam-size", "3"], "--top-k samples and --beam-size searches"),
        (["--score", "x", "--beam-size", "3"], "--beam-size has no meaning with --score"),
        (["--score", "x", "--max-source-length", "9"], "--max-source-length has no meaning with"),
        (["--score", "no-such-file"], "no-such-file: No such file"),
        (["--prefix", "no-such-file"], "no-such-file: No such file"),
        (["--precision", "fp8"], "precision is 'fp8'"),
        (["--max-length", "-2"], "max_length is -2"),
        (["--num-hypotheses", "9"], "num_hypotheses is 9"),
        (["--batch-tokens", "0"], "batch_tokens is 0"),
        (["--chunk-size", "0"], "chunk_size is 0"),
        (["--max-source-length", "0"], "max_source_length is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--input", "no-such-file"], "no-such-file: No such file"),
        (["--output", "no/such/folder"], "no/such/folder: No such file"),
        (["--output", "."], ".: Is a directory"),
        (["--device", "quantum"], "quantum"),
    ],
)
def test_impossible_options_end_with_one_sentence(translate, capsys, options, message):
    assert translate(SOURCE, *options) == (1, b"")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


@pytest.mark.parametrize("option", ["--input", "--prefix", "--score"])
def test_what_is_read_is_not_overwritten(translate, tmp_path, capsys, option):
    path = tmp_path / "text"
    path.write_bytes(SOURCE)
    assert translate(SOURCE, option, str(path), "--output", str(path)) == (1, b"")
    assert path.read_bytes() == SOURCE
    assert "is read from too" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (SOURCE.decode().encode("utf-16"), "the text is UTF-16"),
        (gzip.compress(SOURCE), "the text is compressed"),
    ],
)
def test_what_is_no_text_is_refused(translate, capsys, data, message):
    assert translate(data) == (1, b"")
    assert message in capsys.readouterr().err


def test_messages_do_not_mix_into_translations_where_standard_error_is_closed(checkpoint, expected):
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" 2>&-', sys.executable, SCRIPT, checkpoint],
        input=SOURCE + b"\xff\n",
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        timeout=120,
    )
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 4)
    assert done.stdout.startswith(as_file(expected))


def run_script(checkpoint, folder, **options):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(SCRIPT), checkpoint]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def test_the_script_works_in_an_empty_folder_whatever_the_locale(checkpoint, expected, tmp_path):
    moved = tmp_path / "moved.ckpt"
    moved.write_bytes(Path(checkpoint).read_bytes())
    empty = tmp_path / "empty"
    empty.mkdir()
    process = run_script("../moved.ckpt", empty)
    written, errors = process.communicate(SOURCE + b"\xff\n", timeout=120)
    assert (process.returncode, written.split(b"\n")[:3]) == (0, expected)
    assert written.count(b"\n") == 4
    assert errors.decode().splitlines()[:-1] == [
        "nmt-translate: line 4 is not valid UTF-8 (byte 1): what is not becomes U+FFFD"
    ]


def test_a_line_is_translated_without_what_only_training_needs(checkpoint):
    code = (
        "import sys; from nmt.cli.translate import main; status = main(sys.argv[1:]);"
        "heavy = {'pytorch_lightning', 'lightning_fabric', 'hydra', 'omegaconf', 'datasets',"
        "'pyarrow', 'pandas', 'matplotlib', 'sacrebleu', 'scipy', 'rich', 'gradio', 'ctranslate2'};"
        "found = heavy & set(sys.modules); sys.exit(f'imported {found}' if found else status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, checkpoint],
        input=SOURCE,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (0, 1)  # the length limit
    assert done.stdout.count(b"\n") == 3


def test_a_reader_that_leaves_early_hears_nothing(checkpoint, tmp_path):
    process = run_script(checkpoint, tmp_path)
    process.stdout.close()
    process.stdin.write(SOURCE)
    process.stdin.close()
    assert process.wait(timeout=120) != 0
    assert process.stderr.read() == b""
    process.stderr.close()
