"""The journal: every verdict that was paid for, written the moment it arrives. No Spark needed.

JSON lines, one file a task attempt: appended to on a local or FUSE path, many small ones on an object store.
"""

import functools
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import fs

from prspark.errors import ConfigError
from prspark.judges.protocol import Verdict
from prspark.metric.reasons import UnscoredReason

_REASONS = frozenset([None, *UnscoredReason])

FLUSH_SECONDS = 2.0
FLUSH_VERDICTS = 100


class Entry(NamedTuple):
    """One line of the journal. Times are seconds; `time` is when the verdict arrived, since the epoch."""

    key: str
    kind: str
    judge: str
    score: float | None
    reason: str | None
    unscored_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    latency_seconds: float
    attempts: int
    throttled: int
    time: float

    @classmethod
    def of(cls, key: str, kind: str, judge: str, verdict: Verdict) -> "Entry":
        """Make the entry of a verdict that arrived now."""
        return cls(
            key,
            kind,
            judge,
            verdict.score,
            verdict.reason,
            verdict.unscored_reason,
            verdict.prompt_tokens,
            verdict.completion_tokens,
            round(verdict.latency_seconds, 6),
            verdict.attempts,
            verdict.throttled,
            round(time.time(), 3),
        )

    @property
    def verdict(self) -> Verdict:
        """The verdict as it was."""
        unscored = UnscoredReason(self.unscored_reason) if self.unscored_reason else None
        return Verdict(
            self.score,
            self.reason,
            unscored,
            self.attempts,
            self.prompt_tokens,
            self.completion_tokens,
            self.latency_seconds,
            self.throttled,
        )


# as Spark's users spell them, and as pyarrow does; Databricks mounts its own on every machine
_SPELLINGS = (("s3a://", "s3://"), ("s3n://", "s3://"), ("dbfs:/Volumes/", "/Volumes/"), ("dbfs:/", "/dbfs/"))


def absolute(journal: str) -> str:
    """Make a journal's name mean the same on every machine: workers have another current folder."""
    if not journal:
        return journal
    for ours, theirs in _SPELLINGS:
        if journal.startswith(ours):
            return theirs + journal.removeprefix(ours).lstrip("/")
    if journal.startswith("file://"):
        return os.path.abspath("/" + journal.removeprefix("file:").lstrip("/"))
    return journal if "://" in journal else os.path.abspath(journal.removeprefix("file:"))


def open_folder(journal: str) -> tuple[fs.FileSystem, str]:
    """Return the file system and the path in it of a journal named by `absolute`.

    Raises:
        ConfigError: pyarrow knows no such file system.
    """
    return _open_uri(journal) if "://" in journal else (fs.LocalFileSystem(), journal)


@functools.lru_cache(maxsize=4)  # to open a store may take a request
def _open_uri(uri: str) -> tuple[fs.FileSystem, str]:
    try:
        system, folder = fs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid:
        # a URI may hold a key, so it is not shown
        scheme = uri.partition("://")[0]
        raise ConfigError(
            f"a journal can't be kept under {scheme}://; name a folder with --journal"
        ) from None
    return system, str(folder)


class JournalWriter:
    """Writes the verdicts of one task attempt; threads may share it.

    On a local path each verdict is one `write`, so a killed process loses none that it had. Elsewhere a new
    small file is made at most `FLUSH_SECONDS` or `FLUSH_VERDICTS` after the last.
    """

    def __init__(self, journal: str, name: str) -> None:
        system, folder = open_folder(journal)
        self._system, self._stem = system, f"{folder}/{name}"
        self._local = isinstance(system, fs.LocalFileSystem)
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._files = 0
        self._file: int | None = None
        self._closed = threading.Event()
        self._failure: Exception | None = None
        system.create_dir(folder, recursive=True)
        self._flusher = None if self._local else threading.Thread(target=self._flush_regularly, daemon=True)
        if self._flusher:
            self._flusher.start()

    def write(self, entry: Entry) -> None:
        """Append one verdict.

        Raises:
            OSError: the journal can't be written; nothing more may be paid for.
        """
        line = json.dumps(entry._asdict()).encode() + b"\n"
        if self._local:
            self._append(line)
            return
        with self._lock:
            if self._failure:
                raise self._failure
            self._waiting.append(line)
            if len(self._waiting) >= FLUSH_VERDICTS:
                self._flush()

    def close(self) -> None:
        """Write what waits and let go, once nobody writes any more."""
        self._closed.set()
        if self._flusher:
            self._flusher.join()
        with self._lock:
            self._flush()
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _append(self, line: bytes) -> None:
        """Append without a lock: the system appends one write after the other, and who waits holds up a call."""
        written = os.write(self._opened(), line)
        while written < len(line):  # the line is torn, and others may have written since: begin it again
            line = b"\n" + line.lstrip(b"\n")
            written = os.write(self._opened(), line)

    def _opened(self) -> int:
        if self._file is None:
            with self._lock:
                if self._file is None:
                    self._file = os.open(f"{self._stem}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        return self._file

    def _flush(self) -> None:
        if not self._waiting:
            return
        with self._system.open_output_stream(f"{self._stem}-{self._files:06d}.jsonl") as stream:
            stream.write(b"".join(self._waiting))
        self._files += 1
        self._waiting = []

    def _flush_regularly(self) -> None:
        while not self._closed.wait(FLUSH_SECONDS):
            with self._lock:
                try:
                    self._flush()
                except OSError as error:
                    self._failure = error  # the next write reports it
                    return


def list_files(journal: str, prefix: str = "") -> list[str]:
    """Return the journal's files, as paths for `read_file`, sorted; none when there is no such folder yet."""
    system, folder = open_folder(journal)
    try:
        found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=False))
    except FileNotFoundError:  # so pyarrow tells of a folder that another task makes while it is looked for
        return []
    names = [info.path for info in found if info.is_file and info.base_name.endswith(".jsonl")]
    return sorted(name for name in names if name.rpartition("/")[2].startswith(prefix))


