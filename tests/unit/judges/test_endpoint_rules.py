"""The rules behind retries: how long to wait, and what an endpoint's error means."""

from typing import Any

import pytest

from prspark.judges.backoff import pause_seconds, read_retry_after
from prspark.judges.refusals import Next, read_complaint, what_it_means

ALL = frozenset({"form", "temperature", "seed", "length"})


@pytest.mark.parametrize(
    ("failures", "longest"), [(1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 20.0), (9999, 20.0)]
)
def test_pause_doubles_up_to_its_limit_and_is_spread_over_its_upper_half(
    failures: int, longest: float
) -> None:
    assert pause_seconds(failures, retry_after=None, jitter=0.0) == longest / 2
    assert pause_seconds(failures, retry_after=None, jitter=1.0) == longest


def test_pause_is_never_shorter_than_the_server_asked_for() -> None:
    assert pause_seconds(9, retry_after=5.0, jitter=0.0) == 5.5


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        ("0.5", 0.5),
        ("-4", 0.0),
        ("86400", 60.0),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("later", None),
        ("Thu, 01 Jan 1970 00:00:50 GMT", 10.0),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
        ("Thu, 01 Jan 1970 23:00:10 GMT", 60.0),
        ("Thu, 99 Jan 1970 00:00:10 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_bounded(value: str | None, seconds: float | None) -> None:
    assert read_retry_after(value, now=40.0) == seconds


@pytest.mark.parametrize(
    "payload", [None, 7, "text", [], {}, {"error": None}, {"error": 7}, {"detail": [7, {}]}]
)
def test_error_of_no_known_shape_has_no_words(payload: Any) -> None:
    assert read_complaint(payload).code == ""


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({"error": {"code": "invalid_api_key", "type": "x_error"}}, "invalid_api_key"),
        ({"error": {"code": 400, "type": "BadRequestError"}}, "BadRequestError"),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error"),
        ({"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "m"}, "REQUEST_LIMIT_EXCEEDED"),
        ({"error": {"code": "some words of a text"}}, ""),
        ({"error": {"code": "sk-0123456789"}}, ""),
    ],
)
def test_code_is_shown_only_if_it_is_a_short_identifier(payload: Any, code: str) -> None:
    assert read_complaint(payload).code == code


def test_echoed_input_is_not_taken_for_the_endpoints_own_words() -> None:
    echoed = {"detail": [{"loc": ["body", "messages"], "msg": "Invalid", "input": "seed and temperature"}]}
    assert what_it_means(422, read_complaint(echoed), sent=ALL).next is Next.GIVE_UP


@pytest.mark.parametrize(
    ("message", "parameter"),
    [
        ("Invalid schema for response_format 'correctness': 'minimum' is not permitted", "form"),
        ("'messages' must contain the word 'json' to use 'response_format'", "form"),
        ("Failed to parse grammar", "form"),
        ("Unsupported parameter: 'max_tokens'", "length"),
        ("Unrecognized request argument supplied: seed", "seed"),
        ("temperature: Extra inputs are not permitted", "temperature"),
        ("the seedling was not supported", None),
    ],
)
def test_refused_parameter_is_found_in_the_words(message: str, parameter: str | None) -> None:
    complaint = read_complaint({"error": {"message": message}})
    assert what_it_means(400, complaint, sent=ALL).parameter == parameter


def test_parameter_that_was_not_sent_is_not_dropped() -> None:
    complaint = read_complaint({"error": {"message": "seed is not supported"}})
    assert what_it_means(400, complaint, sent=ALL - {"seed"}).next is Next.GIVE_UP


def test_slow_request_is_not_taken_for_a_long_one() -> None:
    complaint = read_complaint({"error": {"message": "the request took too long"}})
    assert what_it_means(408, complaint, sent=ALL).next is Next.RETRY
