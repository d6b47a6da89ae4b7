import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from datasets import Dataset, concatenate_datasets

from nmt.data import text as shards
from nmt.data.cleaning import CleaningRules, clean
from nmt.data.preparation import TokenisedDataset, tokenise, train_tokenizer
from nmt.data.text import Text, apart, content_key, map_shards
from nmt.tokenizer import Tokenizer

RULES = CleaningRules(
    empty=True, max_length=9, max_length_ratio=None, identical=True, duplicates=True
)
SOURCES = [f"{'a ' * (k % 11)}{k % 17}" for k in range(59)]
TARGETS = [f"{'b ' * (k % 11)}{k % 17}" for k in range(59)]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "ROWS", 7)


@pytest.fixture
def text():
    return Dataset.from_dict({"source": SOURCES, "target": TARGETS})


@pytest.mark.parametrize("processes", [1, 2, 3, 50])
def test_results_are_in_the_order_of_the_rows(processes):
    found = map_shards(list, 31, processes=processes)
    assert [row for rows in found for row in rows] == list(range(31))
    assert [len(rows) for rows in found] == [7, 7, 7, 7, 3]


def test_one_shard_is_worked_on_in_this_process_and_more_in_others():
    assert map_shards(lambda rows: os.getpid(), 7) == [os.getpid()]
    assert apart(os.getpid, 7) == os.getpid()
    assert os.getpid() not in map_shards(lambda rows: os.getpid(), 8)
    assert apart(os.getpid, 8) != os.getpid()
    assert map_shards(len, 0) == [0]


def test_an_error_in_a_process_is_raised_here():
    def work(rows):
        if 15 in rows:
            raise ValueError(f"row {rows.start} is bad")

    with pytest.raises(ValueError, match="row 14 is bad"):
        map_shards(work, 31, processes=2)


def test_a_process_that_is_killed_is_an_error():
    def work(rows):
        if 15 in rows:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ValueError, match="ended by the system"):
        map_shards(work, 31, processes=2)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends after its task")
def test_processes_do_not_outlive_the_one_they_work_for(tmp_path):
    def note_and_sleep():
        (tmp_path / "pid").write_text(str(os.getpid()), encoding="utf-8")
        time.sleep(60)

    killed = multiprocessing.get_context("fork").Process(target=apart, args=(note_and_sleep, 8))
    killed.start()
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").stat().st_size > 0)
    killed.kill()
    killed.join()
    wait_until(lambda: not is_running(int((tmp_path / "pid").read_text(encoding="utf-8"))))


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(process):
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"  # ended, and nobody has asked how


@pytest.mark.parametrize("processes", [1, 2])
def test_cleaning_in_shards_is_cleaning_at_once(text, monkeypatch, processes):
    monkeypatch.setattr(shards, "default_processes", lambda: processes)
    found = clean(text, rules=RULES)
    monkeypatch.setattr(shards, "ROWS", 1000)
    whole = clean(text, rules=RULES)
    assert found.rows.tolist() == whole.rows.tolist()
    assert found.source_units.tolist() == whole.source_units.tolist()
    assert found.report == whole.report
    assert found.report.removed["max_length"] > 0


def test_encoding_gives_the_same_files_for_any_number_of_processes(text, monkeypatch, tmp_path):
    tokenizer = Tokenizer(train_tokenizer(SOURCES + TARGETS, vocab_size=283))
    contents = []
    for processes in (1, 2):
        monkeypatch.setattr(shards, "default_processes", lambda n=processes: n)
        files = tokenise(Text(text, "key"), tokenizer, cache_dir=tmp_path / str(processes))
        contents.append({file.name: file.read_bytes() for file in files})
    assert len(contents[0]) == 9
    assert contents[0] == contents[1]
    batch = TokenisedDataset(files)[[58, 7, 0]]
    assert [tokenizer.decode(row) for row in batch.target_out.tolist()] == [
        TARGETS[row] for row in (58, 7, 0)
    ]
    assert TokenisedDataset(files).source_lengths.tolist() == [
        len(tokenizer.encode(source)) + 1 for source in SOURCES
    ]


def test_the_key_of_a_text_depends_on_its_content_alone(text):
    pieces = concatenate_datasets([text.select(range(20)), text.select(range(20, 59))])
    assert content_key(pieces) == content_key(text)
    assert content_key(text.select([*range(58), 58])) == content_key(text)
    assert content_key(text.select(range(58))) != content_key(text)
    moved = Dataset.from_dict({"source": ["ab", "c"], "target": ["d", "e"]})
    other = Dataset.from_dict({"source": ["a", "bc"], "target": ["d", "e"]})
    assert content_key(moved) != content_key(other)
