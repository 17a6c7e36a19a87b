"""The line of one process's threads that want a permit: who goes for the next one, and who is handed one."""

import math
import threading
import time
from collections import deque
from typing import Generic, TypeVar

OUT_OF_TIME = "group timed out before a judge call was sent: raise limits.group_timeout_seconds or the limits"
SHARED_TURN = (
    4  # every so many-th permit goes to all processes: so they share, and most calls skip the turnstile
)

Thing = TypeVar("Thing")


class GroupTimeoutError(TimeoutError):
    """The group's time was used up while its call waited for its turn to be sent."""


class _Place(Generic[Thing]):
    """Where one thread stands; `call` lets it go on, with what it is handed or as the first."""

    __slots__ = ("called", "handed")

    def __init__(self) -> None:
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

    def enter(self, deadline: float | None) -> Thing | None:
        """Wait; return what was handed on, or None to whoever is first now and must `leave`.

        Raises:
            GroupTimeoutError: the deadline (of `time.monotonic()`) passed before.
        """
        left = seconds_left(deadline)
        with self._lock:
            if not self._somebody_is_first:
                self._somebody_is_first = True
                return None
            place: _Place[Thing] = _Place()
            self._behind.append(place)
        if not place.called.acquire(timeout=-1 if left == math.inf else left):
            with self._lock:
                if place in self._behind:
                    self._behind.remove(place)
                    raise GroupTimeoutError(OUT_OF_TIME)
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
            self._behind.popleft().call(thing)
            return True


def seconds_left(deadline: float | None, *, most: float = math.inf) -> float:
    """Return the seconds until the deadline (of `time.monotonic()`), at most `most`.

    Raises:
        GroupTimeoutError: there are none.
    """
    left = math.inf if deadline is None else deadline - time.monotonic()
    if left <= 0:
        raise GroupTimeoutError(OUT_OF_TIME)
    return min(left, most)
