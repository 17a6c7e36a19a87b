"""The arithmetic of pace: spaced sends, cool-down and adaptation, on a clock of the test's own."""

import random
import threading
from bisect import bisect_right
from pathlib import Path

import pytest

from prspark.judges.permits import LockFile
from prspark.judges.rates import Pace, Rates, SharedPace, seconds_each, send, succeed, throttle

START = 1000.0


def sends_until(end: float, *, rates: Rates, late: list[float], tokens: int = 0) -> list[float]:
    """Return when sends go that always wait as told and then wake up late by the next of `late` seconds."""
    pace, now, sent, n = Pace(allowed=40), START, [], 0
    while now < end:
        pace, wait = send(pace, now=now, tokens=tokens, rates=rates)
        if wait:
            now += wait + late[n % len(late)]
            n += 1
        else:
            sent.append(now)
    return sent


def most_in(window: float, times: list[float]) -> int:
    return max(bisect_right(times, first + window) - n for n, first in enumerate(times))


def test_rate_is_divided_by_executors_and_kept_two_percent_below() -> None:
    assert seconds_each(6000) == pytest.approx(0.01 / 0.98)
    assert seconds_each(6000, executors=4) == pytest.approx(0.04 / 0.98)
    assert seconds_each(0, executors=4) == 0


@pytest.mark.parametrize("per_minute", [6, 60, 600, 6000, 60000])
def test_no_ten_seconds_hold_more_than_the_rate_allows_however_late_sends_wake_up(per_minute: int) -> None:
    chance = random.Random(per_minute)
    late = [chance.choice((0.0, 0.0001, 0.003, 0.03, 0.09, 0.5)) for _ in range(1000)]
    rates = Rates(40, request_seconds=seconds_each(per_minute))
    assert most_in(10, sends_until(START + 120, rates=rates, late=late)) <= per_minute / 6


def test_late_wake_ups_cost_less_than_three_percent_of_the_rate() -> None:
    rates = Rates(40, request_seconds=seconds_each(6000))
    sent = sends_until(START + 60, rates=rates, late=[0.0002, 0.005, 0.0001, 0.04])
    assert 0.95 * 6000 <= len(sent) <= 6000


def test_sends_are_evenly_spaced_from_the_first_on() -> None:
    sent = sends_until(START + 5, rates=Rates(40, request_seconds=0.5), late=[0.0])
    assert sent == [START + n / 2 for n in range(10)]


def test_idle_time_saves_up_a_tenth_of_a_second_at_most() -> None:
    rates = Rates(40, request_seconds=0.05)
    pace, _ = send(Pace(allowed=40), now=START, tokens=0, rates=rates)
    at_once, now = 0, START + 3600
    while not (step := send(pace, now=now, tokens=0, rates=rates))[1]:
        pace, at_once = step[0], at_once + 1
    assert at_once == 3  # 0.1 s of credit are two sends of 0.05 s, and one is due


def test_tokens_are_paid_for_before_the_next_send() -> None:
    rates = Rates(40, token_seconds=0.01)
    pace, _ = send(Pace(allowed=40), now=START, tokens=500, rates=rates)
    assert send(pace, now=START + 1, tokens=1, rates=rates) == (pace, pytest.approx(4.0))
    assert send(pace, now=START + 5, tokens=1, rates=rates)[1] == 0


def test_tokens_a_minute_stay_within_the_rate() -> None:
    rates = Rates(40, token_seconds=seconds_each(60_000))
    sent = sends_until(START + 300, rates=rates, late=[0.0, 0.02], tokens=700)
    assert 0.95 * 60_000 <= 700 * most_in(60, sent) <= 60_000


def test_retry_after_holds_all_sends_back_and_is_bounded() -> None:
    for asked, least, most in ((2.0, 2.0, 2.2), (21_600.0, 60.0, 66.0)):
        for luck in (0.0, 1.0):
            pace = throttle(Pace(allowed=40), now=START, sent_at=START, retry_after=asked, luck=luck)
            _, wait = send(pace, now=START, tokens=0, rates=Rates(40))
            assert least - 1e-6 <= wait <= most + 1e-6
            assert send(pace, now=pace.cool_until, tokens=0, rates=Rates(40))[1] == 0


@pytest.mark.parametrize("retry_after", [None, 0.0, -1.0, float("nan")])
def test_backoff_without_a_usable_retry_after_doubles_up_to_a_minute_until_a_success(
    retry_after: float,
) -> None:
    pace, now, waits = Pace(allowed=40), START, []
    for _ in range(9):
        pace = throttle(pace, now=now, sent_at=now, retry_after=retry_after, luck=1.0)
        waits.append(pace.cool_until - now)
        now = pace.cool_until
    assert waits == pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 60, 60])
    again = throttle(succeed(pace, limit=40), now=now, sent_at=now, retry_after=retry_after, luck=0.0)
    # half to whole of the first backoff, by the share of throttled answers: 15/16 and 1/16 of what is left
    assert again.cool_until - now == pytest.approx(0.25 * (15 / 16 + 1 / 16 / 16))


def test_rare_429s_without_retry_after_wait_a_moment_each() -> None:
    pace, now, waits = Pace(allowed=40), START, []
    for _ in range(40):
        for _ in range(9):
            pace = succeed(pace, limit=40)
        pace = throttle(pace, now=now, sent_at=now, retry_after=None, luck=1.0)
        waits.append(pace.cool_until - now)
        now = pace.cool_until
    assert 0.05 <= waits[-1] <= 0.1  # of half a second: a tenth of the answers, the newest weighing more


def test_the_429s_of_one_wave_shrink_and_back_off_once() -> None:
    pace = throttle(Pace(allowed=40), now=START, sent_at=START - 1, retry_after=None, luck=1.0)
    for n in range(1, 20):
        pace = throttle(pace, now=START + n / 100, sent_at=START - 1, retry_after=None, luck=1.0)
    assert (pace.allowed, pace.cool_until, pace.backoffs) == (20.0, START + 0.5, 1)


def test_only_429s_halve_what_is_allowed_down_to_one() -> None:
    pace, seen = Pace(allowed=40), []
    for n in range(8):
        pace = throttle(pace, now=START + n, sent_at=START + n, retry_after=1.0, luck=0.0)
        seen.append(pace.allowed)
    assert seen == [20, 10, 5, 2.5, 1.25, 1, 1, 1]


def test_one_429_among_many_successes_costs_little() -> None:
    pace = Pace(allowed=40)
    for _ in range(200):
        pace = succeed(pace, limit=40)
    assert 38 < throttle(pace, now=START, sent_at=START, retry_after=1.0, luck=0.0).allowed < 40


def test_where_all_goes_well_a_success_changes_nothing_and_takes_no_lock(tmp_path: Path) -> None:
    pace = SharedPace(tmp_path / "pace", Rates(in_flight=4))
    for _ in range(200):
        pace.succeeded()
    before = (tmp_path / "pace").read_bytes()
    with LockFile(tmp_path / "pace").held():
        success = threading.Thread(target=pace.succeeded, daemon=True)
        success.start()
        success.join(timeout=10)
        assert not success.is_alive()
    assert (tmp_path / "pace").read_bytes() == before


def test_as_many_successes_as_are_allowed_allow_one_more_up_to_the_limit() -> None:
    pace = Pace(allowed=20)
    for _ in range(21):
        pace = succeed(pace, limit=40)
    assert 21 <= pace.allowed < 21.1
    for _ in range(2000):
        pace = succeed(pace, limit=40)
    assert pace.allowed == 40
