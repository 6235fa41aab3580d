"""Traps 1 to 10, 14, 16 and 17 of audits: mistakes seen in other tools, each pinned on our side.

The numbers are those of docs/trust.md, where each trap is told. Expected values are reckoned by hand.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.audits.macros import macro_statements
from duckanon.database.templates import ident

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def auditor() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        for statement in macro_statements(temporary=True):
            connection.execute(statement)
        yield connection


@pytest.fixture
def con(auditor: duckanon.Connection) -> Iterator[duckanon.Connection]:
    """One connection with the macros, which are long to parse; what a test makes and sets is gone after it."""
    yield auditor
    auditor.execute("RESET default_collation")
    auditor.sql("DROP ANONYMIZED VIEW IF EXISTS v")
    for (name,) in auditor.execute(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT temporary"
    ).fetchall():
        auditor.execute(f"DROP TABLE {ident(name)}")


def table(con: duckanon.Connection, columns: str, values: str) -> None:
    """Make the table `t`."""
    con.execute(f"CREATE OR REPLACE TABLE t AS FROM (VALUES {values}) AS v({columns})")


def rows(con: duckanon.Connection, query: str) -> list[tuple[Any, ...]]:
    """Give the rows of a query."""
    relation = con.sql(query)
    assert relation is not None
    return relation.fetchall()


def passed(con: duckanon.Connection, **thresholds: Any) -> bool:
    """Give the verdict of the Python audit of `t`, quasi-identifier a and sensitive column s."""
    roles: dict[str, Any] = {"quasi_identifiers": "a", "sensitive": "s"}
    return duckanon.audit(con, "t", duckanon.AuditPolicy(**roles, **thresholds)).passed


def test_trap_01_a_record_with_null_stands_alone(con: duckanon.Connection) -> None:
    table(con, "a, b, s", "(1, 'x', 1), (1, 'x', 2), (1, NULL, 3), (NULL, 'x', 4), (NULL, 'x', 5)")
    assert rows(con, "FROM k_anonymity('t', ['a', 'b'])") == [(1, 3, 5)]
    sizes = "SELECT class.a, class.b, class_size FROM class_sizes('t', ['a', 'b']) ORDER BY ALL"
    assert rows(con, sizes) == [(1, "x", 2), (1, None, 1), (None, "x", 2)]
    policy = duckanon.AuditPolicy(quasi_identifiers=["a", "b"], sensitive="s", k=2)
    (violation,) = duckanon.audit(con, "t", policy).violations
    assert (violation.class_values, violation.class_size) == ({"a": "1", "b": None}, 1)
    # The class of NULLs is not lost on the way to l and t either.
    assert rows(con, "SELECT sum(class_size) FROM l_diversity('t', ['a', 'b'], ['s'])") == [(5,)]
    assert rows(con, "SELECT sum(class_size) FROM t_closeness_ordered('t', ['a', 'b'], ['s'])") == [(5,)]


def test_trap_01_what_looks_alike_and_what_is_alike(con: duckanon.Connection) -> None:
    """NaN of either sign is one value, so is zero; NULL, '' and a blank more are others, in any collation."""
    table(con, "a", "('nan'::DOUBLE), (-'nan'::DOUBLE), (0.0), (-0.0), (NULL)")
    assert rows(con, "SELECT class_size FROM class_sizes('t', ['a']) ORDER BY 1") == [(1,), (2,), (2,)]
    table(con, "a", "('x'), ('x '), ('X'), (''), (NULL)")
    for collation in ("binary", "nocase"):
        con.execute(f"SET default_collation = '{collation}'")
        report = duckanon.audit(con, "t", duckanon.AuditPolicy(quasi_identifiers="a", k=2))
        assert report.measures[0].classes == 5
        assert not report.passed
    with pytest.raises(duckdb.Error, match="by a collation"):
        rows(con, "FROM k_anonymity('t', ['a'])")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("[]::INTEGER[]", "[NULL]", id="lists"),
        pytest.param("NULL", "{'x': NULL::INTEGER}", id="structs"),
        pytest.param("NULL", "15515834664653156994::UBIGINT", id="a number made for it"),
    ],
)
def test_trap_01_classes_with_the_same_hash_stay_apart(
    con: duckanon.Connection, one: str, other: str
) -> None:
    """Both values of a have one hash in DuckDB 2.0; b, which has hashes of its own, tells others apart."""
    if rows(con, f"SELECT hash({one}) = hash({other})") != [(True,)]:
        pytest.skip(f"this DuckDB has two hashes for {one} and {other}: find values that share one")
    table(con, "a, b, s", f"({one}, 1, 1), ({other}, 1, 2), ({other}, 1, 3), ({one}, 2, 4), ({one}, 2, 4)")
    # If the hash decided, both classes of b = 1 would have all three of its records.
    sizes = rows(con, "SELECT class_size, distinct_l FROM l_diversity('t', ['a', 'b'], ['s']) ORDER BY ALL")
    assert sizes == [(1, 1), (2, 1), (2, 2)]
    # Ranks 1 2 3 4 4: {1} is |1 - 1/5| + |1 - 2/5| + |1 - 3/5| = 9/5 over three steps from them, {2, 3} is
    # 1/5 + |1/2 - 2/5| + |1 - 3/5| = 7/10, {4, 4} is 1/5 + 2/5 + 3/5.
    emds = rows(con, "SELECT emd FROM t_closeness_ordered('t', ['a', 'b'], ['s']) ORDER BY emd")
    assert [emd for (emd,) in emds] == pytest.approx([7 / 30, 2 / 5, 3 / 5])


@pytest.mark.parametrize(
    "pair", ["0.0::DOUBLE, -0.0::DOUBLE", "[-0.0::DOUBLE], [0.0]", "INTERVAL 1 MONTH, INTERVAL 30 DAY"]
)
def test_trap_01_equal_values_have_one_hash(con: duckanon.Connection, pair: str) -> None:
    """A class that is told by the hash of its values holds all that are equal."""
    one, other = pair.split(", ")
    table(con, "a, s", f"({one}, 1), ({other}, 2), (NULL, 3)")
    assert rows(con, "SELECT class_size FROM l_diversity('t', ['a'], ['s']) ORDER BY 1") == [(1,), (2,)]


def test_trap_02_null_is_a_category_and_no_wildcard(con: duckanon.Connection) -> None:
    """A wildcard would hide each of the three records among three."""
    table(con, "a", "('x'), ('x'), (NULL)")
    assert rows(con, "SELECT k FROM k_anonymity('t', ['a'])") == [(1,)]


def test_trap_03_null_is_one_more_sensitive_value_for_l_and_for_t(con: duckanon.Connection) -> None:
    """Class 1 {1, NULL}, class 2 {1, 1}: the masses of P and of Q sum up to 1, and NULL comes last."""
    for type_ in ("INTEGER", "DOUBLE", "VARCHAR"):
        table(con, "a, s", f"(1, 1::{type_}), (1, NULL), (2, 1::{type_}), (2, 1::{type_})")
        query = "SELECT distinct_l FROM l_diversity('t', ['a'], ['s']) ORDER BY class.a"
        assert rows(con, query) == [(2,), (1,)]
        for distance in ("ordered", "equal"):
            emds = rows(con, f"SELECT emd FROM t_closeness_{distance}('t', ['a'], ['s'])")
            assert [emd for (emd,) in emds] == pytest.approx([1 / 4, 1 / 4])


def test_trap_04_the_order_of_rows_means_nothing(con: duckanon.Connection) -> None:
    """A frame that was filtered and turned around: labels 9, 7, 5, ... instead of places 0, 1, 2, ..."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0, 0, 1, 1] * 3, "s": [0, 0, 1, 2] * 3})
    con.duckdb.register("part", frame.iloc[list(range(11, 0, -2))])
    found = rows(
        con, "SELECT class.a, class_size, distinct_l FROM l_diversity('part', ['a'], ['s']) ORDER BY ALL"
    )
    assert found == [(0, 3, 1), (1, 3, 1)]


