"""HTTP/1.1 as bytes: what is written, and that answers are read as `http.client` reads them."""

import gzip
import io
from http.client import HTTPResponse
from typing import Any

import pytest

from prspark.judges import http1
from prspark.judges.http1 import Answer, NotHttpError, TooLargeError, first_lines, post, read_answer

BODY = b'{"said": 1}'
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" + BODY
CHUNKED = (
    b'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n4;name=x\r\n{"sa\r\n7\r\nid": 1}\r\n'
    b"0\r\nChecksum: 7\r\n\r\n"
)
ANSWERS = {
    "a length": PLAIN,
    "chunks, with an extension and a trailer": CHUNKED,
    "chunks whose lengths have letters and zeros": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n00B\r\n"
    + BODY
    + b"\r\n0\r\n\r\n",
    "chunks and a length": CHUNKED.replace(b"\r\n\r\n4;", b"\r\nContent-Length: 3\r\n\r\n4;"),
    "an error with a page": b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "a wait": b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
    "nothing to say": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "no length, to the end": b"HTTP/1.1 200 OK\r\n\r\n" + BODY,
    "a length that is none, to the end": b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n" + BODY,
    "an end that is told": PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"),
    "an old server": PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "an old server that stays": PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0").replace(
        b"\r\n\r\n", b"\r\nConnection: Keep-Alive\r\n\r\n"
    ),
    "a word before the answer": b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" + PLAIN,
    "no reason": PLAIN.replace(b"200 OK", b"200"),
    "bare line ends": PLAIN.replace(b"\r\n", b"\n"),
    "names in other cases, blanks around values": PLAIN.replace(
        b"Content-Length: 11", b"CONTENT-length:  11  "
    ),
    "two types": PLAIN.replace(b"\r\n\r\n", b"\r\nContent-Type: text/html\r\n\r\n"),
}


def read(data: bytes) -> tuple[Answer, bool]:
    return read_answer(io.BufferedReader(io.BytesIO(data)))  # type: ignore[arg-type]


class _Socket:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _: str) -> Any:
        return io.BufferedReader(io.BytesIO(self._data))  # type: ignore[arg-type]


def read_by_http_client(data: bytes) -> tuple[Answer, bool]:
    response = HTTPResponse(_Socket(data), method="POST")  # type: ignore[arg-type]
    response.begin()
    body = response.read()
    html = "html" in response.headers.get("content-type", "") or body[:1] == b"<"
    return Answer(response.status, body, response.headers.get("retry-after"), html), not response.will_close


@pytest.mark.parametrize("data", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_read_as_http_client_reads_it(data: bytes) -> None:
    assert read(data) == read_by_http_client(data)


def test_early_hints_are_no_answer() -> None:
    assert read(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN)[0] == read(PLAIN)[0]


@pytest.mark.parametrize("data", [PLAIN, CHUNKED], ids=["a length", "chunks"])
def test_an_answer_that_is_cut_anywhere_is_none(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(NotHttpError):
            read(data[:end])
    assert read(data)[0].body == BODY


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 99 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * http1.MAX_LINE_BYTES + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * http1.MAX_HEADERS + b"\r\n",
    ],
    ids=range(9),
)
def test_what_is_not_http_is_no_answer(data: bytes) -> None:
    with pytest.raises(NotHttpError):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: 101\r\n\r\n",
        b"\r\n" + b"x" * 101,
        b"Transfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"\r\n1\r\nx\r\n0\r\n\r\n",
        b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(101)),
    ],
    ids=["by its length", "to the end", "in chunks", "packed"],
)
def test_a_body_over_the_limit_is_too_large(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "MAX_REPLY_BYTES", 100)
    with pytest.raises(TooLargeError):
        read(b"HTTP/1.1 200 OK\r\n" + data)


def test_a_request_is_written_in_one_piece() -> None:
    first = first_lines("/v1/chat", "far.example", 8443)
    assert post(first, {"Accept": "*/*", "X-Key": "a b"}, BODY) == (
        b"POST /v1/chat HTTP/1.1\r\nHost: far.example:8443\r\nAccept: */*\r\nX-Key: a b\r\n"
        b'Content-Length: 11\r\n\r\n{"said": 1}'
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("X-Key", "secret\r\nX-Other: 1"), ("X-Key", "secrét"), ("X Key", "secret"), ("", "secret")],
)
def test_a_header_that_would_change_the_request_is_refused_and_not_shown(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="header") as caught:
        post(first_lines("/", "far.example", None), {name: value}, BODY)
    assert "secr" not in str(caught.value)
