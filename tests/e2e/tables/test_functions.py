"""Table functions and scalar functions on a plain DuckDB connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.audits.macros import bindings
from duckanon.errors import DuckanonError, StatementError
from tests.e2e.scenes import PATIENTS, QI, command, emptied
from tests.oracle import class_emds, k_anonymity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALL = "anonymize('patients', quasi_identifiers := ['age', 'zip'], sensitive := ['charge'], identifiers := ['id'], insensitive := ['diagnosis'], k := 3, t := 0.4)"


@pytest.fixture(scope="module")
def registered() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        duckanon.register(connection)
        yield connection


@pytest.fixture
def con(registered: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """One connection with our functions, which are long to parse, and sixty patients as its only table."""
    registered.execute(PATIENTS)
    yield registered
    emptied(registered)


def dictionaries(con: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    """Give the rows of a query."""
    cursor = con.execute(query)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


CALLS = (
    ("FROM k_anonymity('pairs', ['age'])", [(2, 3, 6)]),
    ("FROM K_ANONYMITY('pairs', ['age'])", [(2, 3, 6)]),
    ("SELECT emd_ordered([1.0], [1.0, 2.0])", [(0.5,)]),
    (
        "FROM anonymize('pairs', quasi_identifiers := ['age'], k := 2)",
        [(0,), (0,), (1,), (1,), (2,), (2,)],
    ),
)
"""Calls and their rows by hand, on six records of the ages 0, 0, 1, 1, 2, 2."""

PAIRS = "CREATE TABLE pairs AS SELECT range // 2 AS age FROM range(6)"


@pytest.mark.parametrize("door", ["sql", "execute"])
@pytest.mark.parametrize(("call", "rows"), CALLS)
def test_a_connection_of_ours_has_them_when_a_statement_calls_one(
    call: str, rows: list[tuple[Any, ...]], door: str
) -> None:
    with duckanon.connect() as con:
        con.sql(PAIRS)
        assert getattr(con, door)(f"BEGIN; {call}").fetchall() == rows
        con.sql("COMMIT")
        duckanon.unregister(con)


def test_what_a_rollback_takes_away_comes_back_or_says_why_not() -> None:
    with duckanon.connect() as con:
        con.sql(PAIRS)
        macro, scalar = CALLS[0], CALLS[2]
        for call, rows in (macro, scalar):
            assert con.sql(f"BEGIN; {call}").fetchall() == rows
            con.sql("ROLLBACK")
        assert con.sql(macro[0]).fetchall() == macro[1]
        with pytest.raises(
            DuckanonError, match=r"emd_ordered\(\) again after a ROLLBACK .*: open another one"
        ):
            con.sql(scalar[0])
        duckanon.unregister(con)


def test_it_brings_what_is_called_and_hides_nothing_of_the_user() -> None:
    with duckanon.connect() as con:
        con.sql(
            f"{PAIRS}; CREATE MACRO similarity(a, b) AS a + b; CREATE MACRO audit(tbl) AS TABLE SELECT 7 AS mine"
        )
        sizes = con.sql("FROM class_sizes('pairs', ['age']) ORDER BY ALL").fetchall()
        assert sizes == [({"age": age}, 2) for age in range(3)]
        assert con.sql("SELECT similarity(1, 2)").fetchall() == [(3,)]
        assert con.sql("FROM audit('pairs')").fetchall() == [(7,)]
        with pytest.raises(duckdb.CatalogException, match="k_anonymity does not exist"):
            con.duckdb.execute("FROM k_anonymity('pairs', ['age'])")
        with pytest.raises(duckdb.CatalogException, match="nosuch does not exist"):
            con.sql("FROM nosuch('pairs') -- k_anonymity(")


@pytest.mark.slow
def test_every_macro_is_known_by_its_name() -> None:
    """The names that a statement is searched for are those of files, and the macros are made from others, too."""
    for name in bindings():
        with duckanon.connect() as con, pytest.raises(duckdb.Error) as refused:
            con.sql(f"FROM {name}('nothing')")
        # The table does not exist, or an argument is missing; the macro is there.
        assert f"{name} does not exist" not in str(refused.value)


def test_a_script_audits_what_it_releases(tmp_path: Path) -> None:
    script = tmp_path / "nightly.sql"
    script.write_text(f"{PAIRS};\nFROM k_anonymity('pairs', ['age']);\n")
    ran = command("run", script)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "2 │       3 │       6" in ran.stdout


def test_register_takes_a_connection_of_ours() -> None:
    with duckanon.connect() as con:
        con.sql(PAIRS)
        duckanon.register(con)
        assert con.duckdb.execute("FROM k_anonymity('pairs', ['age'])").fetchall() == [(2, 3, 6)]
        duckanon.unregister(con)
        with pytest.raises(duckdb.CatalogException):
            con.duckdb.execute("FROM k_anonymity('pairs', ['age'])")


def test_anonymize_gives_released_rows(con: duckdb.DuckDBPyConnection) -> None:
    released = dictionaries(con, f"FROM {CALL}")
    assert len(released) == 60
    assert list(released[0]) == ["age", "zip", "charge", "diagnosis"]
    assert k_anonymity(released, QI) >= 3
    assert max(class_emds(released, QI, "charge", distance="ordered")) <= 0.4


def test_effort_and_time_limit_are_arguments(con: duckdb.DuckDBPyConnection) -> None:
    given = CALL.replace("k := 3", "k := 3, effort := 'fast', time_limit := 30.5")
    assert k_anonymity(dictionaries(con, f"FROM {given}"), QI) >= 3
    with pytest.raises(duckdb.Error, match="did you mean 'best'"):
        con.execute(f"FROM {given.replace('fast', 'bset')}")
    with pytest.raises(duckdb.Error, match="use seconds, a number above 0"):
        con.execute(f"FROM {given.replace('30.5', '-1')}")


@pytest.mark.parametrize(
    ("wrong", "right"), [("quasi_identifer", "quasi_identifiers"), ("sensitve", "sensitive"), ("kk", "k")]
)
def test_a_misspelt_argument_names_the_right_one(wrong: str, right: str) -> None:
    """In one line with its place; DuckDB's own error lists all arguments and none of those written."""
    with duckanon.connect() as ours:
        ours.execute(PATIENTS)
        duckanon.register(ours.duckdb)
        call = f"SELECT 1;\nFROM {CALL.replace(f'{right} :=', f'{wrong} :=')}"
        place = rf"unknown option '{wrong}', did you mean '{right}'\?.* \(line 2, column \d+\)$"
        for run in (ours.sql, ours.execute, ours.run_script):
            with pytest.raises(StatementError, match=place) as raised:
                run(call)
            assert "\n" not in str(raised.value)
        with pytest.raises(duckdb.BinderException, match="supplied arguments"):
            ours.sql("FROM anonymize()")
        duckanon.unregister(ours.duckdb)


