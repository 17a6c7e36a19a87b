"""On the sample that ships, the embedded judge agrees with the human labels."""

import json

from prspark.data import sample_path
from prspark.insight.statistics import accuracy, cohen_kappa, confusion
from prspark.judges.lexical import LexicalJudge
from prspark.judges.protocol import CorrectnessRequest


def judged():
    judge = LexicalJudge()
    rows = [json.loads(line) for line in sample_path().read_text(encoding="utf-8").splitlines()]
    labels = [row["metadata"]["human_correct"] for row in rows]
    requests = [
        CorrectnessRequest(row["prompt"], row["sut_response"], row["reference_answer"]) for row in rows
    ]
    return rows, labels, [judge.correctness(request).score for request in requests]


def test_at_least_118_of_125_rows_agree_with_the_human_label():
    _, labels, scores = judged()
    counts = confusion(labels, scores)
    assert counts.judged == 125
    assert counts.true_positive + counts.true_negative >= 118
    assert (accuracy(counts) or 0) >= 118 / 125
    assert (cohen_kappa(counts) or 0) > 0.9


def test_it_disagrees_only_where_the_label_denies_an_answer_equal_to_the_reference():
    # "... all 3 boxes is 72 cubic inches." (72) and "Answer: $125." (125), both labelled wrong
    rows, labels, scores = judged()
    differing = [
        row["input_id"]
        for row, label, score in zip(rows, labels, scores, strict=True)
        if (score >= 0.5) != label
    ]
    assert differing == ["more-chatgpt-038", "more-llama2-084"]
