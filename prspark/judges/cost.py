"""What a call costs before it is made: an estimate of its tokens, without any tokenizer to download."""

import functools

from prspark.judges.prompts import Prompts
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest

# English text has about 4 characters a token in the common byte-pair vocabularies; a character outside
# Latin scripts is about a token of its own.
_LATIN_CHARACTERS_A_TOKEN = 4
# What that misses of a call: the two delimiters hold 32 hexadecimal digits each, at about 1.5 a token, and the
# chat's own marks around its two messages are tokens too. Counted with the tokenizer of SmolLM2: 64 and 67.
_DELIMITERS_AND_ROLES = 64


def text_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    if text.isascii():
        return 1 + len(text) // _LATIN_CHARACTERS_A_TOKEN
    # most characters outside ASCII have three bytes in UTF-8, so two bytes more than characters
    wide = (len(text.encode("utf-8", "surrogatepass")) - len(text)) // 2
    return 1 + wide + (len(text) - wide) // _LATIN_CHARACTERS_A_TOKEN


def estimate_tokens(request: CorrectnessRequest | RobustnessRequest) -> int:
    """Estimate the prompt tokens of the call that asks this, instructions included."""
    if isinstance(request, RobustnessRequest):
        return _instructions(robustness=True) + sum(map(text_tokens, request))
    texts = (request.question, request.answer, request.reference, request.context)
    own = sum(text_tokens(text) for text in texts if text)
    return _instructions(robustness=False) + own + sum(text_tokens(turn.text) + 4 for turn in request.history)


@functools.cache
def _instructions(*, robustness: bool) -> int:
    prompts = Prompts()
    empty = prompts.robustness(RobustnessRequest("", "", "", "")) if robustness else None
    messages = empty or prompts.correctness(CorrectnessRequest("", "", ""))
    return _DELIMITERS_AND_ROLES + sum(text_tokens(message["content"]) for message in messages)
