"""The plain way, to compare with: one `applyInPandas` call a group, a pool of threads in it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from prspark.judges.protocol import CorrectnessRequest, Judge, RobustnessRequest

_SCHEMA = "input_id string, score double, correctness double, robustness double"
_JUDGES: dict[str, Judge] = {}


def plain_scores(df: DataFrame, make_judge: Callable[[], Judge], *, threads: int = 0) -> DataFrame:
    """Score each group in its own call, as one would write it first; with threads, calls of a group overlap."""

    def judge_group(group: pd.DataFrame) -> pd.DataFrame:
        judge = _JUDGES.setdefault("judge", make_judge())
        ids, prompts, answers, references, originals = (group[name].tolist() for name in group.columns)
        base = prompts.index(originals[0])
        requests: list[Any] = list(map(CorrectnessRequest, prompts, answers, references))
        others = [i for i in range(len(ids)) if i != base]
        requests += [RobustnessRequest(prompts[base], answers[base], prompts[i], answers[i]) for i in others]
        scores = _ask(judge, requests, threads)
        correctness, robustness = scores[: len(ids)], dict(zip(others, scores[len(ids) :], strict=True))
        drop = sum(correctness[base] - correctness[i] for i in others) / len(others)
        score = 0.5 * sum(robustness.values()) / len(others) + 0.5 * min(1.0, max(0.0, 1 - drop))
        columns = {"input_id": ids, "score": score, "correctness": correctness}
        return pd.DataFrame(columns | {"robustness": [robustness.get(i) for i in range(len(ids))]})

    needed = df.selectExpr(
        "input_id", "prompt", "sut_response", "reference_answer", "metadata.original_query"
    )
    return needed.groupBy("original_query").applyInPandas(judge_group, _SCHEMA)


def _ask(judge: Judge, requests: list[Any], threads: int) -> list[Any]:
    def ask(request: Any) -> Any:
        of_pair = isinstance(request, RobustnessRequest)
        return (judge.robustness(request) if of_pair else judge.correctness(request)).score

    if not threads:
        return [ask(request) for request in requests]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(ask, requests))
