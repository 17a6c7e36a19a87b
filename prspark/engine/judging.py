"""What a Python worker does with a sorted stream of rows: judge it, or say what judging it would ask.

Everything here runs without Spark: Arrow batches in, Arrow batches out.
"""

import contextlib
import functools
import gc
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from prspark.engine import asks
from prspark.engine.asks import AskRules, Work
from prspark.engine.config import Config
from prspark.engine.groups import Group, read_groups
from prspark.engine.journal import Entry, JournalWriter, known_verdicts, read_stop, write_stop
from prspark.engine.overlap import AskOnce, Overlap, Request
from prspark.engine.results import RESULT, ResultRow, arrow_schema, result_batches, result_rows
from prspark.judges.cost import estimate_tokens
from prspark.judges.endpoint import EndpointJudge
from prspark.judges.factory import make_judge
from prspark.judges.guarded import FreeGuardedJudge, GuardedJudge
from prspark.judges.lexical import LexicalJudge
from prspark.judges.limits import ExecutorLimits, Gate, executor_folder
from prspark.judges.protocol import (
    CorrectnessRequest,
    Judge,
    JudgeRefusedError,
    RobustnessRequest,
    Verdict,
    keep,
    keep_verdict,
)
from prspark.metric.group import Role
from prspark.metric.reasons import UnscoredReason
from prspark.metric.score import GroupScore, score_group

MakeJudge = Callable[[], Judge]


class WorkerSettings(NamedTuple):
    """What a worker needs to know of a run; pickled into the closure, so it holds no secret.

    `journal` is where this run's verdicts go and `run` starts the names of its files; `replay` asks no judge.
    """

    config: Config
    rules: AskRules
    identity: str
    run: str
    journal: str = ""
    executors: int = 1
    replay: bool = False
    maker: MakeJudge | None = None


class Task(NamedTuple):
    """Which attempt of which partition this is; together they name a journal file."""

    stage: str
    partition: int
    attempt: int


def rules_of(config: Config, *, numeric_ids: bool) -> AskRules:
    """Pick what decides which questions are asked."""
    return AskRules(
        config.metric.reference_answer,
        config.metric.groundtruth_context,
        config.judge.skip_identical_pairs,
        numeric_ids,
        config.scoring.min_coverage,
    )


@functools.lru_cache(maxsize=4)
def _gate(run: str, limits: Any, executors: int) -> Gate:
    return ExecutorLimits(executor_folder() / f"prspark-{run}", limits, executors=executors)


_JUDGES: dict[str, Judge] = {}


# Seconds. A thread that works between two calls is soon done; to interrupt it costs more than to let it finish.
SWITCH_INTERVAL = 0.02


@functools.cache
def _settle() -> None:
    """Make this process a good place to call from, once.

    What is imported leaves the garbage collector's sight: PySpark collects after each task, and a worker's next
    task waits for that.
    """
    gc.freeze()
    sys.setswitchinterval(SWITCH_INTERVAL)


def worker_judge(settings: WorkerSettings) -> tuple[Judge, Gate]:
    """Return this process's judge and its executor's gate; both are made once a run."""
    _settle()
    config = settings.config
    gate = _gate(settings.run, config.limits, settings.executors)
    if settings.run not in _JUDGES:
        _JUDGES.clear()
        _JUDGES[settings.run] = _make(settings, gate)
    return _JUDGES[settings.run], gate


def _make(settings: WorkerSettings, gate: Gate) -> Judge:
    config = settings.config
    if settings.maker is not None:
        judge = settings.maker()
    else:
        judge = make_judge(config.judge, metric=config.metric, limits=config.limits, gate=gate)
    if isinstance(judge, (EndpointJudge, LexicalJudge)):
        return judge  # they keep the limits themselves, send by send
    return FreeGuardedJudge(judge) if getattr(judge, "free", False) else GuardedJudge(judge, gate)


