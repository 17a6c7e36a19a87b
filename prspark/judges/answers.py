"""Find the final answer in what a system said, and the value that it states."""

import re
from typing import NamedTuple

from prspark.judges.values import Found, Number, Value, option_or_polarity, values_in

# An answer of this many words or fewer beside its value is nothing but an answer: "72 cubic inches", "x = 7".
_TERSE_WORDS = 3
_EQUATION_WORDS = 12
# A single line up to this many characters is read as one sentence.
_SHORT = 80


class FinalAnswer(NamedTuple):
    """What a text finally answers.

    `text` is the part that answers (all of it, if nothing marks a part); `value` what it states beyond doubt,
    as a marked, concluding or terse answer does; `number` the likeliest number all the same, for whoever
    knows that a number was asked for. Both are null if there is none.
    """

    text: str
    value: Value | None
    number: Value | None


_MARKER = re.compile(
    r"""(?<!if[ ])(?<!whether[ ])(?:
      \#{4}(?!\#)
    | \b(?:the|my)[ ](?:final[ ]|correct[ ]|right[ ])?answer[ ](?:is|=|would[ ]be)\b[*_]{0,3}[ ]?:?
    | \banswer[*_]{0,3}[ ]?(?:is[ ]?)?[:=]
    | ^[#*_ ]{0,8}(?:final[ ])?answer[*_ ]{0,4}$
    | (?:respuesta|réponse|antwort|resposta|risposta|ответ
        |답|정답|答案|答え|答|คำตอบ|الجواب|الإجابة)
      [*_]{0,3}(?:[ ](?:es|est|ist|é|è)(?!\w))?[ ]?(?:[:=]|是|为|為|は|คือ)[ ]?:?
    )[*_ \t]{0,8}""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_BOXED = "\\boxed{"
# After `plain`, full-width exclamation and question marks are ASCII ones.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+|(?<=。)")
_CONCLUSION = re.compile(
    r"\W*(?:so|therefore|thus|hence|consequently|altogether|overall|finally"
    r"|in (?:total|conclusion|summary|all)|this means|that means|based on"
    r"|we (?:get|conclude)|the (?:final|total|result)|answer)\b"
    r"|\W*(?:因此|所以|故|したがって|よって"  # the same in other languages
    r"|por (?:lo )?tanto|donc|somit|portanto|quindi|итак|следовательно)",
    re.IGNORECASE,
)
# What follows one of these is the alternative, not the answer.
_CONTRAST = re.compile(
    r",?\s(?:while|whereas|compared (?:to|with)|rather than|instead of|as opposed to|versus|vs\.?|because)\s",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\([^()]{0,200}\)")
_DETERMINERS = r"(?:(?:the|a|an|all|his|her|their|its|those|these|every|each|first|last)\s){0,3}$"
# A number after one of these tells the circumstances: $64 for 16 glasses.
_CIRCUMSTANCE = re.compile(
    r"\b(?:for|in|with|per|after|from|by|at|on|over|during|within|among|between|than|if|when|"
    rf"out\sof|each|every)\s{_DETERMINERS}",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?:\b(?:can)?not|n't)\s(?:(?!but\b)[a-z]+\s){0,2}\W?$", re.IGNORECASE)
_PART_OF = re.compile(rf"\bof\s{_DETERMINERS}", re.IGNORECASE)
# Enough to hold a preposition and its determiners.
_LOOK_BACK = 32
# More sentences than this from the end, nothing concludes any more.
_MAX_SENTENCES = 400


def final_answer(text: str) -> FinalAnswer:
    """Return the final answer of `plain` text. It reads each character a bounded number of times.

    A marked answer wins (`####`, `Answer:`, `The answer is`, a box), the last one if there are several.
    Without one, a closing conclusion, or a text that is no more than a value, states the answer.
    """
    boxed = _boxed(text) if _BOXED in text else None
    if boxed is not None:
        return _marked(boxed, boxed)
    marked = _last_marked(text) if _may_be_marked(text) else None
    return _marked(*marked) if marked else _unmarked(text)


def _may_be_marked(text: str) -> bool:
    return "####" in text or "answer" in text.lower() or not text.isascii()


def _boxed(text: str) -> str | None:
    r"""Return what the last \boxed{} holds, or null if it never closes or another mark follows."""
    start = text.rfind(_BOXED) + len(_BOXED)
    depth = 1
    for end in range(start, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if not depth:
            return None if _last_marked(text[end:]) else text[start:end]
    return None


def _last_marked(text: str) -> tuple[str, str] | None:
    """Return the line that the last marker with something after it opens, and all that follows the marker."""
    end = len(text.rstrip())
    last = None
    for match in _MARKER.finditer(text):
        if match.end() < end:
            last = match
    if last is None:
        return None
    after = text[last.end() :]
    rest = after.strip()
    line, _, more = rest.partition("\n")
    same_line = after.lstrip(" \t")[:1] != "\n"
    return (line if not more or _stands_alone(line, more, same_line=same_line) else rest), rest


def _stands_alone(line: str, more: str, *, same_line: bool) -> bool:
    """Tell whether the first line after a marker is the answer, and not the opening of one."""
    if line.rstrip("*_ ").endswith(":"):
        return False
    if same_line or len(line.split()) <= _TERSE_WORDS:
        return True
    return not more.split("\n", 1)[0].strip() and bool(values_in(line))


def _marked(line: str, rest: str) -> FinalAnswer:
    line = _without_remarks(line)
    number = _stated(line) if "\n" not in line else None
    if number is None:
        number = _concluded(rest)[0]
    return FinalAnswer(line, option_or_polarity(line) or number, number)


def _without_remarks(line: str) -> str:
    """Return the first sentence if it is no more than an answer, and a remark follows: `72. Let me know`."""
    if (end := _SENTENCE_END.search(line)) is None:
        return line
    first, remark = line[: end.start()], line[end.end() :]
    return first if first.count(" ") < _TERSE_WORDS < remark.count(" ") else line


def _unmarked(text: str) -> FinalAnswer:
    if len(text) <= _SHORT and "\n" not in text:
        return _short(text)
    number, concludes = _concluded(text)
    return FinalAnswer(text, number if concludes else None, number)


def _short(text: str) -> FinalAnswer:
    """Return the answer of a single line: beyond doubt if it is little more than a value with its unit."""
    found = values_in(text)
    if not found:
        choice = option_or_polarity(text) if text.count(" ") < _TERSE_WORDS else None
        return FinalAnswer(text, choice, None)
    value = _principal(text, found)
    if _is_terse(text, found):
        return FinalAnswer(text, option_or_polarity(text) or value, value)
    return FinalAnswer(text, value if _CONCLUSION.match(text) else None, value)


def _is_terse(text: str, found: list[Found]) -> bool:
    """Tell whether a text is nothing but a value, its unit and its name, or an equation."""
    if "=" in text:
        return text.count(" ") < _EQUATION_WORDS
    return (len(found) == 1 or len({each.value for each in found}) == 1) and _words_beside(
        text, found
    ) <= _TERSE_WORDS


def _words_beside(text: str, found: list[Found]) -> int:
    return len(text[: found[0].start].split()) + len(text[found[-1].end :].split())


def _concluded(text: str) -> tuple[Value | None, bool]:
    """Return the number that the text ends on, and whether it is its conclusion beyond doubt.

    The last sentence that opens as a conclusion goes before the last one with any number; it is beyond doubt
    only if no other statement follows.
    """
    fallback: Value | None = None
    first = True
    for sentence in reversed(_SENTENCE_END.split(text)[-_MAX_SENTENCES:]):
        if not sentence or sentence.isspace() or sentence.rstrip().endswith("?"):
            continue
        concludes = _CONCLUSION.match(sentence) is not None
        if concludes or fallback is None:
            value = _stated(sentence)
            if concludes and value is not None:
                return value, first
            fallback = fallback if fallback is not None else value
        first = False
    return fallback, False


def _stated(sentence: str) -> Value | None:
    found = values_in(sentence)
    return _principal(sentence, found) if found else None


def _principal(sentence: str, found: list[Found]) -> Value | None:
    """Return the value that a sentence is about: the result, no operand, alternative or circumstance.

    Null if it only says what the value is not.
    """
    if "not " in sentence or "n't " in sentence:
        found = [each for each in found if not _DENIED.search(_before(sentence, each))]
    if len(found) < 2:
        return found[0].value if found else None
    if contrast := _CONTRAST.search(sentence):
        found = [each for each in found if each.start < contrast.start()] or found
    if (sign := sentence.rfind("=")) >= 0 and (results := [each for each in found if each.start > sign]):
        return results[0].value
    return _head(sentence, _outside_brackets(sentence, found)).value


def _before(sentence: str, found: Found) -> str:
    return sentence[max(0, found.start - _LOOK_BACK) : found.start]


def _outside_brackets(sentence: str, found: list[Found]) -> list[Found]:
    spans = [match.span() for match in _BRACKETED.finditer(sentence)] if "(" in sentence else []
    return [each for each in found if not any(a <= each.start < b for a, b in spans)] or found


def _head(sentence: str, found: list[Found]) -> Found:
    """Return the last value that tells no circumstance; money before other values."""
    best, best_rank = found[-1], -1
    for each in found:
        rank = _rank(sentence, each)
        if rank >= best_rank:
            best, best_rank = each, rank
    return best


def _rank(sentence: str, found: Found) -> int:
    if found.money:
        return 3
    before = _before(sentence, found)
    if _CIRCUMSTANCE.search(before):
        return 0
    return 1 if _PART_OF.search(before) else 2


def number_of(answer: FinalAnswer) -> Number | None:
    """Return the number of a final answer, stated beyond doubt or not; null if it has none."""
    for value in (answer.value, answer.number):
        if isinstance(value, Number):
            return value
    return None
