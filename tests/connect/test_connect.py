"""Everything works over Spark Connect, where the client has no JVM: run these tests in a process of their own."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import prspark
import prspark.errors
from prspark import cli
from prspark.data import sample_path
from prspark.engine import stream
from tests.support.answers import HALF, METRIC, answer, assert_half, results, score, table
from tests.support.sample_scores import sample_scores
from tests.support.stub_endpoint import StubEndpoint

ROOT = Path(prspark.__file__).parents[1]
BY_MODEL = {"columns": {"group_by": ["metadata.model"]}}


def by_id(scored):
    rows = scored.select("input_id", METRIC).collect()
    return {row.input_id: row[METRIC] for row in rows}


def test_this_session_is_one_of_connect(spark):
    assert type(spark).__module__ == "pyspark.sql.connect.session"


def test_the_sample_scores_as_it_does_without_spark(spark):
    assert by_id(score(spark.read.json(str(sample_path())), BY_MODEL)) == sample_scores()


def test_huge_groups_are_taken_apart(spark, monkeypatch):
    monkeypatch.setattr(stream, "FREE_CUT", stream.Cut(rows=3, part_rows=1))
    assert by_id(score(spark.read.json(str(sample_path())), BY_MODEL)) == sample_scores()


def test_odd_names_and_no_rows(spark):
    df = table(spark, HALF).withColumn("_prspark_row", F.lit(1)).withColumn("a.b`c", F.lit(2))
    scored = score(df.where("false"))
    assert (scored.count(), scored.columns[-4:-2]) == (0, ["_prspark_row", "a.b`c"])


def test_a_paid_judge_is_asked_once_a_request_and_never_again_with_its_journal(spark, tmp_path):
    df = table(spark, [*HALF, answer("d", "6*7?", "It is 42.")])
    # of d only the question is new; its answer and the pair's are judged with it
    requests = 4 + 3
    with StubEndpoint() as stub:
        judge = {"kind": "chat", "base_url": stub.url, "model": "stub", "preflight": False}
        journal = str(tmp_path / "journal")
        first = prspark.score(df, {"judge": judge}, journal=journal, progress=False)
        found = results(first)
        assert stub.stats()["requests"] == requests
        first.count()
        again = prspark.score(df, {"judge": judge}, journal=journal, progress=False)
        assert results(again) == found
        assert stub.stats()["requests"] == requests
    assert {row["status"] for row in found.values()} == {"scored"}
    assert [found[i]["role"] for i in "abcd"] == ["baseline", "variant", "variant", "variant"]
    replayed = prspark.score(df, {"judge": judge}, journal=journal, replay=True, progress=False)
    assert results(replayed) == found


def test_a_judge_that_refuses_is_one_line_of_ours(spark):
    with StubEndpoint(model="stub") as stub:
        gone = stub.url
    judge = {"kind": "chat", "base_url": gone, "model": "stub"}
    with pytest.raises(prspark.errors.PreflightError) as caught:
        prspark.score(table(spark, HALF), {"judge": judge}, progress=False)
    assert "\n" not in str(caught.value)


def test_a_plan_is_made_without_a_call(spark):
    judge = {"kind": "chat", "base_url": "http://127.0.0.1:1/v1", "model": "stub"}
    plan = prspark.plan(table(spark, HALF), {"judge": judge})
    assert (plan.rows, plan.groups, plan.calls["total"]) == (3, 1, 5)


@pytest.fixture
def command(remote, monkeypatch):
    """The command line in this process, as it is where SPARK_REMOTE says where Spark is."""
    monkeypatch.setenv("SPARK_REMOTE", remote)

    def run(source, target, *options):
        return cli.main(["score", "--input", str(source), "--output", str(target), *options])

    return run


def test_the_command_takes_the_session_of_spark_remote_and_writes_whole_outputs(spark, command, tmp_path):
    df = table(spark, HALF).coalesce(1)
    df.write.parquet(str(tmp_path / "in.parquet"))
    out = tmp_path / "out.parquet"
    assert command(tmp_path / "in.parquet", out, "--show") == 0
    assert_half(results(spark.read.parquet(str(out))))
    assert command(tmp_path / "in.parquet", out) == 2
    assert command(tmp_path / "in.parquet", out, "--mode", "overwrite") == 0
    assert_half(results(spark.read.parquet(str(out))))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_paths_of_a_server_on_another_machine_are_its_own_to_check_and_write(
    spark, command, tmp_path, monkeypatch
):
    monkeypatch.setattr("prspark.engine.io._LOOPBACK", ())
    monkeypatch.setattr("prspark.engine.io._swap", None)  # renaming here would rename nothing there
    monkeypatch.setattr("pathlib.Path.exists", None)
    table(spark, HALF).coalesce(1).write.parquet(str(tmp_path / "in.parquet"))
    for prefix in ("", "file://"):
        out = f"{prefix}{tmp_path}/out.parquet"
        assert command(tmp_path / "in.parquet", out, "--mode", "overwrite") == 0
        assert_half(results(spark.read.parquet(out)))
        assert command(tmp_path / "in.parquet", out) == 2


@pytest.mark.parametrize(
    ("source", "said"),
    [("missing.parquet", "can't be read: [PATH_NOT_FOUND]"), ("no_db.missing", "[TABLE_OR_VIEW_NOT_FOUND]")],
)
def test_bad_input_is_one_line_and_exit_code_2(command, source, said, tmp_path, capsys):
    assert command(source, tmp_path / "out") == 2
    line = capsys.readouterr().err.strip()
    assert said in line
    assert "\n" not in line
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_breaks_off_in_the_middle_is_named(spark, command, tmp_path, capsys):
    table(spark, HALF).coalesce(1).write.parquet(str(tmp_path / "in.parquet"))
    part = next((tmp_path / "in.parquet").glob("part-*"))
    data = bytearray(part.read_bytes())
    data[4 : len(data) // 3] = bytes(len(data) // 3 - 4)  # the footer is whole, the pages are not
    (tmp_path / "broken.parquet").write_bytes(data)
    assert command(tmp_path / "broken.parquet", tmp_path / "out.parquet") == 2
    assert "broken.parquet" in capsys.readouterr().err


def test_a_process_that_has_only_spark_remote_scores_a_file(spark, remote, tmp_path):
    command = [
        sys.executable,
        "-m",
        "prspark",
        "score",
        "--input",
        sample_path(),
        "--output",
        tmp_path / "out.orc",
    ]
    env = {**os.environ, "SPARK_REMOTE": remote, "PYTHONPATH": str(ROOT)}
    env = {name: value for name, value in env.items() if name != "SPARK_CONNECT_MODE_ENABLED"}
    done = subprocess.run(
        [*map(str, command), "--set", 'columns.group_by=["metadata.model"]'],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert by_id(spark.read.orc(str(tmp_path / "out.orc"))) == sample_scores()


def test_nothing_in_the_library_needs_a_jvm_beside_it():
    """Connect lacks these; and code that asks for them works in every other test."""
    used = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path in (ROOT / "prspark").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in {"sparkContext", "_sc", "rdd", "_jvm", "_jdf", "_jsc", "_jsparkSession"}
    }
    assert used == set()
