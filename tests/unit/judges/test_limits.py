"""The gate holds its limits over real processes, also when they are killed."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from prspark.judges import permits
from prspark.judges.config import LimitsConfig
from prspark.judges.limits import ExecutorLimits, Gate, GroupTimeoutError, OpenGate, executor_folder
from prspark.judges.protocol import call_deadline

# processes that share no lock with the test's own, from a server that has done the slow imports once
FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["pytest", "prspark.judges.limits"])
HOLD_SECONDS = 0.002  # how long a call of these tests takes
PATIENCE = 60  # seconds; only a broken gate waits so long


def gate_of(folder: Path, **limits: Any) -> ExecutorLimits:
    return ExecutorLimits(folder, LimitsConfig(**limits))


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    token = call_deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        call_deadline.reset(token)


@contextmanager
def processes(count: int, target: Callable[..., None], *args: Any) -> Iterator[list[Connection]]:
    """Run `target(pipe, number, *args)` in so many processes; gives the test's ends of the pipes."""
    pipes = [FRESH.Pipe() for _ in range(count)]
    running = [FRESH.Process(target=target, args=(theirs, n, *args)) for n, (_, theirs) in enumerate(pipes)]
    for process in running:
        process.start()
    try:
        yield [ours for ours, _ in pipes]
    finally:
        for process in running:
            process.kill()
            process.join()
            process.close()
        for pair in pipes:
            for end in pair:
                end.close()


def answer(pipe: Connection) -> Any:
    assert pipe.poll(PATIENCE), "the other process does not answer"
    return pipe.recv()


def in_threads(count: int, work: Callable[[], None]) -> None:
    with ThreadPoolExecutor(count) as pool:
        for each in [pool.submit(work) for _ in range(count)]:
            each.result()


class HighWater:
    """How many are inside at once over all processes, and the most there ever were."""

    def __init__(self) -> None:
        self.now, self.peak = FRESH.Value("i"), FRESH.Value("i")

    def __enter__(self) -> None:
        with self.now.get_lock():
            self.now.value += 1
            self.peak.value = max(self.peak.value, self.now.value)

    def __exit__(self, *exc: object) -> None:
        with self.now.get_lock():
            self.now.value -= 1


def churn(
    pipe: Connection, _: int, folder: Path, limits: dict[str, Any], enter: str, inside: HighWater
) -> None:
    gate = gate_of(folder, **limits)
    entry: Callable[[], AbstractContextManager[None]] = getattr(gate, enter)

    def work() -> None:
        for _ in range(20):
            with entry(), inside:
                time.sleep(HOLD_SECONDS)

    pipe.send("ready")
    pipe.recv()
    in_threads(10, work)
    pipe.send("done")


@pytest.mark.parametrize(
    ("enter", "limits"), [("call", {"executor_concurrency": 7}), ("group", {"max_concurrency": 3})]
)
def test_four_processes_of_ten_threads_reach_the_limit_and_never_exceed_it(
    tmp_path: Path, enter: str, limits: dict[str, Any]
) -> None:
    inside = HighWater()
    with processes(4, churn, tmp_path, limits, enter, inside) as pipes:
        assert [answer(pipe) for pipe in pipes] == ["ready"] * 4
        for pipe in pipes:
            pipe.send("go")
        assert [answer(pipe) for pipe in pipes] == ["done"] * 4
    assert inside.peak.value == next(iter(limits.values()))
    assert gate_of(tmp_path, **limits).in_flight() == 0


def test_two_gates_on_one_folder_in_one_process_share_the_limit(tmp_path: Path) -> None:
    first, second = (gate_of(tmp_path, executor_concurrency=1) for _ in range(2))
    with first.call(), deadline(0.1), pytest.raises(GroupTimeoutError), second.call():
        pass


def hold(pipe: Connection, _: int, folder: Path, count: int) -> None:
    gate = gate_of(folder, executor_concurrency=count)
    with ExitStack() as held:
        for _ in range(count):
            held.enter_context(gate.call())
        pipe.send(os.getpid())
        pipe.recv()


def test_a_killed_process_frees_its_permits(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, executor_concurrency=5)
    with processes(1, hold, tmp_path, 5) as (pipe,), ExitStack() as taken:
        holder = answer(pipe)
        assert gate.in_flight() == 5
        with deadline(0.1), pytest.raises(GroupTimeoutError), gate.call():
            pass
        os.kill(holder, signal.SIGKILL)
        with deadline(PATIENCE):
            for _ in range(5):
                taken.enter_context(gate.call())


def wait_at_the_turnstile(pipe: Connection, number: int, folder: Path) -> None:
    gate = gate_of(folder, executor_concurrency=1)
    threading.Thread(target=lambda: (pipe.send(number), gate.call().__enter__()), daemon=True).start()
    pipe.recv()


def test_a_process_killed_while_it_waits_leaves_the_way_free(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, executor_concurrency=1)
    with gate.call(), processes(2, wait_at_the_turnstile, tmp_path) as pipes:
        assert [answer(pipe) for pipe in pipes] == [0, 1]
    with deadline(PATIENCE), gate.call():
        assert gate.in_flight() == 1


