"""alpha, delta and beta of random tables, by the definitions in fractions, from macros and from Python."""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duckanon.audits.macros import macro_statements
from duckanon.audits.run import audit_relation
from duckanon.database import templates
from duckanon.policy.policy import AuditPolicy
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = tuple[int, str | None]
STEP = Decimal("1e-12")
GAP = Decimal("1e-12")
"""What the bounds of exp(delta) and -ln q may be too small by."""


class Share(NamedTuple):
    """Share of a value in a class, and in the table."""

    p: Fraction
    q: Fraction


def shares(table: list[Row]) -> dict[int, dict[str | None, Share]]:
    """By class and value of the table."""
    whole = Counter(value for _, value in table)
    return {
        key: {
            value: Share(
                Fraction(sum(row == (key, value) for row in table), sum(row[0] == key for row in table)),
                Fraction(count, len(table)),
            )
            for value, count in whole.items()
        }
        for key in {key for key, _ in table}
    }


def ln(number: Fraction) -> Decimal:
    """By 40 digits."""
    with localcontext(prec=40):
        return Decimal(number.numerator).ln() - Decimal(number.denominator).ln()


def alpha(found: dict[str | None, Share]) -> Fraction:
    return max(one.p for one in found.values())


def delta(found: dict[str | None, Share], *, present: bool = False) -> Decimal:
    """Least delta that is not kept; infinite where a value is missing."""
    if not present and any(one.p == 0 for one in found.values()):
        return Decimal("Infinity")
    return max(abs(ln(one.p / one.q)) for one in found.values() if one.p)


def beta(found: dict[str | None, Share]) -> Fraction:
    return max((one.p - one.q) / one.q for one in found.values())


def enhanced(found: dict[str | None, Share]) -> Fraction | float:
    """Least beta that is kept; infinite where -ln q is exceeded."""
    gains = [((one.p - one.q) / one.q, -ln(one.q)) for one in found.values()]
    # A fraction is -ln q only where both are 0: no other power of e is a fraction.
    if any(Decimal(gain.numerator) / Decimal(gain.denominator) > rarity for gain, rarity in gains if gain):
        return inf
    return max(gain for gain, _ in gains)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for statement in macro_statements(temporary=True):
            connection.execute(statement)
        yield connection


tables = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["flu", "flu", "cold", "HIV", None])),
    min_size=1,
    max_size=40,
)


@settings(
    max_examples=examples(500, 6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(table=tables, data=st.data())
def test_verdicts_are_those_of_the_definitions(
    con: duckdb.DuckDBPyConnection, table: list[Row], data: st.DataObject
) -> None:
    """With thresholds at the bound of a class, a step below or above, or anywhere."""
    found = shares(table)
    steps = data.draw(st.sampled_from([0, 0, -1, 1]), label="steps")

    def threshold(bound: Fraction | float | Decimal, most: int) -> Decimal:
        if bound in (inf, Decimal("Infinity")):
            bound = Fraction(7, 5)
        exact = (
            bound
            if isinstance(bound, Decimal)
            else Decimal(Fraction(bound).numerator) / Fraction(bound).denominator
        )
        return min(max(exact.quantize(STEP, ROUND_FLOOR) + steps * STEP, STEP), Decimal(most))

    chosen = found[data.draw(st.sampled_from(sorted(found)), label="class")]
    asked = {
        "alpha": threshold(alpha(chosen), 1),
        "delta": threshold(delta(chosen, present=True), 30),
        "beta": threshold(beta(chosen), 9),
        "enhanced_beta": threshold(enhanced(chosen), 9),
    }
    broken = {
        "alpha_k_anonymity": [key for key in found if alpha(found[key]) > Fraction(asked["alpha"])],
        "delta_disclosure": [key for key in found if delta(found[key]) >= asked["delta"] - GAP / 40],
        "beta_likeness": [key for key in found if beta(found[key]) > Fraction(asked["beta"])],
        "enhanced_beta_likeness": [
            key for key in found if enhanced(found[key]) > Fraction(asked["enhanced_beta"])
        ],
    }
    values = {
        "alpha_k_anonymity": max(float(alpha(one)) for one in found.values()),
        "delta_disclosure": max(float(delta(one)) for one in found.values()),
        "delta_disclosure_present": max(float(delta(one, present=True)) for one in found.values()),
        "beta_likeness": max(float(beta(one)) for one in found.values()),
        "enhanced_beta_likeness": max(float(enhanced(one)) for one in found.values()),
    }
    con.execute("CREATE OR REPLACE TABLE t (a INTEGER, s VARCHAR)")
    con.executemany("INSERT INTO t VALUES (?, ?)", table)
    options = ", ".join(f"{name} := {value:f}" for name, value in asked.items())
    rows = con.execute(f"FROM audit('t', ['a'], ['s'], k := 1, {options})").fetchall()
    report = audit_relation(con, "t", AuditPolicy(quasi_identifiers="a", sensitive="s", **asked), name="t")
    for measures in (
        [row[:1] + row[2:] for row in rows],
        [one.row()[:1] + one.row()[2:] for one in report.measures],
    ):
        judged = {measure: rest for measure, *rest in measures if measure in values}
        assert list(judged) == list(values)
        for measure, (_, value, classes, violations, records, _) in judged.items():
            assert value == pytest.approx(values[measure], abs=1e-12), measure
            assert classes == len(found)
            if measure in broken:
                assert violations == len(broken[measure]), (measure, asked)
                assert records == sum(key in broken[measure] for key, _ in table)
    told = {(one.measure, one.class_values["a"]) for one in report.violations}
    assert told == {(measure, str(key)) for measure, keys in broken.items() for key in keys}


def test_counts_of_ten_thousand_million_do_not_overflow(con: duckdb.DuckDBPyConnection) -> None:
    """One class of all 10^10 records with one value: p = q, and the largest thresholds."""
    con.execute(
        "CREATE OR REPLACE TEMP VIEW value_share AS SELECT 1 AS class, 'x' AS value, 10000000000 AS class_size, "
        "10000000000 AS members, 10000000000 AS table_members, 10000000000 AS table_size, 0 AS missing"
    )
    con.execute(
        "CREATE OR REPLACE TEMP VIEW threshold AS SELECT 1::DECIMAL(18, 12) AS alpha, NULL::VARCHAR AS named, "
        "30::DECIMAL(18, 12) AS delta, 999999::DECIMAL(18, 12) AS beta, 999999::DECIMAL(18, 12) AS enhanced_beta"
    )
    for measure in ("alpha_k_anonymity", "delta_disclosure", "beta_likeness", "enhanced_beta_likeness"):
        query = f"SELECT violated FROM ({templates.read(f'audit/verdict_{measure}.sql')})"
        assert con.execute(query).fetchall() == [(False,)]
