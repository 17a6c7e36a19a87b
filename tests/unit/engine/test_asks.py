"""Which questions a group needs to be asked, which need no judge, and what follows from the answers."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from prspark.engine import asks
from prspark.engine.asks import AskRules, Work, copies, keyed_requests, most_frequent, request_key, start
from prspark.engine.groups import Group, Unit
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest, Verdict
from prspark.metric.conversation import Turn
from prspark.metric.group import Answer
from prspark.metric.reasons import UnscoredReason
from prspark.metric.score import Status

QUERY = "What is 6 x 7?"
BASE = Answer(QUERY, "42", "a")
VARIANT = Answer("Six times seven?", "It is 42.", "b")
RIGHT, AGREES = Verdict(1.0, "right"), Verdict(0.5, "half")


def group(*answers: Answer, baseline: Answer | None = None, part: int = -1) -> Group:
    keyed = [replace(answer, row_key=(n,)) for n, answer in enumerate(answers)]
    return Group(Unit(key=(1, part)), 2, QUERY, keyed, baseline)


def work(*answers: Answer, **rules: Any) -> Work:
    return start(group(*answers), AskRules(**rules))


def requests(found: Work) -> list[CorrectnessRequest | RobustnessRequest]:
    return list(keyed_requests(found, "judge").values())


# --- what is asked


def test_each_answer_is_asked_for_and_each_pair() -> None:
    found = work(BASE, VARIANT)
    assert found.correctness == [
        CorrectnessRequest(QUERY, "42"),
        CorrectnessRequest("Six times seven?", "It is 42."),
    ]
    assert found.robustness == [None, RobustnessRequest(QUERY, "42", "Six times seven?", "It is 42.")]


def test_earlier_turns_go_to_the_judge_of_correctness() -> None:
    history = (Turn("system", "Be brief."),)
    found = work(BASE, Answer("And 6 x 7?", "It is 42.", history=history))
    assert found.correctness[1] == CorrectnessRequest("And 6 x 7?", "It is 42.", history=history)


def test_requests_come_in_the_order_of_rows_each_once() -> None:
    found = work(BASE, VARIANT, Answer(VARIANT.query, VARIANT.answer, "c"))
    assert requests(found) == [
        CorrectnessRequest(QUERY, "42"),
        CorrectnessRequest("Six times seven?", "It is 42."),
        RobustnessRequest(QUERY, "42", "Six times seven?", "It is 42."),
    ]


# --- what needs no judge


@pytest.mark.parametrize("blank", ["", "  ", "\n\t", "\u00a0"])
def test_blank_answer_is_wrong_and_agrees_with_nothing_without_a_call(blank: str) -> None:
    found = work(BASE, Answer("6x7", blank))
    assert (asks.verdict(found.correctness[1]).score, asks.verdict(found.robustness[1]).score) == (0.0, 0.0)
    assert requests(found) == [CorrectnessRequest(QUERY, "42")]


def test_blank_baseline_is_wrong_and_agrees_with_no_variant() -> None:
    found = work(Answer(QUERY, " "), VARIANT, Answer("6x7", ""))
    assert [asks.verdict(slot).score for slot in found.robustness[1:]] == [0.0, 0.0]
    assert asks.verdict(found.correctness[0]).score == 0.0
    assert requests(found) == [CorrectnessRequest("Six times seven?", "It is 42.")]


def test_null_answer_is_missing_data_without_a_call() -> None:
    found = work(BASE, Answer("6x7", None))
    assert found.correctness[1] == found.robustness[1] == Verdict(None, None, UnscoredReason.MISSING_RESPONSE)
    assert requests(found) == [CorrectnessRequest(QUERY, "42")]


def test_null_answer_of_the_baseline_costs_no_call_at_all() -> None:
    found = work(Answer(QUERY, None), VARIANT, Answer("6x7", "42"))
    assert requests(found) == []
    score = asks.score(found, AskRules())
    assert score is not None
    assert (score.status, score.score, score.unscored_reason) == ("unscored", None, "missing_response")
    assert (score.pairs_total, score.pairs_scored) == (2, 0)


def test_identical_answers_of_a_pair_agree_without_a_call() -> None:
    found = work(BASE, Answer("6x7", "42"))
    assert asks.verdict(found.robustness[1]).score == 1.0
    assert requests(found) == [CorrectnessRequest(QUERY, "42"), CorrectnessRequest("6x7", "42")]


def test_identical_answers_are_asked_about_if_the_configuration_says_so() -> None:
    found = work(BASE, Answer("6x7", "42"), skip_identical_pairs=False)
    assert found.robustness[1] == RobustnessRequest(QUERY, "42", "6x7", "42")


def test_almost_identical_answers_are_asked_about() -> None:
    assert work(BASE, Answer("6x7", "42 ")).robustness[1] == RobustnessRequest(QUERY, "42", "6x7", "42 ")


def test_repeat_of_the_baseline_gets_no_call() -> None:
    found = work(BASE, Answer(QUERY, "43", "b"), VARIANT)
    assert (found.correctness[1], found.robustness[1]) == (None, None)
    assert len(requests(found)) == 3


def test_excluded_row_gets_no_call() -> None:
    found = work(BASE, Answer(" ", "42", "b"), VARIANT)
    assert (found.correctness[1], found.robustness[1]) == (None, None)


@pytest.mark.parametrize(
    ("answers", "status"), [([VARIANT], Status.MISSING_BASELINE), ([BASE], Status.NO_VARIANTS)]
)
def test_group_without_baseline_or_variant_costs_no_call(answers: list[Answer], status: Status) -> None:
    found = work(*answers)
    assert requests(found) == []
    score = asks.score(found, AskRules())
    assert score is not None
    assert (score.status, score.score) == (status, None)


# --- reference and context


def test_own_reference_and_context_win_over_the_fallback() -> None:
    own = Answer("6x7", "43", reference="42", context="tables")
    found = work(BASE, own, reference="else", context="elsewhere")
    assert found.correctness[0] == CorrectnessRequest(QUERY, "42", "else", "elsewhere")
    assert found.correctness[1] == CorrectnessRequest("6x7", "43", "42", "tables")


@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_blank_reference_and_context_fall_back(blank: str | None) -> None:
    found = work(BASE, Answer("6x7", "43", reference=blank, context=blank), reference="42", context="tables")
    assert found.correctness[1] == CorrectnessRequest("6x7", "43", "42", "tables")


# --- keys

CORRECT = CorrectnessRequest("q", "a", "r", "c", (Turn("user", "h"),))
ROBUST = RobustnessRequest("q", "a", "v", "b")


@pytest.mark.parametrize("name", ["question", "answer", "reference", "context"])
@pytest.mark.parametrize("other", ["", "x", "q\x00", "None"])
def test_key_of_correctness_changes_with_each_judged_text(name: str, other: str) -> None:
    change: dict[str, Any] = {name: other}
    assert request_key("j", CORRECT._replace(**change)) != request_key("j", CORRECT)


@pytest.mark.parametrize(
    "history", [(), (Turn("system", "h"),), (Turn("user", "i"),), (Turn("user", "h"),) * 2]
)
def test_key_of_correctness_changes_with_the_history(history: tuple[Turn, ...]) -> None:
    assert request_key("j", CORRECT._replace(history=history)) != request_key("j", CORRECT)


@pytest.mark.parametrize("name", RobustnessRequest._fields)
def test_key_of_robustness_changes_with_each_judged_text(name: str) -> None:
    assert request_key("j", ROBUST._replace(**{name: "x"})) != request_key("j", ROBUST)


def test_key_tells_which_text_is_which() -> None:
    keys = {request_key("j", RobustnessRequest(*texts)) for texts in permutations(("q", "a", "v", "b"))}
    assert len(keys) == 24


def test_text_that_moves_from_one_field_to_the_next_changes_the_key() -> None:
    assert request_key("j", RobustnessRequest("ab", "c", "", "")) != request_key(
        "j", RobustnessRequest("a", "bc", "", "")
    )


def test_key_changes_with_null_and_the_judge() -> None:
    assert request_key("j", CORRECT._replace(reference=None)) != request_key(
        "j", CORRECT._replace(reference="")
    )
    assert request_key("j", CORRECT) != request_key("k", CORRECT)


def test_key_changes_with_the_kind_of_question() -> None:
    class Same(tuple[str, ...]):
        """A request of another kind with the same texts."""

    assert request_key("j", Same(CORRECT)) != request_key("j", CORRECT)  # type: ignore[arg-type]


def test_key_is_the_sha256_of_its_parts_as_json() -> None:
    # printf '["robustness", "j", "q", "a", "v", "b"]' | sha256sum
    assert request_key("j", ROBUST) == "58b6a8fdd98e5e914877e230099eb6de5ecbb83f786de106e900084e87eb4511"


def test_key_changes_with_nothing_but_what_is_judged() -> None:
    plain = work(BASE, VARIANT)
    said = Answer(VARIANT.query, VARIANT.answer, "z9", perturbation_type="typo")
    assert list(keyed_requests(plain, "j")) == list(keyed_requests(work(BASE, said), "j"))


def test_lone_surrogates_have_a_key() -> None:
    assert request_key("j", ROBUST._replace(original_answer="\ud800")) != request_key("j", ROBUST)


# --- which row's verdicts a row shows


def test_row_shows_its_own_verdicts() -> None:
    assert copies(work(BASE, VARIANT, Answer("6x7", "42"))) == [0, 1, 2]


def test_further_copies_show_the_verdicts_of_the_one_that_counts() -> None:
    found = work(VARIANT, BASE, VARIANT, VARIANT)
    assert found.classified.counted == [True, False, False, False]
    assert copies(found) == [0, 1, 0, 0]


def test_copy_under_another_id_counts_for_itself() -> None:
    found = work(BASE, VARIANT, Answer(VARIANT.query, VARIANT.answer, "c"))
    assert found.classified.counted == [False, True, True]
    assert copies(found) == [0, 1, 2]


def test_repeat_of_the_baseline_is_no_copy() -> None:
    assert copies(work(BASE, BASE, VARIANT)) == [0, 1, 2]


def test_excluded_row_never_shows_the_verdicts_of_a_variant_like_it() -> None:
    excluded = Answer(VARIANT.query, VARIANT.answer, VARIANT.input_id, task_type="images")
    assert copies(work(BASE, VARIANT, excluded)) == [0, 1, 2]


def test_rows_of_a_group_without_a_baseline_show_themselves() -> None:
    assert copies(work(VARIANT, VARIANT)) == [0, 1]


# --- parts of a huge group


def test_part_that_holds_the_baseline_alone_still_judges_it() -> None:
    only = group(BASE, baseline=Answer(QUERY, "42", "a", row_key=(0,)), part=0)
    found = start(only, AskRules())
    assert (found.classified.status, requests(found)) == (None, [CorrectnessRequest(QUERY, "42")])


def test_part_without_the_baseline_compares_with_the_copy_of_it() -> None:
    part = group(VARIANT, baseline=Answer(QUERY, "forty-two", "a", row_key=(9,)), part=1)
    found = start(part, AskRules())
    assert found.correctness == [CorrectnessRequest("Six times seven?", "It is 42.")]
    assert found.robustness == [RobustnessRequest(QUERY, "forty-two", "Six times seven?", "It is 42.")]


def test_part_of_repeats_asks_nothing_and_waits_for_the_others() -> None:
    part = group(Answer(QUERY, "43", "z"), baseline=Answer(QUERY, "42", "a", row_key=(9,)), part=1)
    found = start(part, AskRules())
    assert (found.classified.status, requests(found), asks.score(found, AskRules())) == (None, [], None)


def test_part_of_a_group_without_a_baseline_says_so_by_itself() -> None:
    found = start(group(VARIANT, part=0), AskRules())
    score = asks.score(found, AskRules())
    assert score is not None
    assert score.status is Status.MISSING_BASELINE


def test_part_has_no_score_of_its_own() -> None:
    found = start(group(BASE, VARIANT, baseline=Answer(QUERY, "42", "a", row_key=(0,)), part=0), AskRules())
    assert asks.score(found, AskRules()) is None


# --- the score of a whole group


def judged(found: Work, correctness: list[Verdict | None], robustness: list[Verdict | None]) -> Work:
    return Work(found.group, found.classified, [*correctness], [*robustness])


def test_score_of_a_whole_group_is_the_metrics() -> None:
    # drop 1 - 0.5 = 0.5, robustness 0.5: 0.5 * 0.5 + 0.5 * (1 - 0.5)
    found = judged(work(BASE, VARIANT), [RIGHT, AGREES], [None, AGREES])
    score = asks.score(found, AskRules())
    assert score is not None
    assert (score.score, score.base_correctness, score.pairs_scored) == (0.5, 1.0, 1)


def test_repeats_and_copies_stay_out_of_the_means() -> None:
    found = judged(
        work(BASE, Answer(QUERY, "43", "b"), VARIANT, VARIANT),
        [RIGHT, None, RIGHT, None],
        [None, None, AGREES, None],
    )
    score = asks.score(found, AskRules())
    assert score is not None
    assert (score.score, score.pairs_total) == (0.75, 1)


def test_min_coverage_is_the_configurations() -> None:
    lost = Verdict(None, None, UnscoredReason.TIMEOUT)
    found = judged(work(BASE, VARIANT, Answer("6x7", "43")), [RIGHT, RIGHT, RIGHT], [None, RIGHT, lost])
    statuses = [asks.score(found, AskRules(min_coverage=share)) for share in (0.5, 0.51)]
    assert [score and score.status for score in statuses] == [Status.PARTIAL, Status.UNSCORED]


def test_baseline_without_a_verdict_says_why() -> None:
    lost = Verdict(None, None, UnscoredReason.CONTENT_FILTER)
    score = asks.score(judged(work(BASE, VARIANT), [lost, RIGHT], [None, RIGHT]), AskRules())
    assert score is not None
    assert (score.status, score.unscored_reason) == (Status.UNSCORED, UnscoredReason.CONTENT_FILTER)


def test_pairs_without_verdicts_say_their_most_frequent_reason_one_a_pair() -> None:
    timeout, limited = (
        Verdict(None, None, UnscoredReason.TIMEOUT),
        Verdict(None, None, UnscoredReason.RATE_LIMITED),
    )
    # by rows: rate_limited once (its pair's first), timeout twice
    found = judged(
        work(BASE, VARIANT, Answer("6x7", "43"), Answer("7x6", "44")),
        [RIGHT, limited, timeout, RIGHT],
        [None, limited, RIGHT, timeout],
    )
    score = asks.score(found, AskRules())
    assert score is not None
    assert score.unscored_reason is UnscoredReason.TIMEOUT


def test_most_frequent_reason_breaks_ties_by_name_and_knows_none() -> None:
    assert most_frequent(["timeout", "rate_limited"]) is UnscoredReason.RATE_LIMITED
    assert most_frequent(["rate_limited", "timeout"]) is UnscoredReason.RATE_LIMITED
    assert most_frequent(["rate_limited", "timeout", "timeout"]) is UnscoredReason.TIMEOUT
    assert most_frequent([]) is None