def test_trap_05_steps_are_those_of_the_whole_table(con: duckanon.Connection) -> None:
    """Li et al. 2007, section 5.3: {3, 4, 5} and {6, 8, 11} of 3..11 at 3/8 and 1/6, though 11 were 1100."""
    for greatest in (11, 1100):
        values = f"(1, 3), (1, 4), (1, 5), (2, 6), (2, 8), (2, {greatest}), (3, 7), (3, 9), (3, 10)"
        table(con, "a, s", values)
        emds = rows(con, "SELECT emd FROM t_closeness_ordered('t', ['a'], ['s']) ORDER BY class.a LIMIT 2")
        assert [emd for (emd,) in emds] == pytest.approx([3 / 8, 1 / 6])


def test_trap_05_one_value_has_no_distance_and_ties_are_one_step(con: duckanon.Connection) -> None:
    table(con, "a, s", "(1, 5), (2, 5)")
    assert rows(con, "SELECT max(emd) FROM t_closeness_ordered('t', ['a'], ['s'])") == [(0,)]
    # 1 1 1 2 with classes {1, 1}, {1, 2}: |1 - 3/4| and |1/2 - 3/4| over one step.
    table(con, "a, s", "(1, 1), (1, 1), (2, 1), (2, 2)")
    assert rows(con, "SELECT emd FROM t_closeness_ordered('t', ['a'], ['s'])") == [(0.25,), (0.25,)]


