"""Read the question and the answer out of plain text or a chat message list."""

import json
from typing import Any, NamedTuple


class Turn(NamedTuple):
    """One message of a conversation: who speaks (as the data spells it) and what is said."""

    role: str
    text: str


_Message = tuple[str, str | None]
_JSON_STARTS = frozenset("[{")


def read_prompt(prompt: str | None) -> tuple[str | None, tuple[Turn, ...]]:
    """Return the question of a prompt and the turns before it.

    Args:
        prompt: plain text, or a message list as JSON: `[{"role": .., "content": ..}, ..]`, bare or under
            `messages`. Content is a text, null, or a list of parts (`{"type": "text", "text": ..}`), whose
            texts are joined by a line break; parts without text (images) are passed over.

    Returns:
        The text of the last user turn and the earlier turns that have a text. What is no message list, or
        has no user turn, is the question itself, unchanged. The question is null if the prompt is null or
        its last user turn has no text. Malformed text never raises.
    """
    if not prompt or not _may_be_messages(prompt):
        return prompt, ()
    messages = _read_messages(prompt)
    for index in range(len(messages) - 1, -1, -1):
        role, text = messages[index]
        if role.casefold() == "user":
            return text, tuple(Turn(who, said) for who, said in messages[:index] if said is not None)
    return prompt, ()


def read_answer(sut_response: str | None) -> str | None:
    """Return the answer of a response: the last assistant turn of a message list, else the text itself.

    Null stays null. A last assistant turn without text (a bare tool call) is null too: missing, not blank.
    """
    if not sut_response or not _may_be_messages(sut_response):
        return sut_response
    for role, text in reversed(_read_messages(sut_response)):
        if role.casefold() == "assistant":
            return text
    return sut_response


def _read_messages(text: str) -> list[_Message]:
    """Return the messages of a message list, or none at all for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):  # malformed, or nested deeper than Python can follow: plain text
        return []
    if isinstance(data, dict):
        data = data.get("messages")
    messages = _messages(data) if isinstance(data, list) else []
    if "\\ud" in text or "\\uD" in text:
        return [(_valid(role), said and _valid(said)) for role, said in messages]
    return messages


def _may_be_messages(text: str) -> bool:
    """Tell most plain text apart without parsing it; nearly every row stops here."""
    head = text[0]
    if head.isspace():
        head = text.lstrip()[:1]
    return head in _JSON_STARTS and '"role"' in text


def _messages(data: list[Any]) -> list[_Message]:
    messages = [_message(item) for item in data]
    found = [message for message in messages if message is not None]
    return found if len(found) == len(messages) else []


def _message(item: Any) -> _Message | None:
    if not isinstance(item, dict):
        return None
    # a JSON writer that leaves out nulls (Spark's does) leaves out `content`
    role, content = item.get("role"), item.get("content")
    if not isinstance(role, str) or not isinstance(content, str | list | None):
        return None
    return role, _joined(content) if isinstance(content, list) else content


def _joined(parts: list[Any]) -> str | None:
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    found = [text for text in texts if isinstance(text, str)]
    return "\n".join(found) if found else None


def _valid(text: str) -> str:
    """Replace lone surrogates, which JSON escapes can spell but neither Arrow nor HTTP can carry."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
