"""Sends one HTTP POST whose whole duration, from connect to the last byte, has a limit.

`requests` bounds only the gap between two bytes. Here a watchdog thread shuts the call's sockets down when
its time is over, so that a server which dribbles, in handshake, headers or body, is cut as well. Only the
look-up of the host's name can't be cut: the system's resolver has its own limit.
"""

import math
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from http.client import HTTPException
from typing import Any, NamedTuple

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

MAX_REPLY_BYTES = 4 * 1024 * 1024
"""A verdict is a few hundred bytes; a thousand times that is a fault, and memory is shared with Spark."""

MAX_CONNECTIONS = 64
"""Connections kept open: the most judge calls that one group may have in flight."""

CONNECT_SECONDS = 10.0
"""A host that has not taken a connection by then is blocked, not slow."""

_CHUNK_BYTES = 64 * 1024


class Trouble(StrEnum):
    """What went wrong below HTTP, in words that may be shown to users."""

    DNS = "the host name is not known"
    CONNECT = "no connection to the host"
    PROXY = "the proxy does not connect"
    TLS = "TLS failed"
    BROKEN = "the connection broke"
    TIMEOUT = "no complete answer in time"
    TOO_LARGE = "the answer is too large"


class TransportError(Exception):
    """No complete HTTP answer. Holds the kind of trouble only: a cause could carry a header or a body."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.value)
        self.trouble = trouble


class Answer(NamedTuple):
    """One complete HTTP answer, whatever its status."""

    status: int
    body: bytes
    retry_after: str | None = None
    html: bool = False


class Transport:
    """Keeps connections to one URL and posts to it from many threads.

    Args:
        url: where to post.
        proxy: proxy URL; None takes `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` as `requests` does.
        ca_bundle: path of the certificates to trust; None takes `REQUESTS_CA_BUNDLE` as `requests` does.

    Raises:
        ValueError: the URL's host can't be one.
    """

    def __init__(self, url: str, *, proxy: str | None = None, ca_bundle: str | None = None) -> None:
        # Made once: to check and encode the same address for each call takes as long as half the sending.
        self._request = requests.Request("POST", url).prepare()
        self._session = requests.Session()
        adapter = _WatchedAdapter(pool_connections=1, pool_maxsize=MAX_CONNECTIONS)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)
        self._adapter = adapter
        # Read once: looking through the environment takes longer than the rest of the client.
        proxies = {"http": proxy, "https": proxy} if proxy else {}
        settings = self._session.merge_environment_settings(url, proxies, True, ca_bundle, None)
        self._proxies = dict(settings["proxies"])
        self._verify: bool | str = settings["verify"] or True

    def post(self, body: bytes, *, headers: Mapping[str, str], seconds: float) -> Answer:
        """Post `body` and return the whole answer.

        Args:
            body: what to send.
            headers: of this request; never kept.
            seconds: limit of the whole call.

        Raises:
            TransportError: no complete answer within `seconds` or `MAX_REPLY_BYTES`.
        """
        request = self._request.copy()
        request.headers.update(headers)
        request.headers["Content-Length"] = str(len(body))
        request.body = body
        with _watched(seconds) as watch:
            try:
                answer = self._exchange(request)
            except TransportError as error:
                trouble = error.trouble
            except (
                requests.RequestException,
                urllib3.exceptions.HTTPError,
                HTTPException,
                OSError,
                ValueError,
            ) as e:
                trouble = _trouble(e, watch)
            else:
                # An answer without a length looks complete when the watchdog has cut it.
                if not watch.expired:
                    return answer
                trouble = Trouble.TIMEOUT
        raise TransportError(trouble)

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()

    def _exchange(self, request: requests.PreparedRequest) -> Answer:
        # The adapter, not the session: no redirect is followed with the token, no cookie kept, no .netrc.
        response = self._adapter.send(
            request, stream=True, timeout=None, verify=self._verify, proxies=self._proxies
        )
        complete = False
        try:
            body = _bounded(response)
            complete = True
        finally:
            if complete:
                response.raw.release_conn()
            else:
                response.raw.close()
        headers = response.headers
        html = "html" in headers.get("content-type", "") or body[:1] == b"<"
        return Answer(response.status_code, body, headers.get("retry-after"), html)


def _bounded(response: requests.Response) -> bytes:
    """Read the body, but never more than one chunk beyond the limit."""
    chunks, size = [], 0
    while chunk := response.raw.read(_CHUNK_BYTES, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_REPLY_BYTES:
            raise TransportError(Trouble.TOO_LARGE)
    return b"".join(chunks)


def _trouble(error: Exception, watch: "_Watch") -> Trouble:
    late = (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)
    if watch.expired or isinstance(error, late):
        return Trouble.TIMEOUT if watch.connected else Trouble.CONNECT
    if isinstance(error, requests.exceptions.SSLError) or "CA certificate bundle" in str(error):
        return Trouble.TLS
    if isinstance(error, requests.exceptions.ProxyError | requests.exceptions.InvalidSchema):
        return Trouble.PROXY
    return Trouble.BROKEN


class _Handle:
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


class _Watch:
    """One running call: when it must end, and the connections to shut down then."""

    __slots__ = ("_closed", "_handles", "_lock", "connected", "deadline", "expired")

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self.expired = False
        self.connected = False
        self._handles: list[_Handle] = []
        self._closed: list[_Handle] = []
        self._lock = threading.Lock()

    def remaining(self) -> float:
        """Seconds left, never quite 0, which sockets take for "do not wait"."""
        return max(self.deadline - time.monotonic(), 0.001)

    def hold(self, handle: _Handle) -> None:
        """Shut this connection down, too, when the time is over."""
        with self._lock:
            self._handles.append(handle)
            if self.expired:
                handle.shut_down()

    def cut(self) -> None:
        """End the call: what waits on its sockets sees their end."""
        with self._lock:
            self.expired = True
            for handle in self._handles:
                handle.shut_down()

    def keeps(self, handle: _Handle) -> bool:
        """Say whether a connection that is being closed is this call's own; `release` then closes its handle."""
        if handle not in self._handles:
            return False
        self._closed.append(handle)
        return True

    def release(self) -> None:
        """Let go of the connections that were closed meanwhile."""
        for handle in self._closed:
            handle.close()


