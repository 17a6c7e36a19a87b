"""A fast OpenAI-compatible endpoint on loopback, in its own process, with latency, faults and counters.

`with StubEndpoint(latency=0.05) as stub:` starts it; `python stub_endpoint.py '{"latency": 0.2}'` does so by
hand. Besides `POST /v1/chat/completions` and `GET /v1/models` it serves its own control: `GET /stats`,
`POST /reset` and `POST /config` (a JSON object with some of the fields of `Settings`).
"""

import asyncio
import http.client
import json
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Self

PRESETS: dict[str, dict[str, Any]] = {
    "steady": {"latency": 0.2, "jitter": 0.05},
    "fast": {"latency": 0.05},
    "instant": {"latency": 0.0},
    "throttling": {"latency": 0.05, "p429": 0.2, "retry_after": 1},
    "flaky": {"latency": 0.05, "p500": 0.1, "p_reset": 0.05},
}
SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)
CONTROL_SECONDS = 30  # a loaded machine may take long to answer


@dataclass(frozen=True)
class Settings:
    """How the stub behaves; faults follow from a hash of (seed, body, try number), so a run repeats exactly.

    `latency` and `jitter` (uniform, +-) are seconds in service. `p429`, `p500` and `p_reset` (a reset in
    the middle of the body) are shares of the sends. A 429 is answered at once, with `retry_after` as its
    `Retry-After` unless that is None; everything else takes its latency.
    """

    latency: float = 0.0
    jitter: float = 0.0
    p429: float = 0.0
    retry_after: float | None = 1
    p500: float = 0.0
    p_reset: float = 0.0
    model: str = "stub"
    seed: int = 0


@dataclass
class InFlight:
    """Requests in service now, and the most there ever were."""

    now: int = 0
    peak: int = 0

    def arrive(self) -> None:
        self.now += 1
        self.peak = max(self.peak, self.now)


@dataclass
class Counters:
    """What was asked of the stub; times are `time.monotonic()`, which all processes of a machine share."""

    all: InFlight = field(default_factory=InFlight)
    by_executor: dict[str, InFlight] = field(default_factory=dict)
    arrivals: list[float] = field(default_factory=list)
    throttled_at: list[float] = field(default_factory=list)
    tries: Counter[bytes] = field(default_factory=Counter)
    paid: set[bytes] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)
    busy_seconds: float = 0.0
    last_departure: float | None = None

    def arrive(self, call: "Call") -> None:
        self.arrivals.append(call.arrived)
        self.tries[call.body_hash] += 1
        self._of(call).arrive()
        self.all.arrive()

    def depart(self, call: "Call", outcome: str) -> None:
        now = time.monotonic()
        self.all.now -= 1
        self._of(call).now -= 1
        self.busy_seconds += now - call.arrived
        self.last_departure = now
        self.statuses[outcome] += 1
        if outcome == "200":
            self.paid.add(call.body_hash)
        elif outcome == "429":
            self.throttled_at.append(now)

    def _of(self, call: "Call") -> InFlight:
        return self.by_executor.setdefault(call.executor, InFlight())

    def report(self, *, lists: bool) -> dict[str, Any]:
        found: dict[str, Any] = {
            "requests": len(self.arrivals),
            "in_flight": self.all.now,
            "max_in_flight": self.all.peak,
            "max_in_flight_by_executor": {name: each.peak for name, each in self.by_executor.items() if name},
            "busy_seconds": self.busy_seconds,
            "first_arrival": self.arrivals[0] if self.arrivals else None,
            "last_departure": self.last_departure,
            "distinct": len(self.tries),
            "paid": len(self.paid),
            "duplicates": self.statuses["200"] - len(self.paid),
            "statuses": dict(self.statuses),
        }
        if lists:
            found["arrivals"] = self.arrivals
            found["throttled_at"] = self.throttled_at
            found["bodies"] = sorted(each.hex() for each in self.tries)
        return found


