"""The configuration of the metric: the `[metric]` table, equal to the metric's published schema."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_SCORING: dict[str, Any] = {"x-aip-param-role": "scoring_metadata"}
_OPERATIONAL: dict[str, Any] = {"x-aip-param-role": "operational"}


def _as_published(schema: dict[str, Any]) -> None:
    """Drop what pydantic adds for a strict, documented model: the published schema has neither."""
    schema.pop("additionalProperties", None)
    schema.pop("description", None)


class PerturbationRobustnessExternalConfig(BaseModel):
    """What is measured. Scoring metadata describe the score to its reader and never change it.

    `reference_answer` and `groundtruth_context` serve the rows that bring none (null: no fallback).
    `metric_name` names the score column. `sub_call_concurrency_limit` counts judge calls in flight for one
    group; `timeout_seconds` bounds one judge call.

    Raises:
        pydantic.ValidationError: an unknown key, a value outside its limits, a blank `metric_name`, or a
            `min` above `max`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, json_schema_extra=_as_published
    )

    reference_answer: str | None = None
    groundtruth_context: str | None = None
    metric_name: str = Field(default="perturbation_robustness_external", json_schema_extra=_SCORING)
    min: float = Field(default=0.0, json_schema_extra=_SCORING)
    max: float = Field(default=1.0, json_schema_extra=_SCORING)
    inverted: bool = Field(default=False, json_schema_extra=_SCORING)
    weight: float = Field(default=1.0, json_schema_extra=_SCORING)
    sub_call_concurrency_limit: int = Field(default=5, ge=1, le=64, json_schema_extra=_OPERATIONAL)
    timeout_seconds: float = Field(default=60.0, gt=0, json_schema_extra=_OPERATIONAL)

    @model_validator(mode="after")
    def _check(self) -> Self:
        # checked here and not by `Field`, whose limits would show in the published schema
        if not self.metric_name.strip():
            raise ValueError("metric_name is blank; it names the score column, so give it a name")
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}; swap them")
        return self
