"""Secrets and judged texts stay where they belong: everything that a run writes is searched for canaries.

Searched are all bytes, in clear (nothing is compressed): Spark's event log; all that the process wrote to standard
output and error, which holds the log of driver and executor at DEBUG, Python's own log at DEBUG (py4j's at INFO),
the plan's and the progress lines and the errors of two runs that are refused; the plans of the result; the summary
with its configuration. For secrets also the journal, the output and Spark's local files (shuffle, spill, broadcast).
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support import secret_texts as texts
from tests.support.scripted_server import ScriptedServer, error, verdict

ROOT = Path(__file__).resolve().parents[2]
DATA = ("input.json", "output", "local", "journal")
"""Where judged texts may be: what was given, what was asked for, and how rows get from task to task."""


class Written:
    """All files under a folder, by their path in it."""

    def __init__(self, folder: Path) -> None:
        self.files = {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    def under(self, *places: str) -> dict[str, bytes]:
        """Return the files in these places."""
        return {name: data for name, data in self.files.items() if name.split("/")[0] in places}

    def beside(self, *places: str) -> dict[str, bytes]:
        """Return all files but those in these places."""
        return {name: data for name, data in self.files.items() if name.split("/")[0] not in places}


def holding(files: dict[str, bytes], canaries: Iterable[str]) -> list[tuple[str, str]]:
    """Return which file holds which canary."""
    return [(name, each) for name, data in files.items() for each in canaries if each.encode() in data]


@pytest.fixture(scope="module")
def good() -> ScriptedServer:
    return ScriptedServer(verdict(0.75))


@pytest.fixture(scope="module")
def refusing() -> ScriptedServer:
    """Refuses the token, and repeats it and the judged texts in its error, as endpoints do."""
    echo = f"Incorrect API key {texts.TOKEN} ({texts.HEADER}) in request {' '.join(texts.JUDGED)}"
    return ScriptedServer(error(401, message=echo, code="invalid_api_key"))


@pytest.fixture(scope="module")
def written(
    good: ScriptedServer, refusing: ScriptedServer, tmp_path_factory: pytest.TempPathFactory
) -> Written:
    folder = tmp_path_factory.mktemp("secrets")
    environ = os.environ | {
        "PRSPARK_JUDGE_TOKEN": texts.TOKEN,
        texts.HEADER_ENV: texts.HEADER,
        # how clusters are told the token; Spark must take it for a secret by its name
        "PYSPARK_SUBMIT_ARGS": f"--conf spark.executorEnv.PRSPARK_JUDGE_TOKEN={texts.TOKEN} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),  # working journals of runs that name none
    }
    with good, refusing, (folder / "log.txt").open("wb") as log:
        command = [sys.executable, "-m", "tests.support.secret_job", str(folder), good.url, refusing.url]
        done = subprocess.run(command, env=environ, cwd=ROOT, stdout=log, stderr=log, check=False)
    assert done.returncode == 0, (folder / "log.txt").read_text(errors="replace")[-4000:]
    return Written(folder)


def test_the_endpoint_was_sent_what_is_searched_for(written: Written, good: ScriptedServer) -> None:
    assert written.files
    sent = [str(request.body) for request in good.requests]
    assert all(request.headers["authorization"] == f"Bearer {texts.TOKEN}" for request in good.requests)
    assert all(request.headers["x-key"] == texts.HEADER for request in good.requests)
    assert all(any(canary in body for body in sent) for canary in texts.JUDGED)


def test_the_search_finds_what_is_there(written: Written) -> None:
    assert holding(written.under("input.json"), [texts.ANSWER])
    assert holding(written.under("output"), [texts.ANSWER])
    assert holding(written.under("local"), [texts.ANSWER])  # shuffle files, so those of a secret would show
    assert holding(written.under("events"), ["MapInArrow"])
    assert holding(written.under("events"), ["HTTP 401 invalid_api_key"])  # why a task failed is there
    assert holding(written.under("log.txt"), [" DEBUG ", "prspark: plan: 3 rows", "5 of 5 verdicts"])
    assert holding(written.under("plan.txt"), ["== Optimized Logical Plan =="])


def test_a_secret_is_written_nowhere(written: Written) -> None:
    assert holding(written.files, texts.SECRETS) == []


def test_judged_text_is_written_nowhere_but_in_data(written: Written) -> None:
    assert holding(written.beside(*DATA), texts.JUDGED) == []


def test_the_journal_holds_no_judged_text_that_the_judge_did_not_repeat(written: Written) -> None:
    assert written.under("journal")
    assert holding(written.under("journal"), texts.JUDGED) == []


def test_the_summary_tells_texts_of_the_configuration_apart_without_showing_them(written: Written) -> None:
    config = json.loads(written.files["summary.json"])["config"]

    digest = hashlib.sha256(texts.FALLBACK_REFERENCE.encode()).hexdigest()
    assert config["metric"]["reference_answer"] == f"sha256:{digest}"
    assert config["judge"]["correctness_template"].startswith("sha256:")
    assert config["judge"]["robustness_template"] is None


def test_texts_of_the_configuration_are_not_even_in_sparks_local_files(written: Written) -> None:
    assert holding(written.under("output", "local"), texts.IN_CONFIGURATION) == []


def test_refused_runs_end_in_one_line_that_names_the_variable(written: Written) -> None:
    log = written.files["log.txt"].decode()
    refused = "the judge at 127.0.0.1 can't be used: HTTP 401 invalid_api_key; "
    wanted = refused + "check judge.token_env (PRSPARK_JUDGE_TOKEN)"
    assert f"\nprspark: {wanted}\n" in log
    assert f"\nstopped: {wanted}\n" in log
