"""A few groups of the shipped sample, judged by a real model behind a real server, from the table to the journal."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import prspark
from prspark import cli
from prspark.data import sample_path
from prspark.engine.journal import Entry, list_files, read_file
from tests.support.llama_server import LlamaServer

SCORE = "perturbation_robustness_external"
GROUPS = 2
CALLS = 10 + 8  # two groups of a baseline and four variants: five answers and four pairs each


class Run(NamedTuple):
    """What one run left behind."""

    rows: list[Row]
    entries: list[Entry]
    read: float
    cached: float


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaServer]:
    with LlamaServer() as running:
        yield running


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> DataFrame:
    """The two groups of the sample whose texts are short: a tiny model reads slowly."""
    sample = spark.read.json(str(sample_path())).where("metadata.model = 'gemini'")
    length = F.sum(F.length("prompt") + F.length("sut_response"))
    shortest = sample.groupBy("metadata.original_query").agg(length.alias("length")).orderBy("length")
    keys = [row[0] for row in shortest.limit(GROUPS).collect()]
    return sample.where(F.col("metadata.original_query").isin(keys))


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("journal"))


def config(server: LlamaServer) -> dict[str, Any]:
    """What a user would write for a slow server; at temperature 0 so small a model may repeat itself for ever."""
    judge = {
        "kind": "chat",
        "base_url": server.url,
        "model": "smollm2",
        "max_tokens": 160,
        "temperature": 0.4,
    }
    limits = {"executor_concurrency": 2}
    return {"judge": judge, "limits": limits, "metric": {"timeout_seconds": 300}}


def read_journal(journal: str) -> list[Entry]:
    return [entry for path in list_files(journal) for entry in read_file(journal, path)]


@pytest.fixture(scope="module")
def run(answers: DataFrame, server: LlamaServer, journal: str) -> Run:
    scored = prspark.score(answers, config(server), journal=journal, progress=False)
    read, cached = server.metric("prompt_tokens_total"), server.metric("prompt_tokens_cached_total")
    return Run(scored.collect(), read_journal(journal), read, cached)


def test_every_verdict_of_a_real_model_is_readable_and_every_group_is_scored(run: Run) -> None:
    found = [row[f"{SCORE}_details"] for row in run.rows]
    variants = [each for each in found if each.role == "variant"]

    assert len(found) == 10
    assert len(variants) == 8
    assert {each.unscored_reason for each in found} == {None}
    assert all(0 <= each.correctness <= 1 and each.correctness_reason for each in found)
    assert all(0 <= each.robustness <= 1 and each.robustness_reason for each in variants)
    assert all(0 <= row[SCORE] <= 1 for row in run.rows)


def test_each_verdict_is_journalled_once_with_what_it_cost(run: Run) -> None:
    sends = sum(entry.attempts for entry in run.entries)
    seconds = sum(entry.latency_seconds for entry in run.entries)
    readable = sum(entry.score is not None for entry in run.entries)
    print(f"\n{readable} of {CALLS} verdicts readable, {sends} sends, {seconds / sends:.1f} s a send")  # noqa: T201

    assert len(run.entries) == len({entry.key for entry in run.entries}) == CALLS
    assert readable == CALLS
    assert sends <= 2 * CALLS  # a score beyond the range is asked again once, with the scores listed
    assert all(entry.prompt_tokens > 500 and entry.completion_tokens > 5 for entry in run.entries)
    assert all(entry.latency_seconds > 0 for entry in run.entries)


def test_the_constant_part_of_the_prompts_comes_from_the_servers_cache(run: Run) -> None:
    # more than half of a prompt are instructions, and only the first prompts of each kind are read in full
    assert run.cached > run.read / 2


def test_rerun_with_the_same_journal_sends_nothing(
    run: Run, answers: DataFrame, server: LlamaServer, journal: str
) -> None:
    before = server.metric("tokens_predicted_total")

    again = prspark.score(answers, config(server), journal=journal, progress=False).collect()

    assert server.metric("tokens_predicted_total") == before
    assert read_journal(journal) == run.entries
    assert sorted(again) == sorted(run.rows)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "{root}/nothing",
            "the judge at 127.0.0.1 can't be used: HTTP 404 not_found_error; check judge.model or judge.base_url",
        ),
        (
            "http://nobody.invalid/v1",
            "the judge at nobody.invalid can't be used: the host name is not known; check judge.base_url",
        ),
    ],
)
def test_wrong_path_or_host_is_one_line_and_nothing_is_judged(
    address: str,
    message: str,
    answers: DataFrame,
    server: LlamaServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = server.metric("tokens_predicted_total")
    output = tmp_path / "scored.parquet"
    answers.write.json(str(tmp_path / "answers.json"))
    settings = [
        f"judge.base_url={address.format(root=server.root)}",
        "judge.kind=chat",
        "judge.model=smollm2",
    ]

    code = cli.main(
        ["score", "--input", str(tmp_path / "answers.json"), "--output", str(output)]
        + [part for setting in settings for part in ("--set", setting)]
    )

    plan, *error = capsys.readouterr().err.splitlines()
    assert code == 2
    assert plan.startswith("prspark: plan: 10 rows in 2 groups, 18 judge calls")
    assert error == [f"prspark: {message}"]
    assert server.metric("tokens_predicted_total") == before
    assert not os.path.exists(output)
