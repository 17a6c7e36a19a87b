"""What a run did: verdicts by where they came from, tokens, cost, latency and the configuration."""

import hashlib
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from prspark.engine.config import Config
from prspark.engine.run import Run
from prspark.insight.plan import Plan
from prspark.metric.reasons import UnscoredReason

_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_TEXTS = (
    ("metric", "reference_answer"),
    ("metric", "groundtruth_context"),
    ("judge", "correctness_template"),
    ("judge", "robustness_template"),
)


@dataclass(frozen=True)
class Summary:
    """A run after it ran. Seconds, tokens; cost in the currency of the configured prices.

    `groups` counts by status; `verdicts` counts `sent` (calls answered in this run), `journal`,
    `deduplicated` and `no_call`; `failed` counts verdicts without a score by reason; `sends` counts HTTP
    attempts. `config` has the texts of the configuration (fallbacks, templates) as their SHA-256.
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
    at = sent.pop("latency", None) or []
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
        failed={reason: sent[reason] for reason in UnscoredReason if sent.get(reason)},
        sends=sent.get("sends", 0),
        throttled=sent.get("throttled", 0),
        tokens=tokens,
        cost=cost,
        latency_seconds=dict(zip(_SHARES, at, strict=False)),
        journal_keys_sha256=None if run.free else _digest(run.distinct.select("key")),
        versions=_versions(run),
        config=_shown(run.config),
    )


def _shown(config: Config) -> dict[str, Any]:
    """Return the configuration, with judged texts and users' templates as SHA-256: told apart, not shown."""
    tables = config.model_dump(mode="json")
    for table, name in _TEXTS:
        if text := tables[table][name]:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            tables[table][name] = f"sha256:{digest}"
    return tables


def _sent(own: DataFrame) -> dict[str, Any]:
    """Sum up this run's own journal in one pass."""
    failed = [
        F.sum((F.col("unscored_reason") == reason).cast("int")).alias(reason) for reason in UnscoredReason
    ]
    found = own.agg(
        F.count(F.lit(1)).alias("verdicts"),
        F.sum("attempts").alias("sends"),
        F.sum("throttled").alias("throttled"),
        F.sum("prompt_tokens").alias("prompt"),
        F.sum("completion_tokens").alias("completion"),
        F.percentile_approx("latency_seconds", list(_SHARES.values()), 10_000).alias("latency"),
        *failed,
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


def _groups(run: Run) -> tuple[dict[str, int], dict[str, int], float | None]:
    """Count groups by status and outcome. A group's rows say the same, so any one of them stands for it."""
    group = ["unit_hash", "group_hash"]
    results = run.results_of(*group, "status", "outcome", "score")
    one = results.groupBy(*group).agg(*(F.max(n).alias(n) for n in ("status", "outcome", "score")))
    rows = (
        one.groupBy("status", "outcome")
        .agg(F.count(F.lit(1)).alias("n"), F.sum("score").alias("sum"))
        .collect()
    )
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
    """SHA-256 over the sorted keys, a line each: `jq -r .key JOURNAL/*.jsonl | sort -u | sha256sum`.

    Spark sorts within the first two digits, so that the driver holds a few of 256 parts at a time.
    """
    digest = hashlib.sha256()
    parts = keys.groupBy(F.substring("key", 1, 2).alias("first")).agg(
        F.concat_ws("\n", F.array_sort(F.collect_list("key"))).alias("keys")
    )
    for row in parts.orderBy("first").toLocalIterator():
        digest.update(row["keys"].encode() + b"\n")
    return digest.hexdigest()


def _versions(run: Run) -> dict[str, str]:
    found = {"python": platform.python_version(), "spark": run.df.sparkSession.version}
    for name in ("prspark", "pyspark", "pandas", "pyarrow", "requests", "pydantic"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a package given to Spark as a zip has no metadata
            found[name] = "unknown"
    return found