def test_forty_waiting_threads_cost_little_cpu(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, executor_concurrency=40)

    def work() -> None:
        with gate.call():
            pass

    with processes(1, hold, tmp_path, 40) as (pipe,), ThreadPoolExecutor(40) as pool:
        answer(pipe)
        waiting = [pool.submit(work) for _ in range(40)]
        before = time.process_time()
        threading.Event().wait(1.5)
        spent = time.process_time() - before
        assert not any(each.done() for each in waiting)
        pipe.send("let go")
        for each in waiting:
            each.result(PATIENCE)
    assert spent < 0.15  # a tenth of one core; the full scan of all permits is 20 times a second


def count_calls(pipe: Connection, number: int, folder: Path, total: Any, target: int) -> None:
    gate = gate_of(folder, executor_concurrency=2)
    mine = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal mine
        while True:
            with gate.call():
                with total.get_lock():
                    if total.value >= target:
                        return
                    total.value += 1
                with lock:
                    mine += 1
                time.sleep(HOLD_SECONDS)

    pipe.send(number)
    pipe.recv()
    in_threads(8, work)
    pipe.send(mine)


def test_two_processes_take_turns(tmp_path: Path) -> None:
    with processes(2, count_calls, tmp_path, FRESH.Value("i"), 600) as pipes:
        assert [answer(pipe) for pipe in pipes] == [0, 1]
        for pipe in pipes:
            pipe.send("go")
        shares = [answer(pipe) / 600 for pipe in pipes]
    assert sum(shares) == 1
    assert min(shares) >= 0.25


def see_429(pipe: Connection, _: int, folder: Path, retry_after: float) -> None:
    gate = gate_of(folder)
    with gate.call():
        now = time.monotonic()
        gate.throttled(retry_after)
    pipe.send(now)
    pipe.recv()


def test_a_429_in_one_process_holds_back_another(tmp_path: Path) -> None:
    gate = gate_of(tmp_path)
    with processes(1, see_429, tmp_path, 1.0) as (pipe,):
        seen = answer(pipe)
        with gate.call():
            waited = time.monotonic() - seen
    assert 1.0 <= waited < 3.0
    assert gate.allowed() == 20


def test_deadline_ends_a_wait_for_the_cool_down(tmp_path: Path) -> None:
    gate = gate_of(tmp_path)
    gate.throttled(60)
    with deadline(0.1), pytest.raises(GroupTimeoutError), gate.call():
        pass
    assert gate.in_flight() == 0


def test_deadline_in_the_past_raises_even_where_a_permit_is_free(tmp_path: Path) -> None:
    gate = gate_of(tmp_path)
    for enter in (gate.call, gate.group):
        with deadline(-1), pytest.raises(TimeoutError), enter():
            pass
    assert gate.in_flight() == 0


def test_deadline_ends_a_wait_behind_another_process_and_behind_another_thread(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, executor_concurrency=1)

    def give_up() -> None:
        with deadline(0.3), pytest.raises(GroupTimeoutError), gate.call():
            pass

    with gate.call(), processes(1, wait_at_the_turnstile, tmp_path) as (pipe,):
        answer(pipe)
        start = time.monotonic()
        in_threads(3, give_up)
        assert time.monotonic() - start < 5


def test_deadline_ends_a_wait_behind_a_thread_that_has_all_the_time(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, executor_concurrency=1)

    def wait() -> None:
        with gate.call():
            pass

    with ThreadPoolExecutor(1) as pool:
        with gate.call():
            patient = pool.submit(wait)
            while not gate._calls._line._somebody_is_first:
                pass
            with deadline(0.1), pytest.raises(GroupTimeoutError), gate.call():
                pass
            assert not patient.done()
        patient.result(PATIENCE)


def test_a_release_wakes_another_process_without_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "RESCAN_SECONDS", 2 * PATIENCE)
    gate = gate_of(tmp_path, executor_concurrency=1)
    with processes(1, hold, tmp_path, 1) as (pipe,):
        answer(pipe)
        with deadline(0.1), pytest.raises(GroupTimeoutError), gate.call():
            pass
        pipe.send("let go")
        with deadline(PATIENCE), gate.call():
            pass


def test_fewer_are_in_flight_after_429s_and_the_limit_is_reached_again(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, executor_concurrency=4)
    gate.throttled(0.01)
    assert gate.allowed() == 2
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(gate.call())
        with deadline(0.2), pytest.raises(GroupTimeoutError), gate.call():
            pass
    for _ in range(100):
        gate.succeeded()
    assert gate.allowed() == 4
    with ExitStack() as held, deadline(PATIENCE):
        for _ in range(4):
            held.enter_context(gate.call())
        assert gate.in_flight() == 4


