"""Our audits beside pyCANON on random tables, inside the domain where it is right.

Right: no NULL, rows numbered from 0, at least two values in a column with an order. Its entropy l is cut to an
integer; its recursive c is that of ascending counts, so it is right where the values of a class are equally
frequent; its average risk is a mean over classes. The last tests show what happens outside.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duckanon.audits.macros import macro_statements
from tests.examples import examples
from tests.trust.peer import MISSING, Peer, find

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = ("age", "zip", "charge", "disease")
QI, SENSITIVE = ["age", "zip"], ["charge", "disease"]
many = settings(
    max_examples=examples(15, 6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
record = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["x", "y"]),
    st.integers(0, 6).map(lambda i: i * i),
    st.sampled_from(["flu", "cold", "ulcer", "cancer"]),
)
tables = st.lists(record, min_size=2, max_size=40).filter(lambda rows: len({row[2] for row in rows}) > 1)
Table = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    place = find()
    if place is None:
        pytest.skip(MISSING)
    with Peer(place) as running:
        yield running


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for statement in macro_statements(temporary=True):
            connection.execute(statement)
        yield connection


def ask(peer: Peer, table: Table, *calls: str, **more: Any) -> dict[str, Any]:
    """Give what pyCANON says of a table."""
    columns = {name: [row[place] for row in table] for place, name in enumerate(COLUMNS)}
    results: dict[str, Any] = peer.ask(columns=columns, qi=QI, s=SENSITIVE, calls=calls, **more)["results"]
    return results


def load(con: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Make the table `t`."""
    con.execute("CREATE OR REPLACE TABLE t (age INTEGER, zip VARCHAR, charge INTEGER, disease VARCHAR)")
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", table)


