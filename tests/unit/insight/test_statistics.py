"""Agreement and spread are what hand and an independent tool compute, nulls counted apart."""

import math

import pytest

from prspark.insight.statistics import Confusion, accuracy, auroc, cohen_kappa, confusion, spread

LABELS = [True, True, True, False, False, True, False, True, False, False, True, False]
SCORES = [0.9, 0.75, 0.5, 0.5, 0.25, 1.0, 0.75, 0.25, 0.0, 0.1, 0.6, 0.5]


def test_confusion_counts_each_kind_once():
    # positives score .9 .75 .5 1 .25 .6, 5 of 6 at .5; negatives .5 .25 .75 0 .1 .5, three below
    assert confusion(LABELS, SCORES) == Confusion(
        true_positive=5, false_negative=1, false_positive=3, true_negative=3
    )


def test_statistics_are_those_of_an_independent_tool():
    # the literals were computed by scikit-learn 1.9 from LABELS and SCORES
    counts = confusion(LABELS, SCORES)
    assert accuracy(counts) == pytest.approx(0.6666666666666666)
    assert cohen_kappa(counts) == pytest.approx(0.33333333333333337)
    assert auroc(LABELS, SCORES) == pytest.approx(0.8055555555555556)


def test_kappa_of_cohens_textbook_table():
    # 20 both yes, 5 + 10 differ, 15 both no: observed 0.7, expected (25*30 + 25*20) / 2500 = 0.5, kappa 0.4
    counts = Confusion(true_positive=20, false_negative=5, false_positive=10, true_negative=15)
    assert cohen_kappa(counts) == pytest.approx(0.4)
    assert accuracy(counts) == pytest.approx(0.7)


def test_kappa_is_one_when_all_agree_minus_one_when_none_does_and_zero_by_chance():
    assert cohen_kappa(confusion([True, False], [1, 0])) == 1
    assert cohen_kappa(confusion([True, False], [0, 1])) == -1
    assert cohen_kappa(confusion([True, False], [1, 1])) == 0


def test_kappa_is_null_where_chance_alone_agrees_fully():
    assert cohen_kappa(confusion([True, True], [1, 1])) is None


def test_auroc_counts_a_tie_as_half():
    # pairs (positive, negative): (.5, .5) half, (.5, .2) won, (.8, .5) won, (.8, .2) won: 3.5 of 4
    assert auroc([True, True, False, False], [0.5, 0.8, 0.5, 0.2]) == 0.875
    assert auroc([True, False, True, False], [0.3] * 4) == 0.5


def test_auroc_is_one_for_perfect_order_and_zero_for_reversed():
    assert auroc([False, True], [0.4, 0.45]) == 1
    assert auroc([False, True], [0.45, 0.4]) == 0


def test_auroc_is_null_where_a_class_is_missing():
    assert auroc([True, True], [0.1, 0.9]) is None
    assert auroc([False, None], [0.1, 0.9]) is None
    assert auroc([], []) is None


def test_nulls_are_counted_and_left_out():
    counts = confusion([True, True, None, False, None], [1.0, None, 1.0, 0.0, None])
    assert counts == Confusion(true_positive=1, true_negative=1, unscored=1, unlabelled=2)
    assert counts.judged == 2
    assert counts.unscored_share == pytest.approx(1 / 3)
    assert accuracy(counts) == 1
    assert auroc([True, True, None, False], [1.0, None, 0.0, 0.5]) == 1


def test_nothing_judged_is_null_and_not_zero():
    counts = confusion([], [])
    assert (accuracy(counts), cohen_kappa(counts), counts.unscored_share) == (None, None, None)


def test_threshold_itself_is_positive():
    assert confusion([True], [0.5]).true_positive == 1
    assert confusion([True], [0.5], threshold=0.6).false_negative == 1


def test_different_lengths_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        confusion([True, False], [1.0])
    with pytest.raises(ValueError, match="shorter"):
        auroc([True, False], [1.0])


def test_spread_is_the_mean_deviation_and_the_share_that_flips():
    # deviations 0, 0.5 and 0.1 (of 0.6, 0.8); only the second item crosses 0.5
    result = spread([[1.0, 1.0, 1.0], [0.0, 1.0], [0.6, 0.8]])
    assert result.items == 3
    assert result.mean_deviation == pytest.approx(0.2)
    assert result.flipped_share == pytest.approx(1 / 3)


def test_spread_counts_nulls_and_needs_two_scores_an_item():
    result = spread([[0.5, None, 0.5], [1.0, None], [None]])
    assert (result.items, result.unscored, result.mean_deviation, result.flipped_share) == (1, 3, 0, 0)
    empty = spread([[1.0], []])
    assert (empty.items, empty.mean_deviation, empty.flipped_share) == (0, None, None)


def test_spread_of_many_equal_scores_is_exactly_zero():
    mean = spread([[0.1] * 7, [0.3] * 9]).mean_deviation
    assert mean is not None
    assert math.isclose(mean, 0, abs_tol=1e-15)
