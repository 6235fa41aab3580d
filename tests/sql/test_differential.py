"""Every macro, and the statements that Python binds, beside the exact oracle on random tables.

Expected values come from tests/oracle.py (fractions, other formulas), class by class.
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.audits.columns import AuditColumn
from duckanon.audits.headers import rows_of
from duckanon.audits.macros import macro_statements
from duckanon.database import templates
from tests import oracle
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QI = ("k", 'we"ird', "Class")
SENSITIVE = {"value": "ordered", "t": "ordered", "code": "equal"}
TREE = [(leaf, "left" if leaf in "ab" else "right", "all") for leaf in "abcd"]
CREATE = 'CREATE OR REPLACE TABLE "Some Table" (k DOUBLE, "we""ird" VARCHAR, "Class" BOOLEAN, value INTEGER, t DOUBLE, code VARCHAR)'
CALL = "'\"Some Table\"', ['K', 'we\"ird', 'class']"
ALL = "['value', 'T', 'code']"

number = st.sampled_from([0.0, -0.0, 1.5, math.nan, None])
record = st.tuples(
    number, st.sampled_from(["x", "", None]), st.sampled_from([True, None]),
    st.one_of(st.integers(0, 5), st.none()), number, st.sampled_from(["a", "b", "c", "d", None]),
)  # fmt: skip
tables = st.lists(record, min_size=1, max_size=24)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for statement in macro_statements(temporary=True):
            connection.execute(statement)
        connection.execute("CREATE TABLE paths (leaf VARCHAR, side VARCHAR, root VARCHAR)")
        connection.executemany("INSERT INTO paths VALUES (?, ?, ?)", TREE)
        connection.execute("CREATE TABLE tree (value VARCHAR, level INTEGER, node VARCHAR)")
        connection.executemany(
            "INSERT INTO tree VALUES (?, ?, ?)",
            [(row[0], i, node) for row in TREE for i, node in enumerate(row)],
        )
        yield connection


class Facts:
    """A random table in the database, and what the oracle says of it, by class."""

    def __init__(self, con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]]) -> None:
        self.con = con
        con.execute(CREATE)
        con.executemany('INSERT INTO "Some Table" VALUES (?, ?, ?, ?, ?, ?)', table)
        names = [*QI, *SENSITIVE]
        self.rows = [dict(zip(names, row, strict=True)) for row in table]
        groups = oracle.classes(self.rows, QI)
        self.keys = [tuple(oracle.key(group[0][name]) for name in QI) for group in groups]
        self.sizes = dict(zip(self.keys, map(len, groups), strict=True))
        self.counts = {
            (key, name): oracle.counts(group, name)
            for key, group in zip(self.keys, groups, strict=True)
            for name in SENSITIVE
        }

    def emds(self, name: str, distance: Any) -> dict[Any, Fraction]:
        found = oracle.class_emds(self.rows, QI, name, distance=distance, tree=TREE)
        return dict(zip(self.keys, found, strict=True))

    def query(self, call: str) -> list[dict[str, Any]]:
        cursor = self.con.execute(f"SELECT * FROM {call}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def of_class(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(oracle.key(value) for value in row["class"].values())


@settings(max_examples=examples(30), deadline=None)
@given(table=tables)
def test_class_sizes_and_their_measures(con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]]) -> None:
    facts = Facts(con, table)
    sizes, n = list(facts.sizes.values()), len(table)
    assert {of_class(row): row["class_size"] for row in facts.query(f"class_sizes({CALL})")} == facts.sizes
    assert facts.query(f"k_anonymity({CALL})") == [{"k": min(sizes), "classes": len(sizes), "records": n}]
    (metrics,) = facts.query(f"class_metrics({CALL}, 3)")
    assert (metrics["discernibility"], metrics["minimum_class_size"]) == (
        sum(s * s for s in sizes),
        min(sizes),
    )
    assert metrics["average_class_size"] == pytest.approx(n / len(sizes))
    assert metrics["c_avg"] == pytest.approx(n / len(sizes) / 3)
    (risk,) = facts.query(f"reidentification_risk({CALL})")
    assert risk["prosecutor_max"] == pytest.approx(1 / min(sizes))
    assert (
        risk["prosecutor_average"] == risk["marketer"] == pytest.approx(sum(s * (1 / s) for s in sizes) / n)
    )
    for percent in (5, 9, 20, 33):
        above = sum(s for s in sizes if Fraction(1, s) > Fraction(percent, 100))
        assert risk[f"share_above_{percent}_percent"] == pytest.approx(above / n)


@settings(max_examples=examples(30), deadline=None)
@given(table=tables)
def test_l_diversity(con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]]) -> None:
    facts = Facts(con, table)
    rows = facts.query(f"l_diversity({CALL}, {ALL})")
    assert len(rows) == len(facts.counts)
    for row in rows:
        counts = facts.counts[of_class(row), row["attribute"]]
        assert (row["class_size"], row["distinct_l"]) == (counts.total(), oracle.distinct_l(counts))
        assert row["entropy_l"] == pytest.approx(oracle.entropy_l(counts))
        expected = {place: oracle.recursive_c(counts, place) for place in range(1, len(counts) + 1)}
        assert row["recursive_c"] == {place: pytest.approx(float(c)) for place, c in expected.items() if c}


@settings(max_examples=examples(30), deadline=None)
@given(table=tables, distance=st.sampled_from(["ordered", "equal"]))
def test_t_closeness(con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]], distance: str) -> None:
    facts = Facts(con, table)
    rows = facts.query(f"t_closeness_{distance}({CALL}, {ALL})")
    found = {(of_class(row), row["attribute"]): (row["class_size"], row["emd"]) for row in rows}
    assert len(found) == len(rows) == len(facts.counts)
    for name in SENSITIVE:
        for key, emd in facts.emds(name, distance).items():
            assert found[key, name] == (facts.sizes[key], pytest.approx(float(emd), abs=1e-12))


@settings(max_examples=examples(30), deadline=None)
@given(table=tables)
def test_trees(con: duckdb.DuckDBPyConnection, table: list[tuple[Any, ...]]) -> None:
    facts = Facts(con, table)
    rows = facts.query(f"t_closeness_hierarchical({CALL}, ['code'], 'paths')")
    expected = facts.emds("code", "hierarchical")
    assert {of_class(row): row["emd"] for row in rows} == {
        key: pytest.approx(float(emd), abs=1e-12) for key, emd in expected.items()
    }
    for level in range(3):
        found = facts.query(f"similarity({CALL}, ['code'], 'paths', {level})")
        nodes = {key: {side(value, level) for value in facts.counts[key, "code"]} for key in facts.keys}
        assert {of_class(row): {row["node"]} for row in found} == {
            key: above for key, above in nodes.items() if len(above) == 1
        }


def side(value: oracle.Key, level: int) -> str | None:
    """Node above a value; NULL has none but the root."""
    paths: dict[oracle.Key, tuple[str | None, ...]] = {oracle.key(row[0]): row for row in TREE}
    return paths.get(value, (None, None, "all"))[level]


@settings(max_examples=examples(30), deadline=None)
@given(table=tables, k=st.integers(1, 4), l=st.integers(1, 3), steps=st.integers(1, 60), kind=st.sampled_from(
    ["distinct", "entropy", "recursive"]))  # fmt: skip
def test_the_report_is_exact_and_the_same_from_macro_and_python(
    con: duckdb.DuckDBPyConnection,
    table: list[tuple[Any, ...]],
    k: int,
    l: int,  # noqa: E741
    steps: int,
    kind: str,
) -> None:
    facts = Facts(con, table)
    t = (Decimal(steps) / 60).quantize(Decimal("1e-12"))
    c = Decimal("1.5") if kind == "recursive" else None
    arguments = f"k := {k}, l := {l}, t := {t}, l_diversity := '{kind}'" + (f", c := {c}" if c else "")
    wanted = [
        # Half of the times the text that counts values first.
        AuditColumn(
            name, distance, t, Decimal(l), kind, c, few_values=distance == "ordered" and steps % 2 == 0
        )
        for name, distance in SENSITIVE.items()
    ]
    values = {
        "relation": '"Some Table"',
        "qi": list(QI),
        "attributes": wanted,
        "k": k,
        "texts": set(),
        "rows_of": rows_of,
    }
    bound = con.execute(templates.render("audit_bind/report.sql.j2", **values)).fetchall()
    report = con.execute(f"FROM audit({CALL}, {ALL}, {arguments})").fetchall()
    assert [row[:3] + row[4:] for row in bound] == [row[:3] + row[4:] for row in report]
    assert [row[3] for row in bound] == pytest.approx([row[3] for row in report], abs=1e-12)
    broken = violations(facts, k=k, l=l, t=t, kind=kind, c=c)
    for measure, attribute, _, _, classes, found, records, passed in bound:
        if passed is not None:
            bad = broken[measure, attribute]
            wanted_row = (len(facts.keys), len(bad), sum(facts.sizes[key] for key in bad), not bad)
            assert (classes, found, records, passed) == wanted_row
    worst = con.execute(templates.render("audit_bind/classes.sql.j2", limit=1000, **values)).fetchall()
    listed = Counter((row[0], row[1], key_of_text(row[2:5])) for row in worst)
    assert listed == Counter((*measure, key) for measure, bad in broken.items() for key in bad)


def key_of_text(shown: tuple[str | None, ...]) -> tuple[Any, ...]:
    """Key of a class whose quasi-identifiers (DOUBLE, VARCHAR, BOOLEAN) are shown as text."""
    readers: tuple[Callable[[str], Any], ...] = (float, str, "true".__eq__)
    read = [None if text is None else reader(text) for text, reader in zip(shown, readers, strict=True)]
    return tuple(map(oracle.key, read))


def violations(
    facts: Facts,
    *,
    k: int,
    l: int,  # noqa: E741
    t: Decimal,
    kind: str,
    c: Decimal | None,
) -> dict[Any, list[Any]]:
    """Classes that break each measure, by the oracle."""
    broken: dict[Any, list[Any]] = {
        ("k_anonymity", None): [key for key in facts.keys if facts.sizes[key] < k]
    }
    limit = None if c is None else Fraction(c)
    for name, distance in SENSITIVE.items():
        emds = facts.emds(name, distance)
        broken["t_closeness", name] = [key for key in facts.keys if emds[key] > Fraction(t)]
        broken[f"{kind}_l_diversity", name] = [
            key
            for key in facts.keys
            if not oracle.reaches_l(facts.counts[key, name], Fraction(l), kind, limit)
        ]
    return broken


def test_the_worst_classes_come_first(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: class sizes 1, 2, 3 with k = 3, and EMDs that rise with the class number."""
    con.execute(
        "CREATE OR REPLACE TABLE sizes AS FROM (VALUES (1, 'x'), (2, 'x'), (2, 'y'), (3, 'y'), (3, 'y'), (3, 'y')) v(a, s)"
    )
    values = {
        "relation": "sizes",
        "qi": ["a"],
        "attributes": [AuditColumn("s", "equal", Decimal("0.1"))],
        "k": 3,
        "texts": set(),
        "rows_of": rows_of,
    }
    rows = con.execute(templates.render("audit_bind/classes.sql.j2", limit=4, **values)).fetchall()
    # The table has two x and four y: class 1 is 2/3 away, class 3 1/3, class 2 1/6.
    assert [row[:4] for row in rows] == [
        ("k_anonymity", None, "1", 1), ("t_closeness", "s", "1", 1), ("k_anonymity", None, "2", 2), ("t_closeness", "s", "3", 3),
    ]  # fmt: skip
    assert [row[4] for row in rows] == pytest.approx([1, 2 / 3, 2, 1 / 3])


