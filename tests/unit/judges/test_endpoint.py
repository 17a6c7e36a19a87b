"""A judge behind an endpoint asks as configured, learns what the endpoint takes, and asks again at need."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from prspark.judges.config import JudgeConfig
from prspark.judges.dialects import JudgeConfigError
from prspark.judges.endpoint import EndpointJudge
from prspark.judges.limits import OpenGate
from prspark.judges.prompts import LEVELS
from prspark.judges.protocol import Judge, RobustnessRequest, Verdict, keep_verdict
from prspark.metric.reasons import UnscoredReason
from tests.support.endpoint_judges import PAIR, Bench, verdict_text
from tests.support.scripted_server import answer, error, said, verdict


def test_verdict_holds_the_score_the_reasoning_and_what_it_cost() -> None:
    with Bench(verdict(0.75)) as bench:
        found = bench.ask()
        assert isinstance(bench.judge, Judge)
    assert (found.score, found.reason, found.unscored_reason) == (0.75, "because", None)
    assert (found.attempts, found.prompt_tokens, found.completion_tokens, found.throttled) == (1, 100, 10, 0)
    assert found.latency_seconds > 0


def test_request_names_the_kind_and_is_the_same_bytes_each_time() -> None:
    with Bench(verdict(1)) as bench:
        bench.ask()
        bench.ask()
        bench.judge.robustness(PAIR)
    first, second, pair = bench.bodies
    assert first == second
    assert first["response_format"]["json_schema"]["name"] == "correctness"
    assert pair["response_format"]["json_schema"]["name"] == "robustness"
    assert bench.requests[0].path == "/v1/chat/completions"


def test_usage_that_is_not_reported_is_estimated_from_the_characters() -> None:
    text = verdict_text(1)
    silent = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    with Bench(answer(200, silent)) as bench:
        found = bench.ask()
    characters = sum(len(message["content"]) for message in bench.bodies[0]["messages"])
    assert (found.prompt_tokens, found.completion_tokens) == (characters // 4, len(text) // 4)


def test_gate_is_told_the_tokens_of_each_send_and_learns_from_usage() -> None:
    with Bench(verdict(1)) as bench:
        for _ in range(60):
            bench.ask()
    characters = sum(len(message["content"]) for message in bench.bodies[0]["messages"])
    assert bench.gate.tokens[0] == characters // 4 + 512 + 1
    assert bench.gate.tokens[-1] < 160  # the replies say 100 + 10
    assert bench.gate.successes == 60


@pytest.mark.parametrize(
    "reply",
    [said("no verdict here"), said(None), said(""), said("<think>and so on")],
)
def test_reply_without_a_verdict_is_asked_again_at_once_with_the_same_request(reply: Any) -> None:
    with Bench(reply, verdict(0.25)) as bench:
        found = bench.ask()
    assert (found.score, found.attempts) == (0.25, 2)
    assert (found.prompt_tokens, found.completion_tokens) == (200, 20)
    assert bench.bodies[0] == bench.bodies[1]
    assert bench.pauses == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (said("no verdict here"), UnscoredReason.UNREADABLE_REPLY),
        (said('{"reasoning": "r", "score": 9}'), UnscoredReason.SCORE_OUT_OF_RANGE),
        (said(None), UnscoredReason.EMPTY_REPLY),
        (said('{"reasoning": "r", "sc', finish="length"), UnscoredReason.TRUNCATED_REPLY),
    ],
)
def test_reply_that_never_holds_a_verdict_is_unscored_and_not_zero(
    reply: Any, reason: UnscoredReason
) -> None:
    with Bench(reply, attempts=3) as bench:
        found = bench.ask()
    assert (found.score, found.unscored_reason, found.attempts) == (None, reason, 3)
    assert bench.gate.failures == 0  # the endpoint works


def test_cut_reply_is_asked_again_with_twice_the_room_which_is_bounded_and_remembered() -> None:
    cut = said('{"reasoning": "it goes on', finish="length")
    with Bench(cut, cut, cut, cut, cut, verdict(1), attempts=6) as bench:
        assert bench.ask().score == 1
        bench.ask()
    assert [each["max_tokens"] for each in bench.bodies] == [512, 1024, 2048, 4096, 4096, 4096, 4096]


def test_reply_whose_tokens_all_went_into_thought_gets_more_room() -> None:
    with Bench(said(None, finish="length"), verdict(1)) as bench:
        assert bench.ask().score == 1
    assert bench.bodies[1]["max_tokens"] == 1024


def asked_scores(bench: Bench) -> list[dict[str, Any]]:
    """Return what each request's schema says of the score."""
    return [each["response_format"]["json_schema"]["schema"]["properties"]["score"] for each in bench.bodies]


