"""The command line: arguments to calls, errors to exit codes."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from prspark import api, data
from prspark.engine import io, journal
from prspark.engine.config import Config, load_config
from prspark.engine.join import added_columns
from prspark.errors import InputError, PrsparkError, UnscoredError
from prspark.insight.plan import Plan
from prspark.metric.manifest import manifest_text

LOGGING = Path(data.__file__).with_name("log4j2.properties")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see the contract in the README."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments) or 0)
    except PrsparkError as error:
        print(f"prspark: {error}", file=sys.stderr)  # noqa: T201  the error is the product here
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="prspark", description="Score how robust an LLM system is to rewording."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    score = _verb(
        verbs, "score", _score, "judge a table of answers and write every row back with its group's score"
    )
    _input_options(score)
    score.add_argument("--output", required=True, metavar="PATH-or-table")
    score.add_argument("--output-format", choices=io.FORMATS)
    score.add_argument("--mode", choices=io.MODES, default="error", help="what to do if the output exists")
    score.add_argument(
        "--keep-journal", action="store_true", help="keep the working journal beside the output"
    )
    score.add_argument("--replay", action="store_true", help="never call the judge; use the journal alone")
    score.add_argument("--summary", metavar="FILE.json")
    score.add_argument("--strict", action="store_true", help="exit 3 if some group has no score")
    score.add_argument(
        "--show", type=int, nargs="?", const=20, default=0, metavar="N", help="show N groups at the end"
    )

    plan = _verb(verbs, "plan", _plan, "print, as JSON, what score would do and cost; calls no judge")
    _input_options(plan)

    calibrate = _verb(
        verbs, "calibrate", _calibrate, "judge labelled rows and report the judge's agreement with them"
    )
    _input_options(calibrate)
    calibrate.add_argument(
        "--label", required=True, metavar="COLUMN", help="where the label is, dotted path allowed"
    )
    calibrate.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="judge each row N times; costs calls"
    )
    calibrate.add_argument(
        "--order-swap", action="store_true", help="ask each pair in both orders; costs calls"
    )
    calibrate.add_argument("--format", choices=("table", "json"), default="table", help="of what is printed")
    calibrate.add_argument("--output", metavar="FILE.json", help="write the JSON to a file as well")

    manifest = _verb(verbs, "manifest", _manifest, "print the metric's manifest or schema")
    manifest.add_argument("--format", choices=("json", "yaml", "schema"), default="json")
    return parser


def _verb(verbs: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def _input_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--input", required=True, metavar="PATH-or-table")
    parser.add_argument("--input-format", choices=io.FORMATS)
    parser.add_argument("--config", metavar="FILE.toml")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=value", dest="overrides")
    parser.add_argument(
        "--journal", metavar="DIR", help="keeps every verdict; a rerun asks only for what is missing"
    )
    parser.add_argument("--retry-unscored", action="store_true", help="ask again for verdicts that failed")


def _session() -> SparkSession:
    """Take the session that spark-submit, a notebook or Connect stands for, or make a quiet local one."""
    # without it workers take the system's Python, which lacks the packages
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("prspark")
    if not _has_spark():
        for name, value in _local_settings().items():
            builder = builder.config(name, value)
    return builder.getOrCreate()


def _has_spark() -> bool:
    """Whether someone else has already said where Spark is."""
    names = (
        "PYSPARK_GATEWAY_PORT",
        "SPARK_REMOTE",
        "SPARK_CONNECT_MODE_ENABLED",
        "DATABRICKS_RUNTIME_VERSION",
    )
    return any(os.environ.get(name) for name in names) or SparkSession.getActiveSession() is not None


def _local_settings() -> dict[str, str]:
    return {
        "spark.master": "local[*, 4]",  # a task whose worker dies is tried again
        "spark.driver.memory": os.environ.get("PRSPARK_DRIVER_MEMORY", "2g"),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}",
        "spark.ui.enabled": "false",  # the command is gone before anyone could look
        "spark.ui.showConsoleProgress": "false",  # it would overwrite prspark's own progress
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
        # over TCP the start of each Python task waits 40 ms for an acknowledgement (Spark 4.1 and newer)
        "spark.python.unix.domain.socket.enabled": "true",
    }


def _read(arguments: argparse.Namespace) -> tuple[Config, DataFrame, io.Place]:
    config = load_config(arguments.config, arguments.overrides)
    source = io.place(arguments.input, arguments.input_format)
    return config, io.read(_session(), source), source


def _score(arguments: argparse.Namespace) -> int:
    config, answers, source = _read(arguments)
    target = io.place(arguments.output, arguments.output_format)
    io.check_output(answers.sparkSession, target, arguments.mode, source)
    io.check_writable(answers, target)
    if arguments.summary:
        _check_folder(Path(arguments.summary))
    working = _working_folder(target)
    scored = api.run_scoring(
        answers,
        config,
        journal=arguments.journal,
        working_folder=working,
        replay=arguments.replay,
        retry_unscored=arguments.retry_unscored,
        on_plan=lambda plan: _say(_plan_line(plan)),
    )
    io.write(scored.df, target, arguments.mode)
    if arguments.summary:
        _write_text(Path(arguments.summary), json.dumps(scored.summary.to_dict(), indent=2))
    counts = ", ".join(f"{n} {status}" for status, n in scored.summary.groups.items())
    _say(f"{scored.summary.rows} rows, groups: {counts or 'none'}; written to {target.name}")
    if arguments.show:
        _show(scored.df, config, arguments.show)
    if scored.plan and not arguments.keep_journal:
        journal.remove(journal.absolute(working))
    if arguments.strict and scored.summary.unscored_groups:
        raise UnscoredError(
            f"{scored.summary.unscored_groups} groups have no score; "
            f"column {added_columns(config)[1]} says why"
        )
    return 0


def _working_folder(target: io.Place) -> str:
    """The verdicts of a run without a journal wait beside its output, where the same command finds them."""
    if target.is_table:
        return journal.working_folder(target.name)
    head, _, name = target.name.rstrip("/").rpartition("/")
    return f"{head}/_{name}.prspark-journal" if head else f"_{name}.prspark-journal"


def _plan(arguments: argparse.Namespace) -> int:
    config, answers, _ = _read(arguments)
    plan = api.plan(answers, config, journal=arguments.journal, retry_unscored=arguments.retry_unscored)
    sys.stdout.write(json.dumps(plan.to_dict(), indent=2) + "\n")
    return 0


def _calibrate(arguments: argparse.Namespace) -> int:
    config, answers, _ = _read(arguments)
    found = api.calibrate(
        answers,
        config,
        label=arguments.label,
        repeat=arguments.repeat,
        order_swap=arguments.order_swap,
        journal=arguments.journal,
        retry_unscored=arguments.retry_unscored,
        on_plan=lambda plan: _say(f"plan: {plan.rows} rows, {_calls_line(plan)}"),
    )
    text = json.dumps(found.to_dict(), indent=2)
    if arguments.output:
        _write_text(Path(arguments.output), text)
    sys.stdout.write((text if arguments.format == "json" else found.to_text()) + "\n")
    return 0


def _manifest(arguments: argparse.Namespace) -> int:
    sys.stdout.write(manifest_text(arguments.format).rstrip("\n") + "\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"prspark: {line}\n")
    sys.stderr.flush()


def _plan_line(plan: Plan) -> str:
    warnings = "".join(f"; warning: {warning}" for warning in plan.warnings)
    return f"plan: {plan.rows} rows in {plan.groups} groups, {_calls_line(plan)}{warnings}"


def _calls_line(plan: Plan) -> str:
    calls, tokens = plan.calls, plan.tokens
    return (
        f"{calls['total']} judge calls ({calls['correctness']} correctness, "
        f"{calls['robustness']} robustness), "
        f"{plan.in_journal} verdicts in the journal, about {sum(tokens.values())} tokens, "
        f"cost {plan.cost:.4f}, {plan.seconds:.0f} s"
    )


def _check_folder(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} can't be written: there is no folder {path.parent}")


def _write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    staged = path.with_name(f".{path.name}.part")
    try:
        staged.write_text(text + "\n", encoding="utf-8")
        staged.replace(path)
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror}") from None


def _show(scored: DataFrame, config: Config, groups: int) -> None:
    """Print a small table: a line a group, the worst first."""
    from prspark.engine.prepare import quoted, required

    score, details = (F.col(quoted(name)) for name in added_columns(config))
    keys = [required(scored.schema, path).alias(path.rpartition(".")[2]) for path in config.columns.group_by]
    original = required(scored.schema, config.columns.original_query)
    width = max(30, shutil.get_terminal_size((110, 20)).columns - 70)
    shown = ("status", "outcome", "base_correctness", "mean_perturbed_correctness", "mean_robustness")
    short = F.when(F.length(original) > width, F.concat(F.substring(original, 1, width - 1), F.lit("…")))
    rows = scored.select(
        *keys,
        original.alias("_full"),
        F.coalesce(short, original).alias("original_query"),
        F.round(score, 3).alias("score"),
        *((details[n] if n in ("status", "outcome") else F.round(details[n], 3)).alias(n) for n in shown),
    ).dropDuplicates(["_full", *(path.rpartition(".")[2] for path in config.columns.group_by)])
    rows.drop("_full").orderBy(F.col("score").asc_nulls_last()).show(groups, truncate=False)