def send_for(pipe: Connection, _: int, folder: Path, calls: int) -> None:
    gate = gate_of(folder, requests_per_minute=6000)
    times: list[float] = []

    def work() -> None:
        for _ in range(calls // 5):
            with gate.call():
                times.append(time.monotonic())

    pipe.send("ready")
    pipe.recv()
    in_threads(5, work)
    pipe.send(times)


def test_the_rate_holds_over_processes_in_any_window_and_is_used(tmp_path: Path) -> None:
    with processes(3, send_for, tmp_path, 70) as pipes:
        assert [answer(pipe) for pipe in pipes] == ["ready"] * 3
        for pipe in pipes:
            pipe.send("go")
        times = sorted(time for pipe in pipes for time in answer(pipe))
    assert len(times) == 210
    # 98 a second, 0.1 s of lateness made up for, and as much again for the test's own look at the clock
    for window in (0.2, 0.5, 1.0):
        most = max(bisect_right(times, first + window) - n for n, first in enumerate(times))
        assert most <= 98 * (window + 0.2) + 1
    assert times[-1] - times[0] < 1.1 * 209 / 98


def test_a_rate_is_not_used_up_by_who_waits_for_a_permit(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, executor_concurrency=1, requests_per_minute=60)
    with deadline(10), gate.call():
        began = time.monotonic()
        with deadline(0.05), pytest.raises(GroupTimeoutError), gate.call():
            pass
    with gate.call():
        assert time.monotonic() - began < 1.5  # the next slot is at 1.02 s; a lost one would make it 2.04


def test_a_call_counts_as_sent_when_it_may_go_not_when_its_permit_was_drawn(tmp_path: Path) -> None:
    asked: list[float] = []

    def wait() -> float:
        asked.append(time.monotonic())
        return 0.1 if len(asked) < 3 else 0.0

    assert permits.Permits(tmp_path, 1).take(wait=wait).taken_at >= asked[2]


def test_who_gives_a_permit_back_starts_the_call_that_is_handed_it(tmp_path: Path) -> None:
    gate = ExecutorLimits(tmp_path, LimitsConfig(executor_concurrency=1))
    line = gate._calls._line
    started: list[int] = []

    def call() -> None:
        with gate.call(start=lambda: started.append(threading.get_ident())):
            pass

    with ThreadPoolExecutor(2) as threads:
        with gate.call():
            first = threads.submit(call)
            while not line._somebody_is_first:
                pass
            second = threads.submit(call)
            while not line._behind:
                pass
            assert started == []
        assert started[0] == threading.get_ident()
        first.result()
        second.result()
    assert len(set(started)) == len(started) == 2


def test_failures_in_a_row_are_counted_over_workers_until_a_success(tmp_path: Path) -> None:
    one, other = gate_of(tmp_path), gate_of(tmp_path)
    assert [one.failure(), other.failure(), one.failure()] == [1, 2, 3]
    other.succeeded()
    assert one.failure() == 1


def test_waiting_works_where_the_folder_cannot_hold_a_fifo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "mkfifo", refuse)
    gate, counts = gate_of(tmp_path, executor_concurrency=2), HighWater()

    def work() -> None:
        for _ in range(5):
            with gate.call(), counts:
                time.sleep(HOLD_SECONDS)

    in_threads(6, work)
    assert counts.peak.value == 2


FORK = """
import os, sys, time
from prspark.judges import permits
from prspark.judges.config import LimitsConfig
from prspark.judges.limits import ExecutorLimits
gate = ExecutorLimits(sys.argv[1], LimitsConfig(executor_concurrency=2))
held = gate.call()
held.__enter__()
if os.fork():
    os._exit(0)  # dies without giving its permit back
with gate.call(), gate.call():
    print("took both", flush=True)
    sys.stdin.read()
"""


def test_a_forked_process_neither_keeps_nor_shares_what_its_parent_held(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORK, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"took both\n"
        gate = gate_of(tmp_path, executor_concurrency=2)
        assert gate.in_flight() == 2
        process.communicate()
    with deadline(PATIENCE), gate.call(), gate.call():
        pass


def test_dropped_gates_leave_no_files_open(tmp_path: Path) -> None:
    def use(n: int) -> None:
        gate = gate_of(tmp_path / str(n))
        with gate.group(), gate.call():
            gate.succeeded()

    use(0)
    before = len(os.listdir("/dev/fd"))
    for n in range(1, 20):
        use(n)
    assert len(os.listdir("/dev/fd")) == before


def test_open_gate_lets_all_through_and_counts() -> None:
    gate: Gate = OpenGate()
    with gate.group(), gate.call(tokens=10), gate.call():
        assert gate.in_flight() == 2
    gate.throttled(None)
    assert [gate.failure(), gate.failure()] == [1, 2]
    gate.succeeded()
    assert (gate.failure(), gate.in_flight()) == (1, 0)


def test_executor_folder_is_the_first_local_dir_else_a_folder_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    assert executor_folder() == tmp_path
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    own = executor_folder()
    assert own.is_dir()
    assert executor_folder() == own != tmp_path
