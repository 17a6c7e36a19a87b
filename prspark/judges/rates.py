"""When the next call may be sent and how many may be in flight: spaced rates, cool-down, adaptation."""

import os
import random
import struct
import time
from collections.abc import Callable
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

from prspark.judges.permits import LockFile

USED_SHARE = 0.98  # of an allowed rate; the rest pays for the one send more that any closed window can hold
CATCH_UP_SECONDS = 0.1  # lateness that later sends make up for; below 2 % of 10 s, so no 10 s hold too many
LONGEST_COOL_DOWN = 60.0  # seconds; some endpoints ask for hours
FIRST_BACKOFF = 0.5  # seconds, where a 429 brings no Retry-After; doubles from 429 to 429
COOL_DOWN_SPREAD = 0.1  # executors that were throttled together should not come back together
THROTTLED_MEMORY = 1 / 16  # weight of the newest answer in the share of throttled ones
FORGOTTEN_SHARE = 0.001  # of throttled answers: as good as none


class Rates(NamedTuple):
    """The fixed limits of one executor; the rates as seconds between requests or tokens, 0 is no limit."""

    in_flight: int
    request_seconds: float = 0.0
    token_seconds: float = 0.0

    @property
    def any(self) -> bool:
        """Say whether there is a rate at all."""
        return bool(self.request_seconds or self.token_seconds)


class Pace(NamedTuple):
    """What the workers of an executor share; times are `time.monotonic()`, one clock for a whole machine."""

    allowed: float
    request_at: float = 0.0
    token_at: float = 0.0
    cool_until: float = 0.0
    throttled_share: float = 1.0
    shrunk_at: float = 0.0
    backoffs: float = 0.0
    failures: float = 0.0


PACE = struct.Struct(f"<{len(Pace._fields)}d")


def seconds_each(per_minute: float, *, executors: int = 1) -> float:
    """Return the seconds between sends of one executor that keep the job just under a rate; 0 is no rate."""
    return 60 * executors / (per_minute * USED_SHARE) if per_minute else 0.0


def send(pace: Pace, *, now: float, tokens: int, rates: Rates) -> tuple[Pace, float]:
    """Send now, and return the pace after it and 0; or return the pace as it is and the seconds to wait.

    This is the generic cell rate algorithm (ITU-T I.371): each rate is one time, that of its next send. A
    send goes at that time and moves it on by its cost. One that comes late moves it from where it was, at
    most from `CATCH_UP_SECONDS` back: lateness costs no throughput, and idle time saves up no more than that.
    One request may take more tokens than are left: it goes, and the next one waits for them.
    """
    ready = pace.cool_until
    if rates.request_seconds:
        ready = max(ready, pace.request_at)
    if rates.token_seconds:
        ready = max(ready, pace.token_at)
    if now < ready:
        return pace, ready - now
    request_at = _moved(pace.request_at, now, rates.request_seconds)
    token_at = _moved(pace.token_at, now, rates.token_seconds * tokens)
    return pace._replace(request_at=request_at, token_at=token_at), 0.0


def _moved(at: float, now: float, cost: float) -> float:
    return (max(at, now - CATCH_UP_SECONDS) if at else now) + cost


def throttle(pace: Pace, *, now: float, sent_at: float, retry_after: float | None, luck: float) -> Pace:
    """Return the pace after a 429.

    All sends wait for `retry_after` seconds, or for a backoff that doubles up to the same bound; `luck`,
    uniform in 0..1, spreads the waits of several executors. The number allowed in flight shrinks by half the
    recent share of throttled answers (as in DCTCP, RFC 8257): a few 429s among many answers cost little,
    nothing but 429s costs half. A call that was under way (`sent_at`) when it last shrank tells nothing new:
    it prolongs the wait at most.
    """
    news = sent_at >= pace.shrunk_at
    share = pace.throttled_share + THROTTLED_MEMORY * (1 - pace.throttled_share)
    wait = _cool_down(pace, retry_after, luck, share=share, news=news)
    pace = pace._replace(cool_until=max(pace.cool_until, now + wait), throttled_share=share)
    if not news:
        return pace
    allowed = max(1.0, pace.allowed * (1 - share / 2))
    return pace._replace(allowed=allowed, shrunk_at=now, backoffs=pace.backoffs + 1)


def _cool_down(pace: Pace, retry_after: float | None, luck: float, *, share: float, news: bool) -> float:
    if retry_after is not None and retry_after > 0:
        return min(retry_after, LONGEST_COOL_DOWN) * (1 + COOL_DOWN_SPREAD * luck)
    if not news:
        return 0.0
    # as long as the recent share of throttled answers says: one 429 among many answers is no sign of overload
    longest = FIRST_BACKOFF * 2 ** min(pace.backoffs, 10) * share
    return min(longest, LONGEST_COOL_DOWN) * (1 + luck) / 2


def succeed(pace: Pace, *, limit: int) -> Pace:
    """Return the pace after a success: as many successes as are allowed in flight allow one more."""
    share = pace.throttled_share * (1 - THROTTLED_MEMORY)
    return pace._replace(
        allowed=min(limit, pace.allowed + 1 / pace.allowed),
        throttled_share=share if share > FORGOTTEN_SHARE else 0.0,
        backoffs=0.0,
        failures=0.0,
    )


class SharedPace:
    """The pace of one executor, in a small file that its workers map into memory and change under a lock.

    It is read without the lock: that takes no system call, and a look at half a change does no harm, because
    every decision that counts is taken again under the lock.
    """

    def __init__(self, path: Path, rates: Rates) -> None:
        self._rates = rates
        self._lock = LockFile(path)
        with self._lock.held() as fd:
            os.ftruncate(fd, PACE.size)  # zeros if new
            self._shared = mmap(fd, PACE.size)

    def allowed(self) -> int:
        """Return how many calls may be in flight at present, 1 to the limit."""
        return int(self._read().allowed)

    def send(self, tokens: int) -> float:
        """Count a send of so many tokens and return 0, or return the seconds to wait before asking again."""
        after, seconds = self._after(tokens)
        if seconds or not self._rates.any:
            return seconds
        with self._lock.held():
            after, seconds = self._after(tokens)
            self._write(after)
        return seconds

    def _after(self, tokens: int) -> tuple[Pace, float]:
        return send(self._read(), now=time.monotonic(), tokens=tokens, rates=self._rates)

    def throttled(self, *, sent_at: float, retry_after: float | None) -> None:
        """Take note of a 429; see `throttle`."""
        now, luck = time.monotonic(), random.random()  # noqa: S311  no secret hangs on it
        self._update(
            lambda pace: throttle(pace, now=now, sent_at=sent_at, retry_after=retry_after, luck=luck)
        )

    def succeeded(self) -> None:
        """Take note of a success; see `succeed`. Where all goes well that changes nothing, and takes no lock."""
        step = partial(succeed, limit=self._rates.in_flight)
        pace = self._read()
        if step(pace) != pace:
            self._update(step)

    def failed(self) -> int:
        """Return how many failures in a row this one makes."""
        return int(self._update(lambda pace: pace._replace(failures=pace.failures + 1)).failures)

    def _update(self, step: Callable[[Pace], Pace]) -> Pace:
        with self._lock.held():
            pace = step(self._read())
            self._write(pace)
        return pace

    def _write(self, pace: Pace) -> None:
        self._shared[:] = PACE.pack(*pace)

    def _read(self) -> Pace:
        pace = Pace._make(PACE.unpack(self._shared))
        return pace if pace.allowed else Pace(self._rates.in_flight)
