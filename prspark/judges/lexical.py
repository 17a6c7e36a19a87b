"""The embedded judge: compares final answers, then words, without a network, a model or any cost."""

from functools import lru_cache
from typing import NamedTuple

from prspark.judges.answers import FinalAnswer, final_answer, number_of
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest, Verdict
from prspark.judges.tokens import f_score, negated, numerals, plain, supported_share, words
from prspark.judges.values import SAYS_NO, Number, equal
from prspark.metric.reasons import UnscoredReason

# What is read of one text, half of it from either end, where final answers are; a cache holds such texts.
MAX_CHARACTERS = 16_384
MAX_CONTEXT_CHARACTERS = 262_144
# A baseline is compared with all its variants one after the other, so a small cache catches nearly all.
_CACHED_ANSWERS = 256
_CACHED_WORDS = 64
_CACHED_CONTEXTS = 4
# Texts of more distinct words than this contain some negation or numeral whatever they say.
_SHORT = 32
# Keeps any score of overlapping words below one half when the two texts deny each other.
_CONTRADICTION = 0.4
# An answer may say more than its reference, so the reference's words count more than the answer's.
_RECALL_BETA = 2.0
# So many words before a match may negate it.
_NEGATION_REACH = 2

_AGREE = Verdict(1.0, "final answers agree")
_DIFFER = Verdict(0.0, "final answers differ")
_SAME_TEXT = Verdict(1.0, "answers are identical")
_BLANK = Verdict(0.0, "answer is blank")
_NO_VALUE = Verdict(0.0, "answer states no such value")
_CONTAINED = Verdict(1.0, "answer contains the reference")
_UNSCORED = Verdict(None, "neither reference nor context", UnscoredReason.REFERENCE_REQUIRED)
_OVERLAP = "overlap of words"
_SUPPORT = "share of words found in the context"


class LexicalJudge:
    """Judges by comparing texts. Deterministic, thread-safe, in microseconds; no network.

    It can tell whether a final answer (number, date, yes/no, option) equals another, and how many words two
    texts share. It can't tell a paraphrase from another statement: for free text, ask a model.
    """

    free = True
    identity = "lexical/1"

    def correctness(self, request: CorrectnessRequest) -> Verdict:
        """Return how well the answer matches the reference, 0..1, else how far the context supports it.

        Without both, the verdict is unscored, `reference_required`. Question and history are not read.
        """
        answer, reference, context = request.answer, request.reference, request.context
        if reference is not None and not reference.isspace() and reference:
            return _against_reference(answer, reference) if answer.strip() else _BLANK
        if context is not None and not context.isspace() and context:
            return _against_context(answer, context) if answer.strip() else _BLANK
        return _UNSCORED

    def robustness(self, request: RobustnessRequest) -> Verdict:
        """Return how far the answers agree, 0..1: 1 or 0 where final answers compare, else F1 of words."""
        one, other = request.original_answer, request.reworded_answer
        if not one.strip() or not other.strip():
            return _BLANK
        if one == other:
            return _SAME_TEXT
        return _pair(_bounded(one), _bounded(other))


def _bounded(text: str, limit: int = MAX_CHARACTERS) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n{text[-limit // 2 :]}"


@lru_cache(maxsize=_CACHED_ANSWERS)
def _final(text: str) -> FinalAnswer:
    return final_answer(_bounded(plain(text)).strip())


class _Words(NamedTuple):
    """The words of a text: in order between spaces, and as a set."""

    spaced: str
    distinct: frozenset[str]

    def may_deny(self) -> bool:
        return len(self.distinct) <= _SHORT

    def negated(self) -> bool:
        return negated(self.spaced, self.distinct)


@lru_cache(maxsize=_CACHED_WORDS)
def _words(final_text: str) -> _Words:
    found = words(final_text)
    return _Words(f" {' '.join(found)} ", frozenset(found))


@lru_cache(maxsize=_CACHED_CONTEXTS)
def _context_tokens(context: str) -> frozenset[str]:
    return frozenset(words(_bounded(plain(context), MAX_CONTEXT_CHARACTERS)))


def _against_reference(answer: str, reference: str) -> Verdict:
    said, wanted = _final(_bounded(answer)), _final(_bounded(reference))
    if isinstance(wanted.value, Number):
        number = number_of(said)
        return _NO_VALUE if number is None else _AGREE if equal(wanted.value, number) else _DIFFER
    if wanted.value is not None:
        stated = said.value if isinstance(said.value, str) else said.number
        if isinstance(stated, str):
            return _AGREE if stated == wanted.value else _DIFFER
        if wanted.value == SAYS_NO and _is_denial(said.text):
            return _AGREE
    return _against_text(said.text, wanted.text)


def _is_denial(answer: str) -> bool:
    """Tell whether a short statement is negated, as an answer "no" in other words is."""
    given = _words(answer)
    return given.may_deny() and given.negated()


def _against_text(answer: str, reference: str) -> Verdict:
    given, wanted = _words(answer), _words(reference)
    place = given.spaced.find(wanted.spaced)
    if place < 0:
        return Verdict(_overlap(wanted, given, beta=_RECALL_BETA), _OVERLAP)
    before = given.spaced[:place].split()[-_NEGATION_REACH:]
    denied = negated(f"{' '.join(before)} ", frozenset(before))
    return Verdict(_CONTRADICTION, _OVERLAP) if denied else _CONTAINED


def _against_context(answer: str, context: str) -> Verdict:
    known = _context_tokens(_bounded(context, MAX_CONTEXT_CHARACTERS))
    return Verdict(supported_share(frozenset(words(plain(_bounded(answer)))), known), _SUPPORT)


def _pair(one: str, other: str) -> Verdict:
    first, second = _final(one), _final(other)
    if first.value is not None and second.value is not None and type(first.value) is type(second.value):
        return _AGREE if equal(first.value, second.value) else _DIFFER
    if isinstance(first.value, Number) or isinstance(second.value, Number):
        left, right = number_of(first), number_of(second)
        if left is not None and right is not None:
            return _AGREE if equal(left, right) else _DIFFER
    return Verdict(_overlap(_words(first.text), _words(second.text)), _OVERLAP)


def _overlap(wanted: _Words, given: _Words, *, beta: float = 1.0) -> float:
    score = f_score(wanted.distinct, given.distinct, beta=beta)
    return score * _CONTRADICTION if score and _deny_each_other(wanted, given) else score


def _deny_each_other(one: _Words, other: _Words) -> bool:
    """Tell whether one of two short texts is negated and the other not, or they share no number."""
    if not (one.may_deny() and other.may_deny()):
        return False
    if one.negated() != other.negated():
        return True
    left = numerals(one.distinct)
    right = numerals(other.distinct) if left else left
    return bool(right) and left.isdisjoint(right)