@dataclass(frozen=True)
class Call:
    """One request to the judge, as it arrived."""

    body: bytes
    body_hash: bytes
    executor: str
    arrived: float


class State:
    """What all connections share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.counters = Counters()

    def reset(self) -> None:
        """Forget all counts; requests in service now are counted out of nothing."""
        self.counters = Counters()


def score_of(messages: Any) -> float:
    """Return the score that the stub gives to these messages, whoever asks and whenever."""
    canonical = json.dumps(messages, sort_keys=True).encode()
    return SCORES[sha256(canonical).digest()[0] % len(SCORES)]


def completion(body: bytes, model: str) -> bytes:
    """Return the body of a chat completion; raises ValueError, KeyError or TypeError for a bad request."""
    content = json.dumps({"reasoning": "stub", "score": score_of(json.loads(body)["messages"])})
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    prompt_tokens, completion_tokens = max(1, len(body) // 4), len(content) // 4
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    reply = {"id": "stub", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}
    return json.dumps(reply).encode()


def error_body(text: str) -> bytes:
    return json.dumps({"error": {"message": text, "type": "stub"}}).encode()


def http_reply(status: int, body: bytes, extra: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    )
    return head.encode() + body


def draw(settings: Settings, body_hash: bytes, attempt: int) -> tuple[str, float]:
    """Return the outcome ("200", "429", "500" or "reset") of this send, and its seconds in service."""
    digest = sha256(body_hash + struct.pack("<qq", settings.seed, attempt)).digest()
    fault, spread = (part / 2**64 for part in struct.unpack_from("<QQ", digest))
    latency = max(0.0, settings.latency + settings.jitter * (2 * spread - 1))
    if fault < settings.p429:
        return "429", 0.0
    if fault < settings.p429 + settings.p500:
        return "500", latency
    if fault < settings.p429 + settings.p500 + settings.p_reset:
        return "reset", latency
    return "200", latency


class Connection(asyncio.Protocol):
    """One keep-alive HTTP/1.1 connection: requests are served in order, one at a time."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.buffer = bytearray()
        self.pending: tuple[asyncio.TimerHandle, Call, Counters] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        if self.pending is not None:
            timer, call, counters = self.pending
            timer.cancel()
            counters.depart(call, "abandoned")

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._next()

    def _next(self) -> None:
        while self.pending is None and not self.transport.is_closing():
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            stop = end + 4 + int(headers.get("content-length", 0))
            if len(self.buffer) < stop:
                return
            body = bytes(self.buffer[end + 4 : stop])
            del self.buffer[:stop]
            method, target, _ = first.split(" ", 2)
            self._serve(method, target, headers, body)

    def _serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        if (method, target) == ("POST", "/v1/chat/completions"):
            self._chat(Call(body, sha256(body).digest(), headers.get("x-executor", ""), time.monotonic()))
            return
        handler = CONTROL.get((method, target.partition("?")[0]))
        if handler is None:
            self.transport.write(http_reply(404, error_body(f"no {method} {target} here")))
            return
        try:
            reply = http_reply(200, json.dumps(handler(self.state, target, body)).encode())
        except (ValueError, TypeError) as error:
            reply = http_reply(400, error_body(str(error)))
        self.transport.write(reply)

    def _chat(self, call: Call) -> None:
        counters = self.state.counters
        counters.arrive(call)
        outcome, seconds = draw(self.state.settings, call.body_hash, counters.tries[call.body_hash])
        timer = asyncio.get_running_loop().call_later(seconds, self._answer, call, counters, outcome)
        self.pending = timer, call, counters

    def _answer(self, call: Call, counters: Counters, outcome: str) -> None:
        self.pending = None
        status, reply = self._reply(call, outcome)
        # counted out before the answer leaves: a client that then sends its next is not two in flight
        counters.depart(call, "reset" if outcome == "reset" else str(status))
        if outcome == "reset":
            self._break_off(reply)
        else:
            self.transport.write(reply)
            self._next()

    def _reply(self, call: Call, outcome: str) -> tuple[int, bytes]:
        settings = self.state.settings
        if outcome == "429":
            wait = "" if settings.retry_after is None else f"Retry-After: {settings.retry_after:g}\r\n"
            return 429, http_reply(429, error_body("slow down"), wait)
        if outcome == "500":
            return 500, http_reply(500, error_body("planted fault"))
        try:
            return 200, http_reply(200, completion(call.body, settings.model))
        except (ValueError, KeyError, TypeError):
            return 400, http_reply(400, error_body("not a chat request"))

    def _break_off(self, reply: bytes) -> None:
        self.transport.write(reply[:-20])
        linger_none = struct.pack("ii", 1, 0)  # makes close() send a reset
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_none)
        self.transport.abort()


