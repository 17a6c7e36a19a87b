"""From a user's table to the text columns that judging needs. Row contract: one row a row of the input.

Everything here is native Spark. The payload never goes through Python, only the columns of `JUDGED` do.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from prspark.engine.config import ColumnsConfig, nearest_name
from prspark.engine.groups import JUDGED
from prspark.errors import InputError

ROW_KEY = ("row_high", "row_low")
"""128 bits over all of `JUDGED`: rows that share it can't be told apart by any judge."""

UNIT = ("unit_hash", "part")
"""What stays together in one task: the groups of one original query, or one part of a huge group."""

_OPTIONAL = ("query", "perturbation_type", "task_type", "reference_answer", "groundtruth_context")
_NUMERIC = (T.NumericType,)
_NESTED = (T.StructType, T.MapType, T.ArrayType)


def prepare(df: DataFrame, columns: ColumnsConfig) -> DataFrame:
    """Add nothing, keep nothing: return the `JUDGED` texts with `unit_hash`, `group_hash` and the row key.

    Columns: `JUDGED` (string, null where the row has none), `unit_hash`, `group_hash`, `row_high`,
    `row_low` (long, never null). A null `original_query` stays null.

    Raises:
        InputError: a required column is missing (the nearest is named) or has a type that can't be judged.
    """
    return df.select(*judged_columns(df.schema, columns)).select(*JUDGED, *_hashes())


def with_row_key(df: DataFrame, columns: ColumnsConfig) -> DataFrame:
    """Return the input, columns untouched, plus `row_name(df)` (struct of the judged texts' keys)."""
    name = row_name(df)
    texts = F.struct(*judged_columns(df.schema, columns))
    high, low = _row_key(lambda part: F.col(name)[part])
    missing = F.col(name)["original_query"].isNull()
    key = F.struct(high.alias("high"), low.alias("low"), missing.alias("missing"))
    return df.withColumn(name, texts).withColumn(name, key)


def row_name(df: DataFrame) -> str:
    """Return the name of the column that `with_row_key` adds to this table."""
    return free_name(df, "_prspark_row")


def free_name(df: DataFrame, name: str) -> str:
    """Return a name like this one that no column of the table has, whatever the case of its letters."""
    taken = {column.casefold() for column in df.columns}
    while name in taken:
        name += "_"
    return name


def judged_columns(schema: T.StructType, columns: ColumnsConfig) -> list[Column]:
    """Return the columns of `JUDGED` over a table of this schema."""
    group_values = [required(schema, path).alias(path) for path in columns.group_by]
    found = {
        "original_query": required(schema, columns.original_query, _is_scalar, "text"),
        # one text for all further keys; a null key is a key of its own
        "group_values": F.to_json(F.array(*group_values), {"ignoreNullFields": "false"})
        if group_values
        else None,
        "input_id": required(schema, columns.input_id, _is_scalar, "text or a number"),
        "prompt": required(schema, columns.prompt, _is_conversation, "text or a list of messages"),
        "sut_response": required(
            schema, columns.sut_response, _is_conversation, "text or a list of messages"
        ),
    }
    found |= {name: _optional(schema, name, getattr(columns, name)) for name in _OPTIONAL}
    return [_or_null(found[name]).alias(name) for name in JUDGED]


def numeric_ids(schema: T.StructType, columns: ColumnsConfig) -> bool:
    """Whether `input_id` is a number, so that the smallest one is found by value."""
    return isinstance(_find(schema, columns.input_id)[1], _NUMERIC)


def _is_scalar(kind: T.DataType) -> bool:
    return not isinstance(kind, (*_NESTED, T.BinaryType))


def _is_conversation(kind: T.DataType) -> bool:
    """Text, or messages: an array of structs, maps or strings (JSON messages), or one struct around them."""
    if isinstance(kind, T.ArrayType):
        return isinstance(kind.elementType, (T.StructType, T.MapType, T.StringType))
    return isinstance(kind, (T.StringType, T.StructType, T.NullType)) or kind.typeName() == "varchar"


