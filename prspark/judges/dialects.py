"""One table of how the kinds of endpoint differ: address, authentication, request body and reply."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from prspark.judges.config import JudgeConfig
from prspark.judges.prompts import Kind, Message, response_schema

JSON_SCHEMA, JSON_OBJECT, PLAIN_TEXT, TOOL = "json_schema", "json_object", "text", "tool"
TOOL_NAME = "record_verdict"
MAX_GROWTH = 8
"""A reasoning model may spend some thousand tokens before its verdict; more than that is a runaway."""

NO_ADDRESS = "judge.base_url is no address: it must look like https://host/v1"

_AZURE_API_VERSION = "2024-10-21"  # the first generally available one with `json_schema`
_ANTHROPIC_VERSION = "2023-06-01"


class JudgeConfigError(ValueError):
    """A setting of the judge is missing or wrong; the text names it and says what to write there."""


class Shape(NamedTuple):
    """What the endpoint takes. It is learned from what the endpoint refuses.

    `form` is how a verdict's format is asked for, `length` the name under which the reply's limit is sent
    (empty: not at all), `growth` what `max_tokens` is multiplied by. `levels` lists the scores in the schema,
    for an endpoint that has answered beyond the range.
    """

    form: str
    length: str
    temperature: bool = True
    seed: bool = True
    growth: int = 1
    levels: bool = False


class Ask(NamedTuple):
    """One question to a judge: `correctness` or `robustness`, and its messages."""

    kind: Kind
    messages: list[Message]


class Content(NamedTuple):
    """What a reply says, in the words of OpenAI's `finish_reason`; null counts were not reported."""

    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None


class MalformedReplyError(Exception):
    """A reply of status 200 that is not what this kind of endpoint answers."""


@dataclass(frozen=True)
class Dialect:
    """How one kind of endpoint is spoken to.

    Attributes:
        path: what follows the base URL.
        headers: token (may be None) to headers.
        body: question, shape and configuration to request body.
        read: reply to content; raises `MalformedReplyError`.
        forms: ways to ask for the verdict's format, best first.
        lengths: names of the reply's limit, best first.
        base_url: where it is, unless configured.
        base_url_env: variable that says where it is, unless configured.
        token_env: variable of the token, if the configured one is not set.
        needs_token: whether it can't work without one.
        api_version: of the address, unless configured.
    """

    path: str
    headers: Callable[[str | None], dict[str, str]]
    body: Callable[[Ask, Shape, JudgeConfig], dict[str, Any]]
    read: Callable[[dict[str, Any]], Content]
    forms: tuple[str, ...] = (JSON_SCHEMA, JSON_OBJECT, PLAIN_TEXT)
    lengths: tuple[str, ...] = ("max_tokens", "max_completion_tokens", "")
    base_url: str | None = None
    base_url_env: str | None = None
    token_env: str | None = None
    needs_token: bool = True
    api_version: str | None = None

    def first_shape(self) -> Shape:
        """Return what is tried first: everything."""
        return Shape(form=self.forms[0], length=self.lengths[0])

    def without(self, shape: Shape, parameter: str) -> Shape:
        """Return the shape that no longer sends this parameter as it was sent.

        Args:
            shape: what the endpoint refused.
            parameter: `form`, `length`, `temperature` or `seed`.
        """
        if parameter == "form":
            return shape._replace(form=_after(self.forms, shape.form))
        if parameter == "length":
            return shape._replace(length=_after(self.lengths, shape.length))
        if parameter == "seed":
            return shape._replace(seed=False)
        return shape._replace(temperature=False)

    def plainer(self, one: Shape, other: Shape) -> Shape:
        """Return the shape that sends only what both send."""
        return Shape(
            form=max(one.form, other.form, key=self.forms.index),
            length=max(one.length, other.length, key=self.lengths.index),
            temperature=one.temperature and other.temperature,
            seed=one.seed and other.seed,
            growth=max(one.growth, other.growth),
            levels=one.levels or other.levels,
        )


def _after(choices: tuple[str, ...], present: str) -> str:
    return choices[min(choices.index(present) + 1, len(choices) - 1)]