def test_two_calls_in_one_query(con: duckdb.DuckDBPyConnection) -> None:
    query = f"SELECT (SELECT count(*) FROM {CALL}) AS a, (SELECT count(*) FROM {CALL.replace('k := 3', 'k := 9')}) AS b"
    assert dictionaries(con, query) == [{"a": 60, "b": 60}]


def test_changed_data_gives_another_release(con: duckdb.DuckDBPyConnection) -> None:
    assert dictionaries(con, f"SELECT count(*) AS n FROM {CALL}") == [{"n": 60}]
    con.execute("DELETE FROM patients WHERE id < 10")
    assert dictionaries(con, f"SELECT count(*) AS n FROM {CALL}") == [{"n": 50}]


def test_equivalence_classes_keep_the_source_columns(con: duckdb.DuckDBPyConnection) -> None:
    labelled = dictionaries(con, f"FROM {CALL.replace('anonymize', 'equivalence_classes')}")
    assert list(labelled[0]) == ["id", "age", "zip", "charge", "diagnosis", "class_id"]
    source = dictionaries(con, "FROM patients ORDER BY id")
    assert [
        {k: v for k, v in row.items() if k != "class_id"} for row in sorted(labelled, key=lambda r: r["id"])
    ] == source
    sizes = dictionaries(
        con,
        f"SELECT min(n) AS k FROM (SELECT count(*) AS n FROM {CALL.replace('anonymize', 'equivalence_classes')} GROUP BY class_id)",
    )
    assert sizes[0]["k"] >= 3


def test_a_t_by_column(con: duckdb.DuckDBPyConnection) -> None:
    call = CALL.replace("t := 0.4", "t := {'charge': 0.3}")
    released = dictionaries(con, f"FROM {call}")
    assert max(class_emds(released, QI, "charge", distance="ordered")) <= 0.3


def test_other_clients_of_the_function(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(f"CREATE TABLE released AS FROM {CALL}")
    assert dictionaries(con, "SELECT count(*) AS n FROM released") == [{"n": 60}]
    assert [row["column_name"] for row in dictionaries(con, f"DESCRIBE FROM {CALL}")] == [
        "age",
        "zip",
        "charge",
        "diagnosis",
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (CALL.replace("k := 3", "k := 61"), "61"),
        (CALL.replace("'age', ", "'agee', "), "agee"),
        (CALL.replace("k := 3, ", ""), "'k' is missing"),
        (CALL.replace("'patients'", "'nowhere'"), "nowhere"),
    ],
)
def test_errors_say_what_is_wrong(con: duckdb.DuckDBPyConnection, call: str, words: str) -> None:
    with pytest.raises(duckdb.Error, match=words):
        con.execute(f"FROM {call}")


