"""A sorted stream becomes groups, wherever its batches end."""

from typing import Any

import pytest

from prspark.engine.groups import Group, read_groups
from prspark.judges.protocol import Verdict
from prspark.metric.reasons import UnscoredReason
from tests.support.stream_rows import QUESTION, ask, baseline, batches, known, row

OTHER = "Who wrote Emma?"
ROWS = [
    row(QUESTION, "42", input_id="a"),
    row("Six times seven?", "42", input_id="b"),
    row("6x7=", None, input_id="c"),
    row(OTHER, "Austen", original=OTHER),
    row("Emma's author?", "Jane Austen", original=OTHER),
]
KNOWN = known("k1", 0.25)


def groups(rows: list[dict[str, Any]], cuts: tuple[int, ...] = ()) -> list[Group]:
    return list(read_groups(batches(rows, cuts=cuts)))


def texts(group: Group) -> list[tuple[str | None, str | None]]:
    return sorted((answer.query or "", answer.answer or "") for answer in group.answers)


def test_groups_hold_the_rows_of_one_original_query() -> None:
    found = {group.original_query: texts(group) for group in groups(ROWS)}
    assert found == {
        QUESTION: [("6x7=", ""), ("Six times seven?", "42"), (QUESTION, "42")],
        OTHER: [("Emma's author?", "Jane Austen"), (OTHER, "Austen")],
    }


def test_whole_groups_are_no_parts() -> None:
    assert [group.is_part for group in groups(ROWS)] == [False, False]


def test_no_rows_are_no_groups() -> None:
    assert list(read_groups([])) == []
    assert groups([]) == []


@pytest.mark.parametrize("end", range(8))
def test_same_groups_wherever_a_batch_ends(end: int) -> None:
    rows = [*ROWS, KNOWN, ask("k2")]
    assert groups(rows, (end,)) == groups(rows)


def test_same_groups_when_each_row_is_a_batch() -> None:
    rows = [*ROWS, KNOWN, ask("k2")]
    assert groups(rows, tuple(range(1, len(rows)))) == groups(rows)


def test_two_groups_that_share_a_hash_stay_two() -> None:
    same: dict[str, Any] = {"group_hash": 7, "unit_hash": 3}
    first = [row(QUESTION, "42", **same), row("6x7", "42", **same)]
    second = [row(OTHER, "Austen", original=OTHER, **same), row("Emma?", "Austen", original=OTHER, **same)]
    found = groups([first[0], second[0], first[1], second[1]])
    assert sorted(group.original_query for group in found) == [QUESTION, OTHER]
    assert [len(group.answers) for group in found] == [2, 2]


def test_two_systems_that_share_a_hash_stay_two() -> None:
    same: dict[str, Any] = {"group_hash": 7}
    rows = [row(QUESTION, "42", group_values=f'["{name}"]', **same) for name in ("a", "b")]
    assert [len(group.answers) for group in groups(rows)] == [1, 1]


def test_two_systems_asked_the_same_share_a_unit() -> None:
    rows = [row(QUESTION, "42", group_values=f'["{name}"]') for name in ("a", "b")]
    first, second = groups([*rows, KNOWN])
    assert first.unit is second.unit
    assert first.group_hash != second.group_hash


def test_equal_row_keys_are_one_answer() -> None:
    [group] = groups([ROWS[0], ROWS[0], ROWS[1]])
    assert texts(group) == [("Six times seven?", "42"), (QUESTION, "42")]


def test_rows_of_a_group_come_by_key_whatever_their_order() -> None:
    [group], [turned] = groups(ROWS[:3]), groups(ROWS[2::-1])
    assert group.answers == turned.answers
    keys = [answer.row_key for answer in group.answers]
    assert keys == sorted(keys, key=lambda key: key or ())


def test_known_verdicts_reach_the_groups_of_their_unit_and_no_others() -> None:
    found = {group.original_query: group.unit.known for group in groups([*ROWS, KNOWN])}
    assert found == {QUESTION: {"k1": Verdict(0.25, "as before")}, OTHER: {}}


def test_known_verdict_without_a_score_keeps_its_reason() -> None:
    [group] = groups([ROWS[0], known("k1", None, "timeout")])
    assert group.unit.known == {"k1": Verdict(None, "as before", UnscoredReason.TIMEOUT)}


def test_keys_stay_whole_beside_known_verdicts() -> None:
    large: dict[str, Any] = {"row_high": 2**62 + 1, "row_low": -(2**62) - 1, "group_hash": 2**62 + 3}
    [group] = groups([row(QUESTION, "42", **large), KNOWN])
    assert group.answers[0].row_key == (2**62 + 1, -(2**62) - 1)
    assert group.group_hash == 2**62 + 3
    assert [type(value) for value in (*group.unit.key, group.group_hash)] == [int, int, int]


def test_marks_of_what_to_ask_reach_the_groups_of_their_unit() -> None:
    found = {group.original_query: group.unit.only for group in groups([*ROWS, ask("k1"), ask("k2")])}
    assert found == {QUESTION: {"k1", "k2"}, OTHER: set()}


def test_baseline_of_a_huge_group_reaches_each_of_its_parts() -> None:
    parts = [row("6x7", "42", part=0), row("7x6", "42", part=1)]
    copies = [baseline("forty-two", part=part) for part in (0, 1)]
    found = groups([*parts, *copies])
    assert [(group.unit.key[1], group.baseline and group.baseline.answer) for group in found] == [
        (0, "forty-two"),
        (1, "forty-two"),
    ]
    assert all(group.is_part for group in found)
    assert [texts(group) for group in found] == [[("6x7", "42")], [("7x6", "42")]]


def test_part_of_a_huge_group_without_a_baseline_is_a_part() -> None:
    [group] = groups([row("6x7", "42", part=0)])
    assert (group.is_part, group.baseline) == (True, None)


def test_baseline_reaches_its_own_group_only() -> None:
    other = row(OTHER, "Austen", original=OTHER, part=0)
    found = {group.original_query: group.baseline for group in groups([other, baseline("42", part=0)])}
    assert found == {OTHER: None}


def test_every_text_of_a_row_is_read_from_its_own_column() -> None:
    [group] = groups(
        [
            row(
                QUESTION,
                "42",
                input_id="a",
                reference_answer="forty-two",
                groundtruth_context="6 x 7 = 42",
                perturbation_type="original",
                task_type="single_turn_rag",
            )
        ]
    )
    answer = group.answers[0]
    assert (answer.query, answer.answer, answer.input_id) == (QUESTION, "42", "a")
    assert (answer.reference, answer.context) == ("forty-two", "6 x 7 = 42")
    assert (answer.perturbation_type, answer.task_type) == ("original", "single_turn_rag")
