"""Counted permits that all processes sharing a folder draw from, and that the kernel frees when one dies."""

import fcntl
import math
import os
import select
import struct
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prspark.judges.line import Line, seconds_left
from prspark.judges.protocol import call_deadline

TURN_SECONDS = 1.0  # a process blocked at the turnstile can't see its deadline, so no turn lasts longer
PASS_SECONDS = 0.001  # after a turn in vain: time for another process to get in first
RESCAN_SECONDS = 0.05  # how late the permit of a process that died without a hint may be noticed
POLL_SECONDS = 0.005  # the same where the folder can't hold a FIFO, so that every release goes without a hint
KEPT_OPEN = 256  # permits whose files stay open between holders; processes may have 1,024 files open
HINT = struct.Struct("<I")

_locks: "weakref.WeakSet[LockFile]" = weakref.WeakSet()
_pools: "weakref.WeakSet[Permits]" = weakref.WeakSet()


class LockFile:
    """A file whose lock threads and processes take; the kernel frees it when the holder's process dies.

    A lock belongs to one opening of the file (a descriptor), so each holder has its own. One not in use is
    kept for the next holder if `keep` is true: each system call less is one chance less to lose the GIL.
    """

    def __init__(self, path: Path, *, keep: bool = True) -> None:
        self._path = path
        self._keep = keep
        self._idle: list[int] = []
        self._open: set[int] = set()
        _locks.add(self)

    def acquire(self, *, wait: bool = True, shared: bool = False) -> int | None:
        """Return a descriptor that holds the lock; None if it is taken and `wait` is false."""
        try:
            fd = self._idle.pop()
        except IndexError:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._open.add(fd)
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            self._put_away(fd)
            return None
        except BaseException:
            self._close(fd)
            raise
        return fd

    def release(self, fd: int) -> None:
        """Free the lock, even where a process that was just forked has a copy of the descriptor."""
        fcntl.flock(fd, fcntl.LOCK_UN)
        self._put_away(fd)

    @contextmanager
    def held(self) -> Iterator[int]:
        """Hold the lock in the `with`; gives the descriptor."""
        fd = self.acquire()
        assert fd is not None  # noqa: S101  waiting ends with the lock or with an error
        try:
            yield fd
        finally:
            self.release(fd)

    def close(self) -> None:
        """Close every descriptor, in use or not."""
        self._idle.clear()
        for fd in list(self._open):
            self._close(fd)

    __del__ = close

    def _put_away(self, fd: int) -> None:
        if self._keep and not self._idle:
            self._idle.append(fd)
        else:
            self._close(fd)

    def _close(self, fd: int) -> None:
        self._open.discard(fd)
        os.close(fd)


def _after_fork() -> None:
    # what the parent holds would outlive the parent here; who queued in it is not here
    for lock in list(_locks):
        lock.close()
    for pool in list(_pools):
        pool.forget_threads()


os.register_at_fork(after_in_child=_after_fork)


class Hints:
    """A FIFO into which each release writes which permit it freed; without one, waiting is short polling."""

    def __init__(self, path: Path) -> None:
        self._fd = self._open(path)
        self.patience = POLL_SECONDS if self._fd is None else RESCAN_SECONDS
        if self._fd is not None:
            self._poll = select.poll()
            self._poll.register(self._fd, select.POLLIN)
            weakref.finalize(self, os.close, self._fd)

    @staticmethod
    def _open(path: Path) -> int | None:
        try:
            with suppress(FileExistsError):
                os.mkfifo(path, 0o600)
            # open for both, so that neither end ever sees the other one missing
            return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None

    def push(self, index: int) -> None:
        """Tell whoever waits that this permit is free."""
        if self._fd is not None:
            with suppress(BlockingIOError):  # full of hints already: one less does no harm
                os.write(self._fd, HINT.pack(index))

    def pop(self) -> int | None:
        """Return the next hint, None if there is none. Only whoever has the turn may ask."""
        if self._fd is None:
            return None
        try:
            found: tuple[int] = HINT.unpack(os.read(self._fd, HINT.size))
        except BlockingIOError:
            return None
        return found[0]

    def wait(self, seconds: float) -> None:
        """Return when there is a hint, at the latest after so many seconds."""
        if self._fd is None:
            time.sleep(seconds)
        else:
            self._poll.poll(math.ceil(seconds * 1000))


class Permit:
    """One permit, held until `release` or `put_back`; either once only. `taken_at` is when its holder might go."""

    def __init__(self, index: int, file: LockFile, fd: int, hints: Hints, line: "Line[Permit]") -> None:
        self.index = index
        self.taken_at = -math.inf
        self._file = file
        self._fd = fd
        self._hints = hints
        self._line = line

    def release(self) -> None:
        """Hand it to the next thread of this process, which then goes, or give it back to all processes."""
        if not self._line.hand_on(self):
            self.put_back()

    def put_back(self) -> None:
        """Give it back to all processes."""
        self._file.release(self._fd)
        self._hints.push(self.index)