def _shut_down(handle: int) -> None:
    with suppress(OSError):  # not connected yet, or closed by the other side
        sock = socket.socket(fileno=handle)
        try:
            sock.shutdown(socket.SHUT_RDWR)
        finally:
            sock.detach()


class _Watchdog:
    """One daemon thread that cuts calls whose time is over; it sleeps until the next one may be."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: set[_Watch] = set()
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None

    def add(self, watch: _Watch) -> None:
        with self._changed:
            self._running.add(watch)
            # A forked process has this object, but not its thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._guard, name="prspark-watchdog", daemon=True)
                self._thread.start()
            elif watch.deadline < self._wakes_at:
                self._changed.notify()

    def remove(self, watch: _Watch) -> None:
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


_watchdog = _Watchdog()
_current = threading.local()


@contextmanager
def _watched(seconds: float) -> Iterator[_Watch]:
    watch = _Watch(seconds)
    _current.watch = watch
    _watchdog.add(watch)
    try:
        yield watch
    finally:
        _watchdog.remove(watch)
        _current.watch = None
        watch.release()


class _Socket(socket.socket):
    """A socket that is not told what it knows: libraries set the limit again before each answer."""

    def settimeout(self, value: float | None) -> None:
        if value != self.gettimeout():
            super().settimeout(value)


def _dial(host: str, port: int | None, options: Any) -> tuple[socket.socket, _Handle]:
    """Connect within the call's time: each address gets an even share of what is left.

    The socket then blocks: the watchdog ends it, and a limit of its own would take two more system calls each
    time that something is sent or received.
    """
    watch: _Watch = _current.watch
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise TransportError(Trouble.DNS) from None
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        share = min(watch.remaining(), CONNECT_SECONDS) / (len(addresses) - position)
        sock = _Socket(family, kind, protocol)
        try:
            for option in options or ():
                sock.setsockopt(*option)
            sock.settimeout(share)
            sock.connect(address)
            sock.settimeout(None)
            handle = _Handle(sock)
        except OSError:
            sock.close()
        else:
            watch.hold(handle)
            return sock, handle
    raise TransportError(Trouble.CONNECT)


class _WatchedConnection(HTTPConnection):
    """A connection that can be cut while it connects, sends or receives, and sends a request in one piece."""

    _pieces: list[bytes] | None = None
    _handle: _Handle | None = None

    def _new_conn(self) -> socket.socket:
        sock, self._handle = _dial(self.host, self.port, self.socket_options)
        return sock

    def close(self) -> None:
        super().close()
        # an answer without a length is read to its end after the connection is closed, and may have to be cut
        watch: _Watch | None = getattr(_current, "watch", None)
        if self._handle is not None and not (watch and watch.keeps(self._handle)):
            self._handle.close()

    def request(self, *args: Any, **kwargs: Any) -> None:
        watch: _Watch = _current.watch
        if self._handle is not None:
            watch.hold(self._handle)
        watch.connected = True
        self._pieces = []
        try:
            super().request(*args, **kwargs)
            request = b"".join(self._pieces)
        finally:
            self._pieces = None
        super().send(request)

    def send(self, data: Any) -> None:
        """Keep the pieces of a request (headers, then body) until it is whole: one packet instead of two."""
        if self._pieces is None:
            super().send(data)
        else:
            self._pieces.append(data)


class _WatchedTlsConnection(_WatchedConnection, HTTPSConnection):
    """The same over TLS."""


class _WatchedPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _WatchedConnection


class _WatchedTlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _WatchedTlsConnection


_POOLS = {"http": _WatchedPool, "https": _WatchedTlsPool}


class _WatchedAdapter(HTTPAdapter):
    """The adapter of `requests` over connections to one host that can be cut."""

    pool: Any = None

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        if self.pool is None:
            self.pool = super().get_connection_with_tls_context(*args, **kwargs)
        return self.pool

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not str(proxy).lower().startswith("socks"):
            manager.pool_classes_by_scheme = _POOLS
        return manager
