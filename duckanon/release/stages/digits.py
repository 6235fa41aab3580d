"""Digits: the precision of class means, from the digits of the values or from the option `digits`.

Few sets of records have a mean with the same many digits. A reader with a register of persons could then find
the class of a mean. So a mean gets no more digits than the values.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from duckanon.database import engine, templates
from duckanon.release.stages.stage import Rounding

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    from numpy.typing import NDArray

    from duckanon.release.stages.stage import Field, Staged

WRITTEN_MAX_DIGITS = 6
"""Largest number of digits after the point for which floating-point values count as written decimals."""

SIGNIFICANT_DIGITS = 6
"""Digits of the largest value that means of other floating-point columns keep at most."""

MEAN_MAX_DIGITS = 300
"""Largest number of digits after the point of a mean: a higher power of ten is no DOUBLE."""

WHOLE_MIN_NUMBER = 2**53
"""Number from which floating-point numbers have no digits after the point."""

NOISE_SHARE = {"DOUBLE": 2.0**-40, "FLOAT": 2.0**-20}
"""Relative difference up to which numbers count as equal after some arithmetic, by type."""

FIRST_LOOK_RECORDS = 65_536
"""Records that are read first: they usually show the precision of a column."""

UNITS_IN_SECONDS = (86_400, 3_600, 60, 1)
"""Units of timestamps from one second upwards, the coarsest first."""

_BITS = {
    "TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127,
    "UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64, "UHUGEINT": 128,
}  # fmt: skip


def with_digits(con: duckdb.DuckDBPyConnection, staged: Staged) -> tuple[Field, ...]:
    """Quasi-identifiers with the rounding of means and medians. O(n) as a rule."""
    units = {field: units_of(field) for field in staged.quasi if searched(field)}
    places = _coarsest(con, staged, units)
    roundings = {}
    for field in staged.quasi:
        if field in units:
            place = places[field]
            unit = _digits(con, staged, field) if place is None else units[field][place]
            roundings[field] = rounding_of(field, unit)
        elif field.rounds:
            roundings[field] = asked_of(field)
    return tuple(replace(field, rounding=roundings.get(field, field.rounding)) for field in staged.quasi)


def searched(field: Field) -> bool:
    """Whether the rounding of a quasi-identifier's means is taken from its values."""
    return (
        field.quasi
        and field.rounds
        and field.kind in {"float", "timestamp"}
        and field.attribute.digits is None
    )


def units_of(field: Field) -> tuple[int, ...]:
    """Possible common units of all values of a column, the coarsest first.

    For floating-point numbers these are digits after the point, for timestamps multiples of the unit of their
    type.
    """
    if field.kind == "float":
        return tuple(range(WRITTEN_MAX_DIGITS + 1))
    second = {"TIMESTAMP_S": 1, "TIMESTAMP_MS": 1000, "TIMESTAMP_NS": 10**9}.get(field.type, 10**6)
    below = [10**power for power in range(9, 0, -3) if 10**power < second]
    return tuple(unit * second for unit in UNITS_IN_SECONDS) + tuple(below) + ((1,) if second > 1 else ())


def rounding_of(field: Field, unit: int) -> Rounding:
    """Rounding to one of `units_of`, or to digits after the point of a floating-point number."""
    return Rounding(digits=unit) if field.kind == "float" else Rounding(step=unit)


def asked_of(field: Field) -> Rounding:
    """Requested rounding of a column, or the rounding of its type."""
    digits = field.attribute.digits
    if digits is None or field.kind == "float":
        return Rounding(digits=digits)
    power = max(field.scale - digits, 0)
    bits = min(_BITS.get(field.type, 0), _BITS["HUGEINT"])
    most = 2**bits if field.kind == "integer" else 10 ** int(field.type[8:].split(",")[0])
    return Rounding(step=10**power, limit=(most - 1) // 10**power * 10**power if power else None)


def _coarsest(
    con: duckdb.DuckDBPyConnection, staged: Staged, units: Mapping[Field, tuple[int, ...]]
) -> dict[Field, int | None]:
    """Place of the coarsest unit that all values have, by column; None if they have no common unit."""
    asked = {field: list(range(len(found))) for field, found in units.items()}
    places = dict.fromkeys(units, 0)
    most = min(FIRST_LOOK_RECORDS, staged.size)
    while asked:
        query = templates.render(
            "stage/units.sql.j2",
            records=staged.records,
            most=most if most < staged.size else None,
            asked=[(field, [units[field][place] for place in places]) for field, places in asked.items()],
        )
        answers = iter(engine.rows(con, query, "stage")[0])
        left = {}
        for field, looked_at in asked.items():
            # Without values every unit is possible.
            have = [place for place in looked_at if next(answers) is not False]
            places[field] = have[0] if have else looked_at[-1] + 1
            if places[field] < len(units[field]) and (most < staged.size or not have):
                left[field] = [places[field]]
        asked, most = left, staged.size
    return {field: place if place < len(units[field]) else None for field, place in places.items()}


def _digits(con: duckdb.DuckDBPyConnection, staged: Staged, field: Field) -> int:
    """Digits after the point that distinguish the values of a floating-point column."""
    found = 0
    for most in (FIRST_LOOK_RECORDS, None) if staged.size > FIRST_LOOK_RECORDS else (None,):
        query = templates.render(
            "stage/apart.sql.j2",
            records=staged.records,
            column=field.column,
            most=most,
            noise=NOISE_SHARE[field.type],
        )
        half, largest = engine.rows(con, query, "stage")[0]
        found = telling(half, largest)
        # If the first records need all digits, further records cannot need more.
        if half is not None and found == _most(largest):
            break
    return found


def telling(half: float | None, largest: float) -> int:
    """Digits after the point with which two different values differ by at least one unit.

    `half` is half the least difference of two values, None without two values. `largest` is the largest
    absolute value; at most `SIGNIFICANT_DIGITS` of its digits count, and a single value keeps these.
    """
    most = _most(largest)
    return next((d for d in range(most) if half is not None and 10.0**-d <= 2 * half), most)


def _most(largest: float) -> int:
    """Digits after the point within the first `SIGNIFICANT_DIGITS` digits of the largest value."""
    return (
        min(max(SIGNIFICANT_DIGITS - 1 - Decimal(largest).adjusted(), 0), MEAN_MAX_DIGITS)
        if largest > 0
        else 0
    )


def digits_in(values: NDArray[np.float64], type_text: str) -> int:
    """Digits after the point for the means of floating-point values (n,), as in `with_digits`."""
    present = np.unique(values[np.isfinite(values)])
    for digits in range(WRITTEN_MAX_DIGITS + 1):
        large = np.abs(present) >= WHOLE_MIN_NUMBER / 10**digits
        with np.errstate(over="ignore"):
            rounded = np.rint(present * 10.0**digits) / 10.0**digits
        if type_text == "FLOAT":
            rounded = rounded.astype(np.float32).astype(np.float64)
        if (large | (rounded == present)).all():
            return digits
    halves = np.diff(present / 2)
    halves = halves[2 * halves > np.abs(present[1:]) * NOISE_SHARE[type_text]]
    return telling(float(halves.min()) if len(halves) else None, float(np.abs(present).max(initial=0)))


def unit_in(values: NDArray[np.int64], field: Field) -> int:
    """Coarsest of `units_of` common to all timestamps (n,), in units of their type."""
    return next(unit for unit in units_of(field) if not (values % unit).any())
