"""What a rerun costs that finds every verdict in its journal, beside a run whose judge answers at once.

python tests/bench/resume.py                     # 1,000,000 verdicts; ten minutes, most of them the paid first run
python tests/bench/resume.py --verdicts 90000
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import PeakMemory, questions, session, table
from judges import InstantJudge, PaidInstantJudge
from pyspark.sql import DataFrame

from prspark import api
from prspark.engine.journal import list_files
from prspark.judges.protocol import Judge

GROUP_ROWS = 5
VERDICTS_A_GROUP = 2 * GROUP_ROWS - 1


def scored(df: DataFrame, judge: Callable[[], Judge], out: Path, journal: Path | None) -> list[object]:
    """Score and write the table; returns its cells of the printed table."""
    with PeakMemory() as memory:
        start = time.perf_counter()
        found = api.run_scoring(df, journal=journal and str(journal), judge=judge, progress=False)
        found.df.write.mode("overwrite").parquet(str(out))
        seconds = time.perf_counter() - start
    sent = found.summary.verdicts.get("sent", 0)
    peaks = "; ".join(f"{kind} {peak:,.0f} MB" for kind, peak in sorted(memory.peak_mb.items()))
    return [sent, len(list_files(str(journal))) if journal else 0, seconds, peaks]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verdicts", type=int, default=1_000_000)
    groups = -(-parser.parse_args().verdicts // VERDICTS_A_GROUP)
    folder = Path(tempfile.mkdtemp(prefix="prspark-bench-"))
    spark = session()
    questions(spark, groups * GROUP_ROWS, distinct=True).write.parquet(str(folder / "rows"))
    df = spark.read.parquet(str(folder / "rows"))
    scored(df.limit(2000), InstantJudge, folder / "warm", None)  # start the workers
    runs: list[tuple[str, Callable[[], Judge], Path | None]] = [
        ("instant judge, no journal", InstantJudge, None),
        ("paid instant judge, new journal", PaidInstantJudge, folder / "journal"),
        ("the same again, nothing missing", PaidInstantJudge, folder / "journal"),
    ]
    lines = []
    for name, judge, journal in runs:
        lines.append([name, f"{groups * VERDICTS_A_GROUP:,}", *scored(df, judge, folder / "out", journal)])
        print(lines[-1], flush=True)
        out = spark.read.parquet(str(folder / "out"))
        assert out.count() == groups * GROUP_ROWS
        assert out.where("perturbation_robustness_external IS NULL").count() == 0
    print(table(["run", "verdicts", "sent", "journal files", "whole job, s", "peak memory"], lines))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
