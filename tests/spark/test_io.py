"""The score command reads and writes every format, and an output is there whole or not at all."""

import csv
import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from prspark.cli import main
from prspark.engine import io
from tests.support.answers import HALF, METRIC, answer, assert_half, table

AWKWARD = 'He said "no",\nthen\r\nleft\rfor good; \\ and \\" too'
ROWS = [
    *HALF,
    answer("x", AWKWARD, " 42 ", AWKWARD, "42"),
    answer("y", f"{AWKWARD}?", "\t42\n", AWKWARD, "42"),
]
EXPECTED = {"a": 0.5, "b": 0.5, "c": 0.5, "x": 1.0, "y": 1.0}
DETAILS = f"{METRIC}_details"


@pytest.fixture(scope="module")
def answers(spark):
    return (
        table(spark, ROWS)
        .withColumn("metadata", F.struct(F.col("metadata.original_query").alias("original_query")))
        .coalesce(1)
    )


@pytest.fixture(scope="module")
def database(spark, tmp_path_factory):
    spark.sql(f"CREATE DATABASE io_tests LOCATION '{tmp_path_factory.mktemp('warehouse')}'")
    yield "io_tests"
    spark.sql("DROP DATABASE io_tests CASCADE")


@pytest.fixture(scope="module")
def source(answers, tmp_path_factory):
    """A parquet file of `ROWS`."""
    path = tmp_path_factory.mktemp("source") / "answers.parquet"
    answers.write.parquet(str(path))
    return str(path)


def run(source, target, *options):
    return main(["score", "--input", str(source), "--output", str(target), *options])


def as_plain(rows):
    """Rows of a format as (score, details, all else), by input id; nested values read from CSV's JSON texts."""
    found = {}
    for row in rows:
        plain = row if isinstance(row, dict) else row.asDict(recursive=True)
        for name in ("metadata", DETAILS):
            if isinstance(plain[name], str):
                plain[name] = json.loads(plain[name])
        score, details = float(plain.pop(METRIC)), plain.pop(DETAILS)
        found[plain["input_id"]] = score, details, plain
    return found


def assert_scored(rows):
    """Check that all of `ROWS` are there, untouched and with their scores."""
    rows = list(rows)
    found = as_plain(rows)
    assert len(rows) == len(ROWS)
    assert {key: score for key, (score, _, _) in found.items()} == EXPECTED
    for row in ROWS:
        key, prompt, response, reference, metadata = row
        assert found[key][2] == {
            "input_id": key,
            "prompt": prompt,
            "sut_response": response,
            "reference_answer": reference,
            "metadata": metadata,
        }
    details = {key: {"score": score, "robustness": None, **more} for key, (score, more, _) in found.items()}
    assert_half(details)


def read_csv(folder):
    """Read what Spark wrote with a reader that is not Spark's."""
    for part in sorted(Path(folder).glob("*.csv")):
        with part.open(newline="", encoding="utf-8") as lines:
            yield from csv.DictReader(lines)


def test_parquet_in_json_lines_out(source, tmp_path):
    assert run(source, tmp_path / "out.json") == 0
    parts = [path.read_text(encoding="utf-8") for path in (tmp_path / "out.json").glob("*.json")]
    assert_scored(json.loads(line) for line in "".join(parts).splitlines())


@pytest.mark.usefixtures("spark")
def test_json_lines_in_csv_out(tmp_path):
    with (tmp_path / "in.jsonl").open("w", encoding="utf-8") as lines:
        for key, prompt, response, reference, metadata in ROWS:
            row = {"input_id": key, "prompt": prompt, "sut_response": response, "metadata": metadata}
            lines.write(json.dumps(row | {"reference_answer": reference}) + "\n")
    assert run(tmp_path / "in.jsonl", tmp_path / "out.csv") == 0
    assert_scored(read_csv(tmp_path / "out.csv"))


def test_csv_with_metadata_as_json_text_in_orc_out(spark, tmp_path):
    with (tmp_path / "in.csv").open("w", newline="", encoding="utf-8") as lines:
        # where rows end in CRLF, Spark's reader turns one inside a field into LF
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["input_id", "prompt", "sut_response", "reference_answer", "metadata"])
        writer.writerows([*row[:4], json.dumps(row[4])] for row in ROWS)
    assert run(tmp_path / "in.csv", tmp_path / "out.orc") == 0
    assert_scored(spark.read.orc(str(tmp_path / "out.orc")).collect())


def test_orc_in_table_out(spark, answers, database, tmp_path):
    answers.write.orc(str(tmp_path / "in.orc"))
    assert run(tmp_path / "in.orc", f"{database}.from_orc") == 0
    assert_scored(spark.table(f"{database}.from_orc").collect())


def test_table_in_parquet_out(spark, answers, database, tmp_path):
    answers.write.saveAsTable(f"{database}.answers")
    assert run(f"{database}.answers", tmp_path / "out") == 0
    assert_scored(spark.read.parquet(str(tmp_path / "out")).collect())


