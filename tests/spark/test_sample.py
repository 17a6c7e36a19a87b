"""The sample that ships in the package, scored end to end with the embedded judge."""

import json
from collections import Counter, defaultdict
from math import fsum

import pytest

from prspark.data import sample_path
from tests.support.answers import METRIC, score


@pytest.fixture(scope="module")
def rows(spark):
    sample = spark.read.json(str(sample_path()))
    return score(sample, {"columns": {"group_by": ["metadata.model"]}}).collect()


@pytest.fixture(scope="module")
def groups(rows):
    found = defaultdict(list)
    for row in rows:
        found[row.metadata.original_query, row.metadata.model].append(row)
    return found


def details(row):
    return row[f"{METRIC}_details"]


def test_every_row_of_the_sample_comes_back_once_with_its_columns_untouched(rows):
    sent = [json.loads(line) for line in sample_path().read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len(sent) == 125
    came_back = {row.input_id: row.asDict(recursive=True) for row in rows}
    for row in sent:
        back = came_back[row["input_id"]]
        assert {name: back[name] for name in row} == row
        assert set(back) - set(row) == {METRIC, f"{METRIC}_details"}


def test_all_25_groups_are_scored_with_one_baseline_and_four_variants(groups):
    assert len(groups) == 25
    for members in groups.values():
        assert Counter(details(row).role for row in members) == {"baseline": 1, "variant": 4}
        assert {details(row).status for row in members} == {"scored"}
        assert {(details(row).pairs_total, details(row).pairs_scored) for row in members} == {(4, 4)}


def test_each_score_follows_from_the_components_on_the_row(rows):
    for row in rows:
        found = details(row)
        kept = min(1.0, max(0.0, 1.0 - found.mean_correctness_drop))
        assert row[METRIC] == 0.5 * found.mean_robustness + 0.5 * kept


def test_each_component_follows_from_the_verdicts_on_the_rows_of_its_group(groups):
    for members in groups.values():
        base = next(details(row).correctness for row in members if details(row).role == "baseline")
        variants = [details(row) for row in members if details(row).role == "variant"]
        correct = [row.correctness for row in variants]
        robust = [row.robustness for row in variants]
        for row in members:
            found = details(row)
            assert found.base_correctness == base
            assert found.mean_perturbed_correctness == fsum(correct) / 4
            assert found.mean_correctness_drop == fsum(base - each for each in correct) / 4
            assert found.mean_robustness == fsum(robust) / 4
            assert found.worst_correctness == min(correct)
            assert found.worst_robustness == min(robust)


def test_all_rows_of_a_group_say_the_same_of_it(groups):
    of_group = ("status", "outcome", "base_correctness", "mean_robustness", "pairs_total", "baseline_match")
    for members in groups.values():
        assert len({(row[METRIC], *(details(row)[name] for name in of_group)) for row in members}) == 1


def test_the_sample_shows_all_four_outcomes(groups):
    outcomes = Counter(details(members[0]).outcome for members in groups.values())
    assert outcomes == {"degraded": 16, "improved": 2, "stable_correct": 5, "stable_wrong": 2}


def test_the_score_column_carries_how_the_metric_is_to_be_read(spark):
    sample = spark.read.json(str(sample_path())).limit(5)
    config = {"metric": {"metric_name": "sturdy", "weight": 2.0, "inverted": True}}
    scored = score(sample, config)
    assert scored.columns[-2:] == ["sturdy", "sturdy_details"]
    assert scored.schema["sturdy"].metadata["prspark"] == {
        "min": 0.0,
        "max": 1.0,
        "inverted": True,
        "weight": 2.0,
        "metric_name": "sturdy",
    }
