"""One call makes the judge that is configured, or says in one line which setting is wrong."""

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from prspark.judges.config import JudgeConfig, LimitsConfig
from prspark.judges.dialects import DIALECTS
from prspark.judges.endpoint import EndpointJudge
from prspark.judges.factory import JudgeConfigError, is_free, judge_identity, make_judge
from prspark.judges.lexical import LexicalJudge
from prspark.judges.limits import OpenGate
from prspark.judges.protocol import CorrectnessRequest, Judge, RobustnessRequest, Verdict
from tests.support.endpoint_judges import QUESTION
from tests.support.scripted_server import ScriptedServer, error, verdict

TOKEN = {"PRSPARK_JUDGE_TOKEN": "t"}


def made(environ: dict[str, str] | None = None, **settings: Any) -> Judge:
    return make_judge(
        JudgeConfig(**settings),
        metric=SimpleNamespace(timeout_seconds=5.0),
        limits=LimitsConfig(max_attempts=1),
        gate=OpenGate(),
        environ=environ or {},
    )


def test_default_judge_is_embedded_and_free() -> None:
    assert isinstance(made(), LexicalJudge)
    assert is_free(JudgeConfig())


@pytest.mark.parametrize("kind", DIALECTS)
def test_each_kind_of_endpoint_makes_a_judge_that_costs(kind: str) -> None:
    judge = made(TOKEN, kind=kind, base_url="http://h", model="m")
    assert isinstance(judge, EndpointJudge)
    assert judge.free is False
    assert not is_free(JudgeConfig(kind=kind))
    judge.close()


def test_made_judge_has_the_attempts_of_the_limits() -> None:
    with ScriptedServer(error(500), verdict(1)) as server:
        judge = made(kind="chat", base_url=server.url, model="m")
        found = judge.correctness(QUESTION)
        assert isinstance(judge, EndpointJudge)
        judge.close()
    assert (found.score, found.attempts) == (None, 1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"kind": "chat", "model": "m"}, "judge.base_url is missing"),
        ({"kind": "chat", "base_url": "http://h"}, "judge.model is missing"),
        ({"kind": "azure", "base_url": "http://h", "model": "m"}, "judge.token_env"),
        ({"kind": "lexicl"}, "judge.kind 'lexicl' is unknown: use lexical, chat, azure"),
        ({"kind": "no_such_package:make"}, "judge.kind: no_such_package:make can't be imported"),
        ({"kind": "json:no_such_name"}, "judge.kind: json:no_such_name can't be imported"),
        ({"kind": "builtins:repr"}, "lacks `correctness` or `robustness`"),
        (
            {"kind": "chat", "base_url": "http://h", "model": "m", "header_env": {"X-Team": "TEAM"}},
            "judge.header_env.X-Team: the variable TEAM is not set",
        ),
        (
            {"kind": "chat", "base_url": "http://h", "model": "m", "header_env": {"X Team\n": "TEAM"}},
            "judge.header_env: 'X Team\\n' is no name of a header",
        ),
        ({"kind": "chat", "base_url": "http://h", "model": "m", "ca_bundle": "/no/file"}, "judge.ca_bundle"),
        ({"kind": "chat", "base_url": "http://h", "model": "m", "proxy": "h:1"}, "judge.proxy"),
        ({"kind": "chat", "base_url": "http://h", "model": "m", "proxy": "http://a:b@h"}, "HTTPS_PROXY"),
        (
            {"kind": "chat", "base_url": "http://h", "model": "m", "correctness_template": "no field"},
            "judge.correctness_template",
        ),
    ],
)
def test_wrong_setting_is_named_in_one_line(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(JudgeConfigError) as caught:
        made(**settings)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


class OwnJudge:
    def __init__(self, config: JudgeConfig) -> None:
        self.config = config

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        return Verdict(1.0 if request.answer else 0.0)

    def robustness(self, request: RobustnessRequest) -> Verdict:
        return Verdict(float(request.original_answer == request.reworded_answer))


def test_users_own_factory_is_called_with_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("own_judges")
    module.make = OwnJudge  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_judges", module)
    judge = made(kind="own_judges:make", model="mine")
    assert isinstance(judge, OwnJudge)
    assert judge.config.model == "mine"


def test_requests_go_through_the_configured_proxy() -> None:
    with ScriptedServer(verdict(1)) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        judge = made(kind="chat", base_url="http://far.example/v1", model="m", proxy=address)
        assert judge.correctness(QUESTION).score == 1
        assert isinstance(judge, EndpointJudge)
        judge.close()
    assert proxy.requests[0].path == "http://far.example/v1/chat/completions"


def test_requests_go_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(verdict(1)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:pass@127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        judge = made(kind="chat", base_url="http://far.example/v1", model="m")
        assert judge.correctness(QUESTION).score == 1
        assert isinstance(judge, EndpointJudge)
        judge.close()
    [request] = proxy.requests
    assert request.headers["host"] == "far.example"
    assert request.headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"  # base64 of user:pass


CHAT = {"kind": "chat", "base_url": "http://h/v1", "model": "m"}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "anthropic"},
        {"base_url": "http://other/v1"},
        {"model": "n"},
        {"temperature": 0.5},
        {"max_tokens": 100},
        {"seed": 1},
        {"api_version": "2"},
        {"swap_pairs": True},
        {"correctness_template": "{question} {answer}"},
    ],
)
def test_identity_changes_with_whatever_changes_verdicts(change: dict[str, Any]) -> None:
    assert judge_identity(JudgeConfig(**(CHAT | change))) != judge_identity(JudgeConfig(**CHAT))


@pytest.mark.parametrize(
    "change",
    [{"token_env": "OTHER"}, {"proxy": "http://p"}, {"prompt_price": 1.0}, {"base_url": "http://h/v1/"}],
)
def test_identity_stays_when_verdicts_do(change: dict[str, Any]) -> None:
    assert judge_identity(JudgeConfig(**(CHAT | change))) == judge_identity(JudgeConfig(**CHAT))


def test_identity_needs_no_secret() -> None:
    environ = {"DATABRICKS_HOST": "adb-1.net"}
    found = judge_identity(JudgeConfig(kind="databricks", model="m"), environ=environ)
    assert json.loads(found)["base_url"] == "https://adb-1.net"


def test_identity_of_the_embedded_judge_is_its_own() -> None:
    assert judge_identity(JudgeConfig()) == LexicalJudge.identity
