"""Holds a user's own judge to the rules of the built-in ones: limits, scores in 0..1, no crash of the job."""

import math
import time
from collections.abc import Callable

from prspark.judges.limits import Gate, GroupTimeoutError
from prspark.judges.protocol import CorrectnessRequest, Judge, JudgeRefusedError, RobustnessRequest, Verdict
from prspark.metric.reasons import UnscoredReason


class GuardedJudge:
    """Calls a user's judge within the executor's limits; what it raises becomes `judge_error`, unscored.

    A `JudgeRefusedError` of it stops the job, as it does for a built-in judge. One call is one attempt.
    """

    def __init__(self, judge: Judge, gate: Gate) -> None:
        self._judge = judge
        self._gate = gate

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        """Ask the user's judge."""
        return self._call(lambda: self._judge.correctness(request))

    def robustness(self, request: RobustnessRequest) -> Verdict:
        """Ask the user's judge."""
        return self._call(lambda: self._judge.robustness(request))

    def _call(self, ask: Callable[[], Verdict]) -> Verdict:
        try:
            with self._gate.call():
                started = time.monotonic()
                verdict = self._checked(ask)
                seconds = time.monotonic() - started
        except GroupTimeoutError:
            return Verdict(None, None, UnscoredReason.GROUP_TIMEOUT)
        if verdict.score is not None:
            self._gate.succeeded()
        return verdict._replace(
            attempts=max(1, verdict.attempts), latency_seconds=verdict.latency_seconds or seconds
        )

    @staticmethod
    def _checked(ask: Callable[[], Verdict]) -> Verdict:
        try:
            verdict = _typed(ask())
            score = verdict.score
            if score is None:
                reason = UnscoredReason(verdict.unscored_reason or UnscoredReason.JUDGE_ERROR)
                return verdict._replace(unscored_reason=reason)
            if math.isfinite(score) and 0 <= score <= 1:
                return verdict._replace(score=float(score), unscored_reason=None)
            return verdict._replace(score=None, unscored_reason=UnscoredReason.SCORE_OUT_OF_RANGE)
        except (JudgeRefusedError, GroupTimeoutError):
            raise
        except Exception:  # noqa: BLE001  a user's judge may raise anything, and its text may hold judged text
            return Verdict(None, None, UnscoredReason.JUDGE_ERROR)


def _typed(verdict: Verdict) -> Verdict:
    """Return the same with plain types and UTF-8 text: neither JSON nor Arrow takes anything else."""
    return verdict._replace(
        reason=None if verdict.reason is None else _encodable(str(verdict.reason)),
        attempts=int(verdict.attempts),
        prompt_tokens=int(verdict.prompt_tokens),
        completion_tokens=int(verdict.completion_tokens),
        latency_seconds=float(verdict.latency_seconds),
        throttled=int(verdict.throttled),
    )


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
