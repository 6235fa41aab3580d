"""What the values of a column look like, in words and without any of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.suggestion.names import code_named

if TYPE_CHECKING:
    from duckanon.suggestion.profile import Facts

FEW = 20
"""Up to so many different values a column of texts or whole numbers looks like a code."""

MANY = 0.5
"""Share of values of a pattern from which a column is taken to be made of it."""

_LOOKS = {"date": "dates as text", "zip": "postal codes", "coordinates": "coordinates"}


def described(facts: Facts) -> str:
    """What the values of a column are, in a few words without any of the values.

    Parameters
    ----------
    facts : Facts
        What was counted in the column.

    Returns
    -------
    str
        For example ``a code of 7 values``.
    """
    looks = [what for pattern, what in _LOOKS.items() if facts.share(pattern) >= MANY]
    if looks and facts.column.kind == "text":
        return f"looks like {looks[0]}"
    if facts.column.kind in {"date", "timestamp"}:
        return f"{facts.values} times within {_years(facts)}"
    if facts.column.kind == "text" or is_code(facts):
        return f"a code of {facts.values} values" if facts.values <= FEW else f"{facts.values} texts or codes"
    return f"{facts.values} values" if facts.column.kind == "boolean" else f"{facts.values} numbers"


def guess(facts: Facts) -> str:
    """What numbers without a telling name may be.

    Parameters
    ----------
    facts : Facts
        What was counted in the column.

    Returns
    -------
    str
        The rest of a sentence, for example ``within 0 and 120, as ages are``, or nothing.
    """
    if facts.column.kind not in {"integer", "decimal", "float"} or is_code(facts):
        return ""
    if facts.whole and _within(facts, 0, 120) and facts.values > FEW:
        return "within 0 and 120, as ages are"
    if facts.share("fine_decimal") >= MANY and _within(facts, -180, 180):
        return "within -180 and 180, with four digits or more, as coordinates are"
    return ""


def is_code(facts: Facts) -> bool:
    """Whether the numbers of a column are codes rather than quantities.

    Parameters
    ----------
    facts : Facts
        What was counted in the column.

    Returns
    -------
    bool
        True for whole numbers named as codes, and for two values.
    """
    kinds = {"integer", "decimal", "float"}
    if facts.column.kind not in kinds or not facts.whole:
        return False
    return facts.values <= 2 or code_named(facts.column.name)


def _years(facts: Facts) -> str:
    span = int((facts.high or 0) - (facts.low or 0)) + 1
    born = ", as dates of birth are" if span >= 40 and (facts.low or 0) >= 1880 else ""
    return f"{span} year{'' if span == 1 else 's'}{born}"


def _within(facts: Facts, low: float, high: float) -> bool:
    return facts.low is not None and facts.high is not None and low <= facts.low and facts.high <= high
