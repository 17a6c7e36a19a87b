"""Read numbers, dates, times, yes/no and options out of text, and tell whether two of them are equal."""

import re
from math import isclose
from typing import NamedTuple

# Longer digit strings are identifiers; a float would round them and a huge int is slow.
_MAX_DIGITS = 40
# Keeps powers such as 10^9 far from overflow.
_MAX_BASE = 1e9
# Equal but for the last bits of a float.
_RELATIVE = 1e-9


class Number(NamedTuple):
    """A number as written.

    `value` has its scale word, sign and fraction applied, and is exact for whole numbers; a percentage keeps
    its number (50 for 50 %). `step` is what one unit of the last written digit is worth, 0 when the number is
    too coarse to be read as rounded. `family` and `factor` are its unit: seconds, metres, or a currency.
    """

    value: float
    step: float = 0.0
    percent: bool = False
    family: str = ""
    factor: float = 1.0


# A number, or a text such as "date 2024-03-05", "clock 19:30", "ratio 3:2", "says yes", "option b".
Value = Number | str


class Found(NamedTuple):
    """A value and where it stands in its text."""

    value: Value
    start: int
    end: int
    money: bool


_NO_UNIT = ("", 1.0)
_UNITS: dict[str, tuple[str, float]] = {}
for _family, _factor, _names in (
    ("time", 1, "second seconds sec secs"),
    ("time", 60, "minute minutes min mins"),
    ("time", 3600, "hour hours hr hrs"),
    ("time", 86400, "day days"),
    ("time", 604800, "week weeks"),
    ("length", 0.001, "mm millimeter millimeters millimetre millimetres"),
    ("length", 0.01, "cm centimeter centimeters centimetre centimetres"),
    ("length", 1, "m meter meters metre metres"),
    ("length", 1000, "km kilometer kilometers kilometre kilometres"),
    ("length", 0.0254, "inch inches"),
    ("length", 0.3048, "ft foot feet"),
    ("length", 0.9144, "yard yards"),
    ("length", 1609.344, "mile miles"),
    ("mass", 0.001, "mg milligram milligrams"),
    ("mass", 1, "g gram grams"),
    ("mass", 1000, "kg kilogram kilograms"),
    ("volume", 0.001, "ml milliliter milliliters millilitre millilitres"),
    ("volume", 1, "l liter liters litre litres"),
    ("$", 1, "$ dollar dollars usd"),
    ("$", 0.01, "cent cents"),
    ("€", 1, "€ euro euros eur"),
    ("£", 1, "£ gbp"),
    ("¥", 1, "¥ yen jpy"),
    ("₹", 1, "₹ rupee rupees inr"),
    ("₩", 1, "₩ won krw"),
):
    _UNITS |= dict.fromkeys(_names.split(), (_family, float(_factor)))

_SCALES = {"hundred": 100, "thousand": 1000, "k": 1000, "million": 10**6, "mn": 10**6, "billion": 10**9}
_SCALES |= {"bn": 10**9, "trillion": 10**12, "dozen": 12}
# A capital alone is a scale only of money: 5 M may be metres.
_MONEY_SCALES = {"m": 10**6, "b": 10**9}
_CURRENCIES = frozenset("$€£¥₹₩")

# It begins with one set of characters, so that matching skips to digits; what stands before is read after.
_NUMBER = re.compile(
    r"""(?P<digits>\d\d*(?:[.,']\d+)*)
    (?:/(?P<denominator>\d+)(?![\d/])|[ ](?P<part>\d{1,3})/(?P<whole>\d{1,3})(?![\d/.])
      |e(?P<exponent>[-+]?\d{1,2})(?!\w)|[ ]?[*x][ ]?10\^\{?(?P<power>-?\d{1,2})\}?
      |\^\{?(?P<raised>\d)\}?(?!\d))?
    (?:[ ]?(?P<percent>%|percent\b|per[ ]cent\b|pct\b)
      |[ ]?(?P<scale>hundred|thousand|million|billion|trillion|dozen|mn|bn|k|m|b)(?![\w^]))?
    (?:[ ]?-?(?P<unit>[a-z]+)(?![\w^])|[ ]?(?P<after>[$€£¥₹₩])(?![ ]?\d))?
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Only what no other reading explains is a sign: 5-2 and "- 5 apples" are no negative numbers.
_BEFORE = re.compile(
    r"""(?:(?P<sign>(?<![\w)\]}])-|\b(?:minus|negative)[ ])|(?<![\w)\]}])\+)?
    (?:(?P<currency>[$€£¥₹₩])[ ]?|(?P<code>\b(?:usd|eur|gbp|inr|jpy))[ ])?
    (?P<sign2>-)?\.?$
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Enough for "negative USD -".
_REACH = 16
_MAY_PRECEDE = frozenset("-+$€£¥₹₩.")
_WORDS_BEFORE = (
    "minus ",
    "negative ",
    "usd ",
    "eur ",
    "gbp ",
    "inr ",
    "jpy ",
    *(f"{sign} " for sign in _CURRENCIES),
)
_WORDS_BEFORE = (*_WORDS_BEFORE, *(w.title() for w in _WORDS_BEFORE), *(w.upper() for w in _WORDS_BEFORE))
# What a text with a digit mostly is: one bare number and nothing around it.
_BARE = re.compile(r"\s*([$€£¥₹₩]?)(-?\d{1,15})\.?\s*", re.ASCII)

