"""What calibrating a judge found, as numbers, as a table and as JSON. Pure Python."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from prspark.insight import statistics
from prspark.insight.statistics import THRESHOLD, Confusion, Spread


class Said(NamedTuple):
    """A verdict as far as agreement needs it: a score in 0..1, or null and the reason why."""

    score: float | None
    unscored_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well a judge agrees with people, and with itself.

    All shares lie in 0..1, kappa in -1..1; what can't be computed is null. A score, and a graded label, of
    `threshold` or more counts as correct.

    Attributes:
        label: where the labels are.
        judge: kind and model.
        judge_identity: what else its verdicts depend on; part of their journal keys.
        labelled: rows with a label.
        unlabelled: rows without one.
        accuracy: like kappa, AUROC and `confusion`, over labelled rows with a score; of several, the first.
        cohen_kappa: agreement beyond chance.
        auroc: null unless some score lies between 0 and 1.
        confusion: labels against decisions, in rows; correct is positive.
        unscored_share: labelled rows without a score; `unscored` counts them by reason.
        unscored: see `unscored_share`.
        repeat: how often each row was judged.
        repeats: how far the scores of a row vary; null if each was judged once.
        order_swap: how far the scores of a pair vary between its two orders; null if not asked. Its
            `flipped_share` is the order-swap disagreement. Pairs that need no call are left out.
        calls: sent by this run, by kind; empty for a judge whose calls are free.
        in_journal: verdicts that were paid for before.
        threshold: the least score that counts as correct.
    """

    label: str
    judge: str
    judge_identity: str
    labelled: int
    unlabelled: int
    accuracy: float | None
    cohen_kappa: float | None
    auroc: float | None
    confusion: Confusion
    unscored_share: float | None
    unscored: dict[str, int]
    repeat: int = 1
    repeats: Spread | None = None
    order_swap: Spread | None = None
    calls: dict[str, int] = field(default_factory=dict)
    in_journal: int = 0
    threshold: float = THRESHOLD

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `--format json` and `--output` write it."""
        return asdict(self)

    def to_text(self) -> str:
        """Return a table for people, without a line break at the end."""
        lines = list(self._lines())
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in lines)

    def _lines(self) -> Iterable[tuple[str, str]]:
        yield "judge", self.judge
        yield "label", self.label
        yield "labelled rows", f"{self.labelled}"
        yield "unlabelled rows", f"{self.unlabelled}"
        yield "accuracy", _number(self.accuracy)
        yield "Cohen's kappa", _number(self.cohen_kappa)
        yield "AUROC", _number(self.auroc)
        yield "unscored share", _number(self.unscored_share)
        for reason, count in self.unscored.items():
            yield f"  {reason}", f"{count}"
        yield from self._confusion_lines()
        if self.repeats:
            yield from _spread_lines(f"rows judged {self.repeat} times", self.repeats)
        if self.order_swap:
            yield from _spread_lines("pairs judged in both orders", self.order_swap)

    def _confusion_lines(self) -> Iterable[tuple[str, str]]:
        counts = self.confusion
        yield "confusion", f"{'judge: correct':>16}{'judge: wrong':>16}"
        yield "  label: correct", f"{counts.true_positive:>16}{counts.false_negative:>16}"
        yield "  label: wrong", f"{counts.false_positive:>16}{counts.true_negative:>16}"


def agreement(labels: Sequence[float], said: Sequence[Said], **about: Any) -> Agreement:
    """Compare labels with verdicts, row by row; `about` are the fields of `Agreement` beside that.

    Args:
        labels: what people said of each labelled row, 0..1.
        said: what the judge said of it.
        about: `label`, `judge` and the like.

    Raises:
        ValueError: the two differ in length.
    """
    correct = [label >= THRESHOLD for label in labels]
    scores = [verdict.score for verdict in said]
    counts = statistics.confusion(correct, scores)
    return Agreement(
        labelled=len(labels),
        accuracy=statistics.accuracy(counts),
        cohen_kappa=statistics.cohen_kappa(counts),
        auroc=statistics.auroc(correct, scores) if _graded(scores) else None,
        confusion=counts,
        unscored_share=counts.unscored_share,
        unscored=_by_reason(said),
        **about,
    )


def _graded(scores: Iterable[float | None]) -> bool:
    return any(score is not None and 0 < score < 1 for score in scores)


def _by_reason(said: Iterable[Said]) -> dict[str, int]:
    """Count the verdicts without a score by reason, the most frequent first."""
    counts = Counter(verdict.unscored_reason or "unknown" for verdict in said if verdict.score is None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4f}"


def _spread_lines(title: str, found: Spread) -> Iterable[tuple[str, str]]:
    yield title, f"{found.items}"
    yield "  mean deviation", _number(found.mean_deviation)
    yield "  decision changes", _number(found.flipped_share)
    yield "  unscored", f"{found.unscored}"
