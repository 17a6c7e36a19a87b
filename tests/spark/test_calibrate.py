"""Calibrating over Spark: what is asked, what is compared, and what is refused."""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import prspark
from prspark import cli
from prspark.engine.config import ColumnsConfig
from prspark.engine.labels import read_labels
from prspark.errors import BudgetError, ConfigError, InputError, PreflightError
from prspark.insight.agreement import Said, agreement
from prspark.judges.lexical import LexicalJudge
from prspark.judges.protocol import CorrectnessRequest, Judge, RobustnessRequest, Verdict
from tests.support.stub_endpoint import StubEndpoint

SAMPLE = Path(prspark.__file__).parent / "data" / "sample.jsonl"
LABEL = "metadata.human_correct"
SCHEMA = (
    "input_id string, prompt string, sut_response string, reference_answer string, "
    "metadata struct<original_query: string>, human string"
)
PREFLIGHT = 2  # one call from the driver and one from an executor


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubEndpoint]:
    monkeypatch.setenv("PRSPARK_JUDGE_TOKEN", "token")
    with StubEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def table(spark: SparkSession) -> DataFrame:
    """Two groups, one of them without a baseline; of 6 rows 2 are the same, one unlabelled, one blank."""
    rows = [
        ("1", "2+2?", "4", "4", ("2+2?",), "yes"),
        ("2", "two and two?", "5", "4", ("2+2?",), "No"),
        ("2", "two and two?", "5", "4", ("2+2?",), "No"),
        ("3", "2 + 2 =", "four", "4", ("2+2?",), None),
        ("4", "Capital of France, please", "Rome", "Paris", ("Capital of France?",), "correct"),
        ("5", "3+3?", " ", "6", (None,), "incorrect"),
    ]
    return spark.createDataFrame(rows, SCHEMA)


def chat(stub: StubEndpoint, **judge: Any) -> dict[str, Any]:
    return {"judge": {"kind": "chat", "base_url": stub.url, "model": "stub", **judge}}


def test_the_embedded_judge_agrees_with_the_labels_of_the_shipped_sample(spark: SparkSession) -> None:
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    judge = LexicalJudge()
    agreed = sum(
        (score >= 0.5) == row["metadata"]["human_correct"]
        for row in rows
        for score in [
            judge.correctness(
                CorrectnessRequest(row["prompt"], row["sut_response"], row["reference_answer"])
            ).score
        ]
        if score is not None
    )

    found = prspark.calibrate(spark.read.json(str(SAMPLE)), label=LABEL)

    assert found.labelled == len(rows) == 125
    assert found.accuracy == agreed / 125
    assert agreed >= 118
    assert found.calls == {}


def test_each_distinct_labelled_row_is_one_request(
    table: DataFrame, stub: StubEndpoint, tmp_path: Path
) -> None:
    found = prspark.calibrate(table, chat(stub), label="human", journal=str(tmp_path), progress=False)

    # rows 1, 2 and 4: the copy of 2 is the same request, 3 has no label, 5 is blank
    assert stub.stats()["requests"] == 3 + PREFLIGHT
    assert found.calls == {"correctness": 3, "robustness": 0, "total": 3}
    assert (found.labelled, found.unlabelled) == (5, 1)
    assert found.confusion.judged == 5
    assert (found.repeats, found.order_swap) == (None, None)


def test_the_journal_is_shared_with_scoring_and_with_later_runs(
    table: DataFrame, stub: StubEndpoint, tmp_path: Path
) -> None:
    prspark.score(table, chat(stub), journal=str(tmp_path), progress=False)
    scored = stub.stats()["requests"]  # asked of the group with a baseline: rows 1, 2, 3 and two pairs

    first = prspark.calibrate(table, chat(stub), label="human", journal=str(tmp_path), progress=False)
    again = prspark.calibrate(table, chat(stub), label="human", journal=str(tmp_path), progress=False)

    assert (first.calls["total"], first.in_journal) == (1, 2)  # row 4 alone is new
    assert (again.calls["total"], again.in_journal) == (0, 3)
    assert stub.stats()["requests"] == scored + 1 + PREFLIGHT
    assert first.confusion == again.confusion


def test_repeats_and_both_orders_are_asked_and_counted(table: DataFrame, stub: StubEndpoint) -> None:
    found = prspark.calibrate(table, chat(stub), label="human", repeat=3, order_swap=True, progress=False)

    # two pairs (rows 2 and 3 with row 1) in two orders
    assert found.calls == {"correctness": 9, "robustness": 4, "total": 13}
    assert stub.stats()["requests"] == 13 + PREFLIGHT
    assert found.repeats is not None
    # the stub's score follows from the text alone; the blank row counts as judged alike each time
    assert (found.repeats.items, found.repeats.mean_deviation) == (4, 0.0)
    assert found.order_swap is not None
    assert found.order_swap.items == 2


def leaking() -> Callable[[], Judge]:
    """Make a maker of a judge that sees labels, if any come its way."""

    class Peeping:
        identity = "peeping"

        def correctness(self, request: CorrectnessRequest) -> Verdict:
            return Verdict(0.0 if "incorrect" in repr(request) else 1.0)

        def robustness(self, request: RobustnessRequest) -> Verdict:
            return Verdict(0.0 if "incorrect" in repr(request) else 1.0)

    return lambda: Peeping()


def test_a_label_is_never_shown_to_the_judge(spark: SparkSession) -> None:
    rows = [(f"{n}", f"{n}?", "4", "4", {"original_query": f"{n}?", "human": "incorrect"}) for n in range(3)]
    schema = "input_id string, prompt string, sut_response string, reference_answer string, "
    table = spark.createDataFrame(rows, schema + "metadata map<string, string>")

    found = prspark.calibrate(table, label="metadata.human", judge=leaking(), progress=False)

    assert found.confusion.false_positive == 3


