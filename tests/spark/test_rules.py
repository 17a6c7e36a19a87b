"""Every status, role and rule of the data, from one small table with the expected value of each row."""

from typing import NamedTuple

import pytest

from tests.support.answers import answer, results, score, table

NFC, NFD = "Caf\u00e9?", "Cafe\u0301?"


class Expected(NamedTuple):
    """What a row says of itself (up to `reason`) and of its group."""

    role: str
    correctness: float | None
    robustness: float | None
    reason: str | None
    status: str
    score: float | None
    outcome: str | None = None
    pairs: tuple[int, int] = (0, 0)
    match: str | None = "exact"


ROWS = [
    # one of two pairs is judged, which is the half that min_coverage asks for
    (
        answer("partial-0", "p", "42", "p"),
        Expected("baseline", 1.0, None, None, "partial", 1.0, "stable_correct", (2, 1)),
    ),
    (
        answer("partial-1", "p?", "42", "p"),
        Expected("variant", 1.0, 1.0, None, "partial", 1.0, "stable_correct", (2, 1)),
    ),
    (
        answer("partial-2", "p!", None, "p"),
        Expected("variant", None, None, "missing_response", "partial", 1.0, "stable_correct", (2, 1)),
    ),
    # one of three is less than half
    (
        answer("few-0", "f", "42", "f"),
        Expected("baseline", 1.0, None, "insufficient_coverage", "unscored", None, None, (3, 1)),
    ),
    (
        answer("few-1", "f?", "42", "f"),
        Expected("variant", 1.0, 1.0, "insufficient_coverage", "unscored", None, None, (3, 1)),
    ),
    (
        answer("few-2", "f!", None, "f"),
        Expected("variant", None, None, "missing_response", "unscored", None, None, (3, 1)),
    ),
    (
        answer("few-3", "f.", None, "f"),
        Expected("variant", None, None, "missing_response", "unscored", None, None, (3, 1)),
    ),
    # nothing can be compared with an answer that is not there
    (
        answer("silent-0", "s", None, "s"),
        Expected("baseline", None, None, "missing_response", "unscored", None, None, (1, 0)),
    ),
    (
        answer("silent-1", "s?", "42", "s"),
        Expected("variant", None, None, "missing_response", "unscored", None, None, (1, 0)),
    ),
    # the embedded judge invents no correctness
    (
        answer("bare-0", "b", "42", "b", None),
        Expected("baseline", None, None, "reference_required", "unscored", None, None, (1, 0)),
    ),
    (
        answer("bare-1", "b?", "42", "b", None),
        Expected("variant", None, 1.0, "reference_required", "unscored", None, None, (1, 0)),
    ),
    # a reference or a context in the metadata serves as well
    (
        answer("meta-0", "m", "42", "m", None, reference_answer="42"),
        Expected("baseline", 1.0, None, None, "scored", 1.0, "stable_correct", (1, 1)),
    ),
    (
        answer("meta-1", "m?", "42", "m", None, groundtruth_context="it is 42"),
        Expected("variant", 1.0, 1.0, None, "scored", 1.0, "stable_correct", (1, 1)),
    ),
    # a blank answer is an answer: wrong, and it agrees with nothing
    (
        answer("blank-0", "k", "42", "k"),
        Expected("baseline", 1.0, None, None, "scored", 0.0, "degraded", (1, 1)),
    ),
    (
        answer("blank-1", "k?", " \n", "k"),
        Expected("variant", 0.0, 0.0, None, "scored", 0.0, "degraded", (1, 1)),
    ),
    # a wrong baseline and a right variant: the drop of -1 is clamped, so 0.5 * 0 + 0.5 * 1
    (
        answer("up-0", "u", "41", "u"),
        Expected("baseline", 0.0, None, None, "scored", 0.5, "improved", (1, 1)),
    ),
    (
        answer("up-1", "u?", "42", "u"),
        Expected("variant", 1.0, 0.0, None, "scored", 0.5, "improved", (1, 1)),
    ),
    # wrong, but steadily so
    (
        answer("wrong-0", "w", "41", "w"),
        Expected("baseline", 0.0, None, None, "scored", 1.0, "stable_wrong", (1, 1)),
    ),
    (
        answer("wrong-1", "w?", "41", "w"),
        Expected("variant", 0.0, 1.0, None, "scored", 1.0, "stable_wrong", (1, 1)),
    ),
    # no baseline: case is a perturbation
    (
        answer("case-1", "WHO?", "42", "who?"),
        Expected("variant", None, None, None, "missing_baseline", None, match=None),
    ),
    # no variant, for a repeat is none
    (answer("alone-1", "a", "42", "a"), Expected("baseline", None, None, None, "no_variants", None)),
    (answer("alone-2", "a", "41", "a"), Expected("repeat", None, None, None, "no_variants", None)),
    # the row that calls itself original is the baseline, whatever its id
    (
        answer("orig-1", "o", "41", "o"),
        Expected("repeat", None, None, None, "scored", 1.0, "stable_correct", (1, 1)),
    ),
    (
        answer("orig-2", "o", "42", "o", perturbation_type="Original"),
        Expected("baseline", 1.0, None, None, "scored", 1.0, "stable_correct", (1, 1)),
    ),
    (
        answer("orig-3", "o?", "42", "o", perturbation_type="typo"),
        Expected("variant", 1.0, 1.0, None, "scored", 1.0, "stable_correct", (1, 1)),
    ),
    # exact beats normalised, so the spaced one is a variant
    (
        answer("near-0", "n", "42", "n"),
        Expected("baseline", 1.0, None, None, "scored", 0.0, "degraded", (1, 1)),
    ),
    (
        answer("near-1", " n ", "41", "n"),
        Expected("variant", 0.0, 0.0, None, "scored", 0.0, "degraded", (1, 1)),
    ),
    # after trim and NFC
    (
        answer("nfc-0", f" {NFD}\n", "42", NFC),
        Expected("baseline", 1.0, None, None, "scored", 1.0, "stable_correct", (1, 1), "normalized"),
    ),
    (
        answer("nfc-1", "cafe?", "42", NFC),
        Expected("variant", 1.0, 1.0, None, "scored", 1.0, "stable_correct", (1, 1), "normalized"),
    ),
    # after white-space collapse
    (
        answer("gap-0", "g \t g", "42", "g g"),
        Expected("baseline", 1.0, None, None, "scored", 1.0, "stable_correct", (1, 1), "collapsed"),
    ),
    (
        answer("gap-1", "gg", "42", "g g"),
        Expected("variant", 1.0, 1.0, None, "scored", 1.0, "stable_correct", (1, 1), "collapsed"),
    ),
    # rows that take no part keep their group's result
    (
        answer("part-0", "t", "42", "t", task_type="single_turn_llm"),
        Expected("baseline", 1.0, None, None, "scored", 1.0, "stable_correct", (1, 1)),
    ),
    (
        answer("part-1", "t?", "42", "t", task_type="multi_turn_rag"),
        Expected("variant", 1.0, 1.0, None, "scored", 1.0, "stable_correct", (1, 1)),
    ),
    (
        answer("part-2", "t!", "41", "t", task_type="agentic"),
        Expected(
            "excluded", None, None, "unsupported_task_type", "scored", 1.0, "stable_correct", (1, 1), None
        ),
    ),
    (
        answer("part-3", " ", "41", "t"),
        Expected("excluded", None, None, "empty_prompt", "scored", 1.0, "stable_correct", (1, 1), None),
    ),
    (
        answer("part-4", None, "41", "t"),
        Expected("excluded", None, None, "empty_prompt", "scored", 1.0, "stable_correct", (1, 1), None),
    ),
    # no original query, no group
    (
        answer("lost-1", "q", "42", None),
        Expected("excluded", None, None, None, "missing_original_query", None, match=None),
    ),
    (
        answer("lost-2", "q", "42", " "),
        Expected("excluded", None, None, None, "missing_original_query", None, match=None),
    ),
    (
        ("lost-3", "q", "42", "42", None),
        Expected("excluded", None, None, None, "missing_original_query", None, match=None),
    ),
]


