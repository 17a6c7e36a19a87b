"""The library: what a notebook calls. It takes the caller's DataFrame and session and never makes one."""

import atexit
import contextlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from prspark.engine import io
from prspark.engine import journal as journals
from prspark.engine.config import Config, make_config
from prspark.engine.join import check_names
from prspark.engine.run import Run
from prspark.errors import ConfigError, InputError, JudgeStoppedError, PreflightError
from prspark.insight.agreement import Agreement
from prspark.insight.calibrate import LabelledRun
from prspark.insight.plan import Plan, check_budget, make_plan
from prspark.insight.preflight import preflight
from prspark.insight.progress import watching
from prspark.insight.summary import Summary, make_summary
from prspark.judges.factory import JudgeConfigError
from prspark.judges.protocol import Judge, JudgeRefusedError

Settings = Config | Mapping[str, Any] | None


@dataclass(frozen=True)
class Scored:
    """A finished run: the scored table, the plan it followed (null for a free judge) and its summary."""

    df: DataFrame
    plan: Plan | None
    summary: Summary


def score(
    answers: DataFrame,
    config: Settings = None,
    *,
    journal: str | None = None,
    replay: bool = False,
    retry_unscored: bool = False,
    judge: Callable[[], Judge] | None = None,
    progress: bool = True,
) -> DataFrame:
    """Score a table of answers; all judging is done, and paid for once, before this returns.

    Args:
        answers: one row an answer, with `input_id`, `prompt`, `sut_response` and `metadata.original_query`
            (or what `[columns]` of the configuration names).
        config: nested tables as in the TOML file, or a `Config`; nothing means the embedded judge.
        journal: a folder (local path or URI that all executors reach) that keeps every verdict; the same call
            with the same journal asks only for what is missing.
        replay: never call the judge; what the journal lacks is unscored, `not_in_journal`.
        retry_unscored: ask again for the verdicts that the journal has as failed.
        judge: makes a judge of your own, in each worker; replaces `[judge]` of the configuration.
        progress: say on standard error how far the judging is.

    Returns:
        Every input row, once, its columns untouched, plus `<metric_name>` (double in 0..1, null if unscored)
        and `<metric_name>_details` (struct).

    Raises:
        PrsparkError: a subclass says what the user can do; see `prspark.errors`.
    """
    return run_scoring(
        answers,
        config,
        journal=journal,
        replay=replay,
        retry_unscored=retry_unscored,
        judge=judge,
        progress=progress,
    ).df


def run_scoring(
    answers: DataFrame,
    config: Settings = None,
    *,
    journal: str | None = None,
    working_folder: str | None = None,
    replay: bool = False,
    retry_unscored: bool = False,
    judge: Callable[[], Judge] | None = None,
    progress: bool = True,
    on_plan: Callable[[Plan], None] = lambda _: None,
) -> Scored:
    """Do what `score` does, and return the plan and the summary with the table.

    Args:
        answers: see `score`.
        config: see `score`.
        journal: see `score`.
        working_folder: where the verdicts go while no journal is named, so that a lost task costs nothing.
        replay: see `score`.
        retry_unscored: see `score`.
        judge: see `score`.
        progress: see `score`.
        on_plan: told the plan before anything is judged.
    """
    if replay and not journal:
        raise ConfigError("replay needs a journal to read; name one with --journal")
    with _as_our_errors():
        run = _open(answers, config, journal, replay, retry_unscored, judge)
        if not run.free and not journal:
            run.use_journal(journals.absolute(working_folder) if working_folder else _temporary_journal(run))
        run.measure()
        plan = None
        if not run.free:
            plan = make_plan(run)
            on_plan(plan)
            check_budget(plan, run.config.limits)
            if plan.calls["total"] and not replay:
                preflight(run)
        with watching(run, plan, stream=sys.stderr if progress else None), _explained(run):
            run.judge(shared=plan is not None and plan.shared > 0)
        summary = make_summary(run, plan)
        run.close()
        return Scored(run.joined(), plan, summary)


