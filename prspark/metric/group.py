"""Tell the baseline of a group from its variants, its repeats and the rows that take no part."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any
from unicodedata import normalize

from prspark.metric.conversation import Turn, read_answer, read_prompt
from prspark.metric.reasons import UnscoredReason
from prspark.metric.score import Status

TASK_TYPES = frozenset({"single_turn_llm", "multi_turn_llm", "single_turn_rag", "multi_turn_rag"})
_ORIGINAL = frozenset({"original", "baseline"})


class Role(StrEnum):
    """What a row is in its group. Users filter on these words: they are a contract."""

    BASELINE = "baseline"
    VARIANT = "variant"
    REPEAT = "repeat"
    EXCLUDED = "excluded"


class Match(StrEnum):
    """How the baseline's question equals the original query.

    `exact`; `normalized`, after trim and NFC; `collapsed`, after white-space collapse too. Never case-folded:
    a change of case is a perturbation.
    """

    EXACT = "exact"
    NORMALIZED = "normalized"
    COLLAPSED = "collapsed"


_MATCHES = tuple(Match)
# Looked up once: in Python 3.11 looking up a member costs more than comparing it, and every row does.
_VARIANT, _EXCLUDED, _MISSING_RESPONSE = Role.VARIANT, Role.EXCLUDED, UnscoredReason.MISSING_RESPONSE


@dataclass(slots=True)  # not frozen: made for every row, and freezing at least doubles the cost
class Answer:
    """One row of a group: a question, the answer a system gave, and what comes with them.

    `row_key` is the caller's own handle of the row; it decides between rows that are alike in all else.
    """

    query: str | None
    answer: str | None
    input_id: str | None = None
    history: tuple[Turn, ...] = ()
    reference: str | None = None
    context: str | None = None
    perturbation_type: str | None = None
    task_type: str | None = None
    row_key: tuple[int, ...] | None = None


@dataclass(slots=True)
class Classified:
    """What a group's rows are; the lists hold one entry a row, in the order of the rows.

    Attributes:
        status: why the group is not judged; null if it may be.
        baseline: the baseline's place among the rows; null if it is not among them.
        match: how the baseline's question equals the original query; null without a baseline.
        roles: each row's role.
        reasons: why a row takes no part (`empty_prompt`, `unsupported_task_type`) or lacks its answer
            (`missing_response`); null otherwise.
        counted: whether a row is a variant that enters the means; of identical ones, one does.
    """

    status: Status | None
    baseline: int | None
    match: Match | None
    roles: list[Role]
    reasons: list[UnscoredReason | None]
    counted: list[bool]


def read_answer_row(
    *,
    prompt: str | None,
    sut_response: str | None,
    query: str | None = None,
    input_id: str | None = None,
    reference: str | None = None,
    context: str | None = None,
    perturbation_type: str | None = None,
    task_type: str | None = None,
    row_key: tuple[int, ...] | None = None,
) -> Answer:
    """Return a row's question and answer, read from plain text or message lists.

    Args:
        prompt: plain text or a message list as JSON; see `read_prompt`. Earlier turns are the history.
        sut_response: plain text or a message list as JSON; see `read_answer`.
        query: the question where the row states one; null takes it from `prompt`.
        input_id: the row's identifier, as text.
        reference: the right answer, if known.
        context: the passages that a right answer rests on, if known.
        perturbation_type: what the row says was done to the question.
        task_type: what the row says it is; null is fine.
        row_key: the caller's handle of the row.
    """
    asked, history = read_prompt(prompt)
    return Answer(
        asked if query is None else query,
        read_answer(sut_response),
        input_id,
        history,
        reference,
        context,
        perturbation_type,
        task_type,
        row_key,
    )


def match_tier(query: str | None, original_query: str) -> int | None:
    """Return 0 if the texts are equal, 1 after trim and NFC, 2 after white-space collapse too, else null.

    White space is Unicode's (no-break and ideographic spaces included; zero-width characters are none).
    """
    if query == original_query:
        return 0
    if query is None:
        return None
    left, right = normalize("NFC", query.strip()), normalize("NFC", original_query.strip())
    if left == right:
        return 1
    if left[:1] != right[:1] or left[-1:] != right[-1:]:  # most rewordings end here, unsplit
        return None
    return 2 if left.split() == right.split() else None


def baseline_rank(
    answer: Answer, original_query: str, *, numeric_ids: bool = False
) -> tuple[Any, ...] | None:
    """Return a row's rank as a baseline: of any rows, the smallest is the baseline; null if it can't be one.

    The order: the closer match, then the row whose `perturbation_type` says `original` or `baseline` (in any
    case), then the smallest `input_id` (null last), then, so that no order of rows matters, the texts and the
    row key. Ranks compare with each other, so the smallest of parts is the smallest of all.

    Args:
        answer: the row; one that takes no part in its group has no rank.
        original_query: the group's.
        numeric_ids: compare `input_id` as numbers; one that is no number comes after those that are.
    """
    if not _takes_part(_row_reason(answer)):
        return None
    tier = match_tier(answer.query, original_query)
    return None if tier is None else (tier, *_preference(answer, numeric_ids=numeric_ids))


def classify(
    answers: Sequence[Answer],
    original_query: str | None,
    *,
    baseline: Answer | None = None,
    numeric_ids: bool = False,
) -> Classified:
    """Return the role of each row of a group; the order of the rows changes no row's result.

    A row that matches the original query as closely as the baseline does is a `repeat`. One that matches
    less closely is a variant: spacing is a perturbation. Of variants with the same `input_id`, query and
    answer (null equals null) one is counted. A null or blank original query is missing: its rows belong to
    no group and are `excluded`. Without a baseline nothing is counted.

    Args:
        answers: all rows of the group, or one part of it.
        original_query: the group's.
        baseline: set if `answers` is a part: the row of least `baseline_rank` in the whole group, be it in
            this part or not. It is known by its `row_key`, or by its rank if that is null. `status` and
            `counted` then speak of this part alone, so identical rows must be in the same part.
        numeric_ids: compare `input_id` as numbers.
    """
    reasons = [_row_reason(answer) for answer in answers]
    if original_query is None or not original_query or original_query.isspace():
        return _no_group(Status.MISSING_ORIGINAL_QUERY, [_EXCLUDED] * len(answers), reasons)
    roles = [_VARIANT if _takes_part(reason) else _EXCLUDED for reason in reasons]
    tier, matching = _best_matches(answers, roles, original_query, baseline)
    if tier is None:
        return _no_group(Status.MISSING_BASELINE, roles, reasons)
    chosen = _choose(answers, matching, baseline, numeric_ids=numeric_ids)
    for index in matching:
        roles[index] = Role.BASELINE if index == chosen else Role.REPEAT
    counted = _count_once(answers, roles)
    status = None if True in counted else Status.NO_VARIANTS
    return Classified(status, chosen, _MATCHES[tier], roles, reasons, counted)


def _no_group(status: Status, roles: list[Role], reasons: list[UnscoredReason | None]) -> Classified:
    return Classified(status, None, None, roles, reasons, [False] * len(roles))


def _row_reason(answer: Answer) -> UnscoredReason | None:
    query = answer.query
    if not query or query.isspace():
        return UnscoredReason.EMPTY_PROMPT
    if answer.task_type and answer.task_type not in TASK_TYPES:
        return UnscoredReason.UNSUPPORTED_TASK_TYPE
    return _MISSING_RESPONSE if answer.answer is None else None


def _takes_part(reason: UnscoredReason | None) -> bool:
    """Tell whether a row belongs to its group; one that merely lacks its answer does."""
    return reason is None or reason is _MISSING_RESPONSE


def _best_matches(
    answers: Sequence[Answer], roles: Sequence[Role], original_query: str, baseline: Answer | None
) -> tuple[int | None, list[int]]:
    """Return the tier of the group's baseline and the rows that match at that tier."""
    rows = [index for index, role in enumerate(roles) if role is _VARIANT]
    exact = [index for index in rows if answers[index].query == original_query]
    if exact:
        return 0, exact  # by far the most groups: nothing is normalised
    known = None if baseline is None else match_tier(baseline.query, original_query)
    if known == 0:
        return 0, []
    tiers = {index: match_tier(answers[index].query, original_query) for index in rows}
    best = known if known is not None else min((t for t in tiers.values() if t is not None), default=None)
    return best, [index for index, tier in tiers.items() if tier is not None and tier == best]


