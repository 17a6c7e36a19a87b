"""Roles, tiers, repeats and copies: the rules that decide what is compared with what."""

import itertools
import json

import pytest

from prspark.metric.conversation import Turn
from prspark.metric.group import Answer, Match, Role, baseline_rank, classify, match_tier, read_answer_row
from prspark.metric.reasons import UnscoredReason
from prspark.metric.score import Status

QUERY = "What is the capital of Peru?"
REWORDED = "Which city is Peru's capital?"


def row(query: str | None = QUERY, answer: str | None = "Lima", **more) -> Answer:
    return Answer(query, answer, **more)


def roles(answers, original=QUERY, **options) -> list[str]:
    return [str(role) for role in classify(answers, original, **options).roles]


# --- the query and the answer of a row


def test_stated_query_wins_and_the_history_still_comes_from_the_prompt():
    prompt = json.dumps(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "And Peru?"}]
    )
    answer = read_answer_row(prompt=prompt, sut_response="Lima", query=QUERY)
    assert (answer.query, answer.history) == (QUERY, (Turn("system", "Be brief."),))


def test_query_is_else_the_last_user_turn_else_the_prompt_itself():
    chat = json.dumps([{"role": "user", "content": "Hi"}, {"role": "user", "content": QUERY}])
    assert read_answer_row(prompt=chat, sut_response="Lima").query == QUERY
    assert read_answer_row(prompt=QUERY, sut_response="Lima").query == QUERY
    assert read_answer_row(prompt="[1,2,3]", sut_response="Lima").query == "[1,2,3]"


def test_stated_blank_query_is_blank_and_not_replaced_by_the_prompt():
    blank = read_answer_row(prompt=QUERY, sut_response="Lima", query="")
    assert classify([blank], QUERY).reasons == [UnscoredReason.EMPTY_PROMPT]


def test_answer_of_a_row_is_read_from_a_message_list():
    response = json.dumps([{"role": "assistant", "content": "Lima"}])
    assert read_answer_row(prompt=QUERY, sut_response=response).answer == "Lima"
    assert read_answer_row(prompt=QUERY, sut_response=None).answer is None


def test_everything_else_of_a_row_is_handed_through():
    answer = read_answer_row(
        prompt=QUERY,
        sut_response="Lima",
        input_id="7",
        reference="Lima",
        context="Peru ...",
        perturbation_type="Typo",
        task_type="single_turn_rag",
        row_key=(3, 5),
    )
    assert answer == Answer(QUERY, "Lima", "7", (), "Lima", "Peru ...", "Typo", "single_turn_rag", (3, 5))


# --- how a query matches the original query


@pytest.mark.parametrize(
    ("query", "original", "tier"),
    [
        ("What is it?", "What is it?", 0),
        ("What is it? ", "What is it?", 1),
        ("\tWhat is it?\n", "What is it?", 1),
        ("\u00a0What is it?", "What is it?", 1),
        ("cafe\u0301?", "caf\u00e9?", 1),
        ("caf\u00e9?", "cafe\u0301?", 1),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "\ud55c\uae00", 1),
        ("What  is it?", "What is it?", 2),
        ("What\u00a0is\u3000it?", "What is it?", 2),
        ("What is\r\nit?", "What is it? ", 2),
        ("  cafe\u0301  noir ", "caf\u00e9 noir", 2),
        ("what is it?", "What is it?", None),
        ("WHAT IS IT?", "What is it?", None),
        ("Stra\u00dfe", "Strasse", None),
        ("Whatis it?", "What is it?", None),
        ("What is it", "What is it?", None),
        ("What was it?", "What is it?", None),
        ("\ufb01n", "fin", None),  # a ligature: equal only under NFKC
        ("What\u200b is it?", "What is it?", None),  # a zero-width space is no white space
        ("", "What is it?", None),
        (None, "What is it?", None),
        ("\ud800 ", "\ud800", 1),
        ("a\x00b ", "a\x00b", 1),
    ],
)
def test_match_is_exact_then_trimmed_and_nfc_then_collapsed_and_never_case_folded(query, original, tier):
    assert match_tier(query, original) == tier


@pytest.mark.parametrize(
    ("query", "match"),
    [(QUERY, Match.EXACT), (QUERY + " ", Match.NORMALIZED), (QUERY.replace(" ", "  "), Match.COLLAPSED)],
)
def test_closest_match_is_the_baseline_and_says_how_it_matched(query, match):
    result = classify([row(REWORDED), row(query)], QUERY)
    assert (result.status, result.baseline, result.match) == (None, 1, match)
    assert result.roles == [Role.VARIANT, Role.BASELINE]


