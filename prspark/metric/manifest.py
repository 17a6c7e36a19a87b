"""The metric's manifest: what it accepts, how it runs and what its score means."""

import json
from copy import deepcopy
from typing import Any

from prspark.metric.config import PerturbationRobustnessExternalConfig
from prspark.metric.group import TASK_TYPES

_METADATA = {
    "methodology": [
        "This metric is pure scoring; it does not generate perturbations or call the system under test. "
        "Generation lives in the aip_sdg_llm.augmentation.perturbation_robustness_external SDG recipe; "
        "SUT inference happens off-platform.",
        "Rows are grouped by metadata.original_query; the baseline row (query equals original_query) and its "
        "perturbed variants are identified within each group.",
        "The judge scores base correctness, perturbed correctness, and a per-pair robustness score, reusing "
        "the hosted perturbation_robustness metric's judges and aggregation.",
        "Combine as 0.5 times mean robustness plus 0.5 times max(0, 1 minus mean correctness drop); the "
        "group score is replicated to every row in the group.",
    ],
    "score_semantics": "Scores range 0-1, blending consistency across variants with the drop in correctness. "
    "A high score means answers stay correct and stable under rewording; a low score means correctness "
    "degrades. Higher is better.",
    "summary": "Measures how consistently the system stays correct across meaning-preserving variants of a "
    "question, from a pre-scored dataset with off-platform SUT responses.",
    "worked_example": "Mean robustness 0.9 with a small correctness drop of 0.1 -> 0.5*0.9 + 0.5*0.9 = 0.9.",
}

_EXECUTION = {
    "emits_metric_family": False,
    "function_name": None,
    "max_concurrency": 8,
    "processing_kind": "network",
    "stream_batch_size": None,
    "timeout_seconds": 900,
}


def manifest() -> dict[str, Any]:
    """Return the manifest of version 1.0.0, its `config_schema` taken from the configuration model."""
    return {
        "accepts": [{"name": "gdi_text_v1", "task_types": sorted(TASK_TYPES)}],
        "config_schema": PerturbationRobustnessExternalConfig.model_json_schema(),
        "dependencies": [],
        "description": "How consistently does the system stay correct across equivalent question variants, "
        "scored from off-platform SUT responses?",
        "direction": "higher_is_better",
        "display_name": "Perturbation Robustness (External)",
        "entrypoint": "aip_metrics_llm.unanswered.perturbation_robustness_external",
        "execution": deepcopy(_EXECUTION),
        "kind": "metric",
        "manifest_version": "1",
        "max_prompt_slots": 0,
        "metric_metadata": deepcopy(_METADATA),
        "metric_type": "pointwise",
        "name": "llm.perturbation_robustness_external",
        "partition_types": [],
        "required_columns": ["input_id", "prompt", "sut_response"],
        "required_kinds": [],
        "scorer_contract": "full_dataset",
        "target_kind": None,
        "unsupported_trace_shapes": [],
        "version": "1.0.0",
    }


def manifest_text(format: str) -> str:
    """Return the manifest as text, keys sorted, without a line break at its end.

    Args:
        format: `json`, `yaml`, or `schema` (the configuration's JSON schema alone).

    Raises:
        ValueError: another format; the message names the three.
    """
    if format == "json":
        return json.dumps(manifest(), indent=2, sort_keys=True)
    if format == "schema":
        return json.dumps(manifest()["config_schema"], indent=2, sort_keys=True)
    if format == "yaml":
        return "\n".join(_yaml_lines(manifest()))
    raise ValueError(f"manifest format {format!r} is unknown; choose json, yaml or schema")


def _yaml_lines(value: dict[str, Any] | list[Any]) -> list[str]:
    """Write block YAML; scalars stay JSON, which YAML reads as it is, so no YAML library is needed."""
    if isinstance(value, dict):
        return [line for key in sorted(value) for line in _yaml_entry(f"{key}:", value[key])]
    return [line for item in value for line in _yaml_entry("-", item)]


def _yaml_entry(head: str, value: Any) -> list[str]:
    if isinstance(value, (dict, list)) and value:
        return [head, *("  " + line for line in _yaml_lines(value))]
    return [f"{head} {json.dumps(value)}"]