_MONTH_NAMES = (
    "january jan,february feb,march mar,april apr,may,june jun,"
    "july jul,august aug,september sep sept,october oct,november nov,december dec"
)
_MONTHS = {name: i for i, names in enumerate(_MONTH_NAMES.split(","), 1) for name in names.split()}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_ATOM = re.compile(
    rf"""\b(?:(?P<y>\d{{4}})-(?P<m>\d{{1,2}})-(?P<d>\d{{1,2}})\b
    |(?P<slashed>\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{4}}|\d{{4}}[/.]\d{{1,2}}[/.]\d{{1,2}})\b
    |(?P<month>{_MONTH})\b\.?\ (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\ (?P<year>\d{{4}}))?\b
    |(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\ (?:of\ )?(?P<month2>{_MONTH})\b(?:,?\ (?P<year2>\d{{4}}))?
    |(?P<hour>\d{{1,3}}):(?P<minute>\d{{1,3}})(?::\d{{2}})?(?:\ ?(?P<half>[ap])\.?m\b)?
    |(?P<hour2>\d{{1,2}})\ ?(?P<half2>[ap])\.?m\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Cheap tests that spare nearly all texts the search for dates and times.
_ATOM_DIGITS = re.compile(r"\d(?:[-/.]\d+[-/.]\d|:\d| ?[apAP]\.?[mM]\b)")
_MONTH_STARTS = re.compile(
    r"[JFMASONDjfmasond](?:an|eb|ar|pr|ay|un|ul|ug|ep|ct|ov|ec|AN|EB|AR|PR|AY|UN|UL|UG|EP|CT|OV|EC)"
)
_DIGIT = re.compile(r"\d")

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
)
_SPELLED = {word: n for n, word in enumerate(f"{_ONES} seventeen eighteen nineteen".split())}
_TEN_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * n for n, word in enumerate(_TEN_NAMES.split(), 2)}
_COUNTING = _SPELLED.keys() | _TENS.keys()
_LATIN_WORD = re.compile(r"[a-z]+")
_WORD_NUMBER = re.compile(
    rf"\b(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<ones>{'|'.join(_ONES.split()[1:10])}))?\b"
    rf"|\b(?P<word>{'|'.join(sorted(_SPELLED.keys() - {'one'}, key=len, reverse=True))})\b"
    # "this one" counts nothing
    r"|(?:^|(?<=\bis )|(?<=\bare )|(?<=\bonly )|(?<=\bjust )|(?<=\bexactly ))(?P<one>one)\b",
    re.IGNORECASE,
)

SAYS_YES, SAYS_NO = "says yes", "says no"
_YES = "yes true yeah yep correct sí si oui ja sim да 是 はい 예 네 نعم"
_NO = "no false nope incorrect nein non não nao нет 否 不是 いいえ 아니요 لا"
_POLARITY = {**dict.fromkeys(_YES.split(), SAYS_YES), **dict.fromkeys(_NO.split(), SAYS_NO)}
_FIRST_WORD = re.compile(r"\W*(\w+)")
_OPTION = re.compile(
    r"\W*(?:(?:option|choice)\s+)?\(?([A-Ja-j])\)?[\s*.]*$"
    r"|\W*(?:(?:option|choice)\s+\(?([A-Ja-j])\b|\(([A-Ja-j])\)|([A-J])[):](?=\s))",
)


def values_in(text: str) -> list[Found]:
    """Return the numbers, dates, times and ratios of `plain` text in order; number words if no digit."""
    if (bare := _BARE.fullmatch(text)) is not None:
        family, factor = _UNITS.get(bare[1], _NO_UNIT)
        return [
            Found(
                Number(int(bare[2]), family=family, factor=factor), bare.start(2), bare.end(2), bool(bare[1])
            )
        ]
    if _DIGIT.search(text) is None:
        return _spelled(text)
    if _may_hold_atoms(text):
        found, text = _atoms(text)
        return sorted(found + _numbers(text), key=_by_place)
    return _numbers(text)


def _may_hold_atoms(text: str) -> bool:
    return _ATOM_DIGITS.search(text) is not None or _MONTH_STARTS.search(text) is not None


def _by_place(found: Found) -> int:
    return found.start


def _atoms(text: str) -> tuple[list[Found], str]:
    """Return dates, times and ratios, and the text with them blanked, so that no digit is read twice."""
    found = [Found(_atom(match), match.start(), match.end(), False) for match in _ATOM.finditer(text)]
    return found, _ATOM.sub(lambda match: " " * len(match[0]), text) if found else text


def _atom(match: re.Match[str]) -> str:
    if match["y"]:
        return _date(match["y"], int(match["m"]), match["d"])
    if match["slashed"]:
        return _slashed(match["slashed"])
    if month := match["month"] or match["month2"]:
        year = match["year"] or match["year2"] or ""
        return _date(year, _MONTHS[month.lower()], match["day"] or match["day2"])
    return _clock(match)


def _date(year: str, month: int, day: str) -> str:
    return f"date {year}-{month:02}-{int(day):02}"


def _slashed(text: str) -> str:
    first, second, third = text.replace(".", "/").split("/")
    if len(first) == 4:
        return _date(first, int(second), third)
    if int(first) > 12:
        return _date(third, int(second), first)
    if int(second) > 12:
        return _date(third, int(first), second)
    return (
        f"date {int(first)}/{int(second)}/{third}"  # day or month first: nobody knows, so compared as written
    )


def _clock(match: re.Match[str]) -> str:
    half = match["half"] or match["half2"]
    hour, minute = int(match["hour"] or match["hour2"]), int(match["minute"] or 0)
    if half:
        hour = hour % 12 + (12 if half in "pP" else 0)
    elif minute >= 60 or len(match["minute"]) != 2:
        return f"ratio {hour}:{minute}"
    return f"clock {hour}:{minute:02}"


def _numbers(text: str) -> list[Found]:
    found = []
    for match in _NUMBER.finditer(text):
        before = _before(text, match.start())
        number = _number(match, *before) if before else None
        if number is not None:
            found.append(Found(number, match.start(), match.end(), number.family in _CURRENCIES))
    return found


def _before(text: str, start: int) -> tuple[bool, str, bool] | None:
    """Return what precedes digits: minus, currency, decimal point; null inside a word or an exponent."""
    if not start:
        return False, "", False
    last = text[start - 1]
    if last not in _MAY_PRECEDE and not text.endswith(_WORDS_BEFORE, max(0, start - _REACH), start):
        return None if last.isalnum() or last in "_^," else (False, "", False)
    match = _BEFORE.search(text[max(0, start - _REACH) : start])
    if match is None:
        return None
    point = last == "."
    if point and text[max(0, start - 2) : start - 1].isalnum():
        return None
    minus = (match["sign"] is not None) != (match["sign2"] is not None)
    return minus, match["currency"] or match["code"] or "", point


def _number(match: re.Match[str], minus: bool, currency: str, point: bool) -> Number | None:
    """Return the number that a match spells; null where its separators make no sense (1.2.3)."""
    # in the pattern's order: cheaper than names
    digits, *more, percent, scale, unit, after = match.groups()
    magnitude = _magnitude(f"0.{digits}" if point else digits)
    if magnitude is not None and any(more):
        magnitude = _continued(magnitude, *more)
    if magnitude is None:
        return None
    value, step = magnitude
    factor = _scale_of(scale, currency) if scale else 1
    name = currency or after or unit or (scale if factor == 1 else None)
    family, unit_factor = _UNITS.get(name.lower(), _NO_UNIT) if name else _NO_UNIT
    signed = -value if minus else value
    return Number(signed * factor, step * factor, percent is not None, family, unit_factor)


def _continued(
    magnitude: tuple[float, float],
    denominator: str | None,
    part: str | None,
    whole: str | None,
    exponent: str | None,
    power: str | None,
    raised: str | None,
) -> tuple[float, float] | None:
    """Return the number that goes on as a fraction 1/2, mixed number 3 1/2, or power (1e6, 2*10^6, 10^2)."""
    value, step = magnitude
    if raised:
        return (value ** int(raised) if value < _MAX_BASE else value), 0.0
    if exponent or power:
        factor = 10.0 ** int(exponent or power or 0)
        return value * factor, step * factor
    divisor = (whole or denominator or "1")[: _MAX_DIGITS + 1]
    if len(divisor) > _MAX_DIGITS or int(divisor) == 0:
        return None
    return (value + int(part) / int(divisor) if part else value / int(divisor)), 0.0


def _scale_of(scale: str, currency: str) -> int:
    """Return what a scale word multiplies by; a lone m or b, if no money, is no scale but may be a unit."""
    name = scale.lower()
    return _SCALES.get(name) or (_MONEY_SCALES.get(name, 1) if currency else 1)


def _magnitude(digits: str) -> tuple[float, float] | None:
    """Return the number in `digits`, and its rounding step or 0; null if its separators make no sense."""
    if len(digits) > _MAX_DIGITS:
        return None
    if digits.isdecimal():
        return int(digits), 0.0
    if "'" in digits and not _grouped(digits.partition(".")[0], "'"):
        return None
    spelled = _without_groups(digits.replace("'", ""))
    if spelled is None:
        return None
    whole, point, decimals = spelled.partition(".")
    if not point:
        return int(whole), 0.0
    return float(spelled), _step(whole, decimals)


def _without_groups(digits: str) -> str | None:
    """Return digits with a decimal point and no thousands separators; null if it can't be told."""
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and point >= 0:
        decimal, group = (",", ".") if comma > point else (".", ",")
        head, _, tail = digits.rpartition(decimal)
        return f"{head.replace(group, '')}.{tail}" if decimal not in head and _grouped(head, group) else None
    if comma >= 0:
        if _grouped(digits, ",") and digits[0] != "0":
            return digits.replace(",", "")
        return digits.replace(",", ".") if digits.count(",") == 1 else None
    if digits.count(".") > 1:
        return digits.replace(".", "") if _grouped(digits, ".") else None
    return digits


def _grouped(digits: str, separator: str) -> bool:
    """Tell whether the separator parts thousands, as in 1,250,000 or (in India) 12,50,000."""
    first, *rest = digits.split(separator)
    return 1 <= len(first) <= 3 and len(rest[-1]) == 3 and all(2 <= len(group) <= 3 for group in rest)


def _step(whole: str, decimals: str) -> float:
    """Return the worth of the last digit, or 0 if too few digits are written to call the number rounded."""
    significant = len((whole + decimals).lstrip("0"))
    fine = significant >= 3 or (len(decimals) >= 2 and significant >= 2)
    return float(10.0 ** -len(decimals)) if fine else 0.0


def _spelled(text: str) -> list[Found]:
    found: list[Found] = []
    if _COUNTING.isdisjoint(_LATIN_WORD.findall(text.lower())):
        return found
    for match in _WORD_NUMBER.finditer(text):
        word = match["word"] or match["one"]
        if word:
            value = _SPELLED[word.lower()]
        else:
            value = _TENS[match["tens"].lower()] + _SPELLED[(match["ones"] or "zero").lower()]
        found.append(Found(Number(value), match.start(), match.end(), False))
    return found


def option_or_polarity(text: str) -> str | None:
    """Return "option b" or "says yes" if `plain` text opens with such a choice, else null."""
    if (match := _OPTION.match(text)) is not None:
        return f"option {(match[1] or match[2] or match[3] or match[4]).lower()}"
    first = _FIRST_WORD.match(text)
    return _POLARITY.get(first[1].lower()) if first else None


def equal(one: Value, other: Value) -> bool:
    """Tell whether two values are the same.

    A share equals its percentage (1/2, 0.5, 50 %); a bare number above 1 may be a percentage whose sign was
    left out. Known units are converted, unknown ones ignored. A number equals what rounds to it, if it is
    written with at least three significant digits, or two that are decimals (0.33 and 1/3; not 0.3 and 1/3).
    """
    if not isinstance(one, Number) or not isinstance(other, Number):
        return one == other
    if one.percent != other.percent:
        return _share_equals(one, other) if one.percent else _share_equals(other, one)
    if one.family and other.family:
        if one.family != other.family:
            return False
        if one.factor != other.factor:
            return isclose(one.value * one.factor, other.value * other.factor, rel_tol=_RELATIVE)
    return _close(one.value, one.step, other.value, other.step)


def _share_equals(percentage: Number, bare: Number) -> bool:
    if bare.family:
        return False
    if abs(bare.value) > 1 and _close(percentage.value, percentage.step, bare.value, bare.step):
        return True
    return _close(percentage.value / 100, percentage.step / 100, bare.value, bare.step)


def _close(one: float, one_step: float, other: float, other_step: float) -> bool:
    if one == other:
        return True
    if isinstance(one, int) and isinstance(other, int):
        return False
    tolerance = max(one_step, other_step) / 2
    return isclose(one, other, rel_tol=_RELATIVE, abs_tol=tolerance * (1 + _RELATIVE))
