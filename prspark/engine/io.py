"""Reads and writes tables: formats, catalog names, and outputs that appear whole or not at all."""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from prspark.engine.prepare import quoted
from prspark.errors import InputError, OutputError

try:
    from py4j.protocol import Py4JError

    SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError)
except ImportError:  # a client of Connect alone has no py4j
    SPARK_ERRORS = (PySparkException,)
"""What Spark raises; for some errors (a format it lacks) PySpark has no class of its own."""
_WRITE_ERRORS: tuple[type[Exception], ...] = (*SPARK_ERRORS, OSError)

FORMATS = ("parquet", "json", "csv", "orc", "delta", "iceberg")
MODES = ("error", "overwrite", "append")

_LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")
_SUFFIXES = {
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".orc": "orc",
}
_TABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}")
# one row may hold line breaks, and a quote inside a field is doubled, as spreadsheets do
_CSV = {"header": "true", "multiLine": "true", "quote": '"', "escape": '"'}
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\][^\n]*")
# Spark trims what it writes as CSV unless told not to
_UNTRIMMED = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}


@dataclass(frozen=True)
class Place:
    """Where a table is: a path with a format, or a name in the catalog (format null)."""

    name: str
    format: str | None

    @property
    def is_table(self) -> bool:
        """Whether the name is one of the catalog's."""
        return self.format is None


def place(name: str, format: str | None = None) -> Place:
    """Decide what a name means: a stated format makes it a path, a known suffix too; a bare name is a table.

    Raises:
        InputError: the format is not one of `FORMATS`.
    """
    if format is not None:
        if format not in FORMATS:
            raise InputError(f"format {format} is unknown; use one of {', '.join(FORMATS)}")
        return Place(name, format)
    suffix = Path(name).suffix.lower()
    if suffix in _SUFFIXES:
        return Place(name, _SUFFIXES[suffix])
    if _TABLE.fullmatch(name) and not os.path.exists(name):
        return Place(name, None)
    return Place(name, "parquet")


def read(spark: SparkSession, source: Place) -> DataFrame:
    """Read a table.

    Raises:
        InputError: there is none, or it can't be read as its format.
    """
    try:
        df = _load(spark, source)
        _ = df.schema  # Connect looks for the table only now
        return df
    except SPARK_ERRORS as error:
        what = "table" if source.is_table else f"{source.format} input"
        raise InputError(f"{what} {source.name} can't be read: {_brief(error)}") from None


def _load(spark: SparkSession, source: Place) -> DataFrame:
    if source.is_table:
        return spark.table(source.name)
    reader = spark.read.format(source.format or "")
    return (reader.options(**_CSV) if source.format == "csv" else reader).load(source.name)


def check_output(spark: SparkSession, target: Place, mode: str, source: Place | None = None) -> None:
    """Refuse an output that would overwrite something unasked, before anything is judged.

    Raises:
        InputError: the output exists and the mode is `error`, or it is the input itself or a folder around it.
    """
    if source is not None and _holds(spark, target, source):
        raise InputError(f"output {target.name} is the input or a folder around it; name another output")
    if mode == "error" and _exists(spark, target):
        raise InputError(f"output {target.name} exists; choose another, or --mode overwrite or --mode append")


def _holds(spark: SparkSession, target: Place, source: Place) -> bool:
    """Whether writing the target would take the source away."""
    if target.is_table or source.is_table:
        return target.is_table and source.is_table and _qualified(spark, target) == _qualified(spark, source)
    new, old = _local_path(spark, target), _local_path(spark, source)
    if new is None or old is None:
        return target.name.rstrip("/") == source.name.rstrip("/")
    return new.resolve() in (old.resolve(), *old.resolve().parents)


def _qualified(spark: SparkSession, table: Place) -> str:
    """The name with catalog and database, as Spark would resolve it: without case."""
    parts = table.name.split(".")
    missing = [spark.catalog.currentCatalog(), spark.catalog.currentDatabase()][: 3 - len(parts)]
    return ".".join([*missing, *parts]).lower()


