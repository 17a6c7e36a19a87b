"""Ends calls whose time is over: a thread shuts their connections down, whatever they wait for.

Python's sockets bound only the gap between two bytes, so that a server which dribbles would keep a call for ever.
"""

import math
import os
import socket
import threading
import time
from contextlib import suppress


class Handle:
    """A duplicate of a connection's file descriptor, by which another thread can shut the connection down.

    TLS takes the original away from its socket object, and its number, once closed, may belong to another
    connection. One is made a connection, not a call: each system call less is one chance less to lose the GIL.
    """

    __slots__ = ("_fd", "_lock")

    def __init__(self, sock: socket.socket) -> None:
        self._fd: int | None = os.dup(sock.fileno())
        self._lock = threading.Lock()

    def shut_down(self) -> None:
        """End the connection: what waits on it sees its end."""
        with self._lock:
            if self._fd is not None:
                _shut_down(self._fd)

    def close(self) -> None:
        """Give the duplicate back."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    __del__ = close


def _shut_down(handle: int) -> None:
    with suppress(OSError):  # not connected yet, or closed by the other side
        sock = socket.socket(fileno=handle)
        try:
            sock.shutdown(socket.SHUT_RDWR)
        finally:
            sock.detach()


class Watch:
    """One running call: when it must end (of `time.monotonic()`), and the connection to shut down then."""

    __slots__ = ("_handle", "_lock", "deadline", "expired")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.expired = False
        self._handle: Handle | None = None
        self._lock = threading.Lock()

    def remaining(self) -> float:
        """Seconds left, never quite 0, which sockets take for "do not wait"."""
        return max(self.deadline - time.monotonic(), 0.001)

    def hold(self, handle: Handle) -> None:
        """Shut this connection down when the time is over."""
        with self._lock:
            self._handle = handle
            if self.expired:
                handle.shut_down()

    def let_go(self) -> bool:
        """Leave the connection to others from now on; False if it was cut."""
        with self._lock:
            self._handle = None
            return not self.expired

    def cut(self) -> None:
        """End the call: what waits on its connection sees its end."""
        with self._lock:
            self.expired = True
            if self._handle is not None:
                self._handle.shut_down()


class Watchdog:
    """One daemon thread that cuts calls whose time is over; it sleeps until the next one may be."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: set[Watch] = set()
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None

    def add(self, watch: Watch) -> None:
        """Cut this call when its time is over, unless it is removed before."""
        with self._changed:
            self._running.add(watch)
            # A forked process has this object, but not its thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._guard, name="prspark-watchdog", daemon=True)
                self._thread.start()
            elif watch.deadline < self._wakes_at:
                self._changed.notify()

    def remove(self, watch: Watch) -> None:
        """Forget a call that has ended."""
        with self._changed:
            self._running.discard(watch)

    def _guard(self) -> None:
        with self._changed:
            while True:
                self._cut_overdue()
                self._wakes_at = min((watch.deadline for watch in self._running), default=math.inf)
                idle = self._wakes_at == math.inf
                self._changed.wait(None if idle else max(self._wakes_at - time.monotonic(), 0))

    def _cut_overdue(self) -> None:
        now = time.monotonic()
        for watch in [watch for watch in self._running if watch.deadline <= now]:
            self._running.discard(watch)
            watch.cut()


watchdog = Watchdog()
