"""What a class must release for a quasi-identifier: exact arithmetic in pure Python, without the package."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracle import Row, key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MICROSECONDS = {"TIMESTAMP_S": 1_000_000, "TIMESTAMP_MS": 1_000}
"""Unit of the timestamp types that are coarser than a microsecond."""

EPOCH = date(1970, 1, 1)
"""Zero of dates and timestamps: half away from zero means the earlier day before it."""


WRITTEN, SIGNIFICANT = 6, 6
"""Digits after the point of written decimals, and digits of the largest value otherwise; docs/options.md."""


def class_value(
    values: Sequence[Any], recode: str, duckdb_type: str, *, digits: int | None = None, least: int = 1
) -> Any:
    """Return the value that a class of these values releases.

    Parameters
    ----------
    values : sequence
        The column of the class's records, with None for NULL.
    recode : {'mean', 'median', 'mode', 'range', 'set'}
        'mean' and 'median' (the mean of the two middle values) are rounded to the column's own type, half
        away from zero; of equally frequent values 'mode' takes the smallest, NULL being a value and the last.
    duckdb_type : str
        Type of the column, for example ``DECIMAL(9,2)``.
    digits : int, optional
        Digits after the point to which means and medians are rounded, half away from zero.
    least : int
        Values that are not NULL below which 'mean', 'median' and 'range' release None.

    Returns
    -------
    object
        None where all values are NULL (for 'set': a list, NULL last; for 'range': low and high).
    """
    if recode == "mode":
        return _mode(values)
    if recode == "set":
        return [value for _, value in sorted({key(v): v for v in values}.items())]
    present = sorted((value for value in values if value is not None), key=key)
    if len(present) < max(least, 1):
        return None
    if recode == "range":
        return {"low": present[0], "high": present[-1]}
    if recode == "median":
        present = [present[(len(present) - 1) // 2], present[len(present) // 2]]
    units = [to_units(value, duckdb_type) for value in present]
    mean = Fraction(sum(units), len(units))
    if digits is not None:
        step = Fraction(10) ** (scale_of(duckdb_type) - digits)
        mean = half_away(mean / step) * step if step > 1 or is_float(duckdb_type) else mean
    return from_units(mean, duckdb_type)


def is_float(duckdb_type: str) -> bool:
    """Tell whether a type has floating-point numbers."""
    return duckdb_type in {"DOUBLE", "FLOAT", "REAL"}


def digits_of(values: Sequence[float | None], duckdb_type: str) -> int:
    """Return the digits after the point of means of a floating-point column: as many as its values have.

    Where all values are decimals of at most `WRITTEN` digits as their shortest text writes them, that many. Else
    the fewest of which the last is no more than the least difference of two values, and at most so many that the
    largest value has `SIGNIFICANT` in all; so many where all values are one.
    """
    present = sorted({float(value) for value in values if value is not None})
    written = [np.float32(value) if duckdb_type == "FLOAT" else value for value in present]
    texts = [Decimal(np.format_float_positional(value, unique=True)) for value in written]
    after = [0 if abs(text) >= 2**53 else decimals(text) for text in texts]
    if max(after, default=0) <= WRITTEN:
        return max(after, default=0)
    noise = Fraction(1, 2**20 if duckdb_type == "FLOAT" else 2**40)
    gaps = [
        Fraction(after) - Fraction(before)
        for before, after in itertools.pairwise(present)
        # The difference of the two least numbers from 0 on has no half that is a DOUBLE, and does not count.
        if Fraction(after) - Fraction(before) > abs(Fraction(after)) * noise and after / 2 > before / 2
    ]
    # A power of ten beyond 10^300 is no DOUBLE to multiply a number by.
    most = min(max(SIGNIFICANT - 1 - Decimal(max(map(abs, present))).adjusted(), 0), 300)
    return next((d for d in range(most) if gaps and Fraction(10) ** -d <= min(gaps)), most)


def decimals(number: Decimal) -> int:
    """Return the digits after the point of a decimal, without zeros at its end."""
    exponent = number.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(-exponent, 0)


def recoded(
    rows: Sequence[Row], labels: Sequence[int], *, recode: Mapping[str, str], types: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the rows with each column of `recode` replaced by the value of the row's class.

    `types` holds the DuckDB type of each of these columns; other columns stay as they are.
    """
    members: dict[int, list[Row]] = {}
    for row, label in zip(rows, labels, strict=True):
        members.setdefault(int(label), []).append(row)
    values = {
        label: {c: class_value([row[c] for row in part], how, types[c]) for c, how in recode.items()}
        for label, part in members.items()
    }
    return [{**row, **values[int(label)]} for row, label in zip(rows, labels, strict=True)]


def half_away(number: Fraction) -> int:
    """Return the nearest integer; of two, the one farther from zero."""
    magnitude = math.floor(abs(number) + Fraction(1, 2))
    return magnitude if number >= 0 else -magnitude


def to_units(value: Any, duckdb_type: str) -> Fraction:
    """Return a value in units of the last place of its type: days, microseconds, 10^-scale, 1."""
    if isinstance(value, datetime):
        epoch = datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else UTC)
        return Fraction((value - epoch) // timedelta(microseconds=1), MICROSECONDS.get(duckdb_type, 1))
    if isinstance(value, date):
        return Fraction(value.toordinal() - EPOCH.toordinal())
    return Fraction(value) * Fraction(10 ** scale_of(duckdb_type))


def from_units(number: Fraction, duckdb_type: str) -> Any:
    """Return the value of a type that is nearest to a number of its units."""
    if duckdb_type in {"DOUBLE", "FLOAT", "REAL"}:
        return float(number)
    rounded = half_away(number)
    if duckdb_type == "DATE":
        return date.fromordinal(EPOCH.toordinal() + rounded)
    if duckdb_type.startswith("TIMESTAMP"):
        zone = UTC if "ZONE" in duckdb_type or duckdb_type == "TIMESTAMPTZ" else None
        unit = MICROSECONDS.get(duckdb_type, 1)
        return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=rounded * unit)
    if duckdb_type.startswith("DECIMAL"):
        digits = tuple(int(digit) for digit in str(abs(rounded)))
        return Decimal((int(rounded < 0), digits, -scale_of(duckdb_type)))
    return rounded


def scale_of(duckdb_type: str) -> int:
    """Return the digits after the point of a DECIMAL type, 0 for any other type."""
    return int(duckdb_type.rstrip(")").split(",")[1]) if duckdb_type.startswith("DECIMAL(") else 0


def same_value(actual: Any, expected: Any, largest: float = 0.0) -> bool:
    """Tell whether two released values agree: doubles to 1e-9 of the largest magnitude, others exactly."""
    if isinstance(actual, float) and isinstance(expected, float):
        return math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-9 * largest)
    return type(actual) is type(expected) and key(actual) == key(expected)


def _mode(values: Sequence[Any]) -> Any:
    """Return the most frequent value, the smallest of equally frequent ones."""
    frequency = Counter(key(value) for value in values)
    best = min(frequency, key=lambda found: (-frequency[found], found))
    return next(value for value in values if key(value) == best)
