"""What kills cost in paid calls, at the size of a real run; every score is compared with an undisturbed run's.

python tests/bench/kills.py             # about ten minutes
python tests/bench/kills.py driver      # one scenario: driver, executor, worker, storm, faults
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import table

from tests.support import killing
from tests.support.stub_endpoint import StubEndpoint

GROUPS = 367  # 3,303 calls
CALLS = GROUPS * 9


def driver(stub: StubEndpoint, source: Path, folder: Path) -> list[Any]:
    """Kill the whole job at about half of the calls, then run the same command again."""
    return _killed(stub, source, folder, [CALLS // 2])


def storm(stub: StubEndpoint, source: Path, folder: Path) -> list[Any]:
    """Kill the job ten times at random moments; start it again each time."""
    chooser = random.Random(7)
    return _killed(stub, source, folder, sorted(chooser.sample(range(50, CALLS - 50), 10)))


def _killed(stub: StubEndpoint, source: Path, folder: Path, moments: list[int]) -> list[Any]:
    args = killing.arguments(stub, source, folder / "out.parquet", folder / "journal")
    for moment in moments:
        with killing.killed_at_the_end(killing.local_job(args, folder / "log")) as job:
            killing.wait_for(stub, moment + 1, job, folder / "log")
    with killing.killed_at_the_end(killing.local_job(args, folder / "log")) as job:
        killing.finish(job, folder / "log")
    return [len(moments), "yes"]


def executor(stub: StubEndpoint, source: Path, folder: Path) -> list[Any]:
    """Kill one executor of a cluster of two in mid-run; no rerun."""
    return _cluster(stub, source, folder, "CoarseGrainedExecutorBackend")


def worker(stub: StubEndpoint, source: Path, folder: Path) -> list[Any]:
    """Kill one Python worker of a cluster in mid-run; no rerun."""
    return _cluster(stub, source, folder, "pyspark.daemon")


def _cluster(stub: StubEndpoint, source: Path, folder: Path, victim: str) -> list[Any]:
    args = killing.arguments(stub, source, folder / "out.parquet", None)
    with killing.killed_at_the_end(killing.cluster_job(args, folder / "log")) as job:
        killing.wait_for(stub, CALLS // 2, job, folder / "log")
        killing.kill_one(job, victim)
        killing.finish(job, folder / "log")
    return [1, "no"]


def faults(stub: StubEndpoint, source: Path, folder: Path) -> list[Any]:
    """15 % 429 without Retry-After, 10 % 500, 5 % resets; nothing is killed."""
    stub.configure(p429=0.15, retry_after=None, p500=0.10, p_reset=0.05)
    args = killing.arguments(stub, source, folder / "out.parquet", None)
    with killing.killed_at_the_end(killing.local_job(args, folder / "log")) as job:
        killing.finish(job, folder / "log")
    stub.configure(p429=0.0, p500=0.0, p_reset=0.0)
    return [0, "no"]


SCENARIOS: dict[str, Callable[[StubEndpoint, Path, Path], list[Any]]] = {
    "driver": driver,
    "storm": storm,
    "executor": executor,
    "worker": worker,
    "faults": faults,
}


def main() -> None:
    """Print the table."""
    folder = Path(tempfile.mkdtemp(prefix="prspark-kills-"))
    source = folder / "answers.jsonl"
    killing.write_questions(source, groups=GROUPS)
    rows = []
    with StubEndpoint(latency=0.2) as stub:
        base = folder / "undisturbed.parquet"
        job = killing.local_job(killing.arguments(stub, source, base, None), folder / "log")
        killing.finish(job, folder / "log")
        expected = killing.scores(base)
        for name in sys.argv[1:] or SCENARIOS:
            stub.reset()
            place = folder / name
            place.mkdir()
            start = time.perf_counter()
            kills, rerun = SCENARIOS[name](stub, source, place)
            stats = stub.stats()
            same = killing.scores(place / "out.parquet") == expected
            sends = sum(stats["statuses"].values())
            row = [
                name,
                kills,
                rerun,
                stats["distinct"],
                sends,
                stats["duplicates"],
                stats["requests"] - stats["distinct"],
            ]
            rows.append([*row, same, time.perf_counter() - start])
            print(rows[-1], flush=True)
    heads = ["scenario", "kills", "rerun", "distinct requests", "sends", "paid twice", "sends over distinct"]
    print(table([*heads, "scores as undisturbed", "seconds"], rows))


if __name__ == "__main__":
    main()
