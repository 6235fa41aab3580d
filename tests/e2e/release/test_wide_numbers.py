"""Quasi-identifiers beyond the digits of DOUBLE: neighbours stay apart, and the loss that is reported is the one there is."""

from __future__ import annotations

import pytest

import duckanon
from tests.examples import slowly

WIDE = [
    "1000000000000000000 + i",
    "CAST(-1000000000000000000 + i AS HUGEINT)",
    "CAST('12345678901234567.8901' AS DECIMAL(38, 4)) + i",
    "CAST(9223372036854775807 AS UBIGINT) + i",
    "12345678901234567890123456::HUGEINT + i",
]


@pytest.mark.parametrize("wide", slowly(WIDE))
def test_they_are_released_as_the_same_numbers_near_zero_are(wide: str) -> None:
    """By hand: 0..39 in fives lose 40 * 2 of 40 * 133.25 squares, 1.5009 %, wherever zero is."""
    found = {}
    with duckanon.connect() as con:
        for name, value in (("near", "i"), ("far", wide)):
            con.execute(f"CREATE TABLE {name} AS SELECT {value} AS a, i AS s FROM range(40) AS r(i)")
            relation = con.sql(
                f"CREATE ANONYMIZED VIEW {name}_v AS FROM {name} "
                "WITH (quasi_identifiers = (a), sensitive = (s), k = 5, effort = 'fast')"
            )
            assert relation is not None
            ((loss,),) = relation.filter("measure = 'information_loss'").project("value").fetchall()
            classes = con.execute(f"SELECT list(s ORDER BY s) FROM {name}_v GROUP BY a ORDER BY a").fetchall()
            found[name] = (round(loss, 9), classes)
    assert found["far"] == found["near"]
    assert found["near"][0] == 1.5, "100 * 2 / 133.25, told in three digits"
    assert found["near"][1] == [([*range(first, first + 5)],) for first in range(0, 40, 5)]


@pytest.mark.parametrize("unit", ["TIMESTAMP_S", "TIMESTAMP_MS"])
def test_timestamps_beyond_nanoseconds_are_means_of_seconds(unit: str) -> None:
    """By hand: seconds 0..39 of the year 200000 in fives are released as the third second of each."""
    with duckanon.connect() as con:
        con.execute(
            f"CREATE TABLE t AS SELECT CAST(TIMESTAMP '200000-01-01' + to_seconds(i) AS {unit}) AS a, i AS s, "
            f"CAST(TIMESTAMP '200000-01-01' + to_days(i % 5) AS {unit}) AS z FROM range(40) AS r(i)"
        )
        con.execute(
            "CREATE ANONYMIZED VIEW v AS FROM t "
            "WITH (quasi_identifiers = a, sensitive = (s, z), k = 5, t = {z: 0.5}, effort = 'fast')"
        )
        found = con.execute(
            "SELECT date_diff('second', TIMESTAMP '200000-01-01', CAST(a AS TIMESTAMP)), list(s ORDER BY s) "
            "FROM v GROUP BY a ORDER BY a"
        ).fetchall()
    assert found == [(first + 2, [*range(first, first + 5)]) for first in range(0, 40, 5)]


@pytest.mark.parametrize("kind", ["HUGEINT", "UHUGEINT"])
@pytest.mark.parametrize("rule", ["mean", "median"])
def test_numbers_whose_exact_mean_no_type_holds_are_told(kind: str, rule: str) -> None:
    """Both ended in different errors, one of them a cast inside of DuckDB."""
    largest = {"HUGEINT": 2**127 - 1, "UHUGEINT": 2**128 - 1}[kind]
    with duckanon.connect() as con:
        con.execute(f"CREATE TABLE t AS SELECT {largest}::{kind} - i::{kind} AS a FROM range(8) AS r(i)")
        options = f"quasi_identifiers = (a), k = 4, recode = {{a: '{rule}'}}"
        with pytest.raises(
            duckanon.SourceError, match="too large for an exact mean: CAST the column to DOUBLE"
        ):
            con.execute(f"CREATE ANONYMIZED VIEW v AS FROM t WITH ({options})")
        con.execute(f"CREATE ANONYMIZED VIEW v AS FROM t WITH ({options.replace(rule, 'range')})")
        (low,) = con.execute("SELECT min(a.low) FROM v").fetchone() or (None,)
    assert low == largest - 7
