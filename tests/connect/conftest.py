"""A Spark Connect server in a process of its own, so that the client has no JVM to fall back on."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "spark.ui.enabled": "false",  # nobody looks, and ports may be taken
    "spark.sql.shuffle.partitions": "4",  # tiny tables
    "spark.driver.host": "127.0.0.1",  # the machine's own name may not resolve
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.log.level": "ERROR",
}
START_SECONDS = 180  # a loaded machine takes long


@pytest.fixture(scope="session")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server whose workers find prspark through PYTHONPATH."""
    folder = tmp_path_factory.mktemp("server")
    port = free_port()
    settings = SETTINGS | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("wb") as log:
        # a group of its own, because spark-submit is a shell that starts a JVM that starts workers
        server = subprocess.Popen(
            command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
        )
    try:
        await_port(port, server)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()


@pytest.fixture(scope="session")
def spark(remote: str) -> Iterator[SparkSession]:
    session = SparkSession.builder.remote(remote).getOrCreate()
    yield session
    session.stop()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def await_port(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.2)
    raise RuntimeError(f"the Connect server did not start: its exit code is {server.poll()}")
