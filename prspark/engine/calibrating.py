"""What a Python worker does to calibrate a judge: list what rows ask of it, then ask it. No Spark needed.

Row contract: `list_items` returns a row a question (and repeat) of a row; `ask_requests` one row a request.
Requests are those that scoring would send, under the same keys, so either finds the other's verdicts.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from prspark.engine import asks
from prspark.engine.groups import Group, read_groups
from prspark.engine.judging import Task, WorkerSettings, paid_calls, worker_judge
from prspark.engine.overlap import Overlap, Request
from prspark.judges.cost import estimate_tokens
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest, Verdict
from prspark.judges.swap import swapped
from prspark.metric.conversation import Turn

CORRECTNESS, PAIR, SWAPPED = "correctness", "pair", "swapped"
"""What an item measures: a row's correctness, its pair as scoring asks it, that pair in the other order."""

ITEMS = (
    ("row_high", "bigint"),
    ("row_low", "bigint"),
    ("measure", "string"),
    ("repeat", "int"),
    # these three are null where the verdict needs no call, and then the next two hold it
    ("key", "string"),
    ("request", "string"),
    ("prompt_tokens", "bigint"),
    ("score", "double"),
    ("unscored_reason", "string"),
)
"""One question about one row; its request is JSON."""

ASKED = ("key", "measure", "request")
"""What `ask_requests` reads of an item; no two rows share a key."""

VERDICTS = (("verdict_key", "string"), ("verdict_score", "double"), ("verdict_unscored", "string"))
"""What the judge said of a request."""

_ARROW = {"string": pa.string(), "double": pa.float64(), "int": pa.int32(), "bigint": pa.int64()}
_BATCH_ROWS = 1_000  # an item holds whole texts

# So many rounds of calls share a group's time and permit: the more, the fewer lanes idle at its end.
_ROUNDS_A_GROUP = 4


class Extent(NamedTuple):
    """How much is asked: how often each correctness, and whether each pair in both orders."""

    repeat: int = 1
    order_swap: bool = False


def identity_of(identity: str, repeat: int) -> str:
    """Return the judge's identity for the n-th asking, from 0; repeats have keys of their own.

    The first has the plain identity, so that scoring and calibrating share its verdicts.
    """
    return identity if repeat == 0 else f"{identity} repeat {repeat}"


def list_items(
    batches: Iterable[pa.RecordBatch], settings: WorkerSettings, extent: Extent
) -> Iterator[pa.RecordBatch]:
    """List what a sorted stream of rows asks, without asking: rows of `ITEMS`.

    A row without a query or an answer, or of another task type, is an item without a score and says why.
    """
    rows = (row for group in read_groups(batches) for row in _group_items(group, settings, extent))
    return _batches(rows, ITEMS)


def _group_items(group: Group, settings: WorkerSettings, extent: Extent) -> Iterator[tuple[Any, ...]]:
    work = asks.start(group, settings.rules)
    for row, answer in enumerate(group.answers):
        reason = work.classified.reasons[row]
        # the one way to ask about a row, also where its group could not be scored
        slot = Verdict(None, None, reason) if reason else asks.correctness_slot(answer, settings.rules)
        for repeat in range(extent.repeat):
            yield (*(answer.row_key or ()), CORRECTNESS, repeat, *_asked(slot, settings.identity, repeat))
        pair = work.robustness[row]
        if extent.order_swap and isinstance(pair, RobustnessRequest):
            yield (*(answer.row_key or ()), PAIR, 0, *_asked(pair, settings.identity, 0))
            yield (*(answer.row_key or ()), SWAPPED, 0, *_asked(swapped(pair), settings.identity, 0))


def _asked(slot: Request | Verdict, identity: str, repeat: int) -> tuple[Any, ...]:
    """From `key` to `unscored_reason`."""
    if isinstance(slot, Verdict):
        return (None, None, None, slot.score, slot.unscored_reason)
    key = asks.request_key(identity_of(identity, repeat), slot)
    return (key, json.dumps(slot), estimate_tokens(slot), None, None)


def _request(measure: str, text: str) -> Request:
    """Read a request back from JSON."""
    fields = json.loads(text)
    if measure != CORRECTNESS:
        return RobustnessRequest(*fields)
    question, answer, reference, context, history = fields
    return CorrectnessRequest(question, answer, reference, context, tuple(Turn(*turn) for turn in history))


def ask_requests(
    batches: Iterable[pa.RecordBatch], settings: WorkerSettings, task: Task, *, free: bool
) -> Iterator[pa.RecordBatch]:
    """Ask the judge: rows of `ASKED` in, a row of `VERDICTS` out each.

    A paid judge's verdicts are in the journal before they are used; limits hold as they do for scoring.

    Raises:
        JudgeRefusedError: the endpoint refuses every call.
        OSError: the journal can't be written.
    """
    asked = _read_asked(batches)
    found = _ask_free(asked, settings) if free else _ask_paid(asked, settings, task)
    return _batches(((key, verdict.score, verdict.unscored_reason) for key, verdict in found), VERDICTS)


def _read_asked(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, Request]]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ASKED)
        for key, measure, text in zip(*columns, strict=True):
            yield key, _request(measure, text)


def _ask_free(
    asked: Iterable[tuple[str, Request]], settings: WorkerSettings
) -> Iterator[tuple[str, Verdict]]:
    judge, _ = worker_judge(settings)
    for key, request in asked:
        yield key, asks.ask(judge, request)


def _ask_paid(
    asked: Iterable[tuple[str, Request]], settings: WorkerSettings, task: Task
) -> Iterator[tuple[str, Verdict]]:
    some_at_once = settings.config.metric.sub_call_concurrency_limit * _ROUNDS_A_GROUP
    with paid_calls(settings, task) as (calls, earlier):
        for some in _some(asked, some_at_once):
            known = {key: earlier[key] for key in some if key in earlier}
            yield from known.items()
            if missing := {key: request for key, request in some.items() if key not in known}:
                calls.submit(None, missing)
            yield from _answered(calls, wait=False)
        yield from _answered(calls, wait=True)


def _some(asked: Iterable[tuple[str, Request]], count: int) -> Iterator[dict[str, Request]]:
    """Yield the requests, so many at a time."""
    iterator = iter(asked)
    while some := dict(itertools.islice(iterator, count)):
        yield some


def _answered(overlap: Overlap[None], *, wait: bool) -> Iterator[tuple[str, Verdict]]:
    for _, verdicts in overlap.done(wait=wait):
        yield from verdicts.items()


def _batches(rows: Iterable[tuple[Any, ...]], fields: Sequence[tuple[str, str]]) -> Iterator[pa.RecordBatch]:
    """Pack rows into Arrow batches of a bounded size."""
    schema = pa.schema([(name, _ARROW[kind]) for name, kind in fields])
    iterator = iter(rows)
    while some := list(itertools.islice(iterator, _BATCH_ROWS)):
        columns = zip(*some, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
