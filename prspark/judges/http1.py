"""The bytes of HTTP/1.1: a POST as it is written, and the one answer to it as it is read.

`http.client` does the same with the parser for e-mail. That is a quarter of a client's time, all of it while the
GIL is held, so that the answers to other calls wait for it; see docs/decisions.md.
"""

import re
import zlib
from collections.abc import Mapping
from io import BufferedReader
from typing import NamedTuple

MAX_REPLY_BYTES = 4 * 1024 * 1024
"""A verdict is a few hundred bytes; a thousand times that is a fault, and memory is shared with Spark."""

MAX_LINE_BYTES = 64 * 1024
MAX_HEADERS = 100

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A whole header name: a token of RFC 9110."""

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class NotHttpError(Exception):
    """What came is no complete HTTP answer. Holds no text: it could be a secret or a judged one."""


class TooLargeError(Exception):
    """The body is longer than `MAX_REPLY_BYTES`."""


class Answer(NamedTuple):
    """One complete HTTP answer, whatever its status."""

    status: int
    body: bytes
    retry_after: str | None = None
    html: bool = False


def first_lines(target: str, host: str, port: int | None) -> bytes:
    """Return what all POSTs to one place begin with; `port` is None where the scheme says it."""
    named = host if port is None else f"{host}:{port}"
    return f"POST {target} HTTP/1.1\r\nHost: {named}\r\n".encode("ascii")


def post(first: bytes, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes of a POST that begins with `first_lines`: one packet, where two would be slower.

    Raises:
        ValueError: a header can't be sent; the text names it and shows no value.
    """
    lines = [first]
    for name, value in headers.items():
        if not (HEADER_NAME.fullmatch(name) and value.isascii() and value.isprintable()):
            raise ValueError(f"header {name!r} can't be sent")
        lines.append(f"{name}: {value}\r\n".encode())
    lines += [b"Content-Length: %d\r\n\r\n" % len(body), body]
    return b"".join(lines)


def read_answer(stream: BufferedReader) -> tuple[Answer, bool]:
    """Read one answer, never more than the limit, and say whether the connection can be used again.

    Raises:
        NotHttpError: it is not HTTP, or it ends before its end.
        TooLargeError: the body is longer than `MAX_REPLY_BYTES`, packed or unpacked.
    """
    version, status, headers = _head(stream)
    while status < 200:  # on the way to the answer
        version, status, headers = _head(stream)
    body, ends = _body(stream, status, headers)
    body = _unpacked(body, headers.get("content-encoding"))
    if len(body) > MAX_REPLY_BYTES:
        raise TooLargeError
    html = "html" in headers.get("content-type", "") or body[:1] == b"<"
    reusable = ends and _stays_open(version, headers)
    return Answer(status, body, headers.get("retry-after"), html), reusable


def _line(stream: BufferedReader) -> bytes:
    line = stream.readline(MAX_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise NotHttpError
    return line.rstrip(b"\r\n")


def _head(stream: BufferedReader) -> tuple[str, int, dict[str, str]]:
    """Read the status line and the headers, whose names come in lower case; of several, the first counts."""
    version, _, rest = _line(stream).decode("latin-1").partition(" ")
    status = rest.lstrip()[:3]
    if not (version.startswith("HTTP/1.") and status.isdecimal() and int(status) >= 100):
        raise NotHttpError
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = _line(stream).decode("latin-1")
        if not line:
            return version, int(status), headers
        name, _, value = line.partition(":")
        headers.setdefault(name.rstrip().lower(), value.strip())
    raise NotHttpError


def _body(stream: BufferedReader, status: int, headers: Mapping[str, str]) -> tuple[bytes, bool]:
    """Read the body; says whether its end was told, so that another answer can follow on the connection."""
    if status in (204, 304):
        return b"", True
    if headers.get("transfer-encoding", "").lower().endswith("chunked"):
        return _chunks(stream), True
    length = headers.get("content-length", "")
    if length.isdecimal():
        return _exactly(stream, int(length)), True
    return stream.read(MAX_REPLY_BYTES + 1), False


def _exactly(stream: BufferedReader, length: int) -> bytes:
    if length > MAX_REPLY_BYTES:
        raise TooLargeError
    found = stream.read(length)
    if len(found) < length:
        raise NotHttpError
    return found


def _chunks(stream: BufferedReader) -> bytes:
    found: list[bytes] = []
    left = MAX_REPLY_BYTES
    while length := _chunk_length(stream):
        if length > left:
            raise TooLargeError
        left -= length
        found.append(_exactly(stream, length))
        _line(stream)
    for _ in range(MAX_HEADERS):  # trailers
        if not _line(stream):
            return b"".join(found)
    raise NotHttpError


def _chunk_length(stream: BufferedReader) -> int:
    digits = _line(stream).partition(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise NotHttpError
    return int(digits, 16)


def _unpacked(body: bytes, packing: str | None) -> bytes:
    """Unpack what a gateway has packed although it was asked not to, but never more than the limit."""
    if packing not in ("gzip", "deflate"):
        return body
    try:
        return zlib.decompressobj(wbits=_GZIP_OR_ZLIB).decompress(body, MAX_REPLY_BYTES + 1)
    except zlib.error:
        return body  # which is no JSON, and is told as such


def _stays_open(version: str, headers: Mapping[str, str]) -> bool:
    wish = headers.get("connection", "").lower()
    return "keep-alive" in wish if version == "HTTP/1.0" else "close" not in wish
