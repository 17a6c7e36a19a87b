"""What a worker asks, pays for and returns: from Arrow batches to Arrow batches, without Spark."""

import itertools
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prspark.engine import results
from prspark.engine.asks import request_key
from prspark.engine.config import make_config
from prspark.engine.journal import Entry, JournalWriter, list_files, read_file, read_stop, write_stop
from prspark.engine.judging import (
    ASKS,
    Task,
    WorkerSettings,
    judge_free,
    judge_paid,
    list_asks,
    rules_of,
    worker_judge,
)
from prspark.engine.overlap import Overlap, Request
from prspark.engine.results import RESULT
from prspark.judges.guarded import FreeGuardedJudge, GuardedJudge
from prspark.judges.lexical import LexicalJudge
from prspark.judges.limits import ExecutorLimits, GroupTimeoutError
from prspark.judges.protocol import CorrectnessRequest, Judge, JudgeRefusedError, RobustnessRequest, Verdict
from tests.support.stream_rows import QUESTION, Row, ask, baseline, batches, known, row

IDENTITY = "recording/1"
TASK = Task("all", 3, 8)
GROUP = [
    row(QUESTION, "42", input_id="a"),
    row("Six times seven?", "It is 42.", input_id="b"),
    row("6x7", "41", input_id="c"),
]
GROUP_REQUESTS: list[Request] = [
    CorrectnessRequest(QUESTION, "42"),
    CorrectnessRequest("Six times seven?", "It is 42."),
    CorrectnessRequest("6x7", "41"),
    RobustnessRequest(QUESTION, "42", "Six times seven?", "It is 42."),
    RobustnessRequest(QUESTION, "42", "6x7", "41"),
]


class Recording:
    """Gives each request a score of its own, and keeps count of what it was asked."""

    def __init__(self, before: Callable[[Request], None] = lambda _: None) -> None:
        self._before = before
        self._lock = threading.Lock()
        self.asked: Counter[Request] = Counter()

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        return self._answer(request)

    def robustness(self, request: RobustnessRequest) -> Verdict:
        return self._answer(request)

    def _answer(self, request: Request) -> Verdict:
        with self._lock:
            self.asked[request] += 1
        self._before(request)
        score = sha256(repr(request).encode()).digest()[0] / 255
        return Verdict(score, "recorded", attempts=1, prompt_tokens=7, completion_tokens=3)


@pytest.fixture
def judge() -> Recording:
    return Recording()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def settings(judge: Judge, journal: Path | None = None, **more: Any) -> WorkerSettings:
    config = make_config(more.pop("config", None))
    return WorkerSettings(
        **{
            "config": config,
            "rules": rules_of(config, numeric_ids=False),
            "identity": IDENTITY,
            "run": uuid.uuid4().hex[:12],
            "journal": str(journal or ""),
            "maker": lambda: judge,
            **more,
        }
    )