def test_looser_matches_beside_an_exact_one_are_variants():
    answers = [row(QUERY + " "), row(QUERY.replace(" ", "  ")), row(QUERY)]
    result = classify(answers, QUERY)
    assert result.match is Match.EXACT
    assert result.roles == [Role.VARIANT, Role.VARIANT, Role.BASELINE]
    assert result.counted == [True, True, False]


def test_collapsed_match_beside_a_normalized_one_is_a_variant():
    result = classify([row(QUERY.replace(" ", "  ")), row(QUERY + " ")], QUERY)
    assert (result.match, result.roles) == (Match.NORMALIZED, [Role.VARIANT, Role.BASELINE])


def test_same_tier_in_other_spacing_is_a_repeat():
    answers = [row(QUERY + " ", input_id="b"), row(" " + QUERY, input_id="a"), row(REWORDED)]
    assert roles(answers) == ["repeat", "baseline", "variant"]


def test_change_of_case_is_a_variant_and_never_the_baseline():
    assert roles([row(QUERY), row(QUERY.upper())]) == ["baseline", "variant"]
    result = classify([row(QUERY.upper()), row(REWORDED)], QUERY)
    assert (result.status, result.match) == (Status.MISSING_BASELINE, None)


# --- several baselines


def test_row_that_says_original_is_the_baseline_before_a_smaller_id():
    answers = [row(input_id="1", perturbation_type="Typo"), row(input_id="2", perturbation_type=" Original ")]
    assert roles([*answers, row(REWORDED)]) == ["repeat", "baseline", "variant"]


def test_a_closer_match_wins_over_the_row_that_says_original():
    answers = [row(QUERY + " ", perturbation_type="original"), row(perturbation_type="Typo")]
    assert roles(answers) == ["variant", "baseline"]


def test_smallest_id_is_the_baseline_among_equals_and_null_comes_last():
    assert roles([row(input_id=None), row(input_id="b"), row(input_id="a")]) == [
        "repeat",
        "repeat",
        "baseline",
    ]


def test_ids_compare_as_numbers_only_where_they_are_numbers():
    answers = [row(input_id="10"), row(input_id="9")]
    assert roles(answers) == ["baseline", "repeat"]
    assert roles(answers, numeric_ids=True) == ["repeat", "baseline"]
    odd = [
        row(input_id="NaN"),
        row(input_id=None),
        row(input_id="x"),
        row(input_id="1E400"),
        row(input_id="-3"),
    ]
    assert roles(odd, numeric_ids=True) == ["repeat", "repeat", "repeat", "repeat", "baseline"]


def test_texts_and_then_the_row_key_break_the_last_ties():
    assert roles([row(answer="Lima"), row(answer="Cusco")]) == ["repeat", "baseline"]
    assert roles([row(answer=None), row(answer="Lima")]) == ["repeat", "baseline"]
    assert roles([row(reference="b"), row(reference="a")]) == ["repeat", "baseline"]
    assert roles([row(context="b"), row(context="a")]) == ["repeat", "baseline"]
    assert roles([row(history=(Turn("user", "b"),)), row(history=())]) == ["repeat", "baseline"]
    assert roles([row(row_key=(10, 5)), row(row_key=(9, 5))]) == ["repeat", "baseline"]
    assert roles([row(row_key=None), row(row_key=(9, 5))]) == ["repeat", "baseline"]


def test_repeats_stay_out_of_the_means_whatever_they_answered():
    answers = [row(input_id="1"), row(answer="Cusco", input_id="2"), row(REWORDED, input_id="3")]
    result = classify(answers, QUERY)
    assert result.roles == [Role.BASELINE, Role.REPEAT, Role.VARIANT]
    assert result.counted == [False, False, True]


# --- copies of a variant


def test_identical_rows_count_once_and_keep_their_role():
    answers = [row(), row(REWORDED, input_id="2"), row(REWORDED, input_id="2")]
    result = classify(answers, QUERY)
    assert result.roles == [Role.BASELINE, Role.VARIANT, Role.VARIANT]
    assert result.counted == [False, True, False]


@pytest.mark.parametrize(
    "other", [row(REWORDED, input_id="3"), row(REWORDED, "Cusco", input_id="2"), row(REWORDED, input_id=None)]
)
def test_rows_that_differ_in_id_or_answer_count_each(other):
    result = classify([row(), row(REWORDED, input_id="2"), other], QUERY)
    assert result.counted == [False, True, True]