@pytest.fixture(scope="module")
def found(spark):
    return results(score(table(spark, [row for row, _ in ROWS])))


@pytest.mark.parametrize(("row", "expected"), ROWS, ids=[row[0] for row, _ in ROWS])
def test_each_row_gets_what_the_rules_say(found, row, expected):
    got = found[row[0]]
    assert expected == Expected(
        got["role"],
        got["correctness"],
        got["robustness"],
        got["unscored_reason"],
        got["status"],
        got["score"],
        got["outcome"],
        (got["pairs_total"], got["pairs_scored"]),
        got["baseline_match"],
    )


def test_a_group_below_its_coverage_shows_no_means_that_someone_could_take_for_its_own(found):
    row = found["few-1"]
    assert row["base_correctness"] == 1.0
    names = ("mean_perturbed_correctness", "mean_correctness_drop", "mean_robustness", "worst_robustness")
    assert [row[name] for name in names] == [None] * 4


def test_equal_answers_need_no_judge_and_say_so(found):
    assert found["partial-1"]["robustness_reason"] == "The answers are identical."
    assert found["blank-1"]["robustness_reason"] == "An answer is blank."


def test_the_configuration_serves_rows_that_bring_no_reference_and_lowers_the_coverage(spark):
    rows = [row for row, _ in ROWS if row[0].startswith(("bare", "few"))]
    config = {"metric": {"reference_answer": "42"}, "scoring": {"min_coverage": 0.3}}
    found = results(score(table(spark, rows), config))
    assert {row["status"] for key, row in found.items() if key.startswith("bare")} == {"scored"}
    assert {row["status"] for key, row in found.items() if key.startswith("few")} == {"partial"}
    assert {row["score"] for row in found.values()} == {1.0}
