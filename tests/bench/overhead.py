"""Spark's own cost around a judge: prspark against one `applyInPandas` call a group, in the same run.

python tests/bench/overhead.py --rows 1000000                      # embedded judge and instant judge
python tests/bench/overhead.py --rows 1000000 10000000 --no-plain  # how time and memory grow
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import PeakMemory, questions, session, table, timed
from judges import InstantJudge
from plain import plain_scores
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from prspark.engine.config import make_config
from prspark.engine.run import Run
from prspark.judges.lexical import LexicalJudge
from prspark.judges.protocol import CorrectnessRequest, Judge, RobustnessRequest

JUDGES: dict[str, Callable[[], Judge]] = {"lexical": LexicalJudge, "instant": InstantJudge}


def ours(df: DataFrame, maker: Callable[[], Judge], out: Path) -> dict[str, float]:
    """Score and write a table; seconds by stage."""
    seconds: dict[str, float] = {}
    with timed(seconds, "whole job"):
        run = Run(df, make_config(None), maker=maker)
        with timed(seconds, "counting"):
            run.measure()
        with timed(seconds, "judging stage"):
            run.judge()
        with timed(seconds, "join and write"):
            run.joined().write.mode("overwrite").parquet(str(out))
        run.release()
        run.close()
    return seconds


def plain(df: DataFrame, maker: Callable[[], Judge]) -> float:
    """Run the plain way's judging stage; seconds."""
    seconds: dict[str, float] = {}
    with timed(seconds, "judging"):
        plain_scores(df, maker).agg(F.count("score"), F.avg("score")).collect()
    return seconds["judging"]


def judge_seconds(df: DataFrame, maker: Callable[[], Judge]) -> float:
    """Time the judge alone, in one Python process over all rows; two workers share it, so half counts."""
    judge, spent = maker(), 0.0
    rows = df.selectExpr(
        "prompt", "sut_response", "reference_answer", "metadata.original_query"
    ).toLocalIterator()
    base = None
    for row in rows:  # rows of a group follow each other
        start = time.perf_counter()
        judge.correctness(CorrectnessRequest(row[0], row[1], row[2]))
        if row[0] == row[3]:
            base = row
        elif base is not None and row[1] != base[1]:  # an identical pair needs no call
            judge.robustness(RobustnessRequest(base[0], base[1], row[0], row[1]))
        spent += time.perf_counter() - start
    return spent


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--judges", nargs="+", choices=JUDGES, default=list(JUDGES))
    parser.add_argument("--plain", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="prspark-bench-"))
    spark = session()
    spark.conf.set("spark.sql.execution.pythonUDF.arrow.enabled", "true")
    lines = []
    for rows in arguments.rows:
        path = str(folder / f"rows-{rows}")
        questions(spark, rows).write.parquet(path)
        df = spark.read.parquet(path)
        for judge_name in arguments.judges:
            ours(df.limit(2000), JUDGES[judge_name], folder / "warm")  # start the workers
            with PeakMemory() as memory:
                seconds = ours(df, JUDGES[judge_name], folder / "out")
            out = spark.read.parquet(str(folder / "out")).count()
            plain_seconds = plain(df, JUDGES[judge_name]) if arguments.plain else float("nan")
            judge = (
                judge_seconds(df, JUDGES[judge_name]) / 2
                if arguments.plain and judge_name == "lexical"
                else 0.0
            )
            around = (plain_seconds - judge) / max(0.001, seconds["judging stage"] - judge)
            stages = [seconds[name] for name in ("whole job", "counting", "judging stage")]
            peaks = "; ".join(f"{kind} {peak:,.0f} MB" for kind, peak in sorted(memory.peak_mb.items()))
            ratios = [plain_seconds / seconds["judging stage"], around]
            lines.append([f"{rows:,}", f"{out:,}", judge_name, *stages, plain_seconds, judge, *ratios, peaks])
            print(lines[-1], flush=True)
    heads = [
        "rows in",
        "rows out",
        "judge",
        "whole job, s",
        "counting, s",
        "judging stage, s",
        "plain judging, s",
    ]
    heads += ["judge alone / 2, s", "plain / ours", "around the judge: plain / ours", "peak memory"]
    print(table(heads, lines))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