@pytest.mark.parametrize("option", ["t", "l", "sensitive", "suppression_limit"])
def test_a_null_is_an_error_and_not_a_threshold_less(con: duckdb.DuckDBPyConnection, option: str) -> None:
    """A variable that was never set is NULL; without t the release would be less than what was asked for."""
    call = f"anonymize('patients', quasi_identifiers := ['age', 'zip'], insensitive := '*', k := 3, {option} := getvariable('unset'))"
    with pytest.raises(duckdb.Error, match=f"{option} is NULL: give a value"):
        con.execute(f"FROM {call}").fetchall()


def test_uncommitted_and_temporary_relations_are_not_seen_and_that_is_said(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("CREATE TEMP TABLE mine AS FROM patients")
    with pytest.raises(duckdb.Error, match="committed, non-temporary"):
        con.execute(f"FROM {CALL.replace('patients', 'mine')}")


def test_microaggregate_labels_the_points_of_a_list(con: duckdb.DuckDBPyConnection) -> None:
    """By hand: two pairs far from each other; k = 2 makes them the two classes."""
    (row,) = dictionaries(
        con, "SELECT microaggregate([[0, 0], [10, 10], [0, 1], [10, 11]]::DOUBLE[][], 2) AS labels"
    )
    a, b, c, d = row["labels"]
    assert (a, b) == (c, d)
    assert a != b
    assert dictionaries(con, "SELECT microaggregate(NULL::DOUBLE[][], 2) AS labels") == [{"labels": None}]


def test_microaggregate_with_group_by(con: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT zip, microaggregate(list([age::DOUBLE]), 3) AS labels FROM patients GROUP BY zip"
    for row in dictionaries(con, query):
        sizes = [row["labels"].count(label) for label in set(row["labels"])]
        assert len(row["labels"]) == 15
        assert min(sizes) >= 3


def test_emd_ordered_of_li_2007(con: duckdb.DuckDBPyConnection) -> None:
    """Li 2007, section 5: {3, 4, 5} and {6, 8, 11} in 3..11 are at 3/8 and 1/6."""
    query = "SELECT emd_ordered([3, 4, 5], range(3, 12)) AS a, emd_ordered([6, 8, 11], range(3, 12)) AS b"
    (row,) = dictionaries(con, query)
    assert row["a"] == pytest.approx(3 / 8, abs=1e-15)
    assert row["b"] == pytest.approx(1 / 6, abs=1e-15)
    with pytest.raises(duckdb.Error):
        con.execute("SELECT emd_ordered([1], [2, 3])")


def test_the_audit_macros_are_there(con: duckdb.DuckDBPyConnection) -> None:
    assert dictionaries(con, "FROM k_anonymity('patients', ['zip'])") == [
        {"k": 15, "classes": 4, "records": 60}
    ]


def test_registering_twice_and_unregistering() -> None:
    with duckdb.connect() as con:
        duckanon.register(con)
        duckanon.register(con)
        duckanon.unregister(con)
        duckanon.unregister(con)
        for name in (
            "anonymize",
            "equivalence_classes",
            "microaggregate",
            "emd_ordered",
            "k_anonymity",
            "audit",
        ):
            assert con.execute(
                "SELECT count(*) FROM duckdb_functions() WHERE function_name = ?", [name]
            ).fetchall() == [(0,)], name
        assert con.execute(
            "SELECT count(*) FROM duckdb_views() WHERE view_name LIKE 'duckanon%'"
        ).fetchall() == [(0,)]


def test_two_connections_of_one_database_do_not_meet(con: duckdb.DuckDBPyConnection) -> None:
    with con.cursor() as other:
        duckanon.register(other)
        nine = CALL.replace("k := 3", "k := 9")
        assert k_anonymity(dictionaries(con, f"FROM {CALL}"), QI) < 9
        assert k_anonymity(dictionaries(other, f"FROM {nine}"), QI) >= 9
        assert k_anonymity(dictionaries(con, f"FROM {CALL}"), QI) < 9
        duckanon.unregister(other)
    assert len(dictionaries(con, f"FROM {CALL}")) == 60
    assert dictionaries(con, "SELECT emd_ordered([1], [1]) AS e") == [{"e": 0.0}]


def test_a_read_only_database_can_use_them(tmp_path: Any) -> None:
    file = tmp_path / "p.duckdb"
    with duckdb.connect(str(file)) as con:
        con.execute(PATIENTS)
    with duckdb.connect(str(file), read_only=True) as con:
        duckanon.register(con)
        assert con.execute(f"SELECT count(*) FROM {CALL}").fetchall() == [(60,)]