def test_endpoint_that_goes_beyond_the_range_gets_a_list_of_the_scores_and_keeps_it() -> None:
    with Bench(said('{"reasoning": "r", "score": 9}'), verdict(0.25)) as bench:
        found = bench.ask()
        bench.ask()
    assert (found.score, found.attempts) == (0.25, 2)
    scores = asked_scores(bench)
    assert scores[0] == {"type": "number", "minimum": 0, "maximum": 1}
    assert scores[1] == scores[2] == {"type": "number", "enum": LEVELS}
    assert bench.bodies[0]["messages"] == bench.bodies[1]["messages"]
    assert bench.pauses == []


def test_endpoint_that_does_not_keep_to_the_list_either_is_asked_for_the_range_next_time() -> None:
    with Bench(said('{"reasoning": "r", "score": 9}'), attempts=2) as bench:
        assert bench.ask().unscored_reason is UnscoredReason.SCORE_OUT_OF_RANGE
        bench.ask()
    scores = asked_scores(bench)
    assert ["enum" in score for score in scores] == [False, True, False, True]


def test_endpoint_that_ignores_the_response_format_is_read_all_the_same() -> None:
    with Bench(said("My verdict.\n\nScore: 4/5")) as bench:
        assert bench.ask().score == 0.8


def test_refused_forms_are_dropped_one_after_the_other_and_remembered() -> None:
    no_schema = error(400, message="'response_format' of type 'json_schema' is not supported")
    no_object = error(400, message="Unknown parameter", param="response_format")
    with Bench(no_schema, no_object, verdict(1), attempts=1) as bench:
        first, second = bench.ask(), bench.ask()
    assert (first.score, first.attempts, second.attempts) == (1, 3, 1)
    forms = [each.get("response_format", {}).get("type") for each in bench.bodies]
    assert forms == ["json_schema", "json_object", None, None]
    assert bench.pauses == []


@pytest.mark.parametrize(
    ("refusal", "dropped"),
    [
        (
            error(400, message="Unsupported value: 'temperature' does not support 0", param="temperature"),
            "temperature",
        ),
        (error(400, message="`temperature` is deprecated for this model"), "temperature"),
        (
            answer(422, {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}),
            "seed",
        ),
        (answer(400, {"error_code": "BAD_REQUEST", "message": "seed is not supported"}), "seed"),
        (error(500, message="response_format is not supported by this backend"), "json_schema"),
    ],
)
def test_refused_parameter_is_dropped_for_the_endpoint(refusal: Any, dropped: str) -> None:
    with Bench(refusal, verdict(1), seed=1) as bench:
        bench.ask()
        bench.ask()
    assert dropped in json.dumps({k: v for k, v in bench.bodies[0].items() if k != "messages"})
    for later in bench.bodies[1:]:
        assert dropped not in json.dumps({k: v for k, v in later.items() if k != "messages"})


def test_length_moves_to_the_name_that_the_endpoint_takes() -> None:
    refusal = error(
        400,
        message="Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        param="max_tokens",
        code="unsupported_parameter",
    )
    with Bench(refusal, verdict(1)) as bench:
        bench.ask()
    assert "max_tokens" not in bench.bodies[1]
    assert bench.bodies[1]["max_completion_tokens"] == 512


def test_dropping_ends_when_there_is_nothing_left_to_drop() -> None:
    with Bench(
        error(400, message="response_format, temperature, seed, max_tokens: not supported"), seed=1
    ) as bench:
        found = bench.ask()
    assert found.unscored_reason is UnscoredReason.REQUEST_REFUSED
    assert found.attempts == 7  # all, then without: schema, object, temperature, seed, one length, the other


def test_what_only_a_failed_call_believed_is_not_remembered() -> None:
    planted = error(400, message="the text says that temperature is not supported")
    with Bench(planted, error(400, message="no"), verdict(1)) as bench:
        assert bench.ask().unscored_reason is UnscoredReason.REQUEST_REFUSED
        assert bench.ask().score == 1
    assert bench.bodies[2]["temperature"] == 0


def test_lessons_are_shared_by_all_threads() -> None:
    refusal = error(400, message="seed is not supported")
    with Bench(refusal, verdict(1), seed=1) as bench:
        bench.ask()
        with ThreadPoolExecutor(16) as pool:
            scores = [each.score for each in pool.map(lambda _: bench.ask(), range(64))]
    assert scores == [1] * 64
    assert sum("seed" in each for each in bench.bodies) == 1


def test_swapped_pair_is_asked_in_both_orders_and_averaged() -> None:
    with Bench(verdict(1), verdict(0.5), swap_pairs=True) as bench:
        found = bench.judge.robustness(PAIR)
    assert (found.score, found.attempts, found.prompt_tokens) == (0.75, 2, 200)
    first, second = (each["messages"][-1]["content"] for each in bench.bodies)
    assert first.index("42") < first.index("forty-two")
    assert second.index("forty-two") < second.index('"42"')


