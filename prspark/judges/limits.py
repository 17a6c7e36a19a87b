"""The gate through which every judge call of an executor goes, and what it learns from the answers."""

import atexit
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from prspark.judges.config import LimitsConfig
from prspark.judges.line import GroupTimeoutError
from prspark.judges.permits import Permits, Start, nothing
from prspark.judges.rates import Rates, SharedPace, seconds_each

__all__ = ["ExecutorLimits", "Gate", "GroupTimeoutError", "OpenGate", "executor_folder"]


class Gate(Protocol):
    """What a judge asks before it sends and tells about the answer. Called from several threads at once."""

    def call(self, *, tokens: int = 0, start: Start = nothing) -> AbstractContextManager[None]:
        """Wait until one call of so many tokens may be sent; it counts as in flight inside the `with`.

        `start` sends it as soon as it may go. Another thread may run it, so it must neither wait nor raise.

        Raises:
            GroupTimeoutError: `call_deadline` passed while waiting.
        """
        ...

    def group(self) -> AbstractContextManager[None]:
        """Wait until one more group may be worked on; it counts inside the `with`.

        Raises:
            GroupTimeoutError: `call_deadline` passed while waiting.
        """
        ...

    def throttled(self, retry_after: float | None) -> None:
        """Hold all sends back after a 429, for `retry_after` seconds if it says so (at most 60).

        Tell it from the thread that made the call.
        """
        ...

    def succeeded(self) -> None:
        """Take note of a success: more may be in flight again, and failures in a row start from 0."""
        ...

    def failure(self) -> int:
        """Return how many calls in a row have ended unscored by the endpoint's fault, this one included."""
        ...

    def in_flight(self) -> int:
        """Return how many calls are in flight now, for progress."""
        ...


class ExecutorLimits:
    """The limits of one executor, held over all threads of all its Python workers.

    Args:
        folder: of this job on this executor; everything shared is in it. Made if missing.
        limits: the `[limits]` of the configuration.
        executors: how many executors share the rates; each takes an equal part.
    """

    def __init__(self, folder: Path | str, limits: LimitsConfig, *, executors: int = 1) -> None:
        folder = Path(folder)
        self._calls = Permits(folder / "calls", limits.executor_concurrency)
        self._groups = Permits(folder / "groups", limits.max_concurrency)
        rates = Rates(
            in_flight=limits.executor_concurrency,
            request_seconds=seconds_each(limits.requests_per_minute, executors=executors),
            token_seconds=seconds_each(limits.tokens_per_minute, executors=executors),
        )
        self._pace = SharedPace(folder / "pace", rates)
        self._thread = threading.local()

    @contextmanager
    def call(self, *, tokens: int = 0, start: Start = nothing) -> Iterator[None]:
        """See `Gate.call`."""
        permit = self._calls.take(
            allowed=self._pace.allowed, wait=partial(self._pace.send, tokens), start=start
        )
        self._thread.sent_at = permit.taken_at
        try:
            yield
        finally:
            permit.release()

    @contextmanager
    def group(self) -> Iterator[None]:
        """See `Gate.group`."""
        permit = self._groups.take()
        try:
            yield
        finally:
            permit.release()

    def throttled(self, retry_after: float | None) -> None:
        """See `Gate.throttled`."""
        sent_at = getattr(self._thread, "sent_at", time.monotonic())
        self._pace.throttled(sent_at=sent_at, retry_after=retry_after)

    def succeeded(self) -> None:
        """See `Gate.succeeded`."""
        self._pace.succeeded()

    def failure(self) -> int:
        """See `Gate.failure`."""
        return self._pace.failed()

    def in_flight(self) -> int:
        """See `Gate.in_flight`; looks at every permit, so not for every call."""
        return self._calls.held()

    def allowed(self) -> int:
        """Return how many calls may be in flight at present: the limit, or less after 429s."""
        return self._pace.allowed()


class OpenGate:
    """A gate without limits, for calls outside a job. It counts within its process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight = 0
        self._failures = 0

    @contextmanager
    def call(self, *, tokens: int = 0, start: Start = nothing) -> Iterator[None]:  # noqa: ARG002  no rate
        """Let the call go at once."""
        self._count(1)
        try:
            start()
            yield
        finally:
            self._count(-1)

    @contextmanager
    def group(self) -> Iterator[None]:
        """Let the group go at once."""
        yield

    def throttled(self, retry_after: float | None) -> None:
        """Do nothing: nobody else shares this gate."""

    def succeeded(self) -> None:
        """See `Gate.succeeded`."""
        self._failures = 0

    def failure(self) -> int:
        """See `Gate.failure`."""
        with self._lock:
            self._failures += 1
            return self._failures

    def in_flight(self) -> int:
        """See `Gate.in_flight`."""
        return self._in_flight

    def _count(self, change: int) -> None:
        with self._lock:
            self._in_flight += change


_own_folders: dict[int, Path] = {}


def executor_folder() -> Path:
    """Return the folder that the Python workers of this executor share, and no other executor.

    In a Spark worker that is the first entry of `SPARK_LOCAL_DIRS`; anywhere else a temporary folder of this
    process, removed at its end.
    """
    first = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0].strip()
    if first:
        return Path(first)
    pid = os.getpid()  # a forked process is another one
    if pid not in _own_folders:
        _own_folders[pid] = Path(tempfile.mkdtemp(prefix="prspark-"))
        atexit.register(_remove_own_folder, pid)
    return _own_folders[pid]


def _remove_own_folder(pid: int) -> None:
    if os.getpid() == pid:  # a forked process inherits this call, but not the folder
        shutil.rmtree(_own_folders[pid], ignore_errors=True)
