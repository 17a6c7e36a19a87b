"""What was paid for is in the journal, whatever ends the process that paid."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from prspark.engine import journal as journals
from prspark.engine.journal import (
    ENTRY,
    Entry,
    JournalWriter,
    absolute,
    entries_batch,
    known_verdicts,
    list_files,
    open_folder,
    read_file,
    read_lines,
    read_stop,
    remove,
    working_folder,
    write_stop,
)
from prspark.errors import ConfigError
from prspark.judges.protocol import Verdict
from prspark.metric.reasons import UnscoredReason

PATIENCE = 30  # seconds; only a broken journal waits so long
SCORED = Verdict(0.5, "half of it is right", None, 2, 310, 40, 1.25, 1)
FAILED = Verdict(None, None, UnscoredReason.TIMEOUT, 5, 900, 0, 60.0, 0)


def entry(key: str, verdict: Verdict = SCORED) -> Entry:
    return Entry.of(key, "correctness", "judge/1", verdict)


def write(folder: Path, name: str, *entries: Entry) -> None:
    writer = JournalWriter(str(folder), name)
    for each in entries:
        writer.write(each)
    writer.close()


def read(folder: Path | str) -> list[Entry]:
    return [each for path in list_files(str(folder)) for each in read_file(str(folder), path)]


# --- entries


@pytest.mark.parametrize(
    "verdict",
    [SCORED, FAILED, Verdict(1.0, 'a "quoted"\nline, \u00e9 and \ud800', attempts=1), Verdict(0.1 + 0.2)],
)
def test_entry_gives_back_the_verdict_as_it_was(tmp_path: Path, verdict: Verdict) -> None:
    write(tmp_path, "run-all-0-0", entry("k", verdict))
    [found] = read(tmp_path)
    assert (found.key, found.kind, found.judge, found.verdict) == ("k", "correctness", "judge/1", verdict)
    assert type(found.verdict.unscored_reason) is type(verdict.unscored_reason)


def test_entries_of_a_file_come_in_the_order_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, "run-all-0-0", *(entry(str(n)) for n in range(20)))
    assert [found.key for found in read(tmp_path)] == [str(n) for n in range(20)]


def test_entry_is_a_line_of_json(tmp_path: Path) -> None:
    write(tmp_path, "run-all-0-0", entry("a", Verdict(1.0, "two\nlines")), entry("b"))
    lines = (tmp_path / "run-all-0-0.jsonl").read_bytes().split(b"\n")
    assert [line[:9] for line in lines] == [b'{"key": "', b'{"key": "', b""]


@pytest.mark.parametrize("cut", range(1, 200, 7))
def test_torn_last_line_is_passed_over(tmp_path: Path, cut: int) -> None:
    write(tmp_path, "run-all-0-0", entry("a"), entry("b"))
    path = tmp_path / "run-all-0-0.jsonl"
    whole = path.read_bytes()
    assert len(whole) > 2 * cut
    path.write_bytes(whole[:-cut])
    expected = ["a", "b"] if cut == 1 else ["a"]  # the last byte is the line's end
    assert [found.key for found in read(tmp_path)] == expected


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1, 2]",
        b"{}",
        b'{"key": "k"}',
        b"\xff\xfe",
        b"not json",
        b"\x00" * 20,
        b"[" * 100_000,
        b'{"key": "k", "more": 1}',
    ],
)
def test_foreign_line_is_passed_over(tmp_path: Path, line: bytes) -> None:
    write(tmp_path, "run-all-0-0", entry("a"))
    path = tmp_path / "run-all-0-0.jsonl"
    path.write_bytes(line + b"\n" + path.read_bytes() + line)
    assert [found.key for found in read(tmp_path)] == ["a"]


def test_entry_with_a_reason_of_another_version_is_passed_over() -> None:
    line = json.dumps({**entry("k")._asdict(), "unscored_reason": "to_be_invented"}).encode()
    assert list(read_lines([line])) == []


def test_foreign_files_and_folders_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "run-all-0-0", entry("a"))
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "run.stop").write_text("x")
    (tmp_path / "run-folder.jsonl").mkdir()
    assert [Path(path).name for path in list_files(str(tmp_path))] == ["run-all-0-0.jsonl"]


def test_journal_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert list_files(str(tmp_path / "none")) == []
    assert known_verdicts(str(tmp_path / "none"), "run-") == {}


def test_a_folder_that_another_task_makes_while_it_is_looked_for_holds_nothing_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Racing:
        """What pyarrow says when the folder appears between its look for it and its check of that."""

        def get_file_info(self, _: fs.FileSelector) -> None:
            raise FileNotFoundError(2, "Cannot list directory")

    monkeypatch.setattr(journals, "open_folder", lambda journal: (Racing(), journal))
    assert list_files("/journal") == []
    assert known_verdicts("/journal", "run-") == {}


# --- what a task finds of its earlier attempts


def test_task_reads_its_own_earlier_attempts_and_no_other_tasks(tmp_path: Path) -> None:
    for name in (
        "run-all-1-7",
        "run-all-1-9",
        "run-all-11-7",
        "run-all-0-1",
        "run-shared-1-7",
        "other-all-1-7",
    ):
        write(tmp_path, name, entry(name))
    assert set(known_verdicts(str(tmp_path), "run-all-1-")) == {"run-all-1-7", "run-all-1-9"}


@pytest.mark.parametrize("names", [("run-all-0-1", "run-all-0-2"), ("run-all-0-2", "run-all-0-1")])
def test_scored_verdict_beats_an_unscored_one_whichever_comes_first(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    for name, verdict in zip(names, (SCORED, FAILED), strict=True):
        write(tmp_path, name, entry("k", verdict))
    assert known_verdicts(str(tmp_path), "run-") == {"k": SCORED}


def test_first_of_two_scored_verdicts_counts(tmp_path: Path) -> None:
    write(tmp_path, "run-all-0-1", entry("k"), entry("k", SCORED._replace(score=1.0)))
    assert known_verdicts(str(tmp_path), "run-") == {"k": SCORED}


def test_files_become_rows_that_name_their_run(tmp_path: Path) -> None:
    write(tmp_path, "abc123-all-0-1", entry("k"), entry("l", FAILED))
    batch = entries_batch(str(tmp_path), list_files(str(tmp_path))[0])
    assert batch.schema.names == [name for name, _ in ENTRY]
    rows = batch.to_pylist()
    assert [(row["key"], row["score"], row["unscored_reason"], row["run"]) for row in rows] == [
        ("k", 0.5, None, "abc123"),
        ("l", None, "timeout", "abc123"),
    ]


def test_empty_file_is_no_rows_of_the_same_types(tmp_path: Path) -> None:
    write(tmp_path, "run-all-0-0", entry("k"))
    (tmp_path / "run-all-0-1.jsonl").write_bytes(b"")
    full, empty = (entries_batch(str(tmp_path), path) for path in list_files(str(tmp_path)))
    assert (full.num_rows, empty.num_rows, full.schema) == (1, 0, empty.schema)


# --- a local journal


def test_verdict_is_in_the_file_before_write_returns(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path), "run-all-0-0")
    for n in range(3):
        writer.write(entry(str(n)))
        assert [found.key for found in read(tmp_path)] == [str(m) for m in range(n + 1)]
    writer.close()


def test_writer_of_the_same_name_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    for key in ("a", "b"):
        write(tmp_path, "run-all-0-0", entry(key))
    assert [found.key for found in read(tmp_path)] == ["a", "b"]


def test_threads_share_a_writer_without_mixing_lines(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path), "run-all-0-0")
    long = SCORED._replace(reason="x" * 20_000)

    def work(name: str) -> None:
        for n in range(25):
            writer.write(entry(f"{name}{n}", long))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(found.key for found in read(tmp_path)) == sorted(
        f"{n}{m}" for n in "abcd" for m in range(25)
    )


@pytest.mark.parametrize("room", [1, 40, 10_000])
def test_a_line_that_the_system_takes_in_part_is_begun_again(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.write
    left = [room, 7]  # bytes that the first two writes take

    def in_part(file: int, data: bytes) -> int:
        return whole(file, data[: left.pop(0)] if left else data)

    monkeypatch.setattr(os, "write", in_part)
    write(tmp_path, "run-all-0-0", *map(entry, "abc"))
    assert not left
    assert [found.key for found in read(tmp_path)] == ["a", "b", "c"]


def test_task_that_writes_nothing_leaves_no_file(tmp_path: Path) -> None:
    JournalWriter(str(tmp_path / "new"), "run-all-0-0").close()
    assert list_files(str(tmp_path / "new")) == []


def test_journal_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path / "new"), "run-all-0-0")
    (tmp_path / "new").rmdir()
    with pytest.raises(OSError, match="No such file"):
        writer.write(entry("a"))


KILLED = """
import sys
from prspark.engine.journal import Entry, JournalWriter
from prspark.judges.protocol import Verdict

