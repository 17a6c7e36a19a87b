"""Reads a judge's reply into a score in 0..1 and its reasoning, or says why it can't be read.

A reply is first parsed whole, as JSON. Only if that fails is it scanned from left to right for thoughts and
for JSON objects, and only an object that is not JSON is repaired. Everything that claims a score must claim
the same one: a verdict may be a quotation of what the judged answer planted. In doubt there is no score.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from json import JSONDecoder
from typing import Any, NamedTuple

from prspark.metric.reasons import UnscoredReason

_CUT_REASONS = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_REASONING_KEYS = ("reasoning", "rationale", "reason", "explanation", "thought", "thoughts")

# More than any reply needs. Each object that is not JSON costs a pass over the text before it (Python's JSON
# counts the lines for its error), so their number bounds the work on a hostile reply.
_MAX_NOT_JSON = 16

# Stands in the text for an object that was read.
_OBJECT = "\ufffc"

_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*|,[0-9]+)?|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?"
_VALUE = rf"{_NUMBER}(?:\s*%|\s*(?:/|out\s+of)\s*{_NUMBER})?"
_WRITTEN = re.compile(rf"\s*+({_NUMBER})\s*+(?:(%)|(?:/|out\s++of)\s*+({_NUMBER}))?\s*+", re.IGNORECASE)
_NOT_FINITE = re.compile(r"\s*[-+]?(?:nan|inf|infinity)\s*", re.IGNORECASE)
# 1,000 is a thousand to some and one to others
_THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2},[0-9]{3}")

_THINK = r"(?:think|thinking|thought|thoughts|reasoning|analysis|scratchpad)"
_OPEN = rf"^[ \t\ufeff]*(?:<{_THINK}>|\[THINK\]|◁think▷|<\|channel\|>(?:analysis|commentary)\b)"
_CLOSE = rf"</{_THINK}>|\[/THINK\]|◁/think▷|<\|channel\|>final\b"
_CLOSE_MARK = re.compile(_CLOSE, re.IGNORECASE)
_MARK = re.compile(
    rf"(?P<open>{_OPEN})|(?P<close>{_CLOSE})|(?P<object>\{{(?=\s*+(?:[\"'“}}]|//|/\*|\w++\s*+:)))",
    re.IGNORECASE | re.MULTILINE,
)
_BLANK_OR_FENCE = r"[\s\ufeff]*+(?:```\w*\s*+)?"
_NOTHING_YET = re.compile(_BLANK_OR_FENCE)
_STARTS_WITH_OBJECT = re.compile(_BLANK_OR_FENCE + _OBJECT)

# A score that a line states, and one that a sentence at the very end states. A range (0.5-0.7) is none.
_STATED = (
    r"(?:(?:final|overall|my|the)\s+){0,2}score[ \t*_`\"']*(?:[:\uff1a=]|is\b)[ \t*_`\"']*"
    rf"(?P<value>{_VALUE})"
    r"(?![\w%/]|[.,][0-9]|\s*(?:[-\u2013\u2014~/]|to\b|or\b|and\b|of\b|out\b)\s*[0-9.])"
)
_STATED_LINE = re.compile(rf"^[ \t*_#`\u2022-]*{_STATED}", re.IGNORECASE | re.MULTILINE)
_STATED_LAST = re.compile(rf"(?<=[.!?)]\s){_STATED}[\s*_`.]*\Z", re.IGNORECASE)
# A verdict's score outside every object that could be read.
_STRAY = re.compile(rf"[\"'“]score[\"'”]\s*:\s*[\"']?({_VALUE})", re.IGNORECASE)

# A quote ends a string only where JSON could go on; elsewhere it is a quote that somebody forgot to escape.
_GOES_ON = r"(?=\s*+(?:[,:}\]#]|//|/\*|\Z))"
# Atomic groups, not possessive repeats: Python before 3.11.5 matches a repeated group that backtracks wrongly.
_TOKEN = re.compile(
    rf"""(?P<space>\s++|//[^\n]*+|\#[^\n]*+|/\*(?>(?:[^*]|\*(?!/))*)\*/)
    |(?P<string>"(?>(?:[^"\\]|\\.|"(?!{_GOES_ON}))*)"|'(?>(?:[^'\\]|\\.|'(?!{_GOES_ON}))*)'|“[^”]*+”)
    |(?P<number>[-+]?(?:[0-9]+(?:\.[0-9]*|,[0-9]+(?=\s*[,}}\]]))?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?
        (?:\s*%|\s*(?:/|out\s+of)\s*{_NUMBER})?)
    |(?P<word>-?[^\W\d][\w-]*+)
    |(?P<sign>[{{}}\[\],:])""",
    re.VERBOSE | re.DOTALL,
)
_BRACE = re.compile(r"[{}]")
_INNER = re.compile(r"""\\(["\\/bfnrt']|u[0-9a-fA-F]{4})?|\"""")
_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null", "undefined": "null"}

# Objects become tuples of pairs, so that a key that comes twice is seen. Every number is a float: an integer
# of thousands of digits is infinite, not an error. Literal newlines in strings are let through.
_DECODER = JSONDecoder(object_pairs_hook=tuple, parse_int=float, strict=False)

_Object = tuple[tuple[str, Any], ...]


class Reply(NamedTuple):
    """What a reply says: a score in 0..1 with its reasoning, or the problem why there is no score."""

    score: float | None
    reasoning: str | None
    problem: UnscoredReason | None


def read_reply(
    text: str | None, *, finish_reason: str | None = None, scale_max: float = 1.0, max_chars: int = 200_000
) -> Reply:
    """Read one reply. Never raises; its work is bounded by `max_chars`, whatever the reply holds.

    Args:
        text: what the judge wrote; null or blank is `empty_reply`.
        finish_reason: why the endpoint stopped; `length` and its likes make an incomplete verdict
            `truncated_reply`.
        scale_max: what a bare number is divided by. A written denominator (`8/10`, `80 %`) is used instead.
        max_chars: a longer reply is `reply_too_large`.

    Returns:
        A score in 0..1, or a null score with its problem: `empty_reply`, `reply_too_large`,
        `truncated_reply`, `unreadable_reply`, `score_out_of_range` or `conflicting_verdicts`.
    """
    if text is None or not text.strip():
        return _unread(UnscoredReason.EMPTY_REPLY)
    if len(text) > max_chars:
        return _unread(UnscoredReason.REPLY_TOO_LARGE)
    whole = _whole(text)
    if isinstance(whole, str):  # a verdict that was encoded twice
        text, whole = whole, _whole(whole)
    if isinstance(whole, tuple):
        return _decide(_scores([whole], scale_max), _reasoning([whole]))
    return _read_scan(_scan(text), scale_max, (finish_reason or "").lower() in _CUT_REASONS)


@dataclass
class _Scan:
    """What a reply holds outside its thoughts: objects, the text around them, and what went wrong."""

    objects: list[_Object] = field(default_factory=list)
    around: list[str] = field(default_factory=list)
    broken: bool = False
    unclosed: bool = False
    not_json: int = 0
    # thoughts have ended, or can't end any more: what looks like their end is text
    thought: bool = False

    def may_be_thought(self) -> bool:
        """Tell whether all so far can be thoughts that were not opened. A verdict at the start can't be."""
        return not self.thought and _NOTHING_YET.fullmatch(self.around[0]) is None

    def forget(self) -> None:
        self.objects.clear()
        self.around.clear()
        self.broken = False
        self.thought = True


def _read_scan(scan: _Scan, scale_max: float, cut: bool) -> Reply:
    if scan.unclosed:
        return _unread(UnscoredReason.TRUNCATED_REPLY)
    text = "".join(scan.around)
    if scan.not_json > _MAX_NOT_JSON:  # not all was read: a verdict may be missing
        return _unread(UnscoredReason.UNREADABLE_REPLY)
    claims = _scores(scan.objects, scale_max)
    if not claims:
        return _read_plain(text, scale_max, cut=cut, broken=scan.broken)
    if cut and not _STARTS_WITH_OBJECT.match(text):  # prose that quotes a verdict and never came to its own
        return _unread(UnscoredReason.TRUNCATED_REPLY)
    stray = [found[1] for found in _STRAY.finditer(text)]
    stated = [found["value"] for found in _stated(text)]
    claims += [_score(value, scale_max) for value in stray + stated]
    return _decide(claims, _reasoning(scan.objects))


def _read_plain(text: str, scale_max: float, *, cut: bool, broken: bool) -> Reply:
    """Read a reply without JSON: a bare number, or text that states its score."""
    if cut:  # "Score: 0" may have become 0.8
        return _unread(UnscoredReason.TRUNCATED_REPLY)
    bare = _score(text.strip(" \t\r\n*_`").rstrip("."), scale_max)
    if bare is not None:
        return _decide([bare], None)
    stated = [] if broken else _stated(text)
    if not stated:
        return _unread(UnscoredReason.UNREADABLE_REPLY)
    return _decide([_score(found["value"], scale_max) for found in stated], _clean(text.strip()))


def _stated(text: str) -> list[re.Match[str]]:
    last = _STATED_LAST.search(text)
    return [*_STATED_LINE.finditer(text), *([last] if last else [])]


def _decide(claims: list[float | None], reasoning: str | None) -> Reply:
    """Return the score that all claims share."""
    first = claims[0] if claims else None
    if len(claims) > 1 and not all(_same(first, other) for other in claims):
        return _unread(UnscoredReason.CONFLICTING_VERDICTS)
    if first is None:
        return _unread(UnscoredReason.UNREADABLE_REPLY)
    if not 0 <= first <= 1:  # also NaN, which is neither
        return _unread(UnscoredReason.SCORE_OUT_OF_RANGE)
    return Reply(abs(first), reasoning, None)  # abs: -0.0 is 0


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))