def _no_wait() -> float:
    return 0.0


Start = Callable[[], None]
"""Sends a call as soon as it may go. Any thread may run it, so it must neither wait nor raise."""


def nothing() -> None:
    """Start a call that needs no start."""


class Permits:
    """`size` permits, each a locked file in the folder, given out one at a time through one turnstile.

    At most one thread of each process waits at the turnstile; whoever is through waits for a free permit
    alone. So waiting costs next to nothing, and processes take turns. Most permits are handed on inside the
    process, past the turnstile; see `Line`.
    """

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.size = size
        self._turnstile = LockFile(folder / "turnstile")
        self._files = [LockFile(folder / str(index), keep=index < KEPT_OPEN) for index in range(size)]
        self._hints = Hints(folder / "hints")
        self._all_taken_at = -math.inf
        self._line: Line[Permit] = Line()
        _pools.add(self)

    def forget_threads(self) -> None:
        """Start with an empty line: the threads that waited in it stayed in the parent process."""
        self._line = Line()

    def held(self) -> int:
        """Return how many permits are held now, by all processes."""
        return sum(self._is_taken(file) for file in self._files)

    def take(
        self,
        *,
        allowed: Callable[[], int] | None = None,
        wait: Callable[[], float] = _no_wait,
        start: Start = nothing,
    ) -> Permit:
        """Wait for a permit and return it.

        Args:
            allowed: says how many of the permits may be held at present; None is all of them.
            wait: asked with a permit in hand: the seconds that it still has to wait, 0 to go now. It then
                does go, so whoever says 0 may count a send.
            start: called once the permit is there, maybe by the thread that gave it back; must not wait.

        Raises:
            GroupTimeoutError: `call_deadline` passed first.
        """
        deadline = call_deadline.get()
        allowed = allowed or self._all
        line = self._line

        def go(permit: Permit) -> None:
            permit.taken_at = time.monotonic()
            start()

        def goes(handed: Permit) -> bool:
            if handed.index >= allowed() or wait():
                return False
            go(handed)
            return True

        permit = line.enter(deadline, goes)
        if permit is not None:
            return permit
        try:
            permit = self._through_turnstile(allowed, wait, deadline)
        finally:
            line.leave()
        go(permit)
        return permit

    def _through_turnstile(
        self, allowed: Callable[[], int], wait: Callable[[], float], deadline: float | None
    ) -> Permit:
        while True:
            with self._turnstile.held():
                end = time.monotonic() + seconds_left(deadline, most=TURN_SECONDS)
                permit = self._turn(allowed, wait, end)
            if permit is not None:
                return permit
            time.sleep(PASS_SECONDS)

    def _all(self) -> int:
        return self.size

    def _turn(self, allowed: Callable[[], int], wait: Callable[[], float], end: float) -> Permit | None:
        permit = self._wait_for_free(allowed, end)
        if permit is None:
            return None
        gone = False
        try:
            gone = self._wait_to_go(permit, allowed, wait, end)
        finally:
            if not gone:
                permit.put_back()
        return permit if gone else None

    def _wait_for_free(self, allowed: Callable[[], int], end: float) -> Permit | None:
        while True:
            permit = self._find(min(allowed(), self.size))
            if permit is not None:
                return permit
            rest = end - time.monotonic()
            if rest <= 0:
                return None
            self._hints.wait(min(rest, self._hints.patience))

    @staticmethod
    def _wait_to_go(
        permit: Permit, allowed: Callable[[], int], wait: Callable[[], float], end: float
    ) -> bool:
        while (seconds := wait()) > 0:
            rest = end - time.monotonic()
            if rest <= 0 or permit.index >= allowed():
                return False
            time.sleep(min(seconds, rest))
        return True

    def _find(self, allowed: int) -> Permit | None:
        while (hint := self._hints.pop()) is not None:
            if hint < allowed and (permit := self._try(hint)) is not None:
                return permit
        now = time.monotonic()
        if now - self._all_taken_at < self._hints.patience:
            return None  # whatever was freed since then has left a hint
        for index in range(allowed):
            if (permit := self._try(index)) is not None:
                return permit
        self._all_taken_at = now
        return None

    def _try(self, index: int) -> Permit | None:
        file = self._files[index]
        fd = file.acquire(wait=False)
        return None if fd is None else Permit(index, file, fd, self._hints, self._line)

    @staticmethod
    def _is_taken(file: LockFile) -> bool:
        fd = file.acquire(wait=False, shared=True)
        if fd is None:
            return True
        file.release(fd)
        return False
