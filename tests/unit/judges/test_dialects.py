"""Each kind of endpoint is addressed, asked and read in its own way, and all from one table."""

import json
from typing import Any

import pytest

from prspark.judges import dialects
from prspark.judges.config import JudgeConfig
from prspark.judges.dialects import DIALECTS, Ask, JudgeConfigError, MalformedReplyError, Shape
from prspark.judges.prompts import response_schema

SCHEMA = response_schema()
ASK = Ask("correctness", [{"role": "system", "content": "judge"}, {"role": "user", "content": "data"}])
MINE = {"token_env": "MINE"}
JWT = "eyJhbGciOi.eyJzdWIi.c2ln"


def url(kind: str, environ: dict[str, str] | None = None, **settings: Any) -> str:
    config = JudgeConfig(kind=kind, **{"model": "m", **settings})
    return dialects.endpoint_url(config, environ=environ or {})


def body(kind: str, shape: Shape | None = None, **settings: Any) -> dict[str, Any]:
    config = JudgeConfig(kind=kind, model="m", **settings)
    dialect = DIALECTS[kind]
    return dialect.body(ASK, shape or dialect.first_shape(), config)


@pytest.mark.parametrize(
    ("kind", "base", "expected"),
    [
        ("chat", "http://h/v1", "http://h/v1/chat/completions"),
        ("chat", "http://h/v1/", "http://h/v1/chat/completions"),
        ("chat", "http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("anthropic", "https://a", "https://a/v1/messages"),
        ("anthropic", "https://a/v1", "https://a/v1/messages"),
        ("databricks", "https://d", "https://d/serving-endpoints/m/invocations"),
        ("databricks", "https://d/serving-endpoints", "https://d/serving-endpoints/m/invocations"),
        (
            "azure",
            "https://z",
            "https://z/openai/deployments/m/chat/completions?api-version=2024-10-21",
        ),
    ],
)
def test_address_is_the_base_and_the_path_however_much_of_it_was_pasted(
    kind: str, base: str, expected: str
) -> None:
    assert url(kind, base_url=base) == expected


def test_azure_takes_the_configured_api_version() -> None:
    assert url("azure", base_url="https://z", api_version="2030-01-01").endswith("?api-version=2030-01-01")


def test_anthropic_has_an_address_of_its_own() -> None:
    assert url("anthropic") == "https://api.anthropic.com/v1/messages"


@pytest.mark.parametrize("host", ["https://adb-1.net", "adb-1.net", "https://adb-1.net/"])
def test_databricks_host_comes_from_the_environment(host: str) -> None:
    expected = "https://adb-1.net/serving-endpoints/m/invocations"
    assert url("databricks", {"DATABRICKS_HOST": host}) == expected


@pytest.mark.parametrize("kind", ["chat", "azure", "databricks"])
def test_missing_address_is_an_error_that_names_the_setting(kind: str) -> None:
    with pytest.raises(JudgeConfigError, match=r"^judge\.base_url is missing"):
        url(kind)


def test_missing_model_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(JudgeConfigError, match=r"^judge\.model is missing"):
        url("chat", base_url="http://h", model=None)


@pytest.mark.parametrize("wrong", ["h/v1", "ftp://h", "http://", "http://h:port", "http://[h"])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(JudgeConfigError, match=r"^judge\.base_url is no address"):
        url("chat", base_url=wrong)


@pytest.mark.parametrize("loaded", ["http://me:s3cret@h/v1", "http://h/v1?key=s3cret", "http://h/#s3cret"])
def test_secret_in_the_address_is_refused_and_not_repeated(loaded: str) -> None:
    with pytest.raises(JudgeConfigError, match=r"judge\.token_env") as caught:
        url("chat", base_url=loaded)
    assert "s3cret" not in str(caught.value)


def test_token_is_read_from_the_named_variable_and_trimmed() -> None:
    config = JudgeConfig(kind="chat", **MINE)
    assert dialects.token(config, environ={"MINE": " t0ken\n"}) == "t0ken"


def test_chat_works_without_a_token() -> None:
    assert dialects.token(JudgeConfig(kind="chat"), environ={}) is None
    assert DIALECTS["chat"].headers(None) == {}


@pytest.mark.parametrize("kind", ["azure", "anthropic", "databricks"])
def test_missing_token_is_an_error_that_names_the_variable(kind: str) -> None:
    with pytest.raises(JudgeConfigError, match=r"^judge\.token_env: .*\bMINE\b"):
        dialects.token(JudgeConfig(kind=kind, **MINE), environ={})


def test_databricks_falls_back_to_the_notebooks_token() -> None:
    assert dialects.token(JudgeConfig(kind="databricks"), environ={"DATABRICKS_TOKEN": "dapi1"}) == "dapi1"


@pytest.mark.parametrize("value", ["s3cret\r\nX: y", "s3cr\u00e9t", "s3cret\x00"])
def test_token_that_no_header_can_carry_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(JudgeConfigError, match="no header can carry") as caught:
        dialects.token(JudgeConfig(kind="chat", **MINE), environ={"MINE": value})
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "token", "expected"),
    [
        ("chat", "t", {"Authorization": "Bearer t"}),
        ("databricks", "t", {"Authorization": "Bearer t"}),
        ("azure", "0123abcd", {"api-key": "0123abcd"}),
        ("azure", JWT, {"Authorization": f"Bearer {JWT}"}),
        ("anthropic", "t", {"x-api-key": "t", "anthropic-version": "2023-06-01"}),
    ],
)
def test_token_goes_into_the_header_of_its_kind(kind: str, token: str, expected: dict[str, str]) -> None:
    assert DIALECTS[kind].headers(token) == expected