def test_labels_of_each_kind_are_understood(spark: SparkSession) -> None:
    columns = {
        "boolean": [True, False, None],
        "int": [1, 0, None],
        "double": [0.75, 0.25, None],
        "string": [" Correct", "no", "  "],  # blank is no label
        "decimal(3,1)": [1.0, 0.0, None],
    }
    names = [f"c{n}" for n in range(len(columns))]
    kinds = ", ".join(f"{name} {kind}" for name, kind in zip(names, columns, strict=True))
    values = [
        [Decimal(v) if k.startswith("dec") and v is not None else v for v in vs] for k, vs in columns.items()
    ]
    rows = [(f"{n}", "2+2?", "4", *each) for n, each in enumerate(zip(*values, strict=True))]
    df = spark.createDataFrame(rows, f"input_id string, prompt string, sut_response string, {kinds}")
    places = ColumnsConfig(original_query="input_id")

    found = [read_labels(df, name, places).select("labelled", "label").collect() for name in names]

    whole = [(True, 1.0), (True, 0.0), (False, None)]
    assert found == [whole, whole, [(True, 0.75), (True, 0.25), (False, None)], whole, whole]


def test_numbers_as_text_are_labels_and_what_is_out_of_range_is_none(spark: SparkSession) -> None:
    texts = ["1", "0.25", "2", "-1", "NaN", "right"]
    rows = [(f"{n}", "2+2?", "4", json.dumps({"human": text})) for n, text in enumerate(texts)]
    df = spark.createDataFrame(rows, "input_id string, prompt string, sut_response string, metadata string")

    found = read_labels(df, "metadata.human", ColumnsConfig(original_query="input_id")).collect()

    assert [row["label"] for row in found] == [1.0, 0.25, None, None, None, None]
    assert all(row["labelled"] for row in found)


def test_a_table_without_original_queries_will_do(spark: SparkSession) -> None:
    rows = [("1", "2+2?", "4", "4", 1), ("2", "2+2?", "5", "4", 0), ("3", "2+2?", "4", "4", None)]
    schema = "input_id string, prompt string, sut_response string, reference_answer string, human int"

    found = prspark.calibrate(spark.createDataFrame(rows, schema), label="human")

    assert (found.labelled, found.unlabelled) == (2, 1)
    assert (found.confusion.true_positive, found.confusion.true_negative) == (1, 1)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("metadata", "column metadata has type struct<original_query:string>; expected boolean"),
        ("humane", "column humane is missing;.* the nearest is human; name the column that holds the label"),
        ("input_id", "label input_id has type string and 5 of 6 values are no label; expected boolean"),
        ("sut_response", "label sut_response is in sut_response, which the judge reads"),
        ("metadata.reference_answer", "which the judge reads"),
    ],
)
def test_a_label_that_is_none_is_refused_by_name_and_type(table: DataFrame, label: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        prspark.calibrate(table, label=label)

    assert "Rome" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_table_without_any_label_is_refused(table: DataFrame) -> None:
    with pytest.raises(InputError, match="label human has type string and none of 1 rows has a value"):
        prspark.calibrate(table.where("human IS NULL"), label="human")


def test_nothing_is_asked_above_the_budget(table: DataFrame, stub: StubEndpoint) -> None:
    config = {**chat(stub), "limits": {"max_calls": 2}}

    with pytest.raises(BudgetError, match=r"needs 3 judge calls and limits\.max_calls allows 2"):
        prspark.calibrate(table, config, label="human", progress=False)

    assert stub.stats()["requests"] == 0


def test_a_wrong_endpoint_ends_the_run_before_anything_is_judged(
    table: DataFrame, stub: StubEndpoint
) -> None:
    with pytest.raises(PreflightError, match="base_url"):
        prspark.calibrate(table, chat(stub, base_url=f"{stub.root}/nothing"), label="human", progress=False)

    assert stub.stats()["requests"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeat": 0}, "repeat is 0"),
        ({"order_swap": True, "config": {"judge": {"swap_pairs": True}}}, "judge.swap_pairs"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    table: DataFrame, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        prspark.calibrate(table, label="human", **options)


def test_the_command_prints_a_table_and_writes_json(
    spark: SparkSession,  # noqa: ARG001  the command takes the session that is there
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "agreement.json"

    code = cli.main(["calibrate", "--input", str(SAMPLE), "--label", LABEL, "--output", str(target)])

    written = json.loads(target.read_text(encoding="utf-8"))
    printed = capsys.readouterr().out
    assert code == 0
    assert written["labelled"] == 125
    assert f"{written['accuracy']:.4f}" in printed
    assert "Cohen's kappa" in printed


def test_the_command_prints_json_alone_where_it_is_asked_to(
    spark: SparkSession,  # noqa: ARG001  the command takes the session that is there
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = agreement([1.0], [Said(1.0)], label=LABEL, judge="lexical", judge_identity="", unlabelled=0)
    monkeypatch.setattr("prspark.api.calibrate", lambda *_, **__: found)

    cli.main(["calibrate", "--input", str(SAMPLE), "--label", LABEL, "--format", "json"])

    assert json.loads(capsys.readouterr().out) == found.to_dict()


def test_a_bad_label_is_exit_code_2_and_one_line(
    spark: SparkSession,  # noqa: ARG001  the command takes the session that is there
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = cli.main(["calibrate", "--input", str(SAMPLE), "--label", "metadata.model"])

    assert code == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith(
        "prspark: label metadata.model has type string and 125 of 125 values are no label"
    )
