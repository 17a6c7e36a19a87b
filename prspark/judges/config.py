"""The configuration of the judge and of its limits: the `[judge]` and `[limits]` tables."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class JudgeConfig(BaseModel):
    """Who judges. Secrets are named by their environment variable and never held here."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    kind: str = "lexical"
    base_url: str | None = None
    model: str | None = None
    token_env: str = "PRSPARK_JUDGE_TOKEN"  # noqa: S105  the variable's name, not its value
    temperature: float | None = 0.0
    max_tokens: int = Field(default=512, ge=1)
    seed: int | None = None
    api_version: str | None = None
    # header name -> name of the environment variable that holds its value
    header_env: dict[str, str] = Field(default_factory=dict)
    proxy: str | None = None
    ca_bundle: str | None = None
    skip_identical_pairs: bool = True
    swap_pairs: bool = False
    preflight: bool = True
    # replace a built-in template; None keeps it
    correctness_template: str | None = None
    robustness_template: str | None = None
    # price of 1,000,000 tokens, in the user's currency
    prompt_price: float = Field(default=0.0, ge=0)
    completion_price: float = Field(default=0.0, ge=0)


class LimitsConfig(BaseModel):
    """How hard the endpoint may be pushed. 0 means no limit where a key says so."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    executor_concurrency: int = Field(default=40, ge=1)
    max_concurrency: int = Field(default=8, ge=1)
    requests_per_minute: float = Field(default=0.0, ge=0)
    tokens_per_minute: float = Field(default=0.0, ge=0)
    max_attempts: int = Field(default=5, ge=1)
    max_calls: int = Field(default=0, ge=0)
    max_cost: float = Field(default=0.0, ge=0)
    # executors that share the rates; 0 means: work it out from the session
    executors: int = Field(default=0, ge=0)
    group_timeout_seconds: float = Field(default=900.0, gt=0)
    # so many judge calls in a row that end for good unscored by the endpoint's fault stop the job; 0 = never
    max_failures_in_a_row: int = Field(default=100, ge=0)
