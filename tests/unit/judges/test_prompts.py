"""The prompts say what the metric means, constant part first, and refuse a template that can't work."""

import json
import pickle
from hashlib import sha256

import pytest

from prspark.judges.prompts import PROMPT_VERSION, PromptError, Prompts, response_schema
from prspark.judges.protocol import CorrectnessRequest, RobustnessRequest
from prspark.metric.conversation import Turn

PROMPTS = Prompts()
PAIR = RobustnessRequest("Capital of Peru?", "Lima", "Peru's capital?", "It is Lima.")
ASKED = CorrectnessRequest("Capital of Peru?", "Lima")
CASES = {
    "reference": ASKED._replace(reference="Lima"),
    "context": ASKED._replace(context="Peru's government sits in Lima."),
    "neither": ASKED,
}
CORRECTNESS_TEMPLATE = "Is {answer} right for {question}?"
ROBUSTNESS_TEMPLATE = (
    "Compare {original_answer} with {reworded_answer}, to {original_question} and {reworded_question}."
)


def system(case):
    return PROMPTS.correctness(CASES[case])[0]["content"]


def data(messages):
    return json.loads(messages[1]["content"].split("\n")[1])


ALL_SYSTEMS = [*map(system, CASES), PROMPTS.robustness(PAIR)[0]["content"]]

# A change of any built-in text must come with a new PROMPT_VERSION, or old journals would answer for it.
PINNED = {"1": "d1846c54e09825e3"}


def test_built_in_prompts_do_not_change_without_a_new_version():
    layout = PROMPTS.correctness(CASES["reference"])[1]["content"]
    assert PINNED[PROMPT_VERSION] == sha256("\0".join([*ALL_SYSTEMS, layout]).encode()).hexdigest()[:16]


@pytest.mark.parametrize("text", ALL_SYSTEMS)
def test_levels_are_anchored_and_reasoning_comes_before_the_score(text):
    at = [text.index(f"\n{level} = ") for level in ("1   ", "0.75", "0.5 ", "0.25", "0   ")]
    assert at == sorted(at)
    assert text.index('"reasoning"') < text.index('"score"')
    assert text.rstrip().endswith('{"reasoning": "...", "score": <number from 0 to 1>}')


@pytest.mark.parametrize("text", ALL_SYSTEMS)
def test_hedges_partly_right_answers_extra_detail_and_contradictions_are_ruled(text):
    for rule in ("Caution in tone", "Partly", "Extra detail", "main point is decisive: the score is 0"):
        assert rule in text, rule


def test_each_case_names_its_own_basis():
    assert len({system(case) for case in CASES}) == 3
    assert 'Judge it against the "reference"' in system("reference")
    assert 'Judge it against the "context"' in system("context")
    assert "no reference answer and no context" in system("neither")


def test_robustness_is_agreement_and_not_correctness():
    assert "two wrong answers that say the same agree" in PROMPTS.robustness(PAIR)[0]["content"]


def test_reference_decides_the_case_when_there_is_a_context_too():
    both = CASES["reference"]._replace(context="Peru's government sits in Lima.")
    messages = PROMPTS.correctness(both)
    assert messages[0]["content"] == system("reference")
    assert data(messages) == {
        "context": "Peru's government sits in Lima.",
        "reference": "Lima",
        "question": "Capital of Peru?",
        "answer": "Lima",
    }


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_reference_and_context_are_none(blank):
    assert PROMPTS.correctness(ASKED._replace(reference=blank, context=blank)) == PROMPTS.correctness(ASKED)


