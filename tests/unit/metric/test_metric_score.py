"""The score follows the metric's formula, and what was not judged never counts as a number."""

import itertools
import math

import pytest

from prspark.metric.reasons import UnscoredReason
from prspark.metric.score import GroupScore, Outcome, Status, combine, score_group, unscorable

# Human labels of five systems' answers to five questions: the baseline's, then its four rewordings'.
HUMAN_LABELS = {
    "gpt4": ["11111", "11111", "11111", "11111", "11110"],
    "chatgpt": ["11000", "10101", "10101", "11001", "11001"],
    "gemini": ["11101", "11100", "01000", "11011", "11111"],
    "llama2": ["00000", "10000", "10000", "10001", "00000"],
    "metamath": ["01000", "10000", "11101", "11101", "11101"],
}


def labelled(labels: str) -> GroupScore:
    base, *others = (float(label) for label in labels)
    return score_group(base, [(other, float(other == base)) for other in others], min_coverage=0.5)


def test_worked_example_of_the_manifest():
    assert combine(0.9, 0.1) == pytest.approx(0.9)
    result = score_group(1.0, [(0.9, 0.9)], min_coverage=0.5)
    assert result.score == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("robustness", "drop", "score"),
    [
        (1.0, 0.0, 1.0),
        (0.0, 1.0, 0.0),
        (0.0, -1.0, 0.5),
        (1.0, -0.5, 1.0),
        (0.5, 1.0, 0.25),
        (0.5, 1.5, 0.25),
    ],
)
def test_an_improvement_is_no_bonus_and_the_score_stays_within_0_and_1(robustness, drop, score):
    assert combine(robustness, drop) == score


def test_every_component_of_a_fully_judged_group():
    # drops 0.25, 0.75; robustness 1, 0.5: 0.5 * 0.75 + 0.5 * (1 - 0.5) = 0.625
    assert score_group(1.0, [(0.75, 1.0), (0.25, 0.5)], min_coverage=0.5) == GroupScore(
        status=Status.SCORED,
        score=0.625,
        unscored_reason=None,
        base_correctness=1.0,
        mean_perturbed_correctness=0.5,
        mean_correctness_drop=0.5,
        mean_robustness=0.75,
        worst_correctness=0.25,
        worst_robustness=0.5,
        outcome=Outcome.DEGRADED,
        pairs_total=2,
        pairs_scored=2,
    )


def test_drops_are_signed_so_gains_and_losses_cancel_out():
    result = score_group(0.5, [(1.0, 0.0), (0.0, 0.0)], min_coverage=0.5)
    assert result.mean_correctness_drop == 0.0
    assert result.score == 0.5


def test_unjudged_pairs_stay_out_of_every_mean():
    pairs = [(1.0, 1.0), (None, 0.0), (0.0, None), (0.5, 0.5)]
    result = score_group(1.0, pairs, min_coverage=0.5)
    assert result.status is Status.PARTIAL
    assert (result.pairs_total, result.pairs_scored) == (4, 2)
    assert (result.mean_perturbed_correctness, result.mean_robustness) == (0.75, 0.75)
    assert (result.worst_correctness, result.worst_robustness) == (0.5, 0.5)
    assert result.score == 0.75
    assert result.unscored_reason is None


def test_coverage_at_the_limit_is_enough_and_below_it_is_not():
    three_of_five = [(1.0, 1.0)] * 3 + [(None, None)] * 2
    assert score_group(1.0, three_of_five, min_coverage=0.6).status is Status.PARTIAL
    below = score_group(1.0, three_of_five, min_coverage=0.61, pair_reason=UnscoredReason.TIMEOUT)
    assert below == GroupScore(
        Status.UNSCORED,
        unscored_reason=UnscoredReason.INSUFFICIENT_COVERAGE,
        base_correctness=1.0,
        pairs_total=5,
        pairs_scored=3,
    )


def test_a_coverage_of_zero_still_asks_for_one_judged_pair():
    nothing = score_group(1.0, [(None, 1.0), (1.0, None)], min_coverage=0.0)
    assert (nothing.status, nothing.score, nothing.pairs_scored) == (Status.UNSCORED, None, 0)
    assert score_group(1.0, [(1.0, 1.0), (None, None)], min_coverage=0.0).status is Status.PARTIAL


