"""A secret is in the request that needs it and nowhere else."""

import logging
import pickle
import traceback
from typing import Any

import pytest

from prspark.judges.protocol import JudgeRefusedError
from tests.support.endpoint_judges import Bench
from tests.support.scripted_server import error, reset, truncated, verdict

SECRET = "s3cret-t0ken"  # noqa: S105  what the tests search for
ENVIRON = {"PRSPARK_JUDGE_TOKEN": SECRET, "TEAM": "team-" + SECRET}


def test_token_and_extra_headers_are_sent() -> None:
    with Bench(verdict(1), environ=ENVIRON, header_env={"X-Team": "TEAM"}) as bench:
        bench.ask()
    assert bench.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert bench.requests[0].headers["x-team"] == "team-" + SECRET


def test_token_is_read_anew_for_each_send() -> None:
    environ = dict(ENVIRON)
    with Bench(verdict(1), environ=environ) as bench:
        bench.ask()
        environ |= {"PRSPARK_JUDGE_TOKEN": "renewed"}
        bench.ask()
    assert bench.requests[1].headers["authorization"] == "Bearer renewed"


def test_netrc_does_not_replace_the_token(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with Bench(verdict(1), environ=ENVIRON) as bench:
        bench.ask()
    assert bench.requests[0].headers["authorization"] == f"Bearer {SECRET}"


def everything_in(judge: Any) -> str:
    """Return the repr of whatever the judge holds, but of the environment, which is the caller's."""
    held = {name: value for name, value in vars(judge).items() if name != "_environ"}
    transport = vars(held["_transport"])
    kept = [vars(wire.connection) for wire in transport["_idle"]]
    return f"{judge!r} {judge} {held} {transport} {vars(transport['_adapter'])} {kept}"


def test_judge_holds_no_secret_even_after_a_call() -> None:
    with Bench(verdict(1), environ=ENVIRON, header_env={"X-Team": "TEAM"}) as bench:
        bench.ask()
        assert "_Dialled" in everything_in(bench.judge)  # the kept connection was looked at, too
        assert SECRET not in everything_in(bench.judge)


def test_judge_can_not_be_pickled() -> None:
    with Bench(verdict(1), environ=ENVIRON) as bench, pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(bench.judge)


@pytest.mark.parametrize(
    "step",
    [
        error(401, code=SECRET, message=f"Incorrect key {SECRET}", type=f"for {SECRET}"),
        error(404, message=SECRET),
        error(500, message=SECRET, code="what the judged text says"),
        reset,
        truncated,
    ],
)
def test_no_error_and_no_log_repeats_a_secret_or_what_the_endpoint_wrote(
    step: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench = Bench(step, environ=ENVIRON, attempts=1, max_failures=1)
    with bench, pytest.raises(JudgeRefusedError) as caught:
        bench.ask()
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert SECRET not in told
    assert "judged text" not in told
    assert "6 x 7" not in told
    assert caught.value.__cause__ is None


def test_unscored_verdict_tells_status_and_code_only() -> None:
    with Bench(error(500, message="6 x 7", code="what was 6 x 7"), attempts=1) as bench:
        assert bench.ask().reason == "HTTP 500"
    with Bench(error(500, message="6 x 7", type="server_error"), attempts=1) as bench:
        assert bench.ask().reason == "HTTP 500 server_error"
