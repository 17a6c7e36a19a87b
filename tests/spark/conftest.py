"""One Spark session for all Spark tests; each setting has its reason."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # or workers take the system's Python
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")  # nobody looks, and ports may be taken
        .config("spark.sql.shuffle.partitions", "4")  # tiny tables
        # to compile a query takes longer than to run it on these; every other suite compiles
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.driver.host", "127.0.0.1")  # the machine's own name may not resolve
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()
