"""Threads of one process stand in line for permits: one goes for the next one, the others are handed theirs."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from prspark.judges.line import SHARED_TURN, GroupTimeoutError, Line

PATIENCE = 60  # seconds; only a broken line waits so long


def takes(_: str) -> bool:
    """Take whatever is handed on."""
    return True


@pytest.fixture
def line() -> Line[str]:
    return Line()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2 * SHARED_TURN) as pool:
        yield pool


def stand(
    line: Line[str],
    threads: ThreadPoolExecutor,
    count: int,
    deadline: float | None = None,
    goes: Callable[[str], bool] = takes,
) -> list["Future[str | None]"]:
    """Let so many threads enter, one after the other; gives what they will be told."""
    told = []
    for _ in range(count):
        before = len(line._behind)
        told.append(threads.submit(line.enter, deadline, goes))
        while len(line._behind) == before:
            pass
    return told


def test_who_comes_first_goes_at_once_and_is_not_handed_anything(line: Line[str]) -> None:
    assert line.enter(None, takes) is None
    assert not line.hand_on("permit")  # nobody stands behind


def test_those_behind_are_handed_theirs_in_the_order_they_came(
    line: Line[str], threads: ThreadPoolExecutor
) -> None:
    line.enter(None, takes)
    one, two = stand(line, threads, 2)
    assert line.hand_on("a")
    assert one.result(PATIENCE) == "a"
    assert line.hand_on("b")
    assert two.result(PATIENCE) == "b"


def test_every_so_many_th_goes_to_all_processes(line: Line[str], threads: ThreadPoolExecutor) -> None:
    line.enter(None, takes)
    told = stand(line, threads, 2 * SHARED_TURN - 2)
    handed = [line.hand_on(str(n)) for n in range(2 * SHARED_TURN)]
    shared = (SHARED_TURN - 1, 2 * SHARED_TURN - 1)
    assert handed == [n not in shared for n in range(2 * SHARED_TURN)]
    expected = [str(n) for n in range(2 * SHARED_TURN) if n not in shared]
    assert [each.result(PATIENCE) for each in told] == expected


def test_the_next_one_is_first_when_the_first_leaves(line: Line[str], threads: ThreadPoolExecutor) -> None:
    line.enter(None, takes)
    (next_one,) = stand(line, threads, 1)
    line.leave()
    assert next_one.result(PATIENCE) is None
    line.leave()
    assert line.enter(None, takes) is None  # the line was empty


def test_who_runs_out_of_time_leaves_the_line_and_the_others_keep_their_places(
    line: Line[str], threads: ThreadPoolExecutor
) -> None:
    line.enter(None, takes)
    (late,) = stand(line, threads, 1, time.monotonic() + 0.2)
    (patient,) = stand(line, threads, 1)
    with pytest.raises(GroupTimeoutError, match="limits"):
        late.result(PATIENCE)
    assert line.hand_on("permit")
    assert patient.result(PATIENCE) == "permit"


def test_deadline_in_the_past_does_not_enter(line: Line[str]) -> None:
    with pytest.raises(GroupTimeoutError):
        line.enter(time.monotonic() - 1, takes)
    assert line.enter(None, takes) is None


def test_who_hands_on_lets_the_other_go_before_that_one_wakes_up(
    line: Line[str], threads: ThreadPoolExecutor
) -> None:
    went: list[int] = []

    def goes(_: str) -> bool:
        went.append(threading.get_ident())
        return True

    line.enter(None, takes)
    (other,) = stand(line, threads, 1, goes=goes)
    assert line.hand_on("permit")
    assert went == [threading.get_ident()]
    assert other.result(PATIENCE) == "permit"


def test_who_says_no_keeps_the_place_and_the_permit_goes_to_all_processes(
    line: Line[str], threads: ThreadPoolExecutor
) -> None:
    line.enter(None, takes)
    (choosy,) = stand(line, threads, 1, goes=lambda thing: thing == "good")
    (patient,) = stand(line, threads, 1)
    assert not line.hand_on("bad")
    assert line.hand_on("good")
    assert choosy.result(PATIENCE) == "good"
    assert line.hand_on("any")
    assert patient.result(PATIENCE) == "any"


def test_what_goes_wrong_for_the_other_is_not_raised_in_who_hands_on(
    line: Line[str], threads: ThreadPoolExecutor
) -> None:
    def fails(_: str) -> bool:
        raise OSError

    line.enter(None, takes)
    (other,) = stand(line, threads, 1, goes=fails)
    assert not line.hand_on("permit")
    line.leave()
    assert other.result(PATIENCE) is None  # first now, and meets the error itself


def test_who_says_no_while_the_first_leaves_is_first_then(
    line: Line[str], threads: ThreadPoolExecutor
) -> None:
    def leaves(_: str) -> bool:
        line.leave()
        return False

    line.enter(None, takes)
    (other,) = stand(line, threads, 1, goes=leaves)
    assert not line.hand_on("permit")
    assert other.result(PATIENCE) is None


def test_who_runs_out_of_time_while_being_handed_something_takes_it(
    line: Line[str], threads: ThreadPoolExecutor
) -> None:
    deadline = time.monotonic() + 0.2

    def goes(_: str) -> bool:
        while time.monotonic() < deadline + 0.05:
            pass
        return True

    line.enter(None, takes)
    (late,) = stand(line, threads, 1, deadline, goes)
    assert line.hand_on("permit")
    assert late.result(PATIENCE) == "permit"
