"""Rows of the judging stream, written by hand, as the sorted Arrow batches that a Python worker reads."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pyarrow as pa

from prspark.engine.groups import ASK, BASELINE, JUDGED, KNOWN, ROW, STREAM

QUESTION = "What is 6 x 7?"
WHOLE = -1

_NUMBERS = {name: pa.int64() for name in ("unit_hash", "group_hash", "row_high", "row_low")}
_TYPES = {**_NUMBERS, "part": pa.int32(), "tag": pa.int32(), "verdict_score": pa.float64()}
SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in STREAM])

Row = dict[str, Any]


def row(
    query: str | None, answer: str | None, *, original: str = QUESTION, part: int = WHOLE, **more: Any
) -> Row:
    """Return a row of a group; its hashes follow from its texts, unless they are given."""
    texts = {"original_query": original, "query": query, "prompt": query, "sut_response": answer}
    found: Row = {**dict.fromkeys(STREAM), **texts, "part": part, "tag": ROW, **more}
    judged = [found[name] for name in JUDGED]
    hashes = {
        "unit_hash": number(original),
        "group_hash": number(original, found["group_values"]),
        "row_high": number(*judged, 0),
        "row_low": number(*judged, 1),
    }
    return {
        **hashes,
        **{name: value for name, value in found.items() if value is not None or name not in hashes},
    }


def baseline(answer: str | None, *, part: int, **more: Any) -> Row:
    """Return the copy of a huge group's baseline that a part of it gets."""
    return {**row(QUESTION, answer, part=part, **more), "tag": BASELINE}


def known(key: str, score: float | None, unscored: str | None = None, *, original: str = QUESTION) -> Row:
    """Return a verdict that is paid for; Spark leaves all else of such a row null."""
    verdict = {"verdict_key": key, "verdict_score": score, "verdict_unscored": unscored}
    return {**_marker(KNOWN, original), **verdict, "verdict_reason": "as before"}


def ask(key: str, *, original: str = QUESTION) -> Row:
    """Return the word that only this key (and others so named) is to be asked in its unit."""
    return {**_marker(ASK, original), "verdict_key": key}


def _marker(tag: int, original: str) -> Row:
    return {**dict.fromkeys(STREAM), "unit_hash": number(original), "part": WHOLE, "tag": tag}


def number(*values: Any) -> int:
    """Return 64 bits, signed, as Spark's hash does."""
    return int.from_bytes(sha256(repr(values).encode()).digest()[:8], signed=True)


def batches(rows: Iterable[Row], *, cuts: Sequence[int] = ()) -> list[pa.RecordBatch]:
    """Return the rows sorted as Spark sorts them, in batches that end at these row numbers."""
    order = ("unit_hash", "part", "tag", "group_hash")
    placed = sorted(rows, key=lambda found: [(found[name] is not None, found[name] or 0) for name in order])
    ends = [0, *sorted(cuts), len(placed)]
    return [_batch(placed[start:end]) for start, end in pairwise(ends)]


def _batch(rows: list[Row]) -> pa.RecordBatch:
    arrays = [pa.array([found[field.name] for found in rows], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
