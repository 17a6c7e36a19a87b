"""What the sample scores with the embedded judge, worked out without Spark: one group after the other."""

import json
from collections import defaultdict

from prspark.data import sample_path
from prspark.judges.lexical import LexicalJudge
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest
from prspark.metric.score import score_group


def sample_scores() -> dict[str, float | None]:
    """Return the score of each row of the sample, by input id; its groups are by question and model."""
    groups = defaultdict(list)
    for row in map(json.loads, sample_path().read_text(encoding="utf-8").splitlines()):
        groups[row["metadata"]["original_query"], row["metadata"]["model"]].append(row)
    return {row["input_id"]: _score(query, rows) for (query, _), rows in groups.items() for row in rows}


def _score(query: str, rows: list[dict[str, str]]) -> float | None:
    base = next(row for row in rows if row["prompt"] == query)
    pairs = [(_correctness(row), _robustness(base, row)) for row in rows if row is not base]
    return score_group(_correctness(base), pairs, min_coverage=0.5).score


def _correctness(row: dict[str, str]) -> float | None:
    asked = CorrectnessRequest(row["prompt"], row["sut_response"], row["reference_answer"])
    return LexicalJudge().correctness(asked).score


def _robustness(base: dict[str, str], row: dict[str, str]) -> float | None:
    texts = (base["prompt"], base["sut_response"], row["prompt"], row["sut_response"])
    return LexicalJudge().robustness(RobustnessRequest(*texts)).score
