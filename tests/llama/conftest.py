"""The Spark session of the Spark tests serves here too."""

from tests.spark.conftest import spark

__all__ = ["spark"]
