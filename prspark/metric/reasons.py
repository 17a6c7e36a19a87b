"""The closed list of reasons why something has no verdict or no score."""

from enum import StrEnum


class UnscoredReason(StrEnum):
    """Why a row's verdict, or its group's score, is null. Users filter on these words: a contract."""

    # of a row, before any judge is asked
    EMPTY_PROMPT = "empty_prompt"
    UNSUPPORTED_TASK_TYPE = "unsupported_task_type"
    MISSING_RESPONSE = "missing_response"
    # of a judge that needs what the row lacks
    REFERENCE_REQUIRED = "reference_required"
    # of a judge's reply, after all attempts
    UNREADABLE_REPLY = "unreadable_reply"
    SCORE_OUT_OF_RANGE = "score_out_of_range"
    CONFLICTING_VERDICTS = "conflicting_verdicts"
    TRUNCATED_REPLY = "truncated_reply"
    EMPTY_REPLY = "empty_reply"
    REPLY_TOO_LARGE = "reply_too_large"
    # of an endpoint
    CONTENT_FILTER = "content_filter"
    CONTEXT_TOO_LONG = "context_too_long"
    REQUEST_REFUSED = "request_refused"
    RATE_LIMITED = "rate_limited"
    ENDPOINT_ERROR = "endpoint_error"
    CONNECTION_FAILED = "connection_failed"
    TIMEOUT = "timeout"
    JUDGE_ERROR = "judge_error"
    # of a group or a run
    GROUP_TIMEOUT = "group_timeout"
    NOT_IN_JOURNAL = "not_in_journal"
    INSUFFICIENT_COVERAGE = "insufficient_coverage"
