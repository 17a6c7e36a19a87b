"""Runs prspark as users do, with all of Spark's writing switched on, so that a test can search what was written.

`python secret_job.py FOLDER GOOD_URL REFUSING_URL` works in FOLDER and leaves there: `events`, `local` (a copy of
Spark's local files, taken before it removes them), `journal`, `output`, `plan.txt`, `summary.json`, `config.txt`.
Its own standard output and error are for the caller to keep.
"""

import contextlib
import io
import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

from pyspark.sql import SparkSession

from prspark import api, cli
from prspark.errors import JudgeStoppedError
from prspark.judges.config import JudgeConfig
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest
from prspark.metric.reasons import UnscoredReason
from tests.support import secret_texts as texts


def main() -> None:
    """Do one run of each kind; what it left is then searched by the caller."""
    folder, good, refusing = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    logging.basicConfig(level=logging.DEBUG)  # a user who looks for a fault in what is around prspark
    # py4j writes down, at DEBUG, all that PySpark tells the JVM: the executors' environment is part of it
    logging.getLogger("py4j").setLevel(logging.INFO)
    spark = session(folder)
    source = folder / "input.json"
    source.write_text("".join(json.dumps(row) + "\n" for row in texts.ROWS), encoding="utf-8")
    answers = spark.read.json(str(source))
    score(answers, folder, good)
    fail(answers)
    refuse(source, folder, refusing)
    stop(answers, refusing)
    keep(folder / "spark", folder / "local")
    end(spark)


def end(spark: SparkSession) -> None:
    """Stop Spark, and wait for its JVM, which removes its files at its end: the caller reads what is left."""
    jvm = spark.sparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait()


def session(folder: Path) -> SparkSession:
    """Start Spark so that it writes all it can, in clear: uncompressed, at DEBUG, with the event log on."""
    (folder / "events").mkdir()
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "DEBUG",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(folder / "spark"),
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
        "spark.broadcast.compress": "false",
        "spark.sql.parquet.compression.codec": "uncompressed",
        "spark.sql.maxPlanStringLength": "2147483632",
        "spark.sql.debug.maxToStringFields": "1000",
    }
    builder = SparkSession.builder.master("local[2]").appName("secrets")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def config(url: str, **judge: Any) -> dict[str, Any]:
    """Configure a judge behind an endpoint, with texts of the user's own wherever a text can be."""
    return {
        "judge": {
            "kind": "chat",
            "base_url": url,
            "model": "m",
            "header_env": {"X-Key": texts.HEADER_ENV},
            "correctness_template": f"{texts.TEMPLATE} Judge {{answer}} to {{question}}.",
            **judge,
        },
        "metric": {
            "reference_answer": texts.FALLBACK_REFERENCE,
            "groundtruth_context": texts.FALLBACK_CONTEXT,
        },
    }


def score(answers: Any, folder: Path, url: str) -> None:
    """Score well; keep the output, the plan of the result, the summary and the printed configuration."""
    scored = api.run_scoring(answers, config(url), journal=str(folder / "journal"))
    plan = io.StringIO()
    with contextlib.redirect_stdout(plan):
        scored.df.explain(extended=True)
        scored.df.explain(mode="cost")
        print(scored.plan)  # noqa: T201  users print it
    (folder / "plan.txt").write_text(plan.getvalue(), encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(scored.summary.to_dict()), encoding="utf-8")
    scored.df.write.parquet(str(folder / "output"))


def keep(source: Path, target: Path) -> None:
    """Copy the files, and not the named pipes, that Spark will remove when it ends."""
    for path in source.rglob("*"):
        if path.is_file():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


class TalkativeJudge:
    """Breaks with an error that repeats what it was asked."""

    identity = "talkative"

    def __init__(self, config: JudgeConfig | None = None) -> None:
        """Take the table that a factory is given."""

    def correctness(self, request: CorrectnessRequest) -> NoReturn:
        """Break."""
        raise ValueError(f"can't judge {request}")

    def robustness(self, request: RobustnessRequest) -> NoReturn:
        """Break."""
        raise RuntimeError(f"can't compare {request}")


class FreeTalkativeJudge(TalkativeJudge):
    """The same without limits and journal."""

    free = True
    identity = "talkative and free"


def fail(answers: Any) -> None:
    """Score with judges of the user's own that break; each verdict is unscored and the job goes on."""
    for judge in (TalkativeJudge, FreeTalkativeJudge):
        rows = api.run_scoring(answers, config("http://unused"), judge=judge).df.collect()
        found = {row["perturbation_robustness_external_details"]["unscored_reason"] for row in rows}
        assert found == {UnscoredReason.JUDGE_ERROR}, found


def refuse(source: Path, folder: Path, url: str) -> None:
    """Run the command with a token that is refused: one line, before anything is judged."""
    settings = {
        "judge.kind": "chat",
        "judge.base_url": url,
        "judge.model": "m",
        "metric.reference_answer": texts.FALLBACK_REFERENCE,
    }
    overrides = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    code = cli.main(["score", "--input", str(source), "--output", str(folder / "refused"), *overrides])
    assert code == 2, code


def stop(answers: Any, url: str) -> None:
    """Meet the refusal in a worker, so that a task fails and Spark writes down why."""
    try:
        api.run_scoring(answers, config(url, preflight=False))
    except JudgeStoppedError as error:
        print(f"stopped: {error}", file=sys.stderr)  # noqa: T201  the caller searches it
    else:
        raise AssertionError("the refusal did not stop the job")


if __name__ == "__main__":
    main()
