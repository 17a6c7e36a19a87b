"""What a run would do and cost, found without asking the judge."""

from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F

from prspark.engine.config import Config
from prspark.engine.run import Run
from prspark.errors import BudgetError
from prspark.judges.config import LimitsConfig

PREFLIGHT_CALLS = 2
"""One tiny call from the driver and one from an executor, before the first call of a run that has any."""

_ASSUMED_LATENCY_SECONDS = 1.0
_ASSUMED_COMPLETION_TOKENS = 120


@dataclass(frozen=True)
class Plan:
    """A run before it runs.

    `calls` are the calls to be sent, by kind and in total, apart from `preflight_calls` and from what has to be
    asked again; `verdicts` are the distinct requests that they answer; `no_call` counts those that need none;
    `duplicates` are requests that another row asks too, `shared` those that several units need; `tokens`,
    `cost` and `seconds` are estimates.
    """

    judge: str
    rows: int
    groups: int
    largest_group: int
    statuses: dict[str, int]
    roles: dict[str, int]
    calls: dict[str, int]
    verdicts: int
    preflight_calls: int
    no_call: dict[str, int]
    duplicates: int
    shared: int
    in_journal: int
    tokens: dict[str, int]
    cost: float
    seconds: float
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, as `prspark plan` prints it."""
        return asdict(self)


def make_plan(run: Run) -> Plan:
    """Plan a measured run; reads the table once more, asks no judge."""
    run.look_ahead()
    facts = _facts(run)
    found = _requests(run)
    unpaid = [] if run.free or run.replay else [row for row in found if not row["known"]]
    calls = {kind: _calls(run, unpaid, kind) for kind in ("correctness", "robustness")}
    total = sum(calls.values())
    prompt_tokens = sum(row["tokens"] * _calls_each(run, row["kind"]) for row in unpaid)
    tokens = {"prompt": prompt_tokens, "completion": total * _ASSUMED_COMPLETION_TOKENS}
    return Plan(
        judge=run.settings.identity if not run.free else run.config.judge.kind,
        rows=run.sizes.rows,
        groups=run.sizes.groups,
        largest_group=run.sizes.largest_group,
        statuses=_statuses(run, facts),
        roles=_named(facts, "row:"),
        calls={**calls, "total": total},
        verdicts=sum(row["requests"] for row in unpaid),
        preflight_calls=PREFLIGHT_CALLS if total and run.config.judge.preflight and run.maker is None else 0,
        no_call=_named(facts, "no_call:"),
        duplicates=facts.get("wanted", 0) - sum(row["requests"] for row in found),
        shared=sum(row["shared"] for row in unpaid),
        in_journal=sum(row["requests"] for row in found if row["known"]),
        tokens=tokens,
        cost=_cost(tokens, run.config),
        seconds=_seconds(total, sum(tokens.values()), run.config.limits, run.settings.executors),
        warnings=_warnings(run, facts),
    )


def _calls(run: Run, unpaid: list[Row], kind: str) -> int:
    requests: int = sum(row["requests"] for row in unpaid if row["kind"] == kind)
    return requests * _calls_each(run, kind)


def _calls_each(run: Run, kind: str) -> int:
    """A pair that is judged in both orders takes two calls."""
    return 2 if kind == "robustness" and run.config.judge.swap_pairs and run.maker is None else 1


def check_budget(plan: Plan, limits: LimitsConfig) -> None:
    """Refuse a plan that needs more than it may.

    Raises:
        BudgetError: naming what is needed, what is allowed and the setting.
    """
    total = plan.calls["total"]
    if limits.max_calls and total > limits.max_calls:
        raise BudgetError(
            f"the plan needs {total} judge calls and limits.max_calls allows {limits.max_calls}; "
            "raise it, or score fewer rows"
        )
    if limits.max_cost and plan.cost > limits.max_cost:
        raise BudgetError(
            f"the plan costs about {plan.cost:.4f} and limits.max_cost allows {limits.max_cost}; "
            "raise it, or score fewer rows"
        )


def _facts(run: Run) -> dict[str, int]:
    rows = run.asks.where("key IS NULL").groupBy("kind").agg(F.sum("amount").alias("amount")).collect()
    return {row["kind"]: row["amount"] for row in rows}


def _named(facts: dict[str, int], prefix: str) -> dict[str, int]:
    return {
        fact.removeprefix(prefix): n for fact, n in sorted(facts.items()) if fact.startswith(prefix) and n
    }


def _requests(run: Run) -> list[Row]:
    """Count distinct requests and their prompt tokens, by kind and by whether the journal has them."""
    counts = run.distinct.groupBy("kind", "known").agg(
        F.count(F.lit(1)).alias("requests"),
        F.sum("prompt_tokens").alias("tokens"),
        F.sum((F.col("units") > 1).cast("int")).alias("shared"),
    )
    return counts.collect()


def _statuses(run: Run, facts: dict[str, int]) -> dict[str, int]:
    statuses = _named(facts, "group:")
    statuses.pop("one_variant", None)
    if run.sizes.hot is not None:
        baselines = (
            0 if run.baselines is None else run.baselines.select("group_hash", "unit_hash").distinct().count()
        )
        statuses["to_judge"] = statuses.get("to_judge", 0) + baselines
        missing = run.sizes.groups - sum(statuses.values())
        if missing:
            statuses["missing_baseline"] = statuses.get("missing_baseline", 0) + missing
    if missing_rows := run.sizes.rows - run.sizes.grouped_rows:
        statuses["rows_missing_original_query"] = missing_rows
    return statuses


def _cost(tokens: dict[str, int], config: Config) -> float:
    judge = config.judge
    return (tokens["prompt"] * judge.prompt_price + tokens["completion"] * judge.completion_price) / 1_000_000


def _seconds(calls: int, tokens: int, limits: LimitsConfig, executors: int) -> float:
    """The longest of what each limit asks for; a call is taken to last a second."""
    at_once = limits.executor_concurrency * executors
    seconds = [calls * _ASSUMED_LATENCY_SECONDS / at_once]
    if limits.requests_per_minute:
        seconds.append(calls * 60 / limits.requests_per_minute)
    if limits.tokens_per_minute:
        seconds.append(tokens * 60 / limits.tokens_per_minute)
    return round(max(seconds), 3)


def _warnings(run: Run, facts: dict[str, int]) -> list[str]:
    sizes, warnings = run.sizes, []
    to_judge = facts.get("group:to_judge", 0)
    path = run.config.columns.original_query
    if sizes.groups and not to_judge and sizes.hot is None:
        warnings.append(f"no group can be judged: check that {path} holds each question's original wording")
    elif without := facts.get("group:missing_baseline", 0):
        warnings.append(f"{without} groups have no baseline row: no query in them equals {path}")
    if one := facts.get("group:one_variant", 0):
        warnings.append(f"{one} groups have a single variant: their scores rest on one pair")
    if sizes.groups > 10 and sizes.groups > 0.9 * sizes.grouped_rows:
        warnings.append(f"almost every row is a group of its own: is {path} the original query?")
    if missing := sizes.rows - sizes.grouped_rows:
        warnings.append(f"{missing} rows have no {path}")
    if run.df.sparkSession.conf.get("spark.speculation", "false") == "true" and not run.free:
        warnings.append(
            "spark.speculation is on: a task that runs twice at the same time pays its calls twice"
        )
    return warnings
