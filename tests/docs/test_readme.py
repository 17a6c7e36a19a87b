"""The README's commands and examples, run as printed."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from prspark.engine.config import make_config

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# what would point a new environment back to this one
OURS = ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_PYTHON", "SPARK_HOME")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def run(command: str, folder: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if name not in OURS}
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=clean | environ, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone with today's files, as a user gets it."""
    target = tmp_path_factory.mktemp("fresh") / "prspark"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def test_first_command_sets_everything_up_and_ends_with_a_table_of_groups(clone: Path) -> None:
    done = run(blocks("sh")[0], clone)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(lines) == 1 + 25  # a heading and the groups
    assert {"original_query", "score", "status", "outcome"} <= {cell.strip() for cell in lines[0].split("|")}
    assert "125 rows, groups: 25 scored" in done.stderr
    assert (clone / "scored-sample.parquet/_SUCCESS").exists()


def test_second_command_runs_every_suite() -> None:
    assert blocks("sh")[1].strip() == "sh tests/run.sh"
    script = (ROOT / "tests/run.sh").read_text(encoding="utf-8")
    suites = {path.parent.name for path in ROOT.glob("tests/*/test_*.py")} | {"unit"}
    assert suites == set(re.findall(r"tests/(\w+)(?![\w.])", script))


def test_configuration_in_the_readme_is_accepted() -> None:
    [example] = blocks("toml")
    assert make_config(tomllib.loads(example)).judge.kind == "chat"


def test_python_example_scores_a_table(tmp_path: Path) -> None:
    shutil.copy(ROOT / "prspark/data/sample.jsonl", tmp_path / "answers.jsonl")
    script = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[2]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        f"{blocks('python')[0]}\n"
        "print('ROWS', scored.where('perturbation_robustness_external >= 0').count())\n"
    )
    (tmp_path / "example.py").write_text(script, encoding="utf-8")
    done = run(f"{sys.executable} example.py", tmp_path, PYTHONPATH=str(ROOT), PYSPARK_PYTHON=sys.executable)
    assert "ROWS 125" in done.stdout, done.stderr[-2000:]


def test_quickstart_notebook_runs_as_a_script(tmp_path: Path) -> None:
    notebook = ROOT / "notebooks/quickstart.py"
    done = run(f"{sys.executable} {notebook}", tmp_path, PYTHONPATH=str(ROOT), PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.rstrip().splitlines()[-1].startswith("125 rows scored")


def test_every_field_and_status_of_the_output_is_explained() -> None:
    from prspark.engine.results import DETAILS
    from prspark.metric.score import Outcome, Status

    for word in [name for name, _ in DETAILS] + [*Status] + [*Outcome]:
        assert f"`{word}`" in README


def test_every_file_that_the_readme_names_exists() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link