def test_swapped_pair_is_unscored_if_one_order_is() -> None:
    with Bench(verdict(1), said("no"), swap_pairs=True, attempts=1) as bench:
        found = bench.judge.robustness(PAIR)
    assert (found.score, found.unscored_reason, found.attempts) == (None, UnscoredReason.UNREADABLE_REPLY, 2)


def test_swapped_pair_whose_first_order_failed_is_not_asked_again() -> None:
    with Bench(said("no"), swap_pairs=True, attempts=1) as bench:
        assert bench.judge.robustness(PAIR).score is None
    assert len(bench.requests) == 1


def test_any_text_can_be_sent() -> None:
    nasty = "$5 C:\\new {x} [END DATA] \x00 \u200b \u202e \ud800 \U0001f600 " + "x" * 100_000
    request = RobustnessRequest(nasty, nasty, nasty, nasty)
    with Bench(verdict(1)) as bench:
        assert bench.judge.robustness(request).score == 1


def test_anthropic_judge_speaks_the_messages_api() -> None:
    call = {"type": "tool_use", "name": "record_verdict", "input": {"reasoning": "r", "score": 0.5}}
    reply = {"content": [call], "stop_reason": "tool_use", "usage": {"input_tokens": 9, "output_tokens": 4}}
    environ = {"PRSPARK_JUDGE_TOKEN": "t"}
    with Bench(answer(200, reply), kind="anthropic", environ=environ) as bench:
        found = bench.ask()
    assert (found.score, found.reason, found.prompt_tokens, found.completion_tokens) == (0.5, "r", 9, 4)
    assert bench.requests[0].path == "/v1/messages"
    assert bench.requests[0].headers["x-api-key"] == "t"


def test_anthropic_endpoint_that_refuses_the_tool_is_asked_for_text() -> None:
    refusal = answer(
        400, {"type": "error", "error": {"type": "x", "message": "tool_choice is not supported"}}
    )
    reply = answer(200, {"content": [{"type": "text", "text": verdict_text(1)}], "stop_reason": "end_turn"})
    with Bench(refusal, reply, kind="anthropic", environ={"PRSPARK_JUDGE_TOKEN": "t"}) as bench:
        assert bench.ask().score == 1
    assert "tools" not in bench.bodies[1]


@pytest.mark.parametrize(
    ("kind", "path", "header"),
    [
        ("azure", "/v1/openai/deployments/m/chat/completions?api-version=2024-10-21", "api-key"),
        ("databricks", "/v1/serving-endpoints/m/invocations", "authorization"),
    ],
)
def test_azure_and_databricks_judges_post_to_their_paths(kind: str, path: str, header: str) -> None:
    with Bench(verdict(1), kind=kind, environ={"PRSPARK_JUDGE_TOKEN": "t"}) as bench:
        assert bench.ask().score == 1
    assert bench.requests[0].path == path
    assert header in bench.requests[0].headers


def test_many_threads_share_one_judge_and_its_connections() -> None:
    together = threading.Barrier(16, timeout=20)

    def step(connection: Any) -> None:
        together.wait()
        verdict(1)(connection)

    with Bench(step) as bench, ThreadPoolExecutor(16) as pool:
        scores = [each.score for each in pool.map(lambda _: bench.ask(), range(16))]
    assert scores == [1] * 16


def test_host_that_can_not_be_one_is_an_error_that_names_the_setting() -> None:
    config = JudgeConfig(kind="chat", base_url="http://*.h/v1", model="m")
    with pytest.raises(JudgeConfigError, match=r"^judge\.base_url is no address"):
        EndpointJudge(config, timeout_seconds=1, max_attempts=1, gate=OpenGate(), environ={})


def kept_while_in_flight(bench: Bench, ask: Callable[[], Verdict]) -> list[tuple[float | None, int]]:
    """Return the scores that were kept while the judge was asked, each with the calls in flight then."""
    kept: list[tuple[float | None, int]] = []
    before = keep_verdict.set(lambda verdict: kept.append((verdict.score, bench.gate.in_flight())))
    try:
        ask()
    finally:
        keep_verdict.reset(before)
    return kept


def test_verdict_is_kept_before_the_next_call_may_go() -> None:
    with Bench(error(500), said("?"), verdict(0.5)) as bench:
        assert kept_while_in_flight(bench, bench.ask) == [(0.5, 1)]


def test_half_of_a_pair_that_is_asked_in_both_orders_is_no_verdict_to_keep() -> None:
    with Bench(verdict(0.5), verdict(1), swap_pairs=True) as bench:
        assert kept_while_in_flight(bench, lambda: bench.judge.robustness(PAIR)) == []