def test_an_audit_that_python_binds_never_passes_an_empty_relation(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE OR REPLACE TABLE nobody (a INTEGER, s INTEGER)")
    values = {
        "relation": "nobody",
        "qi": ["a"],
        "attributes": [AuditColumn("s", "ordered")],
        "k": 2,
        "texts": set(),
        "rows_of": rows_of,
    }
    with pytest.raises(duckdb.Error, match="the table is empty"):
        con.execute(templates.render("audit_bind/report.sql.j2", **values)).fetchall()
    with pytest.raises(duckdb.Error, match="the table is empty"):
        con.execute(
            f"SELECT count(*) FROM ({templates.render('audit_bind/report.sql.j2', **values)})"
        ).fetchall()


def test_counts_of_a_hundred_million_do_not_overflow(con: duckdb.DuckDBPyConnection) -> None:
    """The verdict of emd = 1 - 1/10^8 with n = s = m = 10^8, the largest product that is promised."""
    con.execute(
        "CREATE OR REPLACE TEMP VIEW class_emd AS SELECT 1 AS class, 100000000 AS class_size, 1.0::DOUBLE AS emd, "
        "(99999999::HUGEINT * 100000000 * 100000000) AS emd_numerator, (100000000::HUGEINT * 100000000 * 100000000) AS emd_denominator"
    )
    for t, violated in (("0.99999999", False), ("0.999999989999", True), ("1", False)):
        con.execute(f"CREATE OR REPLACE TEMP VIEW threshold AS SELECT {t}::DECIMAL(18, 12) AS t")
        assert con.execute(templates.read("audit/verdict_t_closeness.sql")).fetchall()[0][3] is violated
