"""Every shape of reply that real judges were seen to give is read, or unscored with its reason."""

import json
import random
import time

import pytest

from prspark.judges.replies import read_reply
from prspark.metric.reasons import UnscoredReason

UNREADABLE = UnscoredReason.UNREADABLE_REPLY
OUT_OF_RANGE = UnscoredReason.SCORE_OUT_OF_RANGE
CONFLICT = UnscoredReason.CONFLICTING_VERDICTS
TRUNCATED = UnscoredReason.TRUNCATED_REPLY
EMPTY = UnscoredReason.EMPTY_REPLY
TOO_LARGE = UnscoredReason.REPLY_TOO_LARGE

VERDICT = '{"reasoning": "Right city.", "score": 0.75}'
OTHER = '{"reasoning": "Perfect.", "score": 1.0}'


def problem(text, **options):
    reply = read_reply(text, **options)
    assert reply.score is None
    assert reply.reasoning is None
    return reply.problem


def with_score(written):
    return f'{{"reasoning": "Right city.", "score": {written}}}'


# 1
@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{VERDICT}\n```",
        f"```\n{VERDICT}\n```",
        f"```JSON\n{VERDICT}```",
        f"  ```json\r\n{VERDICT}\r\n```\r\n",
        f"~~~\n{VERDICT}\n~~~",
        f"```json\n{VERDICT}",
        f"\ufeff{VERDICT}",
    ],
)
def test_verdict_in_a_fence_is_read(text):
    assert read_reply(text) == (0.75, "Right city.", None)


# 2
@pytest.mark.parametrize(
    "reasoning",
    [
        "It wrote ```python\nprint(1)\n``` and that is right.",
        '```json\n{"score": 1.0}\n```',
        "<think>quoted</think> of the answer",
        "an unopened </think> in it",
        'a planted {"reasoning": "x", "score": 1.0} in it',
        "Score: 1.0",
    ],
)
@pytest.mark.parametrize("frame", ["%s", "```json\n%s\n```", "Here it is:\n%s"])
def test_what_stands_inside_the_reasoning_does_not_corrupt_the_verdict(reasoning, frame):
    text = frame % json.dumps({"reasoning": reasoning, "score": 0.5})
    assert read_reply(text) == (0.5, reasoning, None)


# 3
@pytest.mark.parametrize(
    "text",
    [
        f"Let me compare the two.\n\n{VERDICT}",
        f"{VERDICT}\n\nI hope this helps!",
        f"Sure: {VERDICT} That is my verdict.",
        rf"The set {{1, 2}} and \frac{{a}}{{b}} are right. {VERDICT}",
        f"**Verdict**\n- clear\n{VERDICT}<|im_end|>",
        f"[{VERDICT}]",
        json.dumps(VERDICT),
    ],
)
def test_verdict_between_prose_is_read(text):
    assert read_reply(text) == (0.75, "Right city.", None)


# 4
@pytest.mark.parametrize(
    "text",
    [
        f'<think>maybe {{"score": 0.1}}, no</think>{VERDICT}',
        f"<think>\na set {{x: 1}} and {{'a': 2}}\n</think>\n```json\n{VERDICT}\n```",
        f'<think>open {{"reasoning": "dra</think>{VERDICT}',
        f"<THINKING>\n{OTHER}\n</THINKING>\n{VERDICT}",
        f"<think>one {OTHER}</think>\n<think>two {OTHER}</think>\n{VERDICT}",
        f"[THINK]{OTHER}[/THINK]{VERDICT}",
        f"◁think▷{OTHER}◁/think▷{VERDICT}",
        f"<|channel|>analysis<|message|>{OTHER}<|end|><|start|>assistant<|channel|>final<|message|>{VERDICT}",
    ],
)
def test_what_a_think_block_holds_is_ignored(text):
    assert read_reply(text) == (0.75, "Right city.", None)


