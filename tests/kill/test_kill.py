"""What a run loses when parts of it die: at most what is in flight. Real jobs, real SIGKILL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import killing
from tests.support.stub_endpoint import StubEndpoint

GROUPS = 60


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("questions") / "answers.jsonl"
    killing.write_questions(path, groups=GROUPS)
    return path


@pytest.fixture(scope="module")
def stub() -> Iterator[StubEndpoint]:
    with StubEndpoint(latency=0.3) as running:
        yield running


@pytest.fixture(scope="module")
def undisturbed(
    source: Path, stub: StubEndpoint, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[object, ...]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with killing.killed_at_the_end(
        killing.local_job(killing.arguments(stub, source, folder / "out.parquet", None), folder / "log")
    ) as job:
        killing.finish(job, folder / "log")
    return killing.scores(folder / "out.parquet")


def test_a_killed_driver_costs_at_most_what_was_in_flight(
    source: Path, stub: StubEndpoint, undisturbed: dict[str, tuple[object, ...]], tmp_path: Path
) -> None:
    stub.reset()
    args = killing.arguments(stub, source, tmp_path / "out.parquet", tmp_path / "journal")
    with killing.killed_at_the_end(killing.local_job(args, tmp_path / "log")) as job:
        killing.wait_for(stub, GROUPS * 9 // 2, job, tmp_path / "log")
    assert not (tmp_path / "out.parquet").exists()
    with killing.killed_at_the_end(killing.local_job(args, tmp_path / "log")) as job:
        killing.finish(job, tmp_path / "log")
    stats = stub.stats()
    assert stats["distinct"] == GROUPS * 9
    assert stats["requests"] - stats["distinct"] <= killing.LIMIT
    assert killing.scores(tmp_path / "out.parquet") == undisturbed


def test_a_killed_run_without_a_journal_resumes_from_its_working_folder(
    source: Path, stub: StubEndpoint, undisturbed: dict[str, tuple[object, ...]], tmp_path: Path
) -> None:
    stub.reset()
    args = killing.arguments(stub, source, tmp_path / "out.parquet", None)
    with killing.killed_at_the_end(killing.local_job(args, tmp_path / "log")) as job:
        killing.wait_for(stub, GROUPS * 9 // 2, job, tmp_path / "log")
    with killing.killed_at_the_end(killing.local_job(args, tmp_path / "log")) as job:
        killing.finish(job, tmp_path / "log")
    stats = stub.stats()
    assert stats["requests"] - stats["distinct"] <= killing.LIMIT
    assert killing.scores(tmp_path / "out.parquet") == undisturbed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "out.parquet"]


@pytest.mark.parametrize("victim", ["CoarseGrainedExecutorBackend", "pyspark.daemon"])
def test_a_killed_executor_or_python_worker_needs_no_rerun(
    victim: str, source: Path, stub: StubEndpoint, undisturbed: dict[str, tuple[object, ...]], tmp_path: Path
) -> None:
    stub.reset()
    args = killing.arguments(stub, source, tmp_path / "out.parquet", None)
    with killing.killed_at_the_end(killing.cluster_job(args, tmp_path / "log")) as job:
        killing.wait_for(stub, GROUPS * 9 // 3, job, tmp_path / "log")
        killing.kill_one(job, victim)
        killing.finish(job, tmp_path / "log")
    stats = stub.stats()
    assert stats["distinct"] == GROUPS * 9
    assert stats["requests"] - stats["distinct"] <= killing.LIMIT
    assert killing.scores(tmp_path / "out.parquet") == undisturbed
