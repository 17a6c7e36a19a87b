"""What a judge is asked, what it answers, and the two methods that make a judge."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple, Protocol, runtime_checkable

from prspark.metric.conversation import Turn
from prspark.metric.reasons import UnscoredReason


class CorrectnessRequest(NamedTuple):
    """Is this answer to this question correct?"""

    question: str
    answer: str
    reference: str | None = None
    context: str | None = None
    history: tuple[Turn, ...] = ()


class RobustnessRequest(NamedTuple):
    """Do these two answers, to a question and to its rewording, say the same?"""

    original_question: str
    original_answer: str
    reworded_question: str
    reworded_answer: str


class Verdict(NamedTuple):
    """A judge's answer: a score in 0..1, or null with the reason why there is none.

    `attempts` counts sends (0 for an embedded judge); tokens and seconds are sums over them.
    """

    score: float | None
    reason: str | None = None
    unscored_reason: UnscoredReason | None = None
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_seconds: float = 0.0
    throttled: int = 0


@runtime_checkable
class Judge(Protocol):
    """Anything with these two methods can judge. It is called from several threads at once.

    A judge may also say `free = True` (its calls cost nothing: no journal, no limits, no threads)
    and `identity` (a text that changes whenever its verdicts could; part of a verdict's journal key).
    """

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        """Return how correct the answer is: 0 is wrong, 1 is right."""
        ...

    def robustness(self, request: RobustnessRequest) -> Verdict:
        """Return how far the two answers agree: 0 is a contradiction, 1 is the same."""
        ...


call_deadline: ContextVar[float | None] = ContextVar("call_deadline", default=None)
"""The `time.monotonic()` when the present call's group has used up its time; a judge retries no longer."""


keep_verdict: ContextVar[Callable[[Verdict], None] | None] = ContextVar("keep_verdict", default=None)
"""Writes the present call's verdict to where nothing is lost; null if there is no such place."""


def keep(verdict: Verdict) -> None:
    """Keep the present call's verdict, once. Whoever counts calls in flight does so before the next one goes.

    Then a process that dies at any moment loses no more verdicts than it may have calls in flight.
    """
    write = keep_verdict.get()
    if write is not None:
        write(verdict)
        keep_verdict.set(None)


class JudgeRefusedError(Exception):
    """The endpoint will refuse every call (wrong token, host or model, quota used up): stop the job.

    The text names the setting to change; it holds no judged text and no secret.
    """
