"""What the benchmarks share: sessions, generated tables, peak memory by kind of process, and a table to print."""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/bench")])

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def session(master: str = "local[2]", **settings: str) -> SparkSession:
    """Start a quiet session; each benchmark is its own process."""
    builder = SparkSession.builder.master(master).appName("prspark-bench")
    defaults = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in (defaults | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def questions(spark: SparkSession, rows: int, *, group_rows: int = 5, distinct: bool = False) -> DataFrame:
    """Generate groups of a baseline and its variants; a third of the variants answer something else.

    With `distinct` no two answers are the same text, so that every verdict needs a call.
    """
    group, place = F.floor(F.col("id") / group_rows), F.col("id") % group_rows
    original = F.concat(F.lit("What is "), group, F.lit(" plus "), group + 1, F.lit("?"))
    prompt = F.when(place == 0, original).otherwise(
        F.concat(F.lit("Rewording "), place, F.lit(": "), original)
    )
    right = 2 * group + 1
    wrong = (place > 0) & (F.xxhash64("id") % 3 == 0)
    answer = F.concat(F.lit("The answer is "), F.when(wrong, right + place).otherwise(right), F.lit("."))
    if distinct:
        answer = F.concat(answer, F.lit(" This is answer "), F.col("id"), F.lit("."))
    return spark.range(rows).select(
        F.concat(F.lit("row-"), F.col("id")).alias("input_id"),
        prompt.alias("prompt"),
        answer.alias("sut_response"),
        right.cast("string").alias("reference_answer"),
        F.struct(original.alias("original_query")).alias("metadata"),
    )


class PeakMemory:
    """Samples the resident memory of this process's children, by kind, while the `with` lasts."""

    def __init__(self) -> None:
        self.peak_mb: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            for kind, megabytes in _processes():
                self.peak_mb[kind] = max(self.peak_mb.get(kind, 0.0), megabytes)


def _processes() -> Iterator[tuple[str, float]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            pages = int((folder / "statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it has ended
        megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        if int(folder.name) == os.getpid():
            yield "driver (Python)", megabytes
        elif "pyspark.daemon" in command or "pyspark/daemon" in command:
            yield "one Python worker", megabytes
        elif "SparkSubmit" in command:
            yield "driver (JVM)", megabytes
        elif "CoarseGrainedExecutorBackend" in command:
            yield "one executor (JVM)", megabytes


@contextmanager
def timed(into: dict[str, float], name: str) -> Iterator[None]:
    """Put the seconds of the `with` into a dictionary."""
    start = time.perf_counter()
    yield
    into[name] = time.perf_counter() - start


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *[[_cell(value) for value in row] for row in rows]]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
