"""Builds the messages that ask a judge for a verdict; judged text goes in as data and can't get out of it."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from hashlib import sha256
from json import JSONEncoder
from typing import Literal, TypedDict

from prspark.judges import templates
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest

PROMPT_VERSION = "1"
"""Changes with any built-in text or with the layout of the data: it is part of a verdict's journal key."""

LEVELS = [0, *(step / 20 for step in range(1, 20)), 1]
"""The scores of a verdict where an endpoint does not hold the range."""

Kind = Literal["correctness", "robustness"]

_FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")

# Half of a SHA-256: nobody finds a text that holds its own.
_ID_DIGITS = 32

# What a reader or a tokenizer could take for something else than text: controls, zero-width and bidirectional
# characters, invisible letters, tag characters, variation selectors, line separators, lone surrogates (which
# UTF-8 can't carry), noncharacters. One character class, because this runs over every judged character.
_UNSAFE = re.compile(
    r"[<\[\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    r"\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0"
    r"\ufff0-\uffff\U000110bd\U000110cd\U00013430-\U00013455\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
# "<" and "[" that are plain text: x < 5, x <= 5, [1, 2], a [link](url). Tags, our own delimiters and tokens
# of chat templates are not: <|im_start|>, <s>, <<SYS>>; [INST], [/INST], [gMASK], [|user|], [END DATA].
_PLAIN = re.compile(r"<[\s\d=]|\[(?!/?(?:g?[A-Z]{2}|\|))")

_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class Message(TypedDict):
    """One chat message."""

    role: str
    content: str


class PromptError(ValueError):
    """A template can't be used. The text names the configuration key and the field."""


@dataclass(frozen=True)
class Prompts:
    """The prompts of a run: built in, or replaced by the user's templates.

    A template replaces the instructions of its kind, for all cases; how the data is marked and how the
    verdict must look are added to it. `{field}` in it stands for the name of that field of the data, so that
    judged text is never mixed with instructions; other braces are plain text.

    Attributes:
        correctness_template: must name `{question}` and `{answer}`; may name `{reference}`, `{context}` and
            `{history}`. None: the built-in texts.
        robustness_template: must name `{original_question}`, `{original_answer}`, `{reworded_question}` and
            `{reworded_answer}`. None: the built-in text.

    Raises:
        PromptError: a template lacks a needed field or names an unknown one.
    """

    correctness_template: str | None = None
    robustness_template: str | None = None

    def __post_init__(self) -> None:
        _check("correctness", self.correctness_template)
        _check("robustness", self.robustness_template)

    def version(self) -> str:
        """Return a text that changes whenever the prompts do: part of a verdict's journal key."""
        replaced = [self.correctness_template, self.robustness_template]
        if not any(replaced):
            return PROMPT_VERSION
        return f"{PROMPT_VERSION}+{_digest(_encode(replaced))}"

    def correctness(self, request: CorrectnessRequest) -> list[Message]:
        """Return the system message, constant per case, and the data message of one answer.

        The case is: a reference answer; else a ground-truth context; else neither. Blank texts count as none.
        """
        reference, context = _present(request.reference), _present(request.context)
        template = self.correctness_template or _correctness_template(reference, context)
        # What a group's rows share comes first.
        data: dict[str, object] = {}
        if context:
            data["context"] = context
        if reference:
            data["reference"] = reference
        if request.history:
            data["history"] = [{"role": turn.role, "text": turn.text} for turn in request.history]
        data["question"] = request.question
        data["answer"] = request.answer
        return _messages(_instructions("correctness", template), data)

    def robustness(self, request: RobustnessRequest) -> list[Message]:
        """Return the constant system message and the data message of one pair of answers."""
        template = self.robustness_template or templates.ROBUSTNESS
        return _messages(_instructions("robustness", template), request._asdict())


def response_schema(*, levels: bool = False) -> dict[str, object]:
    """Return the JSON schema of a verdict: reasoning first, then a score in 0..1.

    With `levels` the score is one of `LEVELS`, in steps of 0.05: servers that turn a schema into a grammar
    often leave out `minimum` and `maximum`, but not a list of values.
    """
    score = {"enum": LEVELS} if levels else {"minimum": 0, "maximum": 1}
    return {
        "type": "object",
        "properties": {"reasoning": {"type": "string"}, "score": {"type": "number", **score}},
        "required": ["reasoning", "score"],
        "additionalProperties": False,
    }


def _check(kind: Kind, template: str | None) -> None:
    """Raise if a user's template lacks a needed field or names one that does not exist."""
    if template is None:
        return
    fields, needed = _fields(kind)
    named = set(_FIELD.findall(template))
    for name in sorted(named - set(fields)):
        nearest = get_close_matches(name, fields, n=1, cutoff=0.0)[0]
        raise PromptError(
            f"judge.{kind}_template names the unknown field {{{name}}}; did you mean {{{nearest}}}?"
        )
    missing = [f"{{{name}}}" for name in needed if name not in named]
    if missing:
        raise PromptError(
            f"judge.{kind}_template lacks {', '.join(missing)}; add it where the text speaks of it"
        )


def _fields(kind: Kind) -> tuple[dict[str, str], tuple[str, ...]]:
    if kind == "correctness":
        return templates.CORRECTNESS_FIELDS, templates.CORRECTNESS_NEEDED
    return templates.ROBUSTNESS_FIELDS, templates.ROBUSTNESS_NEEDED


def _present(text: str | None) -> str | None:
    return text if text and not text.isspace() else None


def _correctness_template(reference: str | None, context: str | None) -> str:
    if reference:
        return templates.CORRECTNESS_WITH_REFERENCE
    return templates.CORRECTNESS_WITH_CONTEXT if context else templates.CORRECTNESS_ALONE


@lru_cache(maxsize=32)
def _instructions(kind: Kind, template: str) -> str:
    """Return the system message: the template, what the data is, and how the verdict must look."""
    fields, _ = _fields(kind)
    listed = "".join(f'- "{name}": {meaning}\n' for name, meaning in fields.items())
    body = _FIELD.sub(r'"\1"', template).strip()
    return f"{body}\n{templates.DATA_NOTE}{listed}{templates.VERDICT_NOTE}"


def _messages(instructions: str, data: dict[str, object]) -> list[Message]:
    line = _UNSAFE.sub(_escape, _encode(data))
    mark = _digest(line)
    return [
        {"role": "system", "content": instructions},
        {"role": "user", "content": f"<data-{mark}>\n{line}\n</data-{mark}>"},
    ]


def _escape(found: re.Match[str]) -> str:
    r"""Return the JSON escape of one character: \uXXXX, twice for one beyond the basic plane."""
    sign = found[0]
    if sign in "<[" and _PLAIN.match(found.string, found.start()):
        return sign
    units = sign.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_DIGITS]