def test_unjudged_baseline_leaves_the_group_unscored_with_its_own_reason():
    result = score_group(
        None,
        [(1.0, 1.0)],
        min_coverage=0.0,
        base_reason=UnscoredReason.MISSING_RESPONSE,
        pair_reason=UnscoredReason.TIMEOUT,
    )
    assert result == GroupScore(
        Status.UNSCORED, unscored_reason=UnscoredReason.MISSING_RESPONSE, pairs_total=1, pairs_scored=0
    )


def test_reason_of_the_pairs_is_told_if_none_was_judged():
    result = score_group(0.0, [(None, None)], min_coverage=0.5, pair_reason=UnscoredReason.RATE_LIMITED)
    assert result.unscored_reason is UnscoredReason.RATE_LIMITED
    assert result.base_correctness == 0.0


@pytest.mark.parametrize("base", [None, 1.0])
def test_without_a_known_reason_the_coverage_is_the_reason(base):
    result = score_group(base, [(None, None)], min_coverage=0.5)
    assert result.unscored_reason is UnscoredReason.INSUFFICIENT_COVERAGE


@pytest.mark.parametrize(
    ("base", "perturbed", "outcome"),
    [
        (1.0, 1.0, "stable_correct"),
        (0.5, 0.5, "stable_correct"),
        (0.49, 0.49, "stable_wrong"),
        (0.0, 0.0, "stable_wrong"),
        (0.8, 0.8 - 1e-6, "degraded"),
        (0.8, 0.8 + 1e-6, "improved"),
        (0.8, 0.8 - 1e-12, "stable_correct"),
        (0.2, 0.2 + 1e-12, "stable_wrong"),
    ],
)
def test_outcome_tells_which_kind_of_stable(base, perturbed, outcome):
    assert score_group(base, [(perturbed, 1.0)], min_coverage=0.5).outcome == outcome


def test_a_consistently_wrong_system_scores_well_and_says_so():
    result = score_group(0.0, [(0.0, 1.0), (0.0, 1.0)], min_coverage=0.5)
    assert (result.score, result.outcome) == (1.0, Outcome.STABLE_WRONG)


def test_order_of_the_pairs_changes_no_bit():
    pairs = [(0.1, 0.3), (0.7, 0.1), (0.2, 0.2), (0.3, 0.7), (0.1, 0.6), (None, 0.9)]
    results = {score_group(0.9, order, min_coverage=0.5) for order in itertools.permutations(pairs)}
    assert len(results) == 1
    # a plain sum would not hold this: 0.1 + 0.7 + 0.2 + 0.3 + 0.1 differs by its order
    assert results.pop().mean_perturbed_correctness == math.fsum([0.1, 0.7, 0.2, 0.3, 0.1]) / 5


def test_group_without_pairs_has_no_variants():
    assert score_group(1.0, [], min_coverage=0.0).status is Status.NO_VARIANTS


@pytest.mark.parametrize("status", ["missing_baseline", "no_variants", "missing_original_query"])
def test_group_that_is_not_judged_has_nothing_but_its_status(status):
    result = unscorable(Status(status))
    assert result.status == status
    assert set(result[1:-2]) == {None}
    assert result[-2:] == (0, 0)


def test_human_labels_of_the_sample_give_the_known_outcomes():
    outcomes = [labelled(labels).outcome for groups in HUMAN_LABELS.values() for labels in groups]
    assert {outcome: outcomes.count(outcome) for outcome in Outcome} == {
        "stable_correct": 5,
        "stable_wrong": 2,
        "degraded": 16,
        "improved": 2,
    }


def test_wrong_baseline_with_one_right_variant_is_an_improvement_without_bonus():
    gemini_kylar = labelled("01000")
    assert gemini_kylar.mean_correctness_drop == -0.25
    assert gemini_kylar.outcome is Outcome.IMPROVED
    assert gemini_kylar.score == 0.5 * 0.75 + 0.5 * 1.0


def test_group_that_is_wrong_everywhere_has_no_drop():
    llama2_john = labelled("00000")
    assert (llama2_john.mean_correctness_drop, llama2_john.outcome) == (0.0, Outcome.STABLE_WRONG)
