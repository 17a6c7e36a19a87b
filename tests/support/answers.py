"""Small tables of answers for Spark tests, and what comes back of them."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

import prspark

METRIC = "perturbation_robustness_external"
SCHEMA = (
    "input_id string, prompt string, sut_response string, reference_answer string, "
    "metadata map<string, string>"
)

Answer = tuple[str | None, str | None, str | None, str | None, dict[str, str | None] | None]

QUESTION = "What is 6 x 7?"


def answer(
    input_id: str | None,
    prompt: str | None,
    sut_response: str | None,
    original_query: str | None = QUESTION,
    reference: str | None = "42",
    **metadata: str | None,
) -> Answer:
    """Make one row of `SCHEMA`."""
    return input_id, prompt, sut_response, reference, {"original_query": original_query, **metadata}


HALF = [
    answer("a", QUESTION, "42"),
    answer("b", "Six times seven?", "It is 42."),
    answer("c", "6 by 7 makes what?", "41"),
]
"""A group whose right baseline meets one right and one wrong variant: 0.5 * 0.5 + 0.5 * (1 - 0.5) = 0.5."""


def table(spark: SparkSession, rows: list[Any], schema: str = SCHEMA) -> DataFrame:
    """Make a table of a few rows."""
    return spark.createDataFrame(rows, schema)


def score(df: DataFrame, config: Any = None) -> DataFrame:
    """Score silently."""
    return prspark.score(df, config, progress=False)


def results(scored: DataFrame, *, key: str = "input_id") -> dict[Any, dict[str, Any]]:
    """Collect a scored table: by input id, the details with `score` among them."""
    rows = scored.collect()
    found = {row[key]: {"score": row[METRIC], **row[f"{METRIC}_details"].asDict()} for row in rows}
    assert len(found) == len(rows), "input ids of a test table are distinct"
    return found


def assert_half(found: dict[Any, dict[str, Any]], ids: tuple[Any, Any, Any] = ("a", "b", "c")) -> None:
    """Check the result of `HALF`, whatever its shape was."""
    baseline, right, wrong = (found[each] for each in ids)
    assert [row["role"] for row in (baseline, right, wrong)] == ["baseline", "variant", "variant"]
    assert [row["correctness"] for row in (baseline, right, wrong)] == [1.0, 1.0, 0.0]
    assert [row["robustness"] for row in (baseline, right, wrong)] == [None, 1.0, 0.0]
    for row in (baseline, right, wrong):
        assert (row["score"], row["status"], row["outcome"]) == (0.5, "scored", "degraded")
        assert (row["base_correctness"], row["mean_perturbed_correctness"]) == (1.0, 0.5)
        assert (row["mean_correctness_drop"], row["mean_robustness"]) == (0.5, 0.5)
        assert (row["worst_correctness"], row["worst_robustness"]) == (0.0, 0.0)
        assert (row["pairs_total"], row["pairs_scored"], row["baseline_match"]) == (2, 2, "exact")