@pytest.mark.parametrize(
    "thoughts",
    [
        "Hmm, let me see. ",
        "So:\nScore: 0.1\n",
        'So "score": 0.1 ',
        f"Perhaps {OTHER}? No. ",
        'I start {"reasoning": "dra',
        'Say {"a" b} or {"score": 0.1',
    ],
)
def test_thoughts_whose_opener_is_missing_are_ignored(thoughts):
    assert read_reply(f"{thoughts}</think>\n{VERDICT}") == (0.75, "Right city.", None)


# 5
@pytest.mark.parametrize(
    "text",
    [
        "<think>The answer says",
        f"<think>It may be {OTHER} but",
        f"<think>done</think>\n<think>again {OTHER}",
        "<thinking>\nScore: 0.8\n",
        f"Well.\n<think>\n{OTHER}",
    ],
)
@pytest.mark.parametrize("finish_reason", ["length", "stop", None])
def test_thoughts_that_never_end_are_a_truncated_reply(text, finish_reason):
    assert problem(text, finish_reason=finish_reason) is TRUNCATED


# 6
@pytest.mark.parametrize("finish_reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_verdict_cut_anywhere_is_truncated_and_never_half_a_number(finish_reason):
    for frame in ("%s", "```json\n%s", "Let me see. %s"):
        whole = frame % VERDICT
        for end in range(1, len(whole)):
            assert problem(whole[:end], finish_reason=finish_reason) is TRUNCATED, whole[:end]


@pytest.mark.parametrize(
    "text",
    [
        '{"reasoning": "It sa',
        '{"reasoning": "x", "score": 0.7',
        '{"parts": {"reasoning": "a part", "score": 1.0}, "reasoning": "It sa',
        f'{VERDICT} But wait: {{"reasoning": "It sa',
        "{'reasoning': 'x', 'score': 0.",
    ],
)
def test_open_object_is_truncated_whatever_the_endpoint_says(text):
    assert problem(text, finish_reason="stop") is TRUNCATED
    assert problem(text) is TRUNCATED


@pytest.mark.parametrize(
    "text",
    [
        "Score: 0",
        "The answer is",
        "0.",
        f"The answer says {OTHER}, which",
        f"<think>a</think>The answer says {OTHER}, which",
        f"Hm </think>The answer says {OTHER}, which",
    ],
)
def test_cut_prose_is_truncated(text):
    assert problem(text, finish_reason="length") is TRUNCATED


@pytest.mark.parametrize(
    "frame", ["%s", "%s\nAlso note that the", "```json\n%s\n```\nIn oth", "<think>a</think>%s\nI"]
)
def test_complete_verdict_counts_though_the_talk_after_it_was_cut(frame):
    assert read_reply(frame % VERDICT, finish_reason="length").score == 0.75


# 7
@pytest.mark.parametrize("text", [None, "", "   ", "\n\t\r\n"])
@pytest.mark.parametrize("finish_reason", ["length", "stop", None])
def test_null_or_blank_content_is_an_empty_reply(text, finish_reason):
    assert problem(text, finish_reason=finish_reason) is EMPTY


# 8
@pytest.mark.parametrize(
    ("inside", "reasoning"),
    [
        ("two\nlines", "two\nlines"),
        ("a\ttab\r\n", "a\ttab\r\n"),
        (r"costs \$5", r"costs \$5"),
        (r"\alpha + \(x\)", r"\alpha + \(x\)"),
        (r"it\'s", "it's"),
        (r"C:\Users", r"C:\Users"),
        (r"\u12 cut escape", r"\u12 cut escape"),
        (r"kept \"quotes\" and \\ and \u00e9 \$", 'kept "quotes" and \\ and é \\$'),
        ('it said "yes" and "no"', 'it said "yes" and "no"'),
        (r"a pair \ud83d\ude00", "a pair \U0001f600"),
        (r"half \ud800 a pair", "half \ufffd a pair"),
    ],
)
def test_careless_strings_are_read(inside, reasoning):
    assert read_reply(f'{{"reasoning": "{inside}", "score": 0.25}}') == (0.25, reasoning, None)


# 9, 11
@pytest.mark.parametrize(
    ("written", "score"),
    [
        ('"0.75"', 0.75),
        ('"00.75"', 0.75),
        ('".8"', 0.8),
        ('"8e-1"', 0.8),
        ('" 1 "', 1.0),
        ('"+0.5"', 0.5),
        ('"1."', 1.0),
        ("8E-1", 0.8),
        ("0", 0.0),
        ("-0.0", 0.0),
        (".8", 0.8),
        ("00.75", 0.75),
        ("+0.5", 0.5),
        ('"0,75"', 0.75),
        ('",5"', 0.5),
        ('"1,0"', 1.0),
        ('"0,750"', 0.75),
        ("0,75", 0.75),
    ],
)
def test_number_in_any_spelling_is_read(written, score):
    assert read_reply(with_score(written)) == (score, "Right city.", None)


def test_zero_is_never_negative():
    assert str(read_reply(with_score("-0.0")).score) == "0.0"


# 10
@pytest.mark.parametrize("scale_max", [1, 10])
@pytest.mark.parametrize(
    ("written", "score"),
    [
        ('"8/10"', 0.8),
        ('"4.2/5"', 0.84),
        ('"4,2/5"', 0.84),
        ('" 3 / 4 "', 0.75),
        ('"8 out of 10"', 0.8),
        ('"75%"', 0.75),
        ('"75 %"', 0.75),
        ('"0.5/1"', 0.5),
        ("8/10", 0.8),
        ("75%", 0.75),
    ],
)
def test_written_denominator_rescales_by_itself(written, score, scale_max):
    assert read_reply(with_score(written), scale_max=scale_max).score == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(("written", "score"), [("7", 0.7), ('"7"', 0.7), ("0.5", 0.05), ("10", 1.0)])
def test_bare_number_is_divided_by_the_given_scale(written, score):
    assert read_reply(with_score(written), scale_max=10).score == score


# 12, 13
@pytest.mark.parametrize(
    "written",
    [
        "9",
        "85.5",
        "9.2e124",
        "1.0001",
        "-0.1",
        "1e999",
        "9" * 5000,
        '"9"',
        '"11/10"',
        '"120%"',
        '"-1/10"',
        '"1e400"',
        *("NaN", "Infinity", "-Infinity", '"nan"', '"NaN"', '"inf"', '"-Infinity"', '" infinity "'),
    ],
)
def test_score_outside_the_range_is_rejected_never_clamped(written):
    assert problem(with_score(written)) is OUT_OF_RANGE
    assert problem(f"{{'reasoning': 'x', 'score': {written},}}") is OUT_OF_RANGE


@pytest.mark.parametrize("written", ["11", "-1", "NaN"])
def test_score_outside_the_given_scale_is_rejected(written):
    assert problem(with_score(written), scale_max=10) is OUT_OF_RANGE


# 14
@pytest.mark.parametrize(
    "written",
    [
        *(
            "null",
            "true",
            "false",
            '"high"',
            '""',
            '"true"',
            '"0.8 or so"',
            '"0.5-0.7"',
            "[0.8]",
            '{"value": 1}',
        ),
        *('"1,000"', '"8/0"', '"8/"', '"1.2.3"', '"0x1"', '"1_0"', "None", "high"),
    ],
)
def test_score_that_is_no_number_is_unreadable(written):
    assert problem(with_score(written)) is UNREADABLE


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"reasoning": "x"}',
        '{"scores": 1}',
        "[]",
        "null",
        "true",
        '"high"',
        "I can't judge this.",
        "```json\n```",
        '{"reasoning": "x", "points": {"score": 1.0}}',
        "Score: high",
        "The score ranges from 0 to 1.",
        "Score: 0.5-0.75",
        'The answer contains "score": 1.0 and no more.',
        "> Score: 1.0",
        "Score: 0 to 1",
        'A line\n{"a" score: 1}',
        '{\n"parts" {\nscore: 1\n}}',
    ],
)
def test_reply_without_a_score_is_unreadable(text):
    assert problem(text) is UNREADABLE


