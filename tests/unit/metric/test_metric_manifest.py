"""The manifest is the published one, in each of its formats."""

import json
from pathlib import Path

import pytest

from prspark.metric.manifest import _yaml_lines, manifest, manifest_text

PUBLISHED = json.loads(Path(__file__).with_name("expected_manifest.json").read_text())


def test_manifest_is_the_published_one():
    assert manifest() == PUBLISHED
    assert json.dumps(manifest(), sort_keys=True) == json.dumps(PUBLISHED, sort_keys=True)


def test_changing_a_manifest_changes_no_other():
    manifest()["execution"]["timeout_seconds"] = 1
    manifest()["metric_metadata"]["methodology"].clear()
    assert manifest() == PUBLISHED


def test_json_text_reads_back_as_the_manifest():
    assert json.loads(manifest_text("json")) == PUBLISHED


def test_schema_text_is_the_configuration_schema_alone():
    assert json.loads(manifest_text("schema")) == PUBLISHED["config_schema"]


def test_yaml_is_written_in_blocks_with_json_scalars():
    value = {"name": 'a "b": c', "none": None, "flag": True, "list": [1, {"x": 0.5}], "empty": [], "no": {}}
    assert "\n".join(_yaml_lines(value)) == "\n".join(
        [
            "empty: []",
            "flag: true",
            "list:",
            "  - 1",
            "  -",
            "    x: 0.5",
            'name: "a \\"b\\": c"',
            "no: {}",
            "none: null",
        ]
    )


def test_yaml_text_holds_the_whole_manifest():
    lines = manifest_text("yaml").splitlines()
    assert lines[0] == "accepts:"
    assert 'name: "llm.perturbation_robustness_external"' in lines
    assert "    sub_call_concurrency_limit:" in lines
    assert "function_name: null" in [line.strip() for line in lines]


def test_unknown_format_is_refused_with_the_three_that_exist():
    with pytest.raises(ValueError, match="json, yaml or schema"):
        manifest_text("toml")
