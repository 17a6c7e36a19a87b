"""The 92 literal replies of a real judge (data/judge_replies.jsonl, MIT) are read with the right value."""

import json
from collections import Counter
from pathlib import Path

import pytest

from prspark.judges.replies import read_reply
from prspark.metric.reasons import UnscoredReason

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "judge_replies.jsonl").read_text("utf-8").splitlines()
]


def test_the_data_holds_three_shapes_of_reply():
    assert Counter(row["shape"] for row in ROWS) == {"fenced_json": 51, "bare_json": 40, "prose_then_json": 1}


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_real_reply_is_read_with_its_score_and_its_rationale(row):
    reply = read_reply(row["raw"], scale_max=row["scale_max"])
    assert reply.problem is None
    assert reply.score == row["expected_score"] / 10
    assert reply.reasoning
    assert reply.reasoning[:40] in row["raw"]


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_real_reply_cut_before_its_last_brace_is_truncated(row):
    cut = row["raw"][: row["raw"].rindex("}")]
    assert read_reply(cut, finish_reason="length", scale_max=10).problem is UnscoredReason.TRUNCATED_REPLY


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_real_reply_without_its_scale_is_rejected_not_clamped(row):
    assert read_reply(row["raw"]) == (None, None, UnscoredReason.SCORE_OUT_OF_RANGE)