def plan(
    answers: DataFrame,
    config: Settings = None,
    *,
    journal: str | None = None,
    retry_unscored: bool = False,
    judge: Callable[[], Judge] | None = None,
) -> Plan:
    """Say what `score` with the same arguments would do and cost; calls no judge.

    Raises:
        PrsparkError: what `score` would raise before judging, the budget apart.
    """
    with _as_our_errors():
        run = _open(answers, config, journal, False, retry_unscored, judge)
        run.measure()
        try:
            return make_plan(run)
        finally:
            run.close()


def calibrate(
    answers: DataFrame,
    config: Settings = None,
    *,
    label: str,
    repeat: int = 1,
    order_swap: bool = False,
    journal: str | None = None,
    retry_unscored: bool = False,
    judge: Callable[[], Judge] | None = None,
    progress: bool = True,
    on_plan: Callable[[Plan], None] = lambda _: None,
) -> Agreement:
    """Judge the correctness of labelled rows and say how well the judge agrees with the labels.

    Each row with a query, an answer and a label is judged, whatever its group; the judge sees no label.
    Limits, budget, preflight and journal are those of `score`, and either finds the other's verdicts there.

    Args:
        answers: one row an answer, as for `score`; the original query is needed for `order_swap` alone.
        config: see `score`.
        label: dotted path of the label: boolean, a number in 0..1 (0.5 or more is correct), or text
            true/false/yes/no/correct/incorrect. A row without one is not judged.
        repeat: how often each row is judged; more than once tells how far the judge's scores vary.
        order_swap: ask each pair of the table in both orders too, and tell how often the order decides.
        journal: see `score`.
        retry_unscored: see `score`.
        judge: see `score`.
        progress: see `score`.
        on_plan: told the plan before anything is judged.

    Raises:
        PrsparkError: what `score` would raise, and `InputError` where the label is missing or is no label.
    """
    with _as_our_errors():
        run = LabelledRun(
            answers,
            make_config(config),
            journal=journals.absolute(journal or ""),
            retry_unscored=retry_unscored,
            maker=judge,
            label=label,
            repeat=repeat,
            order_swap=order_swap,
        )
        if not run.free and not journal:
            run.use_journal(journals.working_folder(run.name))
        run.measure()
        plan = None
        if run.free:
            run.look_ahead()
        else:
            plan = run.plan()
            on_plan(plan)
            check_budget(plan, run.config.limits)
            if plan.calls["total"]:
                preflight(run)
        with watching(run, plan, stream=sys.stderr if progress else None), _explained(run):
            run.ask()
        found = run.agreement(plan)
        run.close()
        if not run.free and not journal:
            journals.remove(run.journal)
        return found


def _open(
    answers: DataFrame,
    config: Settings,
    journal: str | None,
    replay: bool,
    retry_unscored: bool,
    judge: Callable[[], Judge] | None,
) -> Run:
    checked = make_config(config)
    check_names(answers, checked)
    return Run(
        answers,
        checked,
        journal=journals.absolute(journal or ""),
        replay=replay,
        retry_unscored=retry_unscored,
        maker=judge,
    )


def _temporary_journal(run: Run) -> str:
    """A journal for a call that names none; it must outlive the call, because a lost cache reads it again."""
    folder = journals.working_folder(run.name)
    atexit.register(journals.remove, folder)
    return folder


@contextlib.contextmanager
def _as_our_errors():  # type: ignore[no-untyped-def]
    try:
        yield
    except JudgeConfigError as error:
        raise ConfigError(str(error)) from None
    except JudgeRefusedError as error:
        raise PreflightError(str(error)) from None
    except io.SPARK_ERRORS as error:
        if unreadable := io.unreadable_file(error):
            raise InputError(f"the input can't be read: {unreadable}") from None
        raise


@contextlib.contextmanager
def _explained(run: Run):  # type: ignore[no-untyped-def]
    """A run that a worker stopped says why in one line; Spark's own message is a stack trace of workers."""
    try:
        yield
    except PySparkException:
        reason = journals.read_stop(run.journal, run.name) if run.journal else None
        if reason is None:
            raise
        raise JudgeStoppedError(reason) from None
