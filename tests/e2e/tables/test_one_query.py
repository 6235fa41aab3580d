"""Every door that takes a query takes one query: a second statement, or one that writes, never runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon import dbt
from duckanon.suggestion import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

POLICY = duckanon.Policy(quasi_identifiers="age", insensitive="*", k=2, effort="fast")
WITH = "WITH (quasi_identifiers = age, insensitive = *, k = 2, effort = 'fast')"
CALL = "quasi_identifiers := ['age'], insensitive := '*', k := 2"


def _refused_by_dbt(con: duckanon.Connection, query: str) -> None:
    """What dbt is told instead of an exception."""
    options = '{"quasi_identifiers": ["age"], "insensitive": "*", "k": 2, "effort": "fast"}'
    dbt.publish(con.duckdb, query, "w", options)
    (told,) = con.duckdb.execute("SELECT getvariable('duckanon_refused')").fetchone() or ()
    if told is not None:
        raise duckanon.DuckanonError(told)


def _refreshed(con: duckanon.Connection, query: str) -> None:
    """The query of a view that someone wrote into its metadata."""
    con.duckdb.execute("UPDATE duckanon.releases SET source_sql = ?", [query])
    con.sql("REFRESH ANONYMIZED VIEW v")


DOORS: dict[str, Callable[[duckanon.Connection, str], object]] = {
    "anonymize": lambda con, query: duckanon.anonymize(con, query, POLICY, name="w"),
    "CREATE": lambda con, query: con.sql(f"CREATE ANONYMIZED VIEW w AS {query}\n{WITH}"),
    "EXPLAIN": lambda con, query: con.sql(f"EXPLAIN CREATE ANONYMIZED VIEW w AS {query}\n{WITH}"),
    "FRONTIER": lambda con, query: con.sql(f"EXPLAIN CREATE ANONYMIZED VIEW w AS {query}\n{WITH} FRONTIER"),
    "REFRESH": _refreshed,
    "stream": lambda con, query: con.stream(query, "w", quasi_identifiers="age", k=2, delay=3),
    "dbt": _refused_by_dbt,
    "suggest": suggest,
}
"""Those that take the text of a query."""

NAMES: dict[str, Callable[[duckanon.Connection, str], object]] = {
    "FROM anonymize": lambda con, query: con.execute(f"FROM anonymize($q${query}$q$, {CALL})").fetchall(),
    "FROM equivalence_classes": lambda con, query: con.execute(
        f"FROM equivalence_classes($q${query}$q$, {CALL})"
    ).fetchall(),
    "dbt tests": lambda con, query: dbt._selected(con.duckdb, query, "audit"),
    "audit": lambda con, query: duckanon.audit(con, query, POLICY),
}
"""Those that take the name of a relation."""

BAD = (
    "(FROM p) ; COPY p TO '{file}'",
    "FROM p; COPY p TO '{file}'",
    "COPY p TO '{file}'; FROM p",
    "FROM p) ; COPY p TO '{file}' ; FROM (FROM p",
    "p) ; COPY p TO '{file}' ; FROM (p",
    "FROM p WITH NO DATA; COPY p TO '{file}'",
    "FROM p WHERE age = 1 -- ;\n; COPY p TO '{file}'",
    "COPY p TO '{file}'",
    "WITH x AS (COPY p TO '{file}') FROM p",
    "WITH x AS (DELETE FROM p RETURNING *) FROM x",
    "WITH x AS (WITH y AS (FROM p) UPDATE p SET age = 0 RETURNING *) FROM x",
    "DELETE FROM p RETURNING *",
    "INSERT INTO p FROM p RETURNING *",
    "CREATE TABLE other AS FROM p",
    "ATTACH '{file}'",
    "EXPLAIN ANALYZE DELETE FROM p",
    "FROM p) AS a, (FROM p",
    "",
    "-- nothing",
    "; ;",
)

GOOD = (
    "FROM p",
    "FROM p;",
    "\n  FROM p -- ; COPY p TO 'x'",
    "/* ; */ FROM p /* ; */",
    "SELECT *, ';' AS \"a;b\", $$;$$ AS note FROM p",
    "WITH x AS (FROM p) FROM x",
    "FROM p SELECT age, charge ORDER BY age",
    "(FROM p) UNION ALL (FROM p)",
    "SELECT * FROM (VALUES (1, 2), (1, 3), (4, 5), (4, 5)) AS v(age, charge)",
    "PIVOT (SELECT age, charge % 2 AS odd FROM p) ON odd USING count(*)",
    "TABLE p",
)


@contextmanager
def people() -> Iterator[duckanon.Connection]:
    """Twelve persons, one release, and what must not change."""
    with duckanon.connect() as con:
        con.execute("CREATE TABLE p AS SELECT 20 + i // 3 AS age, i % 3 AS charge FROM range(12) AS r(i)")
        con.sql(f"CREATE ANONYMIZED VIEW v AS FROM p {WITH}")
        yield con


def state(con: duckanon.Connection) -> tuple[object, ...]:
    """Rows of the source, and the names of all tables and databases."""
    db = con.duckdb
    return (
        db.execute("FROM p ORDER BY ALL").fetchall(),
        db.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT starts_with(table_name, 'duckanon') ORDER BY ALL"
        ).fetchall(),
        db.execute("SELECT database_name FROM duckdb_databases() ORDER BY ALL").fetchall(),
    )


@pytest.mark.sampled
@pytest.mark.parametrize("door", [*DOORS, *NAMES])
def test_nothing_but_one_query_runs(door: str, tmp_path: Path) -> None:
    file = tmp_path / "leak"
    with people() as con:
        before = state(con)
        for query in BAD:
            text = query.format(file=file)
            with pytest.raises((duckanon.DuckanonError, duckdb.Error)) as refused:
                (DOORS | NAMES)[door](con, text)
            assert not file.exists(), query
            assert state(con) == before, query
            assert len(str(refused.value).splitlines()) <= 2 or isinstance(refused.value, duckdb.Error), query


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.errors.DuckanonWarning")
@pytest.mark.parametrize("door", DOORS)
def test_one_query_of_any_form_runs(door: str) -> None:
    with people() as con:
        for query in GOOD:
            # In a script a semicolon ends the statement, and a refreshed view keeps its columns.
            if not (query.endswith(";") and door in ("CREATE", "EXPLAIN", "FRONTIER")) and not (
                door == "REFRESH" and any(word in query for word in ("note", "PIVOT", "VALUES"))
            ):
                DOORS[door](con, query)
                con.execute("DROP VIEW IF EXISTS w") if door != "stream" else con.execute("DROP TABLE w")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("FROM p; COPY p TO 'x'", "second statement, \"COPY p TO 'x'\": give one query"),
        ("COPY p TO 'x'", "\"COPY p TO 'x'\" is no query: give SELECT, FROM"),
        ("", "the query is empty"),
        ("FROM p;\n FROM nobody", r"second statement, 'FROM nobody'.*line 2, column 2"),
    ],
)
def test_the_error_says_what_is_too_much(query: str, words: str) -> None:
    with people() as con, pytest.raises(duckanon.SourceError, match=words):
        duckanon.anonymize(con, query, POLICY, name="w")
