"""The audit macros against the brute-force oracle and hand-computed rows, on a plain DuckDB connection."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duckanon.audits import macros
from tests.examples import examples
from tests.oracle import class_emds, classes, counts, distinct_l, entropy_l, k_anonymity, recursive_c

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for statement in macros.macro_statements(temporary=True):
            connection.execute(statement)
        yield connection


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    """Give the rows of a query as dictionaries."""
    cursor = con.execute(query)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


TABLES = st.lists(
    st.tuples(
        st.sampled_from([1, 2, None]),
        st.sampled_from(["x", None]),
        st.integers(0, 6) | st.none(),
        st.sampled_from(["a", "b", "c"]) | st.none(),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=TABLES)
def test_every_class_figure_is_that_of_the_oracle(
    con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]]
) -> None:
    con.execute('CREATE OR REPLACE TABLE t (n INTEGER, "we""ird" VARCHAR, value INTEGER, class VARCHAR)')
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", table)
    records = [dict(zip(("n", 'we"ird', "value", "class"), row, strict=True)) for row in table]
    qi = ["n", 'we"ird']
    (found,) = rows(con, "FROM k_anonymity('t', ['n', 'we\"ird'])")
    assert (found["k"], found["records"]) == (k_anonymity(records, qi), len(table))
    for column, macro, distance in (
        ("value", "ordered", "ordered"),
        ("value", "equal", "equal"),
        ("class", "equal", "equal"),
    ):
        expected = sorted(float(e) for e in class_emds(records, qi, column, distance=distance))
        emds = [r["emd"] for r in rows(con, f"FROM t_closeness_{macro}('t', ['n', 'we\"ird'], ['{column}'])")]
        assert sorted(emds) == pytest.approx(expected, abs=1e-12)
    members = [counts(group, "value") for group in classes(records, qi)]
    found_l = rows(con, "FROM l_diversity('t', ['n', 'we\"ird'], ['value'])")
    assert sorted(r["distinct_l"] for r in found_l) == sorted(distinct_l(group) for group in members)
    assert sorted(r["entropy_l"] for r in found_l) == pytest.approx(
        sorted(entropy_l(group) for group in members)
    )
    for level in (2, 3):
        expected_c = sorted(c for group in members if (c := recursive_c(group, level)) is not None)
        found_c = sorted(r["recursive_c"][level] for r in found_l if r["recursive_c"].get(level) is not None)
        assert found_c == pytest.approx([float(c) for c in expected_c])


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=TABLES, k=st.integers(1, 4), steps=st.integers(1, 999))
def test_verdicts_are_exact(
    con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]], k: int, steps: int
) -> None:
    con.execute("CREATE OR REPLACE TABLE t (a INTEGER, b VARCHAR, s INTEGER, d VARCHAR)")
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", table)
    records = [dict(zip(("a", "b", "s", "d"), row, strict=True)) for row in table]
    t = Fraction(steps, 1000)
    report = rows(con, f"FROM audit('t', ['a', 'b'], ['s', 'd'], k := {k}, t := 0.{steps:03})")
    groups = classes(records, ["a", "b"])
    by_key = {(r["measure"], r["attribute"]): r for r in report}
    small = [group for group in groups if len(group) < k]
    found = by_key["k_anonymity", None]
    assert (found["violations"], found["records"], found["passed"]) == (
        len(small),
        sum(map(len, small)),
        not small,
    )
    for column, distance in (("s", "ordered"), ("d", "equal")):
        emds = class_emds(records, ["a", "b"], column, distance=distance)
        bad = [group for group, emd in zip(groups, emds, strict=True) if emd > t]
        found = by_key["t_closeness", column]
        assert (found["violations"], found["records"], found["passed"]) == (
            len(bad),
            sum(map(len, bad)),
            not bad,
        )


def test_a_class_at_exactly_t_passes_and_one_step_above_fails(con: duckdb.DuckDBPyConnection) -> None:
    """Li 2007, section 5: the class {3, 4, 5} of 3..11 is at exactly 3/8."""
    con.execute("CREATE OR REPLACE TABLE t AS SELECT i AS s, i < 6 AS a FROM range(3, 12) r(i)")
    query = "SELECT passed FROM audit('t', ['a'], ['s'], t := {}) WHERE measure = 't_closeness'"
    assert con.execute(query.format("0.375")).fetchall() == [(True,)]
    assert con.execute(query.format("0.374999999999")).fetchall() == [(False,)]


def test_table_5_of_li_2007(con: duckdb.DuckDBPyConnection) -> None:
    """Classes {3, 5, 9}, {6, 8, 11}, {4, 7, 10} of salary: 1/6, 1/6, 1/12 (facts worked by hand from the paper)."""
    con.execute(
        "CREATE OR REPLACE TABLE t AS SELECT * FROM (VALUES (3,1),(5,1),(9,1),(6,2),(8,2),(11,2),(4,3),(7,3),(10,3)) v(s, a)"
    )
    emds = con.execute("SELECT emd FROM t_closeness_ordered('t', ['a'], ['s']) ORDER BY ALL").fetchall()
    assert [row[0] for row in emds] == pytest.approx([1 / 12, 1 / 6, 1 / 6], abs=1e-15)


def test_the_hierarchical_distance_of_li_2007(con: duckdb.DuckDBPyConnection) -> None:
    """Disease of table 3 with real frequencies: classes at 4/9 and, in table 5, 7/27, 8/27, 5/27."""
    con.execute(
        "CREATE OR REPLACE TABLE h AS FROM read_csv('fixtures/li_2007_disease_hierarchy.csv', header = true)"
    )
    con.execute("CREATE OR REPLACE TABLE t AS FROM read_csv('fixtures/li_2007_table_5.csv', header = true)")
    names = [row[0].lower() for row in con.execute("DESCRIBE t").fetchall()]
    zip_code, age, disease = (
        next(n for n in names if n.startswith(start)) for start in ("zip", "age", "disease")
    )
    query = f"SELECT emd FROM t_closeness_hierarchical('t', ['{zip_code}', '{age}'], ['{disease}'], 'h') ORDER BY ALL"
    assert [row[0] for row in con.execute(query).fetchall()] == pytest.approx(
        [5 / 27, 7 / 27, 8 / 27], abs=1e-15
    )


CALLS = [
    "class_sizes({t}, {qi})",
    "k_anonymity({t}, {qi})",
    "l_diversity({t}, {qi}, {s})",
    "t_closeness_ordered({t}, {qi}, {s})",
    "t_closeness_equal({t}, {qi}, {s})",
    "t_closeness_hierarchical({t}, {qi}, {s}, 'h')",
    "reidentification_risk({t}, {qi})",
    "class_metrics({t}, {qi}, 2)",
    "similarity({t}, {qi}, {s}, 'h', 1)",
    "audit({t}, {qi}, {s}, k := 2)",
]
WRONG = {
    "empty table": {"t": "'nothing'"},
    "missing table": {"t": "'nowhere'"},
    "missing column": {"qi": "['nope']"},
    "empty list": {"qi": "[]"},
    "NULL": {"qi": "NULL"},
    "a string for a list": {"qi": "'a'"},
    "a missing sensitive column": {"s": "['nope']"},
    "no sensitive column": {"s": "[]"},
}


def applies(call: str, wrong: str) -> bool:
    """Tell whether a call has the argument that is wrong; an audit of k alone needs no sensitive column."""
    return "s" not in WRONG[wrong] or (
        "{s}" in call and not (call.startswith("audit") and wrong == "no sensitive column")
    )


@pytest.mark.parametrize(("call", "wrong"), [(c, w) for c in CALLS for w in WRONG if applies(c, w)])
@pytest.mark.parametrize("query", ["FROM {}", "SELECT count(*) FROM {}"])
def test_an_audit_never_answers_a_wrong_question(
    con: duckdb.DuckDBPyConnection, call: str, wrong: str, query: str
) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE t AS SELECT 1 AS a, 'x' AS s; CREATE OR REPLACE TABLE nothing AS FROM t WHERE false"
    )
    con.execute("CREATE OR REPLACE TABLE h AS SELECT 'x' AS leaf, 'all' AS root")
    arguments = {"t": "'t'", "qi": "['a']", "s": "['s']", **WRONG[wrong]}
    with pytest.raises(duckdb.Error):
        con.execute(query.format(call.format(**arguments))).fetchall()


@pytest.mark.parametrize(
    "arguments", ["k := 0", "t := 0", "t := 1.5", "l := 0", "distance := 'nearest'", "l_diversity := 'other'"]
)
def test_a_threshold_out_of_range_is_an_error(con: duckdb.DuckDBPyConnection, arguments: str) -> None:
    con.execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS a, 'x' AS s")
    with pytest.raises(duckdb.Error):
        con.execute(f"SELECT passed FROM audit('t', ['a'], ['s'], {arguments})").fetchall()
