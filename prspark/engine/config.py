"""The whole configuration of a run: the TOML file, `--set` overrides, and where the columns are."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prspark.errors import ConfigError
from prspark.judges.config import JudgeConfig, LimitsConfig
from prspark.metric.config import PerturbationRobustnessExternalConfig


class ColumnsConfig(BaseModel):
    """Where things are. A dotted path goes into a struct, a map or JSON text.

    An optional place that is left null is looked for as a column of that name, then as `metadata.<name>`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input_id: str = "input_id"
    prompt: str = "prompt"
    sut_response: str = "sut_response"
    original_query: str = "metadata.original_query"
    group_by: tuple[str, ...] = ()
    query: str | None = None
    perturbation_type: str | None = None
    task_type: str | None = None
    reference_answer: str | None = None
    groundtruth_context: str | None = None


class ScoringConfig(BaseModel):
    """When a group gets a score."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_coverage: float = Field(default=0.5, ge=0, le=1)


class Config(BaseModel):
    """Everything a run can be told. Every key has a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: PerturbationRobustnessExternalConfig = Field(default_factory=PerturbationRobustnessExternalConfig)
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    columns: ColumnsConfig = Field(default_factory=ColumnsConfig)
    scoring: ScoringConfig = Field(default_factory=ScoringConfig)


def load_config(path: str | Path | None = None, overrides: Iterable[str] = ()) -> Config:
    """Read a TOML file (or the defaults) and apply `a.b=value` overrides; the last one wins.

    Raises:
        ConfigError: the file can't be read, a key is unknown (the nearest one is named) or a value is wrong.
    """
    tables = _read_toml(Path(path)) if path else {}
    for override in overrides:
        _apply(tables, override)
    return make_config(tables)


def make_config(tables: Config | Mapping[str, Any] | None) -> Config:
    """Turn nested tables (as a notebook would write them) into a checked configuration.

    Raises:
        ConfigError: a key is unknown or a value is wrong.
    """
    if isinstance(tables, Config):
        return tables
    if tables is not None and not isinstance(tables, Mapping):
        raise ConfigError(
            "configuration: expected tables or a Config; read a TOML file with prspark.load_config"
        )
    try:
        return Config.model_validate(dict(tables or {}))
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"configuration {path}: {error.strerror}; name a TOML file with --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration {path} is not TOML: {error}") from None


def _apply(tables: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    *parents, key = path.strip().split(".")
    if not equals or not all([*parents, key]):
        raise ConfigError("--set wants table.key=value, for example --set limits.max_calls=1000")
    table = tables
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {path}: {parent} is a value, not a table")
    table[key] = _value(text.strip(), is_text=_is_text(path.strip()))


def _value(text: str, *, is_text: bool) -> Any:
    """Read what stands after `=` as TOML; quotes are optional, since shells take them away."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if text.startswith("[") and text.endswith("]") and not is_text:
            return [item.strip() for item in text[1:-1].split(",")]
        return text
    return text if is_text and not isinstance(value, str) else value


def _is_text(path: str) -> bool:
    """Whether a key holds text, so that 42 and 2024-10-21 are text there."""
    table, _, key = path.partition(".")
    found = Config.model_fields.get(table)
    field = getattr(found.annotation, "model_fields", {}).get(key) if found else None
    return field is not None and field.annotation in (str, str | None)


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden":
        return f"configuration key {path}: {first['msg']}"
    nearest = nearest_name(path, known_keys())
    return f"unknown configuration key {path}; did you mean {nearest}?"


def known_keys() -> list[str]:
    """All keys as dotted paths, tables included."""
    keys: list[str] = []
    for table, field in Config.model_fields.items():
        model = field.annotation
        names = model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else {}
        keys += [table, *(f"{table}.{name}" for name in names)]
    return keys


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The name that looks most like this one; None when there are none."""
    candidates = list(names)
    last = {candidate.rpartition(".")[2]: candidate for candidate in reversed(candidates)}
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    close += [
        last[leaf] for leaf in difflib.get_close_matches(name.rpartition(".")[2], last, n=1, cutoff=0.6)
    ]
    close += difflib.get_close_matches(name, candidates, n=1, cutoff=0.0)
    return close[0] if close else None