def _choose(
    answers: Sequence[Answer], matching: Sequence[int], baseline: Answer | None, *, numeric_ids: bool
) -> int | None:
    """Return the place of the baseline among the rows that match as closely as it does."""
    if baseline is not None and baseline.row_key is not None:
        return next((index for index in matching if answers[index].row_key == baseline.row_key), None)
    if baseline is None and len(matching) == 1:
        return matching[0]
    ranks = {index: _preference(answers[index], numeric_ids=numeric_ids) for index in matching}
    if baseline is None:
        return min(matching, key=ranks.__getitem__)
    wanted = _preference(baseline, numeric_ids=numeric_ids)
    return next((index for index in matching if ranks[index] == wanted), None)


def _count_once(answers: Sequence[Answer], roles: Sequence[Role]) -> list[bool]:
    """Mark the variants that count, of identical ones the one that ranks first and not the one seen first."""
    first: dict[tuple[str | None, ...], int] = {}
    for index, role in enumerate(roles):
        if role is _VARIANT:
            answer = answers[index]
            key = (answer.input_id, answer.query, answer.answer)
            other = first.setdefault(key, index)
            if other != index and _tie_break(answer) < _tie_break(answers[other]):
                first[key] = index
    counted = [False] * len(answers)
    for index in first.values():
        counted[index] = True
    return counted


def _preference(answer: Answer, *, numeric_ids: bool) -> tuple[Any, ...]:
    said = answer.perturbation_type
    says_original = said is not None and said.strip().casefold() in _ORIGINAL
    return (not says_original, _id_order(answer.input_id, numeric=numeric_ids), *_tie_break(answer))


def _id_order(input_id: str | None, *, numeric: bool) -> tuple[int, Decimal | int, str]:
    if input_id is None:
        return (2, 0, "")
    if not numeric:
        return (0, 0, input_id)
    try:
        number = Decimal(input_id)
    except (InvalidOperation, ValueError):
        return (1, 0, input_id)
    return (1, 0, input_id) if number.is_nan() else (0, number, input_id)


def _tie_break(answer: Answer) -> tuple[Any, ...]:
    """Order rows by all that could change a verdict; only rows alike in that are left to the row key."""
    texts = (answer.query, answer.answer, answer.reference, answer.context, answer.perturbation_type)
    key = answer.row_key
    return (
        *((text is None, text or "") for text in texts),
        answer.history,
        key is None,
        () if key is None else key,
    )
