"""Makes the judge that a configuration names, and the text that identifies its verdicts."""

import json
import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from prspark.judges import dialects
from prspark.judges.config import JudgeConfig, LimitsConfig
from prspark.judges.dialects import DIALECTS, JudgeConfigError
from prspark.judges.endpoint import EndpointJudge
from prspark.judges.lexical import LexicalJudge
from prspark.judges.limits import Gate
from prspark.judges.prompts import PromptError, Prompts
from prspark.judges.protocol import Judge

__all__ = ["JudgeConfigError", "is_free", "judge_identity", "make_judge"]

LEXICAL = "lexical"
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class CallTimeout(Protocol):
    """What is read of the metric's configuration: the limit of one judge call, in seconds."""

    @property
    def timeout_seconds(self) -> float:
        """Limit of one judge call, in seconds."""
        ...


def make_judge(
    judge: JudgeConfig,
    *,
    metric: CallTimeout,
    limits: LimitsConfig,
    gate: Gate,
    environ: Mapping[str, str] = os.environ,
) -> Judge:
    """Make the judge, in the process that will use it.

    Args:
        judge: the `[judge]` table. Its `kind` is `lexical`, one of `DIALECTS`, or `package.module:factory`;
            the factory is called with this table and returns an object with the two methods of `Judge`.
        metric: its `timeout_seconds` bounds each HTTP call.
        limits: attempts, and failures in a row.
        gate: admits each send.
        environ: where secrets are read.

    Raises:
        JudgeConfigError: a setting is missing or wrong; the text names it.
    """
    if judge.kind == LEXICAL:
        return LexicalJudge()
    if judge.kind not in DIALECTS:
        return _made_by(judge)
    _check_network(judge)
    try:
        return EndpointJudge(
            judge,
            timeout_seconds=metric.timeout_seconds,
            max_attempts=limits.max_attempts,
            gate=gate,
            environ=environ,
            max_failures_in_a_row=limits.max_failures_in_a_row,
        )
    except PromptError as error:
        raise JudgeConfigError(str(error)) from None


def is_free(judge: JudgeConfig) -> bool:
    """Tell whether this judge's calls cost nothing, so that they need no journal and no limits."""
    return judge.kind == LEXICAL


def judge_identity(judge: JudgeConfig, *, environ: Mapping[str, str] = os.environ) -> str:
    """Return a text that changes whenever the judge's verdicts could: part of a verdict's journal key.

    It needs no secret, so that the driver can tell it. The text is JSON.

    Raises:
        JudgeConfigError: the kind is unknown, or the endpoint's address is missing or wrong.
    """
    if judge.kind == LEXICAL:
        return LexicalJudge.identity
    _check_kind(judge.kind)
    known = judge.kind in DIALECTS
    named = {
        "kind": judge.kind,
        "base_url": dialects.base_url(judge, environ=environ) if known else judge.base_url,
        "model": judge.model,
        "temperature": judge.temperature,
        "max_tokens": judge.max_tokens,
        "seed": judge.seed,
        "api_version": judge.api_version,
        "swap_pairs": judge.swap_pairs,
        "prompts": Prompts(judge.correctness_template, judge.robustness_template).version(),
    }
    return json.dumps(named, sort_keys=True)


def _check_network(judge: JudgeConfig) -> None:
    if judge.ca_bundle and not Path(judge.ca_bundle).exists():
        raise JudgeConfigError(f"judge.ca_bundle: there is no file {judge.ca_bundle} here")
    if not judge.proxy:
        return
    parts = urlsplit(judge.proxy)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise JudgeConfigError("judge.proxy is no proxy's address: it must look like http://host:3128")
    if "@" in parts.netloc:
        raise JudgeConfigError("judge.proxy must hold no password: put the whole address into HTTPS_PROXY")


def _check_kind(kind: str) -> None:
    if kind not in DIALECTS and not _FACTORY.fullmatch(kind):
        kinds = ", ".join([LEXICAL, *DIALECTS])
        raise JudgeConfigError(f"judge.kind {kind!r} is unknown: use {kinds} or package.module:factory")


def _made_by(judge: JudgeConfig) -> Judge:
    kind = judge.kind
    _check_kind(kind)
    module, name = kind.split(":")
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        why = type(error).__name__
        raise JudgeConfigError(
            f"judge.kind: {kind} can't be imported ({why}); is its package installed where the job runs?"
        ) from None
    made = factory(judge)
    if not isinstance(made, Judge):
        raise JudgeConfigError(f"judge.kind: what {kind} returns lacks `correctness` or `robustness`")
    return made
