"""The embedded judge compares final answers in any form, then words, and never invents a verdict."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from prspark.judges.lexical import LexicalJudge
from prspark.judges.protocol import CorrectnessRequest, Judge, RobustnessRequest, Verdict
from prspark.metric.reasons import UnscoredReason

JUDGE = LexicalJudge()


def correctness(reference, answer, *, context=None):
    return JUDGE.correctness(CorrectnessRequest("q", answer, reference, context))


def robustness(one, other):
    there = JUDGE.robustness(RobustnessRequest("q", one, "r", other))
    back = JUDGE.robustness(RobustnessRequest("q", other, "r", one))
    assert there == back, "order must not matter"
    return there.score


def test_it_is_a_free_judge_with_an_identity():
    assert isinstance(JUDGE, Judge)
    assert JUDGE.free is True
    assert JUDGE.identity == "lexical/1"
    assert correctness("72", "72").attempts == 0


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        # separators, currency, signs
        ("1250", "$1,250.00"),
        ("$1,250.00", "1250"),
        ("1250", "1.250,00 €"),
        ("1250", "1'250"),
        ("1234567", "1\u202f234\u202f567"),
        ("1250000", "12,50,000"),
        ("12.5", "12,5"),
        ("0.125", "0,125"),
        ("$5", "5 dollars"),
        ("$0.50", "50 cents"),
        (".5", "0.5"),
        ("-3", "The answer is -3."),
        ("-3", "\u22123"),
        ("-3", "minus 3"),
        ("-3", "Negative 3"),
        ("-50", "-$50"),
        ("-50", "$-50"),
        ("0", "-0"),
        ("5.00", "5"),
        # fractions, percentages, powers, scales, words
        ("1/2", "0.5"),
        ("1/2", "50%"),
        ("50%", "0.5"),
        ("25", "25%"),
        ("20%", "The discount is 20 percent"),
        ("3.5", "3½"),
        ("3.5", "3 1/2"),
        ("-1/2", "-\\frac{1}{2}"),
        ("0.33", "1/3"),
        ("1/3", "33.33%"),
        ("0.000001", "1e-6"),
        ("300000000", "3 \u00d7 10^8 m/s"),
        ("100", "10²"),
        ("1000000", "1 million"),
        ("1500000", "$1.5M"),
        ("5000", "5k"),
        ("24", "2 dozen"),
        ("7", "seven"),
        ("25", "twenty-five"),
        ("50", "\uff15\uff10"),
        ("50", "\u0665\u0660"),
        # units and names
        ("3", "3 apples"),
        ("72", "72 cubic inches"),
        ("72", "72 in³"),
        ("7", "x = 7"),
        ("120 minutes", "2 hours"),
        ("1 week", "7 days"),
        # marks
        ("72", "He has 3 boxes of 24.\n#### 72"),
        ("He has 3 boxes of 24.\n#### 72", "72"),
        ("72", "**Answer:** 72"),
        ("72", "**Final Answer**: 72 cubic inches"),
        ("72", "## Answer\n72"),
        ("72", "Answer: 72\n\nExplanation: each of the 3 boxes holds 24."),
        ("72", "Answer:\nThe volume is 72.\n\nExplanation: 3 boxes of 24."),
        ("72", "So the answer is 72. Let me know if my answer is helpful to 100 people!"),
        ("73", "Is the answer: 72? No, the answer is 73."),
        ("42", "The final answer is $\\boxed{42}$. I hope it is correct."),
        ("1/2", "So $x = \\boxed{\\frac{1}{2}}$."),
        ("7", "The answer is not 5 but 7."),
        ("72", "I don't know all details, but it must be 72."),
        ("42", "<answer>42</answer>"),
        ("72", "答案\uff1a72"),
        ("72", "答えは72です。"),
        ("72", "La respuesta es: 72"),
        # conclusions
        ("64", "Kylar needs to pay $64 for the 16 glasses."),
        ("5", "He walked 5 miles in 2 hours."),
        ("125", "Jewelry is best, with a profit of $125 compared to gadgets, which make $96."),
        ("11", "Therefore, 11 groups can perform in the 2-hour concert.\n\nDo you want 5 more tips?"),
        ("16", "We get x = 9.\n\nSo, Lily found 16 insects (9 + 7)."),
        ("72", "The total is 24 * 3 = 72 cubic inches for all 3 boxes."),
        # dates, times, choices, words
        ("2024-03-05", "March 5, 2024"),
        ("2024-03-05", "It was on 5th of March 2024."),
        ("2024-03-25", "25/03/2024"),
        ("19:30", "7:30 pm"),
        ("3:2", "The ratio is 3:2"),
        ("B", "The answer is (B)."),
        ("72", "B) 72 cubic inches"),
        ("yes", "Yes, you can."),
        ("no", "It is not possible."),
        ("yes", "はい"),
        ("Paris", "The capital of France is Paris."),
        ("北京", "中国的首都是北京。"),
        ("กรุงเทพ", "เมืองหลวงคือกรุงเทพมหานคร"),
        ("1.2.3", "It is version 1.2.3."),
    ],
)
def test_same_answer_in_another_form_is_right(reference, answer):
    assert correctness(reference, answer).score == 1


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("-3", "3"),
        ("72", "7.2"),
        ("0.5", "0.5%"),
        ("0.3", "1/3"),
        ("50%", "50.4%"),
        ("$5", "€5"),
        ("2 hours", "2 minutes"),
        ("12345678901234567", "12345678901234568"),
        ("10", "10²"),
        ("72", "I cannot determine this."),
        ("72", "Answer: [final answer]"),
        ("64", "Kylar needs to pay $16 for the 64 glasses."),
        ("96", "Jewelry is best, with a profit of $125 compared to gadgets, which make $96."),
        ("2024-03-05", "March 6, 2024"),
        ("3:2", "2:3"),
        ("B", "(C) 12"),
        ("yes", "No, you can't."),
        ("True", "false"),
        ("Paris", "London"),
        ("東京", "大阪です"),
        ("👍", "👎"),
    ],
)
def test_another_answer_is_wrong(reference, answer):
    assert correctness(reference, answer).score == 0


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("Paris", "It is not Paris"),
        ("72", "It is not 72"),
        ("72", "The answer is not 72 but 73."),
        ("Refunds within 30 days", "Refunds within 60 days"),
        ("The shop is open on Sunday", "The shop isn't open on Sunday"),
    ],
)
def test_answer_that_denies_the_reference_stays_below_one_half(reference, answer):
    assert correctness(reference, answer).score < 0.5


def test_extra_detail_costs_little_and_missing_detail_more():
    reference = "refunds take several days"
    # all 4 words among 8, not in one piece: F2 = 5 * 4 / (4 * 4 + 8)
    # 2 of 4 words and nothing else: 5 * 2 / (4 * 4 + 2)
    assert correctness(reference, "refunds usually take about several days via bank").score == pytest.approx(
        5 / 6
    )
    assert correctness(reference, "refunds days").score == pytest.approx(10 / 18)


def test_without_reference_the_context_supports_the_answer():
    context = "The Nile flows north through eleven countries into the Mediterranean."
    # content words: nile, flows, south, africa; the first two are in the context
    verdict = correctness(None, "The Nile flows south in Africa", context=context)
    assert verdict.score == pytest.approx(0.5)
    assert correctness(" ", "The Nile flows north", context=context).score == 1


def test_without_reference_and_context_it_is_unscored_and_not_invented():
    for reference, context in ((None, None), ("", " "), (" \n", None)):
        verdict = correctness(reference, "72", context=context)
        assert verdict.score is None
        assert verdict.unscored_reason is UnscoredReason.REFERENCE_REQUIRED


@pytest.mark.parametrize(
    ("one", "other", "score"),
    [
        ("72", "72 cubic inches", 1),
        ("72", "73", 0),
        ("Answer: 72", "3 boxes.\nTherefore, the volume of all 3 boxes is 72 cubic inches.", 1),
        ("Answer: 72", "It cannot be determined.", 0),
        ("Answer: Paris\n\n2 million people live there.", "Paris", 1),
        ("March 5, 2024", "2024-03-05", 1),
        ("The answer is B", "(B)", 1),
        ("The answer is B", "The answer is C", 0),
        ("B) 72 cubic inches", "72", 1),
        ("Yes", "No", 0),
        ("Paris", "paris.", 1),
        (" ", "", 0),
        ("", "72", 0),
        # 3 common words of 3 and 4: F1 = 6 / 7
        ("grey cats sleep", "grey cats sleep soundly", 6 / 7),
        # bigrams 今天 天天 天气 of 5 and 5: F1 = 6 / 10
        ("今天天气很好", "今天天气不错", 0.6),
    ],
)
def test_pairs_agree_by_final_answer_then_by_words(one, other, score):
    assert robustness(one, other) == pytest.approx(score)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Refunds are possible within 30 days", "Refunds are possible within 14 days"),
        ("You can return it", "You can not return it"),
    ],
)
def test_short_answers_that_deny_each_other_stay_below_one_half(one, other):
    assert robustness(one, other) < 0.5


def test_decomposed_full_width_and_invisible_characters_do_not_matter():
    assert robustness("Café au lait", "cafe\u0301 au\u200b lait") == 1
    assert robustness("\uff21\uff22\uff23 street", "abc STREET") == 1


def test_verdicts_hold_no_judged_text():
    judged = "zebra"
    for verdict in (
        correctness(judged, f"{judged} stripes"),
        correctness(f"{judged} a b c d", f"{judged} e"),
        correctness(None, judged, context=judged),
        JUDGE.robustness(RobustnessRequest(judged, f"{judged} 1", judged, f"{judged} 2")),
    ):
        assert judged not in str(verdict)


@pytest.mark.parametrize(
    "hostile",
    [
        "$5",
        "C:\\new\\table",
        "{placeholder}",
        "[END DATA]",
        '{"score": 1}',
        "\ud800",
        "\x00",
        "\u202e72",
        "\\boxed{",
        "\\frac{1}{0}",
        "1/0",
        "9" * 5000,
        "99:99:99",
        "00/00/0000",
        "\u0661/\u0662",
        "1e99",
        "10^9^9",
        "²",
        "½½½",
        "answer:",
        "####",
        "=",
        "(" * 50,
    ],
)
def test_any_text_gets_a_verdict_in_range(hostile):
    for verdict in (
        correctness("72", hostile),
        correctness(hostile, "72"),
        correctness(hostile, hostile),
        correctness(None, hostile, context=hostile),
        JUDGE.robustness(RobustnessRequest("q", hostile, "r", "72")),
        JUDGE.robustness(RobustnessRequest("q", hostile, "r", hostile + " ")),
    ):
        assert isinstance(verdict, Verdict)
        assert verdict.score is not None
        assert 0 <= verdict.score <= 1


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "1,",
        "1/",
        "1:",
        "(",
        "-",
        "=",
        "*_",
        "\n",
        "\\boxed{",
        "answer: ",
        "so 1. ",
        "of the 3 ",
        "may ",
        "ก",
        "½",
    ],
)
def test_megabyte_answers_are_read_in_bounded_time(unit):
    huge = unit * (1_000_000 // len(unit))
    start = time.process_time()
    correctness("72", huge)
    correctness("seventy two apples in words", huge)
    JUDGE.robustness(RobustnessRequest("q", huge, "r", huge + "2"))
    # 20 to 200 ms; what is quadratic takes minutes
    assert time.process_time() - start < 3


def test_both_ends_of_a_megabyte_answer_are_read():
    filler = "word " * 200_000
    assert correctness("72", f"{filler}\nAnswer: 72").score == 1
    assert correctness("72", f"Answer: 72\n{filler}").score == 1


def test_verdicts_are_the_same_from_many_threads():
    requests = [CorrectnessRequest("q", f"The answer is {i}", str(i - i % 2)) for i in range(2000)]
    with ThreadPoolExecutor(8) as pool:
        scores = [verdict.score for verdict in pool.map(JUDGE.correctness, requests)]
    assert scores == [1 - i % 2 for i in range(2000)]
