"""Calls of many groups overlap, each within its limits; what is paid for is never lost."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from prspark.engine.overlap import Ask, AskOnce, Overlap, Request
from prspark.judges.limits import OpenGate
from prspark.judges.protocol import CorrectnessRequest, Verdict, call_deadline
from prspark.metric.reasons import UnscoredReason

PATIENCE = 30  # seconds; only a broken overlap waits so long
GOOD = Verdict(1.0, "good", attempts=1)


class FailedError(Exception):
    """What a call of these tests ends with."""


class Meter:
    """A call that says how many are in flight at once, and how many of each group."""

    def __init__(self, work: Callable[[str], None] = lambda _: None) -> None:
        self._work = work
        self._lock = threading.Lock()
        self.now, self.peak, self.asked = Counter[str](), Counter[str](), Counter[str]()

    def __call__(self, key: str, _: Request) -> Verdict:
        names = ("all", key.partition("-")[0])
        with self._lock:
            self.asked[key] += 1
            for name in names:
                self.now[name] += 1
                self.peak[name] = max(self.peak[name], self.now[name])
        try:
            self._work(key)
        finally:
            with self._lock:
                self.now.subtract(names)
        return GOOD._replace(reason=key)


class GroupGate(OpenGate):
    """An open gate that says how many groups are in flight at once."""

    def __init__(self) -> None:
        super().__init__()
        self._groups = threading.Lock()
        self.now = self.peak = 0

    @contextmanager
    def group(self) -> Iterator[None]:
        with self._groups:
            self.now += 1
            self.peak = max(self.peak, self.now)
        try:
            yield
        finally:
            with self._groups:
                self.now -= 1


def requests(group: str, count: int) -> dict[str, Request]:
    return {f"{group}-{n}": CorrectnessRequest(group, str(n)) for n in range(count)}


@contextmanager
def overlap(ask: Ask, gate: OpenGate | None = None, **limits: Any) -> Iterator[Overlap[str]]:
    given = {"groups": 2, "calls_per_group": 2, "group_timeout_seconds": 900.0, **limits}
    running: Overlap[str] = Overlap(ask, gate or OpenGate(), **given)
    try:
        yield running
    finally:
        running.close()


def wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE), "nobody came"


def meeting(parties: int) -> Callable[[str], None]:
    """Each call waits until so many are in flight."""
    barrier = threading.Barrier(parties, timeout=PATIENCE)

    def work(_: str) -> None:
        barrier.wait()

    return work


# --- overlapping


def test_every_request_of_every_group_gets_its_verdict() -> None:
    with overlap(Meter()) as running:
        for group in ("a", "b", "c"):
            running.submit(group, requests(group, 3))
        done = dict(running.done(wait=True))
    assert {group: sorted(verdicts) for group, verdicts in done.items()} == {
        group: [f"{group}-{n}" for n in range(3)] for group in ("a", "b", "c")
    }
    assert all(verdict.reason == key for verdicts in done.values() for key, verdict in verdicts.items())


def test_calls_of_different_groups_are_in_flight_together() -> None:
    meter = Meter(meeting(4))
    with overlap(meter) as running:
        running.submit("a", requests("a", 2))
        running.submit("b", requests("b", 2))
        assert len(list(running.done(wait=True))) == 2
    assert meter.peak == {"all": 4, "a": 2, "b": 2}


def test_limits_are_reached_and_never_exceeded() -> None:
    meter, gate = Meter(meeting(6)), GroupGate()
    with overlap(meter, gate, groups=3, calls_per_group=2) as running:
        for group in "abcdef":
            running.submit(group, requests(group, 4))
            list(running.done(wait=False))
        list(running.done(wait=True))
    assert (meter.peak["all"], gate.peak) == (6, 3)
    assert {meter.peak[group] for group in "abcdef"} == {2}
    assert sum(meter.asked.values()) == 24


def test_end_of_one_group_does_not_hold_back_the_next() -> None:
    hold = threading.Event()
    meter = Meter(lambda key: wait(hold) if key == "slow-0" else None)
    with overlap(meter) as running:
        running.submit("slow", requests("slow", 1))
        for group in ("b", "c", "d"):
            running.submit(group, requests(group, 2))
        done = running.done(wait=True)
        assert [next(done)[0] for _ in range(3)] == ["b", "c", "d"]
        hold.set()
        assert [group for group, _ in done] == ["slow"]


def test_slow_call_does_not_hold_back_the_others_of_its_group() -> None:
    last = threading.Event()

    def work(key: str) -> None:
        if key == "a-0":
            wait(last)
        elif key == "a-9":
            last.set()

    with overlap(Meter(work)) as running:
        running.submit("a", requests("a", 10))
        [(_, verdicts)] = running.done(wait=True)
    assert len(verdicts) == 10


def test_done_without_waiting_does_not_wait() -> None:
    hold = threading.Event()
    with overlap(Meter(lambda _: wait(hold))) as running:
        running.submit("a", requests("a", 1))
        assert list(running.done(wait=False)) == []
        hold.set()
        assert [group for group, _ in running.done(wait=True)] == ["a"]
        assert list(running.done(wait=True)) == []


def test_few_groups_wait_inside_however_many_there_are() -> None:
    hold, handed_in = threading.Event(), []
    with overlap(Meter(lambda _: wait(hold)), groups=1) as running:

        def hand_in() -> None:
            for n in range(9):
                running.submit(str(n), requests(str(n), 1))
                handed_in.append(n)

        feeder = threading.Thread(target=hand_in)
        feeder.start()
        feeder.join(0.1)  # that nothing more happens can't be awaited
        assert len(handed_in) <= 3  # one in flight, two waiting
        hold.set()
        feeder.join(PATIENCE)
        assert len(list(running.done(wait=True))) == 9


def test_group_without_requests_is_done_at_once() -> None:
    with overlap(Meter()) as running:
        running.submit("a", {})
        assert list(running.done(wait=True)) == [("a", {})]


def test_call_knows_when_the_time_of_its_group_is_up() -> None:
    seen: list[float | None] = []
    before = time.monotonic()
    with overlap(Meter(lambda _: seen.append(call_deadline.get()))) as running:
        running.submit("a", requests("a", 1))
        list(running.done(wait=True))
    [deadline] = seen
    assert deadline is not None
    assert before + 900 <= deadline <= time.monotonic() + 900


def test_group_whose_time_is_up_is_unscored_without_a_call() -> None:
    meter = Meter()
    with overlap(meter, group_timeout_seconds=0.0) as running:
        running.submit("a", requests("a", 3))
        [(_, verdicts)] = running.done(wait=True)
    assert set(verdicts.values()) == {Verdict(None, None, UnscoredReason.GROUP_TIMEOUT)}
    assert (len(verdicts), meter.asked) == (3, {})


def test_calls_that_were_made_in_time_keep_their_verdicts() -> None:
    def work(_: str) -> None:
        deadline = call_deadline.get()
        assert deadline is not None
        while time.monotonic() < deadline:
            time.sleep(max(0.0, deadline - time.monotonic()))

    meter = Meter(work)
    with overlap(meter, calls_per_group=1, group_timeout_seconds=0.05) as running:
        running.submit("a", requests("a", 3))
        [(_, verdicts)] = running.done(wait=True)
    assert [verdicts[f"a-{n}"].unscored_reason for n in range(3)] == [None, "group_timeout", "group_timeout"]
    assert meter.asked == {"a-0": 1}


# --- errors


def fail_at(key: str, started: threading.Event | None = None) -> Callable[[str], None]:
    def work(asked: str) -> None:
        if asked == key:
            if started:
                wait(started)
            raise FailedError(key)

    return work


@pytest.mark.parametrize("error", [FailedError("x"), IndexError("x"), KeyError("x")])
def test_error_in_a_call_is_raised_as_it_is(error: Exception) -> None:
    def ask(*_: object) -> Verdict:
        raise error

    with overlap(ask) as running:
        running.submit("a", requests("a", 3))
        with pytest.raises(type(error), match="x") as caught:
            list(running.done(wait=True))
    assert caught.value is error


def test_error_is_raised_before_any_group_that_it_cut_short() -> None:
    with overlap(Meter(fail_at("b-0")), groups=4) as running:
        for group in "abcd":
            running.submit(group, requests(group, 50))
        whole: list[dict[str, Verdict]] = []
        with pytest.raises(FailedError):
            whole.extend(verdicts for _, verdicts in running.done(wait=True))
    assert all(len(verdicts) == 50 for verdicts in whole)


def test_error_stops_the_other_calls_of_its_group_and_of_others() -> None:
    inside, failed = threading.Semaphore(0), threading.Event()

    def work(key: str) -> None:
        if key == "a-0":
            assert all(inside.acquire(timeout=PATIENCE) for _ in range(3))  # all lanes are busy
            failed.set()
            raise FailedError(key)
        inside.release()
        wait(failed)
        wait(stopped)

    meter, gate = Meter(work), GroupGate()
    with overlap(meter, gate) as running:
        stopped = running._stop  # nothing else tells that no lane takes a further call
        running.submit("a", requests("a", 100))
        running.submit("b", requests("b", 100))
        with pytest.raises(FailedError):
            list(running.done(wait=True))
        wait(stopped)
    assert meter.asked == dict.fromkeys(["a-0", "a-1", "b-0", "b-1"], 1)


def test_call_in_flight_is_finished_before_close_returns() -> None:
    hold, inside, written = threading.Event(), threading.Event(), []

    def ask(key: str, _: Request) -> Verdict:
        if key == "a-0":
            wait(inside)
            raise FailedError
        inside.set()
        wait(hold)
        written.append(key)
        return GOOD

    running: Overlap[str] = Overlap(ask, OpenGate(), groups=1, calls_per_group=2, group_timeout_seconds=900)
    running.submit("a", requests("a", 2))
    with pytest.raises(FailedError):
        next(running.done(wait=True))
    closer = threading.Thread(target=running.close)
    closer.start()
    assert written == []
    hold.set()
    closer.join(PATIENCE)
    assert (closer.is_alive(), written) == (False, ["a-1"])


def test_close_starts_no_further_call() -> None:
    hold, inside = threading.Event(), threading.Semaphore(0)

    def work(_: str) -> None:
        inside.release()
        wait(hold)

    meter = Meter(work)
    running: Overlap[str] = Overlap(meter, OpenGate(), groups=1, calls_per_group=2, group_timeout_seconds=900)
    running.submit("a", requests("a", 9))
    running.submit("b", requests("b", 9))
    assert all(inside.acquire(timeout=PATIENCE) for _ in range(2))
    running._stop.set()  # as close does first
    hold.set()
    running.close()
    assert meter.asked == {"a-0": 1, "a-1": 1}


def test_close_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with overlap(Meter()) as running:
        running.submit("a", requests("a", 4))
        list(running.done(wait=True))
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_group_that_can_not_start_is_an_error_and_not_a_hang() -> None:
    class ShutGate(OpenGate):
        @contextmanager
        def group(self) -> Iterator[None]:
            raise FailedError("no permit")
            yield

    with overlap(Meter(), ShutGate()) as running:
        running.submit("a", requests("a", 1))
        with pytest.raises(FailedError, match="no permit"):
            list(running.done(wait=True))


# --- asking once

REQUEST = CorrectnessRequest("q", "a")


def test_key_is_asked_once_however_often_it_is_wanted() -> None:
    meter = Meter()
    once = AskOnce(meter)
    assert [once("a", REQUEST) for _ in range(3)] == [GOOD._replace(reason="a")] * 3
    assert once("b", REQUEST).reason == "b"
    assert meter.asked == {"a": 1, "b": 1}


def test_key_that_two_groups_want_at_the_same_time_is_asked_once() -> None:
    asked, both_want = Counter[str](), threading.Barrier(2, timeout=PATIENCE)

    def ask(key: str, _: Request) -> Verdict:
        asked[key] += 1
        return GOOD._replace(reason=key)

    once = AskOnce(ask)

    def together(key: str, request: Request) -> Verdict:
        both_want.wait()
        return once(key, request)

    with overlap(together, calls_per_group=1) as running:
        for group in ("a", "b"):
            running.submit(group, {"same": REQUEST})
        done = dict(running.done(wait=True))
    assert done == {group: {"same": GOOD._replace(reason="same")} for group in ("a", "b")}
    assert asked == {"same": 1}


def test_key_that_is_wanted_while_its_call_is_in_flight_waits_for_it() -> None:
    hold, inside, waiting = threading.Event(), threading.Event(), threading.Event()

    def work(_: str) -> None:
        inside.set()
        wait(hold)

    meter, answers = Meter(work), []
    once = AskOnce(meter)

    def want(announce: threading.Event) -> None:
        announce.set()
        answers.append(once("a", REQUEST))

    first = threading.Thread(target=want, args=(threading.Event(),))
    first.start()
    wait(inside)
    second = threading.Thread(target=want, args=(waiting,))
    second.start()
    wait(waiting)
    assert answers == []
    hold.set()
    for thread in (first, second):
        thread.join(PATIENCE)
    assert (len(answers), meter.asked) == (2, {"a": 1})


def test_all_who_want_a_key_get_its_error() -> None:
    meter = Meter(fail_at("a"))
    once = AskOnce(meter)
    for _ in range(2):
        with pytest.raises(FailedError):
            once("a", REQUEST)
    assert meter.asked == {"a": 1}
