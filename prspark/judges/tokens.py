"""Turn text of any script into comparable tokens, and measure how far two sets of tokens overlap."""

import re
import unicodedata

# Scripts written without spaces between words: Thai, Lao, Myanmar, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and other marks that belong to a word, though Python's \w leaves them out.
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"[^\W_{_UNSPACED}]"

_ASCII_TOKEN = re.compile(r"\d+(?:[.,]\d+)+|[a-z0-9]+(?:'[a-z]+)?")
_TOKEN = re.compile(rf"\d+(?:[.,]\d+)+|[{_UNSPACED}]+|{_LETTER}(?:{_LETTER}|[{_MARKS}])*(?:'{_LETTER}+)?")
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]+")
_GROUPED_BY_NON_BREAKING_SPACE = re.compile("(?<=\\d)[\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")

# How LaTeX and Markdown write signs, fractions and words; anything else with a backslash stays.
_LATEX = re.compile(
    r"(?P<after_digit>(?<=\d))?\\[dt]?frac\{(?P<over>\d{1,40})\}\{(?P<under>\d{1,40})\}"
    r"|\\(?P<times>times|cdot)(?![a-z])|\\(?P<sign>[%$*])|\\[,!]|\\(?:text|mathrm)\{(?P<word>[^{}]{0,200})\}"
    r"|(?<=\d)\{(?P<comma>,)\}(?=\d)"
)

_ARTICLES = frozenset({"a", "an", "the"})
NEGATIONS = frozenset({"not", "no", "never", "cannot", "none", "neither", "nor", "without"})
# Words that any English text contains, so that a context "supports" them whatever it says.
_PROSE = """
    and are as at be been but by can could did do does for from had has have he her his i if in is it its
    of on or our she so than that their them then there these they this those to was we were which will
    with would you your
"""
_FUNCTION_WORDS = _ARTICLES | frozenset(_PROSE.split())


def _typography() -> dict[int, str | None]:
    """Map characters that NFKC would lose or leave: minus signs, superscripts, fractions, invisible ones."""
    table: dict[int, str | None] = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d"), "-")
    table |= {
        ord("\u2019"): "'",
        ord("\u2018"): "'",
        ord("\u02bc"): "'",
        ord("\u066b"): ".",
        ord("\u066c"): ",",
    }
    table |= {ord("\u00d7"): "*", ord("\u2248"): "=", ord("\u2044"): "/"}
    # zero-width, bidirectional and soft-hyphen characters are never part of what is said
    table |= dict.fromkeys(
        [0xAD, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070)]
    )
    for power, sign in enumerate("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"):
        table[ord(sign)] = f"^{power}"
    for code in (0xBC, 0xBD, 0xBE, *range(0x2150, 0x215F)):
        table[code] = " " + unicodedata.normalize("NFKC", chr(code)).replace("\u2044", "/")
    return table


_TYPOGRAPHY = _typography()


def plain(text: str) -> str:
    """Return text with one spelling a sign: NFKC, ASCII minus and apostrophe, no LaTeX, all visible."""
    if not text.isascii():
        grouped = _GROUPED_BY_NON_BREAKING_SPACE.sub("'", text)
        text = unicodedata.normalize("NFKC", grouped.translate(_TYPOGRAPHY))
    return _LATEX.sub(_unlatexed, text) if "\\" in text else text


def _unlatexed(match: re.Match[str]) -> str:
    if match["over"]:
        return f"{' ' if match['after_digit'] is not None else ''}{match['over']}/{match['under']}"
    if match["times"]:
        return "*"
    return match["sign"] or match["word"] or match["comma"] or ""


def words(text: str) -> list[str]:
    """Return the tokens of `plain` text in order: words and numbers, or bigrams where nothing parts words.

    Case is folded and English articles are left out. A text of signs only, such as an emoji, is its signs.
    """
    found = _ASCII_TOKEN.findall(text.lower()) if text.isascii() else _in_any_script(text.casefold())
    kept = [word if word.isalnum() else _canonical(word) for word in found if word not in _ARTICLES]
    return kept or found or text.split()


def _in_any_script(text: str) -> list[str]:
    found: list[str] = []
    for word in _TOKEN.findall(text):
        if _UNSPACED_RUN.match(word):
            found.extend(_bigrams(word))
        else:
            found.append(word)
    return found


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def _canonical(word: str) -> str:
    """Return `1250` for `1,250.00` and `john` for `john's`; other words as they are."""
    if word[0].isdecimal():
        bare = word.replace(",", "")
        return bare.rstrip("0").rstrip(".") if bare.count(".") == 1 else bare
    return word.removesuffix("'s")


def negated(spaced: str, distinct: frozenset[str]) -> bool:
    """Tell whether an English negation is among tokens, given joined by spaces and as a set."""
    return not NEGATIONS.isdisjoint(distinct) or "n't " in spaced


def numerals(distinct: frozenset[str]) -> set[str]:
    """Return the tokens that start with a digit."""
    return {token for token in distinct if token[0].isdecimal()}


def f_score(wanted: frozenset[str], given: frozenset[str], *, beta: float = 1.0) -> float:
    """Return F-beta of two sets of distinct tokens, 0..1; `beta` above 1 favours recall of `wanted`.

    F = (1 + b^2) * common / (b^2 * |wanted| + |given|), van Rijsbergen 1979.
    """
    common = len(wanted & given)
    if not common:
        return 0.0
    square = beta * beta
    return (1 + square) * common / (square * len(wanted) + len(given))


def supported_share(given: frozenset[str], context: frozenset[str]) -> float:
    """Return the share, 0..1, of the distinct tokens of `given` that are in `context`.

    English function words don't count unless there is nothing else.
    """
    content = given - _FUNCTION_WORDS or given
    return len(content & context) / len(content) if content else 0.0
