"""What endpoints really do wrong: each ends in a verdict or in a reason, within its attempts and its time."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any, NoReturn

import pytest

from prspark.judges import http1
from prspark.judges.limits import GroupTimeoutError
from prspark.judges.protocol import JudgeRefusedError, call_deadline
from prspark.metric.reasons import UnscoredReason
from tests.support.endpoint_judges import Bench, verdict_text
from tests.support.scripted_server import (
    answer,
    completion,
    dribble,
    error,
    page,
    raw,
    reset,
    reset_in_body,
    said,
    silence,
    truncated,
    verdict,
)

WHOLE = raw(200, json.dumps(completion(verdict_text(1))).encode())
UNSIZED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + WHOLE.partition(b"\r\n\r\n")[2]
HEAD = WHOLE.index(b"\r\n\r\n") + 4


@contextmanager
def group_time(seconds: float) -> Iterator[None]:
    token = call_deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        call_deadline.reset(token)


# 1: 429 with and without Retry-After


@pytest.mark.parametrize(
    ("headers", "told", "paused"),
    [
        ({"Retry-After": "7"}, 7.0, 7.375),
        ({"Retry-After": "0"}, 0.0, 0.375),
        ({"Retry-After": "21600"}, 60.0, 60.375),
        ({}, None, 0.375),
        ({"Retry-After": "soon"}, None, 0.375),
    ],
)
def test_429_holds_back_everybody_and_is_retried_after_a_bounded_pause(
    headers: dict[str, str], told: float | None, paused: float
) -> None:
    with Bench(error(429, headers=headers, code="rate_limit_exceeded"), verdict(1)) as bench:
        found = bench.ask()
    assert (found.score, found.attempts, found.throttled) == (1, 2, 1)
    assert bench.gate.retry_after == [told]
    assert bench.pauses == [paused]


def test_429_with_a_date_is_retried_then() -> None:
    date = formatdate(time.time() + 30, usegmt=True)
    with Bench(error(429, headers={"Retry-After": date}), verdict(1)) as bench:
        assert bench.ask().score == 1
    assert bench.gate.retry_after[0] == pytest.approx(29, abs=2)


def test_pauses_grow_twofold_from_one_send_to_the_next() -> None:
    with Bench(error(429), attempts=5) as bench:
        bench.ask()
    assert bench.pauses == [0.375, 0.75, 1.5, 3.0]  # three quarters of 0.5, 1, 2, 4 at this jitter


# 2: 429 that never ends


def test_429_that_never_ends_is_unscored_after_the_attempts() -> None:
    with Bench(error(429, code="rate_limit_exceeded"), attempts=4) as bench:
        found = bench.ask()
    assert (found.score, found.unscored_reason) == (None, UnscoredReason.RATE_LIMITED)
    assert (found.attempts, found.throttled, found.reason) == (4, 4, "HTTP 429 rate_limit_exceeded")
    assert bench.gate.failures == 1


@pytest.mark.parametrize(
    "refusal",
    [
        error(429, code="insufficient_quota", message="You exceeded your current quota"),
        error(402, message="Payment required"),
        error(400, message="Your credit balance is too low"),
    ],
)
def test_quota_used_up_is_not_retried(refusal: Any) -> None:
    with Bench(refusal) as bench:
        found = bench.ask()
    assert (found.unscored_reason, found.attempts) == (UnscoredReason.RATE_LIMITED, 1)


def test_many_lost_calls_in_a_row_stop_the_job_with_what_to_do_next() -> None:
    with Bench(error(503), attempts=1, max_failures=3) as bench:
        assert [bench.ask().score, bench.ask().score] == [None, None]
        with pytest.raises(JudgeRefusedError) as caught:
            bench.ask()
    assert "3 judge calls in a row failed (endpoint_error: HTTP 503)" in str(caught.value)
    assert "the journal keeps what was paid" in str(caught.value)
    assert "run the same command again with --retry-unscored" in str(caught.value)


def test_success_between_lost_calls_lets_the_job_go_on() -> None:
    lost, found = error(503), verdict(1)
    with Bench(lost, found, lost, found, lost, attempts=1, max_failures=2) as bench:
        assert [bench.ask().score for _ in range(5)] == [None, 1, None, 1, None]


# 3: this text is refused


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (error(400, code="content_filter", message="m"), UnscoredReason.CONTENT_FILTER),
        (
            error(400, message="m", innererror={"code": "ResponsibleAIPolicyViolation"}),
            UnscoredReason.CONTENT_FILTER,
        ),
        (said("", finish="content_filter"), UnscoredReason.CONTENT_FILTER),
        (error(400, code="context_length_exceeded"), UnscoredReason.CONTEXT_TOO_LONG),
        (error(400, message="prompt is too long: 9 tokens > 8 maximum"), UnscoredReason.CONTEXT_TOO_LONG),
        (
            error(400, message="'max_tokens' is too large: 512. This model's maximum context length is 256"),
            UnscoredReason.CONTEXT_TOO_LONG,
        ),
        (error(413), UnscoredReason.CONTEXT_TOO_LONG),
        (error(400, message="Bad request"), UnscoredReason.REQUEST_REFUSED),
        (error(410), UnscoredReason.REQUEST_REFUSED),
    ],
)
def test_permanent_refusal_of_a_text_is_not_retried(refusal: Any, reason: UnscoredReason) -> None:
    with Bench(refusal) as bench:
        found = bench.ask()
    assert (found.score, found.unscored_reason, found.attempts) == (None, reason, 1)
    assert bench.pauses == []


# 6: no call can succeed


@pytest.mark.parametrize(
    ("refusal", "setting"),
    [
        (error(401, code="invalid_api_key"), "judge.token_env (PRSPARK_JUDGE_TOKEN)"),
        (error(403), "judge.token_env (PRSPARK_JUDGE_TOKEN)"),
        (error(404, code="model_not_found"), "judge.model (m)"),
        (error(404), "judge.model or judge.base_url"),
        (error(400, message="Invalid model name passed"), "judge.model (m)"),
        (answer(405, {}), "judge.base_url"),
    ],
)
def test_refusal_of_every_call_raises_and_names_the_setting(refusal: Any, setting: str) -> None:
    with Bench(refusal) as bench, pytest.raises(JudgeRefusedError) as caught:
        bench.ask()
    assert setting in str(caught.value)
    assert "127.0.0.1" in str(caught.value)
    assert len(bench.requests) == 1


def test_redirect_is_not_followed_with_the_token() -> None:
    environ = {"PRSPARK_JUDGE_TOKEN": "t"}
    with Bench(verdict(1)) as other:
        elsewhere = answer(307, {}, headers={"Location": f"{other.server.url}/chat/completions"})
        with Bench(elsewhere, environ=environ) as bench, pytest.raises(JudgeRefusedError, match="base_url"):
            bench.ask()
        assert other.requests == []


@pytest.mark.parametrize("refusal", [page(403), error(400, message="the model was not found in this text")])
def test_working_endpoint_that_takes_offence_at_one_text_does_not_stop_the_job(refusal: Any) -> None:
    with Bench(verdict(1), refusal, verdict(1)) as bench:
        scores = [bench.ask() for _ in range(3)]
    assert [each.score for each in scores] == [1, None, 1]
    assert scores[1].unscored_reason is UnscoredReason.REQUEST_REFUSED


# 7: server errors and broken connections


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 504, 529])
def test_server_error_is_retried_after_a_pause(status: int) -> None:
    with Bench(error(status), verdict(1)) as bench:
        found = bench.ask()
    assert (found.score, found.attempts, bench.pauses) == (1, 2, [0.375])


def test_retry_after_of_a_server_error_is_kept_too() -> None:
    with Bench(error(503, headers={"Retry-After": "3"}), verdict(1)) as bench:
        bench.ask()
    assert (bench.pauses, bench.gate.retry_after) == ([3.375], [])


@pytest.mark.parametrize("step", [reset, reset_in_body, truncated])
def test_broken_connection_is_retried(step: Any) -> None:
    with Bench(step, verdict(1)) as bench:
        assert bench.ask().score == 1
    assert len(bench.requests) == 2


@pytest.mark.parametrize("step", [reset, reset_in_body, truncated])
def test_connection_that_always_breaks_is_unscored(step: Any) -> None:
    with Bench(step, attempts=2) as bench:
        found = bench.ask()
    assert (found.unscored_reason, found.attempts) == (UnscoredReason.CONNECTION_FAILED, 2)
    assert found.reason == "the connection broke"


def test_tls_error_is_retried_and_then_unscored() -> None:
    with Bench(verdict(1)) as plain:
        url = plain.server.url.replace("http:", "https:")
        with Bench(verdict(1), base_url=url, attempts=2) as bench:
            found = bench.ask()
    assert (found.unscored_reason, found.reason) == (UnscoredReason.CONNECTION_FAILED, "TLS failed")
    assert found.attempts == 2


def test_unknown_host_is_retried_and_then_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    with Bench(verdict(1), attempts=2) as bench:
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        found = bench.ask()
    assert found.unscored_reason is UnscoredReason.CONNECTION_FAILED
    assert (found.reason, found.attempts) == ("the host name is not known", 2)


def test_host_that_takes_no_connection_is_retried_and_then_unscored() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with Bench(verdict(1), base_url=f"http://127.0.0.1:{port}", attempts=2) as bench:
        found = bench.ask()
    assert found.unscored_reason is UnscoredReason.CONNECTION_FAILED
    assert (found.reason, len(bench.pauses)) == ("no connection to the host", 1)


# 8: the whole call has a limit

DRIBBLES = {
    "in the headers": dribble(WHOLE),
    "in a body with a length": dribble(WHOLE, at_once=HEAD),
    "in a body without a length": dribble(UNSIZED, at_once=HEAD),
    "never": silence,
}


@pytest.mark.parametrize("step", DRIBBLES.values(), ids=DRIBBLES.keys())
def test_answer_that_dribbles_is_cut_when_the_time_of_the_call_is_over(step: Any) -> None:
    with Bench(step, timeout=0.3, attempts=1) as bench:
        started = time.monotonic()
        found = bench.ask()
        took = time.monotonic() - started
    assert (found.score, found.unscored_reason) == (None, UnscoredReason.TIMEOUT)
    assert 0.3 <= took < 2  # at this pace the whole answer would take more than 10 seconds


def test_call_after_a_cut_one_gets_a_connection_of_its_own() -> None:
    with Bench(silence, verdict(1), timeout=0.5) as bench:
        found = bench.ask()
    assert (found.score, found.attempts) == (1, 2)


def test_tls_handshake_without_an_end_is_cut() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"https://127.0.0.1:{mute.getsockname()[1]}"
        with Bench(verdict(1), base_url=url, timeout=0.3, attempts=1) as bench:
            started = time.monotonic()
            found = bench.ask()
            took = time.monotonic() - started
    assert found.unscored_reason is UnscoredReason.CONNECTION_FAILED
    assert took < 2


def test_group_time_cuts_a_send_short() -> None:
    with Bench(silence, timeout=20) as bench, group_time(0.3):
        started = time.monotonic()
        found = bench.ask()
        took = time.monotonic() - started
    assert (found.score, found.unscored_reason) == (None, UnscoredReason.GROUP_TIMEOUT)
    assert took < 2
    assert found.attempts == 1


def test_pause_that_the_group_has_no_time_for_is_not_begun() -> None:
    with Bench(error(429, headers={"Retry-After": "50"})) as bench, group_time(10):
        found = bench.ask()
    assert (found.unscored_reason, found.attempts) == (UnscoredReason.GROUP_TIMEOUT, 1)
    assert bench.pauses == []
    assert bench.gate.failures == 1  # the endpoint's fault all the same


def test_group_whose_time_is_over_sends_nothing() -> None:
    with Bench(verdict(1)) as bench, group_time(-1):
        found = bench.ask()
    assert (found.unscored_reason, found.attempts) == (UnscoredReason.GROUP_TIMEOUT, 0)
    assert bench.requests == []
    assert bench.gate.failures == 0


def test_call_that_waits_for_its_turn_until_the_group_ends_is_unscored() -> None:
    def never(**_: Any) -> NoReturn:
        raise GroupTimeoutError

    with Bench(verdict(1)) as bench:
        bench.gate.call = never  # type: ignore[method-assign]
        found = bench.ask()
    assert (found.unscored_reason, found.attempts) == (UnscoredReason.GROUP_TIMEOUT, 0)


# 9: status 200 that is none


@pytest.mark.parametrize(
    "step",
    [
        answer(200, {"error": {"message": "overloaded"}}),
        answer(200, {"error": "overloaded"}),
        answer(200, {"choices": []}),
        answer(200, {"choices": [], "error": None}),
        answer(200, []),
        answer(200, None),
        page(200),
        page(200, ""),
        truncated,
    ],
)
def test_200_without_a_reply_is_retried_after_a_pause(step: Any) -> None:
    with Bench(step, verdict(1)) as bench:
        found = bench.ask()
    assert (found.score, found.attempts, bench.pauses) == (1, 2, [0.375])


def test_200_that_never_holds_a_reply_is_unscored() -> None:
    with Bench(page(200), attempts=2) as bench:
        found = bench.ask()
    assert (found.unscored_reason, found.attempts) == (UnscoredReason.ENDPOINT_ERROR, 2)
    assert found.reason == "HTTP 200 without JSON"


def test_200_that_wraps_a_429_counts_as_one() -> None:
    with Bench(answer(200, {"error": {"code": 429, "message": "slow down"}}), verdict(1)) as bench:
        assert bench.ask().throttled == 1


# 10: more than anybody can read


def test_huge_reply_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "MAX_REPLY_BYTES", 100_000)
    with Bench(said("x" * 1_000_000)) as bench:
        found = bench.ask()
    assert (found.unscored_reason, found.attempts) == (UnscoredReason.REPLY_TOO_LARGE, 1)


def test_deeply_nested_reply_is_unscored() -> None:
    nested = raw(200, b"[" * 200_000 + b"]" * 200_000)
    with Bench(lambda connection: connection.send(nested), attempts=2) as bench:
        found = bench.ask()
    assert (found.unscored_reason, found.attempts) == (UnscoredReason.ENDPOINT_ERROR, 2)


def test_deeply_nested_content_is_unscored() -> None:
    with Bench(said('{"a":' * 20_000 + "1" + "}" * 20_000), attempts=2) as bench:
        assert bench.ask().unscored_reason is UnscoredReason.UNREADABLE_REPLY


def test_more_is_never_sent_than_the_attempts_allow_whatever_goes_wrong() -> None:
    script = [error(429), said("?"), reset, page(200), error(500), verdict(1)]
    with Bench(*script, attempts=5) as bench:
        assert bench.ask().score is None
    assert len(bench.requests) == 5