def show_models(state: State, target: str, body: bytes) -> dict[str, Any]:  # noqa: ARG001  a control handler
    return {"object": "list", "data": [{"id": state.settings.model, "object": "model"}]}


def show_stats(state: State, target: str, body: bytes) -> dict[str, Any]:  # noqa: ARG001  a control handler
    return state.counters.report(lists=target.endswith("?lists=1"))


def do_reset(state: State, target: str, body: bytes) -> dict[str, Any]:  # noqa: ARG001  a control handler
    state.reset()
    return {}


def do_config(state: State, target: str, body: bytes) -> dict[str, Any]:  # noqa: ARG001  a control handler
    state.settings = replace(state.settings, **json.loads(body))
    return asdict(state.settings)


CONTROL: dict[tuple[str, str], Callable[[State, str, bytes], dict[str, Any]]] = {
    ("GET", "/v1/models"): show_models,
    ("GET", "/stats"): show_stats,
    ("POST", "/reset"): do_reset,
    ("POST", "/config"): do_config,
}


async def serve(settings: Settings) -> None:
    """Serve until standard input closes, which it does when the parent process ends, however it ends."""
    loop, state, ended = asyncio.get_running_loop(), State(settings), asyncio.Event()
    server = await loop.create_server(lambda: Connection(state), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201  tells the parent the port
    with suppress(OSError):  # /dev/null can't be watched: then it serves until it is killed
        loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


class StubEndpoint:
    """Starts a stub in a process of its own and ends it with the `with` block.

    Args:
        preset: name of an entry of `PRESETS`, which the other arguments then change.
        settings: fields of `Settings`.
    """

    def __init__(self, *, preset: str = "instant", **settings: Any) -> None:
        self.settings = Settings(**{**PRESETS[preset], **settings})

    def __enter__(self) -> Self:
        command = [sys.executable, __file__, json.dumps(asdict(self.settings))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.root}/v1"
        return self

    def __exit__(self, *exc: object) -> None:
        with self._process as process:  # closes the pipes and waits
            process.terminate()

    def stats(self, *, lists: bool = False) -> dict[str, Any]:
        """Return the counters; `lists` adds `arrivals`, `throttled_at` (monotonic seconds) and `bodies`."""
        return self._control("GET", "/stats?lists=1" if lists else "/stats")

    def busy_share(self, limit: int) -> float:
        """Return the used share of `limit` requests in flight, from first arrival to last departure."""
        stats = self.stats()
        return float(stats["busy_seconds"] / (limit * (stats["last_departure"] - stats["first_arrival"])))

    def reset(self) -> None:
        """Set all counters, and the try numbers that faults depend on, back to nothing."""
        self._control("POST", "/reset")

    def configure(self, **settings: Any) -> None:
        """Change fields of `Settings` from the next request on."""
        self._control("POST", "/config", json.dumps(settings))

    def _control(self, method: str, target: str, body: str = "") -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CONTROL_SECONDS)
        try:
            connection.request(method, target, body)
            response = connection.getresponse()
            found: dict[str, Any] = json.loads(response.read())
            assert response.status == HTTPStatus.OK, found
            return found
        finally:
            connection.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(Settings(**json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}"))))
