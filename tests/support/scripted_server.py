"""A loopback HTTP server that follows a script, byte by byte: resets, dribbles, cut bodies, silence.

Each request takes the next step of the script; the last one is repeated. A step is called with the connection
and answers on it.
"""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

JSON = "application/json"


@dataclass(frozen=True)
class Request:
    """One request as it arrived; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Connection:
    """One client's connection, for the steps of a script."""

    def __init__(self, sock: socket.socket, stopping: threading.Event) -> None:
        self.sock = sock
        self.stopping = stopping
        self.open = True

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def close(self) -> None:
        self.open = False

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.open = False


Step = Callable[[Connection], None]


def raw(status: int, body: bytes, *, headers: dict[str, str] | None = None, kind: str = JSON) -> bytes:
    """Return a whole HTTP answer."""
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answer(status: int, payload: Any, *, headers: dict[str, str] | None = None) -> Step:
    """Answer with JSON."""
    data = raw(status, json.dumps(payload).encode(), headers=headers)
    return lambda connection: connection.send(data)


def page(status: int, text: str = "<html>gateway</html>") -> Step:
    """Answer with a web page, as gateways do."""
    return lambda connection: connection.send(raw(status, text.encode(), kind="text/html"))


def completion(content: Any, *, finish: str = "stop", usage: Any = None) -> dict[str, Any]:
    """Return a chat completion that says `content`."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return {"choices": [choice], "usage": usage or {"prompt_tokens": 100, "completion_tokens": 10}}


def verdict(score: float, *, reasoning: str = "because") -> Step:
    """Answer with a readable verdict."""
    return answer(200, completion(json.dumps({"reasoning": reasoning, "score": score})))


def said(content: Any, *, finish: str = "stop") -> Step:
    """Answer with a chat completion that says just this."""
    return answer(200, completion(content, finish=finish))


def error(status: int, *, headers: dict[str, str] | None = None, **fields: Any) -> Step:
    """Answer with an error object of OpenAI's shape."""
    return answer(status, {"error": fields}, headers=headers)


def reset(connection: Connection) -> None:
    """Reset the connection before any answer."""
    connection.reset()


def reset_in_body(connection: Connection) -> None:
    """Send half an answer, then reset."""
    connection.send(raw(200, json.dumps(completion("{}")).encode())[:-20])
    connection.reset()


def truncated(connection: Connection) -> None:
    """Announce more bytes than are sent, then close properly."""
    connection.send(raw(200, json.dumps(completion("{}")).encode())[:-20])
    connection.close()


def silence(connection: Connection) -> None:
    """Never answer."""
    connection.stopping.wait()
    connection.close()


def dribble(data: bytes, *, every: float = 0.05, at_once: int = 0) -> Step:
    """Send the first `at_once` bytes, then one byte every so often, until the client has enough of it."""

    def step(connection: Connection) -> None:
        connection.send(data[:at_once])
        for position in range(at_once, len(data)):
            if connection.stopping.wait(every):
                break
            connection.send(data[position : position + 1])
        connection.close()

    return step


class ScriptedServer:
    """`with ScriptedServer(step, step) as server:` serves the script at `server.url`, over TLS if it may."""

    def __init__(self, *script: Step, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self.requests: list[Request] = []

    @property
    def port(self) -> int:
        """Return the port on loopback."""
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        """Return the address with the path that OpenAI-compatible servers have."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        with self._lock:
            still_open = list(self._open)
        for sock in still_open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock,))
            with self._lock:
                self._open.add(sock)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        if self._tls is not None:
            with self._lock:
                self._open.discard(sock)
            try:
                sock = self._tls.wrap_socket(sock, server_side=True)
            except OSError:  # the client does not trust the certificate
                sock.close()
                return
            with self._lock:
                self._open.add(sock)
        connection = Connection(sock, self._stopping)
        with sock, suppress(OSError), sock.makefile("rb") as stream:  # the client may leave at any time
            while connection.open and (request := _read_request(stream)):
                self._next_step(request)(connection)
        with self._lock:
            self._open.discard(sock)

    def _next_step(self, request: Request) -> Step:
        with self._lock:
            self.requests.append(request)
            return self._script[min(len(self.requests), len(self._script)) - 1]


def _read_request(stream: Any) -> Request | None:
    first = stream.readline().split()
    if len(first) != 3 or first[2] != b"HTTP/1.1":  # the end, or TLS
        return None
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    return Request(first[1].decode(), headers, json.loads(body) if body else {})
