"""A real model behind a real server (llama.cpp, SmolLM2-135M): what a verdict takes, and how far estimates are off.

python tests/bench/llama.py        # the two groups of the tests; a minute or two
python tests/bench/llama.py 10     # ten groups
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from common import session, table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from prspark import api
from prspark.data import sample_path
from prspark.engine.journal import Entry, list_files, read_file
from prspark.judges.cost import estimate_tokens
from prspark.judges.prompts import Prompts
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest
from tests.support.llama_server import LlamaServer

Request = CorrectnessRequest | RobustnessRequest


def judged(spark: SparkSession, server: LlamaServer, groups: int) -> list[tuple[str, Any]]:
    """Judge the groups of the sample whose texts are shortest; returns the figures."""
    limits = {"executor_concurrency": 2}
    judge = {
        "kind": "chat",
        "base_url": server.url,
        "model": "smollm2",
        "max_tokens": 160,
        "temperature": 0.4,
    }
    config = {
        "judge": judge,
        "limits": limits,
        "metric": {"timeout_seconds": 300},
        "columns": {"group_by": ["metadata.model"]},
    }
    with tempfile.TemporaryDirectory() as journal:
        start = time.perf_counter()
        scored = api.run_scoring(shortest(spark, groups), config, journal=journal)
        seconds = time.perf_counter() - start
        entries = [entry for path in list_files(journal) for entry in read_file(journal, path)]
    found = [("groups", groups), ("groups with a score", groups - scored.summary.unscored_groups)]
    return [*found, *of_calls(entries), *of_server(server), ("whole job, s", seconds)]


def shortest(spark: SparkSession, groups: int) -> DataFrame:
    """Pick groups of the sample by the length of their texts: a tiny model reads slowly."""
    sample = spark.read.json(str(sample_path()))
    key = ["metadata.original_query", "metadata.model"]
    length = F.sum(F.length("prompt") + F.length("sut_response"))
    chosen = sample.groupBy(*key).agg(length.alias("length")).orderBy("length").limit(groups)
    kept = [(row[0], row[1]) for row in chosen.collect()]
    one_of = F.lit(False)
    for query, model in kept:
        one_of = one_of | ((F.col(key[0]) == query) & (F.col(key[1]) == model))
    return sample.where(one_of)


def of_calls(entries: list[Entry]) -> Iterator[tuple[str, Any]]:
    """Sum up the journal: verdicts, the share that is readable, and what they took."""
    sends = sum(entry.attempts for entry in entries)
    yield "verdicts asked for", len(entries)
    yield "readable", sum(entry.score is not None for entry in entries) / len(entries)
    yield "readable at the first reply", sum(entry.attempts == 1 for entry in entries) / len(entries)
    yield "calls sent", sends
    yield "seconds a call", sum(entry.latency_seconds for entry in entries) / sends
    yield "completion tokens a call", sum(entry.completion_tokens for entry in entries) / sends


def of_server(server: LlamaServer) -> Iterator[tuple[str, Any]]:
    """Tell which share of the prompts the server had in its cache."""
    read, cached = server.metric("prompt_tokens_total"), server.metric("prompt_tokens_cached_total")
    yield "share of prompt tokens from the server's cache", cached / (read + cached)


def requests(spark: SparkSession) -> list[Request]:
    """Every row of the sample as a request on its answer, and every variant as a request on its pair."""
    rows = spark.read.json(str(sample_path())).collect()
    found: list[Request] = [
        CorrectnessRequest(row.prompt, row.sut_response, row.reference_answer) for row in rows
    ]
    for _, members in groupby(rows, key=lambda row: (row.metadata.original_query, row.metadata.model)):
        group = list(members)
        base = next(row for row in group if row.prompt == row.metadata.original_query)
        pairs = ((base.prompt, base.sut_response, row.prompt, row.sut_response) for row in group)
        found += [RobustnessRequest(*pair) for pair, row in zip(pairs, group, strict=True) if row is not base]
    return found


def estimate_errors(server: LlamaServer, asked: list[Request]) -> list[Any]:
    """Compare the estimates of prompt tokens with what the model's own tokenizer says."""
    prompts, errors, estimated, real = Prompts(), [], 0, 0
    for request in asked:
        pair = isinstance(request, RobustnessRequest)
        messages = prompts.robustness(request) if pair else prompts.correctness(request)
        estimate, tokens = estimate_tokens(request), server.prompt_tokens(list(messages))
        errors.append(abs(estimate - tokens) / tokens)
        estimated, real = estimated + estimate, real + tokens
    mean, p90 = statistics.mean(errors), statistics.quantiles(errors, n=10)[-1]
    return [len(asked), real, f"{estimated / real - 1:+.1%}", f"{mean:.1%}", f"{p90:.1%}"]


def main() -> None:
    """Print both tables."""
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    spark = session()
    with LlamaServer() as server:
        asked = requests(spark)
        answers = [request for request in asked if isinstance(request, CorrectnessRequest)]
        pairs = [request for request in asked if isinstance(request, RobustnessRequest)]
        rows = [
            [kind, *estimate_errors(server, some)] for kind, some in (("answers", answers), ("pairs", pairs))
        ]
        heads = ["estimate of prompt tokens", "requests", "tokens", "sum off by", "mean error", "p90 error"]
        print(table(heads, rows), end="\n\n", flush=True)
        print(table(["llama.cpp, SmolLM2-135M", ""], judged(spark, server, groups)))
    spark.stop()


if __name__ == "__main__":
    main()
