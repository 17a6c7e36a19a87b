"""Canaries: secrets and judged texts that a test looks for in everything a run writes."""

TOKEN = "sk-canary0token0in0the0environment"  # noqa: S105  it opens nothing
HEADER = "canary0header0value"
HEADER_ENV = "CANARY_HEADER"
SECRETS = (TOKEN, HEADER)

ORIGINAL = "canary0original0question"
REWORDED = "canary0reworded0question"
HISTORY = "canary0earlier0turn"
ANSWER = "canary0answer"
REFERENCE = "canary0reference0of0a0row"
CONTEXT = "canary0context0of0a0row"
IN_ROWS = (ORIGINAL, REWORDED, HISTORY, ANSWER, REFERENCE, CONTEXT)

FALLBACK_REFERENCE = "canary0reference0of0the0configuration"
FALLBACK_CONTEXT = "canary0context0of0the0configuration"
TEMPLATE = "canary0template"
IN_CONFIGURATION = (FALLBACK_REFERENCE, FALLBACK_CONTEXT, TEMPLATE)
JUDGED = (*IN_ROWS, *IN_CONFIGURATION)


def _row(input_id: str, prompt: object, answer: str, **metadata: str) -> dict[str, object]:
    return {
        "input_id": input_id,
        "prompt": prompt,
        "sut_response": f"{ANSWER} {answer}",
        "metadata": {"original_query": f"{ORIGINAL}?", **metadata},
    }


ROWS = [
    _row("1", f"{ORIGINAL}?", "one", reference_answer=REFERENCE, groundtruth_context=CONTEXT),
    _row("2", f"{REWORDED}, please?", "two"),
    _row(
        "3",
        f'[{{"role": "user", "content": "{HISTORY}"}}, {{"role": "user", "content": "{REWORDED} again?"}}]',
        "three",
    ),
]
"""A group of a baseline and two variants; two rows bring no reference and no context of their own."""
