"""The package as a zip under spark-submit, the module and the console script, each started from another folder."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from prspark.data import sample_path
from tests.support.sample_scores import sample_scores

ROOT = Path(__file__).parents[2]
METRIC = "perturbation_robustness_external"
SCORE = ROOT / "jobs" / "score.py"
LOCAL = ("--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1")
BY_MODEL = ("--set", 'columns.group_by=["metadata.model"]')


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The source tree as `--py-files` takes it, and no prspark anywhere else."""
    path = tmp_path_factory.mktemp("package") / "prspark.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((ROOT / "prspark").rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(ROOT))
    return path


@pytest.fixture(scope="module")
def outside():
    """What a shell that knows nothing of this checkout has in its environment, and Spark's Python."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "SPARK_SUBMIT_OPTS" or not name.startswith(("PYTHON", "SPARK", "PYSPARK"))
    }
    # -P and a folder of its own: the checkout is not found by chance
    return {**kept, "PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"}


@pytest.fixture
def run(tmp_path, outside):
    """Run a command in an empty folder; return its process."""

    def run(*command, **more):
        return subprocess.run(
            [str(part) for part in command],
            cwd=tmp_path,
            env={**outside, **more},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture
def submit(run, package):
    """Submit a job."""
    home = Path(sys.executable).parent / "spark-submit"

    def submit(job, *arguments, spark=LOCAL):
        return run(home, *spark, "--py-files", package, job, *arguments)

    return submit


def complaints(done):
    """What prspark says of itself; spark-submit prints the errors of its job among the job's output."""
    return [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.startswith("prspark: ")]


def scores(folder):
    """Scores by input id, of JSON lines that prspark wrote."""
    lines = [line for part in Path(folder).glob("*.json") for line in part.read_text().splitlines()]
    found = {row["input_id"]: row[METRIC] for row in map(json.loads, lines)}
    assert len(found) == len(lines)
    return found


@pytest.fixture(scope="module")
def expected():
    return sample_scores()


def score_sample(*, output="scored.json"):
    return ["--input", sample_path(), "--output", output, *BY_MODEL]


def test_spark_submit_scores_the_sample_with_the_package_as_a_zip(submit, tmp_path, expected):
    done = submit(SCORE, *score_sample(), "--summary", "summary.json")
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path / "scored.json") == expected
    assert json.loads((tmp_path / "summary.json").read_text())["groups"] == {"scored": 25}


def test_real_executors_find_the_package_too(submit, tmp_path, expected):
    fast = f"spark.executor.extraJavaOptions={os.environ.get('SPARK_SUBMIT_OPTS', '')}"
    spark = (
        "--master",
        "local-cluster[2,2,1024]",
        *LOCAL[2:],
        "--conf",
        "spark.executor.memory=1g",
        "--conf",
        fast,
    )
    done = submit(SCORE, *score_sample(), spark=spark)
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path / "scored.json") == expected


def test_a_job_runs_on_the_master_that_spark_submit_was_given(submit, tmp_path):
    # in cluster mode the driver is started without Spark's shell scripts, so nothing of theirs is there to ask
    job = tmp_path / "job.py"
    job.write_text(
        "import os\n"
        "os.environ.pop('SPARK_ENV_LOADED', None)\n"
        "from prspark.cli import _session\n"
        "print('runs on', _session().conf.get('spark.master'))\n"
    )
    done = submit(job, spark=("--master", "local[1]", *LOCAL[2:]))
    assert "runs on local[1]" in done.stdout.splitlines(), done.stderr


def test_plan_prints_nothing_but_json_under_spark_submit(submit):
    done = submit(ROOT / "jobs" / "plan.py", "--input", sample_path(), *BY_MODEL)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["rows"], plan["groups"]) == (125, 25)


def test_exit_codes_pass_through_spark_submit(submit, tmp_path):
    wrong = submit(SCORE, *score_sample(), "--set", "judge.modle=x")
    assert wrong.returncode == 2
    assert complaints(wrong) == ["prspark: unknown configuration key judge.modle; did you mean judge.model?"]
    assert "Traceback" not in wrong.stderr
    assert list(tmp_path.iterdir()) == []
    strict = submit(
        SCORE,
        "--input",
        sample_path(),
        "--output",
        "out.json",
        "--strict",
        *BY_MODEL,
        "--set",
        "columns.reference_answer=input_id",
        "--set",
        "scoring.min_coverage=1",
        "--set",
        "columns.original_query=prompt",
    )
    assert strict.returncode == 3
    assert (tmp_path / "out.json").is_dir()


def test_the_module_and_the_console_script_do_the_same(run, tmp_path, expected, package):
    done = run(sys.executable, "-m", "prspark", "score", *score_sample(), PYTHONPATH=package)
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path / "scored.json") == expected
    # what an installer makes of the entry in `pyproject.toml`
    module, function = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][
        "prspark"
    ].split(":")
    script = tmp_path / "prspark"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    )
    script.chmod(0o755)
    again = run(script, "score", *score_sample(output="again.json"), PYTHONPATH=package)
    assert again.returncode == 0, again.stderr
    assert scores(tmp_path / "again.json") == expected