def test_history_goes_along_with_its_roles_in_order():
    turns = (Turn("user", "Hi"), Turn("assistant", "Hello"))
    assert data(PROMPTS.correctness(ASKED._replace(history=turns))) == {
        "history": [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Hello"}],
        "question": "Capital of Peru?",
        "answer": "Lima",
    }


def test_pair_goes_along_with_what_its_group_shares_first():
    assert list(data(PROMPTS.robustness(PAIR)).items()) == [
        ("original_question", "Capital of Peru?"),
        ("original_answer", "Lima"),
        ("reworded_question", "Peru's capital?"),
        ("reworded_answer", "It is Lima."),
    ]


@pytest.mark.parametrize("case", CASES)
def test_constant_part_comes_first_and_holds_no_judged_text(case):
    changed = CASES[case]._replace(question="Q2", answer="A2", history=(Turn("user", "H2"),))
    messages = PROMPTS.correctness(changed)
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"] == system(case)
    assert "Lima" not in system(case)


def test_same_request_is_the_same_bytes_and_another_request_has_another_delimiter():
    assert Prompts().correctness(ASKED) == PROMPTS.correctness(ASKED)
    other = PROMPTS.correctness(ASKED._replace(answer="Cusco"))
    assert other[1]["content"].split("\n")[0] != PROMPTS.correctness(ASKED)[1]["content"].split("\n")[0]


def test_schema_asks_for_reasoning_first_and_a_score_from_0_to_1():
    schema = response_schema()
    assert schema == {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["reasoning", "score"],
        "additionalProperties": False,
    }
    assert list(schema["properties"]) == ["reasoning", "score"]


def test_schema_with_levels_lists_21_scores_from_0_to_1_the_anchored_ones_among_them():
    levels = response_schema(levels=True)["properties"]["score"]["enum"]
    assert len(set(levels)) == 21
    assert (min(levels), max(levels)) == (0, 1)
    assert {0, 0.25, 0.5, 0.75, 1} < set(levels)
    assert json.dumps(levels[:4]) == "[0, 0.05, 0.1, 0.15]"


def test_template_replaces_the_instructions_and_keeps_data_and_verdict():
    messages = Prompts(correctness_template=CORRECTNESS_TEMPLATE).correctness(CASES["reference"])
    assert messages[0]["content"].startswith('Is "answer" right for "question"?\n')
    assert messages[0]["content"].count('"score": <number from 0 to 1>') == 1
    assert "0.25" not in messages[0]["content"]
    assert messages[1] == PROMPTS.correctness(CASES["reference"])[1]


def test_template_of_one_kind_leaves_the_other_as_it_was():
    prompts = Prompts(robustness_template=ROBUSTNESS_TEMPLATE)
    assert prompts.correctness(ASKED) == PROMPTS.correctness(ASKED)
    assert prompts.robustness(PAIR)[0]["content"].startswith(
        'Compare "original_answer" with "reworded_answer"'
    )


@pytest.mark.parametrize("plain", ["{}", '{"reasoning": 1}', "{a b}", "{0}", "$5 \\1 %s", "{", "}"])
def test_other_braces_and_signs_in_a_template_are_plain_text(plain):
    prompts = Prompts(correctness_template=f"{CORRECTNESS_TEMPLATE} {plain}!")
    assert f"{plain}!" in prompts.correctness(ASKED)[0]["content"]


@pytest.mark.parametrize(
    ("templates", "words"),
    [
        ({"correctness_template": ""}, ["judge.correctness_template", "{question}", "{answer}"]),
        ({"correctness_template": "Is it right?"}, ["judge.correctness_template", "{question}", "{answer}"]),
        ({"correctness_template": "Is {answer} right?"}, ["judge.correctness_template", "{question}"]),
        ({"robustness_template": CORRECTNESS_TEMPLATE}, ["judge.robustness_template", "{answer}"]),
        (
            {"robustness_template": ROBUSTNESS_TEMPLATE.replace("{original_answer}", "it")},
            ["judge.robustness_template", "{original_answer}"],
        ),
        (
            {"correctness_template": CORRECTNESS_TEMPLATE + " {referense}"},
            ["judge.correctness_template", "{referense}", "did you mean {reference}?"],
        ),
        (
            {"correctness_template": CORRECTNESS_TEMPLATE + " {xyz}"},
            ["judge.correctness_template", "{xyz}", "did you mean {"],
        ),
    ],
)
def test_template_that_can_not_work_is_refused_in_one_line_that_names_key_and_field(templates, words):
    with pytest.raises(PromptError) as refused:
        Prompts(**templates)
    assert "\n" not in str(refused.value)
    for word in words:
        assert word in str(refused.value)


def test_prompt_error_is_a_value_error_so_that_configuration_reports_it():
    assert issubclass(PromptError, ValueError)


def test_version_changes_with_either_template_and_only_with_them():
    versions = [
        Prompts(),
        Prompts(correctness_template=CORRECTNESS_TEMPLATE),
        Prompts(correctness_template=CORRECTNESS_TEMPLATE + "!"),
        Prompts(robustness_template=ROBUSTNESS_TEMPLATE),
        Prompts(CORRECTNESS_TEMPLATE, ROBUSTNESS_TEMPLATE),
    ]
    assert len({prompts.version() for prompts in versions}) == 5
    assert Prompts().version() == PROMPT_VERSION
    assert all(prompts.version().startswith(PROMPT_VERSION) for prompts in versions)
    assert Prompts(CORRECTNESS_TEMPLATE).version() == versions[1].version()


def test_prompts_travel_to_workers():
    prompts = Prompts(CORRECTNESS_TEMPLATE)
    assert pickle.loads(pickle.dumps(prompts)) == prompts  # noqa: S301  its own bytes
