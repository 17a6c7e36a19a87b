"""Progress is what the journal says, read bit by bit, and never ends a run."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prspark.engine.config import make_config
from prspark.engine.journal import Entry, JournalWriter
from prspark.insight import progress
from prspark.insight.progress import Pace, Tally, describe, watching
from prspark.judges.protocol import Verdict
from prspark.metric.reasons import UnscoredReason

RUN = "abc123"
GOOD = Verdict(1.0, "good", None, 1, 100, 20, 0.5, 0)
FAILED = Verdict(None, None, UnscoredReason.RATE_LIMITED, 5, 500, 0, 2.5, 4)


class Screen(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def line(verdict: Verdict = GOOD) -> bytes:
    return json.dumps(Entry.of("k", "correctness", "j", verdict)._asdict()).encode() + b"\n"


def append(journal: Path, data: bytes, name: str = f"{RUN}-all-0-0") -> None:
    with (journal / f"{name}.jsonl").open("ab") as file:
        file.write(data)


def tallied(journal: Path) -> Tally:
    tally = Tally()
    tally.update(str(journal), RUN)
    return tally


# --- the tally


def test_tally_adds_up_the_verdicts_of_all_files(tmp_path: Path) -> None:
    append(tmp_path, line() * 3)
    append(tmp_path, line() + line(FAILED), f"{RUN}-all-1-1")
    tally = tallied(tmp_path)
    assert (tally.done, tally.failed, tally.throttled) == (5, 1, 4)
    assert (tally.prompt_tokens, tally.completion_tokens, tally.latency_seconds) == (900, 80, 4.5)


def test_tally_counts_its_own_run_only(tmp_path: Path) -> None:
    append(tmp_path, line(), "abc1234-all-0-0")
    append(tmp_path, line(), "other-all-0-0")
    assert tallied(tmp_path).done == 0


def test_tally_reads_what_was_appended_since_the_last_time(tmp_path: Path) -> None:
    tally = Tally()
    for count in (0, 2, 2, 5):
        append(tmp_path, line() * (count - tally.done))
        tally.update(str(tmp_path), RUN)
        assert tally.done == count


def test_half_written_line_waits_for_its_other_half(tmp_path: Path) -> None:
    whole = line()
    append(tmp_path, whole + whole[:40])
    tally = tallied(tmp_path)
    assert tally.done == 1
    append(tmp_path, whole[40:-1])
    tally.update(str(tmp_path), RUN)
    assert tally.done == 1
    append(tmp_path, b"\n")
    tally.update(str(tmp_path), RUN)
    assert tally.done == 2


def test_new_files_are_found_while_the_run_goes_on(tmp_path: Path) -> None:
    tally = tallied(tmp_path)
    append(tmp_path, line(), f"{RUN}-all-7-7")
    tally.update(str(tmp_path), RUN)
    assert tally.done == 1


def test_journal_that_is_not_there_yet_says_nothing(tmp_path: Path) -> None:
    assert tallied(tmp_path / "none").done == 0


def test_tally_reads_what_a_writer_wrote(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path), f"{RUN}-all-0-0")
    writer.write(Entry.of("k", "robustness", "j", GOOD))
    assert tallied(tmp_path).done == 1
    writer.close()


# --- the pace


def test_pace_is_verdicts_a_second() -> None:
    pace = Pace()
    assert [pace.rate(now, done) for now, done in ((0.0, 0), (2.0, 10), (4.0, 40))] == [0.0, 5.0, 10.0]


def test_pace_forgets_what_is_half_a_minute_old() -> None:
    pace = Pace()
    for now, done in ((0.0, 0), (10.0, 1000), (20.0, 1000)):
        pace.rate(now, done)
    assert pace.rate(45.0, 1050) == 2.0  # since 20.0: 50 in 25 seconds


def test_pace_of_reports_that_are_minutes_apart_is_that_between_two() -> None:
    pace = Pace()
    pace.rate(0.0, 0)
    pace.rate(100.0, 100)
    assert pace.rate(200.0, 400) == 3.0


# --- the line


def test_line_says_verdicts_rate_in_flight_throttled_failed_cost_and_time() -> None:
    # mean latency 250 / 500 = 0.5 s, so 20/s is 10 in flight; 1500 left at 20/s are 75 s
    tally = Tally(done=500, failed=3, throttled=7, latency_seconds=250.0)
    assert describe(tally, 2000, 20.0, 0.125) == (
        "500 of 2,000 verdicts, 20.0/s, about 10 in flight, "
        "7 x 429, 3 failed, cost 0.1250, time left 00:01:15"
    )


def test_line_at_the_start_knows_no_time_and_no_cost() -> None:
    assert describe(Tally(), 10, 0.0, 0.0) == (
        "0 of 10 verdicts, 0.0/s, about 0 in flight, 0 x 429, 0 failed, time left unknown"
    )


@pytest.mark.parametrize(
    ("left", "rate", "clock"),
    [(0, 1.0, "00:00:00"), (3599, 1.0, "00:59:59"), (90_000, 1.0, "25:00:00"), (1, 1e-6, "277:46:40")],
)
def test_time_left_counts_hours_beyond_a_day(left: int, rate: float, clock: str) -> None:
    assert describe(Tally(), left, rate, 0.0).endswith(f"time left {clock}")


def test_more_verdicts_than_planned_leave_no_time() -> None:
    assert describe(Tally(done=12), 10, 1.0, 0.0).endswith("time left 00:00:00")


@pytest.mark.parametrize(
    ("done", "total", "bar"),
    [
        (0, 8, "[........]"),
        (3, 8, "[###.....]"),
        (8, 8, "[########]"),
        (9, 8, "[########]"),
        (0, 0, "[########]"),
        (1, 1000, "[........]"),
    ],
)
def test_bar_is_as_full_as_the_run(done: int, total: int, bar: str) -> None:
    assert progress._bar(done, total, 8) == bar


# --- watching


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last report comes: what comes before depends on the clock."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 3600.0)
    monkeypatch.setattr(progress, "BAR_SECONDS", 3600.0)


def run_of(journal: Path) -> Any:
    config = make_config({"judge": {"prompt_price": 2.0, "completion_price": 10.0}})
    return SimpleNamespace(journal=str(journal), name=RUN, config=config)


def plan_of(total: int) -> Any:
    return SimpleNamespace(verdicts=total)


def test_log_gets_a_last_line_with_the_cost(tmp_path: Path) -> None:
    screen = Screen()
    with watching(run_of(tmp_path), plan_of(4), stream=screen):
        append(tmp_path, line() * 3)
    # 300 prompt tokens at 2 and 60 completion tokens at 10 a million
    assert screen.getvalue().startswith("prspark: 3 of 4 verdicts, ")
    assert ", cost 0.0012, " in screen.getvalue()
    assert screen.getvalue().count("\n") == 1


def test_terminal_gets_a_bar_that_ends_its_line(tmp_path: Path) -> None:
    screen = Screen(terminal=True)
    with watching(run_of(tmp_path), plan_of(4), stream=screen):
        append(tmp_path, line() * 2)
    assert screen.getvalue().startswith("\r[############............] 2 of 4 verdicts, ")
    assert screen.getvalue().endswith("\x1b[K\n")


@pytest.mark.parametrize("plan", [None, plan_of(0)])
def test_nothing_is_said_where_nothing_is_called(tmp_path: Path, plan: Any) -> None:
    screen = Screen()
    with watching(run_of(tmp_path), plan, stream=screen):
        pass
    assert screen.getvalue() == ""


def test_nothing_is_said_where_nobody_listens(tmp_path: Path) -> None:
    with watching(run_of(tmp_path), plan_of(4), stream=None):
        pass


def test_journal_out_of_reach_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> Any:
        raise OSError("the store is away")

    monkeypatch.setattr(progress, "list_files", away)
    screen = Screen()
    with watching(run_of(tmp_path), plan_of(4), stream=screen):
        pass
    assert screen.getvalue().startswith("prspark: 0 of 4 verdicts")


def test_closed_stream_does_not_end_the_run(tmp_path: Path) -> None:
    screen = Screen()
    with watching(run_of(tmp_path), plan_of(4), stream=screen):
        screen.close()


def test_reader_that_went_away_does_not_end_the_run(tmp_path: Path) -> None:
    class Gone(Screen):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    with watching(run_of(tmp_path), plan_of(4), stream=Gone()):
        pass


def test_error_of_the_run_is_the_runs(tmp_path: Path) -> None:
    screen = Screen()
    with pytest.raises(ZeroDivisionError), watching(run_of(tmp_path), plan_of(4), stream=screen):
        raise ZeroDivisionError
    assert "0 of 4 verdicts" in screen.getvalue()
