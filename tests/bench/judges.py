"""Judges for benchmarks: one that answers at once, and one that does and counts as paid."""

from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest, Verdict

_RIGHT = Verdict(1.0, "instant", attempts=1)


class InstantJudge:
    """Answers at once, so that what is measured is everything around the judge."""

    free = True
    identity = "instant/1"

    def correctness(self, request: CorrectnessRequest) -> Verdict:  # noqa: ARG002  it does not read it
        """Say right."""
        return _RIGHT

    def robustness(self, request: RobustnessRequest) -> Verdict:  # noqa: ARG002  it does not read it
        """Say the same."""
        return _RIGHT


class PaidInstantJudge(InstantJudge):
    """The same, but each verdict is journalled as if it had been paid for."""

    free = False
    identity = "paid-instant/1"
