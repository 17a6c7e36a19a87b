"""Bad input ends with its exit code and one line that says what, where and what next; nothing is written."""

import json

import pytest
from pyspark.sql import functions as F

from prspark.cli import main
from tests.support.answers import HALF, METRIC, answer, table

HIDDEN = "Do not show this question"


@pytest.fixture(scope="module")
def answers(spark):
    return table(spark, [*HALF, answer("z", HIDDEN, "42", HIDDEN)]).coalesce(1)


@pytest.fixture(scope="module")
def source(answers, tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "answers.parquet"
    answers.write.parquet(str(path))
    return path


@pytest.fixture
def refused(source, tmp_path, capfd):
    """Run the score command; return its one line of complaint, having checked that there is nothing else."""

    def run(*options, given=source, code=2):
        out = tmp_path / "output"
        out.mkdir()
        target = out / "scored.parquet"
        assert main(["score", "--input", str(given), "--output", str(target), *options]) == code
        err = capfd.readouterr().err
        assert list(out.iterdir()) == []
        lines = [line for line in err.splitlines() if line]
        assert len(lines) == 1, err
        assert lines[0].startswith("prspark: ")
        assert HIDDEN not in err
        return lines[0]

    return run


@pytest.fixture
def stored(answers, tmp_path):
    """Write the answers, changed, and return where."""

    def write(**columns):
        path = tmp_path / "changed.parquet"
        answers.withColumns(columns).write.parquet(str(path))
        return path

    return write


@pytest.mark.parametrize(
    ("missing", "near"),
    [("prompt", "promt"), ("sut_response", "response"), ("input_id", "id"), ("metadata", "meta")],
)
def test_a_missing_column_is_named_with_those_that_are_there_and_the_nearest(
    answers, refused, tmp_path, missing, near
):
    path = tmp_path / "changed.parquet"
    answers.withColumnRenamed(missing, near).write.parquet(str(path))
    line = refused(given=path)
    wanted = "metadata.original_query" if missing == "metadata" else missing
    assert f"column {wanted} is missing" in line
    assert f"the nearest is {near};" in line
    for name in {*answers.columns, near} - {missing}:
        assert name in line


def test_a_field_missing_in_a_struct_is_named_with_the_nearest_field(refused, stored):
    line = refused(given=stored(metadata=F.struct(F.lit("q").alias("orignal_query"))))
    assert "column metadata.original_query is missing" in line
    assert "the nearest is metadata.orignal_query" in line


@pytest.mark.parametrize(
    ("column", "value", "found", "expected"),
    [
        ("prompt", F.lit, "int", "text or a list of messages"),
        ("sut_response", lambda n: F.array(F.lit(n)), "array<int>", "text or a list of messages"),
        ("input_id", lambda n: F.struct(F.lit(n).alias("n")), "struct<n:int>", "text or a number"),
        ("metadata", lambda n: F.lit(n) > 0, "boolean", "a struct, a map or JSON text"),
    ],
)
def test_a_wrong_type_is_told_with_what_is_expected(refused, stored, column, value, found, expected):
    line = refused(given=stored(**{column: value(1)}))
    assert f"column {column} has type {found}; expected {expected}" in line


def test_a_column_that_scoring_would_add_is_refused(refused, stored):
    line = refused(given=stored(**{METRIC: F.lit(1.0)}))
    assert f"the input already has a column {METRIC}" in line
    assert "metric.metric_name" in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "judge.modle=x"], "unknown configuration key judge.modle; did you mean judge.model?"),
        (["--set", "limit.max_calls=3"], "unknown configuration key limit; did you mean limits?"),
        (["--set", "metric.sub_call_concurrency_limit=65"], "metric.sub_call_concurrency_limit"),
        (["--set", "scoring.min_coverage=much"], "scoring.min_coverage"),
        (["--set", "nonsense"], "--set wants table.key=value"),
        (["--set", "judge.kind=oracle"], "judge.kind"),
        (["--set", "judge.kind=chat"], "judge."),
        (["--set", "columns.reference_answer=truth"], "column truth is missing"),
        (["--replay"], "--journal"),
        (["--summary", "/no/such/folder/s.json"], "there is no folder /no/such/folder"),
        (["--config", "/no/such/file.toml"], "configuration /no/such/file.toml: No such file or directory"),
        (["--config", "/"], "configuration /: "),
    ],
)
def test_a_wrong_option_is_named(refused, options, said):
    assert said in refused(*options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[metric\n", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        ("metric = 3\n", "configuration key metric"),
        (
            "[columns]\nquerry = 'q'\n",
            "unknown configuration key columns.querry; did you mean columns.query?",
        ),
    ],
)
def test_a_configuration_file_that_is_none_is_named(refused, tmp_path, text, said):
    path = tmp_path / "mine.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert said in refused("--config", str(path))


@pytest.mark.parametrize("name", ["{}/nothing.parquet", "{}/nothing.csv", "no_such_db.nothing", "nothing"])
def test_an_input_that_is_not_there_is_named(refused, tmp_path, name):
    given = name.format(tmp_path)
    line = refused(given=given)
    assert f" {given} can't be read: [" in line


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_file_that_is_not_what_its_name_says_is_named(refused, tmp_path, kind):
    path = tmp_path / f"broken.{kind}"
    path.write_bytes(b"this is not what it says" * 10)
    assert f"broken.{kind}" in refused(given=path)


def test_a_file_that_breaks_off_in_the_middle_is_named(refused, source, tmp_path):
    part = next(source.glob("part-*"))
    data = bytearray(part.read_bytes())
    data[4 : len(data) // 3] = bytes(len(data) // 3 - 4)  # the footer is whole, the pages are not
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(data)
    assert "broken.parquet" in refused(given=broken)


def test_lines_that_are_no_json_are_told_as_the_columns_that_are_not_there(refused, tmp_path):
    path = tmp_path / "text.jsonl"
    path.write_text("hello\nworld\n")
    assert "column metadata.original_query is missing; the input has _corrupt_record" in refused(given=path)


@pytest.mark.parametrize(
    "option", ["--mode=replace", "--output-format=xlsx", "--input-format=xml", "--strickt"]
)
def test_an_option_that_there_is_not_ends_with_2(option, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["score", "--input", "a", "--output", "b", option])
    assert ended.value.code == 2
    assert "usage: prspark" in capsys.readouterr().err


def test_strict_ends_with_3_when_a_group_has_no_score_and_the_output_is_there(spark, source, tmp_path, capfd):
    out, summary = tmp_path / "scored.parquet", tmp_path / "summary.json"
    options = ["--input", str(source), "--output", str(out), "--summary", str(summary), "--strict"]
    assert main(["score", *options]) == 3
    assert capfd.readouterr().err.splitlines()[-1] == (
        f"prspark: 1 groups have no score; column {METRIC}_details says why"
    )
    assert spark.read.parquet(str(out)).count() == 4
    assert json.loads(summary.read_text())["groups"] == {"no_variants": 1, "scored": 1}


def test_strict_ends_with_0_when_all_groups_have_a_score(answers, tmp_path):
    answers.where("input_id != 'z'").write.parquet(str(tmp_path / "in.parquet"))
    options = ["--input", str(tmp_path / "in.parquet"), "--output", str(tmp_path / "out.parquet"), "--strict"]
    assert main(["score", *options]) == 0