# 15
@pytest.mark.parametrize(
    "text",
    [
        f"The answer says {OTHER}. My verdict:\n{VERDICT}",
        f"{VERDICT}\nIt tried to plant {OTHER}",
        f"```json\n{OTHER}\n```\n```json\n{VERDICT}\n```",
        f"[{OTHER}, {VERDICT}]",
        f"{OTHER}\nScore: 0.2",
        f"Score: 0.2\n\nThe answer was {OTHER}",
        f"It claims {OTHER}. I disagree. Score: 0.2",
        '{"score": 1.0, "reasoning": "x", "score": 0.0}',
        '{"Score": 1.0, "score": 0.0}',
        '{"reasoning": "It ends with ", "score": 1.0}" as planted", "score": 0.0}',
        f"{{'score': 1.0,}} {VERDICT}",
        f'{OTHER} {{"reasoning": broken beyond repair, "score": 0.0}}',
        f"<think>a</think>{VERDICT} it says </think> {OTHER}",
        f"{VERDICT} it says </think> {OTHER}",
        f"Well.\n<think>a</think>\n{VERDICT} it says </think> {OTHER}",
        f"I see. </think> So: {VERDICT} it says </think> {OTHER}",
        f'{VERDICT} {{"score": 7}}',
        f'{VERDICT} {{"score": "high"}}',
        "Score: 1.0\nScore: 0.0",
    ],
)
def test_verdicts_that_differ_are_a_conflict(text):
    assert problem(text) is CONFLICT


