"""Small relations that can be made on every engine, as SELECTs over literals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
from sqlglot import exp

from duckanon.database.templates import ident

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckanon.audits.portable import Engine

Row = tuple[Any, ...]


class Relation(NamedTuple):
    """A relation with types of DuckDB."""

    name: str
    columns: dict[str, str]
    rows: Sequence[Row]

    def select(self, engine: Engine) -> str:
        """Give the SELECT that makes it.

        Values are text that is cast, which every engine reads in the same way; so are NaN and Infinity.
        """
        rows = [tuple(None if value is None else str(value) for value in row) for row in self.rows]
        nothing = [(None,) * len(self.columns)]
        source = exp.values(rows or nothing, alias="given", columns=list(self.columns))
        columns = [
            exp.cast(exp.column(name), _type(kind, engine)).as_(name) for name, kind in self.columns.items()
        ]
        query = exp.select(*columns).from_(source)
        return (query if rows else query.where("1 = 0")).sql(dialect=engine)


def _type(kind: str, engine: Engine) -> str:
    """Give a type as the portable audits have it."""
    return "DECIMAL(38, 0)" if kind == "HUGEINT" and engine != "duckdb" else kind


def relations_of(statements: str) -> list[Relation]:
    """Relations that statements make in DuckDB."""
    with duckdb.connect() as con:
        con.execute(statements)
        names = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return [_read(con, name) for name in names]


def _read(con: duckdb.DuckDBPyConnection, name: str) -> Relation:
    relation = con.table(ident(name))
    kinds = map(str, relation.types)
    return Relation(name, dict(zip(relation.columns, kinds, strict=True)), relation.fetchall())


class Answer(NamedTuple):
    """What an engine gave: rows as mappings from column to value, or the message of its error."""

    rows: list[dict[str, Any]]
    error: str | None = None


class Job(NamedTuple):
    """Views to be made one after the other, each a SELECT, and a query over them."""

    views: dict[str, str]
    query: str


def on_duckdb(jobs: Iterable[Job]) -> list[Answer]:
    """Answers of DuckDB in this process."""
    answers = []
    for job in jobs:
        with duckdb.connect() as con:
            for name, select in job.views.items():
                con.execute(f"CREATE TEMP VIEW {ident(name)} AS {select}")
            cursor = con.execute(job.query)
            names = [column[0] for column in cursor.description or ()]
            answers.append(Answer([dict(zip(names, row, strict=True)) for row in cursor.fetchall()]))
    return answers
