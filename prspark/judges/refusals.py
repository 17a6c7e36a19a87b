"""Says what an endpoint's refusal means: try again, send less, give this call up, or stop the job."""

import json
import re
from enum import Enum
from typing import Any, NamedTuple

from prspark.metric.reasons import UnscoredReason


class Next(Enum):
    """What to do after a refusal."""

    RETRY = "send the same again after a pause"
    DROP = "send it again without the parameter that was refused"
    GIVE_UP = "this call can't succeed"
    STOP = "no call can succeed"


class Refusal(NamedTuple):
    """What an answer other than a verdict means.

    `reason` is what the verdict will say if nothing better comes; `parameter` is what to drop (see
    `Dialect.without`); `setting` is what the user must change.
    """

    next: Next
    reason: UnscoredReason
    parameter: str | None = None
    setting: str | None = None


class Complaint(NamedTuple):
    """The error of an endpoint. `code` may be shown; `text` may echo judged text and is only searched."""

    code: str
    parameter: str
    text: str


_NOTHING = Complaint("", "", "")
_SHOWABLE = re.compile(r"[A-Za-z_]{3,40}")
_TEXT_CHARS = 4000  # an error's own words come first; what it echoes may be long

_FILTERED = re.compile(r"content[ _-]?(filter|policy|management)|responsible ?ai|safety system")
_TOO_LONG = re.compile(
    r"context[ _]?(length|window|size)|maximum context|too long|too many tokens|above_max_length"
    r"|input length|max_model_len|exceeds? the (maximum|model)"
)
_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|credit balance|billing|payment required")
_MODEL = re.compile(
    r"model_not_found|deploymentnotfound|invalid[ _]model|not a valid model|unknown[ _]model"
    r"|model\b.{0,80}(not found|does not exist|not exist)"
)
_REFUSED = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|invalid|not (allowed|permitted|available|enabled)"
    r"|extra|deprecated|forbidden|only|must|failed|cannot|can't|disabled"
)
_PARAMETERS = {
    "form": re.compile(
        r"response[ _]format|json[ _]?schema|json_object|structured[ _]output|\bschema\b|grammar|guided"
        r"|tool_choice|\btools?\b"
    ),
    "temperature": re.compile(r"\btemperature\b"),
    "seed": re.compile(r"\bseed\b"),
    "length": re.compile(r"\bmax_(completion_)?tokens\b"),
}
_SIZE_STATUSES = frozenset({400, 422, 500})
_PARAMETER_STATUSES = frozenset({400, 422, 500, 501})  # some servers fail (500) on what they don't know
_RETRIED_BELOW_500 = frozenset({408, 409, 425})


def read_complaint(payload: Any) -> Complaint:
    """Find the code, the parameter and the words of an error in the shapes that endpoints use."""
    if not isinstance(payload, dict):
        return _NOTHING
    error = payload.get("error", payload)
    inner = error if isinstance(error, dict) else {"message": error}
    nested = inner.get("innererror")
    codes = [inner.get("code"), inner.get("type"), payload.get("error_code")]
    if isinstance(nested, dict):
        codes.insert(0, nested.get("code"))
    words = [*codes, inner.get("message"), payload.get("message"), *_details(payload.get("detail"))]
    text = " ".join(each[:_TEXT_CHARS] for each in words if isinstance(each, str)).lower()
    shown = (each for each in codes if isinstance(each, str) and _SHOWABLE.fullmatch(each))
    parameter = inner.get("param")
    return Complaint(next(shown, ""), parameter.lower() if isinstance(parameter, str) else "", text)


def _details(detail: Any) -> list[str]:
    """Return the words of FastAPI's `detail`, but not the `input` that it echoes."""
    if isinstance(detail, str):
        return [detail]
    found = []
    for each in detail if isinstance(detail, list) else []:
        if isinstance(each, dict):
            found += [str(each.get("msg", "")), json.dumps(each.get("loc"))]
    return found


def what_it_means(status: int, complaint: Complaint, *, sent: frozenset[str]) -> Refusal:
    """Return what to do after this answer.

    Args:
        status: of HTTP, or the code that an error in a 200 gives.
        complaint: the endpoint's own words.
        sent: which of `form`, `temperature`, `seed`, `length` the request had.
    """
    if status in (400, 403, 422) and _FILTERED.search(complaint.text):
        return Refusal(Next.GIVE_UP, UnscoredReason.CONTENT_FILTER)
    if status == 402 or (status in (400, 403, 429) and _QUOTA.search(complaint.text)):
        return Refusal(Next.GIVE_UP, UnscoredReason.RATE_LIMITED, setting="the quota of judge.token_env")
    if status == 413 or (status in _SIZE_STATUSES and _TOO_LONG.search(complaint.text)):
        return Refusal(
            Next.GIVE_UP, UnscoredReason.CONTEXT_TOO_LONG, setting="judge.model or judge.max_tokens"
        )
    if status == 429:
        return Refusal(Next.RETRY, UnscoredReason.RATE_LIMITED)
    return _of_configuration(status, complaint) or _of_request(status, complaint, sent=sent)


def _of_configuration(status: int, complaint: Complaint) -> Refusal | None:
    """Return what no call can pass: a wrong token, model or address."""
    stop = Refusal(Next.STOP, UnscoredReason.REQUEST_REFUSED)
    if status in (401, 403, 407):
        return stop._replace(setting="judge.proxy" if status == 407 else "judge.token_env")
    if 300 <= status < 400 or status == 405:
        return stop._replace(setting="judge.base_url")
    if status == 404:
        known = "judge.model" if _MODEL.search(complaint.text) else "judge.model or judge.base_url"
        return stop._replace(setting=known)
    if status in (400, 422) and (complaint.parameter == "model" or _MODEL.search(complaint.text)):
        return stop._replace(setting="judge.model")
    return None


def _of_request(status: int, complaint: Complaint, *, sent: frozenset[str]) -> Refusal:
    if status in _PARAMETER_STATUSES and (parameter := _refused_parameter(complaint, sent=sent)):
        return Refusal(Next.DROP, UnscoredReason.REQUEST_REFUSED, parameter=parameter)
    if status >= 500 or status in _RETRIED_BELOW_500:
        return Refusal(Next.RETRY, UnscoredReason.ENDPOINT_ERROR)
    return Refusal(Next.GIVE_UP, UnscoredReason.REQUEST_REFUSED, setting="judge.base_url or judge.model")


def _refused_parameter(complaint: Complaint, *, sent: frozenset[str]) -> str | None:
    for name, pattern in _PARAMETERS.items():
        if name in sent and pattern.search(complaint.parameter):
            return name
    if not _REFUSED.search(complaint.text):
        return None
    for name, pattern in _PARAMETERS.items():
        if name in sent and pattern.search(complaint.text):
            return name
    return None
