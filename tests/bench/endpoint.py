"""How busy prspark keeps an endpoint, against the ideal and the plain way, on a stub with counters.

python tests/bench/endpoint.py               # all scenarios, each in its own process; about six minutes
python tests/bench/endpoint.py steady hot    # some of them
"""

import json
import os
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import ROOT, questions, session, table
from plain import plain_scores
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from prspark import api
from prspark.engine.config import Config, make_config
from prspark.judges.endpoint import EndpointJudge
from prspark.judges.limits import OpenGate
from prspark.judges.protocol import Judge
from tests.support.stub_endpoint import StubEndpoint

_PATH = os.pathsep.join([str(ROOT), str(ROOT / "tests/bench")])


@dataclass(frozen=True)
class Scenario:
    """One run: the endpoint, the table and the limits. `plain_rows` are scored the plain way too; 0 is none."""

    stub: dict[str, Any]
    rows: int
    limits: dict[str, Any]
    group_rows: int = 5
    master: str = "local[2]"
    executors: int = 1
    plain_rows: int = 0
    settings: dict[str, str] = field(default_factory=dict)


_FORTY = {"executor_concurrency": 40, "max_concurrency": 16}
SCENARIOS = {
    "steady": Scenario({"latency": 0.2, "jitter": 0.05}, 3890, _FORTY, plain_rows=300),
    "steady, default limits": Scenario({"latency": 0.2, "jitter": 0.05}, 3890, {}),
    "fast": Scenario({"latency": 0.05}, 9445, _FORTY, plain_rows=600),
    "cluster": Scenario(
        {"latency": 0.2, "jitter": 0.05},
        3890,
        {"executor_concurrency": 20, "max_concurrency": 8},
        master="local-cluster[2,2,1024]",
        executors=2,
        settings={"spark.executorEnv.PYTHONPATH": _PATH},
    ),
    "hot": Scenario({"latency": 0.1}, 3001, _FORTY, group_rows=3001),
    "rate": Scenario({"latency": 0.02}, 1670, {**_FORTY, "requests_per_minute": 6000}, master="local[4]"),
    "throttled": Scenario(
        {"latency": 0.05, "p429": 0.2, "retry_after": 1}, 165, {**_FORTY, "max_attempts": 20}
    ),
}


def run(name: str) -> dict[str, Any]:
    """Run one scenario; returns its row of the table."""
    scenario = SCENARIOS[name]
    spark = session(scenario.master, **scenario.settings)
    df = questions(spark, scenario.rows, group_rows=scenario.group_rows, distinct=True).persist()
    df.count()
    with StubEndpoint(**scenario.stub) as stub:
        config = _config(stub, scenario)
        before, start = _worker_cpu(), time.perf_counter()
        scored = api.run_scoring(df, config, progress=False)
        seconds, cpu = time.perf_counter() - start, _worker_cpu() - before
        stats = stub.stats(lists=True)
        found = _figures(scenario, stats, seconds, cpu)
        found["unscored"] = scored.summary.unscored_groups
        if scenario.plain_rows:
            found["plain busy"] = _plain(spark, stub, config, scenario)
    spark.stop()
    return {"scenario": name, **found}


def _config(stub: StubEndpoint, scenario: Scenario) -> Config:
    judge = {"kind": "chat", "base_url": stub.url, "model": "stub", "preflight": False}
    # a worker's SPARK_LOCAL_DIRS is its executor's own, so the stub can count by executor
    judge |= {"header_env": {"X-Executor": "SPARK_LOCAL_DIRS"}} if scenario.executors > 1 else {}
    return make_config({"judge": judge, "limits": scenario.limits})


def _figures(scenario: Scenario, stats: dict[str, Any], seconds: float, cpu: float) -> dict[str, Any]:
    limit = scenario.limits.get("executor_concurrency", 40) * scenario.executors
    span = stats["last_departure"] - stats["first_arrival"]
    return {
        "calls": stats["requests"],
        "paid twice": stats["duplicates"],
        "busy": stats["busy_seconds"] / (limit * span),
        "max in flight": stats["max_in_flight"],
        "by executor": sorted(stats["max_in_flight_by_executor"].values()) if scenario.executors > 1 else "",
        "judging, s": span,
        "ideal, s": stats["busy_seconds"] / limit,
        "whole job, s": seconds,
        "worker CPU, ms a call": 1000 * cpu / stats["requests"],
        "rate": _rate(scenario, stats["arrivals"]),
        "after 429": _after_429(scenario, stats),
    }


def _rate(scenario: Scenario, arrivals: list[float]) -> str:
    """Sent a minute, and the most in any 10 s beside what is allowed in 10 s."""
    allowed = scenario.limits.get("requests_per_minute")
    if not allowed:
        return ""
    arrivals = sorted(arrivals)
    a_minute = 60 * (len(arrivals) - 1) / (arrivals[-1] - arrivals[0])
    most = max(bisect_left(arrivals, at + 10) - i for i, at in enumerate(arrivals))
    return f"{a_minute:.0f}/min, at most {most} in 10 s of {allowed / 6:.0f}"


def _after_429(scenario: Scenario, stats: dict[str, Any]) -> str:
    """Sends that arrived between 50 ms (they were on their way) and 950 ms after a 429 that asked for 1 s."""
    if not stats["throttled_at"] or "retry_after" not in scenario.stub:
        return ""
    arrivals = sorted(stats["arrivals"])
    early = {
        i
        for at in stats["throttled_at"]
        for i in range(bisect_left(arrivals, at + 0.05), bisect_right(arrivals, at + 0.95))
    }
    return f"{len(early)} early of {len(arrivals)}, {len(stats['throttled_at'])} x 429"


def _worker_cpu() -> float:
    """CPU seconds of all Python workers so far."""
    total = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                    total += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:13]))
            except OSError:
                continue
    return total / os.sysconf("SC_CLK_TCK")


def _plain(spark: SparkSession, stub: StubEndpoint, config: Config, scenario: Scenario) -> float:
    """Share of the limit that the plain way uses: one group a call, five threads, no shared limit."""
    stub.reset()
    df: DataFrame = questions(spark, scenario.plain_rows, distinct=True)
    plain_scores(df, _maker(config), threads=5).agg(F.count("score")).collect()
    return stub.busy_share(40)


def _maker(config: Config) -> Callable[[], Judge]:
    return lambda: EndpointJudge(
        config.judge, timeout_seconds=60, max_attempts=5, gate=OpenGate(), environ=os.environ
    )


def main() -> None:
    """Run the scenarios named, each in its own process, and print the table."""
    if sys.argv[1:2] == ["--one"]:
        print("RESULT " + json.dumps(run(sys.argv[2])))
        return
    rows = []
    for name in sys.argv[1:] or SCENARIOS:
        done = subprocess.run(
            [sys.executable, __file__, "--one", name], capture_output=True, text=True, check=False
        )
        found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not found:
            print(done.stderr[-3000:])
            raise SystemExit(f"scenario {name} failed")
        rows.append(json.loads(found[0].removeprefix("RESULT ")))
        print(rows[-1], flush=True)
    heads = list(dict.fromkeys(key for row in rows for key in row))
    print(table(heads, [[row.get(head, "") for head in heads] for row in rows]))


if __name__ == "__main__":
    main()
