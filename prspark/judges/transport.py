"""Sends one HTTP POST whose whole duration, from connect to the last byte, has a limit.

`requests` finds the proxy and the certificates, `urllib3` connects, through proxy and TLS, and `http1` writes
and reads. What `requests` and `urllib3` do above that takes more than half of a client's time, and all of it
while the GIL is held: it follows redirects with the token, keeps cookies and reads .netrc.

Only the look-up of the host's name can't be cut: the system's resolver has its own limit.
"""

import math
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from functools import cached_property
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from urllib3.connection import HTTPConnection as PlainConnection
from urllib3.connection import HTTPSConnection as TlsConnection
from urllib3.util.ssl_match_hostname import CertificateError

from prspark.judges import http1
from prspark.judges.http1 import Answer
from prspark.judges.watchdog import Handle, Watch, watchdog

MAX_CONNECTIONS = 64
"""Connections kept open: the most judge calls that one group may have in flight."""

CONNECT_SECONDS = 10.0
"""A host that has not taken a connection by then is blocked, not slow."""

SENT_AT_ONCE_BYTES = 16 * 1024
"""What an idle connection takes without waiting for the other side: systems' buffers are larger."""


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


class Wire(NamedTuple):
    """A connection to the endpoint, and the handle to cut it with."""

    connection: HTTPConnection
    handle: Handle

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        self.handle.close()


class Transport:
    """Keeps connections to one URL, for exchanges of many threads.

    Args:
        url: where to post.
        proxy: proxy URL; None takes `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` as `requests` does.
        ca_bundle: path of the certificates to trust; None takes `REQUESTS_CA_BUNDLE` as `requests` does.

    Raises:
        ValueError: the URL's host can't be one.
    """

    def __init__(self, url: str, *, proxy: str | None = None, ca_bundle: str | None = None) -> None:
        # All of this is found once: to look through the environment takes longer than the rest of the client.
        self._request = requests.Request("POST", url).prepare()
        proxies = {"http": proxy, "https": proxy} if proxy else {}
        settings = requests.Session().merge_environment_settings(url, proxies, True, ca_bundle, None)
        self._proxies = dict(settings["proxies"])
        self._verify: bool | str = settings["verify"] or True
        self._adapter = _Adapter()
        self._target = self._adapter.request_url(self._request, self._proxies)
        self._first_lines = _first_lines(self._target, self._request.url or url)
        through = select_proxy(url, self._proxies)
        # a tunnel's proxy hears them when the tunnel is made; any other reads the request itself
        if through is None or self._target.startswith("/"):
            self._proxy_headers: dict[str, str] = {}
        else:
            self._proxy_headers = self._adapter.proxy_headers(_with_scheme(through))
        self._idle: list[Wire] = []

    def exchange(
        self, body: bytes, *, headers: Mapping[str, str], seconds: float, no_later_than: float | None = None
    ) -> "Exchange":
        """Prepare one POST of `body`.

        Args:
            body: what to send.
            headers: of this request; never kept.
            seconds: limit of the whole call, from `start`.
            no_later_than: when it must end at the latest, of `time.monotonic()`.
        """
        message = http1.post(self._first_lines, {**headers, **self._proxy_headers}, body)
        return Exchange(self, message, seconds, math.inf if no_later_than is None else no_later_than)

    def idle_wire(self) -> Wire | None:
        """Return a kept connection that is still alive, the last one used; None if there is none."""
        while self._idle:
            try:
                wire = self._idle.pop()
            except IndexError:  # another thread was faster
                return None
            if not urllib3.util.wait_for_read(wire.connection.sock, timeout=0):
                return wire
            wire.close()  # nothing is asked, so what can be read is its end
        return None

    def keep(self, wire: Wire) -> None:
        """Keep a connection for the next exchange."""
        if len(self._idle) < MAX_CONNECTIONS:
            self._idle.append(wire)
        else:
            wire.close()

    def connect(self, watch: Watch) -> Wire:
        """Make a new connection within the time of a call."""
        _current.watch = watch
        try:
            connection = _connected(self._pool)
        finally:
            _current.watch = None
        handle = getattr(connection, "handle", None) or Handle(connection.sock)  # SOCKS makes its own sockets
        wire = Wire(connection, handle)
        watch.hold(handle)
        return wire

    def close(self) -> None:
        """Close the kept connections."""
        while self._idle:
            self._idle.pop().close()
        self._adapter.close()

    @cached_property
    def _pool(self) -> Any:
        """What makes connections, to the host or its proxy; made by the first call, whose errors they may be."""
        return self._adapter.pool(self._request, verify=self._verify, proxies=self._proxies)


