"""How long to wait before a call is sent again."""

import math
from email.utils import parsedate_to_datetime

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 20.0
LONGEST_RETRY_AFTER = 60.0
"""A server may ask for hours (a daily quota); a job that sleeps for hours looks dead, so ask sooner."""


def pause_seconds(failures: int, *, retry_after: float | None, jitter: float) -> float:
    """Return the pause after so many failed sends.

    `min(0.5 * 2 ** (failures - 1), 20) * (0.5 + jitter / 2)`, on top of what the server asked for:
    all workers would come back in the same instant otherwise.

    Args:
        failures: sends of this call that failed, 1 or more.
        retry_after: seconds that the server asked for, if it did.
        jitter: uniform in 0..1.
    """
    backoff = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_SECONDS) * (0.5 + jitter / 2)
    if retry_after is None:
        return backoff
    return retry_after + min(backoff, FIRST_SECONDS)


def read_retry_after(value: str | None, *, now: float) -> float | None:
    """Read a `Retry-After` header: seconds, or an HTTP date; None if absent or unreadable.

    Args:
        value: of the header.
        now: Unix time.

    Returns:
        Seconds from now, in 0..`LONGEST_RETRY_AFTER`.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER) if math.isfinite(seconds) else None