def table(found: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return sorted(
        (r for batch in found for r in batch.to_pylist()), key=lambda r: (r["row_high"], r["row_low"])
    )


def paid(rows: list[Row], given: WorkerSettings, task: Task = TASK, **cut: Any) -> list[dict[str, Any]]:
    return table(judge_paid(batches(rows, **cut), given, task))


def entries(journal: Path) -> list[Entry]:
    return [e for path in list_files(str(journal)) for e in read_file(str(journal), path)]


def keys(requests: Iterable[Request]) -> set[str]:
    return {request_key(IDENTITY, request) for request in requests}


def in_journal(journal: Path, name: str, *verdicts: tuple[Request, float | None]) -> None:
    writer = JournalWriter(str(journal), name)
    for request, score in verdicts:
        verdict = Verdict(score, "earlier", attempts=1)
        writer.write(Entry.of(request_key(IDENTITY, request), "correctness", IDENTITY, verdict))
    writer.close()


# --- a free judge


def test_free_judge_scores_rows_without_a_journal() -> None:
    rows = [row(QUESTION, "42", reference_answer="42"), row("6x7", "41", reference_answer="42")]
    found = table(judge_free(batches(rows), settings(LexicalJudge())))
    # the variant is wrong and contradicts: 0.5 * 0 + 0.5 * (1 - 1)
    assert {r["score"] for r in found} == {0.0}
    assert {(r["role"], r["correctness"]) for r in found} == {("baseline", 1.0), ("variant", 0.0)}


def test_free_judge_is_asked_for_each_row_and_pair(judge: Recording) -> None:
    table(judge_free(batches(GROUP), settings(judge)))
    assert judge.asked == dict.fromkeys(GROUP_REQUESTS, 1)


def test_free_and_paid_judge_give_the_same_rows(judge: Recording, journal: Path) -> None:
    assert table(judge_free(batches(GROUP), settings(judge))) == paid(GROUP, settings(judge, journal))


# --- a paid judge


def test_every_request_is_paid_once_and_every_row_comes_back(judge: Recording, journal: Path) -> None:
    found = paid(GROUP, settings(judge, journal))
    assert judge.asked == dict.fromkeys(GROUP_REQUESTS, 1)
    assert {(r["row_high"], r["row_low"]) for r in found} == {(r["row_high"], r["row_low"]) for r in GROUP}
    assert {r["status"] for r in found} == {"scored"}


def test_result_has_the_columns_that_spark_is_told(judge: Recording, journal: Path) -> None:
    [batch] = judge_paid(batches(GROUP), settings(judge, journal), TASK)
    assert batch.schema.names == [name for name, _ in RESULT]


def test_verdicts_are_those_of_the_judge(judge: Recording, journal: Path) -> None:
    found = {r["row_high"]: r for r in paid(GROUP, settings(judge, journal))}
    expected = sha256(repr(GROUP_REQUESTS[2]).encode()).digest()[0] / 255
    assert found[GROUP[2]["row_high"]]["correctness"] == expected
    assert found[GROUP[2]["row_high"]]["correctness_reason"] == "recorded"


def test_journal_file_is_named_after_run_stage_task_and_attempt(judge: Recording, journal: Path) -> None:
    given = settings(judge, journal)
    paid(GROUP, given)
    assert [path.name for path in journal.iterdir()] == [f"{given.run}-all-3-8.jsonl"]
    assert {(e.key, e.judge, e.prompt_tokens) for e in entries(journal)} == {
        (key, IDENTITY, 7) for key in keys(GROUP_REQUESTS)
    }
    assert Counter(e.kind for e in entries(journal)) == {"correctness": 3, "robustness": 2}


def many_groups(count: int) -> list[Row]:
    """Groups of a baseline and two variants that need five calls each."""
    return [row(f"{q}-{v}", "a" if v else "b", original=f"{q}-0") for q in range(count) for v in range(3)]


def test_verdict_is_in_the_journal_before_it_is_used(
    judge: Recording, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_BATCH_ROWS", 15)
    rows = many_groups(100)
    asked = {
        r["row_high"]: request_key(IDENTITY, CorrectnessRequest(r["query"], r["sut_response"])) for r in rows
    }
    sizes = []
    for batch in judge_paid(batches(rows), settings(judge, journal), TASK):
        sizes.append(batch.num_rows)
        assert {asked[r["row_high"]] for r in batch.to_pylist()} <= {e.key for e in entries(journal)}
    assert sizes == [15] * 20


def test_journal_that_can_not_be_written_ends_the_task_before_a_verdict_is_used(
    judge: Recording, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(JournalWriter, "write", full)
    with pytest.raises(OSError, match="no space left"):
        paid(GROUP, settings(judge, journal))
    assert sum(judge.asked.values()) <= len(GROUP_REQUESTS)


def test_verdict_that_was_never_sent_is_not_in_the_journal(judge: Recording, journal: Path) -> None:
    late = {"limits": {"group_timeout_seconds": 1e-9}}
    found = paid(GROUP, settings(judge, journal, config=late))
    assert {r["unscored_reason"] for r in found} == {"group_timeout"}
    assert (judge.asked, entries(journal)) == ({}, [])


def test_call_that_got_no_turn_is_not_in_the_journal(journal: Path) -> None:
    def wait_in_vain(_: Request) -> None:
        raise GroupTimeoutError

    found = paid(GROUP, settings(Recording(wait_in_vain), journal))
    assert {r["unscored_reason"] for r in found} == {"group_timeout"}
    assert entries(journal) == []


def test_failed_verdict_is_in_the_journal_and_its_row_says_why(journal: Path) -> None:
    def fail(request: Request) -> None:
        if request == GROUP_REQUESTS[2]:
            raise ValueError("it answers 41")

    found = {r["row_high"]: r for r in paid(GROUP, settings(Recording(fail), journal))}
    broken = found[GROUP[2]["row_high"]]
    assert (broken["status"], broken["correctness"], broken["unscored_reason"]) == (
        "partial",
        None,
        "judge_error",
    )
    assert [e.key for e in entries(journal) if e.unscored_reason] == [
        request_key(IDENTITY, GROUP_REQUESTS[2])
    ]
    assert "41" not in str([e.reason for e in entries(journal)])


def test_retry_of_a_task_asks_only_for_what_its_earlier_attempt_lacks(
    judge: Recording, journal: Path
) -> None:
    given = settings(judge, journal)
    in_journal(journal, f"{given.run}-all-3-7", (GROUP_REQUESTS[0], 0.25), (GROUP_REQUESTS[3], 0.75))
    found = {r["row_high"]: r for r in paid(GROUP, given)}
    assert judge.asked == dict.fromkeys([GROUP_REQUESTS[n] for n in (1, 2, 4)], 1)
    assert found[GROUP[0]["row_high"]]["correctness"] == 0.25
    assert found[GROUP[1]["row_high"]]["robustness"] == 0.75


def test_retry_after_a_crash_sends_nothing_twice(journal: Path) -> None:
    class Crashed(BaseException):
        """Ends a task as a lost worker does."""

    def crash(request: Request) -> None:
        if request == GROUP_REQUESTS[4]:
            raise Crashed

    run = uuid.uuid4().hex[:12]
    first = Recording(crash)
    with pytest.raises(Crashed):
        paid(GROUP, settings(first, journal, run=run, config={"metric": {"sub_call_concurrency_limit": 1}}))
    second = Recording()
    worker_judge(settings(LexicalJudge()))  # another process would have no judge of the first attempt
    found = paid(GROUP, settings(second, journal, run=run), Task("all", 3, 9))
    answered = +first.asked - Counter([GROUP_REQUESTS[4]])
    assert second.asked == Counter(GROUP_REQUESTS) - answered
    assert {r["status"] for r in found} == {"scored"}


def test_other_tasks_and_stages_are_not_taken_for_an_earlier_attempt(judge: Recording, journal: Path) -> None:
    given = settings(judge, journal)
    for name in (f"{given.run}-all-31-7", f"{given.run}-shared-3-7", "other-all-3-7"):
        in_journal(journal, name, *((request, 0.5) for request in GROUP_REQUESTS))
    paid(GROUP, given)
    assert judge.asked == dict.fromkeys(GROUP_REQUESTS, 1)


def test_known_verdict_costs_nothing(judge: Recording, journal: Path) -> None:
    rows = [*GROUP, *(known(request_key(IDENTITY, request), 1.0) for request in GROUP_REQUESTS)]
    found = paid(rows, settings(judge, journal))
    assert (judge.asked, entries(journal)) == ({}, [])
    assert {(r["score"], r["correctness_reason"]) for r in found} == {(1.0, "as before")}
    assert {r["row_high"] for r in found} == {r["row_high"] for r in GROUP}


def test_known_failure_is_kept_and_not_asked_again(judge: Recording, journal: Path) -> None:
    rows = [*GROUP, known(request_key(IDENTITY, GROUP_REQUESTS[0]), None, "content_filter")]
    found = paid(rows, settings(judge, journal))
    assert GROUP_REQUESTS[0] not in judge.asked
    assert {(r["status"], r["unscored_reason"]) for r in found} == {("unscored", "content_filter")}


def test_only_what_is_marked_is_asked_where_something_is(judge: Recording, journal: Path) -> None:
    other = [row("Who?", "A", original="Who?"), row("Who is it?", "B", original="Who?")]
    paid([*GROUP, *other, ask(request_key(IDENTITY, GROUP_REQUESTS[1]))], settings(judge, journal))
    of_other = Counter({r: n for r, n in judge.asked.items() if r not in GROUP_REQUESTS})
    assert judge.asked - of_other == {GROUP_REQUESTS[1]: 1}
    assert sum(of_other.values()) == 3


def test_request_of_two_groups_is_paid_once(judge: Recording, journal: Path) -> None:
    systems = [
        {**r, "group_values": f'["{name}"]', "group_hash": n} for n, name in enumerate("ab") for r in GROUP
    ]
    rows = [{**r, "row_low": n} for n, r in enumerate(systems)]
    found = paid(rows, settings(judge, journal))
    assert judge.asked == dict.fromkeys(GROUP_REQUESTS, 1)
    assert len(found) == 6


def test_limits_of_calls_and_groups_are_the_configurations(journal: Path) -> None:
    lock, now, peak = threading.Lock(), Counter[str](), Counter[str]()
    full = threading.Barrier(6, timeout=30)

    def meet(request: Request) -> None:
        name = request[0].partition("-")[0]
        with lock:
            now.update(["all", name])
            for each in ("all", name):
                peak[each] = max(peak[each], now[each])
        full.wait()
        with lock:
            now.subtract(["all", name])

    config = {"limits": {"max_concurrency": 2}, "metric": {"sub_call_concurrency_limit": 3}}
    # 6 calls a group: 1 + 3 correctness, 2 robustness
    rows = [
        row(f"{q}-{v}", answer, original=f"{q}-0")
        for q in "abcd"
        for v, answer in enumerate(("x", "x", "y", "z"))
    ]
    paid(rows, settings(Recording(meet), journal, config=config))
    assert peak == {"all": 6, **dict.fromkeys("abcd", 3)}


# --- refusal


def test_refused_judge_stops_the_task_and_leaves_word(journal: Path) -> None:
    def refuse(_: Request) -> None:
        raise JudgeRefusedError("judge.token_env: 401")

    given = settings(Recording(refuse), journal)
    with pytest.raises(JudgeRefusedError, match="401"):
        paid(GROUP, given)
    assert read_stop(str(journal), given.run) == "judge.token_env: 401"


def test_call_in_flight_at_a_refusal_is_journalled_before_the_journal_is_closed(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, both, closing = itertools.count(), threading.Barrier(2, timeout=30), threading.Event()
    closed_last: list[bool] = []

    def work(_: Request) -> None:
        refuse = next(started) == 0
        both.wait()
        if refuse:
            raise JudgeRefusedError("judge.token_env: 401")
        assert closing.wait(30)

    def close_overlap(overlap: Any, close: Any = Overlap.close) -> None:
        closing.set()
        close(overlap)

    def close_writer(writer: Any, close: Any = JournalWriter.close) -> None:
        closed_last.append(closing.is_set())
        close(writer)

    monkeypatch.setattr(Overlap, "close", close_overlap)
    monkeypatch.setattr(JournalWriter, "close", close_writer)
    config = {"metric": {"sub_call_concurrency_limit": 2}}
    with pytest.raises(JudgeRefusedError):
        paid(GROUP, settings(Recording(work), journal, config=config))
    assert (closed_last, len(entries(journal))) == ([True], 1)


def test_task_of_a_stopped_run_asks_nothing(judge: Recording, journal: Path) -> None:
    given = settings(judge, journal)
    journal.mkdir()
    write_stop(str(journal), given.run, "judge.token_env: 401")
    with pytest.raises(JudgeRefusedError, match="401"):
        paid(GROUP, given)
    assert judge.asked == {}


def test_results_that_nobody_reads_stop_the_calls(
    judge: Recording, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_BATCH_ROWS", 15)
    made = judge_paid(batches(many_groups(200)), settings(judge, journal), TASK)
    assert next(made).num_rows == 15
    made.close()  # type: ignore[attr-defined]  # a generator
    asked = sum(judge.asked.values())
    assert asked < 1000
    assert len(entries(journal)) == asked


# --- replay


def test_replay_never_calls_and_says_what_the_journal_lacks(judge: Recording, journal: Path) -> None:
    given = settings(judge, journal, replay=True)
    rows = [*GROUP, *(known(request_key(IDENTITY, request), 1.0) for request in GROUP_REQUESTS[:4])]
    found = {r["row_high"]: r for r in paid(rows, given)}
    assert judge.asked == {}
    lacking = found[GROUP[2]["row_high"]]
    assert (lacking["correctness"], lacking["robustness"], lacking["unscored_reason"]) == (
        1.0,
        None,
        "not_in_journal",
    )
    assert {r["status"] for r in found.values()} == {"partial"}
    assert not journal.exists()


def test_replay_of_a_full_journal_gives_the_same_rows(judge: Recording, journal: Path) -> None:
    first = paid(GROUP, settings(judge, journal))
    verdicts = [{**known(e.key, e.score), "verdict_reason": e.reason} for e in entries(journal)]
    silent = Recording()
    assert paid([*GROUP, *verdicts], settings(silent, journal, replay=True)) == first
    assert silent.asked == {}


# --- the plan


def asks(rows: list[Row], given: WorkerSettings, **cut: Any) -> list[dict[str, Any]]:
    return [found for batch in list_asks(batches(rows, **cut), given) for found in batch.to_pylist()]


def facts(rows: list[Row], given: WorkerSettings) -> dict[str, int]:
    return {found["kind"]: found["amount"] for found in asks(rows, given) if found["key"] is None}


def test_plan_lists_each_request_of_a_unit_once_and_calls_nobody(judge: Recording) -> None:
    found = [r for r in asks(GROUP, settings(judge)) if r["key"]]
    assert list(found[0]) == [name for name, _ in ASKS]
    assert {r["key"] for r in found} == keys(GROUP_REQUESTS)
    assert len(found) == 5
    assert Counter(r["kind"] for r in found) == {"correctness": 3, "robustness": 2}
    assert {(r["unit_hash"], r["part"], r["amount"]) for r in found} == {(GROUP[0]["unit_hash"], -1, 1)}
    assert all(r["prompt_tokens"] > 0 for r in found)
    assert judge.asked == {}


def test_request_of_two_units_is_listed_for_each(judge: Recording) -> None:
    rows = [row(q, "1", original=o) for o in ("a", "b") for q in (o, "same")]
    found = [r for r in asks(rows, settings(judge)) if r["key"]]
    shared = request_key(IDENTITY, CorrectnessRequest("same", "1"))
    assert {r["unit_hash"] for r in found if r["key"] == shared} == {r["unit_hash"] for r in rows}


def test_plan_counts_what_needs_no_call_and_why(judge: Recording) -> None:
    rows = [
        row(QUESTION, "42", input_id="a"),
        row("6x7", "42"),  # identical answers
        row("7x6", " "),  # blank
        row("six*7", None),  # missing
        row(QUESTION, "43", input_id="z"),  # a repeat
        row(" ", "42"),  # excluded
    ]
    found = facts(rows, settings(judge))
    assert {name: n for name, n in found.items() if n} == {
        "group:to_judge": 1,
        "row:baseline": 1,
        "row:variant": 3,
        "row:repeat": 1,
        "row:excluded": 1,
        "reason:empty_prompt": 1,
        "reason:missing_response": 1,
        "no_call:The answers are identical.": 1,
        "no_call:The answer is blank.": 1,
        "no_call:An answer is blank.": 1,
        "no_call:missing_response": 2,
        "wanted": 2,
    }


def test_plan_counts_groups_by_what_becomes_of_them(judge: Recording) -> None:
    rows = [
        *GROUP,
        row("a", "1", original="a"),
        row("b2", "1", original="b"),
        row("c", "1", original="c"),
        row("c2", "2", original="c"),
    ]
    found = facts(rows, settings(judge))
    groups = {name: n for name, n in found.items() if name.startswith("group:") and n}
    assert groups == {
        "group:to_judge": 2,
        "group:no_variants": 1,
        "group:missing_baseline": 1,
        "group:one_variant": 1,
    }


def test_parts_of_a_group_are_not_counted_as_groups(judge: Recording) -> None:
    rows = [row("6x7", "41", part=0), baseline("42", part=0)]
    found = facts(rows, settings(judge))
    assert not [name for name in found if name.startswith("group:")]


def test_plan_of_nothing_is_nothing(judge: Recording) -> None:
    assert asks([], settings(judge)) == []


# --- many random tables


def random_rows(chance: random.Random) -> list[Row]:
    """Rows of few texts: duplicates, repeats, blanks, nulls, several systems, cut groups."""
    rows: list[Row] = []
    for question in range(chance.randint(1, 5)):
        original = f"question {question}"
        part: dict[str, Any] = {"part": chance.randrange(2)} if chance.random() < 0.2 else {}
        for system in range(chance.randint(1, 3)):
            place: dict[str, Any] = {"original": original, "group_values": f'["{system}"]', **part}
            rows += [random_row(chance, original, place) for _ in range(chance.randint(0, 8))]
            if part and chance.random() < 0.7:
                rows.append({**row(original, "a", **place), "tag": baseline("a", part=0)["tag"]})
    chance.shuffle(rows)
    return rows


def random_row(chance: random.Random, original: str, place: dict[str, Any]) -> Row:
    return row(
        chance.choice([original, original, original + " ", original.upper(), "else", "more", " ", None]),
        chance.choice(["a", "a", "b", "c", "", " ", None]),
        input_id=chance.choice(["1", "2"]),
        reference_answer=chance.choice([None, None, "", "r"]),
        task_type=chance.choice([None, None, None, "images"]),
        **place,
    )


@pytest.mark.parametrize("seed", range(40))
def test_plan_predicts_exactly_the_calls_that_are_paid(seed: int, journal: Path) -> None:
    chance = random.Random(seed)
    rows = random_rows(chance)
    config = {"judge": {"skip_identical_pairs": chance.random() < 0.5}, "metric": {"reference_answer": "f"}}
    judge = Recording()
    given = settings(judge, journal, config=config)
    planned = [r for r in asks(rows, given) if r["key"]]
    assert judge.asked == {}
    paid(rows, given)
    assert keys(judge.asked) == {r["key"] for r in planned}
    assert set(judge.asked.values()) <= {1}
    units = [(r["unit_hash"], r["part"], r["key"]) for r in planned]
    assert len(units) == len(set(units))


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_the_same_whatever_their_order_and_batches(seed: int, journal: Path) -> None:
    chance = random.Random(seed)
    rows = random_rows(chance)
    expected = paid(rows, settings(Recording(), journal / "first"))
    assert {(r["row_high"], r["row_low"]) for r in expected} == {
        (r["row_high"], r["row_low"]) for r in rows if r["tag"] == 3
    }
    chance.shuffle(rows)
    cuts = sorted(chance.randrange(len(rows) + 1) for _ in range(3))
    assert paid(rows, settings(Recording(), journal / "second"), cuts=cuts) == expected
    assert table(judge_free(batches(rows, cuts=cuts), settings(Recording()))) == expected


@pytest.mark.parametrize("seed", range(20))
def test_rerun_over_its_own_verdicts_gives_the_same_rows_without_a_call(seed: int, journal: Path) -> None:
    rows = random_rows(random.Random(seed))
    expected = paid(rows, settings(Recording(), journal))
    places = {(r["unit_hash"], r["part"]) for r in rows}
    found = [(place, e) for place in places for e in entries(journal)]
    verdicts = [
        {**known(e.key, e.score), "verdict_reason": e.reason, "unit_hash": unit, "part": part}
        for (unit, part), e in found
    ]
    again = Recording()
    assert paid([*rows, *verdicts], settings(again, journal / "again")) == expected
    assert again.asked == {}


# --- the judge of a worker


def test_judge_is_made_once_a_run_in_a_process(judge: Recording) -> None:
    made: list[Judge] = []

    def maker() -> Judge:
        made.append(judge)
        return judge

    given = settings(judge, maker=maker)
    assert worker_judge(given)[0] is worker_judge(given)[0]
    worker_judge(settings(judge, maker=maker))
    assert len(made) == 2


def test_users_judge_is_held_to_the_limits_of_the_executor(judge: Recording) -> None:
    held, gate = worker_judge(settings(judge))
    assert isinstance(held, GuardedJudge)
    assert isinstance(gate, ExecutorLimits)
    assert held._gate is gate


def test_free_judge_of_a_user_has_no_limits_and_still_can_not_crash_a_job() -> None:
    class Free(Recording):
        free = True

    def fail(_: Request) -> None:
        raise ValueError

    held, _ = worker_judge(settings(Free(fail)))
    assert isinstance(held, FreeGuardedJudge)
    found = table(judge_free(batches(GROUP), settings(Free(fail))))
    assert {r["unscored_reason"] for r in found} == {"judge_error"}


def test_embedded_judge_is_used_as_it_is() -> None:
    assert isinstance(worker_judge(settings(LexicalJudge(), maker=None))[0], LexicalJudge)
