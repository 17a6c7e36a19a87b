"""Writes the group's score back onto every row. Row contract: one row out a row in, its columns untouched."""

from collections import Counter

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from prspark.engine.config import Config
from prspark.engine.prepare import free_name, quoted, row_name, with_row_key
from prspark.engine.results import DETAILS
from prspark.errors import InputError


def check_names(df: DataFrame, config: Config) -> None:
    """Refuse an input that already has the columns that scoring adds.

    Raises:
        InputError: naming the column and what to change.
    """
    # Spark compares names without case unless it is told to; so do the files it writes
    exact = df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    names = Counter(name if exact else name.lower() for name in df.columns)
    for name in added_columns(config):
        if (name if exact else name.lower()) in names:
            raise InputError(
                f"the input already has a column {name}; drop it, or set metric.metric_name to another name"
            )
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise InputError(f"the input has several columns named {', '.join(twice)}; rename them")


def added_columns(config: Config) -> tuple[str, str]:
    """The names of the score column and of the details column."""
    return config.metric.metric_name, f"{config.metric.metric_name}_details"


def join_back(df: DataFrame, results: DataFrame, config: Config) -> DataFrame:
    """Join the results to the input by row key; a key is never null, so no row is lost to a null.

    Adds `<metric_name>` (double, null if unscored) and `<metric_name>_details` (struct of `results.DETAILS`).
    A row without an original query was never judged: it gets its status here.
    """
    keyed = with_row_key(df, config.columns)
    row = F.col(row_name(df))
    key, result = (F.col(free_name(df, name)) for name in ("_prspark_key", "_prspark_result"))
    found = results.select(
        F.struct("row_high", "row_low").alias(free_name(df, "_prspark_key")),
        F.struct("score", *(name for name, _ in DETAILS)).alias(free_name(df, "_prspark_result")),
    )
    same = (row["high"] == key["row_high"]) & (row["low"] == key["row_low"])
    joined = keyed.join(found, same, "left")
    score, details = added_columns(config)
    scoring = {
        name: getattr(config.metric, name) for name in ("min", "max", "inverted", "weight", "metric_name")
    }
    return joined.select(
        *(F.col(quoted(name)) for name in df.columns),
        result["score"].alias(score, metadata={"prspark": scoring}),
        F.when(row["missing"], _not_judged("missing_original_query"))
        .otherwise(F.coalesce(result.dropFields("score"), _not_judged("unscored")))
        .alias(details),
    )


def _not_judged(status: str) -> Column:
    values = {
        "status": F.lit(status),
        "role": F.lit("excluded"),
        "pairs_total": F.lit(0),
        "pairs_scored": F.lit(0),
    }
    nothing = F.lit(None)
    return F.struct(*(values.get(name, nothing).cast(kind).alias(name) for name, kind in DETAILS))