def endpoint_url(config: JudgeConfig, *, environ: Mapping[str, str]) -> str:
    """Return the full URL that this judge posts to; it holds no secret.

    Raises:
        JudgeConfigError: naming the setting that is missing or wrong.
    """
    dialect = DIALECTS[config.kind]
    if not config.model:
        raise JudgeConfigError(f"judge.model is missing: kind {config.kind!r} needs the name of the model")
    path = dialect.path.format(model=config.model)
    url = _joined(base_url(config, environ=environ), path)
    version = config.api_version or dialect.api_version
    return f"{url}?api-version={version}" if dialect.api_version else url


def base_url(config: JudgeConfig, *, environ: Mapping[str, str]) -> str:
    """Return where the endpoint is: configured, else from its variable, else the dialect's own.

    Raises:
        JudgeConfigError: it is not known, or holds more than an address.
    """
    dialect = DIALECTS[config.kind]
    found = config.base_url or environ.get(dialect.base_url_env or "") or dialect.base_url
    if not found:
        hint = f" (or the variable {dialect.base_url_env})" if dialect.base_url_env else ""
        raise JudgeConfigError(f"judge.base_url is missing: kind {config.kind!r} needs it{hint}")
    found = found.strip().rstrip("/")
    if dialect.base_url_env and "://" not in found:
        found = f"https://{found}"
    return _plain_address(found)


def _plain_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise JudgeConfigError(NO_ADDRESS)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise JudgeConfigError(
            "judge.base_url must be a bare address: put a token into judge.token_env, "
            "a version into judge.api_version and other values into judge.header_env"
        )
    return url


def _joined(base: str, path: str) -> str:
    """Put a path behind a base that may already end with the path's beginning, as users paste it."""
    steps = path.split("/")[1:]
    for count in range(len(steps), 0, -1):
        if base.endswith("/" + "/".join(steps[:count])):
            return "/".join([base, *steps[count:]])
    return base + path


def token(config: JudgeConfig, *, environ: Mapping[str, str]) -> str | None:
    """Read the token from the environment; None if there is none.

    Raises:
        JudgeConfigError: the endpoint needs one, or it could not be sent as a header.
    """
    dialect = DIALECTS[config.kind]
    names = [name for name in (config.token_env, dialect.token_env) if name]
    for name in names:
        if value := secret(name, setting="judge.token_env", environ=environ):
            return value
    if dialect.needs_token:
        raise JudgeConfigError(
            f"judge.token_env: none of the variables {', '.join(names)} is set; "
            "set one where the job runs (driver and executors)"
        )
    return None


def secret(name: str, *, setting: str, environ: Mapping[str, str]) -> str | None:
    """Read a secret that will be sent as a header; None if the variable is unset or blank.

    Raises:
        JudgeConfigError: it has characters that a header can't carry (the text shows none of them).
    """
    value = environ.get(name, "").strip()
    # Checked here because HTTP libraries show the value in their errors.
    if not (value.isascii() and value.isprintable()):
        raise JudgeConfigError(f"{setting}: the value of {name} has characters that no header can carry")
    return value or None


def _bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


_JWT = re.compile(r"eyJ[\w-]*\.[\w-]+\.[\w-]*")


def _azure_headers(token: str | None) -> dict[str, str]:
    """Send an Entra ID token, which is a JWT, as bearer; a resource's key, which never is, as `api-key`."""
    if token and not _JWT.fullmatch(token):
        return {"api-key": token}
    return _bearer(token)


def _anthropic_headers(token: str | None) -> dict[str, str]:
    return {"x-api-key": token or "", "anthropic-version": _ANTHROPIC_VERSION}


def _chat_body(ask: Ask, shape: Shape, config: JudgeConfig) -> dict[str, Any]:
    return {"model": config.model, **_served_body(ask, shape, config)}


def _served_body(ask: Ask, shape: Shape, config: JudgeConfig) -> dict[str, Any]:
    """Build a chat body without `model`, which is in the address of azure and databricks."""
    body: dict[str, Any] = {"messages": ask.messages, **_sampling(shape, config)}
    if shape.seed and config.seed is not None:
        body["seed"] = config.seed
    if shape.form == JSON_SCHEMA:
        named = {"name": ask.kind, "schema": response_schema(levels=shape.levels), "strict": True}
        body["response_format"] = {"type": JSON_SCHEMA, "json_schema": named}
    elif shape.form == JSON_OBJECT:
        body["response_format"] = {"type": JSON_OBJECT}
    return body