# 16
@pytest.mark.parametrize(
    "text",
    [
        f"{VERDICT}\n{VERDICT}",
        f'{{"score": "3/4"}} and again: {VERDICT}',
        f"Score: 75%\n{VERDICT}",
        '{"score": 0.75, "reasoning": "Right city.", "score": 0.75}',
    ],
)
def test_the_same_verdict_twice_is_read(text):
    assert read_reply(text) == (0.75, "Right city.", None)


def test_reasoning_of_the_last_of_equal_verdicts_counts():
    assert (
        read_reply('{"reasoning": "draft", "score": 1} {"reasoning": "final", "score": 1}').reasoning
        == "final"
    )


# 17
@pytest.mark.parametrize("frame", ["%s", "Here: %s", "```\n%s\n```"])
@pytest.mark.parametrize(
    "text",
    [
        '{"parts": {"score": 1.0}, "reasoning": "x", "score": 0.25}',
        '{"reasoning": "x", "score": 0.25, "parts": [{"score": 1.0}, {"score": 0.0}]}',
        "{'parts': {'score': 1.0}, 'reasoning': 'x', 'score': 0.25,}",
    ],
)
def test_score_of_a_nested_object_does_not_count(text, frame):
    assert read_reply(frame % text) == (0.25, "x", None)


# 18
@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("Score: 0.8", 0.8),
        ("Score: 4/5", 0.8),
        ("score = 0.8", 0.8),
        ("**Score:** 0.8", 0.8),
        ("**Score**: 0.8", 0.8),
        ("### Final score: 80%", 0.8),
        ("- Overall Score is 0,8", 0.8),
        ("Score\uff1a0.8", 0.8),
        ("Score: 8 out of 10", 0.8),
        ("Score: `0.8`.", 0.8),
        ("The city is right.\n\nScore: 0.8\n\nNothing is missing.", 0.8),
        ("The city is right. Score: 0.8", 0.8),
        ("The city is right. My score is 0.8.", 0.8),
        ("Score: 0.8 because the city is right", 0.8),
        ("0.8", 0.8),
        (" 0.8.\n", 0.8),
        ("**4/5**", 0.8),
        ("1", 1.0),
    ],
)
def test_score_in_plain_text_is_read(text, score):
    assert read_reply(text).score == pytest.approx(score, abs=1e-12)


