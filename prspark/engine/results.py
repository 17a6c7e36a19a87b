"""The rows that judging returns, as Arrow batches. Row contract: one row a distinct row key."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from prspark.engine.asks import Work, copies, verdict
from prspark.metric.group import Role
from prspark.metric.score import GroupScore

DETAILS = (
    ("status", "string"),
    ("role", "string"),
    ("correctness", "double"),
    ("robustness", "double"),
    ("correctness_reason", "string"),
    ("robustness_reason", "string"),
    ("unscored_reason", "string"),
    ("base_correctness", "double"),
    ("mean_perturbed_correctness", "double"),
    ("mean_correctness_drop", "double"),
    ("mean_robustness", "double"),
    ("worst_correctness", "double"),
    ("worst_robustness", "double"),
    ("outcome", "string"),
    ("pairs_total", "int"),
    ("pairs_scored", "int"),
    ("baseline_match", "string"),
)
"""The fields of `<metric_name>_details`, in order."""

RESULT = (
    ("row_high", "bigint"),
    ("row_low", "bigint"),
    ("unit_hash", "bigint"),
    ("group_hash", "bigint"),
    # a part's rows wait for their group's score; only they need these two
    ("is_part", "boolean"),
    ("counted", "boolean"),
    ("score", "double"),
    *DETAILS,
)

_ARROW = {
    "string": pa.string(),
    "double": pa.float64(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
}
_BATCH_ROWS = 10_000

ResultRow = tuple[Any, ...]


def arrow_schema(fields: Sequence[tuple[str, str]]) -> pa.Schema:
    """Arrow's spelling of a list of (name, type)."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in fields])


def ddl(fields: Sequence[tuple[str, str]]) -> str:
    """Spark's spelling of a list of (name, type)."""
    return ", ".join(f"{name} {kind}" for name, kind in fields)


def result_rows(work: Work, score: GroupScore | None) -> Iterator[ResultRow]:
    """Yield a row per row of the group; without a score the group's fields wait for the other parts."""
    group, found = work.group, work.classified
    shown = copies(work)
    group_fields = _group_fields(score)
    for row, answer in enumerate(group.answers):
        correct, robust = work.correctness[shown[row]], work.robustness[shown[row]]
        correctness, robustness = verdict(correct), verdict(robust)
        own = found.reasons[row] or (correct and correctness.unscored_reason)
        own = own or (robust and robustness.unscored_reason)
        role = found.roles[row]
        yield (
            *(answer.row_key or ()),
            group.unit.key[0],
            group.group_hash,
            score is None,
            found.counted[row],
            score.score if score else None,
            score.status if score else None,
            role,
            correctness.score,
            robustness.score,
            correctness.reason,
            robustness.reason,
            own or (score.unscored_reason if score else None),
            *group_fields,
            None if role is Role.EXCLUDED else found.match,
        )


def _group_fields(score: GroupScore | None) -> tuple[Any, ...]:
    """From `base_correctness` to `pairs_scored`."""
    if score is None:
        return (None,) * 9
    return (
        score.base_correctness,
        score.mean_perturbed_correctness,
        score.mean_correctness_drop,
        score.mean_robustness,
        score.worst_correctness,
        score.worst_robustness,
        score.outcome,
        score.pairs_total,
        score.pairs_scored,
    )


def result_batches(rows: Iterator[ResultRow]) -> Iterator[pa.RecordBatch]:
    """Pack rows into Arrow batches of a bounded size."""
    waiting: list[ResultRow] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= _BATCH_ROWS:
            yield _batch(waiting)
            waiting = []
    if waiting:
        yield _batch(waiting)


_RESULT_SCHEMA = arrow_schema(RESULT)


def _batch(rows: list[ResultRow]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _RESULT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_RESULT_SCHEMA)


PACKED = (("packed", "binary"),)
"""Results as they are kept: a row an Arrow batch, which costs Spark a tenth of keeping a row a row."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn each batch into one row of `PACKED`."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_arrays(
            [pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["packed"]
        )


def unpack(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Turn rows of `PACKED` back into batches of the named columns of `RESULT`."""
    for batch in batches:
        for packed in batch.column(0):
            for found in pa.ipc.open_stream(packed.as_buffer()):
                yield found.select(names)
