"""Reads what people said of the answers. Row contract: one row a row of the input.

No label ever reaches a judge: here it becomes a number beside the row's key, and only the key goes further.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from prspark.engine.config import ColumnsConfig
from prspark.engine.prepare import required, row_name, with_row_key
from prspark.errors import InputError

EXPECTED = "boolean, a number in 0..1, or text true/false/yes/no/correct/incorrect"

_TRUE = ("true", "yes", "correct")
_FALSE = ("false", "no", "incorrect")


def label_text(schema: T.StructType, label: str, columns: ColumnsConfig) -> tuple[Column, str]:
    """Return the label at a dotted path as text (blank is null) and the name of its type.

    Raises:
        InputError: it is missing, its type can't be a label, or it is a place whose text the judge reads.
    """
    if judged := _judged_place(label, columns):
        raise InputError(f"label {label} is in {judged}, which the judge reads; name a column of labels")
    kinds: list[str] = []

    def accepts(kind: T.DataType) -> bool:
        kinds.append(kind.simpleString())
        return isinstance(kind, (T.BooleanType, T.NumericType, T.StringType, T.NullType))

    try:
        text = F.lower(F.trim(required(schema, label, accepts, EXPECTED)))
    except InputError as error:
        hint = "name yours under [columns]"  # true of what the configuration names; a label is an argument
        raise InputError(str(error).replace(hint, "name the column that holds the label")) from None
    return F.when(text != "", text), kinds[0]


def read_labels(df: DataFrame, label: str, columns: ColumnsConfig) -> DataFrame:
    """Return `row_high`, `row_low`, `labelled` and `label` of each row.

    `labelled` says whether the row has a value there; `label` is that value in 0..1, null if it is no label.
    """
    text, _ = label_text(df.schema, label, columns)
    row = F.col(row_name(df))
    keyed = with_row_key(df, columns)
    texts = keyed.select(row["high"].alias("row_high"), row["low"].alias("row_low"), text.alias("text"))
    # try_cast as SQL: PySpark 3.5 has no method for it, and a plain cast ends the job at the first odd value
    number = F.expr("try_cast(text AS double)")
    said = F.when(F.col("text").isin(*_TRUE), 1.0).when(F.col("text").isin(*_FALSE), 0.0).otherwise(number)
    value = F.when(said.between(0.0, 1.0), said)
    return texts.select(
        "row_high", "row_low", F.col("text").isNotNull().alias("labelled"), value.alias("label")
    )


class Labelled(NamedTuple):
    """How many rows have a label, and how many have none."""

    labelled: int
    unlabelled: int


def count_labels(labels: DataFrame, df: DataFrame, label: str, columns: ColumnsConfig) -> Labelled:
    """Count what `read_labels` returned.

    Raises:
        InputError: there is no label, or some value is none; it names column, type and what is expected.
    """
    counts = (F.count(F.lit(1)), F.coalesce(F.sum(F.col("labelled").cast("int")), F.lit(0)), F.count("label"))
    rows, labelled, good = labels.agg(*counts).collect()[0]
    if labelled and labelled == good:
        return Labelled(labelled, rows - labelled)
    kind = label_text(df.schema, label, columns)[1]
    wrong = (
        f"{labelled - good} of {labelled} values are no label"
        if labelled
        else f"none of {rows} rows has a value"
    )
    raise InputError(f"label {label} has type {kind} and {wrong}; expected {EXPECTED}")


def _judged_place(label: str, columns: ColumnsConfig) -> str | None:
    """The place of judged text that holds the label; null if none does."""
    texts = {"prompt": columns.prompt, "sut_response": columns.sut_response, "query": columns.query}
    texts |= {
        "reference_answer": columns.reference_answer,
        "groundtruth_context": columns.groundtruth_context,
    }
    for name, path in texts.items():
        places = (path,) if path else (name, f"metadata.{name}")
        for place in places:
            if label == place or label.startswith(f"{place}."):
                return place
    return None