def read_file(journal: str, path: str) -> Iterator[Entry]:
    """Yield a file's entries; a torn or foreign line is passed over."""
    system, _ = open_folder(journal)
    with system.open_input_stream(path) as stream:
        yield from read_lines(stream.read().split(b"\n"))


def read_lines(lines: Iterable[bytes]) -> Iterator[Entry]:
    """Yield the entries of complete lines; a torn or foreign line is passed over."""
    for line in lines:
        entry = _entry(line)
        if entry is not None:
            yield entry


def _entry(line: bytes) -> Entry | None:
    try:
        entry = Entry(**json.loads(line))
        return entry if entry.unscored_reason in _REASONS else None
    except (ValueError, TypeError, RecursionError):
        return None


def known_verdicts(journal: str, prefix: str) -> dict[str, Verdict]:
    """Read what earlier attempts of a task have paid for, by key; a scored verdict beats an unscored one."""
    known: dict[str, Verdict] = {}
    for path in list_files(journal, prefix):
        for entry in read_file(journal, path):
            if entry.key not in known or known[entry.key].score is None:
                known[entry.key] = entry.verdict
    return known


def remove(journal: str) -> None:
    """Remove a working journal, if it is there."""
    system, folder = open_folder(journal)
    if system.get_file_info(folder).type != fs.FileType.NotFound:
        system.delete_dir(folder)


def working_folder(name: str) -> str:
    """Return a folder beside the temporary files of this machine, for a run that names no journal."""
    import tempfile

    return str(Path(tempfile.gettempdir()) / f"prspark-{name}")


def write_stop(journal: str, run: str, reason: str) -> None:
    """Leave word that the judge refuses every call, so that no further task of the run asks it."""
    system, folder = open_folder(journal)
    with system.open_output_stream(f"{folder}/{run}.stop") as stream:
        stream.write(reason.encode())


def read_stop(journal: str, run: str) -> str | None:
    """Return why a task of this run stopped it; null if none did."""
    system, folder = open_folder(journal)
    try:
        with system.open_input_stream(f"{folder}/{run}.stop") as stream:
            return str(stream.read().decode())
    except FileNotFoundError:
        return None


ENTRY = (
    ("key", "string"),
    ("kind", "string"),
    ("judge", "string"),
    ("score", "double"),
    ("reason", "string"),
    ("unscored_reason", "string"),
    ("prompt_tokens", "bigint"),
    ("completion_tokens", "bigint"),
    ("latency_seconds", "double"),
    ("attempts", "int"),
    ("throttled", "int"),
    ("time", "double"),
    ("run", "string"),
)
"""An entry as a row: its fields, and the run that wrote it, which is how its file's name begins."""

_ARROW = {"string": pa.string(), "double": pa.float64(), "int": pa.int32(), "bigint": pa.int64()}


def entries_batch(journal: str, path: str) -> pa.RecordBatch:
    """Return a journal file as one Arrow batch of `ENTRY`."""
    run = path.rpartition("/")[2].partition("-")[0]
    rows = [(*entry, run) for entry in read_file(journal, path)]
    columns = list(zip(*rows, strict=True)) or [()] * len(ENTRY)
    arrays = [pa.array(column, _ARROW[kind]) for column, (_, kind) in zip(columns, ENTRY, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in ENTRY])
