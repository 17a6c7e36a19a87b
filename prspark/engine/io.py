"""Reads and writes tables: formats, catalog names, and outputs that appear whole or not at all."""

import os
import re
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from prspark.errors import InputError

FORMATS = ("parquet", "json", "csv", "orc", "delta", "iceberg")
MODES = ("error", "overwrite", "append")

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
        if source.is_table:
            return spark.table(source.name)
        reader = spark.read.format(source.format or "")
        return (reader.options(**_CSV) if source.format == "csv" else reader).load(source.name)
    except PySparkException as error:
        what = "table" if source.is_table else f"{source.format} input"
        raise InputError(f"{what} {source.name} can't be read: {_brief(error)}") from None


def check_output(spark: SparkSession, target: Place, mode: str, source: Place | None = None) -> None:
    """Refuse an output that would overwrite something unasked, before anything is judged.

    Raises:
        InputError: the output exists and the mode is `error`, or it is the input itself.
    """
    if source is not None and source.name.rstrip("/") == target.name.rstrip("/"):
        raise InputError(f"output {target.name} is the input; name another output")
    if mode == "error" and _exists(spark, target):
        raise InputError(f"output {target.name} exists; choose another, or --mode overwrite or --mode append")


def write(df: DataFrame, target: Place, mode: str) -> None:
    """Write a table; a path on this machine's file system appears whole, by one rename, or not at all."""
    if target.is_table:
        df.write.mode(mode).saveAsTable(target.name)
        return
    flat = _as_texts(df) if target.format == "csv" else df
    local = _local_path(df.sparkSession, target)
    if local is None or mode == "append" or target.format in ("delta", "iceberg"):
        _writer(flat, target).mode(mode).save(target.name)
        return
    staged = local.with_name(f".{local.name}.prspark-{uuid.uuid4().hex[:8]}")
    try:
        _writer(flat, target).save(staged.as_uri())
        _swap(staged, local)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _writer(df: DataFrame, target: Place):  # type: ignore[no-untyped-def]
    writer = df.write.format(target.format or "")
    return writer.options(header="true", quote='"', escape='"') if target.format == "csv" else writer


def _swap(staged: Path, target: Path) -> None:
    if not target.exists():
        staged.rename(target)
        return
    old = target.with_name(f".{target.name}.prspark-old-{uuid.uuid4().hex[:8]}")
    target.rename(old)
    staged.rename(target)
    if old.is_dir():
        shutil.rmtree(old)
    else:
        old.unlink()


def _as_texts(df: DataFrame) -> DataFrame:
    """CSV has no nested values: they become JSON text."""
    nested = (T.StructType, T.MapType, T.ArrayType)
    columns = []
    for field in df.schema.fields:
        name = f"`{field.name.replace('`', '``')}`"
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
        spark.read.format("text").load(target.name)
    except PySparkException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise InputError(f"output {target.name} can't be checked: {_brief(error)}") from None
    return True


def _local_path(spark: SparkSession, target: Place) -> Path | None:
    """The path on this machine's own file system; null where a path means another one."""
    if target.name.startswith("file:"):
        return Path(
            target.name.removeprefix("file:").replace("//", "/", 1)
            if "//" in target.name[:7]
            else target.name[5:]
        )
    if "://" in target.name or ":/" in target.name:
        return None
    master = spark.conf.get("spark.master", "") or ""
    return Path(target.name).absolute() if master.startswith(("local", "spark:")) else None


def _brief(error: PySparkException) -> str:
    """The first line of Spark's message: it names paths, tables and columns, never data."""
    return str(error).strip().splitlines()[0][:300]