def test_trap_06_values_that_a_class_lacks_count(con: duckanon.Connection) -> None:
    """Ten of each class: .9/.1 beside .1/.9 is 0.4 from half and half, all of one kind 0.5."""
    con.execute("CREATE TABLE t AS SELECT i // 10 AS a, i IN (9, 10) <> (i < 10) AS s FROM range(20) r(i)")
    assert passed(con, t="0.4")
    assert not passed(con, t="0.399999999999")
    con.execute("CREATE OR REPLACE TABLE t AS SELECT i // 10 AS a, i // 10 AS s FROM range(20) r(i)")
    assert not passed(con, t="0.01")
    assert not passed(con, t="0.499999999999")
    assert passed(con, t="0.5")


def test_trap_07_the_most_frequent_value_comes_first(con: duckanon.Connection) -> None:
    """Counts 8, 1, 1: recursive (c, 3) needs c above 8. Counts 2, 1: exp H = 1.8899, not 1."""
    con.execute("CREATE TABLE t AS SELECT 1 AS a, greatest(i, 7) AS s FROM range(10) r(i)")
    recursive = {"l": 3, "l_diversity": "recursive"}
    assert not passed(con, c="8", **recursive)
    assert passed(con, c="8.000000000001", **recursive)
    table(con, "a, s", "(1, 'x'), (1, 'x'), (1, 'y')")
    assert passed(con, l="1.88", l_diversity="entropy")
    assert not passed(con, l="1.89", l_diversity="entropy")


def test_trap_08_distances_are_to_the_table_that_is_released(con: duckanon.Connection) -> None:
    """By hand: half of 96 records are 1, and 52 of 100 with the four ones of a = 99, which go."""
    con.execute("CREATE TABLE p AS SELECT i // 4 AS a, i % 2 AS s FROM range(96) r(i)")
    con.execute("INSERT INTO p SELECT 99, 1 FROM range(4)")
    con.sql(
        "CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a), sensitive = (s), k = 4, l = 2, "
        "t = 0.3, suppression_limit = 0.04)"
    )
    assert rows(con, "SELECT count(*), sum(s) FROM v") == [(96, 48)]
    (t,) = [row for row in rows(con, "AUDIT VIEW v") if row[0] == "t_closeness"]
    assert (t[3], t[7]) == (0, True)


