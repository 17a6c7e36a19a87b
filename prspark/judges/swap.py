"""Judges a pair in both orders: a judge that prefers what it reads first is averaged out."""

from prspark.judges.protocol import RobustnessRequest, Verdict


def swapped(request: RobustnessRequest) -> RobustnessRequest:
    """Return the same pair in the other order."""
    return RobustnessRequest(
        original_question=request.reworded_question,
        original_answer=request.reworded_answer,
        reworded_question=request.original_question,
        reworded_answer=request.original_answer,
    )


def both(first: Verdict, second: Verdict) -> Verdict:
    """Return the mean of the verdicts on both orders, or why there is none."""
    scored = first.score is not None and second.score is not None
    return Verdict(
        score=(first.score + second.score) / 2 if scored else None,  # type: ignore[operator]  # `scored` says so
        reason=f"{first.reason} | other order: {second.reason}" if scored else second.reason,
        unscored_reason=first.unscored_reason or second.unscored_reason,
        attempts=first.attempts + second.attempts,
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        completion_tokens=first.completion_tokens + second.completion_tokens,
        latency_seconds=first.latency_seconds + second.latency_seconds,
        throttled=first.throttled + second.throttled,
    )
