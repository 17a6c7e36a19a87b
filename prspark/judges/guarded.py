"""Holds a user's own judge to the rules of the built-in ones: limits, scores in 0..1, no crash of the job."""

import math
import time
from collections.abc import Callable
from typing import TypeVar

from prspark.judges.limits import Gate, GroupTimeoutError
from prspark.judges.protocol import (
    CorrectnessRequest,
    Judge,
    JudgeRefusedError,
    RobustnessRequest,
    Verdict,
    keep,
)
from prspark.metric.reasons import UnscoredReason

Request = TypeVar("Request", CorrectnessRequest, RobustnessRequest)


class FreeGuardedJudge:
    """Calls a user's judge whose calls cost nothing; what it raises becomes `judge_error`, unscored.

    A `JudgeRefusedError` of it stops the job, as it does for a built-in judge.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        """Ask the user's judge."""
        return _checked(self._judge.correctness, request)

    def robustness(self, request: RobustnessRequest) -> Verdict:
        """Ask the user's judge."""
        return _checked(self._judge.robustness, request)


class GuardedJudge:
    """The same within the executor's limits; one call is one attempt."""

    def __init__(self, judge: Judge, gate: Gate) -> None:
        self._judge = judge
        self._gate = gate

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        """Ask the user's judge when its limits allow."""
        return self._call(self._judge.correctness, request)

    def robustness(self, request: RobustnessRequest) -> Verdict:
        """Ask the user's judge when its limits allow."""
        return self._call(self._judge.robustness, request)

    def _call(self, ask: Callable[[Request], Verdict], request: Request) -> Verdict:
        try:
            with self._gate.call():
                started = time.monotonic()
                verdict = _checked(lambda asked: _counted(ask(asked)), request)
                verdict = verdict._replace(
                    attempts=max(1, verdict.attempts),
                    latency_seconds=verdict.latency_seconds or time.monotonic() - started,
                )
                keep(verdict)
        except GroupTimeoutError:
            return Verdict(None, None, UnscoredReason.GROUP_TIMEOUT)
        if verdict.score is not None:
            self._gate.succeeded()
        return verdict


def _counted(verdict: Verdict) -> Verdict:
    """Give a verdict plain amounts: the journal takes no other."""
    return verdict._replace(
        attempts=int(verdict.attempts),
        prompt_tokens=int(verdict.prompt_tokens),
        completion_tokens=int(verdict.completion_tokens),
        latency_seconds=float(verdict.latency_seconds),
        throttled=int(verdict.throttled),
    )


def _checked(ask: Callable[[Request], Verdict], request: Request) -> Verdict:
    try:
        verdict = ask(request)
        return verdict if _is_plain(verdict) else _made_plain(verdict)
    except (JudgeRefusedError, GroupTimeoutError):
        raise
    except Exception:  # noqa: BLE001  a user's judge may raise anything, and its text may hold judged text
        return Verdict(None, None, UnscoredReason.JUDGE_ERROR)


def _is_plain(verdict: Verdict) -> bool:
    """Whether a scored verdict may go on as it is: the common case, and a free judge makes millions."""
    score, reason = verdict.score, verdict.reason
    return (
        type(score) is float
        and 0.0 <= score <= 1.0
        and verdict.unscored_reason is None
        and (reason is None or (type(reason) is str and reason.isascii()))
    )


def _made_plain(verdict: Verdict) -> Verdict:
    score = verdict.score
    if verdict.reason is not None:
        verdict = verdict._replace(reason=_encodable(str(verdict.reason)))
    if score is None:
        reason = UnscoredReason(verdict.unscored_reason or UnscoredReason.JUDGE_ERROR)
        return verdict._replace(unscored_reason=reason)
    if math.isfinite(score) and 0 <= score <= 1:
        return verdict._replace(score=float(score), unscored_reason=None)
    return verdict._replace(score=None, unscored_reason=UnscoredReason.SCORE_OUT_OF_RANGE)


def _encodable(text: str) -> str:
    """Return text that UTF-8 can hold: neither JSON nor Arrow takes anything else."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
