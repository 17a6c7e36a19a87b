"""A user's own judge is held to the rules: it can't break the limits, the scale or the job."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from prspark.engine.journal import Entry, read_lines
from prspark.judges.guarded import GuardedJudge
from prspark.judges.limits import GroupTimeoutError, OpenGate
from prspark.judges.protocol import (
    CorrectnessRequest,
    JudgeRefusedError,
    RobustnessRequest,
    Verdict,
    keep_verdict,
)
from prspark.metric.reasons import UnscoredReason

CORRECT = CorrectnessRequest("q", "a")
PAIR = RobustnessRequest("q", "a", "v", "b")


class Users:
    """A judge that answers both questions with what it is given."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        assert request == CORRECT
        return self._answer()  # type: ignore[no-any-return]  # what a user's judge returns is anything

    def robustness(self, request: RobustnessRequest) -> Verdict:
        assert request == PAIR
        return self._answer()  # type: ignore[no-any-return]


class Gate(OpenGate):
    """An open gate that knows how often it was passed and told of a success."""

    passed = successes = 0

    @contextmanager
    def call(self, *, tokens: int = 0) -> Iterator[None]:
        self.passed += 1
        with super().call(tokens=tokens):
            yield

    def succeeded(self) -> None:
        self.successes += 1


def guarded(answer: Callable[[], Any], gate: OpenGate | None = None) -> Verdict:
    """What comes of a judge's answer; the same of either question."""
    judge = GuardedJudge(Users(answer), gate or OpenGate())
    first, second = judge.correctness(CORRECT), judge.robustness(PAIR)
    assert first._replace(latency_seconds=0) == second._replace(latency_seconds=0)
    return first


def returns(verdict: Any) -> Verdict:
    return guarded(lambda: verdict)


def raises(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


@pytest.mark.parametrize("score", [0.0, 0.25, 1.0])
def test_score_in_range_is_kept_with_all_that_comes_with_it(score: float) -> None:
    verdict = Verdict(score, "because", None, 2, 10, 20, 1.5, 1)
    assert returns(verdict) == verdict


@pytest.mark.parametrize("score", [-0.01, 1.01, 9, math.nan, math.inf, -math.inf])
def test_score_out_of_range_is_unscored_and_never_clamped(score: float) -> None:
    found = returns(Verdict(score, "because"))
    assert (found.score, found.unscored_reason) == (None, "score_out_of_range")


def test_scored_verdict_has_no_reason_to_be_unscored() -> None:
    assert returns(Verdict(0.5, None, UnscoredReason.TIMEOUT)).unscored_reason is None


def test_unscored_verdict_keeps_its_reason_or_gets_one() -> None:
    assert returns(Verdict(None, None, UnscoredReason.CONTENT_FILTER)).unscored_reason == "content_filter"
    assert returns(Verdict(None)).unscored_reason == "judge_error"


@pytest.mark.parametrize(
    "error", [ValueError("the answer is 42"), KeyError("x"), RecursionError(), OSError()]
)
def test_what_a_judge_raises_is_unscored_and_its_text_is_not_kept(error: Exception) -> None:
    found = guarded(raises(error))
    assert (found.score, found.reason, found.unscored_reason, found.attempts) == (
        None,
        None,
        "judge_error",
        1,
    )


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        0.5,
        "0.5",
        (0.5, "because"),
        Verdict("0.5"),  # type: ignore[arg-type]
        Verdict(0.5, attempts=None),  # type: ignore[arg-type]
        Verdict(None, None, "bad_mood"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_verdict_is_unscored(verdict: Any) -> None:
    found = returns(verdict)
    assert (found.score, found.unscored_reason) == (None, "judge_error")


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(np.float32(0.5), "numpy", None, np.int64(1), np.int64(3), np.int32(4), np.float32(0.5)),  # type: ignore[arg-type]
        Verdict(0.5, 17),  # type: ignore[arg-type]
        Verdict(0.5, "half of a pair: \ud800"),
        Verdict(None, ["a", "list"], "timeout"),  # type: ignore[arg-type]
    ],
)
def test_verdict_of_odd_types_fits_the_journal_and_arrow(verdict: Verdict) -> None:
    found = returns(verdict)
    line = json.dumps(Entry.of("k", "correctness", "j", found)._asdict()).encode()
    [entry] = read_lines([line])
    assert entry.verdict._replace(latency_seconds=0) == found._replace(latency_seconds=0)
    pa.array([found.reason], pa.string())
    pa.array([found.score], pa.float64())


def test_refusal_stops_the_job_as_a_built_in_judges_does() -> None:
    with pytest.raises(JudgeRefusedError, match="wrong token"):
        guarded(raises(JudgeRefusedError("wrong token")))


def test_end_of_the_process_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        guarded(raises(KeyboardInterrupt()))


def test_call_goes_through_the_gate_and_counts_as_in_flight() -> None:
    gate, seen = Gate(), []

    def answer() -> Verdict:
        seen.append(gate.in_flight())
        return Verdict(1.0)

    guarded(answer, gate)
    assert (gate.passed, seen, gate.in_flight()) == (2, [1, 1], 0)


def test_gate_is_left_after_an_error() -> None:
    gate = Gate()
    guarded(raises(ValueError()), gate)
    assert (gate.passed, gate.in_flight()) == (2, 0)


def test_gate_is_told_of_scores_only() -> None:
    gate = Gate()
    guarded(lambda: Verdict(None), gate)
    guarded(lambda: Verdict(7.0), gate)
    assert gate.successes == 0
    guarded(lambda: Verdict(0.0), gate)
    assert gate.successes == 2


def test_call_that_waits_too_long_for_its_turn_is_never_sent() -> None:
    class ShutGate(OpenGate):
        @contextmanager
        def call(self, **_: int) -> Iterator[None]:
            raise GroupTimeoutError
            yield

    assert guarded(raises(AssertionError("sent")), ShutGate()) == Verdict(
        None, None, UnscoredReason.GROUP_TIMEOUT
    )


def test_one_call_is_one_attempt_unless_the_judge_says_more() -> None:
    assert (returns(Verdict(1.0)).attempts, returns(Verdict(1.0, attempts=3)).attempts) == (1, 3)


def test_latency_is_the_judges_or_else_measured() -> None:
    assert returns(Verdict(1.0, latency_seconds=2.5)).latency_seconds == 2.5
    before = time.monotonic()
    assert 0 < returns(Verdict(1.0)).latency_seconds <= time.monotonic() - before


def test_verdict_is_kept_before_the_next_call_may_go() -> None:
    gate, kept = OpenGate(), []
    before = keep_verdict.set(lambda verdict: kept.append((verdict.attempts, gate.in_flight())))
    try:
        GuardedJudge(Users(lambda: Verdict(0.5)), gate).correctness(CORRECT)
    finally:
        keep_verdict.reset(before)
    assert kept == [(1, 1)]
