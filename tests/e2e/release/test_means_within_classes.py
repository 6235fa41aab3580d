"""A released mean or median lies within the values of its class, but for its rounding, whatever other records hold.

Of FLOAT and DOUBLE that is to the digits of the column: of short decimals it moves none out of the class, and of
others by half a unit at most. What a mean is before, `tests/release/stages/test_means.py` says to the last bit.

Oracle: MDAV makes classes of exactly k records, and one quasi-identifier, which k records share each time, outweighs
the others; so the values of a class are known beforehand, and exact fractions say what their mean is.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import duckanon
from tests.oracle_recode import digits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Draw = random.Random

SIZES = {
    "DOUBLE": (5e-324, -5e-324, 1.5e-323, 2.3e-308, -0.0, 0.0, 0.1, 1e300, 1.7e308, -1.7e308),
    "FLOAT": (
        0.0,
        1.401298464324817e-45,
        -1.401298464324817e-45,
        1.1754943508222875e-38,
        3.4028234663852886e38,
    ),
    "DECIMAL(38,30)": tuple(map(Decimal, ("0", "1e-30", "-1e-30", "9999999.999", "-9999999.999"))),
    "DATE": tuple(date(1970, 1, 1) + timedelta(days) for days in (0, -1, 1, 2_900_000, -700_000)),
}
"""By type: values that are very small and next to each other, then as many that are not."""


@pytest.fixture(scope="module")
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        yield connection


def exact(value: Any) -> Fraction:
    return Fraction(value.toordinal() if isinstance(value, date) else value)


def median(values: list[Fraction]) -> Fraction:
    ascending = sorted(values)
    return (ascending[(len(values) - 1) // 2] + ascending[len(values) // 2]) / 2


RECODES: dict[str, Callable[[list[Fraction]], Fraction]] = {
    "mean": lambda values: sum(values, Fraction(0)) / len(values),
    "median": median,
}


def drawn(draw: Draw, size: int) -> list[dict[str, Any]]:
    """Records of a class; in every second column small values only, beside what other classes hold."""
    pools = {name: values[: draw.choice([len(values) // 2, len(values)])] for name, values in SIZES.items()}
    return [{name: draw.choice([*pool, None]) for name, pool in pools.items()} for _ in range(size)]


def check(con: duckanon.Connection, draw: Draw, recode: str) -> None:
    k = draw.randint(2, 5)
    classes = {f"class {number}": drawn(draw, k) for number in range(8)}
    columns = ", ".join(f'"{name}" {name}' for name in SIZES)
    con.execute(f"CREATE OR REPLACE TABLE source (own VARCHAR, {columns})")
    con.duckdb.executemany(
        f"INSERT INTO source VALUES (?{', ?' * len(SIZES)})",
        [[own, *row.values()] for own, rows in classes.items() for row in rows],
    )
    names = ", ".join(f'"{name}"' for name in SIZES)
    recodes = ", ".join(f"\"{name}\": '{recode}'" for name in SIZES)
    con.execute(
        f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM source WITH (quasi_identifiers = (own, {names}), k = {k}, "
        f"method = 'mdav', weights = {{own: 1e9}}, min_values = 1, recode = {{{recodes}}})"
    )
    released = con.duckdb.execute("SELECT DISTINCT own, COLUMNS(* EXCLUDE own) FROM v").fetchall()
    assert sorted(own for own, *_ in released) == sorted(classes)
    halves = {
        name: half_a_unit(name, [row[name] for rows in classes.values() for row in rows]) for name in SIZES
    }
    for own, *values in released:
        for name, value in zip(SIZES, values, strict=True):
            held = [exact(row[name]) for row in classes[own] if row[name] is not None]
            assert (value is None) == (not held)
            if value is not None:
                half = halves[name]
                assert min(held) - half <= exact(value) <= max(held) + half, (name, own)
                assert abs(exact(value) - RECODES[recode](held)) <= rounding(name, held) + half, (name, own)


def half_a_unit(name: str, values: list[Any]) -> Fraction:
    """How far the digits of a floating-point column let a mean leave its class; 0 of short decimals."""
    if name not in {"DOUBLE", "FLOAT"}:
        return Fraction(0)
    digits = digits_of(values, name)
    present = [value for value in values if value is not None]
    written = all(
        Fraction(str(float(np.float32(v)) if name == "FLOAT" else v)) * 10**digits % 1 == 0 for v in present
    )
    return Fraction(0) if written else Fraction(1, 2) / 10**digits


def rounding(name: str, held: list[Fraction]) -> Fraction:
    """How far from the exact mean: half a unit of the last digit, or about one of a floating-point number."""
    if name not in {"DOUBLE", "FLOAT"}:
        return Fraction(1, 2) if name == "DATE" else Fraction(1, 2 * 10**30)
    digits, least = (51, 1074) if name == "DOUBLE" else (22, 149)
    return max(map(abs, held)) / 2**digits + Fraction(1, 2**least)


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("recode", RECODES)
def test_a_mean_lies_within_the_values_of_its_class(con: duckanon.Connection, recode: str) -> None:
    for seed in range(2):
        check(con, random.Random(seed), recode)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("recode", RECODES)
@pytest.mark.parametrize("seed", range(2, 42))
def test_many_means_lie_within_the_values_of_their_classes(
    con: duckanon.Connection, seed: int, recode: str
) -> None:
    check(con, random.Random(seed), recode)