def _anthropic_body(ask: Ask, shape: Shape, config: JudgeConfig) -> dict[str, Any]:
    system = "\n\n".join(each["content"] for each in ask.messages if each["role"] == "system")
    turns = [each for each in ask.messages if each["role"] != "system"]
    body: dict[str, Any] = {"model": config.model, **_sampling(shape, config)}
    if system:
        body["system"] = system
    body["messages"] = turns
    if shape.form == TOOL:
        about = f"Record the verdict on {ask.kind}."
        schema = response_schema(levels=shape.levels)
        body["tools"] = [{"name": TOOL_NAME, "description": about, "input_schema": schema}]
        body["tool_choice"] = {"type": "tool", "name": TOOL_NAME}
    return body


def _sampling(shape: Shape, config: JudgeConfig) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if shape.temperature and config.temperature is not None:
        found["temperature"] = config.temperature
    if shape.length:
        found[shape.length] = config.max_tokens * shape.growth
    return found


def _read_chat(reply: dict[str, Any]) -> Content:
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        content, finish = message.get("content"), choice.get("finish_reason")
        refused = not content and message.get("refusal")
    except (LookupError, TypeError, AttributeError):
        raise MalformedReplyError from None
    usage = _usage(reply)
    return Content(
        text=_text_of(content),
        finish_reason="content_filter" if refused else _word(finish),
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
    )


_ANTHROPIC_ENDS = {"max_tokens": "length", "refusal": "content_filter"}


def _read_anthropic(reply: dict[str, Any]) -> Content:
    blocks = reply.get("content")
    if not isinstance(blocks, list):
        raise MalformedReplyError
    calls = [each["input"] for each in blocks if _is_verdict(each)]
    end, usage = _word(reply.get("stop_reason")), _usage(reply)
    return Content(
        # Every call is shown to the reader, so that two which differ are a conflict.
        text="\n".join(json.dumps(call) for call in calls) if calls else _text_of(blocks),
        finish_reason=_ANTHROPIC_ENDS.get(end or "", end),
        prompt_tokens=_count(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
        completion_tokens=_count(usage, "output_tokens"),
    )


def _is_verdict(block: Any) -> bool:
    return isinstance(block, dict) and block.get("name") == TOOL_NAME and bool(block.get("input"))


def _text_of(content: Any) -> str:
    """Return the text of a message: a text, or the text parts of a list (reasoning parts are no verdict)."""
    if isinstance(content, list):
        parts = [
            part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"
        ]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _usage(reply: dict[str, Any]) -> dict[str, Any]:
    usage = reply.get("usage")
    return usage if isinstance(usage, dict) else {}


def _count(usage: dict[str, Any], *names: str) -> int | None:
    counts = [usage.get(name) for name in names]
    found = [each for each in counts if type(each) is int and each >= 0]
    return sum(found) if found else None


DIALECTS: dict[str, Dialect] = {
    "chat": Dialect(
        path="/chat/completions",
        headers=_bearer,
        body=_chat_body,
        read=_read_chat,
        needs_token=False,  # servers on one's own machine have none
    ),
    "azure": Dialect(
        path="/openai/deployments/{model}/chat/completions",
        headers=_azure_headers,
        body=_served_body,
        read=_read_chat,
        api_version=_AZURE_API_VERSION,
    ),
    "databricks": Dialect(
        path="/serving-endpoints/{model}/invocations",
        headers=_bearer,
        body=_served_body,
        read=_read_chat,
        base_url_env="DATABRICKS_HOST",
        token_env="DATABRICKS_TOKEN",  # noqa: S106  the variable's name, not its value
    ),
    "anthropic": Dialect(
        path="/v1/messages",
        headers=_anthropic_headers,
        body=_anthropic_body,
        read=_read_anthropic,
        forms=(TOOL, PLAIN_TEXT),
        lengths=("max_tokens",),  # it is required there
        base_url="https://api.anthropic.com",
    ),
}
