"""Runs real scoring jobs against the stub, kills parts of them with SIGKILL, and reads what they wrote."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.stub_endpoint import StubEndpoint

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 40
WAIT_SECONDS = 600  # a loaded machine may take long to start a JVM
_LOCAL = [sys.executable, "-m", "prspark", "score"]


def write_questions(path: Path, *, groups: int, variants: int = 4) -> int:
    """Write JSON lines of groups in which every verdict needs a call; returns the number of calls."""
    with path.open("w", encoding="utf-8") as lines:
        for group in range(groups):
            original = f"What is {group} plus {group}?"
            for place in range(variants + 1):
                row = {
                    "input_id": f"{group}-{place}",
                    "prompt": original if place == 0 else f"Say {place}: {original}",
                    "sut_response": f"The answer is {2 * group}, wording {group}-{place}.",
                    "reference_answer": str(2 * group),
                    "metadata": {"original_query": original},
                }
                lines.write(json.dumps(row) + "\n")
    return groups * (2 * variants + 1)


def arguments(stub: StubEndpoint, source: Path, output: Path, journal: Path | None) -> list[str]:
    """The arguments of `prspark score` for a run against the stub."""
    settings = {
        "judge.kind": "chat",
        "judge.base_url": stub.url,
        "judge.model": "stub",
        "judge.preflight": "false",
        "limits.executor_concurrency": LIMIT,
        "limits.max_concurrency": 16,
        "limits.max_attempts": 20,
    }
    options = [option for name, value in settings.items() for option in ("--set", f"{name}={value}")]
    options += ["--journal", str(journal)] if journal else []
    return ["--input", str(source), "--output", str(output), *options]


def start(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a job in a process group of its own, so that all of it can be killed at once."""
    environ = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    with log.open("ab") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, env=environ, start_new_session=True)


def local_job(args: list[str], log: Path) -> "subprocess.Popen[bytes]":
    """Start `prspark score` on a local session."""
    return start([*_LOCAL, *args], log)


def cluster_job(args: list[str], log: Path) -> "subprocess.Popen[bytes]":
    """Start `spark-submit jobs/score.py` on two real executors."""
    submit = Path(sys.executable).with_name("spark-submit")
    conf = {
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),  # how to start fast
    }
    options = [option for name, value in conf.items() for option in ("--conf", f"{name}={value}")]
    job = str(ROOT / "jobs/score.py")
    return start([str(submit), "--master", "local-cluster[2,2,1024]", *options, job, *args], log)


@contextmanager
def killed_at_the_end(job: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """Leave no process of a job behind, however the test ends."""
    try:
        yield job
    finally:
        kill_all(job)


def kill_all(job: "subprocess.Popen[bytes]") -> None:
    """SIGKILL to the whole job at one moment: driver, JVM and workers, as when a machine is lost.

    All stop first: a stopped process sends nothing and keeps its permits. Killed one by one, a worker that dies
    gives its permits back, and one that lives on for some milliseconds rightly sends more.
    """
    stopped: set[int] = set()
    while fresh := set(_members(job.pid)) - stopped:  # again: one of them may have been forking
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
    for pid in stopped:
        _signal(pid, signal.SIGKILL)
    job.wait()


def wait_for(stub: StubEndpoint, requests: int, job: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the stub has seen so many requests of a job that is still running."""
    _until(lambda: stub.stats()["requests"] >= requests, job, log)


def finish(job: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait for a job to end well."""
    if job.wait(timeout=WAIT_SECONDS) != 0:
        raise AssertionError(f"the job ended with {job.returncode}: {log.read_text()[-2000:]}")


def kill_one(job: "subprocess.Popen[bytes]", what: str) -> None:
    """SIGKILL to one process of a job whose command line has `what` in it, the youngest one."""
    found = [pid for pid in _members(job.pid) if what in _command(pid)]
    if not found:
        raise AssertionError(f"the job has no process {what}")
    _signal(max(found), signal.SIGKILL)


def scores(output: Path) -> dict[str, tuple[Any, ...]]:
    """Read, by input_id, the score and the row's own verdicts."""
    table = pq.read_table(output).to_pylist()
    name = "perturbation_robustness_external"
    return {
        row["input_id"]: (
            row[name],
            row[f"{name}_details"]["correctness"],
            row[f"{name}_details"]["robustness"],
        )
        for row in table
    }


def _until(condition: Callable[[], bool], job: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if job.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"the job ended too early: {log.read_text()[-2000:]}")
        time.sleep(0.05)  # the stub's counters are polled: they are in another process


def _members(group: int) -> list[int]:
    """All processes of a session; Python workers have process groups of their own."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == group:
                found.append(int(folder.name))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