def test_trap_09_suppressed_records_are_gone_and_no_class(con: duckanon.Connection) -> None:
    """Two of 22 records are left out; a class '*' of two would make k look like 2."""
    con.execute("CREATE TABLE p AS SELECT i // 4 AS a, i % 2 AS s FROM range(20) r(i)")
    con.execute("INSERT INTO p VALUES (NULL, 0), (NULL, 1)")
    policy = duckanon.Policy(quasi_identifiers="a", sensitive="s", k=4, nulls="suppress")
    with pytest.warns(duckanon.DuckanonWarning, match="left out 2"):
        release = duckanon.anonymize(con, "p", policy, name="v")
    assert (release.records, release.suppressed) == (20, 2)
    assert rows(con, "SELECT k, records FROM k_anonymity('v', ['a'])") == [(4, 20)]


def test_trap_10_other_sensitive_columns_may_be_known(con: duckanon.Connection) -> None:
    """Alone each column has two values; whoever knows one of them knows the other."""
    table(con, "a, s, u", "(1, 'x', 'p'), (1, 'x', 'p'), (1, 'y', 'q'), (1, 'y', 'q')")
    alone = "SELECT attribute, distinct_l FROM l_diversity('t', ['a'], ['s', 'u']) ORDER BY 1"
    assert rows(con, alone) == [("s", 2), ("u", 2)]
    assert rows(con, "SELECT max(distinct_l) FROM l_diversity('t', ['a', 'u'], ['s'])") == [(1,)]


@pytest.mark.parametrize("t", ["0.3", 0.3, Decimal("0.3")])
def test_trap_14_a_class_at_exactly_t_passes(con: duckanon.Connection, t: Any) -> None:
    """Eight and two of ten, half and half in the table: 0.8 - 0.5 is above 0.3 in doubles."""
    assert 0.8 - 0.5 > 0.3
    con.execute(
        "CREATE TABLE t AS SELECT i // 10 AS a, IF(i < 10, i < 8, i < 12)::VARCHAR AS s FROM range(20) r(i)"
    )
    assert passed(con, t=t)
    assert not passed(con, t="0.299999999999")
    macro = "SELECT bool_and(passed) FROM audit('t', ['a'], ['s'], t := {})"
    assert rows(con, macro.format("0.3")) == [(True,)]
    assert rows(con, macro.format("0.299999999999")) == [(False,)]


def test_trap_16_average_risk_is_over_records(con: duckanon.Connection) -> None:
    """Classes of 98, 1 and 1: 3 of 100 records are found; the mean over classes would say 67 of 100."""
    con.execute("CREATE TABLE t AS SELECT greatest(i, 97) AS a FROM range(100) r(i)")
    query = "SELECT prosecutor_average, marketer, prosecutor_max FROM reidentification_risk('t', ['a'])"
    assert rows(con, query) == [(0.03, 0.03, 1.0)]


def test_trap_17_values_of_a_type_that_do_not_occur_are_no_values(con: duckanon.Connection) -> None:
    """Of the ENUM a, b, c only a and b occur: two classes, and one step between them, not two."""
    con.execute("CREATE TYPE grade AS ENUM ('a', 'b', 'c')")
    con.execute("CREATE TABLE t AS SELECT i AS a, (['a', 'b'])[i]::grade AS s FROM range(1, 3) r(i)")
    assert rows(con, "SELECT k, classes FROM k_anonymity('t', ['s'])") == [(1, 2)]
    assert rows(con, "SELECT max(emd) FROM t_closeness_ordered('t', ['a'], ['s'])") == [(0.5,)]
    assert rows(con, "SELECT max(emd) FROM t_closeness_equal('t', ['a'], ['s'])") == [(0.5,)]


def test_trap_17_categories_of_a_frame_that_do_not_occur_are_no_classes() -> None:
    pandas = pytest.importorskip("pandas")
    sex = pandas.Categorical(["f", "m"] * 6, categories=["f", "m", "x", "y"])
    frame = pandas.DataFrame({"sex": sex, "s": range(12)})
    released = duckanon.anonymize_table(frame, duckanon.Policy(quasi_identifiers="sex", sensitive="s", k=6))
    assert sorted(map(str, released["sex"])) == ["f"] * 6 + ["m"] * 6
    assert set(released["sex"].cat.categories) == {"f", "m"}