class Exchange:
    """One POST on its way: `start`, then `finish`.

    Attributes:
        started: when it began, of `time.monotonic()`; None if no time was left for it.
    """

    def __init__(self, transport: Transport, message: bytes, seconds: float, no_later_than: float) -> None:
        self._transport = transport
        self._message = message
        self._seconds = seconds
        self._no_later_than = no_later_than
        self._watch = Watch(math.inf)
        self._wire: Wire | None = None
        self._sent = False
        self.started: float | None = None

    def start(self) -> None:
        """Begin, and send if that takes no waiting. Any thread may do it for the one that will `finish`."""
        now = time.monotonic()
        self._watch.deadline = min(now + self._seconds, self._no_later_than)
        if self._watch.deadline <= now:
            return
        self.started = now
        watchdog.add(self._watch)
        if len(self._message) <= SENT_AT_ONCE_BYTES and (wire := self._transport.idle_wire()):
            with suppress(OSError):  # `finish` tells of it
                self._send(wire)

    def finish(self) -> Answer:
        """Wait for the whole answer and return it.

        Raises:
            TransportError: there is none within the time or within `http1.MAX_REPLY_BYTES`.
        """
        try:
            return self._answer()
        except TransportError as error:
            trouble = error.trouble
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            HTTPException,
            http1.NotHttpError,
            http1.TooLargeError,
            OSError,
            ValueError,
        ) as e:
            trouble = self._trouble(e)
        finally:
            watchdog.remove(self._watch)
            if self._wire is not None:
                self._wire.close()
        raise TransportError(trouble)

    def _send(self, wire: Wire) -> None:
        self._wire = wire
        self._watch.hold(wire.handle)
        wire.connection.sock.sendall(self._message)
        self._sent = True

    def _answer(self) -> Answer:
        if self._wire is None:
            self._send(self._transport.idle_wire() or self._transport.connect(self._watch))
        if not self._sent or self._wire is None:
            raise OSError
        with self._wire.connection.sock.makefile("rb") as stream:
            answer, reusable = http1.read_answer(stream)
        if not self._watch.let_go():  # an answer without a length looks complete when it was cut
            raise TransportError(Trouble.TIMEOUT)
        if reusable:
            self._transport.keep(self._wire)
            self._wire = None
        return answer

    def _trouble(self, error: Exception) -> Trouble:
        if self._watch.expired or isinstance(error, TimeoutError):
            return Trouble.TIMEOUT if self._wire else Trouble.CONNECT
        if isinstance(error, http1.TooLargeError):
            return Trouble.TOO_LARGE
        if isinstance(error, _TLS_ERRORS) or "CA certificate bundle" in str(error):
            return Trouble.TLS
        if isinstance(error, urllib3.exceptions.ProxyError | requests.exceptions.InvalidSchema):
            return Trouble.PROXY
        return Trouble.BROKEN


_TLS_ERRORS = (ssl.SSLError, urllib3.exceptions.SSLError, CertificateError)

_current = threading.local()


def _dial(host: str, port: int | None, options: Any) -> tuple[socket.socket, Handle]:
    """Connect within the call's time: each address gets an even share of what is left.

    The socket then blocks: the watchdog ends it, and a limit of its own would take two more system calls each
    time that something is sent or received.
    """
    watch: Watch = _current.watch
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise TransportError(Trouble.DNS) from None
    for position, (family, kind, protocol, _, address) in enumerate(addresses):
        share = min(watch.remaining(), CONNECT_SECONDS) / (len(addresses) - position)
        sock = socket.socket(family, kind, protocol)
        try:
            for option in options or ():
                sock.setsockopt(*option)
            sock.settimeout(share)
            sock.connect(address)
            sock.settimeout(None)
            handle = Handle(sock)
        except OSError:
            sock.close()
        else:
            watch.hold(handle)
            return sock, handle
    raise TransportError(Trouble.CONNECT)


class _Dialled(PlainConnection):
    """A connection that can be cut while it connects."""

    handle: Handle | None = None

    def _new_conn(self) -> socket.socket:
        sock, self.handle = _dial(self.host, self.port, self.socket_options)
        return sock


class _DialledTls(_Dialled, TlsConnection):
    """The same over TLS."""


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Dialled


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _DialledTls


_POOLS = {"http": _Pool, "https": _TlsPool}


class _Adapter(HTTPAdapter):
    """The adapter of `requests`, for what it knows of proxies and certificates."""

    def pool(self, request: requests.PreparedRequest, *, verify: bool | str, proxies: dict[str, str]) -> Any:
        """Return the pool that `send` would take a connection from."""
        untyped: Any = self
        if hasattr(self, "get_connection_with_tls_context"):
            pool = untyped.get_connection_with_tls_context(request, verify, proxies=proxies)
        else:  # before requests 2.32
            pool = untyped.get_connection(request.url, proxies)
        untyped.cert_verify(pool, request.url, verify, None)
        return pool

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not str(proxy).lower().startswith("socks"):
            manager.pool_classes_by_scheme = _POOLS
        return manager


def _first_lines(target: str, url: str) -> bytes:
    address = urllib3.util.parse_url(url)
    usual = {"http": 80, "https": 443}.get(address.scheme or "")
    return http1.first_lines(target, address.host or "", None if address.port == usual else address.port)


def _with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"


def _connected(pool: Any) -> HTTPConnection:
    """Return a new connection, made as the pool makes one for a request."""
    connection: HTTPConnection = pool._new_conn()
    try:
        if pool.proxy is not None and pool.scheme == "https":
            pool._prepare_proxy(connection)
        else:
            connection.connect()
    except (TransportError, *_TLS_ERRORS):
        connection.close()
        raise
    except (OSError, HTTPException, urllib3.exceptions.HTTPError) as error:
        connection.close()
        if pool.proxy is None:
            raise
        raise urllib3.exceptions.ProxyError("no way through the proxy", error) from None
    return connection
