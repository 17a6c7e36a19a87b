"""Tokens are estimated without a tokenizer: four Latin characters each, one wide character each."""

import pytest

from prspark.judges.cost import estimate_tokens, text_tokens
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest
from prspark.metric.conversation import Turn

EMPTY = CorrectnessRequest("", "")
EMPTY_PAIR = RobustnessRequest("", "", "", "")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 1),
        ("abc", 1),
        ("abcd", 2),
        ("x" * 400, 101),
        ("caf\u00e9", 2),  # a Latin letter outside ASCII is a letter
        ("\u4f60\u597d\u4e16\u754c", 5),  # four Han characters
        ("\u4f60\u597dabcd", 4),  # two Han characters and four letters: 1 + 2 + 1
        ("\ud800", 2),  # a lone surrogate is no error
    ],
)
def test_tokens_of_a_text(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


def test_every_text_of_a_request_counts() -> None:
    full = CorrectnessRequest("q" * 40, "a" * 80, "r" * 20, "c" * 200, (Turn("user", "h" * 40),))
    # 11 + 21 + 6 + 51 + (11 + 4 around a turn)
    assert estimate_tokens(full) - estimate_tokens(EMPTY) == 104


def test_missing_texts_cost_nothing() -> None:
    assert estimate_tokens(CorrectnessRequest("", "", "", "")) == estimate_tokens(EMPTY)


def test_both_questions_and_answers_of_a_pair_count() -> None:
    pair = RobustnessRequest("q" * 40, "a" * 80, "v" * 20, "b" * 200)
    # 11 + 21 + 6 + 51, where four empty texts are 1 each
    assert estimate_tokens(pair) - estimate_tokens(EMPTY_PAIR) == 89 - 4


@pytest.mark.parametrize("request_", [EMPTY, EMPTY_PAIR])
def test_instructions_are_part_of_every_call(request_: CorrectnessRequest | RobustnessRequest) -> None:
    assert 100 < estimate_tokens(request_) < 2000
