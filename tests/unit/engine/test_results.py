"""A row of results for each row of a group, whole or judged in parts."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from prspark.engine import asks
from prspark.engine.asks import AskRules, Work, start
from prspark.engine.groups import Group, Unit
from prspark.engine.judging import PART_ROWS, PART_SCORES, score_parts
from prspark.engine.results import DETAILS, RESULT, ResultRow, ddl, pack, result_batches, result_rows, unpack
from prspark.judges.protocol import Verdict
from prspark.metric.group import Answer
from prspark.metric.reasons import UnscoredReason
from prspark.metric.score import score_group

QUERY = "What is 6 x 7?"
NAMES = [name for name, _ in RESULT]
RULES = AskRules()
RIGHT = Verdict(1.0, "right")
HALF = Verdict(0.5, "half")
LOST = Verdict(None, None, UnscoredReason.TIMEOUT)


def work(*answers: Answer, part: int = -1, baseline: Answer | None = None) -> Work:
    for place, answer in enumerate(answers):
        answer.row_key = answer.row_key or (place, -place)
    return start(Group(Unit(key=(11, part)), 22, QUERY, list(answers), baseline), AskRules())


def rows(found: Work, correctness: list[Any], robustness: list[Any]) -> list[dict[str, Any]]:
    found.correctness, found.robustness = correctness, robustness
    made = result_rows(found, asks.score(found, AskRules()))
    return [dict(zip(NAMES, row, strict=True)) for row in made]


def base() -> Answer:
    return Answer(QUERY, "42", "a")


def variant(answer: str | None = "It is 42.", **more: Any) -> Answer:
    return Answer("6x7", answer, "b", **more)


# --- one row a row


def test_rows_of_a_scored_group_have_every_field() -> None:
    # drop 1 - 0.5, robustness 1: 0.5 * 1 + 0.5 * 0.5
    of_base, of_variant = rows(work(base(), variant()), [RIGHT, HALF], [None, Verdict(1.0, "same")])
    of_group = {
        "unit_hash": 11,
        "group_hash": 22,
        "is_part": False,
        "score": 0.75,
        "status": "scored",
        "unscored_reason": None,
        "base_correctness": 1.0,
        "mean_perturbed_correctness": 0.5,
        "mean_correctness_drop": 0.5,
        "mean_robustness": 1.0,
        "worst_correctness": 0.5,
        "worst_robustness": 1.0,
        "outcome": "degraded",
        "pairs_total": 1,
        "pairs_scored": 1,
        "baseline_match": "exact",
    }
    assert of_base == {
        **of_group,
        "row_high": 0,
        "row_low": 0,
        "counted": False,
        "role": "baseline",
        "correctness": 1.0,
        "correctness_reason": "right",
        "robustness": None,
        "robustness_reason": None,
    }
    assert of_variant == {
        **of_group,
        "row_high": 1,
        "row_low": -1,
        "counted": True,
        "role": "variant",
        "correctness": 0.5,
        "correctness_reason": "half",
        "robustness": 1.0,
        "robustness_reason": "same",
    }


def test_details_come_in_the_order_of_the_contract() -> None:
    assert [name for name, _ in DETAILS] == [
        "status",
        "role",
        "correctness",
        "robustness",
        "correctness_reason",
        "robustness_reason",
        "unscored_reason",
        "base_correctness",
        "mean_perturbed_correctness",
        "mean_correctness_drop",
        "mean_robustness",
        "worst_correctness",
        "worst_robustness",
        "outcome",
        "pairs_total",
        "pairs_scored",
        "baseline_match",
    ]
    assert ddl(DETAILS[:3]) == "status string, role string, correctness double"


def test_there_is_a_row_for_each_row_key_whatever_its_role() -> None:
    answers = [base(), Answer(QUERY, "43", "z"), variant(), variant(), Answer(" ", "42"), variant(None)]
    found = rows(work(*answers), [RIGHT, None, HALF, None, None, LOST], [None, None, HALF, None, None, LOST])
    assert [(row["row_high"], row["role"]) for row in found] == [
        (0, "baseline"),
        (1, "repeat"),
        (2, "variant"),
        (3, "variant"),
        (4, "excluded"),
        (5, "variant"),
    ]


def test_copy_shows_the_verdicts_of_the_one_that_counts() -> None:
    found = rows(work(base(), variant(), variant()), [RIGHT, HALF, None], [None, HALF, None])
    assert [(row["counted"], row["correctness"], row["robustness"]) for row in found[1:]] == [
        (True, 0.5, 0.5),
        (False, 0.5, 0.5),
    ]


def test_repeat_has_the_groups_score_and_no_verdict_of_its_own() -> None:
    repeat = rows(work(base(), Answer(QUERY, "43", "z"), variant()), [RIGHT, None, HALF], [None, None, HALF])[
        1
    ]
    assert (repeat["score"], repeat["correctness"], repeat["robustness"]) == (0.5, None, None)
    assert (repeat["unscored_reason"], repeat["baseline_match"]) == (None, "exact")


def test_excluded_row_says_why_and_matches_no_baseline() -> None:
    row = rows(work(base(), Answer(" ", "42"), variant()), [RIGHT, None, HALF], [None, None, HALF])[1]
    assert (row["unscored_reason"], row["baseline_match"], row["score"]) == ("empty_prompt", None, 0.5)


def test_row_whose_verdict_is_missing_says_why_though_its_group_is_scored() -> None:
    found = rows(work(base(), variant(), variant("43")), [RIGHT, RIGHT, LOST], [None, RIGHT, HALF])
    assert [row["unscored_reason"] for row in found] == [None, None, "timeout"]
    assert {row["status"] for row in found} == {"partial"}


def test_row_says_why_its_answers_do_not_agree_or_disagree() -> None:
    [_, row] = rows(work(base(), variant()), [RIGHT, HALF], [None, LOST])
    assert (row["correctness"], row["robustness"], row["unscored_reason"]) == (0.5, None, "timeout")


def test_judged_row_of_an_unscored_group_says_why_the_group_is() -> None:
    found = rows(work(base(), variant()), [LOST, RIGHT], [None, HALF])
    assert [(row["status"], row["unscored_reason"]) for row in found] == [("unscored", "timeout")] * 2
    assert found[1]["correctness"] == 1.0


def test_null_answer_is_missing_and_its_row_is_kept() -> None:
    found = work(base(), variant(None))
    _, row = rows(found, [RIGHT, found.correctness[1]], found.robustness)
    assert (row["role"], row["correctness"], row["unscored_reason"]) == ("variant", None, "missing_response")


def test_group_without_a_baseline_has_its_status_on_every_row() -> None:
    found = rows(work(variant(), variant("43")), [None, None], [None, None])
    assert [(row["status"], row["score"], row["pairs_total"]) for row in found] == [
        ("missing_baseline", None, 0)
    ] * 2
    assert [row["baseline_match"] for row in found] == [None, None]


def test_looser_baseline_says_how_it_matched() -> None:
    found = rows(work(Answer(QUERY + " ", "42", "a"), variant()), [RIGHT, HALF], [None, HALF])
    assert [row["baseline_match"] for row in found] == ["normalized"] * 2


def test_rows_of_a_part_have_their_verdicts_and_wait_for_the_groups_score() -> None:
    part = work(variant(), part=3, baseline=Answer(QUERY, "42", "a", row_key=(9, 9)))
    [row] = rows(part, [HALF], [RIGHT])
    assert (row["is_part"], row["status"], row["score"], row["pairs_total"]) == (True, None, None, None)
    assert (row["counted"], row["correctness"], row["robustness"]) == (True, 0.5, 1.0)


# --- batches


def some_rows(count: int) -> Iterator[ResultRow]:
    [_, row] = [*result_rows(work(base(), variant()), None)]
    return (row for _ in range(count))


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (10_000, [10_000]), (20_001, [10_000, 10_000, 1])]
)
def test_batches_are_bounded_and_lose_no_row(count: int, sizes: list[int]) -> None:
    assert [batch.num_rows for batch in result_batches(some_rows(count))] == sizes


def test_batch_has_the_types_that_spark_is_told() -> None:
    [batch] = result_batches(some_rows(1))
    kinds = {pa.int64(): "bigint", pa.int32(): "int", pa.float64(): "double", pa.bool_(): "boolean"}
    assert [(field.name, kinds.get(field.type, "string")) for field in batch.schema] == list(RESULT)


# --- a group that is judged in parts


def part_batch(members: list[tuple[Any, ...]]) -> pa.RecordBatch:
    kinds = dict(RESULT)
    types = {"bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_(), "double": pa.float64()}
    columns = list(zip(*members, strict=True)) or [()] * len(PART_ROWS)
    arrays = [pa.array(c, types[kinds[name]]) for c, name in zip(columns, PART_ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(PART_ROWS))


def scores(members: list[tuple[Any, ...]], cut: int = 0, rules: AskRules = RULES) -> list[dict[str, Any]]:
    batches = [part_batch(members[:cut]), part_batch(members[cut:])]
    return [row for batch in score_parts(batches, rules) for row in batch.to_pylist()]


def test_parts_are_scored_as_the_whole_group_would_be() -> None:
    # drops 0 and 0.5, robustness 1 and 0.5: 0.5 * 0.75 + 0.5 * (1 - 0.25)
    members = [
        (1, 2, "variant", True, 1.0, 1.0, None),
        (1, 2, "baseline", False, 1.0, None, None),
        (1, 2, "variant", True, 0.5, 0.5, None),
        (1, 2, "variant", False, 0.5, 0.5, None),
        (1, 2, "repeat", False, None, None, None),
    ]
    [found] = scores(members)
    assert (found["unit_hash"], found["group_hash"], found["score"]) == (1, 2, 0.75)
    assert (found["status"], found["pairs_total"], found["outcome"]) == ("scored", 2, "degraded")
    assert list(found) == [name for name, _ in PART_SCORES]


def random_members(chance: random.Random) -> list[tuple[Any, ...]]:
    def score() -> float | None:
        return chance.choice([None, 0.0, 0.1, 0.25, 0.5, 0.75, 1.0])

    def member(role: str, counted: bool) -> tuple[Any, ...]:
        correct, robust = score(), None if role == "baseline" else score()
        lost = correct is None or (robust is None and role != "baseline")
        return (
            1,
            2,
            role,
            counted,
            correct,
            robust,
            chance.choice(["timeout", "content_filter"]) if lost else None,
        )

    variants = [member("variant", chance.random() < 0.8) for _ in range(chance.randrange(9))]
    members = [member("baseline", False), *variants, (1, 2, "repeat", False, None, None, None)]
    chance.shuffle(members)
    return members


@pytest.mark.parametrize("seed", range(30))
def test_parts_score_as_the_union_of_their_rows_wherever_they_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    members, coverage = random_members(chance), chance.choice([0.0, 0.5, 1.0])
    [base_row] = [row for row in members if row[2] == "baseline"]
    counted = [row for row in members if row[3]]
    expected = score_group(
        base_row[4],
        [(row[4], row[5]) for row in counted],
        min_coverage=coverage,
        base_reason=base_row[6] and UnscoredReason(base_row[6]),
        pair_reason=asks.most_frequent(row[6] for row in counted if row[6]),
    )
    for cut in range(len(members) + 1):
        [found] = scores(members, cut, AskRules(min_coverage=coverage))
        assert {name: found[name] for name in expected._fields} == expected._asdict()


@pytest.mark.parametrize("seed", range(20))
def test_whole_group_and_its_parts_say_the_same(seed: int) -> None:
    chance = random.Random(seed)
    whole = work(base(), *(Answer(f"q{n}", f"a{n}", str(n)) for n in range(5)))
    verdicts = [RIGHT, HALF, LOST, Verdict(None, None, UnscoredReason.RATE_LIMITED)]
    whole.correctness = [chance.choice(verdicts) for _ in range(6)]
    whole.robustness = [None, *(chance.choice(verdicts) for _ in range(5))]
    score = asks.score(whole, AskRules())
    made = [dict(zip(NAMES, row, strict=True)) for row in result_rows(whole, None)]
    [found] = scores([tuple(row[name] for name in PART_ROWS) for row in made], cut=seed % 6)
    assert score is not None
    assert {name: found[name] for name in score._fields} == score._asdict()


def test_groups_that_share_a_batch_are_scored_apart() -> None:
    members = [
        (1, 2, "baseline", False, 1.0, None, None),
        (1, 2, "variant", True, 1.0, 1.0, None),
        (1, 3, "baseline", False, 0.0, None, None),
        (1, 3, "variant", True, 0.0, 0.0, None),
    ]
    for cut in range(5):
        assert [(row["group_hash"], row["score"]) for row in scores(members, cut)] == [(2, 1.0), (3, 0.5)]


def test_no_parts_are_no_scores() -> None:
    assert scores([]) == []


def test_kept_batches_come_back_as_they_were_column_by_column() -> None:
    made = [*result_batches(some_rows(3))]
    kept = [*pack(made)]
    assert [batch.num_rows for batch in kept] == [1]
    names = [name for name, _ in RESULT]
    assert [batch.to_pylist() for batch in unpack(kept, names)] == [batch.to_pylist() for batch in made]
    assert [batch.column_names for batch in unpack(kept, ["score", "status"])] == [["score", "status"]]
