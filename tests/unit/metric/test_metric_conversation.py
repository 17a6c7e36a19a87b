"""Questions and answers are found in every shape a prompt or response can have."""

import json

import pytest

from prspark.metric.conversation import Turn, read_answer, read_prompt

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "What is 2 + 2?"},
]


def test_last_user_turn_is_the_query_and_earlier_turns_are_the_history():
    query, history = read_prompt(json.dumps(CHAT))
    assert query == "What is 2 + 2?"
    assert history == (Turn("system", "Be brief."), Turn("user", "Hi"), Turn("assistant", "Hello"))


def test_what_follows_the_last_user_turn_is_no_history():
    prefilled = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because"}]
    assert read_prompt(json.dumps(prefilled)) == ("Why?", ())


def test_request_body_with_messages_is_a_message_list():
    assert read_prompt(json.dumps({"model": "m", "messages": CHAT})) == read_prompt(json.dumps(CHAT))


def test_text_parts_are_joined_and_images_passed_over():
    parts = [
        {"type": "text", "text": "What is"},
        {"type": "image_url", "image_url": {"url": "http://x/y.png"}},
        {"type": "text", "text": "this?"},
    ]
    assert read_prompt(json.dumps([{"role": "user", "content": parts}])) == ("What is\nthis?", ())


def test_leading_white_space_and_other_keys_do_not_hide_a_message_list():
    text = '\n  [{"name": "ann", "role": "User", "content": "Why?", "n": 1}] '
    assert read_prompt(text) == ("Why?", ())


@pytest.mark.parametrize(
    "text",
    [
        "What is 2 + 2?",
        "",
        "   ",
        "[1,2,3]",
        '{"a":1}',
        "[]",
        "{}",
        "[citation needed] who said so?",
        '[{"role": "user", "content": "cut off',
        '{"role": "user"',
        '{"role": "user", "content": "one message is no list"}',
        '{"messages": "role"}',
        '[{"role": "user", "content": "ok"}, 3]',
        '[{"role": "user", "content": "ok"}, null]',
        '[{"role": "user", "content": 5}]',
        '[{"role": "user", "content": {"text": "x"}}]',
        '[{"role": 1, "content": "x"}]',
        '[{"role": null, "content": "x"}]',
        '[{"content": "no one says \\"role\\""}]',
        '[{"role": "system", "content": "no user turn"}]',
        "$5 and {placeholders} and C:\\new\\table",
        "\ud800 lone \x00 nul \u200f mark",
        '[{"role": "user", "n": ' + "9" * 5000 + "}]",
        '"role"' + "[" * 3,
        '["role",' + "[" * 100_000,
    ],
)
def test_what_is_no_message_list_with_a_user_turn_is_plain_text(text):
    assert read_prompt(text) == (text, ())


def test_null_prompt_has_no_query():
    assert read_prompt(None) == (None, ())


def test_user_turn_without_text_is_no_query_but_keeps_the_history():
    for content in (None, [], [{"type": "image_url"}], [{"type": "text", "text": None}]):
        chat = [{"role": "system", "content": "s"}, {"role": "user", "content": content}]
        assert read_prompt(json.dumps(chat)) == (None, (Turn("system", "s"),))


def test_turns_without_text_are_no_history():
    chat = '[{"role":"assistant"},{"role":"tool","content":"42"},{"role":"user","content":"So?"}]'
    assert read_prompt(chat) == ("So?", (Turn("tool", "42"),))


@pytest.mark.parametrize("escape", [r"\ud800", r"\uDFFF"])
def test_escaped_lone_surrogates_become_text_that_can_be_encoded(escape):
    chat = f'[{{"role":"{escape}","content":"{escape}"}},{{"role":"user","content":"a{escape}b"}}]'
    assert read_prompt(chat) == ("a\ufffdb", (Turn("\ufffd", "\ufffd"),))


def test_escaped_surrogate_pairs_are_the_character_they_spell():
    assert read_answer(r'[{"role":"assistant","content":"\ud83d\uDE00"}]') == "\U0001f600"


def test_nul_and_backslashes_inside_messages_are_kept():
    text = json.dumps([{"role": "user", "content": "a\x00b $5 C:\\new"}])
    assert read_prompt(text) == ("a\x00b $5 C:\\new", ())


def test_answer_is_the_last_assistant_turn_of_a_message_list():
    chat = [*CHAT, {"role": "assistant", "content": "4"}, {"role": "user", "content": "Thanks"}]
    assert read_answer(json.dumps(chat)) == "4"


def test_answer_parts_are_joined():
    parts = [{"type": "text", "text": "It is"}, {"type": "output_text", "text": "4"}]
    assert read_answer(json.dumps([{"role": "assistant", "content": parts}])) == "It is\n4"


@pytest.mark.parametrize(
    "text",
    ["4", "", " ", "[4]", '{"score": 1, "role": "judge"}', '[{"role": "user", "content": "no assistant"}]'],
)
def test_answer_of_anything_else_is_the_text_itself(text):
    assert read_answer(text) == text


def test_null_answer_stays_null_and_blank_stays_blank():
    assert read_answer(None) is None
    assert read_answer('[{"role": "assistant", "content": ""}]') == ""


def test_assistant_turn_without_text_is_a_missing_answer_not_a_blank_one():
    chat = [{"role": "assistant", "content": "Let me look."}, {"role": "assistant", "tool_calls": [{}]}]
    assert read_answer(json.dumps(chat)) is None