def judge_free(batches: Iterable[pa.RecordBatch], settings: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """Judge with a judge whose calls cost nothing: no threads, no limits, no journal."""
    judge, _ = worker_judge(settings)
    return result_batches(_free_rows(read_groups(batches), judge, settings.rules))


def _free_rows(groups: Iterable[Group], judge: Judge, rules: AskRules) -> Iterator[ResultRow]:
    for group in groups:
        work = asks.start(group, rules)
        for row, asked in enumerate(work.correctness):
            if isinstance(asked, CorrectnessRequest):
                work.correctness[row] = judge.correctness(asked)
        for row, pair in enumerate(work.robustness):
            if isinstance(pair, RobustnessRequest):
                work.robustness[row] = judge.robustness(pair)
        yield from result_rows(work, asks.score(work, rules))


def judge_paid(
    batches: Iterable[pa.RecordBatch], settings: WorkerSettings, task: Task
) -> Iterator[pa.RecordBatch]:
    """Judge what the journal does not know yet; every verdict is in the journal before it is used."""
    if settings.replay:
        return result_batches(_replayed_rows(read_groups(batches), settings))
    return result_batches(_paid_rows(read_groups(batches), settings, task))


def _replayed_rows(groups: Iterable[Group], settings: WorkerSettings) -> Iterator[ResultRow]:
    missing = Verdict(None, None, UnscoredReason.NOT_IN_JOURNAL)
    for group in groups:
        work = asks.start(group, settings.rules)
        requests = asks.keyed_requests(work, settings.identity)
        yield from _finish(work, settings, {key: group.unit.known.get(key, missing) for key in requests})


@contextlib.contextmanager
def paid_calls(settings: WorkerSettings, task: Task) -> Iterator[tuple[Overlap[Any], dict[str, Verdict]]]:
    """Open what a task needs to make paid calls, and end it with the calls in flight, however the task ends.

    Gives the calls and what earlier attempts of this task have paid for, by key.

    Raises:
        JudgeRefusedError: no call can succeed; all tasks of the run are told.
        OSError: the journal can't be written.
    """
    if reason := read_stop(settings.journal, settings.run):
        raise JudgeRefusedError(reason)
    judge, gate = worker_judge(settings)
    stem = f"{settings.run}-{task.stage}-{task.partition}-"
    earlier = known_verdicts(settings.journal, stem)
    writer = JournalWriter(settings.journal, f"{stem}{task.attempt}")
    limits = settings.config.limits
    overlap: Overlap[Any] = Overlap(
        AskOnce(_journalled(judge, writer, settings.identity)),
        gate,
        groups=limits.max_concurrency,
        calls_per_group=settings.config.metric.sub_call_concurrency_limit,
        group_timeout_seconds=limits.group_timeout_seconds,
    )
    try:
        yield overlap, earlier
    except JudgeRefusedError as error:
        write_stop(settings.journal, settings.run, str(error))
        raise
    finally:
        overlap.close()
        writer.close()


def _paid_rows(groups: Iterable[Group], settings: WorkerSettings, task: Task) -> Iterator[ResultRow]:
    with paid_calls(settings, task) as (calls, earlier):
        for group in groups:
            work = asks.start(group, settings.rules)
            known, missing = _look_up(work, settings.identity, earlier)
            if missing:
                calls.submit((work, known), missing)
            else:
                yield from _finish(work, settings, known)
            yield from _finished(calls, settings, wait=False)
        yield from _finished(calls, settings, wait=True)


def _finished(
    overlap: Overlap[tuple[Work, dict[str, Verdict]]], settings: WorkerSettings, *, wait: bool
) -> Iterator[ResultRow]:
    for (work, known), verdicts in overlap.done(wait=wait):
        yield from _finish(work, settings, known | verdicts)


def _look_up(
    work: Work, identity: str, earlier: dict[str, Verdict]
) -> tuple[dict[str, Verdict], dict[str, Request]]:
    """Split a group's requests into verdicts that are paid for and requests that this task must send."""
    unit = work.group.unit
    known: dict[str, Verdict] = {}
    missing: dict[str, Request] = {}
    for key, request in asks.keyed_requests(work, identity).items():
        found = unit.known.get(key) or earlier.get(key)
        if found is not None:
            known[key] = found
        elif not unit.only or key in unit.only:
            missing[key] = request
    return known, missing


def _journalled(judge: Judge, writer: JournalWriter, identity: str) -> Callable[[str, Request], Verdict]:
    """Return a call of the judge whose verdict is in the journal before it is returned."""

    def ask(key: str, request: Request) -> Verdict:
        kind = asks.kind_of(request)
        before = keep_verdict.set(lambda verdict: writer.write(Entry.of(key, kind, identity, verdict)))
        try:
            verdict = asks.ask(judge, request)
            if verdict.attempts:  # what was never sent is not paid for
                keep(verdict)
        finally:
            keep_verdict.reset(before)
        return verdict

    return ask


def _finish(work: Work, settings: WorkerSettings, verdicts: dict[str, Verdict]) -> Iterator[ResultRow]:
    """Put the verdicts into their slots and make the group's rows."""
    for slots in (work.correctness, work.robustness):
        for row, slot in enumerate(slots):
            if isinstance(slot, (CorrectnessRequest, RobustnessRequest)):
                slots[row] = verdicts.get(work.keys[slot])
    return result_rows(work, asks.score(work, settings.rules))


ASKS = (
    ("unit_hash", "bigint"),
    ("part", "int"),
    ("kind", "string"),
    ("key", "string"),
    ("prompt_tokens", "bigint"),
    ("amount", "bigint"),
)
"""What the plan pass returns: a row a request and unit, then a row a fact and partition (its key is null)."""

_ASKS_SCHEMA = arrow_schema(ASKS)


def list_asks(batches: Iterable[pa.RecordBatch], settings: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """Say what judging these rows would ask: each key once a unit, and what needs no call."""
    facts: Counter[str] = Counter()
    waiting: list[tuple[Any, ...]] = []
    for row in _ask_rows(read_groups(batches), settings, facts):
        waiting.append(row)
        if len(waiting) >= 10_000:
            yield _asks_batch(waiting)
            waiting = []
    waiting += [(0, 0, fact, None, 0, amount) for fact, amount in sorted(facts.items())]
    if waiting:
        yield _asks_batch(waiting)


def _asks_batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ASKS_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ASKS_SCHEMA)


def _ask_rows(
    groups: Iterable[Group], settings: WorkerSettings, facts: Counter[str]
) -> Iterator[tuple[Any, ...]]:
    unit, seen = None, set[str]()
    for group in groups:
        if group.unit is not unit:
            unit, seen = group.unit, set()
        work = asks.start(group, settings.rules)
        _count_facts(work, facts)
        for key, request in asks.keyed_requests(work, settings.identity).items():
            if key not in seen:
                seen.add(key)
                yield (*group.unit.key, asks.kind_of(request), key, estimate_tokens(request), 1)


def _count_facts(work: Work, facts: Counter[str]) -> None:
    found = work.classified
    if not work.group.is_part:
        facts[f"group:{found.status or 'to_judge'}"] += 1
        pairs = sum(found.counted)
        facts["group:one_variant"] += found.status is None and pairs == 1
    for role, reason in zip(found.roles, found.reasons, strict=True):
        facts[f"row:{role}"] += 1
        if reason is not None:
            facts[f"reason:{reason}"] += 1
    for slot in (*work.correctness, *work.robustness):
        if isinstance(slot, Verdict):
            facts[f"no_call:{slot.unscored_reason or slot.reason}"] += 1
        elif slot is not None:
            facts["wanted"] += 1


_KINDS = dict(RESULT)

PART_SCORES = tuple(
    (name, _KINDS[name]) for name in ("unit_hash", "group_hash", "score", "status", *GroupScore._fields[2:])
)
"""The score of a group that was judged in parts: one row a group."""

_PART_SCORES_SCHEMA = arrow_schema(PART_SCORES)

PART_ROWS = ("unit_hash", "group_hash", "role", "counted", "correctness", "robustness", "unscored_reason")
"""What scoring a group from its parts needs of its rows: no text."""


def score_parts(batches: Iterable[pa.RecordBatch], rules: AskRules) -> Iterator[pa.RecordBatch]:
    """Score groups that were judged in parts: rows of `PART_ROWS` sorted by group in, `PART_SCORES` out."""
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch), strict=True))
    for group, members in itertools.groupby(rows, key=lambda row: row[:2]):
        found = _score_members(list(members), rules)
        values = [*group, found.score, found.status, *found[2:]]
        arrays = [pa.array([v], field.type) for v, field in zip(values, _PART_SCORES_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_PART_SCORES_SCHEMA)


def _score_members(members: list[tuple[Any, ...]], rules: AskRules) -> GroupScore:
    base = next((row for row in members if row[2] == Role.BASELINE), None)
    counted = [row for row in members if row[3]]
    reasons = [row[6] for row in counted if row[6] is not None]
    return score_group(
        base[4] if base else None,
        [(row[4], row[5]) for row in counted],
        min_coverage=rules.min_coverage,
        base_reason=UnscoredReason(base[6]) if base and base[6] else None,
        pair_reason=asks.most_frequent(reasons),
    )