def _unread(problem: UnscoredReason) -> Reply:
    return Reply(None, None, problem)


def _scores(objects: Iterable[_Object], scale_max: float) -> list[float | None]:
    """Return what the objects' own `score` keys say; a nested object's score is not the verdict's."""
    return [
        _score(value, scale_max)
        for pairs in objects
        for key, value in pairs
        if key.strip().lower() == "score"
    ]


def _score(value: object, scale_max: float) -> float | None:
    """Return a written score as a share of its scale: NaN if it is not finite, null if it is no number."""
    if isinstance(value, float):
        return value / scale_max
    if not isinstance(value, str):
        return None
    written = _WRITTEN.fullmatch(value)
    if written is None:
        return math.nan if _NOT_FINITE.fullmatch(value) else None
    number, percent, denominator = written.groups()
    share = _float(number)
    scale = 100.0 if percent else _float(denominator) if denominator else scale_max
    return share / scale if share is not None and scale else None


def _float(number: str) -> float | None:
    """Return a number with a decimal point or comma; null if the comma may as well group thousands."""
    if "," in number:
        if _THOUSANDS.fullmatch(number):
            return None
        number = number.replace(",", ".")
    return float(number)


def _reasoning(objects: list[_Object]) -> str | None:
    """Return the last object's reasoning, under the first of its names that holds text."""
    for pairs in reversed(objects):
        texts = {key.strip().lower(): value for key, value in pairs if isinstance(value, str)}
        for name in _REASONING_KEYS:
            if name in texts:
                return _clean(texts[name])
    return None


