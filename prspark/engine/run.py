"""One run over one table, step by step: measure, look ahead, judge, join back.

Row contract: rows out = rows in.
"""

import contextlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from prspark.engine import stream
from prspark.engine.config import Config
from prspark.engine.executors import executor_count, one_executor
from prspark.engine.join import join_back
from prspark.engine.journal import ENTRY, entries_batch, list_files
from prspark.engine.judging import (
    ASKS,
    PART_ROWS,
    PART_SCORES,
    MakeJudge,
    Task,
    WorkerSettings,
    judge_free,
    judge_paid,
    list_asks,
    rules_of,
    score_parts,
)
from prspark.engine.prepare import numeric_ids, prepare
from prspark.engine.results import PACKED, RESULT, ddl, pack, unpack
from prspark.judges.factory import is_free, judge_identity


@dataclass
class Run:
    """A table, a configuration, and what is found on the way. `close` gives back what Spark holds for it."""

    df: DataFrame
    config: Config
    journal: str = ""
    replay: bool = False
    retry_unscored: bool = False
    maker: MakeJudge | None = None
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    _held: list[DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = is_free(self.config.judge) if self.maker is None else getattr(self.maker, "free", False)
        self._numeric_ids = numeric_ids(self.df.schema, self.config.columns)
        self.prepared = prepare(self.df, self.config.columns)
        identity = judge_identity(self.config.judge) if self.maker is None else _identity(self.maker)
        self.settings = WorkerSettings(
            config=self.config,
            rules=rules_of(self.config, numeric_ids=self._numeric_ids),
            identity=identity,
            run=self.name,
            journal=self.journal,
            executors=executor_count(self.df.sparkSession, self.config.limits),
            replay=self.replay,
            maker=self.maker,
        )

    def use_journal(self, journal: str) -> None:
        """Keep the verdicts of this run in a folder that the caller removes."""
        self.journal = journal
        self.settings = self.settings._replace(journal=journal)

    def measure(self) -> stream.Sizes:
        """Count the input natively, and find its huge groups."""
        self.sizes = stream.measure(self.prepared, stream.FREE_CUT if self.free else stream.PAID_CUT)
        if self.sizes.hot is not None:
            self._hold(self.sizes.hot)
        self._count_tasks()
        self.rows, self.baselines = stream.with_parts(
            self.prepared, self.sizes, numeric_ids=self._numeric_ids, hold=self._hold
        )
        return self.sizes

    def _count_tasks(self) -> None:
        self.slots = stream.task_slots(self.df.sparkSession)
        # a Python task costs Spark a fifth of a second, so only calls, which take longer, are spread thinly
        self.passes = stream.partitions(self.sizes, self.slots, rows_a_task=250_000, rows_at_least=2_000)
        self.tasks = self.passes
        if not self.free:
            a_slot = 1 if one_executor(self.df.sparkSession, self.config.limits) else 2
            self.tasks = stream.partitions(
                self.sizes, self.slots, rows_a_task=20_000, rows_at_least=100, tasks_a_slot=a_slot
            )

    def look_ahead(self) -> DataFrame:
        """List what judging would ask, without asking: rows of `judging.ASKS`, held in Spark."""
        settings = self.settings

        def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from list_asks(batches, settings)

        rows = stream.judging_stream(self.rows, self.baselines, self.passes)
        with self._batch_size():
            self.asks = self._hold(rows.mapInArrow(ask, ddl(ASKS)))
        self.requests = self.asks.where("key IS NOT NULL")
        self.journalled = self._read_journal()
        self.distinct = self._hold(self._distinct())
        return self.asks

    def _distinct(self) -> DataFrame:
        """One row a distinct request: how many units have it, which one asks it, whether it is `known`."""
        distinct = self.requests.groupBy("key").agg(
            F.first("kind").alias("kind"),
            F.first("prompt_tokens").alias("prompt_tokens"),
            F.count(F.lit(1)).alias("units"),
            F.min(F.struct("unit_hash", "part")).alias("owner"),
        )
        if self.journalled is None:
            return distinct.withColumn("known", F.lit(False))
        known = self.journalled.select(F.col("verdict_key").alias("key"), F.lit(True).alias("known"))
        return distinct.join(known, "key", "left").fillna(False, ["known"])

    def judge(self, *, shared: bool = True) -> None:
        """Judge everything once and keep the verdicts; afterwards `joined` costs no call.

        `shared` says whether some unpaid request is in several units; the plan knows.
        """
        rows, baselines = self.rows, self.baselines
        if self.free:
            self._judge(stream.judging_stream(rows, baselines, self.tasks), "free")
            return
        known = self._known_by_unit()
        if shared and not self.replay:
            self._ask_shared(known)
            self.journalled = self._read_journal()
            known = self._known_by_unit()
        self._judge(stream.judging_stream(rows, baselines, self.tasks, known=known), "all")

    def joined(self) -> DataFrame:
        """Every input row, once, with its score and details."""
        return join_back(self.df, self.results, self.config)

    def close(self) -> None:
        """Let go of what Spark holds for this run, the results apart."""
        for held in self._held:
            held.unpersist()
        self._held.clear()

    def release(self) -> None:
        """Let go of the results too; what `joined` returned can't be read any more without judging again."""
        self._packed.unpersist()

    def _hold(self, df: DataFrame) -> DataFrame:
        held = df.persist()
        self._held.append(held)
        return held

    def _judge(self, rows: DataFrame, stage: str) -> None:
        with self._batch_size():
            self._packed = self._judging(rows, stage).persist()
            self._packed.count()
        self.results = self._with_part_scores(self._unpacked(*(name for name, _ in RESULT)))

    def results_of(self, *names: str) -> DataFrame:
        """Return some columns of the results; to read few is cheaper than to read all and drop some."""
        return self._unpacked(*names) if self.sizes.hot is None else self.results.select(*names)

    def _unpacked(self, *names: str) -> DataFrame:
        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from unpack(batches, names)

        kinds = dict(RESULT)
        packed = self._packed.coalesce(self.passes)
        return packed.mapInArrow(read, ddl([(name, kinds[name]) for name in names]))

    def _ask_shared(self, known: DataFrame | None) -> None:
        """Ask what several units have, each request once; the journal brings the verdicts to the units."""
        to_ask = self.distinct.where("units > 1 AND NOT known")
        to_ask = self._hold(to_ask.select("owner.unit_hash", "owner.part", F.col("key").alias("verdict_key")))
        units = F.broadcast(to_ask.select("unit_hash", "part").distinct())
        rows = self.rows.join(units, ["unit_hash", "part"])
        baselines = None if self.baselines is None else self.baselines.join(units, ["unit_hash", "part"])
        asked = stream.judging_stream(rows, baselines, self.tasks, known=known, to_ask=to_ask)
        with self._batch_size():
            self._judging(asked, "shared").agg(F.count(F.lit(1))).collect()

    def _judging(self, rows: DataFrame, stage: str) -> DataFrame:
        settings, free = self.settings, self.free

        def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            if free:
                yield from pack(judge_free(batches, settings))
                return
            context = TaskContext.get()
            partition, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
            yield from pack(judge_paid(batches, settings, Task(stage, partition, attempt)))

        return rows.mapInArrow(judge, ddl(PACKED))

    def _with_part_scores(self, judged: DataFrame) -> DataFrame:
        if self.sizes.hot is None:
            return judged
        rules = self.settings.rules

        def score(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from score_parts(batches, rules)

        parts = self._unpacked("is_part", *PART_ROWS).where("is_part").select(*PART_ROWS)
        parts = parts.repartition("group_hash").sortWithinPartitions("unit_hash", "group_hash")
        scores = parts.mapInArrow(score, ddl(PART_SCORES))
        named = [name for name, _ in PART_SCORES[2:]]
        scores = scores.select("unit_hash", "group_hash", *(F.col(n).alias(f"group_{n}") for n in named))
        both = judged.join(F.broadcast(scores), ["unit_hash", "group_hash"], "left")
        return both.select(
            *(
                F.coalesce(name, f"group_{name}").alias(name) if name in named else F.col(name)
                for name, _ in RESULT
            )
        )

    def _known_by_unit(self) -> DataFrame | None:
        if self.journalled is None:
            return None
        known = self.journalled.select("verdict_key", "verdict_score", "verdict_reason", "verdict_unscored")
        units = self.requests.select("unit_hash", "part", F.col("key").alias("verdict_key"))
        return units.join(known, "verdict_key")

    def _read_journal(self) -> DataFrame | None:
        """Of several verdicts on a key, the first scored one; null without a journal."""
        entries = self.journal_entries()
        if entries is None:
            return None
        if self.retry_unscored:
            # what this run itself has asked again counts, whatever came of it
            entries = entries.where(F.col("unscored_reason").isNull() | (F.col("run") == self.name))
        order = F.struct(F.col("unscored_reason").isNotNull(), "time")
        value = F.struct(
            F.col("score").alias("verdict_score"),
            F.col("reason").alias("verdict_reason"),
            F.col("unscored_reason").alias("verdict_unscored"),
        )
        best = entries.groupBy(F.col("key").alias("verdict_key")).agg(F.min_by(value, order).alias("verdict"))
        return self._hold(best.select("verdict_key", "verdict.*"))

    def journal_entries(self, *, own: bool = False) -> DataFrame | None:
        """Read the journal, or this run's own part of it, with the code that wrote it: one row an entry."""
        files = list_files(self.journal, f"{self.name}-" if own else "") if self.journal else []
        if not files:
            return None
        journal = self.journal

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for path in batch.column(0).to_pylist():
                    yield entries_batch(journal, path)

        tasks = min(len(files), max(self.slots, len(files) // 8))
        # a literal: to make a table of Python values takes Spark a pass through Python of its own
        paths = F.explode(F.from_json(F.lit(json.dumps(files)), "array<string>")).alias("path")
        listed = self.df.sparkSession.range(1).select(paths)
        return listed.repartition(tasks, "path").mapInArrow(read, ddl(ENTRY))

    @contextlib.contextmanager
    def _batch_size(self) -> Iterator[None]:
        """Long texts travel in smaller batches, so that a worker's memory does not follow their length."""
        conf, name = self.df.sparkSession.conf, "spark.sql.execution.arrow.maxRecordsPerBatch"
        before = conf.get(name, "10000") or "10000"
        fitting = int(64_000_000 // max(1.0, self.sizes.mean_characters))
        conf.set(name, str(max(1, min(int(before), fitting))))
        try:
            yield
        finally:
            conf.set(name, before)


def _identity(maker: Any) -> str:
    return str(getattr(maker, "identity", f"{maker.__module__}.{maker.__qualname__}"))
