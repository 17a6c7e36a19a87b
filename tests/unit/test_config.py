"""The configuration is read as written, and what is wrong is named in one line without its value."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from prspark.engine.config import Config, known_keys, load_config, make_config, nearest_name
from prspark.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "conf" / "prspark.toml"


def changed(*overrides: str) -> dict[str, Any]:
    """What these overrides change of the defaults."""
    return load_config(overrides=overrides).model_dump(exclude_defaults=True)


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(overrides=overrides)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.exit_code == 2
    return text


# --- TOML


def test_no_file_is_all_defaults() -> None:
    assert load_config() == Config() == make_config(None) == make_config({})


def test_file_is_read_table_by_table(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(
        '[judge]\nkind = "chat"\n[limits]\nmax_calls = 5\n[columns]\ngroup_by = ["metadata.model"]\n'
    )
    config = load_config(path)
    assert (config.judge.kind, config.limits.max_calls) == ("chat", 5)
    assert config.columns.group_by == ("metadata.model",)
    assert config.scoring == Config().scoring


def test_file_of_an_editor_that_writes_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[limits]\nmax_calls = 5\n", encoding="utf-8-sig")
    assert load_config(str(path)).limits.max_calls == 5


def test_override_wins_over_the_file_and_the_last_override_over_all(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[limits]\nmax_calls = 5\nmax_attempts = 2\n")
    config = load_config(path, ["limits.max_calls=6", "limits.max_calls=7"])
    assert (config.limits.max_calls, config.limits.max_attempts) == (7, 2)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml.*No such file.*--config"):
        load_config(tmp_path / "none.toml")


@pytest.mark.parametrize("content", [b"[judge\n", b"kind = \n", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_file_that_is_not_toml_is_named_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "my.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"my\.toml is not TOML") as caught:
        load_config(path)
    assert "\n" not in str(caught.value)


def test_tables_of_a_notebook_are_checked_like_a_file() -> None:
    assert make_config({"limits": {"max_calls": 5}}).limits.max_calls == 5
    with pytest.raises(ConfigError, match=r"limits\.max_call; did you mean limits\.max_calls\?"):
        make_config({"limits": {"max_call": 5}})


def test_config_is_taken_as_it_is_and_can_not_be_changed() -> None:
    config = Config()
    assert make_config(config) is config
    with pytest.raises(ValueError, match="frozen"):
        config.limits.max_calls = 5


def test_path_where_tables_are_expected_says_how_to_read_it() -> None:
    with pytest.raises(ConfigError, match="load_config"):
        make_config("prspark.toml")  # type: ignore[arg-type]


# --- --set


@pytest.mark.parametrize(
    ("override", "table"),
    [
        ("limits.max_calls=1000", {"limits": {"max_calls": 1000}}),
        ("limits.max_calls=1_000", {"limits": {"max_calls": 1000}}),
        (" limits.max_calls = 7 ", {"limits": {"max_calls": 7}}),
        ("limits.max_cost=2.5", {"limits": {"max_cost": 2.5}}),
        ("judge.preflight=false", {"judge": {"preflight": False}}),
        ("judge.seed=3", {"judge": {"seed": 3}}),
        ("judge.kind=chat", {"judge": {"kind": "chat"}}),
        ('judge.kind="chat"', {"judge": {"kind": "chat"}}),
        ("judge.kind='chat'", {"judge": {"kind": "chat"}}),
        ("judge.model=gpt-4o", {"judge": {"model": "gpt-4o"}}),
        ("judge.model=a = b", {"judge": {"model": "a = b"}}),
        ("judge.base_url=http://host:8000/v1?a=b#c", {"judge": {"base_url": "http://host:8000/v1?a=b#c"}}),
        ("judge.kind=my.package:factory", {"judge": {"kind": "my.package:factory"}}),
        ("metric.reference_answer=", {"metric": {"reference_answer": ""}}),
        ("columns.query=metadata.query", {"columns": {"query": "metadata.query"}}),
        # what looks like another type is text where text is wanted
        ("metric.reference_answer=42", {"metric": {"reference_answer": "42"}}),
        ("metric.reference_answer=true", {"metric": {"reference_answer": "true"}}),
        ("metric.reference_answer=[1, 2]", {"metric": {"reference_answer": "[1, 2]"}}),
        ("metric.reference_answer=[a]", {"metric": {"reference_answer": "[a]"}}),
        ("judge.api_version=2024-10-21", {"judge": {"api_version": "2024-10-21"}}),
        ("judge.model=4.10", {"judge": {"model": "4.10"}}),
        # lists and tables
        ('columns.group_by=["a", "metadata.b"]', {"columns": {"group_by": ("a", "metadata.b")}}),
        ("columns.group_by=[metadata.model]", {"columns": {"group_by": ("metadata.model",)}}),
        ("columns.group_by=[a, metadata.b]", {"columns": {"group_by": ("a", "metadata.b")}}),
        ('judge.header_env={"X-Team" = "TEAM"}', {"judge": {"header_env": {"X-Team": "TEAM"}}}),
        ("judge.header_env.X-Team=TEAM", {"judge": {"header_env": {"X-Team": "TEAM"}}}),
    ],
)
def test_value_is_read_as_its_key_wants_it_and_quotes_are_optional(
    override: str, table: dict[str, Any]
) -> None:
    assert changed(override) == table


@pytest.mark.parametrize(
    "override", ["", "limits", "limits.max_calls", "=5", ".max_calls=5", "limits.=5", "a..b=5"]
)
def test_override_in_another_form_is_refused_with_an_example(override: str) -> None:
    assert refusal(override) == "--set wants table.key=value, for example --set limits.max_calls=1000"


def test_key_below_a_value_is_refused() -> None:
    assert "limits is a value, not a table" in refusal("limits=5", "limits.max_calls=5")


# --- unknown keys


@pytest.mark.parametrize(
    ("override", "unknown", "nearest"),
    [
        ("limits.max_call=1", "limits.max_call", "limits.max_calls"),
        ("judge.temprature=1", "judge.temprature", "judge.temperature"),
        ("metric.metricname=x", "metric.metricname", "metric.metric_name"),
        ("columns.groupby=[a]", "columns.groupby", "columns.group_by"),
        ("scoring.coverage=1", "scoring.coverage", "scoring.min_coverage"),
        # a key in another table, or in none
        ("judge.max_concurrency=1", "judge.max_concurrency", "limits.max_concurrency"),
        ("metric.original_query=q", "metric.original_query", "columns.original_query"),
        ("max_calls=1", "max_calls", "limits.max_calls"),
        # an unknown table
        ("limit.max_calls=1", "limit", "limits"),
        ("judges.kind=chat", "judges", "judge"),
    ],
)
def test_unknown_key_names_the_nearest(override: str, unknown: str, nearest: str) -> None:
    assert refusal(override) == f"unknown configuration key {unknown}; did you mean {nearest}?"


def test_nearest_name_of_nothing_is_none() -> None:
    assert nearest_name("a", []) is None
    assert nearest_name("zzz", ["only"]) == "only"


def test_known_keys_are_all_tables_and_their_keys() -> None:
    keys = known_keys()
    assert {"metric", "judge", "limits", "columns", "scoring"} == {key for key in keys if "." not in key}
    assert {"metric.metric_name", "judge.token_env", "limits.max_cost", "columns.group_by"} < set(keys)
    assert len(keys) == len(set(keys))


# --- wrong values


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("limits.max_calls=s3cr3t", "limits.max_calls"),
        ("limits.max_calls=-71", "limits.max_calls"),
        ("limits.executor_concurrency=0", "limits.executor_concurrency"),
        ("metric.sub_call_concurrency_limit=71", "metric.sub_call_concurrency_limit"),
        ("metric.timeout_seconds=0", "metric.timeout_seconds"),
        ("scoring.min_coverage=71", "scoring.min_coverage"),
        ("judge.preflight=s3cr3t", "judge.preflight"),
        ("judge=s3cr3t", "judge"),
        ("columns.group_by=s3cr3t", "columns.group_by"),
        ("metric.metric_name= ", "metric"),
    ],
)
def test_wrong_value_names_its_key_and_not_itself(override: str, key: str) -> None:
    text = refusal(override)
    assert text.startswith(f"configuration key {key}: ")
    assert "s3cr3t" not in text
    assert "71" not in text


def test_wrong_value_among_tables_of_a_notebook_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        make_config({"judge": {"header_env": {"X": ["s3cr3t"]}}})
    assert "judge.header_env.X" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


# --- secrets


@pytest.mark.parametrize("key", ["token", "api_key", "secret", "password", "key"])
def test_secret_is_never_configured_and_never_repeated(key: str) -> None:
    assert "s3cr3t" not in refusal(f"judge.{key}=s3cr3t")


def test_token_names_the_variable_that_holds_the_secret() -> None:
    assert "did you mean judge.token_env?" in refusal("judge.token=s3cr3t")
    assert Config().judge.token_env == "PRSPARK_JUDGE_TOKEN"  # noqa: S105  a variable's name


# --- the example file


def test_example_file_parses_and_holds_the_defaults() -> None:
    assert load_config(EXAMPLE) == Config()


def example_keys() -> set[str]:
    """Every key that the example file names, commented or not."""
    keys, table = set(), ""
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\[(\w+)\]", line):
            table = found[1]
            keys.add(table)
        elif found := re.match(r"(?:# )?(\w+) = ", line):
            keys.add(f"{table}.{found[1]}")
    return keys


def test_example_file_names_every_key_and_no_other() -> None:
    assert example_keys() == set(known_keys())


def test_example_file_states_the_default_of_every_key_that_has_one() -> None:
    stated = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    for table, model in Config():
        assert isinstance(model, BaseModel)
        # the length of a template or of a list of headers is no default to show
        wanted = {name for name, value in model if value is not None and value != {}}
        assert set(stated[table]) == wanted


def test_commented_examples_are_valid_too() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    with_examples = "\n".join(re.sub(r"^# (\w+ = )", r"\1", line) for line in lines)
    tables = tomllib.loads(with_examples)
    assert make_config(tables).judge.header_env == {"X-Team": "TEAM_HEADER"}
