"""The line of one process's threads that want a permit: who goes for the next one, and who is handed one."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

OUT_OF_TIME = "group timed out before a judge call was sent: raise limits.group_timeout_seconds or the limits"
SHARED_TURN = 16  # every so many-th permit goes to all processes: so they share, and most skip the turnstile
HANDING_SECONDS = 0.01  # handing on takes no waiting

Thing = TypeVar("Thing")


class GroupTimeoutError(TimeoutError):
    """The group's time was used up while its call waited for its turn to be sent."""


class _Place(Generic[Thing]):
    """Where one thread stands; `call` lets it go on, with what it is handed or as the first."""

    __slots__ = ("called", "goes", "handed")

    def __init__(self, goes: Callable[[Thing], bool]) -> None:
        self.goes = goes
        self.called = threading.Lock()
        self.called.acquire()
        self.handed: Thing | None = None

    def call(self, handed: Thing | None) -> None:
        self.handed = handed
        self.called.release()


class Line(Generic[Thing]):
    """Threads in the order they came. The first one goes for a permit; those behind it may be handed one.

    To hand a permit on inside the process takes a tenth of the time that it takes to give it back to all
    processes and to draw it again, and each system call less is one chance less to lose the GIL.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._behind: deque[_Place[Thing]] = deque()
        self._somebody_is_first = False
        self._given_back = 0

    def enter(self, deadline: float | None, goes: Callable[[Thing], bool]) -> Thing | None:
        """Wait; return what was handed on, or None to whoever is first now and must `leave`.

        Args:
            deadline: of `time.monotonic()`.
            goes: takes what is handed on, or says no to it. The thread that hands it on runs it, so that
                nothing waits for the one that stands here to wake up; it must not wait.

        Raises:
            GroupTimeoutError: the deadline passed before.
        """
        left = seconds_left(deadline)
        with self._lock:
            if not self._somebody_is_first:
                self._somebody_is_first = True
                return None
            place = _Place(goes)
            self._behind.append(place)
        while not place.called.acquire(timeout=-1 if left == math.inf else left):
            with self._lock:
                if place in self._behind:
                    self._behind.remove(place)
                    raise GroupTimeoutError(OUT_OF_TIME)
            left = HANDING_SECONDS  # something is being handed on to it just now
        return place.handed

    def leave(self) -> None:
        """Let the next one be first."""
        with self._lock:
            if self._behind:
                self._behind.popleft().call(None)
            else:
                self._somebody_is_first = False

    def hand_on(self, thing: Thing) -> bool:
        """Hand it to the next one behind the first; False if it has to go to all processes."""
        with self._lock:
            self._given_back += 1
            if not self._behind or self._given_back % SHARED_TURN == 0:
                return False
            place = self._behind.popleft()
        try:
            goes = place.goes(thing)
        except Exception:  # noqa: BLE001  not this thread's trouble: whoever stands there will meet it again
            goes = False
        if goes:
            place.call(thing)
        else:
            self._put_back(place)
        return goes

    def _put_back(self, place: _Place[Thing]) -> None:
        with self._lock:
            if self._somebody_is_first:
                self._behind.appendleft(place)
            else:
                self._somebody_is_first = True
                place.call(None)


def seconds_left(deadline: float | None, *, most: float = math.inf) -> float:
    """Return the seconds until the deadline (of `time.monotonic()`), at most `most`.

    Raises:
        GroupTimeoutError: there are none.
    """
    left = math.inf if deadline is None else deadline - time.monotonic()
    if left <= 0:
        raise GroupTimeoutError(OUT_OF_TIME)
    return min(left, most)
