"""CPU of one judge call in the client, without Spark: prspark's judge behind its limits, and a bare `requests` post.

python tests/bench/client.py        # half a minute
"""

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common  # noqa: F401  puts the project on the path
import requests
from common import table

from prspark.judges.config import JudgeConfig, LimitsConfig
from prspark.judges.endpoint import EndpointJudge
from prspark.judges.limits import ExecutorLimits
from prspark.judges.prompts import Prompts
from prspark.judges.protocol import CorrectnessRequest
from tests.support.stub_endpoint import StubEndpoint

CALLS = 4000
LIMIT = 40


def cpu_ms(ask: Callable[[int], None]) -> float:
    """Make the calls from as many threads as the limit allows; CPU milliseconds a call, threads included."""
    with ThreadPoolExecutor(LIMIT) as threads:
        list(threads.map(ask, range(LIMIT)))  # connections, caches
        before = time.process_time()
        list(threads.map(ask, range(LIMIT, LIMIT + CALLS)))
        return 1000 * (time.process_time() - before) / CALLS


def main() -> None:
    """Print both figures and their ratio."""
    with StubEndpoint(latency=0.1) as stub, tempfile.TemporaryDirectory() as folder:
        judge = EndpointJudge(
            JudgeConfig(kind="chat", base_url=stub.url, model="stub"),
            timeout_seconds=60,
            max_attempts=5,
            gate=ExecutorLimits(Path(folder), LimitsConfig(executor_concurrency=LIMIT)),
            environ=os.environ,
        )
        prompts, session = Prompts(), requests.Session()
        session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=LIMIT))

        def asked(call: int) -> CorrectnessRequest:
            return CorrectnessRequest("What is 1 plus 1?", f"The answer is {call}.", "2")

        def ours(call: int) -> None:
            assert judge.correctness(asked(call)).score is not None

        def bare(call: int) -> None:
            body = {"model": "stub", "messages": prompts.correctness(asked(CALLS + call))}
            reply = session.post(f"{stub.url}/chat/completions", json=body, timeout=60)
            assert reply.json()["choices"]

        found = [cpu_ms(ours), cpu_ms(bare)]
    print(table(["prspark, ms a call", "bare requests, ms a call", "ratio"], [[*found, found[0] / found[1]]]))


if __name__ == "__main__":
    main()
