"""Judges many groups at once in one task: calls of different groups overlap, within their limits. No Spark.

Threads, not tasks: a runner takes a group, up to `calls_per_group` lanes make its calls. The
executor's limits are the gate's; the end of one group does not hold back the next.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from queue import Empty, Queue
from typing import Generic, TypeVar

from prspark.judges.limits import Gate
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest, Verdict, call_deadline
from prspark.metric.reasons import UnscoredReason

Request = CorrectnessRequest | RobustnessRequest
Ask = Callable[[str, Request], Verdict]
Item = TypeVar("Item")

_TIMED_OUT = Verdict(None, None, UnscoredReason.GROUP_TIMEOUT)


class AskOnce:
    """Asks each key once, however many groups of the task want it, and however many at the same time."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._asked: dict[str, Future[Verdict]] = {}

    def __call__(self, key: str, request: Request) -> Verdict:
        """Return the verdict for a key, from the call under way if there is one."""
        while True:
            with self._lock:
                answer = self._asked.get(key)
                if mine := answer is None:
                    answer = self._asked[key] = Future()
            if mine:
                self._answer(answer, key, request)
            verdict = answer.result()
            if mine or verdict.unscored_reason is not UnscoredReason.GROUP_TIMEOUT:
                return verdict
            # another group ran out of its time; this one may have some left
            with self._lock:
                if self._asked.get(key) is answer:
                    del self._asked[key]

    def _answer(self, answer: "Future[Verdict]", key: str, request: Request) -> None:
        try:
            answer.set_result(self._ask(key, request))
        except BaseException as error:  # noqa: BLE001  handed to all who wait, raised by result()
            answer.set_exception(error)


class Overlap(Generic[Item]):
    """Runs the missing requests of many groups; results come back in the order they are done."""

    def __init__(
        self, ask: Ask, gate: Gate, *, groups: int, calls_per_group: int, group_timeout_seconds: float
    ) -> None:
        self._ask = ask
        self._gate = gate
        self._calls_per_group = calls_per_group
        self._group_timeout_seconds = group_timeout_seconds
        self._todo: Queue[tuple[Item, dict[str, Request]] | None] = Queue(maxsize=2 * groups)
        self._done: Queue[tuple[Item, dict[str, Verdict]] | BaseException] = Queue()
        self._stop = threading.Event()
        self._pending = 0
        self._lanes = ThreadPoolExecutor(groups * calls_per_group, thread_name_prefix="prspark-lane")
        self._runners = [
            threading.Thread(target=self._run, name=f"prspark-group-{i}", daemon=True) for i in range(groups)
        ]
        for runner in self._runners:
            runner.start()

    def submit(self, item: Item, requests: dict[str, Request]) -> None:
        """Hand in a group; waits while enough groups are waiting already."""
        self._pending += 1
        self._todo.put((item, requests))

    def done(self, *, wait: bool) -> Iterator[tuple[Item, dict[str, Verdict]]]:
        """Yield the groups that are done; with `wait`, until none is left.

        Raises:
            Exception: whatever ended a call (the judge refuses everything, the journal can't be written).
        """
        while self._pending:
            try:
                result = self._done.get(block=wait)
            except Empty:
                return
            if isinstance(result, BaseException):
                raise result
            self._pending -= 1
            yield result

    def close(self) -> None:
        """Start no further call, and wait for those in flight: they are paid for."""
        self._stop.set()
        for _ in self._runners:
            self._todo.put(None)
        for runner in self._runners:
            runner.join()
        self._lanes.shutdown()

    def _run(self) -> None:
        while (task := self._todo.get()) is not None:
            item, requests = task
            try:
                self._done.put((item, self._judge_group(requests)))
            except BaseException as error:  # noqa: BLE001  raised again by done()
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._done.put(error)  # before the stop, so that it is read before any group it cuts short
        self._stop.set()

    def _judge_group(self, requests: dict[str, Request]) -> dict[str, Verdict]:
        if self._stop.is_set():
            return {}
        verdicts: dict[str, Verdict] = {}
        todo = deque(requests.items())
        with self._gate.group():
            deadline = time.monotonic() + self._group_timeout_seconds
            count = min(self._calls_per_group, len(todo))
            wait_for([self._lanes.submit(self._lane, todo, verdicts, deadline) for _ in range(count)])
        return verdicts

    def _lane(self, todo: deque[tuple[str, Request]], verdicts: dict[str, Verdict], deadline: float) -> None:
        """Make one call of the group after the other; an error stops the lanes of all groups at once."""
        call_deadline.set(deadline)
        try:
            while not self._stop.is_set() and (task := _next(todo)):
                key, request = task
                verdicts[key] = self._ask(key, request) if time.monotonic() < deadline else _TIMED_OUT
        except BaseException as error:  # noqa: BLE001  raised again by done()
            self._fail(error)


def _next(todo: deque[tuple[str, Request]]) -> tuple[str, Request] | None:
    try:
        return todo.popleft()
    except IndexError:
        return None
