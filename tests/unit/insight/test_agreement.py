"""What calibrating says, worked out by hand."""

import json

from prspark.insight.agreement import Agreement, Said, agreement
from prspark.insight.statistics import Spread


def found(labels: list[float], said: list[Said]) -> Agreement:
    return agreement(labels, said, label="human", judge="chat m", judge_identity="{}", unlabelled=2)


RIGHT, WRONG = Said(1.0), Said(0.0)
# 3 of 4 agree; margins 2:2 and 3:1, so chance agrees on (2*3 + 2*1) / 16 = 0.5 and kappa = 0.25 / 0.5
FOUR = found([1.0, 1.0, 0.0, 0.0], [RIGHT, RIGHT, RIGHT, WRONG])


def test_accuracy_and_kappa_are_those_of_the_confusion() -> None:
    assert FOUR.accuracy == 0.75
    assert FOUR.cohen_kappa == 0.5
    counts = FOUR.confusion
    assert (counts.true_positive, counts.false_positive) == (2, 1)
    assert (counts.true_negative, counts.false_negative) == (1, 0)


def test_auroc_is_null_where_the_judge_only_says_yes_or_no() -> None:
    assert FOUR.auroc is None


def test_auroc_of_graded_scores_counts_ordered_pairs() -> None:
    # positives 0.75 and 0.25, negative 0.5: one of two pairs is in order
    assert found([1.0, 1.0, 0.0], [Said(0.75), Said(0.25), Said(0.5)]).auroc == 0.5


def test_a_graded_label_counts_as_correct_from_one_half() -> None:
    assert found([0.5, 0.49], [RIGHT, WRONG]).accuracy == 1.0


def test_unscored_rows_are_counted_by_reason_and_leave_accuracy_alone() -> None:
    said = [RIGHT, Said(None, "timeout"), Said(None, "missing_response"), Said(None, "timeout")]

    result = found([1.0, 1.0, 0.0, 0.0], said)

    assert result.accuracy == 1.0
    assert result.unscored_share == 0.75
    assert list(result.unscored.items()) == [("timeout", 2), ("missing_response", 1)]


def test_everything_survives_json() -> None:
    values = json.loads(json.dumps(FOUR.to_dict()))

    assert values["accuracy"] == 0.75
    assert values["labelled"] == 4
    assert values["unlabelled"] == 2
    assert values["confusion"]["true_positive"] == 2
    assert values["repeats"] is None


def test_the_table_shows_the_confusion_with_judge_across_and_label_down() -> None:
    lines = FOUR.to_text().splitlines()

    rows = {line.split("  ")[0] or line.strip().split("  ")[0]: line.split() for line in lines}
    assert rows["accuracy"] == ["accuracy", "0.7500"]
    assert rows["AUROC"] == ["AUROC", "n/a"]
    assert rows["label: correct"][-2:] == ["2", "0"]
    assert rows["label: wrong"][-2:] == ["1", "1"]


def test_the_table_shows_repeats_and_swapped_orders_where_they_were_asked() -> None:
    spread = Spread(items=7, unscored=1, mean_deviation=0.125, flipped_share=0.25)
    text = agreement(
        [1.0],
        [RIGHT],
        label="human",
        judge="chat m",
        judge_identity="{}",
        unlabelled=0,
        repeat=3,
        repeats=spread,
        order_swap=spread,
    ).to_text()

    assert "rows judged 3 times" in text
    assert "pairs judged in both orders" in text
    assert "judged" not in FOUR.to_text()
