"""Hierarchies of codes, numbers and dates as rows, built in Python, or in SQL by table macros."""

from __future__ import annotations

import itertools
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from duckanon.database import templates
from duckanon.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


ROOT = "*"
"""Label of the root, above every value."""

Level = Literal["day", "month", "quarter", "year", "decade"]

_DIGITS = Decimal("1e-10")


def prefixes(values: Iterable[object], *, mask: str = "*") -> dict[str, list[str]]:
    """Return the hierarchy of codes that begin alike, as postal codes and ICD do.

    Parameters
    ----------
    values : iterable
        Codes, as text or as `str` writes them. Missing values (None, NaN, NA, NaT) are skipped.
    mask : str
        One character, for each character that is left out.

    Returns
    -------
    dict of str to list of str
        Labels by code, from its prefix with one character less to the root. Every code has as many labels as
        the longest code has characters. The same as ``FROM prefix_hierarchy(table, column)`` gives.

    Raises
    ------
    PolicyError
        The mask is not one character.

    Examples
    --------
    >>> prefixes(["012", "013"])
    {'012': ['01*', '0**', '***'], '013': ['01*', '0**', '***']}
    """
    if len(mask) != 1:
        raise PolicyError(f"mask = {mask!r}: use one character, as *")
    codes = sorted({str(value) for value in _present(values)})
    size = max((*map(len, codes), 1))
    return {code: [code[: size - level] + mask * level for level in range(1, size + 1)] for code in codes}


def intervals(
    values: Iterable[Any], widths: Sequence[float | str | Decimal], *, origin: float | str | Decimal = 0
) -> dict[str, list[str]]:
    """Return the hierarchy of numbers in intervals, which hold their first number and not their last.

    Parameters
    ----------
    values : iterable of numbers
        Missing values (None, NaN, NA) are skipped. A float counts as the decimal that Python writes, to ten
        digits after the point.
    widths : sequence of numbers
        Width of the intervals of each level, above 0, each a multiple of the width before.
    origin : number
        Where an interval of each level begins.

    Returns
    -------
    dict of str to list of str
        Labels by number, from the narrowest interval to ``*``. The same as
        ``FROM interval_hierarchy(table, column, widths)`` gives.

    Raises
    ------
    PolicyError
        A width, the origin or a value is no number, or the widths are not nested.

    Examples
    --------
    >>> intervals([23, 38], [5, 20])
    {'23': ['[20, 25)', '[20, 40)', '*'], '38': ['[35, 40)', '[20, 40)', '*']}
    """
    steps, zero = [_decimal("widths", width) for width in widths], _decimal("origin", origin)
    nested = all(wide > step and not wide % step for step, wide in itertools.pairwise(steps))
    if not steps or steps[0] <= 0 or not nested:
        shown = ", ".join(map(str, widths))
        raise PolicyError(
            f"widths = [{shown}]: use numbers above 0, each a multiple of the one before, as [5, 10, 20]"
        )
    rows = {}
    numbers = {value: _decimal("values", value) for value in _present(values)}
    for value, number in sorted(numbers.items(), key=lambda entry: entry[1]):
        lows = [number - ((number - zero) % step + step) % step for step in steps]
        ends = [(_text(low), _text(low + step)) for low, step in zip(lows, steps, strict=True)]
        rows[str(value)] = [*(f"[{low}, {high})" for low, high in ends), ROOT]
    return rows


def dates(
    values: Iterable[date | None], *, levels: Sequence[Level] = ("month", "quarter", "year")
) -> dict[str, list[str]]:
    """Return the hierarchy of dates or timestamps.

    Parameters
    ----------
    values : iterable of date or datetime
        Missing values (None, NaN, NA, NaT) are skipped.
    levels : sequence of {'day', 'month', 'quarter', 'year', 'decade'}
        Levels in this order; 'day' is for timestamps.

    Returns
    -------
    dict of str to list of str
        Labels by date: ``2024-02-28``, ``2024-02``, ``2024-Q1``, ``2024``, ``2020s``, ``*``. The same as
        ``FROM date_hierarchy(table, column)`` gives.

    Raises
    ------
    PolicyError
        A level is unknown, the levels are in another order, or a value is no date.
    """
    known: tuple[Level, ...] = get_args(Level)
    if not levels or [level for level in known if level in levels] != list(levels):
        raise PolicyError(f"levels = {list(levels)}: use some of {', '.join(known)}, in this order")
    days = sorted({_day(value) for value in _present(values)}, key=_leaf)
    return {_leaf(day): [*(_period(day, level) for level in levels), ROOT] for day in days}


def _present(values: Iterable[Any]) -> Iterator[Any]:
    """Give the values that are not missing, as Python objects; also of Arrow, and of numpy's dates."""
    for value in values:
        plain = value.as_py() if hasattr(value, "as_py") else value
        if plain is None:
            continue
        try:
            # NaN and NaT differ from themselves; the truth of pandas' NA is a TypeError.
            there = bool(plain == plain)
        except (TypeError, InvalidOperation):
            there = False
        if there and isinstance(plain, np.datetime64):
            unit = "D" if np.datetime_data(plain)[0] in {"Y", "M", "W", "D"} else "us"
            plain = plain.astype(f"datetime64[{unit}]").item()
        if there:
            yield plain


def _day(value: Any) -> date:
    if not isinstance(value, date):
        raise PolicyError(f"values: {value!r} is no date: convert texts first, as date.fromisoformat does")
    return value


def _decimal(option: str, value: Any) -> Decimal:
    try:
        number = Decimal(str(value)).quantize(_DIGITS)
    except InvalidOperation:
        number = None
    if number is None or isinstance(value, bool) or not number.is_finite():
        raise PolicyError(f"{option}: {value!r} is no number of at most 18 digits before the point")
    return number


def _text(number: Decimal) -> str:
    """Return a number without trailing zeros."""
    text = f"{number:f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text


def _leaf(day: date) -> str:
    return day.isoformat(sep=" ") if isinstance(day, datetime) else day.isoformat()


def _period(day: date, level: Level) -> str:
    year = f"{day.year:04}"
    return {
        "day": f"{year}-{day.month:02}-{day.day:02}",
        "month": f"{year}-{day.month:02}",
        "quarter": f"{year}-Q{(day.month + 2) // 3}",
        "year": year,
        "decade": f"{day.year // 10 * 10}s",
    }[level]


@cache
def macro_names() -> tuple[str, ...]:
    """Return the names of the macros, which are the names of their files."""
    return tuple(sorted(path.stem for path in (templates.folder() / "hierarchy").glob("*.sql")))


def macro_statement(name: str) -> str:
    """Return the statement that makes a macro, in the session alone."""
    return templates.read(f"hierarchy/{name}.sql")
