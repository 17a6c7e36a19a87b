"""What one verdict has cost so far, and what a send that gave none means."""

from dataclasses import dataclass
from typing import NamedTuple

from prspark.judges.dialects import Ask, Shape
from prspark.judges.protocol import Verdict
from prspark.judges.refusals import Refusal
from prspark.judges.transport import Trouble
from prspark.metric.reasons import UnscoredReason

TROUBLES = {
    Trouble.TIMEOUT: UnscoredReason.TIMEOUT,
    Trouble.TOO_LARGE: UnscoredReason.REPLY_TOO_LARGE,
}
TROUBLE_SETTINGS = {
    Trouble.DNS: "judge.base_url",
    Trouble.CONNECT: "judge.base_url, judge.proxy or the network's rules",
    Trouble.PROXY: "judge.proxy or HTTPS_PROXY",
    Trouble.TLS: "judge.ca_bundle or judge.base_url",
    Trouble.BROKEN: "judge.base_url or judge.proxy",
}
# Reasons that speak of the endpoint as a whole, not of one judged text.
ENDPOINTS_FAULT = frozenset(
    {
        UnscoredReason.RATE_LIMITED,
        UnscoredReason.ENDPOINT_ERROR,
        UnscoredReason.CONNECTION_FAILED,
        UnscoredReason.TIMEOUT,
        UnscoredReason.REPLY_TOO_LARGE,
        UnscoredReason.REQUEST_REFUSED,
    }
)


@dataclass
class Call:
    """One verdict in the making: what it asks and what it has cost so far."""

    ask: Ask
    characters: int
    shape: Shape
    half: bool = False  # of a pair that is judged in both orders: no verdict of its own
    attempts: int = 0
    resent: int = 0  # without a parameter that was refused: these don't use up the attempts
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency: float = 0.0
    throttled: int = 0

    @property
    def counted(self) -> int:
        """Return how many of its attempts are used up."""
        return self.attempts - self.resent

    def verdict(self, score: float | None, reason: str | None, problem: UnscoredReason | None) -> Verdict:
        """Return the verdict with what it has cost."""
        return Verdict(
            score=score,
            reason=reason,
            unscored_reason=problem,
            attempts=self.attempts,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            latency_seconds=self.latency,
            throttled=self.throttled,
        )


class Failure(NamedTuple):
    """A send that gave no verdict.

    `note` may be shown: status and code, or the kind of trouble. `retry_after` is in seconds. `at_once` means
    no pause before the next send, `by_chance` that a setting is wrong only if it happens again.
    """

    refusal: Refusal
    note: str
    retry_after: float | None = None
    at_once: bool = False
    by_chance: bool = False
