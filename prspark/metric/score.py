"""Combine the verdicts of one group into its score and the components that explain it."""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from prspark.metric.reasons import UnscoredReason

# Drops nearer to 0 than this are rounding of binary fractions, not a change of correctness.
_NO_DROP = 1e-9
# A verdict of at least this much counts as correct where a yes or no is needed.
CORRECT_FROM = 0.5


class Status(StrEnum):
    """How far a group could be scored. Users filter on these words: they are a contract."""

    SCORED = "scored"
    PARTIAL = "partial"
    UNSCORED = "unscored"
    MISSING_BASELINE = "missing_baseline"
    NO_VARIANTS = "no_variants"
    MISSING_ORIGINAL_QUERY = "missing_original_query"


class Outcome(StrEnum):
    """Which kind of stable, or of change, a scored group shows."""

    STABLE_CORRECT = "stable_correct"
    STABLE_WRONG = "stable_wrong"
    DEGRADED = "degraded"
    IMPROVED = "improved"


class GroupScore(NamedTuple):
    """The score of one group and its components.

    Scores, means and worst values lie in 0..1; `mean_correctness_drop` is signed, in -1..1. Means and worst
    values are over judged pairs. Everything that is not known is null; the two counts never are.
    """

    status: Status
    score: float | None = None
    unscored_reason: UnscoredReason | None = None
    base_correctness: float | None = None
    mean_perturbed_correctness: float | None = None
    mean_correctness_drop: float | None = None
    mean_robustness: float | None = None
    worst_correctness: float | None = None
    worst_robustness: float | None = None
    outcome: Outcome | None = None
    pairs_total: int = 0
    pairs_scored: int = 0


def combine(mean_robustness: float, mean_drop: float) -> float:
    """Return `0.5 * mean_robustness + 0.5 * clamp(1 - mean_drop, 0, 1)`, the formula of the metric 1.0.0.

    The clamp to 1 keeps a wrong baseline with right variants (a negative drop) within 0..1.
    """
    return 0.5 * mean_robustness + 0.5 * min(1.0, max(0.0, 1.0 - mean_drop))


def score_group(
    base_correctness: float | None,
    pairs: Sequence[tuple[float | None, float | None]],
    *,
    min_coverage: float,
    base_reason: UnscoredReason | None = None,
    pair_reason: UnscoredReason | None = None,
) -> GroupScore:
    """Return the score of a group from its verdicts; the order of the pairs changes not a bit of it.

    Args:
        base_correctness: the baseline's verdict in 0..1; null if it has none.
        pairs: (perturbed correctness, robustness) of each variant that counts, each in 0..1 or null. A pair
            is judged if both are there and the baseline's verdict is too.
        min_coverage: the share of pairs, in 0..1, that must be judged for a score.
        base_reason: why the baseline has no verdict.
        pair_reason: why the pairs have none, told if not one of them was judged.

    Returns:
        `scored`, `partial` (some pair unjudged) or `unscored` with its reason, the baseline's verdict and
        the counts; `no_variants` without any pair.
    """
    if not pairs:
        return GroupScore(Status.NO_VARIANTS, base_correctness=base_correctness)
    if base_correctness is None:
        return _unscored(None, base_reason, len(pairs), 0)
    judged = [(c, r) for c, r in pairs if c is not None and r is not None]
    if not judged:
        return _unscored(base_correctness, pair_reason, len(pairs), 0)
    if len(judged) / len(pairs) < min_coverage:
        return _unscored(base_correctness, None, len(pairs), len(judged))
    return _scored(base_correctness, judged, len(pairs))


def unscorable(status: Status) -> GroupScore:
    """Return the result of a group that is not judged at all: no baseline, no variant, no original query."""
    return GroupScore(status)


def _unscored(base: float | None, reason: UnscoredReason | None, total: int, judged: int) -> GroupScore:
    # the means of too few pairs stay null: someone would take them for the group's
    return GroupScore(
        Status.UNSCORED,
        unscored_reason=reason or UnscoredReason.INSUFFICIENT_COVERAGE,
        base_correctness=base,
        pairs_total=total,
        pairs_scored=judged,
    )


def _scored(base: float, judged: Sequence[tuple[float, float]], total: int) -> GroupScore:
    count = len(judged)
    # fsum rounds once, whatever the order: the same verdicts give the same bits
    drop = math.fsum([base - c for c, _ in judged]) / count
    robustness = math.fsum([r for _, r in judged]) / count
    return GroupScore(
        status=Status.SCORED if count == total else Status.PARTIAL,
        score=combine(robustness, drop),
        base_correctness=base,
        mean_perturbed_correctness=math.fsum([c for c, _ in judged]) / count,
        mean_correctness_drop=drop,
        mean_robustness=robustness,
        worst_correctness=min(c for c, _ in judged),
        worst_robustness=min(r for _, r in judged),
        outcome=_outcome(base, drop),
        pairs_total=total,
        pairs_scored=count,
    )


def _outcome(base: float, drop: float) -> Outcome:
    if drop > _NO_DROP:
        return Outcome.DEGRADED
    if drop < -_NO_DROP:
        return Outcome.IMPROVED
    return Outcome.STABLE_CORRECT if base >= CORRECT_FROM else Outcome.STABLE_WRONG