def required(
    schema: T.StructType,
    path: str,
    accepts: Callable[[T.DataType], bool] = lambda _: True,
    wanted: str = "",
) -> Column:
    """Return the column at a dotted path as text.

    Raises:
        InputError: there is nothing at that path, or its type is not accepted.
    """
    column, kind = _find(schema, path)
    if column is None or kind is None:
        names = _paths(schema)
        raise InputError(
            f"column {path} is missing; the input has {', '.join(names) or 'no columns'}; "
            f"the nearest is {nearest_name(path, names)}; name yours under [columns]"
        )
    if not accepts(kind):
        raise InputError(f"column {path} has type {kind.simpleString()}; expected {wanted}")
    return _as_text(column, kind)


def _optional(schema: T.StructType, name: str, path: str | None) -> Column | None:
    """A configured place must exist; else the row's own column comes first, then the one in its metadata."""
    if path is not None:
        return required(schema, path)
    places = [_find(schema, name), _find_if_nested(schema, f"metadata.{name}")]
    found = [_as_text(column, kind) for column, kind in places if column is not None and kind is not None]
    return F.coalesce(*found) if found else None


def _or_null(column: Column | None) -> Column:
    return F.lit(None).cast("string") if column is None else column


def _as_text(column: Column, kind: T.DataType) -> Column:
    return F.to_json(column) if isinstance(kind, _NESTED) else column.cast("string")


def _find(schema: T.StructType, path: str) -> tuple[Column | None, T.DataType | None]:
    """Walk a dotted path; a flat column whose own name has the dots comes first."""
    if path in schema.names:
        return F.col(quoted(path)), schema[path].dataType
    first, *rest = path.split(".")
    if first not in schema.names or not rest:
        return None, None
    return _walk(F.col(quoted(first)), schema[first].dataType, rest, path)


def _find_if_nested(schema: T.StructType, path: str) -> tuple[Column | None, T.DataType | None]:
    """Find what nobody asked for by name: a column that can't hold it is simply someone's own."""
    try:
        return _find(schema, path)
    except InputError:
        return None, None


def _walk(
    column: Column, kind: T.DataType, names: list[str], path: str
) -> tuple[Column | None, T.DataType | None]:
    if not names:
        return column, kind
    name, *rest = names
    if isinstance(kind, T.StructType):
        if name not in kind.names:
            return None, None
        return _walk(column.getField(name), kind[name].dataType, rest, path)
    if isinstance(kind, T.MapType):
        return _walk(column.getItem(name), kind.valueType, rest, path)
    if isinstance(kind, T.StringType):
        steps = "".join(f"['{step}']" for step in names)
        return F.get_json_object(column, f"${steps}"), T.StringType()
    if isinstance(kind, T.NullType):
        return F.lit(None).cast("string"), T.StringType()
    parent = path.removesuffix("." + ".".join(names))
    raise InputError(f"column {parent} has type {kind.simpleString()}; expected a struct, a map or JSON text")


def _paths(schema: T.StructType, prefix: str = "") -> list[str]:
    paths: list[str] = []
    for field in schema.fields:
        paths.append(prefix + field.name)
        if isinstance(field.dataType, T.StructType):
            paths += _paths(field.dataType, f"{prefix}{field.name}.")
    return paths


def quoted(name: str) -> str:
    """Return a column's name as Spark reads it whole, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def _hashes() -> list[Column]:
    high, low = _row_key(F.col)
    return [
        F.xxhash64("original_query").alias("unit_hash"),
        _hash(F.col, ("original_query", "group_values")).alias("group_hash"),
        high.alias("row_high"),
        low.alias("row_low"),
    ]


def _row_key(column: Callable[[str], Column]) -> tuple[Column, Column]:
    return _hash(column, JUDGED), _hash(column, JUDGED, salt=1)


def _hash(column: Callable[[str], Column], names: tuple[str, ...], salt: int = 0) -> Column:
    """Hash the columns and which of them are null: Spark's own hash skips nulls, so (a, null) = (null, a)."""
    nulls = F.concat(*(column(name).isNull().cast("int").cast("string") for name in names))
    return F.xxhash64(F.lit(salt), nulls, *(column(name) for name in names))