def check_writable(df: DataFrame, target: Place) -> None:
    """Write no rows beside the output, so that what it can't hold is known before anything is paid for.

    Only a path on this machine is tried. `df` is the table to be scored.

    Raises:
        InputError: its format is not there or can't hold a column, or the place can't be written.
    """
    local = None if target.is_table else _local_path(df.sparkSession, target)
    if local is None:
        return
    try:
        with _staged(local) as staged:
            _save(df.limit(0), target, f"file://{staged}")
    except SPARK_ERRORS as error:
        raise InputError(
            f"output {target.name} can't be written as {target.format}: {_brief(error)}"
        ) from None


def write(df: DataFrame, target: Place, mode: str) -> None:
    """Write a table; a path on this machine's file system appears whole, by one rename, or not at all.

    Raises:
        OutputError: it can't be written; the text holds no data of the table, as Spark's own might.
    """
    try:
        _write(df, target, mode)
    except _WRITE_ERRORS as error:
        raise OutputError(f"output {target.name} can't be written ({_condition(error)})") from error


def _write(df: DataFrame, target: Place, mode: str) -> None:
    if target.is_table:
        df.write.mode(mode).saveAsTable(target.name)
        return
    local = _local_path(df.sparkSession, target)
    if local is None or mode == "append" or target.format in ("delta", "iceberg"):
        _save(df, target, target.name, mode)
        return
    with _staged(local) as staged:
        # not `as_uri`: Hadoop takes a path as it is written, %20 and all
        _save(df, target, f"file://{staged}")
        _swap(staged, local)


@contextlib.contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """A hidden name beside the target, which Spark passes over if it is ever left behind."""
    staged = target.with_name(f".{target.name}.prspark-{uuid.uuid4().hex[:8]}")
    try:
        yield staged
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _save(df: DataFrame, target: Place, path: str, mode: str = "error") -> None:
    if target.format == "csv":
        _as_texts(df).write.format("csv").options(**_CSV, **_UNTRIMMED).mode(mode).save(path)
    else:
        df.write.format(target.format or "").mode(mode).save(path)


def _swap(staged: Path, target: Path) -> None:
    if not target.exists():
        staged.rename(target)
        return
    old = target.with_name(f".{target.name}.prspark-old-{uuid.uuid4().hex[:8]}")
    target.rename(old)
    try:
        staged.rename(target)
    except OSError:
        old.rename(target)
        raise
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink()


def _as_texts(df: DataFrame) -> DataFrame:
    """CSV has no nested values: they become JSON text."""
    nested = (T.StructType, T.MapType, T.ArrayType)
    columns = []
    for field in df.schema.fields:
        name = quoted(field.name)
        columns.append(
            F.to_json(name).alias(field.name) if isinstance(field.dataType, nested) else F.col(name)
        )
    return df.select(*columns)


def _exists(spark: SparkSession, target: Place) -> bool:
    if target.is_table:
        return bool(spark.catalog.tableExists(target.name))
    local = _local_path(spark, target)
    if local is not None:
        return local.exists()
    try:
        _ = spark.read.format("text").load(target.name).schema
    except SPARK_ERRORS as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise InputError(f"output {target.name} can't be checked: {_brief(error)}") from None
    return True


def _local_path(spark: SparkSession, target: Place) -> Path | None:
    """The path on this machine's own file system; null where a path means another one."""
    if target.name.startswith("file:") and _is_here(spark):
        return Path("/" + target.name.removeprefix("file:").lstrip("/"))
    if ":/" in target.name:
        return None
    master = spark.conf.get("spark.master", "") or ""
    here = master.startswith(("local", "spark:")) and _is_here(spark)
    return Path(target.name).absolute() if here else None


def _is_here(spark: SparkSession) -> bool:
    """Whether Spark's driver is on this machine: over Connect it may be far away, with files of its own."""
    if ".connect." not in type(spark).__module__:
        return True
    return spark.client.host in _LOOPBACK


def unreadable_file(error: Exception) -> str | None:
    """Say which file of the input can't be read, if that is what ended a Spark job; else null."""
    named = re.search(r"Encountered error while reading file [^\n]*", str(error))
    return named[0].strip() if named else None


def _condition(error: Exception) -> str:
    """What went wrong, by its name alone."""
    named = _CONDITION.search(str(error))
    return named[1] if named else getattr(error, "strerror", None) or type(error).__name__


def _brief(error: Exception) -> str:
    """The line of Spark's message that names its condition: it tells paths, tables and columns, never data."""
    named = _CONDITION.search(str(error))
    return (named[0] if named else str(error).strip().splitlines()[0])[:300]
