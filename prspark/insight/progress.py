"""Says how far the judging is, from the journal alone, so it works wherever the driver can read that."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

from pyarrow import fs

from prspark.engine.journal import list_files, open_folder, read_lines
from prspark.engine.run import Run
from prspark.insight.plan import Plan

LINE_SECONDS = 10.0
BAR_SECONDS = 0.5
_RATE_WINDOW_SECONDS = 30.0


@dataclass
class Tally:
    """What the journal of a run says so far."""

    done: int = 0
    failed: int = 0
    throttled: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_seconds: float = 0.0
    _read: dict[str, int] = field(default_factory=dict)

    def update(self, journal: str, run: str) -> None:
        """Read what was appended since the last time; a line that is still being written waits."""
        system, _ = open_folder(journal)
        for path in list_files(journal, f"{run}-"):
            start = self._read.get(path, 0)
            lines = _new_lines(system, path, start)
            self._read[path] = start + len(lines)
            self._add(lines)

    def _add(self, lines: bytes) -> None:
        for entry in read_lines(lines.split(b"\n")):
            self.done += 1
            self.failed += entry.unscored_reason is not None
            self.throttled += entry.throttled
            self.prompt_tokens += entry.prompt_tokens
            self.completion_tokens += entry.completion_tokens
            self.latency_seconds += entry.latency_seconds


def _new_lines(system: fs.FileSystem, path: str, start: int) -> bytes:
    if system.get_file_info(path).size <= start:
        return b""
    with system.open_input_file(path) as file:
        file.seek(start)
        found = bytes(file.read())
    return found[: found.rfind(b"\n") + 1]


@dataclass
class Pace:
    """Verdicts over the last half minute."""

    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def rate(self, now: float, done: int) -> float:
        """Return verdicts a second."""
        self.seen.append((now, done))
        while now - self.seen[0][0] > _RATE_WINDOW_SECONDS and len(self.seen) > 2:
            self.seen.popleft()
        seconds = now - self.seen[0][0]
        return (done - self.seen[0][1]) / seconds if seconds > 0 else 0.0


def describe(tally: Tally, total: int, rate: float, cost: float) -> str:
    """Return one line: verdicts done and to do, rate, in flight, 429s, failures, cost, time left.

    In flight is rate times mean latency (Little's law); the journal knows calls only when they are answered.
    """
    left = max(0, total - tally.done)
    in_flight = rate * tally.latency_seconds / tally.done if tally.done else 0.0
    eta = _clock(left / rate) if rate else "unknown"
    parts = [
        f"{tally.done:,} of {total:,} verdicts",
        f"{rate:.1f}/s",
        f"about {in_flight:.0f} in flight",
        f"{tally.throttled} x 429",
        f"{tally.failed} failed",
    ]
    if cost:
        parts.append(f"cost {cost:.4f}")
    return ", ".join([*parts, f"time left {eta}"])


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02d}:{minute:02d}:{second:02d}"


class Watcher:
    """A thread that reports until it is closed."""

    def __init__(self, run: Run, plan: Plan, stream: TextIO) -> None:
        self._run, self._total, self._stream = run, plan.verdicts, stream
        self._tally, self._pace = Tally(), Pace(deque([(time.monotonic(), 0)]))
        self._bar = stream.isatty()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="prspark-progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Report a last time and end."""
        self._closed.set()
        self._thread.join()
        self._report(last=True)

    def _watch(self) -> None:
        while not self._closed.wait(BAR_SECONDS if self._bar else LINE_SECONDS):
            self._report()

    def _report(self, *, last: bool = False) -> None:
        # a progress line must never end a run: journal or stream may be out of reach, or closed (ValueError)
        with contextlib.suppress(OSError, ValueError):
            self._tally.update(self._run.journal, self._run.name)
        with contextlib.suppress(OSError, ValueError):
            self._write(last=last)

    def _write(self, *, last: bool) -> None:
        judge, tally = self._run.config.judge, self._tally
        cost = tally.prompt_tokens * judge.prompt_price + tally.completion_tokens * judge.completion_price
        rate = self._pace.rate(time.monotonic(), tally.done)
        line = describe(tally, self._total, rate, cost / 1_000_000)
        if self._bar:
            end = "\n" if last else ""
            self._stream.write(f"\r{_bar(tally.done, self._total)} {line}\x1b[K{end}")
        else:
            self._stream.write(f"prspark: {line}\n")
        self._stream.flush()


def _bar(done: int, total: int, width: int = 24) -> str:
    filled = width * done // total if total else width
    return "[" + "#" * min(width, filled) + "." * (width - min(width, filled)) + "]"


@contextlib.contextmanager
def watching(run: Run, plan: Plan | None, *, stream: TextIO | None) -> Iterator[None]:
    """Report progress on a stream while the judging inside the `with` runs; nothing if nothing is called."""
    if plan is None or stream is None or not plan.verdicts:
        yield
        return
    watcher = Watcher(run, plan, stream)
    try:
        yield
    finally:
        watcher.close()
