"""From a sorted stream of Arrow batches to groups, in a Python worker. No Spark needed.

Row contract in: rows of `STREAM`, sorted by unit, tag and group, so a unit's known verdicts come first.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from prspark.judges.protocol import Verdict
from prspark.metric.group import Answer, read_answer_row
from prspark.metric.reasons import UnscoredReason

JUDGED = (
    "original_query",
    "group_values",
    "input_id",
    "prompt",
    "query",
    "sut_response",
    "reference_answer",
    "groundtruth_context",
    "perturbation_type",
    "task_type",
)
"""The text columns that judging needs; nothing else of a user's row goes through Python."""

KNOWN, ASK, BASELINE, ROW = 0, 1, 2, 3
"""What a row of the stream is: a verdict paid for, a key to ask here, a huge group's baseline, a row."""

STREAM = (
    "unit_hash",
    "part",
    "tag",
    "group_hash",
    "row_high",
    "row_low",
    *JUDGED,
    "verdict_key",
    "verdict_score",
    "verdict_reason",
    "verdict_unscored",
)


@dataclass(slots=True)
class Unit:
    """The groups of one original query (or a part of a huge one), and what is known about them."""

    key: tuple[int, int]
    known: dict[str, Verdict] = field(default_factory=dict)
    only: set[str] = field(default_factory=set)
    baselines: dict[int, Answer] = field(default_factory=dict)


@dataclass(slots=True)
class Group:
    """One group, or the part of a huge one that is in this unit; no two rows share a row key."""

    unit: Unit
    group_hash: int
    original_query: str
    answers: list[Answer]
    baseline: Answer | None = None

    @property
    def is_part(self) -> bool:
        """Whether other rows of this group are in other units."""
        return self.baseline is not None or self.unit.key[1] >= 0


def read_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[Group]:
    """Yield the groups of a sorted stream, one at a time; only one group is held in memory.

    `Unit.key[1]` is -1 for a unit of whole groups, and the part's number otherwise.
    """
    unit = Unit(key=(0, -2))
    rows: list[tuple[Any, ...]] = []
    for row in _rows(batches):
        if (row[0], row[1]) != unit.key or row[3] != (rows[0][3] if rows else row[3]):
            yield from _split(unit, rows)
            rows = []
            if (row[0], row[1]) != unit.key:
                unit = Unit(key=(row[0], row[1]))
        if row[2] == ROW:
            rows.append(row)
        else:
            _note(unit, row)
    yield from _split(unit, rows)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    # numpy is faster, but it makes whole numbers floats if one is null, and a key loses its last digits
    if column.null_count and pa.types.is_primitive(column.type):
        return list(column.to_pylist())
    try:
        return list(column.to_numpy(zero_copy_only=False).tolist())
    except (UnicodeDecodeError, pa.ArrowException):
        # Spark keeps text that is no UTF-8 as it came; one such row must not end a job
        texts = column.cast(pa.binary()).to_pylist()
        return [text and text.decode("utf-8", "replace") for text in texts]


def _note(unit: Unit, row: tuple[Any, ...]) -> None:
    if row[2] == BASELINE:
        unit.baselines[row[3]] = _answer(row)
    elif row[2] == ASK:
        unit.only.add(row[16])
    else:
        unit.known[row[16]] = _known_verdict(*row[17:20])


def _known_verdict(score: float | None, reason: str | None, unscored: str | None) -> Verdict:
    if unscored is None:
        return Verdict(score, reason)
    return Verdict(None, reason, UnscoredReason(unscored))


def _split(unit: Unit, rows: list[tuple[Any, ...]]) -> Iterator[Group]:
    """Split rows of one group hash by their exact keys: two groups may share a hash, and stay two."""
    groups: dict[tuple[str, str | None], dict[tuple[int, int], Answer]] = {}
    for row in rows:
        answers = groups.setdefault((row[6], row[7]), {})
        if (row[4], row[5]) not in answers:
            answers[row[4], row[5]] = _answer(row)
    for (original_query, _), answers in groups.items():
        group_hash = rows[0][3]
        # by row key, so that which of two equal rows counts does not depend on the order of the input
        ordered = [answers[key] for key in sorted(answers)]
        yield Group(unit, group_hash, original_query, ordered, unit.baselines.get(group_hash))


def _answer(row: tuple[Any, ...]) -> Answer:
    return read_answer_row(
        input_id=row[8],
        prompt=row[9],
        query=row[10],
        sut_response=row[11],
        reference=row[12],
        context=row[13],
        perturbation_type=row[14],
        task_type=row[15],
        row_key=(row[4], row[5]),
    )