def test_null_ids_and_null_answers_are_equal_to_themselves():
    result = classify([row(), row(REWORDED, None), row(REWORDED, None)], QUERY)
    assert result.counted == [False, True, False]


def test_copy_that_counts_is_chosen_by_content_not_by_place():
    first, second = row(REWORDED, reference="a", row_key=(2, 5)), row(REWORDED, reference="b", row_key=(1, 5))
    assert classify([row(), first, second], QUERY).counted == [False, True, False]
    assert classify([second, first, row()], QUERY).counted == [False, True, False]


# --- rows that take no part, and groups that can't be judged


@pytest.mark.parametrize("query", [None, "", " \n\u00a0"])
def test_blank_query_is_excluded_as_empty_prompt(query):
    result = classify([row(), row(query), row(REWORDED)], QUERY)
    assert result.roles == [Role.BASELINE, Role.EXCLUDED, Role.VARIANT]
    assert result.reasons == [None, UnscoredReason.EMPTY_PROMPT, None]
    assert result.counted == [False, False, True]


@pytest.mark.parametrize(
    "kind", ["single_turn_llm", "multi_turn_llm", "single_turn_rag", "multi_turn_rag", None, ""]
)
def test_the_four_task_types_and_none_at_all_are_supported(kind):
    assert classify([row(task_type=kind), row(REWORDED)], QUERY).reasons == [None, None]


def test_row_of_another_task_type_is_excluded_and_never_the_baseline():
    answers = [row(task_type="agent_trace"), row(REWORDED), row(REWORDED + "?", task_type="Single_Turn_LLM")]
    result = classify(answers, QUERY)
    assert result.status is Status.MISSING_BASELINE
    assert result.roles == [Role.EXCLUDED, Role.VARIANT, Role.EXCLUDED]
    assert result.reasons == [
        UnscoredReason.UNSUPPORTED_TASK_TYPE,
        None,
        UnscoredReason.UNSUPPORTED_TASK_TYPE,
    ]


def test_excluded_exact_match_does_not_hide_a_looser_baseline():
    result = classify([row(task_type="agent_trace"), row(QUERY + " "), row(REWORDED)], QUERY)
    assert (result.baseline, result.match) == (1, Match.NORMALIZED)


def test_null_answer_is_missing_but_keeps_its_role_and_counts_as_a_pair():
    result = classify([row(answer=None), row(REWORDED, None)], QUERY)
    assert result.roles == [Role.BASELINE, Role.VARIANT]
    assert result.reasons == [UnscoredReason.MISSING_RESPONSE] * 2
    assert result.counted == [False, True]
    assert result.status is None


@pytest.mark.parametrize("answer", ["", "  \n"])
def test_blank_answer_is_an_answer(answer):
    result = classify([row(answer=answer), row(REWORDED, answer)], QUERY)
    assert (result.reasons, result.counted) == ([None, None], [False, True])


def test_group_without_a_baseline_has_variants_but_counts_nothing():
    result = classify([row(REWORDED), row(REWORDED + "?")], QUERY)
    assert (result.status, result.baseline, result.match) == (Status.MISSING_BASELINE, None, None)
    assert result.roles == [Role.VARIANT, Role.VARIANT]
    assert result.counted == [False, False]


def test_group_of_a_baseline_and_its_repeats_has_no_variants():
    result = classify([row(input_id="1"), row(input_id="2"), row(" ")], QUERY)
    assert (result.status, result.baseline) == (Status.NO_VARIANTS, 0)
    assert result.roles == [Role.BASELINE, Role.REPEAT, Role.EXCLUDED]


@pytest.mark.parametrize("original", [None, "", "  \n"])
def test_missing_or_blank_original_query_keeps_the_rows_out_of_any_group(original):
    result = classify([row(), row(" "), row(REWORDED, None)], original)
    assert (result.status, result.baseline, result.match) == (Status.MISSING_ORIGINAL_QUERY, None, None)
    assert result.roles == [Role.EXCLUDED] * 3
    assert result.reasons == [None, UnscoredReason.EMPTY_PROMPT, UnscoredReason.MISSING_RESPONSE]
    assert result.counted == [False] * 3


def test_empty_group_has_no_baseline():
    assert classify([], QUERY).status is Status.MISSING_BASELINE


# --- any order, any split