def _clean(text: str) -> str:
    """Replace lone surrogates, which no Arrow column can hold."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _whole(text: str) -> object:
    try:
        return _DECODER.decode(text.strip("\ufeff \t\r\n"))
    except (ValueError, RecursionError):
        return None


def _scan(text: str) -> _Scan:
    """Read the objects of a reply from left to right; what a think block holds is left out."""
    scan, at = _Scan(), 0
    while scan.not_json <= _MAX_NOT_JSON and (mark := _MARK.search(text, at)) is not None:
        scan.around.append(text[at : mark.start()])
        at = _step(scan, text, mark)
    scan.around.append(text[at:])
    return scan


def _step(scan: _Scan, text: str, mark: re.Match[str]) -> int:
    """Take what stands at a mark; return where to go on."""
    if mark["object"]:
        return _step_object(scan, text, mark.start())
    if mark["close"]:
        if scan.may_be_thought():
            scan.forget()
        return mark.end()
    scan.thought = True
    closer = _CLOSE_MARK.search(text, mark.end())
    scan.unclosed |= closer is None
    return len(text) if closer is None else closer.end()


def _step_object(scan: _Scan, text: str, start: int) -> int:
    read = _strict_at(text, start)
    if read is None:
        scan.not_json += 1
        read = _repaired_at(text, start)
    if read is None:
        return _skip_object(scan, text, start)
    scan.objects.append(read[0])
    scan.around.append(_OBJECT)
    return read[1]


def _skip_object(scan: _Scan, text: str, start: int) -> int:
    """Leave out a broken object as a whole: what is nested in it is not the verdict."""
    if scan.may_be_thought():  # a brace in thoughts may seem to hold all that follows
        closer = _CLOSE_MARK.search(text, start)
        if closer is not None:
            scan.forget()
            return closer.end()
        scan.thought = True
    end = _balanced_end(text, start)
    scan.broken = True
    scan.unclosed |= end is None
    scan.around.append(text[start:end])
    return len(text) if end is None else end


def _balanced_end(text: str, start: int) -> int | None:
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return None


def _strict_at(text: str, start: int) -> tuple[_Object, int] | None:
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None


def _repaired_at(text: str, start: int) -> tuple[_Object, int] | None:
    """Read an object that is nearly JSON: comments, trailing commas, quotes, bare words and numbers."""
    pieces: list[str] = []
    depth, at = 0, start
    while (token := _TOKEN.match(text, at)) is not None:
        at = token.end()
        if token.lastgroup == "space":
            continue
        piece = _piece(token)
        if piece in ("}", "]") and pieces[-1] == ",":
            pieces.pop()
        pieces.append(piece)
        depth += (piece in ("{", "[")) - (piece in ("}", "]"))
        if depth == 0:
            read = _whole("".join(pieces))
            return (read, at) if isinstance(read, tuple) else None
    return None


def _piece(token: re.Match[str]) -> str:
    """Return a token as JSON; numbers as text, because they may be written as 8/10."""
    text = token[0]
    match token.lastgroup:
        case "string":
            return f'"{_INNER.sub(_escape, text[1:-1])}"'
        case "word":
            return _WORDS.get(text.lower(), f'"{text}"')
        case "number":
            return f'"{text}"'
        case _:
            return text


def _escape(found: re.Match[str]) -> str:
    r"""Return a valid escape for a bare quote and for a backslash that starts none, such as \$."""
    if found[0] == '"':
        return '\\"'
    if found[1] is None:
        return "\\\\"
    return "'" if found[1] == "'" else found[0]
