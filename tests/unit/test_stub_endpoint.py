"""The stub endpoint counts, answers and fails as the tests and benchmarks that lean on it assume."""

import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.stub_endpoint import StubEndpoint, score_of


def body_of(text: str) -> str:
    return json.dumps({"model": "stub", "messages": [{"role": "user", "content": text}]})


@contextmanager
def connected(stub: StubEndpoint) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", stub.port, timeout=20)
    try:
        yield connection
    finally:
        connection.close()


def ask(
    stub: StubEndpoint, text: str, headers: dict[str, str] | None = None
) -> tuple[int, Any, dict[str, str]]:
    with connected(stub) as connection:
        connection.request("POST", "/v1/chat/completions", body_of(text), headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read()), dict(response.getheaders())


def test_reply_is_a_chat_completion_with_usage_and_a_score_that_follows_from_the_messages() -> None:
    with StubEndpoint() as stub:
        status, reply, _ = ask(stub, "one")
        again = ask(stub, "one")[1]
        others = {score_of([{"role": "user", "content": str(n)}]) for n in range(100)}
    verdict = json.loads(reply["choices"][0]["message"]["content"])
    assert status == 200
    assert list(verdict) == ["reasoning", "score"]
    assert verdict["score"] == score_of([{"role": "user", "content": "one"}])
    assert reply == again
    assert others == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert reply["usage"]["prompt_tokens"] > 0
    assert reply["usage"]["completion_tokens"] > 0


def test_models_are_listed() -> None:
    with StubEndpoint(model="judge-1") as stub, connected(stub) as connection:
        connection.request("GET", "/v1/models")
        assert [each["id"] for each in json.loads(connection.getresponse().read())["data"]] == ["judge-1"]


def test_connection_is_kept_alive_and_pipelined_requests_are_answered_in_order() -> None:
    with StubEndpoint() as stub, connected(stub) as connection:
        connection.connect()
        local = connection.sock.getsockname()
        for text in ("a", "b"):
            connection.request("POST", "/v1/chat/completions", body_of(text))
            connection.getresponse().read()
            assert connection.sock.getsockname() == local
        request = b"GET /v1/models HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
        connection.sock.sendall(request * 2)
        received = b""
        while received.count(b'"object": "model"') < 2:
            received += connection.sock.recv(65536)


def test_in_flight_is_counted_over_all_and_by_executor_header() -> None:
    with StubEndpoint(latency=0.3) as stub, ThreadPoolExecutor(6) as pool:
        barrier = threading.Barrier(6)

        def one(n: int) -> None:
            barrier.wait(10)
            ask(stub, str(n), {"X-Executor": "a" if n < 4 else "b"})

        list(pool.map(one, range(6)))
        ask(stub, "alone")
        stats = stub.stats(lists=True)
    assert stats["max_in_flight"] == 6
    assert stats["max_in_flight_by_executor"] == {"a": 4, "b": 2}
    assert stats["in_flight"] == 0
    assert stats["requests"] == len(stats["arrivals"]) == 7
    assert stats["busy_seconds"] == pytest.approx(7 * 0.3, rel=0.2)


def test_a_body_paid_twice_is_one_duplicate_and_reset_forgets_it() -> None:
    with StubEndpoint() as stub:
        for text in ("a", "b", "a"):
            ask(stub, text)
        stats = stub.stats()
        stub.reset()
        after = stub.stats()
    assert (stats["requests"], stats["distinct"], stats["paid"], stats["duplicates"]) == (3, 2, 2, 1)
    assert (after["requests"], after["duplicates"], after["statuses"]) == (0, 0, {})


def test_a_refused_send_is_not_paid_and_its_repetition_is_no_duplicate() -> None:
    with StubEndpoint(p429=1, retry_after=2) as stub:
        status, _, headers = ask(stub, "a")
        stub.configure(p429=0)
        assert ask(stub, "a")[0] == 200
        stats = stub.stats(lists=True)
    assert (status, headers["Retry-After"]) == (429, "2")
    assert stats["statuses"] == {"429": 1, "200": 1}
    assert len(stats["throttled_at"]) == 1
    assert (stats["paid"], stats["duplicates"]) == (1, 0)


def test_retry_after_can_be_absent() -> None:
    with StubEndpoint(p429=1, retry_after=None) as stub:
        assert "Retry-After" not in ask(stub, "a")[2]


def test_connection_is_reset_in_the_middle_of_the_body() -> None:
    with StubEndpoint(p_reset=1) as stub:
        with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
            ask(stub, "a")
        assert stub.stats()["statuses"] == {"reset": 1}


def test_faults_repeat_with_the_seed_and_differ_by_try() -> None:
    with StubEndpoint(preset="instant", p429=0.3, p500=0.3, seed=7) as stub:

        def run() -> list[int]:
            stub.reset()
            return [ask(stub, str(n % 20))[0] for n in range(60)]

        first, second = run(), run()
        stub.configure(seed=8)
        other = run()
    assert first == second != other
    assert set(first) == {200, 429, 500}
    assert first[:20] != first[20:40]


def test_a_client_that_hangs_up_is_counted_out() -> None:
    with StubEndpoint(latency=60) as stub:
        with connected(stub) as connection:
            connection.request("POST", "/v1/chat/completions", body_of("a"))
            while stub.stats()["in_flight"] == 0:
                pass
        while stub.stats()["in_flight"] == 1:
            pass
        assert stub.stats()["statuses"] == {"abandoned": 1}


def test_a_bad_request_and_an_unknown_path_are_told_so() -> None:
    with StubEndpoint() as stub, connected(stub) as connection:
        for target, body, status in (
            ("/v1/chat/completions", "{", 400),
            ("/nowhere", "", 404),
            ("/config", "[", 400),
        ):
            connection.request("POST", target, body)
            response = connection.getresponse()
            response.read()
            assert response.status == status


def test_the_process_ends_with_the_block() -> None:
    with StubEndpoint() as stub:
        process = stub._process
    assert process.returncode is not None