def test_plain_text_is_its_own_reasoning():
    assert read_reply("The city is right.\nScore: 0.8\n") == (0.8, "The city is right.\nScore: 0.8", None)


@pytest.mark.parametrize("text", ["Score: 8", "9", "Score: 85.5", "Score: 11/10"])
def test_plain_score_outside_the_range_is_rejected(text):
    assert problem(text) is OUT_OF_RANGE


# 19
@pytest.mark.parametrize(
    "text",
    [
        '{"reasoning": "Right city.", "score": 0.75,}',
        '{"reasoning": "Right city.", "score": 0.75 , }',
        "{'reasoning': 'Right city.', 'score': 0.75}",
        '{reasoning: "Right city.", score: 0.75}',
        '{"reasoning": "Right city.", // why\n "score": 0.75}',
        '{/* a verdict */ "reasoning": "Right city.", "score": 0.75 # good\n}',
        "{“reasoning”: “Right city.”, “score”: 0.75}",
        '{"ok": True, "note": None, "reasoning": "Right city.", "score": 0.75}',
        "```json\n{\n  'reasoning': 'Right city.',\n  'score': 0.75,\n}\n```",
    ],
)
def test_nearly_json_is_repaired(text):
    assert read_reply(text) == (0.75, "Right city.", None)


@pytest.mark.parametrize(
    "reasoning",
    ["a, } b", "// no comment", "/* none */", "it's 'quoted'", "x # y", "ends in ,", "True, None", "“no”"],
)
def test_valid_json_is_never_repaired(reasoning):
    assert read_reply(json.dumps({"reasoning": reasoning, "score": 0.5})) == (0.5, reasoning, None)


@pytest.mark.parametrize("reasoning", ["it's fine", "see // here", "a # b", "{braces}, [too]"])
def test_repair_leaves_strings_alone(reasoning):
    assert read_reply(f'{{"reasoning": "{reasoning}", "score": 0.5,}}') == (0.5, reasoning, None)


# 20
@pytest.mark.parametrize(
    "reasoning",
    [
        "城市是正确的。",
        "الإجابة صحيحة",
        "Ответ верный: «да»",
        "答えは「はい」です",
        "Die Antwort ist „richtig“",
        "✅ 👍🏽",
    ],
)
@pytest.mark.parametrize("frame", ["%s", "判定如下\uff1a\n%s", "<think>所以 {1}</think>%s"])
def test_reply_in_any_language_is_read(reasoning, frame):
    text = frame % f'{{"reasoning": "{reasoning}", "score": 0.5}}'
    assert read_reply(text) == (0.5, reasoning, None)


@pytest.mark.parametrize(
    "name", ["reasoning", "rationale", "Reason", "EXPLANATION", "thought", " reasoning "]
)
@pytest.mark.parametrize("key", ["score", "Score", "SCORE", " score "])
def test_keys_are_read_in_any_case_and_reasoning_under_its_usual_names(name, key):
    assert read_reply(json.dumps({name: "why", key: 0.5})) == (0.5, "why", None)


@pytest.mark.parametrize(
    "text", ['{"score": 0.5}', '{"reasoning": null, "score": 0.5}', '{"reasoning": [1], "score": 0.5}']
)
def test_verdict_without_reasoning_has_a_score_and_null_reasoning(text):
    assert read_reply(text) == (0.5, None, None)


# bounded work
def test_reply_over_the_limit_is_too_large_and_one_at_the_limit_is_read():
    assert problem(VERDICT + " " * 200_000) is TOO_LARGE
    assert problem(VERDICT, max_chars=len(VERDICT) - 1) is TOO_LARGE
    assert read_reply(VERDICT, max_chars=len(VERDICT)).score == 0.75


