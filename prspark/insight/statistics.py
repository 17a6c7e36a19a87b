"""How well a judge agrees with labels and with itself: accuracy, kappa, AUROC, confusion, spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

# A score of this or more says "correct" or "the same".
THRESHOLD = 0.5


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """How often label and decision agree and differ, in items.

    `unscored` items have no score and `unlabelled` ones no label (nor, maybe, a score); neither is counted
    elsewhere.
    """

    true_positive: int = 0
    false_positive: int = 0
    true_negative: int = 0
    false_negative: int = 0
    unscored: int = 0
    unlabelled: int = 0

    @property
    def judged(self) -> int:
        """Items that have both a label and a score."""
        return self.true_positive + self.false_positive + self.true_negative + self.false_negative

    @property
    def unscored_share(self) -> float | None:
        """Share, 0..1, of the labelled items that have no score; null without labelled items."""
        labelled = self.judged + self.unscored
        return self.unscored / labelled if labelled else None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How far repeated judging of the same items varies.

    `items` were scored at least twice; `unscored` counts the null scores of all items. `mean_deviation` is
    the mean over items of the population standard deviation of an item's scores; `flipped_share` the share,
    0..1, of items whose scores fall on both sides of the threshold. Both are null without items.
    """

    items: int
    unscored: int
    mean_deviation: float | None
    flipped_share: float | None


def confusion(
    labels: Sequence[bool | None], scores: Sequence[float | None], *, threshold: float = THRESHOLD
) -> Confusion:
    """Count labels against decisions, score >= threshold being positive.

    Args:
        labels: what is true of each item; null where nobody said.
        scores: the judge's score of each item, 0..1; null where it gave none.
        threshold: the least score that decides for positive.

    Raises:
        ValueError: the two differ in length.
    """
    counts = {(True, True): 0, (False, True): 0, (False, False): 0, (True, False): 0}
    unscored = unlabelled = 0
    for label, score in zip(labels, scores, strict=True):
        if label is None:
            unlabelled += 1
        elif score is None:
            unscored += 1
        else:
            counts[bool(label), score >= threshold] += 1
    return Confusion(
        true_positive=counts[True, True],
        false_positive=counts[False, True],
        true_negative=counts[False, False],
        false_negative=counts[True, False],
        unscored=unscored,
        unlabelled=unlabelled,
    )


def accuracy(counts: Confusion) -> float | None:
    """Return the share, 0..1, of judged items whose decision equals the label; null without any."""
    if not counts.judged:
        return None
    return (counts.true_positive + counts.true_negative) / counts.judged


def cohen_kappa(counts: Confusion) -> float | None:
    """Return Cohen's kappa of label and decision, -1..1: agreement beyond chance (Cohen 1960).

    kappa = (observed - expected) / (1 - expected), `expected` being what the two margins give by chance. Null
    without judged items, and where chance alone agrees fully (one class only, on both sides).
    """
    total = counts.judged
    if not total:
        return None
    labelled = counts.true_positive + counts.false_negative
    decided = counts.true_positive + counts.false_positive
    # whole numbers, so that "chance agrees fully" is exact: everything is multiplied by total * total
    expected = labelled * decided + (total - labelled) * (total - decided)
    observed = (counts.true_positive + counts.true_negative) * total
    return (observed - expected) / (total * total - expected) if expected != total * total else None


def auroc(labels: Sequence[bool | None], scores: Sequence[float | None]) -> float | None:
    """Return the area under the ROC curve, 0..1: how often a positive item outscores a negative, ties half.

    Computed from mid-ranks (Mann-Whitney U). Items without label or score are left out. Null where a class is
    missing.

    Raises:
        ValueError: the two differ in length.
    """
    judged = [
        (score, bool(label))
        for label, score in zip(labels, scores, strict=True)
        if label is not None and score is not None
    ]
    positives = sum(label for _, label in judged)
    negatives = len(judged) - positives
    if not positives or not negatives:
        return None
    wins = _positive_rank_sum(sorted(judged)) - positives * (positives + 1) / 2
    return wins / (positives * negatives)


def _positive_rank_sum(ordered: list[tuple[float, bool]]) -> float:
    """Return the sum of the positives' ranks, from 1; equal scores share the middle of their ranks."""
    total, start = 0.0, 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end][0] == ordered[start][0]:
            end += 1
        total += sum(label for _, label in ordered[start:end]) * (start + 1 + end) / 2
        start = end
    return total


def spread(repeats: Sequence[Sequence[float | None]], *, threshold: float = THRESHOLD) -> Spread:
    """Return how far repeated scores vary; each of `repeats` is one item's scores, null where unscored."""
    scored = [[score for score in item if score is not None] for item in repeats]
    unscored = sum(map(len, repeats)) - sum(map(len, scored))
    several = [item for item in scored if len(item) > 1]
    if not several:
        return Spread(items=0, unscored=unscored, mean_deviation=None, flipped_share=None)
    return Spread(
        items=len(several),
        unscored=unscored,
        mean_deviation=fmean(map(pstdev, several)),
        flipped_share=fmean(min(item) < threshold <= max(item) for item in several),
    )