def test_chat_body_asks_for_the_named_schema() -> None:
    assert body("chat", seed=7) == {
        "model": "m",
        "messages": ASK.messages,
        "temperature": 0.0,
        "max_tokens": 512,
        "seed": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "correctness", "schema": SCHEMA, "strict": True},
        },
    }


@pytest.mark.parametrize("kind", ["azure", "databricks"])
def test_model_is_in_the_address_and_not_in_the_body(kind: str) -> None:
    assert "model" not in body(kind)


def test_anthropic_body_forces_the_tool_call_and_takes_the_system_text_out_of_the_messages() -> None:
    assert body("anthropic", seed=7) == {
        "model": "m",
        "system": "judge",
        "messages": [{"role": "user", "content": "data"}],
        "temperature": 0.0,
        "max_tokens": 512,
        "tools": [
            {
                "name": "record_verdict",
                "description": "Record the verdict on correctness.",
                "input_schema": SCHEMA,
            }
        ],
        "tool_choice": {"type": "tool", "name": "record_verdict"},
    }


def test_form_falls_from_schema_to_object_to_plain_text_and_no_further() -> None:
    chat = DIALECTS["chat"]
    shapes = [chat.first_shape()]
    for _ in range(3):
        shapes.append(chat.without(shapes[-1], "form"))
    assert [shape.form for shape in shapes] == ["json_schema", "json_object", "text", "text"]
    assert body("chat", shapes[1])["response_format"] == {"type": "json_object"}
    assert "response_format" not in body("chat", shapes[2])


def test_length_is_renamed_and_then_left_out() -> None:
    chat = DIALECTS["chat"]
    renamed = chat.without(chat.first_shape(), "length")
    assert body("chat", renamed)["max_completion_tokens"] == 512
    assert "max_tokens" not in body("chat", renamed)
    assert not [key for key in body("chat", chat.without(renamed, "length")) if key.startswith("max_")]


def test_temperature_and_seed_can_be_left_out() -> None:
    chat = DIALECTS["chat"]
    bare = chat.without(chat.without(chat.first_shape(), "seed"), "temperature")
    assert not {"seed", "temperature"} & set(body("chat", bare, seed=7))


def test_two_lessons_are_put_together() -> None:
    chat = DIALECTS["chat"]
    first = chat.first_shape()
    both = chat.plainer(chat.without(first, "form"), chat.without(first, "seed"))
    assert both == Shape(form="json_object", length="max_tokens", seed=False)


def read(kind: str, reply: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(DIALECTS[kind].read(reply))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([{"type": "reasoning", "text": "0.1"}, {"type": "text", "text": "a"}, {"type": "text"}], "a"),
        (7, ""),
    ],
)
def test_chat_content_is_a_text_or_the_text_parts_of_a_list(content: Any, text: str) -> None:
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    assert read("chat", {"choices": [choice], "usage": usage}) == (text, "stop", 3, 4)


def test_missing_usage_is_unknown_and_not_zero() -> None:
    assert read("chat", {"choices": [{"message": {"content": "a"}}]}) == ("a", None, None, None)


def test_refusal_of_the_model_reads_as_filtered() -> None:
    message = {"content": None, "refusal": "I can't"}
    assert read("chat", {"choices": [{"message": message, "finish_reason": "stop"}]})[1] == "content_filter"


@pytest.mark.parametrize(
    "reply", [{}, {"choices": []}, {"choices": None}, {"choices": [{}]}, {"choices": ["a"]}, {"choices": {}}]
)
def test_chat_reply_without_a_message_is_malformed(reply: dict[str, Any]) -> None:
    with pytest.raises(MalformedReplyError):
        read("chat", reply)


def test_anthropic_reply_is_the_input_of_the_tool_call() -> None:
    call = {"type": "tool_use", "name": "record_verdict", "input": {"reasoning": "r", "score": 0.5}}
    usage = {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 6}
    text, finish, prompt, completion = read(
        "anthropic",
        {"content": [{"type": "text", "text": "Sure."}, call], "stop_reason": "tool_use", "usage": usage},
    )
    assert json.loads(text) == {"reasoning": "r", "score": 0.5}
    assert (finish, prompt, completion) == ("tool_use", 25, 6)


def test_anthropic_reply_in_text_is_read_too() -> None:
    blocks = [{"type": "thinking", "thinking": "0.1"}, {"type": "text", "text": '{"score": 1}'}]
    assert read("anthropic", {"content": blocks})[0] == '{"score": 1}'


@pytest.mark.parametrize(
    ("stop", "finish"), [("max_tokens", "length"), ("refusal", "content_filter"), ("end_turn", "end_turn")]
)
def test_anthropic_stop_reasons_are_told_in_common_words(stop: str, finish: str) -> None:
    assert read("anthropic", {"content": [], "stop_reason": stop})[1] == finish


def test_anthropic_reply_without_content_is_malformed() -> None:
    with pytest.raises(MalformedReplyError):
        read("anthropic", {"type": "message"})
