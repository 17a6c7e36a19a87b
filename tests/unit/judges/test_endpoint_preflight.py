"""The preflight ends a job whose judge can't work before anything is paid, and lets a busy endpoint pass."""

import socket
import time
from typing import Any, NoReturn

import pytest

from prspark.judges import endpoint
from prspark.judges.endpoint import preflight
from prspark.judges.lexical import LexicalJudge
from prspark.judges.protocol import JudgeRefusedError
from tests.support.endpoint_judges import Bench
from tests.support.scripted_server import answer, error, page, reset, said, silence, verdict


def refused(bench: Bench) -> str:
    with bench, pytest.raises(JudgeRefusedError) as caught:
        preflight(bench.judge)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_preflight_is_one_send_of_a_real_question() -> None:
    with Bench(verdict(1)) as bench:
        preflight(bench.judge)
    assert len(bench.requests) == 1
    assert len(bench.gate.tokens) == 1
    assert bench.bodies[0]["max_tokens"] == 512


def test_preflight_teaches_the_judge_what_the_endpoint_takes() -> None:
    with Bench(error(400, message="response_format is not supported"), verdict(1)) as bench:
        preflight(bench.judge)
        assert bench.ask().attempts == 1


@pytest.mark.parametrize(
    ("step", "setting"),
    [
        (error(401), "judge.token_env"),
        (error(403), "judge.token_env"),
        (error(404, code="model_not_found"), "judge.model"),
        (page(404), "judge.base_url"),
        (answer(301, {}), "judge.base_url"),
        (page(200), "judge.base_url"),
        (error(429, code="insufficient_quota"), "quota"),
        (error(400, message="no"), "judge.base_url or judge.model"),
        (reset, "judge.base_url or judge.proxy"),
    ],
)
def test_wrong_setting_is_named(step: Any, setting: str) -> None:
    assert setting in refused(Bench(step))


def test_unknown_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    bench = Bench(verdict(1), base_url="http://nowhere.invalid/v1")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    text = refused(bench)
    assert "nowhere.invalid" in text
    assert "judge.base_url" in text
    assert bench.pauses == []


def test_blocked_network_is_found_within_the_preflights_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PREFLIGHT_SECONDS", 0.3)
    # a listener with a full queue takes no connection: what a firewall that drops packets looks like
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        started = time.monotonic()
        text = refused(Bench(verdict(1), base_url=f"http://127.0.0.1:{address[1]}", timeout=60))
        for each in waiting:
            each.close()
    assert "judge.proxy or the network's rules" in text
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("step", [error(429), error(500), error(503), said("what?")])
def test_busy_endpoint_passes_after_one_send(step: Any) -> None:
    with Bench(step) as bench:
        preflight(bench.judge)
    assert len(bench.requests) == 1


def test_endpoint_that_is_still_loading_its_model_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PREFLIGHT_SECONDS", 0.2)
    with Bench(silence, timeout=60) as bench:
        preflight(bench.judge)
    assert len(bench.requests) == 1


def test_connection_that_breaks_once_is_tried_again() -> None:
    with Bench(reset, verdict(1)) as bench:
        preflight(bench.judge)
    assert len(bench.requests) == 2


def test_embedded_judge_passes() -> None:
    preflight(LexicalJudge())
