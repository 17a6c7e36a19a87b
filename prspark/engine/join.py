"""Writes the group's score back onto every row. Row contract: one row out a row in, its columns untouched."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from prspark.engine.config import Config
from prspark.engine.prepare import with_row_key
from prspark.engine.results import DETAILS
from prspark.errors import InputError


def check_names(df: DataFrame, config: Config) -> None:
    """Refuse an input that already has the columns that scoring adds.

    Raises:
        InputError: naming the column and what to change.
    """
    for name in added_columns(config):
        if name in df.columns:
            raise InputError(
                f"the input already has a column {name}; drop it, or set metric.metric_name to another name"
            )


def added_columns(config: Config) -> tuple[str, str]:
    """The names of the score column and of the details column."""
    return config.metric.metric_name, f"{config.metric.metric_name}_details"


def join_back(df: DataFrame, results: DataFrame, config: Config) -> DataFrame:
    """Join the results to the input by row key; a key is never null, so no row is lost to a null.

    Adds `<metric_name>` (double, null if unscored) and `<metric_name>_details` (struct of `results.DETAILS`).
    A row without an original query was never judged: it gets its status here.
    """
    keyed = with_row_key(df, config.columns)
    found = results.select(
        F.struct("row_high", "row_low").alias("_prspark_key"),
        F.struct("score", *(name for name, _ in DETAILS)).alias("_prspark_result"),
    )
    row = F.col("_prspark_row")
    same = (row["high"] == F.col("_prspark_key")["row_high"]) & (
        row["low"] == F.col("_prspark_key")["row_low"]
    )
    joined = keyed.join(found, same, "left")
    score, details = added_columns(config)
    result = F.col("_prspark_result")
    scoring = {
        name: getattr(config.metric, name) for name in ("min", "max", "inverted", "weight", "metric_name")
    }
    return joined.select(
        *(F.col(f"`{name.replace('`', '``')}`") for name in df.columns),
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
