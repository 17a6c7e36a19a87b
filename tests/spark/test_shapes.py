"""One group, written in every shape that the contract accepts, gets the same result."""

import json

import pytest
from pyspark.sql import functions as F

from prspark.errors import InputError
from tests.support.answers import HALF, QUESTION, assert_half, results, score, table

MESSAGES = "array<struct<role: string, content: string>>"
PARTS = "array<struct<role: string, content: array<struct<type: string, text: string, image_url: string>>>>"
PLAIN = "input_id string, prompt {prompt}, sut_response {answer}, reference_answer string"


def flat(df, *, drop=("metadata",)):
    """Put the original query into a column of its own."""
    return df.withColumn("question", F.col("metadata.original_query")).drop(*drop)


@pytest.mark.parametrize("shape", ["struct", "map", "json"])
def test_metadata_may_be_a_struct_a_map_or_json_text(spark, shape):
    df = table(spark, HALF)
    metadata = {
        "map": F.col("metadata"),
        "struct": F.struct(F.col("metadata")["original_query"].alias("original_query")),
        "json": F.to_json("metadata"),
    }[shape]
    assert_half(results(score(df.withColumn("metadata", metadata))))


def test_a_flat_column_whose_name_holds_the_dots_is_found(spark):
    df = flat(table(spark, HALF)).withColumnRenamed("question", "metadata.original_query")
    assert_half(results(score(df)))


def test_dotted_paths_of_the_configuration_reach_into_structs_maps_and_json_texts(spark):
    df = table(spark, HALF).select(
        F.struct(F.col("input_id").alias("key")).alias("row"),
        F.create_map(F.lit("asked"), "prompt", F.lit("answered"), "sut_response").alias("texts"),
        F.to_json(F.struct(F.struct(F.col("reference_answer").alias("truth")).alias("gold"))).alias("more"),
        F.col("metadata.original_query").alias("original query"),
        # neither column is one of prspark's here, whatever its name says
        F.lit(7).alias("metadata"),
    )
    columns = {
        "input_id": "row.key",
        "prompt": "texts.asked",
        "sut_response": "texts.answered",
        "reference_answer": "more.gold.truth",
        "original_query": "original query",
    }
    scored = score(df, {"columns": columns}).withColumn("input_id", F.col("row.key"))
    assert_half(results(scored))


def chat(text):
    """A conversation whose last user turn is the text."""
    return [("system", "Be brief."), ("user", "Hello!"), ("assistant", "Hello."), ("user", text)]


def test_prompt_and_response_may_be_lists_of_messages(spark):
    rows = [(i, chat(q), [("user", q), ("assistant", a)], r, m["original_query"]) for i, q, a, r, m in HALF]
    schema = PLAIN.format(prompt=MESSAGES, answer=MESSAGES) + ", question string"
    assert_half(results(score(table(spark, rows, schema), {"columns": {"original_query": "question"}})))


def test_prompt_and_response_may_be_json_texts_of_messages(spark):
    def text(messages):
        return json.dumps([{"role": role, "content": content} for role, content in messages])

    rows = [(i, text(chat(q)), text([("assistant", a)]), r, m) for i, q, a, r, m in HALF]
    assert_half(results(score(table(spark, rows))))


def test_content_may_come_in_parts_of_which_images_are_passed_over(spark):
    def parts(text):
        return [("user", [("image_url", None, "http://x/y.png"), ("text", text, None)])]

    rows = [(i, parts(q), a, r, m["original_query"]) for i, q, a, r, m in HALF]
    schema = PLAIN.format(prompt=PARTS, answer="string") + ", question string"
    assert_half(results(score(table(spark, rows, schema), {"columns": {"original_query": "question"}})))


def test_malformed_json_is_plain_text(spark):
    broken = '[{"role": "user", "content": "What is'
    rows = [
        ("a", broken, "42", "42", {"original_query": broken}),
        ("b", "Six times seven?", '[{"role": "assistant", "content": 42', "42", {"original_query": broken}),
    ]
    found = results(score(table(spark, rows)))
    assert [found[i]["role"] for i in "ab"] == ["baseline", "variant"]
    assert found["b"]["correctness"] == 1.0, "42 stands in the text"


@pytest.mark.parametrize("place", ["query", "metadata"])
def test_a_query_of_the_row_comes_before_its_prompt(spark, place):
    rows = [(i, f"Context: long.\nQuestion: {q}", a, r, {**m, "query": q}) for i, q, a, r, m in HALF]
    df = table(spark, rows)
    if place == "query":
        without = F.map_filter("metadata", lambda key, _: key != "query")
        df = df.withColumn("query", F.col("metadata.query")).withColumn("metadata", without)
    assert_half(results(score(df)))


@pytest.mark.parametrize("kind", ["int", "bigint", "decimal(20,2)", "double"])
def test_numeric_ids_rank_by_value_so_9_comes_before_10(spark, kind):
    rows = [
        (10, QUESTION, "41", "42", {"original_query": QUESTION}),
        (9, QUESTION, "42", "42", {"original_query": QUESTION}),
        (11, "Six times seven?", "42", "42", {"original_query": QUESTION}),
    ]
    df = table(
        spark,
        rows,
        "input_id int, prompt string, sut_response string, reference_answer string, "
        "metadata map<string, string>",
    )
    found = results(score(df.withColumn("input_id", F.col("input_id").cast(kind))))
    assert {int(key): row["role"] for key, row in found.items()} == {
        9: "baseline",
        10: "repeat",
        11: "variant",
    }
    assert {row["score"] for row in found.values()} == {1.0}, "the repeat's wrong answer counts nowhere"


def test_text_ids_rank_as_text(spark):
    rows = [(i, QUESTION, "42", "42", {"original_query": QUESTION}) for i in ("9", "10")]
    found = results(score(table(spark, rows)))
    assert {key: row["role"] for key, row in found.items()} == {"10": "baseline", "9": "repeat"}


def test_group_by_tells_systems_apart_and_a_null_is_a_system_of_its_own(spark):
    rows = [
        (f"{i}-{model}", q, a if model == "good" else "41", r, {**m, "model": model})
        for i, q, a, r, m in HALF
        for model in ("good", "bad", None)
    ]
    found = results(score(table(spark, rows), {"columns": {"group_by": ["metadata.model"]}}))
    assert_half(found, ("a-good", "b-good", "c-good"))
    for model in ("bad", None):
        for i in "abc":
            row = found[f"{i}-{model}"]
            assert (row["score"], row["outcome"], row["pairs_total"]) == (1.0, "stable_wrong", 2)


def test_columns_of_types_that_cannot_be_judged_are_refused_by_name_and_type(spark):
    df = table(spark, HALF)
    wrong = {
        "prompt": (F.lit(1.5).cast("double"), "double"),
        "sut_response": (F.array(F.lit(1)), "array<int>"),
        "input_id": (F.array(F.lit("a")), "array<string>"),
        "metadata": (F.lit(1), "int"),
    }
    for name, (column, kind) in wrong.items():
        with pytest.raises(InputError) as caught:
            score(df.withColumn(name, column))
        assert f"column {name} has type {kind}; expected " in str(caught.value)
