"""The metric's configuration is the published schema, and refuses what the schema refuses."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from prspark.metric.config import PerturbationRobustnessExternalConfig as Config

EXPECTED = Path(__file__).with_name("expected_config_schema.json")


def test_schema_is_the_published_one_key_for_key():
    published = json.loads(EXPECTED.read_text())
    ours = Config.model_json_schema()
    assert ours == published
    # == takes 0 for 0.0 and False; the text does not
    assert json.dumps(ours, sort_keys=True) == json.dumps(published, sort_keys=True)


def test_defaults_are_the_published_ones():
    config = Config()
    assert (config.min, config.max, config.weight, config.inverted) == (0.0, 1.0, 1.0, False)
    assert (config.sub_call_concurrency_limit, config.timeout_seconds) == (5, 60.0)
    assert config.metric_name == "perturbation_robustness_external"
    assert config.reference_answer is None
    assert config.groundtruth_context is None


@pytest.mark.parametrize("limit", [1, 64])
def test_concurrency_limits_are_inclusive(limit):
    assert Config(sub_call_concurrency_limit=limit).sub_call_concurrency_limit == limit


@pytest.mark.parametrize(
    "wrong",
    [
        {"sub_call_concurrency_limit": 0},
        {"sub_call_concurrency_limit": 65},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("inf")},
        {"weight": float("nan")},
        {"metric_name": "  "},
        {"min": 1.0, "max": 0.0},
        {"reference_answer": 72},
        {"time_out": 5},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValidationError):
        Config(**wrong)


def test_configuration_cannot_change_after_it_was_made():
    with pytest.raises(ValidationError):
        Config().weight = 2.0  # type: ignore[misc]