def test_csv_that_prspark_wrote_can_be_scored_again(source, tmp_path):
    assert run(source, tmp_path / "one.csv") == 0
    assert run(tmp_path / "one.csv", tmp_path / "two.csv", "--set", "metric.metric_name=again") == 0
    rows = list(read_csv(tmp_path / "two.csv"))
    assert {row["input_id"]: float(row["again"]) for row in rows} == EXPECTED
    assert_scored({name: value for name, value in row.items() if "again" not in name} for row in rows)


def test_paths_with_spaces_and_uris_of_files_are_paths(spark, source, tmp_path):
    target = tmp_path / "my änswers 100%.parquet"
    assert run(f"file://{source}", f"file://{target}") == 0
    assert_scored(spark.read.parquet(str(target)).collect())
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_an_output_that_exists_is_kept_unless_its_end_is_asked_for(spark, source, tmp_path, capsys):
    target = tmp_path / "out.parquet"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    assert run(source, target) == 2
    assert "exists" in capsys.readouterr().err
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    assert run(source, target, "--mode", "overwrite") == 0
    assert not (target / "mine.txt").exists()
    assert_scored(spark.read.parquet(str(target)).collect())
    assert run(source, target, "--mode", "append") == 0
    assert spark.read.parquet(str(target)).count() == 2 * len(ROWS)
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"], "nothing is left beside it"


def test_an_empty_table_gives_an_empty_output_of_the_right_schema(spark, answers, tmp_path):
    answers.limit(0).write.parquet(str(tmp_path / "in.parquet"))
    assert run(tmp_path / "in.parquet", tmp_path / "out.parquet") == 0
    out = spark.read.parquet(str(tmp_path / "out.parquet"))
    assert out.count() == 0
    assert out.columns == [*answers.columns, METRIC, DETAILS]


@pytest.mark.parametrize("spelling", ["{0}", "{0}/", "file://{0}", "{0}/../answers.parquet", "{1}"])
def test_the_input_is_never_overwritten(spark, answers, spelling, tmp_path, capsys):
    source = tmp_path / "data" / "answers.parquet"
    answers.write.parquet(str(source))
    target = spelling.format(source, source.parent)
    assert run(source, target, "--mode", "overwrite") == 2
    assert "input" in capsys.readouterr().err
    assert spark.read.parquet(str(source)).count() == len(ROWS)


def test_the_input_table_is_never_overwritten(answers, database, capsys):
    answers.write.mode("overwrite").saveAsTable(f"{database}.precious")
    for name in (
        f"{database}.precious",
        f"spark_catalog.{database}.precious",
        f"{database.upper()}.Precious",
    ):
        assert run(f"{database}.precious", name, "--mode", "overwrite") == 2
    assert capsys.readouterr().err.count("is the input") == 3


# ---- an output that can't be finished


@pytest.fixture(scope="module")
def spoilt(answers):
    """A view whose payload column can't be computed: judging does not need it, writing does."""
    bomb = F.expr("CASE WHEN input_id = 'c' THEN raise_error('boom: secret text') ELSE 'fine' END")
    answers.withColumn("payload", bomb).createOrReplaceTempView("spoilt")
    return "spoilt"


def test_a_write_that_fails_leaves_nothing_to_be_seen(spoilt, tmp_path, capfd):
    assert run(spoilt, tmp_path / "out.parquet") == 1
    assert list(tmp_path.iterdir()) == []
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("prspark: ")]
    assert "out.parquet can't be written" in lines[-1]
    assert "secret text" not in lines[-1]


def test_a_write_that_fails_leaves_the_old_output_as_it_was(spark, spoilt, source, tmp_path):
    assert run(source, tmp_path / "out.parquet") == 0
    assert run(spoilt, tmp_path / "out.parquet", "--mode", "overwrite") == 1
    assert_scored(spark.read.parquet(str(tmp_path / "out.parquet")).collect())
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def test_a_rename_that_fails_puts_the_old_output_back(tmp_path):
    old = tmp_path / "out.parquet"
    old.mkdir()
    with pytest.raises(OSError, match="missing"):
        io._swap(tmp_path / "missing", old)
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


@pytest.mark.parametrize("kind", ["delta", "orc"])
def test_what_an_output_cannot_hold_is_known_before_judging(answers, kind, tmp_path, capsys, monkeypatch):
    answers.withColumn("payload", F.expr("make_interval(1)")).createOrReplaceTempView("odd_types")
    monkeypatch.setattr("prspark.api.run_scoring", None)  # calling it would fail
    assert run("odd_types", tmp_path / "out", "--output-format", kind) == 2
    assert f"out can't be written as {kind}: [" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["out.json", "out.csv", "out.parquet"])
def test_show_prints_a_line_a_group_whatever_the_output_is_written_as(source, target, tmp_path, capsys):
    assert run(source, tmp_path / target, "--show", "5") == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(shown) == 3
    assert [cell.strip() for cell in shown[0].strip("|").split("|")][:4] == [
        "original_query",
        "score",
        "status",
        "outcome",
    ]
    assert [cell.strip() for cell in shown[1].strip("|").split("|")][1:4] == ["0.5", "scored", "degraded"]