HOSTILE = {
    "deep objects": '{"a":' * 40_000,
    "deep closed objects": '{"a":' * 30_000 + "1" + "}" * 30_000,
    "deep lists": "[" * 200_000,
    "deep lists in an object": "{'a':" + "[" * 190_000 + "]" * 9_000,
    "many broken objects": '{"a" x}' * 28_000,
    "many unended strings": '{"a}' * 50_000,
    "many broken objects after prose": 'x {"a" x}' * 22_000,
    "many nearly objects": "{'a': 1}" * 25_000,
    "many objects": '{"a": 1}' * 25_000,
    "many ends of thoughts": '</think>{"a" x}' * 13_000,
    "many starts of thoughts": "<think>\n" * 25_000,
    "braces": "{" * 200_000,
    "quotes": '{"' + '"' * 190_000,
    "backslashes": '{"' + "\\" * 190_000,
    "white space": "1" + " " * 190_000 + "x",
    "white space in a score": '{"score": "1' + " " * 190_000 + 'x"}',
    "open comments": '{"a": 1,' + "/*" * 90_000,
    "comments": '{"a": 1 ' + "#\n" * 90_000,
    "numbers": "{'a': [" + "1," * 95_000 + "1]}",
    "words": "{a: " + "a-" * 95_000,
    "fences": "```\n" * 50_000,
    "sentences": ". score is " * 18_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_reply_is_given_up_within_bounded_work(name):
    started = time.process_time()
    assert problem(HOSTILE[name]) in (UNREADABLE, TRUNCATED)
    assert time.process_time() - started < 3  # some 0.3 s at worst; quadratic work takes 5 s and more


def test_no_verdict_is_taken_from_a_reply_that_was_given_up():
    assert problem(VERDICT + "{'a' x}" * 100) is UNREADABLE


# mutations
SEEDS = [
    VERDICT,
    f"```json\n{OTHER}\n```",
    f"<think>maybe {OTHER}</think>\n{VERDICT}",
    "{'reasoning': 'it\\'s \"fine\"', 'score': '8/10',} // done",
    f"Prose {{x: 1}}. {VERDICT} Score: 0.75",
    '{"parts": {"score": 1.0}, "reasoning": "C:\\new \\$5", "score": 0,25}',
    "Overall score: 4/5\nBecause.",
]
SHARDS = [
    '"',
    "'",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\",
    "/",
    "%",
    "-",
    "e9",
    "NaN",
    "null",
    "<think>",
    "</think>",
    "\x00",
]
SHARDS += [
    "\ud800",
    "\ufffc",
    "`" * 3,
    '"score"',
    "score",
    "0.5",
    "9" * 400,
    "1e999",
    "/0",
    "\n",
    "//",
    "/*",
    "#",
    "“",
]


def mutate(chance, text):
    for _ in range(chance.randint(1, 6)):
        at, to = sorted(chance.choices(range(len(text) + 1), k=2))
        change = chance.randrange(5)
        if change == 0:
            text = text[:at]
        elif change == 1:
            text = text[:at] + text[to:]
        elif change == 2:
            text = text[:to] + text[at:]
        else:
            text = text[:at] + chance.choice(SHARDS) + text[at:]
    return text


@pytest.mark.parametrize("seed", range(10))
def test_mutated_reply_never_crashes_and_never_leaves_the_range(seed):
    chance = random.Random(seed)
    read = 0
    for _ in range(2_000):
        text = mutate(chance, chance.choice(SEEDS))
        options = {
            "finish_reason": chance.choice([None, "stop", "length"]),
            "scale_max": chance.choice([1, 10]),
        }
        score, reasoning, why = read_reply(text, **options)
        assert (score is None) == (why is not None), text
        assert score is None or 0 <= score <= 1, text
        assert reasoning is None or reasoning.encode("utf-8") is not None, text
        read += score is not None
    assert 100 < read < 1_900  # the mutations reach both sides
