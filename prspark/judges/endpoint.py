"""Asks a model behind an HTTP endpoint for verdicts: one client, with the only retry layer."""

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import urlsplit

from prspark.judges import dialects
from prspark.judges.backoff import pause_seconds, read_retry_after
from prspark.judges.calls import ENDPOINTS_FAULT, TROUBLE_SETTINGS, TROUBLES, Call, Failure
from prspark.judges.config import JudgeConfig
from prspark.judges.dialects import DIALECTS, Ask, Content, JudgeConfigError, MalformedReplyError, Shape
from prspark.judges.http1 import HEADER_NAME, Answer
from prspark.judges.limits import Gate
from prspark.judges.prompts import Kind, Message, Prompts
from prspark.judges.protocol import (
    CorrectnessRequest,
    Judge,
    JudgeRefusedError,
    RobustnessRequest,
    Verdict,
    call_deadline,
    keep,
)
from prspark.judges.refusals import Complaint, Next, Refusal, read_complaint, what_it_means
from prspark.judges.replies import read_reply
from prspark.judges.swap import both, swapped
from prspark.judges.transport import Transport, TransportError, Trouble
from prspark.metric.reasons import UnscoredReason

PREFLIGHT_SECONDS = 10.0
"""Long enough for a far host, short enough that a blocked network ends the job at once."""

# Of English: for replies that report no usage, and for the token rate before the first reply.
_CHARS_PER_TOKEN = 4
# Weight of the newest reply in the running estimate of tokens.
_SMOOTHING = 0.1