writer = JournalWriter(sys.argv[1], "run-all-0-0")
for n in range(10**9):
    writer.write(Entry.of(str(n), "correctness", "j", Verdict(1.0, "x" * 3000, attempts=1)))
    print(n, flush=True)
"""


def test_killed_writer_loses_nothing_that_write_returned_for(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(200):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        returned = 200 + len(process.stdout.read().split())
    keys = [found.key for found in read(tmp_path)]
    assert keys[:returned] == [str(n) for n in range(returned)]


# --- a journal on an object store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal that is no local path: pyarrow's own stand-in for a bucket."""
    bucket = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(journals, "open_folder", lambda journal: (bucket, journal))
    monkeypatch.setattr(journals, "FLUSH_SECONDS", 3600.0)
    return tmp_path / "journal"


def sizes(store: Path) -> list[int]:
    return [len(path.read_bytes().splitlines()) for path in sorted(store.glob("*.jsonl"))]


def test_object_of_a_store_holds_at_most_100_verdicts(store: Path) -> None:
    writer = JournalWriter("journal", "run-all-3-8")
    for n in range(250):
        writer.write(entry(str(n)))
    assert sizes(store) == [100, 100]
    writer.close()
    assert sizes(store) == [100, 100, 50]
    assert [found.key for found in read("journal")] == [str(n) for n in range(250)]
    assert {path.name for path in store.iterdir()} == {f"run-all-3-8-00000{n}.jsonl" for n in range(3)}