def ours(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    """Give the one value of a query; {args} are table, quasi-identifiers and sensitive columns."""
    return con.execute(query.format(qi=f"'t', {QI}", args=f"'t', {QI}, {SENSITIVE}")).fetchall()[0][0]


@many
@given(table=tables)
def test_k_and_l(peer: Peer, con: duckdb.DuckDBPyConnection, table: Table) -> None:
    load(con, table)
    theirs = ask(peer, table, "k", "l", "entropy_l")
    assert ours(con, "SELECT k FROM k_anonymity({qi})") == theirs["k"]
    assert ours(con, "SELECT min(distinct_l) FROM l_diversity({args})") == theirs["l"]
    entropy = ours(con, "SELECT min(entropy_l) FROM l_diversity({args})")
    assert theirs["entropy_l"] in {math.floor(entropy - 1e-9), math.floor(entropy + 1e-9)}


@many
@given(table=tables)
def test_t(peer: Peer, con: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Numbers by the ordered, text by the equal distance, the worst class of both."""
    load(con, table)
    t = ask(peer, table, "t")["t"]
    assert ours(con, "SELECT max(value) FROM audit({args}) WHERE measure = 't_closeness'") == pytest.approx(t)


@pytest.mark.slow
@many
@given(table=tables)
def test_verdicts_turn_where_pycanon_says(peer: Peer, con: duckdb.DuckDBPyConnection, table: Table) -> None:
    load(con, table)
    theirs = ask(peer, table, "k", "l", "t")
    k, l, t = theirs["k"], theirs["l"], theirs["t"]  # noqa: E741 - l-diversity has this name everywhere
    verdict = "SELECT bool_and(passed) FROM audit({{args}}, k := {}, l := {}, t := {:.12f})"
    assert ours(con, verdict.format(k, l, min(t + 1e-9, 1)))
    assert not ours(con, verdict.format(k + 1, l, 1))
    assert not ours(con, verdict.format(k, l + 1, 1))
    assert t < 1e-6 or not ours(con, verdict.format(k, l, t - 1e-9))


@pytest.mark.slow
@many
@given(table=tables)
def test_other_sensitive_columns_may_be_known(
    peer: Peer, con: duckdb.DuckDBPyConnection, table: Table
) -> None:
    """Trap 10: gen=False counts the other sensitive columns among the quasi-identifiers; so can our caller."""
    load(con, table)
    theirs = ask(peer, table, "l_others_known", "t_others_known")
    known = [([*QI, "disease"], ["charge"]), ([*QI, "charge"], ["disease"])]
    least = min(ours(con, f"SELECT min(distinct_l) FROM l_diversity('t', {qi}, {s})") for qi, s in known)
    assert least == theirs["l_others_known"]
    value = "SELECT max(value) FROM audit('t', {}, {}) WHERE measure = 't_closeness'"
    assert max(ours(con, value.format(qi, s)) for qi, s in known) == pytest.approx(theirs["t_others_known"])


@many
@given(table=tables)
def test_risk_and_class_metrics(peer: Peer, con: duckdb.DuckDBPyConnection, table: Table) -> None:
    load(con, table)
    theirs = ask(peer, table, "max_rir", "average_rir", "discernability", "average_ecsize", "k")
    risk = "SELECT {} FROM reidentification_risk({{qi}})"
    assert ours(con, risk.format("prosecutor_max")) == pytest.approx(theirs["max_rir"])
    assert ours(con, "SELECT avg(1 / class_size) FROM class_sizes({qi})") == pytest.approx(
        theirs["average_rir"]
    )
    metrics = f"SELECT {{}} FROM class_metrics({{{{qi}}}}, {theirs['k']})"
    assert ours(con, metrics.format("discernibility")) == theirs["discernability"]
    assert ours(con, metrics.format("c_avg")) == pytest.approx(theirs["average_ecsize"])


@many
@given(st.lists(st.tuples(st.integers(2, 4), st.integers(1, 3)), min_size=1, max_size=5))
def test_recursive_c_where_values_are_equally_frequent(
    peer: Peer, con: duckdb.DuckDBPyConnection, shapes: list[tuple[int, int]]
) -> None:
    """Classes of (values, records a value): its c is the least integer above ours, for l the least distinct l."""
    table = [
        (number, "x", value, "flu")
        for number, (values, often) in enumerate(shapes)
        for value in range(values)
        for _ in range(often)
    ]
    load(con, table)
    columns = {name: [row[place] for row in table] for place, name in enumerate(COLUMNS)}
    reply = peer.ask(columns=columns, qi=["age"], s=["charge"], calls=["recursive"])
    c, l = reply["results"]["recursive"]  # noqa: E741 - l-diversity has this name everywhere
    query = f"SELECT max(recursive_c[{l}]) FROM l_diversity('t', ['age'], ['charge'])"
    assert math.floor(ours(con, query)) + 1 == c
    audit = "SELECT passed FROM audit('t', ['age'], ['charge'], l := {}, l_diversity := 'recursive', c := {}) WHERE measure = 'recursive_l_diversity'"
    assert ours(con, audit.format(l, c))


@many
@given(table=tables)
def test_shares(peer: Peer, con: duckdb.DuckDBPyConnection, table: Table) -> None:
    """alpha and basic beta of the worst column; delta of the values that a class holds."""
    load(con, table)
    theirs = ask(peer, table, "alpha", "delta", "beta")
    assert ours(con, "SELECT max(alpha) FROM alpha_k_anonymity({args})") == pytest.approx(theirs["alpha"])
    assert ours(con, "SELECT max(present) FROM delta_disclosure({args})") == pytest.approx(theirs["delta"])
    assert ours(con, "SELECT max(beta) FROM beta_likeness({args})") == pytest.approx(theirs["beta"])


def test_where_it_is_wrong_a_value_that_a_class_lacks(peer: Peer, con: duckdb.DuckDBPyConnection) -> None:
    """By hand: class 1 has no ulcer, class 2 none either: p / q is 0 there, and no delta is kept."""
    table: Table = [(1, "x", 0, "flu"), (2, "x", 1, "flu"), (3, "x", 0, "flu"), (3, "x", 1, "ulcer")]
    load(con, table)
    columns = {name: [row[place] for row in table] for place, name in enumerate(COLUMNS)}
    delta = peer.ask(columns=columns, qi=["age"], s=["disease"], calls=["delta"])["results"]["delta"]
    query = "SELECT max(delta), max(present) FROM delta_disclosure('t', ['age'], ['disease'])"
    assert con.execute(query).fetchall() == [(math.inf, pytest.approx(delta))]


def test_where_it_is_wrong_enhanced_beta(peer: Peer, con: duckdb.DuckDBPyConnection) -> None:
    """By hand: flu is 3/4 and fills class 1: a gain of 1/3 above -ln(3/4) = 0.29; -ln of ulcer is ln 4."""
    table: Table = [(1, "x", 0, "flu"), (1, "x", 1, "flu"), (2, "x", 0, "flu"), (2, "x", 1, "ulcer")]
    load(con, table)
    columns = {name: [row[place] for row in table] for place, name in enumerate(COLUMNS)}
    theirs = peer.ask(columns=columns, qi=["age"], s=["disease"], calls=["beta", "enhanced_beta"])["results"]
    assert theirs == {"beta": pytest.approx(1), "enhanced_beta": pytest.approx(1)}
    query = (
        "SELECT class.age, enhanced_beta FROM enhanced_beta_likeness('t', ['age'], ['disease']) ORDER BY 1"
    )
    assert con.execute(query).fetchall() == [(1, math.inf), (2, 1.0)]


def test_where_it_is_wrong_null_among_the_quasi_identifiers(
    peer: Peer, con: duckdb.DuckDBPyConnection
) -> None:
    """Trap 1: one record has no age; pyCANON leaves it out, though anybody sees that it stands alone."""
    table: Table = [(1, "x", i, "flu") for i in range(4)] + [(None, "x", 9, "cold")]
    load(con, table)
    columns = {name: [row[place] for row in table] for place, name in enumerate(COLUMNS)}
    assert peer.ask(columns=columns, qi=["age"], s=["charge"], calls=["k"])["results"]["k"] == 4
    assert ours(con, "SELECT k FROM k_anonymity('t', ['age'])") == 1


def test_where_it_is_wrong_rows_of_a_filtered_frame(peer: Peer, con: duckdb.DuckDBPyConnection) -> None:
    """Trap 4: the rows of a frame in another order keep their labels; labels are then taken for places."""
    table: Table = [(1, "x", 0, "flu"), (2, "x", 1, "flu"), (1, "x", 0, "flu"), (2, "x", 2, "flu")]
    load(con, table)
    right = ask(peer, table, "l")["l"]
    mixed = ask(peer, table, "l", index=[1, 0, 2, 3])["l"]
    missing = ask(peer, table, "l", index=[10, 11, 12, 13])["l"]
    assert (right, mixed, missing) == (1, 1, "error: IndexError")
    assert ours(con, "SELECT min(distinct_l) FROM l_diversity({args})") == 1


def test_where_it_is_wrong_recursive_c(peer: Peer, con: duckdb.DuckDBPyConnection) -> None:
    """Trap 7: counts 8, 1, 1 and 1, 1, 1: l = 3 needs c above 8; sorted upwards it looks as if 1 would do."""
    table: Table = [(1, "x", max(i - 7, 0), "flu") for i in range(10)] + [
        (2, "x", i, "flu") for i in range(3)
    ]
    load(con, table)
    columns = {name: [row[place] for row in table] for place, name in enumerate(COLUMNS)}
    c, l = peer.ask(columns=columns, qi=["age"], s=["charge"], calls=["recursive"])["results"]["recursive"]  # noqa: E741
    assert l == 3
    assert c <= 2
    assert ours(con, "SELECT max(recursive_c[3]) FROM l_diversity('t', ['age'], ['charge'])") == 8


def test_where_it_is_wrong_one_value(peer: Peer, con: duckdb.DuckDBPyConnection) -> None:
    """Trap 5: a column of one value has m - 1 = 0 steps and no distance."""
    table: Table = [(1, "x", 5, "flu"), (2, "x", 5, "flu")]
    load(con, table)
    assert ask(peer, table, "t")["t"] == "error: ZeroDivisionError"
    assert ours(con, "SELECT max(value) FROM audit({args}) WHERE measure = 't_closeness'") == 0
