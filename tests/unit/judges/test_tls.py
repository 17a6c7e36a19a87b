"""An endpoint behind TLS, with certificates of an authority of its own, as companies have."""

import ssl
import time
from pathlib import Path

import pytest
import trustme

from prspark.judges.protocol import JudgeRefusedError
from prspark.metric.reasons import UnscoredReason
from tests.support.endpoint_judges import Bench
from tests.support.scripted_server import completion, dribble, raw, verdict
from tests.support.tunnel_proxy import TunnelProxy


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return str(tmp_path / "ca.pem")


def test_endpoint_is_used_with_the_bundle_of_its_authority(tls: ssl.SSLContext, bundle: str) -> None:
    with Bench(verdict(0.75), tls=tls, ca_bundle=bundle) as bench:
        assert [bench.ask().score, bench.ask().score] == [0.75, 0.75]


def test_bundle_may_come_from_where_requests_looks_for_it(
    tls: ssl.SSLContext, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", bundle)
    with Bench(verdict(0.75), tls=tls) as bench:
        assert bench.ask().score == 0.75


def test_endpoint_of_an_unknown_authority_is_refused_and_the_setting_named(tls: ssl.SSLContext) -> None:
    with Bench(verdict(1), tls=tls) as bench:
        with pytest.raises(JudgeRefusedError, match=r"TLS failed; check judge\.ca_bundle"):
            bench.judge.preflight()
        assert bench.requests == []


def test_answer_that_dribbles_over_tls_is_cut_when_the_time_of_the_call_is_over(
    tls: ssl.SSLContext, bundle: str
) -> None:
    whole = raw(200, str(completion("{}")).encode())
    with Bench(dribble(whole), tls=tls, ca_bundle=bundle, timeout=0.5, attempts=1) as bench:
        start = time.monotonic()
        found = bench.ask()
        assert time.monotonic() - start < 5
    assert found.unscored_reason is UnscoredReason.TIMEOUT


def through(proxy: TunnelProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"http://user:pass@127.0.0.1:{proxy.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)


def test_calls_go_through_the_tunnel_of_a_proxy_that_alone_sees_its_password(
    tls: ssl.SSLContext, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TunnelProxy() as proxy:
        through(proxy, monkeypatch)
        with Bench(verdict(0.75), tls=tls, ca_bundle=bundle) as bench:
            assert [bench.ask().score, bench.ask().score] == [0.75, 0.75]
            paths, port = {request.path for request in bench.requests}, bench.server.port
            assert all("proxy-authorization" not in request.headers for request in bench.requests)
    [asked] = proxy.asked  # the second call took the kept connection
    assert asked.startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.")
    assert "Proxy-Authorization: Basic dXNlcjpwYXNz\r\n" in asked  # base64 of user:pass
    assert paths == {"/v1/chat/completions"}


def test_a_proxy_that_refuses_the_tunnel_is_named(
    tls: ssl.SSLContext, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TunnelProxy(status=407) as proxy:
        through(proxy, monkeypatch)
        with Bench(verdict(1), tls=tls, ca_bundle=bundle) as bench:
            with pytest.raises(JudgeRefusedError, match=r"the proxy does not connect; check judge\.proxy"):
                bench.judge.preflight()
            assert bench.requests == []
