"""How many executors can exist, so that a rate for the whole job can be shared out among them."""

import re

from pyspark.sql import SparkSession

from prspark.errors import ConfigError
from prspark.judges.config import LimitsConfig


def executor_count(spark: SparkSession, limits: LimitsConfig) -> int:
    """Return how many executors may ever judge at once.

    Raises:
        ConfigError: a rate is set, and neither Spark's settings nor `limits.executors` say how many share it.
    """
    found = _known(spark, limits)
    if found:
        return found
    if limits.requests_per_minute or limits.tokens_per_minute:
        raise ConfigError(
            "a rate for the whole job is shared out over its executors, and Spark does not say how many "
            "there can be; set limits.executors (or spark.executor.instances, "
            "or spark.dynamicAllocation.maxExecutors)"
        )
    return 1


def one_executor(spark: SparkSession, limits: LimitsConfig) -> bool:
    """Tell whether it is known that all judging happens on one executor."""
    return _known(spark, limits) == 1


def _known(spark: SparkSession, limits: LimitsConfig) -> int:
    """Return how many executors there can be; 0 if nothing says."""
    return limits.executors or _from_settings(spark)


def _from_settings(spark: SparkSession) -> int:
    master = _setting(spark, "spark.master")
    local_cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,.*", master)
    if local_cluster:
        return int(local_cluster[1])
    if master.startswith("local"):
        return 1
    if _setting(spark, "spark.dynamicAllocation.enabled") == "true":
        return _number(spark, "spark.dynamicAllocation.maxExecutors")
    cores, each = _number(spark, "spark.cores.max"), _number(spark, "spark.executor.cores")
    if cores and each and master.startswith("spark:"):
        return max(1, cores // each)
    return _number(spark, "spark.executor.instances")


def _setting(spark: SparkSession, name: str) -> str:
    return (spark.conf.get(name, "") or "").strip()


def _number(spark: SparkSession, name: str) -> int:
    text = _setting(spark, name)
    return int(text) if text.isdecimal() else 0