MIXED = [
    row(input_id="2", row_key=(0, 5)),
    row(input_id="1", row_key=(1, 5), perturbation_type="Typo"),
    row(QUERY + " ", row_key=(2, 5)),
    row(REWORDED, input_id="9", row_key=(3, 5), reference="b"),
    row(REWORDED, input_id="9", row_key=(4, 5), reference="a"),
    row(None, row_key=(5, 5)),
    row(QUERY.lower(), None, row_key=(6, 5), task_type="multi_turn_llm"),
]
# the two copies (keys 3, 4) count once: the one whose reference sorts first
EXPECTED = {
    0: ("repeat", None, False),
    1: ("baseline", None, False),
    2: ("variant", None, True),
    3: ("variant", None, False),
    4: ("variant", None, True),
    5: ("excluded", "empty_prompt", False),
    6: ("variant", "missing_response", True),
}


def by_key(answers, result) -> dict:
    rows = zip(answers, result.roles, result.reasons, result.counted, strict=True)
    return {answer.row_key[0]: (role, reason, counted) for answer, role, reason, counted in rows}


def test_order_of_the_rows_changes_no_row():
    for order in itertools.permutations(MIXED):
        result = classify(order, QUERY)
        assert by_key(order, result) == EXPECTED
        assert order[result.baseline].row_key == (1, 5)


def best_of(answers) -> tuple | None:
    ranks = [(baseline_rank(answer, QUERY), answer) for answer in answers]
    return min((pair for pair in ranks if pair[0] is not None), key=lambda pair: pair[0], default=None)


@pytest.mark.parametrize(
    "cut", [0, 1, 2, 3, 5, 6, 7]
)  # 4 would part the two copies, which callers keep together
def test_parts_of_a_group_with_its_baseline_give_what_the_whole_gives(cut):
    parts = MIXED[:cut], MIXED[cut:]
    bests = [best for part in parts if (best := best_of(part)) is not None]
    _, baseline = min(bests, key=lambda pair: pair[0])
    results = [(part, classify(part, QUERY, baseline=baseline)) for part in parts]
    assert {key: found for part, result in results for key, found in by_key(part, result).items()} == EXPECTED
    assert {result.match for _, result in results} == {Match.EXACT}


def test_part_without_the_baseline_knows_it_is_elsewhere():
    elsewhere = row(input_id="1", row_key=(1, 5))
    result = classify(
        [row(REWORDED, row_key=(2, 5)), row(input_id="2", row_key=(3, 5))], QUERY, baseline=elsewhere
    )
    assert (result.status, result.baseline, result.match) == (None, None, Match.EXACT)
    assert result.roles == [Role.VARIANT, Role.REPEAT]


def test_part_matches_no_more_loosely_than_the_baseline_elsewhere():
    part = [row(QUERY + " "), row(QUERY.replace(" ", "  "))]
    assert roles(part, baseline=row(row_key=(1, 5))) == ["variant", "variant"]
    assert roles(part, baseline=row(" " + QUERY, row_key=(1, 5))) == ["repeat", "variant"]
    assert roles(part[1:], baseline=row(" " + QUERY, row_key=(1, 5))) == ["variant"]


def test_baseline_is_known_by_its_row_key_even_if_a_fallback_filled_it_in():
    part = [row(row_key=(2, 5)), row(row_key=(1, 5)), row(REWORDED)]
    filled = row(row_key=(1, 5), reference="Lima")
    assert roles(part, baseline=filled) == ["repeat", "baseline", "variant"]


def test_baseline_without_a_row_key_is_known_by_its_rank():
    part = [row(input_id="2"), row(input_id="1"), row(REWORDED)]
    assert roles(part, baseline=row(input_id="1")) == ["repeat", "baseline", "variant"]


def test_ranks_of_all_kinds_of_rows_compare_and_order_as_the_rules_say():
    best_first = [
        row(perturbation_type="ORIGINAL", input_id="z"),
        row(perturbation_type="Baseline", input_id=None),
        row(input_id="1", perturbation_type="Typo"),
        row(input_id="2", answer="a", row_key=(1, 5)),
        row(input_id="2", answer="a", row_key=(2, 5)),
        row(input_id="2", answer="a", row_key=None),
        row(input_id="2", answer="b", history=(Turn("user", "a"),)),
        row(input_id="2", answer=None),
        row(input_id=None),
        row(QUERY + " ", perturbation_type="Original", input_id="0"),
        row(QUERY.replace(" ", "  "), input_id="0"),
    ]
    for numeric in (False, True):
        ranks = [baseline_rank(answer, QUERY, numeric_ids=numeric) for answer in best_first]
        assert ranks == sorted(ranks)
        assert len(set(ranks)) == len(ranks)


@pytest.mark.parametrize("answer", [row(REWORDED), row(None), row(" "), row(task_type="agent_trace")])
def test_rows_that_cannot_be_the_baseline_have_no_rank(answer):
    assert baseline_rank(answer, QUERY) is None
