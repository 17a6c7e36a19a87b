"""What a worker lists and asks to calibrate a judge, on hand-made rows."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prspark.engine.calibrating import (
    ASKED,
    CORRECTNESS,
    ITEMS,
    PAIR,
    SWAPPED,
    Extent,
    ask_requests,
    identity_of,
    list_items,
)
from prspark.engine.config import make_config
from prspark.engine.groups import ROW, STREAM
from prspark.engine.journal import list_files, read_file, read_stop, write_stop
from prspark.engine.judging import Task, WorkerSettings, rules_of
from prspark.judges.protocol import CorrectnessRequest, JudgeRefusedError, RobustnessRequest, Verdict

TASK = Task("labelled", 0, 0)
HELLO = {
    "original_query": "2+2?",
    "input_id": "a",
    "query": "2+2?",
    "sut_response": "4",
    "reference_answer": "4",
}
OTHER = {"original_query": "2+2?", "input_id": "b", "query": "two and two?", "sut_response": "5"}


class Counting:
    """Says 1.0 of correctness and 0.5 of a pair, and counts what it is asked."""

    identity = "counting"

    def __init__(self) -> None:
        self.asked: Counter[Any] = Counter()

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        self.asked[request] += 1
        return Verdict(1.0, "right")

    def robustness(self, request: RobustnessRequest) -> Verdict:
        self.asked[request] += 1
        return Verdict(0.5, "half")


class Refusing(Counting):
    def correctness(self, request: CorrectnessRequest) -> Verdict:  # noqa: ARG002  a judge's signature
        raise JudgeRefusedError("judge.token_env: wrong token")


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> WorkerSettings:
    config = make_config({})
    judge = Counting()
    return WorkerSettings(
        config=config,
        rules=rules_of(config, numeric_ids=False),
        identity="counting",
        run=hashlib.sha256(request.node.name.encode()).hexdigest()[:12],
        journal=str(tmp_path / "journal"),
        maker=lambda: judge,
    )


def stream_of(rows: Iterable[dict[str, Any]]) -> list[pa.RecordBatch]:
    """Rows of one unit and group, as Spark would send them: numbered, sorted."""
    fixed = {"unit_hash": 1, "part": -1, "tag": ROW, "group_hash": 1, "row_high": 0}
    full = [{**dict.fromkeys(STREAM), **fixed, "row_low": at, **row} for at, row in enumerate(rows)]
    numbers = {name: pa.int64() for name in (*fixed, "row_low")} | {"verdict_score": pa.float64()}
    arrays = [pa.array([row[name] for row in full], numbers.get(name, pa.string())) for name in STREAM]
    return [pa.RecordBatch.from_arrays(arrays, names=list(STREAM))]


def items_of(
    rows: Iterable[dict[str, Any]],
    settings: WorkerSettings,
    extent: Extent = Extent(),  # noqa: B008  immutable
) -> list[dict[str, Any]]:
    return [item for batch in list_items(stream_of(rows), settings, extent) for item in batch.to_pylist()]


def ask(
    items: Iterable[dict[str, Any]], settings: WorkerSettings, *, task: Task = TASK, free: bool = False
) -> dict[str, float | None]:
    """Ask each distinct request, as Spark sends them, and return the score of each key."""
    distinct = {item["key"]: item for item in items if item["key"]}.values()
    arrays = [pa.array([item[name] for item in distinct], pa.string()) for name in ASKED]
    batches = [pa.RecordBatch.from_arrays(arrays, names=list(ASKED))]
    found = ask_requests(batches, settings, task, free=free)
    return {row["verdict_key"]: row["verdict_score"] for batch in found for row in batch.to_pylist()}


def asked_of(settings: WorkerSettings) -> Counter[Any]:
    assert settings.maker is not None
    judge = settings.maker()
    assert isinstance(judge, Counting)
    return judge.asked


def journal_of(settings: WorkerSettings) -> list[str]:
    paths = list_files(settings.journal)
    return [entry.key for path in paths for entry in read_file(settings.journal, path)]


def test_each_row_of_a_group_that_can_not_be_scored_is_asked(settings: WorkerSettings) -> None:
    rows = [{**OTHER, "input_id": f"{n}", "query": f"two and {n}?"} for n in range(3)]  # no baseline

    found = items_of(rows, settings)

    assert [item["row_low"] for item in found if item["key"]] == [0, 1, 2]
    assert {item["measure"] for item in found} == {CORRECTNESS}


def test_an_item_has_the_key_and_the_request_that_scoring_would_send(settings: WorkerSettings) -> None:
    (item,) = items_of([HELLO], settings)

    texts = ["2+2?", "4", "4", None, []]  # question, answer, reference, context, history
    key = hashlib.sha256(json.dumps(["correctness", "counting", *texts]).encode()).hexdigest()
    assert (item["key"], json.loads(item["request"])) == (key, texts)
    assert item["prompt_tokens"] > 0


def test_repeats_ask_the_same_under_keys_of_their_own(settings: WorkerSettings) -> None:
    found = items_of([HELLO], settings, Extent(repeat=3))

    assert [item["repeat"] for item in found] == [0, 1, 2]
    assert len({item["key"] for item in found}) == 3
    assert len({item["request"] for item in found}) == 1
    assert identity_of("judge", 0) == "judge"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sut_response": None}, "missing_response"),
        ({"query": " "}, "empty_prompt"),
        ({"task_type": "image"}, "unsupported_task_type"),
    ],
)
def test_a_row_that_can_not_be_judged_is_unscored_and_says_why(
    change: dict[str, Any], reason: str, settings: WorkerSettings
) -> None:
    (item,) = items_of([{**HELLO, **change}], settings)

    assert (item["key"], item["score"], item["unscored_reason"]) == (None, None, reason)


def test_a_blank_answer_is_wrong_without_a_call(settings: WorkerSettings) -> None:
    (item,) = items_of([{**HELLO, "sut_response": " "}], settings)

    assert (item["key"], item["score"], item["unscored_reason"]) == (None, 0.0, None)


def test_a_pair_is_asked_in_both_orders(settings: WorkerSettings) -> None:
    found = items_of([HELLO, OTHER], settings, Extent(order_swap=True))

    pairs = {item["measure"]: json.loads(item["request"]) for item in found if item["measure"] != CORRECTNESS}
    assert pairs == {
        PAIR: ["2+2?", "4", "two and two?", "5"],
        SWAPPED: ["two and two?", "5", "2+2?", "4"],
    }


def test_pairs_are_not_asked_unless_wanted(settings: WorkerSettings) -> None:
    assert {item["measure"] for item in items_of([HELLO, OTHER], settings)} == {CORRECTNESS}


def test_identical_answers_need_no_call_in_either_order(settings: WorkerSettings) -> None:
    found = items_of([HELLO, {**OTHER, "sut_response": "4"}], settings, Extent(order_swap=True))

    assert {item["measure"] for item in found} == {CORRECTNESS}


def test_rows_without_an_original_query_are_asked_too(settings: WorkerSettings) -> None:
    found = items_of([{**HELLO, "original_query": None}], settings, Extent(order_swap=True))

    assert [item["measure"] for item in found if item["key"]] == [CORRECTNESS]


def test_history_reaches_the_judge_as_it_was(settings: WorkerSettings) -> None:
    messages = [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": "What?"},
        {"role": "user", "content": "2+2?"},
    ]
    row = {**HELLO, "query": None, "prompt": json.dumps(messages)}

    ask(items_of([row], settings), settings)

    (request,) = asked_of(settings)
    assert request.question == "2+2?"
    assert request.history == (("user", "Add."), ("assistant", "What?"))
    assert request.history[0].text == "Add."


def test_awkward_text_reaches_the_judge_unchanged(settings: WorkerSettings) -> None:
    row = {**HELLO, "sut_response": 'NUL \x00, $5, {braces}, "quotes", line\u2028separator'}

    ask(items_of([row], settings), settings)

    (request,) = asked_of(settings)
    assert request.answer == row["sut_response"]


def test_every_verdict_is_in_the_journal(settings: WorkerSettings) -> None:
    items = items_of([HELLO, OTHER], settings, Extent(order_swap=True))

    scores = ask(items, settings)

    assert sorted(journal_of(settings)) == sorted(scores)
    assert sorted(scores.values()) == [0.5, 0.5, 1.0, 1.0]


def test_a_task_that_is_run_again_asks_nothing_that_its_earlier_attempt_paid(
    settings: WorkerSettings,
) -> None:
    items = items_of([HELLO, OTHER], settings)
    first = ask(items[:1], settings)

    both = ask(items, settings, task=TASK._replace(attempt=1))

    assert set(first) < set(both)
    assert list(asked_of(settings).values()) == [1, 1]


def test_more_requests_than_fit_a_group_are_each_asked_once(settings: WorkerSettings) -> None:
    rows = [{**OTHER, "query": f"question {n}", "input_id": f"{n}"} for n in range(205)]

    scores = ask(items_of(rows, settings), settings)

    assert len(scores) == 205
    assert set(asked_of(settings).values()) == {1}


def test_a_free_judge_needs_no_journal(settings: WorkerSettings) -> None:
    scores = ask(items_of([HELLO], settings), settings, free=True)

    assert list(scores.values()) == [1.0]
    assert not Path(settings.journal).exists()


def test_a_judge_that_refuses_everything_stops_the_run_and_later_tasks(settings: WorkerSettings) -> None:
    refusing = settings._replace(maker=Refusing)
    items = items_of([HELLO], settings)

    with pytest.raises(JudgeRefusedError, match="token_env"):
        ask(items, refusing)

    assert read_stop(settings.journal, settings.run) == "judge.token_env: wrong token"


def test_a_stopped_run_asks_nothing_more(settings: WorkerSettings) -> None:
    Path(settings.journal).mkdir()
    write_stop(settings.journal, settings.run, "quota used up")

    with pytest.raises(JudgeRefusedError, match="quota used up"):
        ask(items_of([HELLO], settings), settings)

    assert not asked_of(settings)


def test_items_have_the_stated_columns(settings: WorkerSettings) -> None:
    (batch,) = list_items(stream_of([HELLO]), settings, Extent())

    assert batch.schema.names == [name for name, _ in ITEMS]
