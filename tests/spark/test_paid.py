"""Judging through an endpoint: what is planned is sent, nothing is paid twice, nothing is lost. A stub counts."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import prspark
from prspark import api
from prspark.data import sample_path
from prspark.engine import stream
from prspark.engine.journal import list_files, read_file
from prspark.errors import BudgetError, JudgeStoppedError
from tests.support.stub_endpoint import StubEndpoint

SCORE, DETAILS = "perturbation_robustness_external", "perturbation_robustness_external_details"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def running() -> Iterator[StubEndpoint]:
    with StubEndpoint(latency=0.01) as started:
        yield started


@pytest.fixture
def stub(running: StubEndpoint) -> StubEndpoint:
    running.configure(p429=0.0, p500=0.0, p_reset=0.0, retry_after=1)
    running.reset()
    return running


def config(stub: StubEndpoint, **tables: Any) -> dict[str, Any]:
    judge = {"kind": "chat", "base_url": stub.url, "model": "stub", "preflight": False}
    return {"judge": judge | tables.pop("judge", {}), **tables}


def answer(
    name: str, query: str | None, response: str | None, original: str, **metadata: str
) -> dict[str, Any]:
    return {
        "input_id": name,
        "prompt": query,
        "sut_response": response,
        "metadata": {"original_query": original, **metadata},
    }


def group(name: str, variants: int) -> Rows:
    rows = [answer(f"{name}-base", f"{name}?", f"{name} is right.", f"{name}?")]
    return rows + [
        answer(f"{name}-{i}", f"{name}, wording {i}?", f"{name} says {i}.", f"{name}?")
        for i in range(variants)
    ]


SCHEMA = (
    "input_id string, prompt string, sut_response string, "
    "metadata struct<original_query:string,model:string,perturbation_type:string>"
)


def frame(spark: SparkSession, rows: Rows) -> DataFrame:
    return (
        spark.createDataFrame([json.dumps(row) for row in rows], "string")
        .selectExpr(f"from_json(value, '{SCHEMA}') AS row")
        .select("row.*")
    )


def found(df: DataFrame) -> dict[str, Any]:
    return {row["input_id"]: (row[SCORE], row[DETAILS].asDict()) for row in df.collect()}


def numbers(df: DataFrame) -> dict[str, Any]:
    return {
        name: (score, d["correctness"], d["robustness"], d["status"])
        for name, (score, d) in found(df).items()
    }


# Each shape with the number of calls that it needs, worked out by hand: a call a distinct answered question,
# and one a pair whose two answers are two texts.
SHAPES: dict[str, tuple[Rows, int]] = {
    "two plain groups": (group("a", 2) + group("b", 3), (3 + 2) + (4 + 3)),
    "the same question and answers of two systems": (
        [
            answer(f"{m}{i}", q, a, "q", model=m)
            for m in ("x", "y")
            for i, q, a in ((0, "q", "1"), (1, "r", "2"))
        ],
        2 + 1,
    ),
    "a variant that two groups share": (
        [
            answer("1", "q", "1", "q"),
            answer("2", "same", "2", "q"),
            answer("3", "p", "3", "p"),
            answer("4", "same", "2", "p"),
        ],
        # q, p and the shared variant; the two pairs differ, because the baselines do
        3 + 2,
    ),
    "blank, null, identical and repeated answers": (
        [
            answer("1", "q", "1", "q"),
            answer("2", "q", "9", "q"),  # a repeat: no call
            answer("3", "r", " ", "q"),  # blank: no call
            answer("4", "s", None, "q"),  # null: no call
            answer("5", "t", "1", "q"),  # identical: correctness alone
            answer("6", "u", "2", "q"),  # both
            answer("6", "u", "2", "q"),  # a copy: no call
        ],
        1 + 1 + 2,
    ),
    "no baseline, no variant, no original query": (
        [
            answer("1", "x", "1", "q"),
            answer("2", "y", "1", "q"),
            answer("3", "p", "1", "p"),
            {**answer("4", "z", "1", ""), "metadata": {}},
        ],
        0,
    ),
    "a huge group": (group("huge", 150), 151 + 150),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_calls_sent_are_the_calls_planned(
    spark: SparkSession, stub: StubEndpoint, shape: str, tmp_path: Path
) -> None:
    rows, calls = SHAPES[shape]
    settings = config(stub, columns={"group_by": ["metadata.model"]})
    planned = prspark.plan(frame(spark, rows), settings)
    assert stub.stats()["requests"] == 0
    assert planned.calls["total"] == calls
    scored = prspark.score(frame(spark, rows), settings, journal=str(tmp_path / "journal"), progress=False)
    assert stub.stats()["requests"] == calls
    assert stub.stats()["distinct"] == calls
    assert scored.count() == len(rows)


def test_huge_group_scores_as_if_it_were_whole(
    spark: SparkSession, stub: StubEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = group("huge", 150) + group("small", 2)
    cut = numbers(prspark.score(frame(spark, rows), config(stub), progress=False))
    monkeypatch.setattr(stream, "PAID_CUT", stream.Cut(rows=10_000, part_rows=10_000))
    assert numbers(prspark.score(frame(spark, rows), config(stub), progress=False)) == cut
    assert len(cut) == 154
    assert {status for *_, status in cut.values()} == {"scored"}


def test_same_command_again_asks_nothing_and_says_the_same(
    spark: SparkSession, stub: StubEndpoint, tmp_path: Path
) -> None:
    df, journal = spark.read.json(sample_path().as_uri()), str(tmp_path / "journal")
    settings = config(stub, columns={"group_by": ["metadata.model"]})
    first = found(prspark.score(df, settings, journal=journal, progress=False))
    sent = stub.stats()["requests"]
    assert sent == 225
    again = found(prspark.score(df, settings, journal=journal, progress=False))
    assert again == first
    lower = config(stub, columns={"group_by": ["metadata.model"]}, scoring={"min_coverage": 0.1})
    assert found(prspark.score(df, lower, journal=journal, progress=False)) == first
    assert found(prspark.score(df, settings, journal=journal, replay=True, progress=False)) == first
    assert stub.stats()["requests"] == sent


def test_new_rows_pay_for_themselves_alone(spark: SparkSession, stub: StubEndpoint, tmp_path: Path) -> None:
    journal = str(tmp_path / "journal")
    prspark.score(frame(spark, group("a", 2)), config(stub), journal=journal, progress=False)
    stub.reset()
    scored = prspark.score(frame(spark, group("a", 3)), config(stub), journal=journal, progress=False)
    assert stub.stats()["requests"] == 2
    assert {status for *_, status in numbers(scored).values()} == {"scored"}


def test_another_model_is_another_verdict_and_the_plan_says_so(
    spark: SparkSession, stub: StubEndpoint, tmp_path: Path
) -> None:
    journal, df = str(tmp_path / "journal"), frame(spark, group("a", 2))
    prspark.score(df, config(stub), journal=journal, progress=False)
    same = prspark.plan(df, config(stub), journal=journal)
    other = prspark.plan(df, config(stub, judge={"temperature": 0.5}), journal=journal)
    assert (same.calls["total"], same.in_journal) == (0, 5)
    assert (other.calls["total"], other.in_journal) == (5, 0)


def test_replay_leaves_unscored_what_the_journal_lacks(
    spark: SparkSession, stub: StubEndpoint, tmp_path: Path
) -> None:
    journal = str(tmp_path / "journal")
    prspark.score(frame(spark, group("a", 2)), config(stub), journal=journal, progress=False)
    stub.reset()
    rows = frame(spark, group("a", 2) + group("b", 2))
    replayed = found(prspark.score(rows, config(stub), journal=journal, replay=True, progress=False))
    assert stub.stats()["requests"] == 0
    assert replayed["a-0"][1]["status"] == "scored"
    assert replayed["b-0"][0] is None
    assert replayed["b-0"][1]["unscored_reason"] == "not_in_journal"


def test_failed_verdicts_are_asked_again_only_on_demand(
    spark: SparkSession, stub: StubEndpoint, tmp_path: Path
) -> None:
    journal, df = str(tmp_path / "journal"), frame(spark, group("a", 2))
    limits = {"limits": {"max_attempts": 1, "max_failures_in_a_row": 0}}
    stub.configure(p500=1.0)
    failed = found(prspark.score(df, config(stub, **limits), journal=journal, progress=False))
    assert {d["unscored_reason"] for _, d in failed.values()} == {"endpoint_error"}
    assert {score for score, _ in failed.values()} == {None}
    stub.configure(p500=0.0)
    stub.reset()
    prspark.score(df, config(stub, **limits), journal=journal, progress=False)
    assert stub.stats()["requests"] == 0
    retried = prspark.score(df, config(stub, **limits), journal=journal, retry_unscored=True, progress=False)
    assert stub.stats()["requests"] == 5
    assert {status for *_, status in numbers(retried).values()} == {"scored"}


def test_a_budget_refuses_before_anything_is_sent(spark: SparkSession, stub: StubEndpoint) -> None:
    df = frame(spark, group("a", 2))
    with pytest.raises(BudgetError, match=r"needs 5 judge calls and limits\.max_calls allows 4"):
        prspark.score(df, config(stub, limits={"max_calls": 4}), progress=False)
    priced = {"judge": {"prompt_price": 1000.0}, "limits": {"max_cost": 0.01}}
    with pytest.raises(BudgetError, match=r"limits\.max_cost"):
        prspark.score(df, config(stub, **priced), progress=False)
    assert stub.stats()["requests"] == 0


def test_a_storm_of_failures_stops_the_run_and_keeps_what_was_paid(
    spark: SparkSession, stub: StubEndpoint, tmp_path: Path
) -> None:
    journal, df = (
        str(tmp_path / "journal"),
        frame(spark, [row for i in range(40) for row in group(f"g{i}", 4)]),
    )
    limits = {"max_attempts": 1, "max_failures_in_a_row": 20}
    stub.configure(p500=1.0)
    with pytest.raises(JudgeStoppedError, match="in a row") as stopped:
        prspark.score(df, config(stub, limits=limits), journal=journal, progress=False)
    assert "\n" not in str(stopped.value)
    assert stub.stats()["requests"] < 160  # of 360: those in flight when the count was reached, no more
    entries = [entry for path in list_files(journal) for entry in read_file(journal, path)]
    assert 19 <= len(entries) <= stub.stats()["requests"]


def test_faults_of_the_endpoint_change_no_score_and_cost_no_second_verdict(
    spark: SparkSession, stub: StubEndpoint
) -> None:
    df = frame(spark, [row for i in range(6) for row in group(f"g{i}", 3)])
    calm = numbers(prspark.score(df, config(stub), progress=False))
    stub.reset()
    stub.configure(p429=0.15, retry_after=0, p500=0.10, p_reset=0.05)
    stormy = numbers(prspark.score(df, config(stub, limits={"max_attempts": 30}), progress=False))
    assert stormy == calm
    assert stub.stats()["duplicates"] == 0
    assert stub.stats()["paid"] == 6 * 7


def test_two_actions_over_the_result_call_the_judge_once(spark: SparkSession, stub: StubEndpoint) -> None:
    scored = prspark.score(frame(spark, group("a", 2)), config(stub), progress=False)
    sent = stub.stats()["requests"]
    assert scored.count() == 3
    assert scored.where(f"{SCORE} >= 0").join(scored.select("input_id"), "input_id").count() == 3
    assert stub.stats()["requests"] == sent == 5


def test_summary_counts_where_verdicts_came_from_and_names_the_journal(
    spark: SparkSession, stub: StubEndpoint, tmp_path: Path
) -> None:
    journal = str(tmp_path / "journal")
    prspark.score(frame(spark, group("a", 2)), config(stub), journal=journal, progress=False)
    rows = frame(spark, [*group("a", 2), *group("b", 1), answer("blank", "b!", " ", "b?")])
    priced = config(stub, judge={"prompt_price": 1.0, "completion_price": 2.0})
    summary = api.run_scoring(rows, priced, journal=journal, progress=False).summary
    assert summary.verdicts == {"sent": 3, "journal": 5, "deduplicated": 0, "no_call": 2}
    assert (summary.rows, summary.groups, summary.sends, summary.failed) == (6, {"scored": 2}, 3, {})
    entries = [entry for path in list_files(journal) for entry in read_file(journal, path)]
    own = [entry for path in list_files(journal, f"{summary.run}-") for entry in read_file(journal, path)]
    prompt, completion = sum(e.prompt_tokens for e in own), sum(e.completion_tokens for e in own)
    assert summary.tokens == {"prompt": prompt, "completion": completion}
    assert summary.cost == pytest.approx((prompt * 1.0 + completion * 2.0) / 1_000_000)
    keys = "".join(f"{key}\n" for key in sorted({entry.key for entry in entries}))
    assert summary.journal_keys_sha256 == hashlib.sha256(keys.encode()).hexdigest()


def test_every_order_and_cut_of_the_input_gives_the_same_bits(
    spark: SparkSession, stub: StubEndpoint
) -> None:
    rows = [row for i in range(5) for row in group(f"g{i}", 3)]
    expected = found(prspark.score(frame(spark, rows), config(stub), progress=False))
    for seed, parts in ((1, 1), (2, 3), (3, 7)):
        shuffled = (
            frame(spark, rows)
            .selectExpr("*", f"hash(input_id, {seed}) AS place")
            .orderBy("place")
            .drop("place")
            .repartition(parts)
        )
        assert found(prspark.score(shuffled, config(stub), progress=False)) == expected
