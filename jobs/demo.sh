#!/bin/sh
# From a fresh clone to scored groups: sets up .venv, then scores the shipped sample with the embedded judge.
set -eu
cd "$(dirname "$0")/.."
sh conf/setup.sh
exec .venv/bin/prspark score --input prspark/data/sample.jsonl --output scored-sample.parquet --mode overwrite \
    --set 'columns.group_by=["metadata.model"]' --show 25
