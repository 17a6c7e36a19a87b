"""What a group needs to be asked, and what follows from the answers. Pure Python, one group at a time.

The plan and the judging share this file, so the calls that are predicted are the calls that are sent.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from prspark.engine.groups import Group
from prspark.judges.protocol import CorrectnessRequest, Judge, RobustnessRequest, Verdict
from prspark.metric.group import Answer, Classified, Role, classify
from prspark.metric.reasons import UnscoredReason
from prspark.metric.score import GroupScore, Status, score_group, unscorable

CORRECTNESS, ROBUSTNESS = "correctness", "robustness"

_MISSING = Verdict(None, None, UnscoredReason.MISSING_RESPONSE)
_BLANK_IS_WRONG = Verdict(0.0, "The answer is blank.")
_BLANK_AGREES_WITH_NOTHING = Verdict(0.0, "An answer is blank.")
_IDENTICAL = Verdict(1.0, "The answers are identical.")


class AskRules(NamedTuple):
    """What of the configuration decides which questions are asked.

    `reference` and `context` are the fallback for rows that bring none.
    """

    reference: str | None = None
    context: str | None = None
    skip_identical_pairs: bool = True
    numeric_ids: bool = False
    min_coverage: float = 0.5


@dataclass(slots=True)
class Work:
    """One group on its way: a slot per row and kind holds a request, then the verdict on it.

    A slot is None where nothing is to be said: the correctness of a repeat, the robustness of a baseline.
    """

    group: Group
    classified: Classified
    correctness: list[CorrectnessRequest | Verdict | None]
    robustness: list[RobustnessRequest | Verdict | None]
    keys: dict[CorrectnessRequest | RobustnessRequest, str] = field(default_factory=dict)
    """The journal keys of the requests, once `keyed_requests` has made them."""


def start(group: Group, rules: AskRules) -> Work:
    """Classify a group and decide every verdict that needs no judge."""
    answers = group.answers
    found = classify(answers, group.original_query, baseline=group.baseline, numeric_ids=rules.numeric_ids)
    if group.is_part and found.status is Status.NO_VARIANTS:
        found.status = None  # the variants are in other parts
    work = Work(group, found, [None] * len(answers), [None] * len(answers))
    if found.status is not None:
        return work
    base = _baseline(work)
    # without the baseline's answer no pair can be judged, so no call is worth its money
    judgeable = base.answer is not None
    if found.baseline is not None:
        work.correctness[found.baseline] = correctness_slot(base, rules)
    for row, counted in enumerate(found.counted):
        if counted:
            answer = answers[row]
            work.correctness[row] = correctness_slot(answer, rules) if judgeable else None
            work.robustness[row] = _robustness(base, answer, rules)
    return work


def _baseline(work: Work) -> Answer:
    at = work.classified.baseline
    base = work.group.answers[at] if at is not None else work.group.baseline
    assert base is not None  # noqa: S101  a group whose status is open has a baseline
    return base


def correctness_slot(answer: Answer, rules: AskRules) -> CorrectnessRequest | Verdict:
    """Return what to ask about an answer, or the verdict that needs no judge: a null or a blank answer."""
    if answer.answer is None:
        return _MISSING
    if not answer.answer.strip():
        return _BLANK_IS_WRONG
    return CorrectnessRequest(
        answer.query or "",
        answer.answer,
        _first(answer.reference, rules.reference),
        _first(answer.context, rules.context),
        answer.history,
    )


def _first(own: str | None, fallback: str | None) -> str | None:
    return own if own is not None and own.strip() else fallback


def _robustness(base: Answer, variant: Answer, rules: AskRules) -> RobustnessRequest | Verdict:
    if base.answer is None or variant.answer is None:
        return _MISSING
    if not base.answer.strip() or not variant.answer.strip():
        return _BLANK_AGREES_WITH_NOTHING
    if rules.skip_identical_pairs and base.answer == variant.answer:
        return _IDENTICAL
    return RobustnessRequest(base.query or "", base.answer, variant.query or "", variant.answer)


def kind_of(request: CorrectnessRequest | RobustnessRequest) -> str:
    """Which of the two questions a request asks: `CORRECTNESS` or `ROBUSTNESS`."""
    return CORRECTNESS if isinstance(request, CorrectnessRequest) else ROBUSTNESS


def ask(judge: Judge, request: CorrectnessRequest | RobustnessRequest) -> Verdict:
    """Ask a judge the question that the request is."""
    if isinstance(request, CorrectnessRequest):
        return judge.correctness(request)
    return judge.robustness(request)


def request_key(identity: str, request: CorrectnessRequest | RobustnessRequest) -> str:
    """The journal key of a request: SHA-256 (hex) of its kind, the judge's identity and all judged texts."""
    return hashlib.sha256(json.dumps([kind_of(request), identity, *request]).encode()).hexdigest()


def keyed_requests(work: Work, identity: str) -> dict[str, CorrectnessRequest | RobustnessRequest]:
    """The requests of a group by journal key, each once, in the order of its rows."""
    slots = [slot for pair in zip(work.correctness, work.robustness, strict=True) for slot in pair]
    for slot in slots:
        if isinstance(slot, (CorrectnessRequest, RobustnessRequest)) and slot not in work.keys:
            work.keys[slot] = request_key(identity, slot)
    return {key: request for request, key in work.keys.items()}


def score(work: Work, rules: AskRules) -> GroupScore | None:
    """Score a whole group whose slots are all verdicts; None for a part, whose pairs are not all here."""
    found = work.classified
    if found.status is not None:
        return unscorable(found.status)
    if work.group.is_part:
        return None
    assert found.baseline is not None  # noqa: S101  a whole group holds its baseline
    base = verdict(work.correctness[found.baseline])
    pairs = [
        (verdict(work.correctness[row]), verdict(work.robustness[row]))
        for row, counted in enumerate(found.counted)
        if counted
    ]
    return score_group(
        base.score,
        [(correct.score, robust.score) for correct, robust in pairs],
        min_coverage=rules.min_coverage,
        base_reason=base.unscored_reason,
        pair_reason=most_frequent(reason for pair in pairs if (reason := _pair_reason(*pair))),
    )


def _pair_reason(correct: Verdict, robust: Verdict) -> UnscoredReason | None:
    """Why a pair is not judged: one reason, the one its row tells, so that parts of a group count alike."""
    return correct.unscored_reason or robust.unscored_reason


def verdict(slot: CorrectnessRequest | RobustnessRequest | Verdict | None) -> Verdict:
    """The verdict in a slot; an empty slot has none to give."""
    return slot if isinstance(slot, Verdict) else _MISSING


def most_frequent(reasons: Iterable[str]) -> UnscoredReason | None:
    """The most frequent reason, ties by name, so that row order does not matter; null if there is none."""
    counts = Counter(reasons)
    return UnscoredReason(min(counts, key=lambda reason: (-counts[reason], reason))) if counts else None


def copies(work: Work) -> list[int]:
    """For each row, the row whose verdicts it shows: itself, or the counted copy of the same answer."""
    shown = list(range(len(work.group.answers)))
    first: dict[tuple[str | None, str | None, str | None], int] = {}
    found = work.classified
    for row, answer in enumerate(work.group.answers):
        if found.counted[row]:
            first[answer.input_id, answer.query, answer.answer] = row
    for row, answer in enumerate(work.group.answers):
        if found.roles[row] is Role.VARIANT and not found.counted[row]:
            shown[row] = first.get((answer.input_id, answer.query, answer.answer), row)
    return shown
