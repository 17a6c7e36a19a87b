"""From prepared rows to the sorted stream that workers read. Row contract: rows of `groups.STREAM`.

One task is one partition; it reads whole groups one after the other, because the partition is sorted, so no
task ever holds more than one group. A huge group is cut into parts, its baseline copied to each.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from prspark.engine.groups import ASK, BASELINE, JUDGED, KNOWN, ROW, Group, read_groups
from prspark.metric.group import Answer, Role, baseline_rank, classify

WHOLE = -1
"""The part number of a group that is not cut."""

_NO_MATCH = 9
"""The tier of rows that match their original query at no tier."""

_GROUP = ("unit_hash", "group_hash")
_SORT = ("unit_hash", "part", "tag", "group_hash")
_ROW_COLUMNS = ("group_hash", "row_high", "row_low", *JUDGED)
_VERDICT_COLUMNS = ("verdict_key", "verdict_score", "verdict_reason", "verdict_unscored")


@dataclass(frozen=True)
class Cut:
    """When a group is huge: more rows or characters than this; and how many of each a part may have."""

    rows: int
    part_rows: int
    characters: int = 64_000_000
    part_characters: int = 16_000_000


PAID_CUT = Cut(rows=64, part_rows=8)
"""Calls take the time: parts so small that the last ones do not leave the endpoint idle."""

FREE_CUT = Cut(rows=20_000, part_rows=10_000)
"""Python takes the time: parts that are worth a task."""


@dataclass(frozen=True)
class Sizes:
    """What the input holds, from one native pass."""

    rows: int
    grouped_rows: int
    groups: int
    largest_group: int
    characters: int
    hot: DataFrame | None
    """`group_hash`, `unit_hash`, `parts`: one row a huge group; None when there is none."""

    @property
    def mean_characters(self) -> float:
        """Characters of judged text in a row."""
        return self.characters / self.grouped_rows if self.grouped_rows else 0.0


def measure(prepared: DataFrame, cut: Cut) -> Sizes:
    """Count rows and groups, and find the huge groups."""
    length = reduce(Column.__add__, (F.coalesce(F.length(name), F.lit(0)) for name in JUDGED))
    sizes = prepared.groupBy(
        "unit_hash", "group_hash", F.col("original_query").isNull().alias("missing")
    ).agg(F.count(F.lit(1)).alias("rows"), F.sum(length.cast("bigint")).alias("characters"))
    grouped = ~F.col("missing")
    is_hot = grouped & ((F.col("rows") > cut.rows) | (F.col("characters") > cut.characters))
    found = sizes.agg(
        _total(F.col("rows")).alias("all_rows"),
        _total(F.when(grouped, F.col("rows"))).alias("rows"),
        _total(grouped.cast("int")).alias("groups"),
        F.coalesce(F.max(F.when(grouped, F.col("rows"))), F.lit(0)).alias("largest"),
        _total(F.when(grouped, F.col("characters"))).alias("characters"),
        _total(is_hot.cast("int")).alias("hot"),
    ).first()
    assert found is not None  # noqa: S101  an aggregate without keys is one row
    parts = F.greatest(
        F.ceil(F.col("rows") / cut.part_rows), F.ceil(F.col("characters") / cut.part_characters)
    )
    hot = sizes.where(is_hot).select("unit_hash", "group_hash", parts.cast("int").alias("parts"))
    return Sizes(
        found["all_rows"],
        found["rows"],
        found["groups"],
        found["largest"],
        found["characters"],
        hot if found["hot"] else None,
    )


def _total(column: Column) -> Column:
    return F.coalesce(F.sum(column), F.lit(0))


def task_slots(spark: SparkSession) -> int:
    """How many tasks run at once, as far as Spark says; it works in classic and Connect."""
    places = spark.range(0, 10_000).select(F.spark_partition_id().alias("partition"))
    last = places.agg(F.max("partition").alias("last")).first()
    return (last["last"] if last else 0) + 1


def partitions(
    sizes: Sizes, slots: int, *, rows_a_task: int, rows_at_least: int, tasks_a_slot: int = 2
) -> int:
    """How many tasks: enough to keep them small, few for few rows, two a slot so that the slots end together.

    Where the tasks share one executor's calls, one a slot is better: who is done early leaves its calls to the
    others, and between two tasks its share of the endpoint would be idle for half a second.
    """
    wanted = max(sizes.rows / rows_a_task, sizes.characters / 128_000_000)
    even = min(tasks_a_slot * slots, sizes.rows // rows_at_least)
    return max(1, slots, even, math.ceil(wanted))


def with_parts(
    prepared: DataFrame, sizes: Sizes, *, numeric_ids: bool, hold: Callable[[DataFrame], DataFrame]
) -> tuple[DataFrame, DataFrame | None]:
    """Return the rows that can be judged, with `part`, and the baselines of huge groups, one row a part.

    Rows without an original query are left out: nothing is asked about them. Both are read several times, so
    what takes long to find and is small goes through `hold`, which keeps it in Spark.
    """
    rows = prepared.where(F.col("original_query").isNotNull())
    if sizes.hot is None:
        return rows.withColumn("part", F.lit(WHOLE)), None
    cut = rows.join(F.broadcast(sizes.hot), [*_GROUP], "left")
    # by what makes two rows one answer, so that copies of it meet in one part and count once
    part = F.pmod(F.xxhash64("input_id", "sut_response"), F.col("parts")).cast("int")
    cut = cut.withColumn("part", F.coalesce(part, F.lit(WHOLE)))
    baselines, only_repeats = _hot_baselines(
        cut.where("parts IS NOT NULL"), sizes.hot, numeric_ids=numeric_ids, hold=hold
    )
    # a group that only repeats its baseline needs no call, so it is not cut
    uncut = only_repeats.withColumn("uncut", F.lit(True))
    cut = cut.join(F.broadcast(uncut), [*_GROUP], "left")
    part = F.when(F.col("uncut"), F.lit(WHOLE)).otherwise(F.col("part"))
    return cut.select("unit_hash", part.alias("part"), *_ROW_COLUMNS), baselines


def _hot_baselines(
    rows: DataFrame, hot: DataFrame, *, numeric_ids: bool, hold: Callable[[DataFrame], DataFrame]
) -> tuple[DataFrame, DataFrame]:
    """Return the baselines of huge groups, one row a part, and the groups that have no variant.

    Two passes of the same choice: the best of each part, then the best of those.
    """
    best = _choose(rows, numeric_ids=numeric_ids)
    keys = best.select("row_high", "row_low").distinct()
    candidates = hold(rows.join(F.broadcast(keys), ["row_high", "row_low"]).withColumn("part", F.lit(0)))
    chosen = hold(_choose(candidates, numeric_ids=numeric_ids))
    groups = chosen.groupBy(*_GROUP).agg(
        F.min_by(F.struct("row_high", "row_low"), "tier").alias("key"),
        F.min("tier").alias("best"),
        F.count(F.lit(1)).alias("kinds"),
    )
    matched = groups.where(F.col("best") < _NO_MATCH)
    key = matched.where("kinds > 1").select("key.*")
    part = F.explode(F.sequence(F.lit(0), F.col("parts") - 1)).alias("part")
    baselines = candidates.drop("parts").dropDuplicates(["row_high", "row_low"])
    baselines = baselines.join(F.broadcast(key), ["row_high", "row_low"]).join(F.broadcast(hot), [*_GROUP])
    only_repeats = matched.where("kinds = 1").select(*_GROUP)
    return hold(baselines.select("unit_hash", part, *_ROW_COLUMNS)), hold(only_repeats)


def _choose(rows: DataFrame, *, numeric_ids: bool) -> DataFrame:
    """Of each group and part, keep the best row of each tier: the keys of at most four rows."""

    def choose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from best_of_tiers(batches, numeric_ids=numeric_ids)

    stream = _sorted(_tagged(rows, ROW), None)
    return stream.mapInArrow(
        choose, "unit_hash bigint, group_hash bigint, tier int, row_high bigint, row_low bigint"
    )


def best_of_tiers(batches: Iterable[pa.RecordBatch], *, numeric_ids: bool) -> Iterator[pa.RecordBatch]:
    """Yield (unit, group, tier, row key) of the best row of each tier; rows that match at none are tier 9."""
    names = ["unit_hash", "group_hash", "tier", "row_high", "row_low"]
    types = [pa.int64(), pa.int64(), pa.int32(), pa.int64(), pa.int64()]
    for group in read_groups(batches):
        best = _best(group, numeric_ids=numeric_ids)
        rows = [
            (group.unit.key[0], group.group_hash, tier, *(row.row_key or ())) for tier, row in best.items()
        ]
        arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _best(group: Group, *, numeric_ids: bool) -> dict[int, Answer]:
    best: dict[int, tuple[Any, Answer]] = {}
    roles = classify(group.answers, group.original_query).roles
    for role, answer in zip(roles, group.answers, strict=True):
        if role is Role.EXCLUDED:
            continue
        rank = baseline_rank(answer, group.original_query, numeric_ids=numeric_ids) or (_NO_MATCH,)
        if rank[0] not in best or rank < best[rank[0]][0]:
            best[rank[0]] = (rank, answer)
    return {tier: answer for tier, (_, answer) in best.items()}


def judging_stream(
    rows: DataFrame,
    baselines: DataFrame | None,
    tasks: int | None,
    *,
    known: DataFrame | None = None,
    to_ask: DataFrame | None = None,
) -> DataFrame:
    """Put everything a task needs into one sorted stream of `tasks` partitions.

    Args:
        rows: from `with_parts`.
        baselines: from `with_parts`.
        tasks: the number of partitions.
        known: `unit_hash`, `part` and the verdict columns: what is paid for already.
        to_ask: `unit_hash`, `part`, `verdict_key`: in a unit that is named here, nothing else is asked.
    """
    tagged = _tagged(rows, ROW)
    if baselines is not None:
        tagged = tagged.unionByName(_tagged(baselines, BASELINE))
    for tag, keys in ((KNOWN, known), (ASK, to_ask)):
        if keys is not None:
            tagged = tagged.unionByName(keys.withColumn("tag", F.lit(tag)), allowMissingColumns=True)
    return _sorted(tagged, tasks)


def _tagged(rows: DataFrame, tag: int) -> DataFrame:
    return rows.withColumn("tag", F.lit(tag))


def _sorted(tagged: DataFrame, tasks: int | None) -> DataFrame:
    """A stated number of partitions stays; adaptive execution would merge small ones into one task."""
    placed = (
        tagged.repartition(tasks, "unit_hash", "part") if tasks else tagged.repartition("unit_hash", "part")
    )
    verdicts = [name for name in _VERDICT_COLUMNS if name in tagged.columns]
    # a known verdict has no group, and sorts before all rows of its unit
    return placed.sortWithinPartitions(*_SORT).select("unit_hash", "part", "tag", *_ROW_COLUMNS, *verdicts)
