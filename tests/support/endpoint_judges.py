"""Judges behind the scripted server, whose pauses are recorded and not slept."""

import json
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

from prspark.judges.config import JudgeConfig
from prspark.judges.endpoint import EndpointJudge
from prspark.judges.limits import OpenGate
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest, Verdict
from tests.support.scripted_server import Request, ScriptedServer, Step

QUESTION = CorrectnessRequest(question="What is 6 x 7?", answer="It is 42.", reference="42")
PAIR = RobustnessRequest(
    original_question="What is 6 x 7?",
    original_answer="42",
    reworded_question="Six times seven?",
    reworded_answer="forty-two",
)


class RecordingGate(OpenGate):
    """An open gate that remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[int] = []
        self.retry_after: list[float | None] = []
        self.successes = 0
        self.failures = 0

    def call(self, *, tokens: int = 0, **more: Any) -> Any:
        self.tokens.append(tokens)
        return super().call(tokens=tokens, **more)

    def throttled(self, retry_after: float | None) -> None:
        self.retry_after.append(retry_after)

    def succeeded(self) -> None:
        self.successes += 1
        self.failures = 0

    def failure(self) -> int:
        self.failures += 1
        return self.failures


class Bench:
    """`with Bench(step, step) as bench:` is a judge, its scripted server, its gate and its pauses."""

    def __init__(
        self,
        *script: Step,
        kind: str = "chat",
        attempts: int = 3,
        timeout: float = 20.0,
        max_failures: int = 0,
        environ: dict[str, str] | None = None,
        sleep: Callable[[float], None] | None = None,
        tls: ssl.SSLContext | None = None,
        **settings: Any,
    ) -> None:
        self.server = ScriptedServer(*script, tls=tls)
        self.gate = RecordingGate()
        self.pauses: list[float] = []
        self.judge = EndpointJudge(
            JudgeConfig(kind=kind, **{"base_url": self.server.url, "model": "m", **settings}),
            timeout_seconds=timeout,
            max_attempts=attempts,
            gate=self.gate,
            environ={} if environ is None else environ,
            max_failures_in_a_row=max_failures,
            sleep=sleep or self.pauses.append,
            jitter=lambda: 0.5,
        )

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._stack.enter_context(self.server)
        self._stack.callback(self.judge.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def requests(self) -> list[Request]:
        """Return what the server was sent so far."""
        return self.server.requests

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Return the bodies of what the server was sent so far."""
        return [request.body for request in self.requests]

    def ask(self) -> Verdict:
        """Ask for the correctness of one answer."""
        return self.judge.correctness(QUESTION)


def verdict_text(score: float) -> str:
    """Return what a judge writes."""
    return json.dumps({"reasoning": "because", "score": score})
