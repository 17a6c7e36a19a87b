"""What a run did: verdicts by where they came from, tokens, cost, latency and the configuration."""

import hashlib
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from prspark.engine.run import Run
from prspark.insight.plan import Plan


@dataclass(frozen=True)
class Summary:
    """A run after it ran. Seconds, tokens; cost in the currency of the configured prices.

    `groups` counts by status; `verdicts` counts `sent` (calls answered in this run), `journal`, `deduplicated` and
    `no_call`; `failed` counts verdicts without a score by reason; `sends` counts HTTP attempts.
    """

    run: str
    rows: int
    groups: dict[str, int]
    mean_score: float | None
    outcomes: dict[str, int]
    verdicts: dict[str, int]
    failed: dict[str, int]
    sends: int
    throttled: int
    tokens: dict[str, int]
    cost: float
    latency_seconds: dict[str, float]
    journal_keys_sha256: str | None
    versions: dict[str, str]
    config: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain values, as `--summary` writes it."""
        return asdict(self)

    @property
    def unscored_groups(self) -> int:
        """Groups without a score, whatever the reason."""
        return sum(n for status, n in self.groups.items() if status not in ("scored", "partial"))


def make_summary(run: Run, plan: Plan | None) -> Summary:
    """Sum up a judged run."""
    own = run.journal_entries(own=True) if not run.free else None
    sent = _sent(own) if own is not None else {}
    groups, outcomes, mean = _groups(run)
    tokens = {"prompt": sent.get("prompt", 0), "completion": sent.get("completion", 0)}
    judge = run.config.judge
    cost = (tokens["prompt"] * judge.prompt_price + tokens["completion"] * judge.completion_price) / 1_000_000
    return Summary(
        run=run.name,
        rows=run.sizes.rows,
        groups=groups,
        mean_score=mean,
        outcomes=outcomes,
        verdicts=_verdicts(plan, sent),
        failed=_failed(own),
        sends=sent.get("sends", 0),
        throttled=sent.get("throttled", 0),
        tokens=tokens,
        cost=cost,
        latency_seconds=_latency(own),
        journal_keys_sha256=None if run.free else _digest(run.distinct.select("key")),
        versions=_versions(run),
        config=run.config.model_dump(mode="json"),
    )


def _sent(own: DataFrame) -> dict[str, int]:
    found = own.agg(
        F.count(F.lit(1)).alias("verdicts"),
        F.sum("attempts").alias("sends"),
        F.sum("throttled").alias("throttled"),
        F.sum("prompt_tokens").alias("prompt"),
        F.sum("completion_tokens").alias("completion"),
    ).first()
    return {name: value or 0 for name, value in found.asDict().items()} if found else {}


def _verdicts(plan: Plan | None, sent: dict[str, int]) -> dict[str, int]:
    if plan is None:
        return {}
    return {
        "sent": sent.get("verdicts", 0),
        "journal": plan.in_journal,
        "deduplicated": plan.duplicates,
        "no_call": sum(plan.no_call.values()),
    }


def _failed(own: DataFrame | None) -> dict[str, int]:
    if own is None:
        return {}
    rows = own.where("unscored_reason IS NOT NULL").groupBy("unscored_reason").count().collect()
    return {row["unscored_reason"]: row["count"] for row in sorted(rows)}


def _latency(own: DataFrame | None) -> dict[str, float]:
    if own is None:
        return {}
    shares = [0.5, 0.9, 0.99, 1.0]
    found = own.agg(F.percentile_approx("latency_seconds", shares, 10_000).alias("at")).first()
    values = (found["at"] if found else None) or []
    return dict(zip(("p50", "p90", "p99", "max"), values, strict=False))


def _groups(run: Run) -> tuple[dict[str, int], dict[str, int], float | None]:
    """Count groups by status and outcome. A group's rows say the same, so any one of them stands for it."""
    group = ["unit_hash", "group_hash"]
    one = run.results.groupBy(*group).agg(*(F.max(n).alias(n) for n in ("status", "outcome", "score")))
    rows = one.groupBy("status", "outcome").agg(F.count(F.lit(1)).alias("n"), F.sum("score").alias("sum")).collect()
    statuses: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    for row in rows:
        statuses[row["status"]] = statuses.get(row["status"], 0) + row["n"]
        if row["outcome"] is not None:
            outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + row["n"]
    scored = sum(outcomes.values())
    mean = sum(row["sum"] or 0.0 for row in rows) / scored if scored else None
    return dict(sorted(statuses.items())), dict(sorted(outcomes.items())), mean


def _digest(keys: DataFrame) -> str:
    """SHA-256 over the sorted keys, each with a line break: equal for runs that rest on the same verdicts."""
    digest = hashlib.sha256()
    rows: Iterable[Any] = keys.orderBy("key").toLocalIterator()
    for row in rows:
        digest.update(row["key"].encode() + b"\n")
    return digest.hexdigest()


def _versions(run: Run) -> dict[str, str]:
    found = {"python": platform.python_version(), "spark": run.df.sparkSession.version}
    for name in ("prspark", "pyspark", "pandas", "pyarrow", "requests", "pydantic"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a package given to Spark as a zip has no metadata
            found[name] = "unknown"
    return found