class EndpointJudge:
    """A judge behind HTTP. Thread-safe; made in the process that uses it (it can't be pickled).

    One call sends at most `max_attempts` requests, those that ask again after an unreadable reply included.
    Only a request that is repeated without a parameter which the endpoint refused comes on top, at most once
    for each. What the endpoint refuses, how much longer its replies must be, and whether its scores keep to the
    range is remembered. Asking again repeats the same messages at the same temperature, since the verdict's
    journal key stands for them; only a reply that was cut gets twice the room, up to 8 times `max_tokens`, and
    after a score out of range the schema lists the scores.

    Args:
        config: the `[judge]` table, of a kind in `DIALECTS`.
        timeout_seconds: limit of one HTTP call, from connect to the last byte.
        max_attempts: sends of one call, the first included.
        gate: admits each send and hears of what came of it.
        environ: where secrets are read, at each send; they are kept nowhere.
        max_failures_in_a_row: so many calls in a row lost by the endpoint's fault stop the job; 0 never.
        sleep: waits, in seconds.
        jitter: uniform in 0..1.

    Raises:
        JudgeConfigError: naming the setting that is missing or wrong.
    """

    free = False

    def __init__(
        self,
        config: JudgeConfig,
        *,
        timeout_seconds: float,
        max_attempts: int,
        gate: Gate,
        environ: Mapping[str, str],
        max_failures_in_a_row: int = 0,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._config = config
        self._dialect = DIALECTS[config.kind]
        self._prompts = Prompts(config.correctness_template, config.robustness_template)
        self._timeout = timeout_seconds
        self._max_attempts = max_attempts
        self._gate = gate
        self._environ = environ
        self._max_failures = max_failures_in_a_row
        self._sleep = sleep
        self._jitter = jitter
        self._url = dialects.endpoint_url(config, environ=environ)
        self._headers()  # a missing secret is told of now, not by the first call
        try:
            self._transport = Transport(self._url, proxy=config.proxy, ca_bundle=config.ca_bundle)
        except ValueError:  # `requests` knows more kinds of bad host names
            raise JudgeConfigError(dialects.NO_ADDRESS) from None
        self._learning = threading.Lock()
        self._shape = self._dialect.first_shape()
        self._tokens_per_character = 1 / _CHARS_PER_TOKEN
        self._tokens_per_reply = float(config.max_tokens)
        self._answered = False

    def __repr__(self) -> str:
        return f"EndpointJudge(kind={self._config.kind!r}, model={self._config.model!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an EndpointJudge can't be pickled: make it from its configuration where it is used")

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        """Return how correct the answer is, 0..1, or unscored with the reason.

        Raises:
            JudgeRefusedError: no further call can succeed.
        """
        return self._judge("correctness", self._prompts.correctness(request))

    def robustness(self, request: RobustnessRequest) -> Verdict:
        """Return how far the two answers agree, 0..1, or unscored with the reason.

        With `judge.swap_pairs` both orders are asked and averaged; unscored if either is.

        Raises:
            JudgeRefusedError: no further call can succeed.
        """
        if not self._config.swap_pairs:
            return self._judge("robustness", self._prompts.robustness(request))
        first = self._judge("robustness", self._prompts.robustness(request), half=True)
        if first.score is None:
            return first
        return both(first, self._judge("robustness", self._prompts.robustness(swapped(request)), half=True))

    def preflight(self) -> None:
        """Ask one tiny question, to learn early that no call can succeed.

        It is one send, paid and counted like any other; one more follows a broken connection, and one each
        parameter that is refused. A busy or slow endpoint passes: its host, token and model are right.

        Raises:
            JudgeRefusedError: wrong token, host or model, quota used up, or a blocked network.
        """
        question = CorrectnessRequest(question="What is 1 + 1?", answer="2", reference="2")
        call = self._call("correctness", self._prompts.correctness(question))
        seconds = min(PREFLIGHT_SECONDS, self._timeout)
        found = self._send(call, seconds=seconds)
        while isinstance(found, Failure) and (
            found.refusal.next is Next.DROP or self._once_more(call, found)
        ):
            found = self._send(call, seconds=seconds)
        if isinstance(found, Failure) and found.refusal.setting:
            raise self._refused(found.refusal.setting, found.note)

    def _once_more(self, call: Call, failure: Failure) -> bool:
        """Tell, after a pause, whether a preflight that failed by chance may be repeated."""
        if not failure.by_chance or call.counted > 1:
            return False
        self._sleep(pause_seconds(1, retry_after=None, jitter=self._jitter()))
        return True

    def close(self) -> None:
        """Close the kept connections."""
        self._transport.close()

    def _call(self, kind: Kind, messages: list[Message], *, half: bool = False) -> Call:
        characters = sum(len(message["content"]) for message in messages)
        return Call(Ask(kind, messages), characters, self._shape, half=half)

    def _judge(self, kind: Kind, messages: list[Message], *, half: bool = False) -> Verdict:
        call = self._call(kind, messages, half=half)
        last: Failure | None = None
        while True:
            if self._time_is_over():
                return self._out_of_time(call, last)
            try:
                found = self._send(call, seconds=self._timeout)
            except TimeoutError:  # the group's time ended while the call waited for its turn
                return self._out_of_time(call, last)
            if isinstance(found, Verdict):
                return found
            if found.refusal.reason is UnscoredReason.GROUP_TIMEOUT:
                return self._out_of_time(call, last or found)
            last = found
            if found.refusal.next is Next.DROP:
                continue
            if found.refusal.next is not Next.RETRY or call.counted >= self._max_attempts:
                return self._lost(call, found)
            if not self._paused(call, found):
                return self._out_of_time(call, last)

    @staticmethod
    def _time_is_over() -> bool:
        """Say whether the group's time is."""
        deadline = call_deadline.get()
        return deadline is not None and time.monotonic() >= deadline

    def _paused(self, call: Call, failure: Failure) -> bool:
        """Wait before the next send; False, at once, if the group's time ends before."""
        if failure.at_once:
            return True
        seconds = pause_seconds(call.counted, retry_after=failure.retry_after, jitter=self._jitter())
        deadline = call_deadline.get()
        if deadline is not None and time.monotonic() + seconds >= deadline:
            return False
        self._sleep(seconds)
        return True

    def _send(self, call: Call, *, seconds: float) -> Verdict | Failure:
        """Send once and read what comes back.

        Waiting for a turn is not part of the HTTP call, whose limit is `seconds`, but of the group's time.

        Raises:
            TimeoutError: the group's time ended before the gate let the call through.
            JudgeRefusedError: no call can succeed.
        """
        headers = self._headers()
        body = json.dumps(self._dialect.body(call.ask, call.shape, self._config)).encode()
        exchange = self._transport.exchange(
            body, headers=headers, seconds=seconds, no_later_than=call_deadline.get()
        )
        with self._gate.call(tokens=self._estimate(call), start=exchange.start):
            if exchange.started is None:
                raise TimeoutError
            call.attempts += 1
            try:
                answer = exchange.finish()
            except TransportError as error:
                return self._unanswered(error.trouble)
            finally:
                call.latency += time.monotonic() - exchange.started
            # Before the turn is given back: a 429 must hold back whoever takes it, and what was paid is kept.
            found = self._read(call, answer)
            if isinstance(found, Verdict) and not call.half:
                keep(found)
            return found

    def _headers(self) -> dict[str, str]:
        config, environ = self._config, self._environ
        found = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "prspark"}
        # Replies are small; plain ones can't unpack to more than was received.
        found["Accept-Encoding"] = "identity"
        found |= self._dialect.headers(dialects.token(config, environ=environ))
        for name, variable in config.header_env.items():
            if not HEADER_NAME.fullmatch(name):
                raise JudgeConfigError(
                    f"judge.header_env: {name!r} is no name of a header; use letters, digits and -"
                )
            setting = f"judge.header_env.{name}"
            value = dialects.secret(variable, setting=setting, environ=environ)
            if value is None:
                raise JudgeConfigError(f"{setting}: the variable {variable} is not set where the job runs")
            found[name] = value
        return found

    def _estimate(self, call: Call) -> int:
        return int(call.characters * self._tokens_per_character + self._tokens_per_reply) + 1

    def _unanswered(self, trouble: Trouble) -> Failure:
        reason = TROUBLES.get(trouble, UnscoredReason.CONNECTION_FAILED)
        if trouble is Trouble.TIMEOUT and self._time_is_over():
            reason = UnscoredReason.GROUP_TIMEOUT
        lost = reason in (UnscoredReason.REPLY_TOO_LARGE, UnscoredReason.GROUP_TIMEOUT)
        refusal = Refusal(Next.GIVE_UP if lost else Next.RETRY, reason, setting=TROUBLE_SETTINGS.get(trouble))
        return Failure(refusal, trouble.value, by_chance=trouble is Trouble.BROKEN)

    def _read(self, call: Call, answer: Answer) -> Verdict | Failure:
        payload = _parsed(answer.body)
        status = _status_of(answer.status, payload)
        if status != 200:
            return self._refusal(call, answer, status=status, complaint=read_complaint(payload))
        if not isinstance(payload, dict):  # cut, or a web page: of a gateway, or of a wrong address
            garbled = Refusal(Next.RETRY, UnscoredReason.ENDPOINT_ERROR, setting="judge.base_url")
            return Failure(garbled, "HTTP 200 without JSON", by_chance=True)
        try:
            content = self._dialect.read(payload)
        except MalformedReplyError:
            empty = Refusal(Next.RETRY, UnscoredReason.ENDPOINT_ERROR)
            return Failure(empty, "HTTP 200 without a message")
        self._learn(call, content)
        return self._verdict(call, content)

    def _verdict(self, call: Call, content: Content) -> Verdict | Failure:
        if content.finish_reason == "content_filter":
            filtered = Refusal(Next.GIVE_UP, UnscoredReason.CONTENT_FILTER)
            return Failure(filtered, "the model or its filter declined")
        reply = read_reply(content.text, finish_reason=content.finish_reason)
        if reply.problem is None:
            self._remember(growth=call.shape.growth, levels=call.shape.levels)
            return call.verdict(reply.score, reply.reasoning, None)
        if content.finish_reason == "length":
            wider = min(call.shape.growth * 2, dialects.MAX_GROWTH)
            call.shape = call.shape._replace(growth=wider)
        if reply.problem is UnscoredReason.SCORE_OUT_OF_RANGE:
            call.shape = call.shape._replace(levels=True)
        return Failure(Refusal(Next.RETRY, reply.problem), "a reply that holds no verdict", at_once=True)

    def _learn(self, call: Call, content: Content) -> None:
        """Count the tokens of a reply and remember the shape that the endpoint took."""
        prompt = content.prompt_tokens
        if prompt is None:
            prompt = call.characters // _CHARS_PER_TOKEN
        completion = content.completion_tokens
        if completion is None:
            completion = len(content.text) // _CHARS_PER_TOKEN
        call.prompt_tokens += prompt
        call.completion_tokens += completion
        # Estimates: two threads that write at once lose one reply's share, which does not matter.
        self._tokens_per_character += _SMOOTHING * (
            prompt / max(call.characters, 1) - self._tokens_per_character
        )
        self._tokens_per_reply += _SMOOTHING * (completion - self._tokens_per_reply)
        self._answered = True
        if call.resent:
            self._remember(shape=call.shape)
        self._gate.succeeded()

    def _remember(self, *, shape: Shape | None = None, growth: int = 1, levels: bool = False) -> None:
        """Keep what a call has learned for the next ones; only more refusals and more room, never less."""
        known = self._shape
        if shape is None and growth <= known.growth and levels <= known.levels:
            return
        with self._learning:
            known = self._shape
            if shape is not None:
                known = self._dialect.plainer(known, shape)
            self._shape = known._replace(growth=max(known.growth, growth), levels=known.levels or levels)

    def _refusal(self, call: Call, answer: Answer, *, status: int, complaint: Complaint) -> Failure:
        refusal = what_it_means(status, complaint, sent=_sent(call.shape, self._config))
        of_this_text = status in (400, 422) or (status == 403 and answer.html)
        if refusal.next is Next.STOP and of_this_text and self._answered:
            # The endpoint works; it, or a firewall before it, took offence at this text.
            refusal = Refusal(Next.GIVE_UP, UnscoredReason.REQUEST_REFUSED)
        note = f"HTTP {status} {complaint.code}".rstrip()
        if refusal.next is Next.STOP:
            raise self._refused(refusal.setting or "judge.base_url", note)
        if refusal.parameter:
            call.shape = self._dialect.without(call.shape, refusal.parameter)
            call.resent += 1
        wait = read_retry_after(answer.retry_after, now=time.time())
        if status == 429:
            call.throttled += 1
            self._gate.throttled(wait)
        return Failure(refusal, note, retry_after=wait)

    def _refused(self, setting: str, note: str) -> JudgeRefusedError:
        host = urlsplit(self._url).hostname
        named = setting
        if setting == "judge.token_env":
            named = f"judge.token_env ({self._config.token_env})"
        elif setting == "judge.model":
            named = f"judge.model ({self._config.model})"
        return JudgeRefusedError(f"the judge at {host} can't be used: {note}; check {named}")

    def _lost(self, call: Call, failure: Failure) -> Verdict:
        """End a call without a verdict, or the job if too many in a row ended so."""
        reason = failure.refusal.reason
        if reason in ENDPOINTS_FAULT:
            self._count_failure(failure)
        return call.verdict(None, failure.note, reason)

    def _out_of_time(self, call: Call, last: Failure | None) -> Verdict:
        if last is not None and last.refusal.reason in ENDPOINTS_FAULT:
            self._count_failure(last)
        note = "the group's time is over" + (f" after {last.note}" if last else "")
        return call.verdict(None, note, UnscoredReason.GROUP_TIMEOUT)

    def _count_failure(self, failure: Failure) -> None:
        failures = self._gate.failure()
        if self._max_failures and failures >= self._max_failures:
            setting = failure.refusal.setting or "the endpoint, judge.base_url and [limits]"
            raise JudgeRefusedError(
                f"{failures} judge calls in a row failed ({failure.refusal.reason}: {failure.note}); "
                f"the journal keeps what was paid; check {setting} and run the same command again with --retry-unscored"
            )


def preflight(judge: Judge) -> None:
    """Ask the judge one tiny question if it is behind an endpoint, and hang up; any other judge passes.

    Raises:
        JudgeRefusedError: no call can succeed; the text names the setting.
    """
    if isinstance(judge, EndpointJudge):
        try:
            judge.preflight()
        finally:
            judge.close()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested deeper than Python can follow
        return None


def _status_of(status: int, payload: Any) -> int:
    """Return the status that is meant: some gateways wrap an error into a 200."""
    if not 200 <= status < 300:
        return status
    error = payload.get("error") if isinstance(payload, dict) else None
    if not error:
        return 200
    code = error.get("code") if isinstance(error, dict) else None
    return code if type(code) is int and 400 <= code <= 599 else 500


def _sent(shape: Shape, config: JudgeConfig) -> frozenset[str]:
    """Return which of the parameters that an endpoint may refuse were sent."""
    sent = {
        "form": shape.form != dialects.PLAIN_TEXT,
        "length": bool(shape.length),
        "temperature": shape.temperature and config.temperature is not None,
        "seed": shape.seed and config.seed is not None,
    }
    return frozenset(name for name, there in sent.items() if there)