def test_verdicts_do_not_wait_long_for_an_object_to_fill(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "FLUSH_SECONDS", 0.001)
    flushed = threading.Event()

    class Watched(JournalWriter):
        def _flush(self) -> None:
            super()._flush()
            if self._files:
                flushed.set()

    writer = Watched("journal", "run-all-0-0")
    writer.write(entry("a"))
    assert flushed.wait(PATIENCE)
    assert [found.key for found in read("journal")] == ["a"]
    writer.close()
    assert sizes(store) == [1]


@pytest.mark.usefixtures("store")
def test_earlier_attempts_are_found_on_a_store() -> None:
    for name in ("run-all-1-7", "run-all-11-7"):
        writer = JournalWriter("journal", name)
        writer.write(entry(name))
        writer.close()
    assert list(known_verdicts("journal", "run-all-1-")) == ["run-all-1-7"]


@pytest.mark.usefixtures("store")
def test_store_that_fails_between_writes_is_an_error_at_the_next_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journals, "FLUSH_SECONDS", 0.001)
    failed = threading.Event()

    class Failing(JournalWriter):
        broken = True

        def _flush(self) -> None:
            if self.broken and self._waiting:
                failed.set()
                raise OSError("the store is away")
            super()._flush()

    writer = Failing("journal", "run-all-0-0")
    writer.write(entry("a"))
    assert failed.wait(PATIENCE)
    assert writer._flusher is not None
    writer._flusher.join(PATIENCE)
    with pytest.raises(OSError, match="the store is away"):
        writer.write(entry("b"))
    writer.broken = False
    writer.close()  # the store is back: what was paid for is written after all
    assert [found.key for found in read("journal")] == ["a"]


# --- stopping, removing, naming


def test_stop_of_a_run_is_read_by_that_run_only(tmp_path: Path) -> None:
    journal = str(tmp_path)
    assert read_stop(journal, "run") is None
    write_stop(journal, "run", "judge.token_env: 401, \u00e9")
    assert read_stop(journal, "run") == "judge.token_env: 401, \u00e9"
    assert read_stop(journal, "other") is None
    assert read_stop(str(tmp_path / "none"), "run") is None


def test_removed_journal_is_gone_and_may_be_removed_again(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    write(folder, "run-all-0-0", entry("a"))
    remove(str(folder))
    assert not folder.exists()
    remove(str(folder))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("journal", "name"),
    [
        ("", ""),
        ("/data/j", "/data/j"),
        ("file:/data/j", "/data/j"),
        ("s3a://bucket/j", "s3://bucket/j"),
        ("s3n://bucket/j", "s3://bucket/j"),
        ("s3://bucket/j", "s3://bucket/j"),
        ("abfss://c@a.dfs.core.windows.net/j", "abfss://c@a.dfs.core.windows.net/j"),
        ("dbfs:/tmp/j", "/dbfs/tmp/j"),
        ("dbfs:///tmp/j", "/dbfs/tmp/j"),
        ("dbfs:/Volumes/a/b/c/j", "/Volumes/a/b/c/j"),
    ],
)
def test_journal_means_the_same_on_every_machine(journal: str, name: str) -> None:
    assert absolute(journal) == name


def test_relative_journal_is_under_the_current_folder_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("out/j") == str(tmp_path / "out" / "j")


def test_file_uri_is_a_local_folder(tmp_path: Path) -> None:
    system, folder = open_folder(absolute(f"file://{tmp_path}"))
    assert (isinstance(system, fs.LocalFileSystem), folder) == (True, str(tmp_path))


def test_unknown_store_is_refused_in_one_line_without_its_key() -> None:
    with pytest.raises(ConfigError) as caught:
        open_folder("wasp://user:s3cr3t@host/j")
    text = str(caught.value)
    assert "wasp" in text
    assert "--journal" in text
    assert "s3cr3t" not in text
    assert "\n" not in text


def test_working_folder_is_named_after_its_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found: Any = Path(working_folder("abc"))
    assert (found.parent, found.name) == (tmp_path, "prspark-abc")
