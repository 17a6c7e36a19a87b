"""One POST in two steps, over connections that are kept."""

import gzip
import json
import zlib
from collections.abc import Callable

import pytest

from prspark.judges import transport
from prspark.judges.http1 import Answer
from prspark.judges.transport import Transport, TransportError, Trouble
from tests.support.scripted_server import ScriptedServer, answer, raw

BODY = b'{"asked": 1}'
SECONDS = 20.0
FINE = answer(200, {"said": 1})


def post(transport: Transport, body: bytes = BODY) -> Answer:
    exchange = transport.exchange(body, headers={}, seconds=SECONDS)
    exchange.start()
    return exchange.finish()


@pytest.fixture
def url() -> Callable[[ScriptedServer], str]:
    return lambda server: f"http://127.0.0.1:{server.port}/v1"


def test_a_kept_connection_sends_before_anybody_waits_for_the_answer(
    url: Callable[[ScriptedServer], str],
) -> None:
    with ScriptedServer(FINE) as server:
        client = Transport(url(server))
        post(client)
        sent = client.exchange(BODY, headers={"X-Which": "second"}, seconds=SECONDS)
        sent.start()
        assert not client._idle
        assert json.loads(sent.finish().body) == {"said": 1}
        client.close()
    assert [request.headers.get("x-which") for request in server.requests] == [None, "second"]


def test_without_a_connection_start_does_not_wait_for_one(url: Callable[[ScriptedServer], str]) -> None:
    with ScriptedServer(FINE) as server:
        client = Transport(url(server))
        exchange = client.exchange(BODY, headers={}, seconds=SECONDS)
        exchange.start()
        assert exchange.started is not None
        assert server.requests == []
        assert exchange.finish().status == 200
        client.close()


def test_a_long_request_is_not_sent_by_who_may_not_wait(url: Callable[[ScriptedServer], str]) -> None:
    body = json.dumps({"long": "x" * transport.SENT_AT_ONCE_BYTES}).encode()
    with ScriptedServer(FINE) as server:
        client = Transport(url(server))
        post(client)
        exchange = client.exchange(body, headers={}, seconds=SECONDS)
        exchange.start()
        assert len(client._idle) == 1  # still there, for whoever sends
        assert exchange.finish().status == 200
        client.close()
    assert server.requests[1].body == json.loads(body)


def test_nothing_is_sent_when_the_time_is_over_already(url: Callable[[ScriptedServer], str]) -> None:
    with ScriptedServer(FINE) as server:
        client = Transport(url(server))
        exchange = client.exchange(BODY, headers={}, seconds=SECONDS, no_later_than=0.0)
        exchange.start()
        assert exchange.started is None
    assert server.requests == []


def test_a_connection_that_the_server_closed_meanwhile_is_replaced(
    url: Callable[[ScriptedServer], str],
) -> None:
    def closes(connection: object) -> None:
        FINE(connection)  # type: ignore[arg-type]
        connection.close()  # type: ignore[attr-defined]

    with ScriptedServer(closes, FINE) as server:
        client = Transport(url(server))
        post(client)
        transport.urllib3.util.wait_for_read(client._idle[0].connection.sock, timeout=SECONDS)
        assert post(client).status == 200
        client.close()


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_an_answer_that_was_packed_unasked_is_unpacked(
    name: str, pack: Callable[[bytes], bytes], url: Callable[[ScriptedServer], str]
) -> None:
    packed = raw(200, pack(b'{"said": 1}'), headers={"Content-Encoding": name})
    with ScriptedServer(lambda connection: connection.send(packed)) as server:
        client = Transport(url(server))
        assert post(client).body == b'{"said": 1}'
        client.close()


def test_an_answer_that_unpacks_to_more_than_anybody_reads_is_not_unpacked_to_its_end(
    url: Callable[[ScriptedServer], str],
) -> None:
    bomb = raw(200, gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})
    with ScriptedServer(lambda connection: connection.send(bomb)) as server:
        client = Transport(url(server))
        with pytest.raises(TransportError) as caught:
            post(client)
        client.close()
    assert caught.value.trouble is Trouble.TOO_LARGE


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://far.example/v1", "far.example"),
        ("https://far.example/v1", "far.example"),
        ("https://far.example:443/v1", "far.example"),
        ("https://far.example:8443/v1", "far.example:8443"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
        ("http://[::1]/v1", "[::1]"),
    ],
)
def test_the_host_is_named_as_http_wants_it(url: str, host: str) -> None:
    message = Transport(url, proxy=None).exchange(BODY, headers={}, seconds=SECONDS)._message
    head, _, body = message.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1 HTTP/1.1"
    assert f"Host: {host}" in lines
    assert f"Content-Length: {len(BODY)}" in lines
    assert body == BODY
