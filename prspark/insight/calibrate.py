"""Judges labelled rows through the engine of scoring. Row contract: a row may be asked in no group at all."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from prspark.engine import labels as human
from prspark.engine import stream
from prspark.engine.calibrating import (
    ASKED,
    CORRECTNESS,
    ITEMS,
    PAIR,
    SWAPPED,
    VERDICTS,
    Extent,
    ask_requests,
    list_items,
)
from prspark.engine.config import Config
from prspark.engine.judging import Task
from prspark.engine.prepare import prepare
from prspark.engine.results import ddl
from prspark.engine.run import Run
from prspark.errors import ConfigError
from prspark.insight.agreement import Agreement, Said, agreement
from prspark.insight.plan import Plan, make_plan
from prspark.insight.statistics import Spread, spread

# Nothing is called while rows are listed, so the longest group may stay whole.
_WHOLE = stream.Cut(rows=sys.maxsize, part_rows=1, characters=sys.maxsize, part_characters=1)


@dataclass
class LabelledRun(Run):
    """A run that asks about each labelled row, whatever its group; limits, journal and keys are scoring's.

    `label` is a dotted path; `repeat` is how often each row is judged; `order_swap` asks each pair of the
    table in both orders. Without it no group matters, so no original query is needed.
    """

    label: str = ""
    repeat: int = 1
    order_swap: bool = False

    def __post_init__(self) -> None:
        _check_extent(self.config, self.repeat, order_swap=self.order_swap)
        if not self.order_swap:
            self.config = _without_groups(self.config)
        columns = self.config.columns
        text, _ = human.label_text(self.df.schema, self.label, columns)
        super().__post_init__()
        self.labels = human.read_labels(self.df, self.label, columns)
        if not self.order_swap:
            self.prepared = prepare(self.df.where(text.isNotNull()), columns)
        # a row without a group is a unit of its own, so that such rows spread over the tasks
        own = F.lit(not self.order_swap) | F.col("original_query").isNull()
        units = {
            name: F.when(own, F.col("row_high")).otherwise(F.col(name))
            for name in ("unit_hash", "group_hash")
        }
        self.prepared = self.prepared.withColumns(units)

    def measure(self) -> stream.Sizes:
        """Check the labels, and count what is to be asked about."""
        self.labels = self._hold(self.labels)
        self.counts = human.count_labels(self.labels, self.df, self.label, self.config.columns)
        self.sizes = stream.measure(self.prepared, _WHOLE)
        self._count_tasks()
        self.rows, self.baselines = self.prepared.withColumn("part", F.lit(stream.WHOLE)), None
        return self.sizes

    def look_ahead(self) -> DataFrame:
        """List what is to be asked, without asking: rows of `ITEMS`, held in Spark."""
        settings, extent = self.settings, Extent(self.repeat, self.order_swap)

        def list_(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from list_items(batches, settings, extent)

        with self._batch_size():
            items = stream.judging_stream(self.rows, None, self.passes).mapInArrow(list_, ddl(ITEMS))
        keys = self.labels.where("labelled").select("row_high", "row_low", "labelled").distinct()
        wanted = (F.col("measure") != CORRECTNESS) | F.col("labelled")
        items = items.join(keys, ["row_high", "row_low"], "left").where(wanted)
        self.items = self._hold(items.select(*(name for name, _ in ITEMS)))
        kind = F.when(F.col("measure") == CORRECTNESS, "correctness").otherwise("robustness")
        self.requests = self.items.where("key IS NOT NULL").withColumn("kind", kind)
        self.journalled = self._read_journal()
        self.distinct = self._hold(self._distinct())
        self.asks = self._facts()
        return self.items

    def _distinct(self) -> DataFrame:
        """One row a distinct request, and whether the journal has its verdict."""
        first = [F.first(name).alias(name) for name in ("kind", "prompt_tokens", "measure", "request")]
        # each is asked once in the whole run, whatever rows it comes from
        distinct = self.requests.groupBy("key").agg(*first).withColumn("units", F.lit(1))
        if self.journalled is None:
            return distinct.withColumn("known", F.lit(False))
        known = self.journalled.select(F.col("verdict_key").alias("key"), F.lit(True).alias("known"))
        return distinct.join(known, "key", "left").fillna(False, ["known"])

    def plan(self) -> Plan:
        """Say what will be asked and cost. What a plan says of groups is left out: they are not scored."""
        return replace(make_plan(self), statuses={}, warnings=[])

    def ask(self) -> None:
        """Ask what the journal lacks, each distinct request once, and keep the verdicts."""
        settings, free = self.settings, self.free

        def ask_(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            partition, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
            yield from ask_requests(batches, settings, Task("labelled", partition, attempt), free=free)

        with self._batch_size():
            # a stated number of partitions: adaptive execution would ask everything in one task
            missing = self.distinct.where("NOT known").select(*ASKED).repartition(self.tasks, "key")
            verdicts = self._hold(missing.mapInArrow(ask_, ddl(VERDICTS)))
            verdicts.count()
        if self.journalled is not None:
            verdicts = verdicts.unionByName(self.journalled.select(*(name for name, _ in VERDICTS)))
        self.verdicts = verdicts

    def agreement(self, plan: Plan | None) -> Agreement:
        """Compare the verdicts with the labels."""
        rows = self._answers(CORRECTNESS)
        labels = self.labels.where("labelled").select("row_high", "row_low", "label").collect()
        return agreement(
            [label for *_, label in labels],
            [rows[high, low][0] for high, low, _ in labels],
            label=self.label,
            judge=_judge_name(self),
            judge_identity=self.settings.identity,
            unlabelled=self.counts.unlabelled,
            repeat=self.repeat,
            repeats=_spread(rows) if self.repeat > 1 else None,
            order_swap=_spread(self._answers(PAIR, SWAPPED)) if self.order_swap else None,
            calls=plan.calls if plan else {},
            in_journal=plan.in_journal if plan else 0,
        )

    def _answers(self, *measures: str) -> dict[tuple[int, int], list[Said]]:
        """What was said of each row or pair, by the row's key, in the order of measure and repeat."""
        found = self.items.where(F.col("measure").isin(*measures))
        found = found.join(self.verdicts, F.col("key") == F.col("verdict_key"), "left").select(
            "row_high",
            "row_low",
            "measure",
            "repeat",
            F.coalesce("score", "verdict_score").alias("score"),
            F.coalesce("unscored_reason", "verdict_unscored").alias("unscored_reason"),
        )
        answers: dict[tuple[int, int], list[Said]] = {}
        ordered = sorted(found.collect(), key=lambda row: (row["measure"], row["repeat"]))
        for high, low, _, _, score, reason in ordered:
            answers.setdefault((high, low), []).append(Said(score, reason))
        return answers

    def _facts(self) -> DataFrame:
        """What a plan counts, as it reads it: the wanted requests, and the verdicts that need none."""
        why = F.concat(F.lit("no_call:"), F.coalesce("unscored_reason", F.lit("blank_answer")))
        fact = F.when(F.col("key").isNotNull(), "wanted").otherwise(why)
        return self.items.select(
            fact.alias("kind"), F.lit(None).cast("string").alias("key"), F.lit(1).alias("amount")
        )


def _spread(answers: dict[tuple[int, int], list[Said]]) -> Spread:
    return spread([[verdict.score for verdict in said] for said in answers.values()])


def _judge_name(run: Run) -> str:
    judge = run.config.judge
    return run.settings.identity if run.maker else " ".join(filter(None, (judge.kind, judge.model)))


def _check_extent(config: Config, repeat: int, *, order_swap: bool) -> None:
    if repeat < 1:
        raise ConfigError(f"repeat is {repeat}; each row must be judged at least once")
    if order_swap and config.judge.swap_pairs:
        raise ConfigError(
            "judge.swap_pairs averages both orders, which hides how they differ; set it to false"
        )


def _without_groups(config: Config) -> Config:
    """Correctness is asked row by row, so a table without original queries can be calibrated on too."""
    columns = config.columns.model_copy(update={"original_query": config.columns.input_id, "group_by": ()})
    return config.model_copy(update={"columns": columns})
