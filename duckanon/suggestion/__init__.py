"""The role finder: columns that identify people, and a policy to start from."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.api.arguments import check_names, plain
from duckanon.database import engine, templates
from duckanon.database.engine import temporary
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import columns_of, named, subquery
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.bind import Role
from duckanon.policy.names import fold
from duckanon.statements.tokens import parse_name
from duckanon.suggestion.model import ColumnSet, Suggestion, ranked, statement_of
from duckanon.suggestion.profile import SourceColumn, profile, uniqueness_of_sets
from duckanon.suggestion.roles import column_suggestions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.api.connection import Connection
    from duckanon.suggestion.profile import Facts

SAMPLE = 100_000
"""Records of the sample in which sets of columns are counted, if the table has more records."""


@interruptible
def suggest(con: Connection | duckdb.DuckDBPyConnection, relation: str) -> Suggestion:
    """Propose roles for the columns of a table, with the evidence and a statement to start from.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        Connection of the table.
    relation : str
        Name of a table or view, as in SQL; a file in single quotes; or a query.

    Returns
    -------
    Suggestion
        ``columns``, ``sets``, ``warnings``, ``statement``; ``to_text()`` and ``to_dict()``.

    Raises
    ------
    SourceError
        The relation cannot be read, or has no records.

    Notes
    -----
    The roles are proposals, on which the owner decides. Columns are counted over all records, one GROUP BY
    each. At most some 500 sets of columns are counted, over a sample of about `SAMPLE` records. Deterministic
    for the same table. Temporary tables are dropped at the end.

    Examples
    --------
    >>> from duckanon import connect
    >>> with connect() as con:
    ...     _ = con.execute("CREATE TABLE people AS SELECT i AS id, i % 50 AS age FROM range(500) t(i)")
    ...     [(column.name, column.role.value) for column in suggest(con, "people").columns]
    [('id', 'identifier'), ('age', 'quasi_identifier')]
    """
    duck = plain(con)
    check_names({"relation": relation})
    try:
        named = parse_name(relation)
    except PolicyError:
        return suggest_query(duck, relation, name="the query", view="anonymized")
    parts = [part for part in (named.catalog, named.schema, named.name) if part is not None]
    stem = Path(named.name).stem if len(parts) == 1 else named.name
    return suggest_query(duck, query_of(parts), name=".".join(parts), view=f"{stem}_anon")


def query_of(parts: Sequence[str]) -> str:
    """Query of all records of a relation, given the parts of its name."""
    relation = named(*parts)
    return templates.render("relation.sql.j2:rows", relation=relation).strip()


def suggest_query(
    con: duckdb.DuckDBPyConnection,
    query: str,
    *,
    name: str,
    view: str,
    source: str | None = None,
    database: str | None = None,
) -> Suggestion:
    """Propose roles for the columns of a query, as `suggest`; a SourceError if it fails or has no records."""
    # The suggestion calls the query `name`. `view` names the anonymized view, with a number added if it is
    # taken. The statement reads `source`, the same query as `query` for another connection, and runs on the
    # file `database`.
    text = engine.one_query(con, query).strip()
    with temporary(con) as workspace:
        of_query = columns_of(con, subquery(text), f"suggest for {name}")
        columns = tuple(
            SourceColumn(*column, f"c{number}") for number, column in enumerate(of_query, start=1)
        )
        records, sample, size, sampled = _stage(con, workspace, text, columns, name)
        facts = profile(con, records, sample, columns)
        proposed, warnings = column_suggestions(con, records, facts)
        pairs = zip(facts, proposed, strict=True)
        quasi = [counted for counted, column in pairs if column.role is Role.QUASI_IDENTIFIER]
        uniqueness = uniqueness_of_sets(con, workspace, records, sample, quasi)
        together = _together(con, records, quasi)
    repairs = {counted.column.name: counted.repair for counted in facts if counted.repair}
    statement, reasons = statement_of(proposed, size, _free(con, view), source or text, repairs)
    return Suggestion(
        name=name,
        records=size,
        sampled=sampled,
        columns=ranked(proposed),
        sets=uniqueness.sets,
        together=together,
        special_uniques=uniqueness.special,
        contributions=uniqueness.contributions,
        examined=uniqueness.examined,
        warnings=warnings + reasons,
        statement=statement,
        database=database,
    )


def _stage(
    con: duckdb.DuckDBPyConnection, workspace: str, query: str, columns: Sequence[SourceColumn], name: str
) -> tuple[str, str, int, int]:
    """Write the records and a sample of them to tables; return their names and sizes."""
    records, sample, stage = f"{workspace}_records", f"{workspace}_sample", f"suggest for {name}"
    statement = templates.render(
        "suggest/records.sql.j2:records", records=records, query=query, columns=columns
    )
    engine.run(con, statement, stage, error=SourceError)
    size = _size(con, records)
    if size == 0:
        raise SourceError(f"{stage}: it has no records, so there is nothing to suggest")
    statement = templates.render(
        "suggest/records.sql.j2:sample", sample=sample, records=records, wanted=min(SAMPLE, size), size=size
    )
    engine.run(con, statement, stage)
    return records, sample, size, _size(con, sample)


def _size(con: duckdb.DuckDBPyConnection, relation: str) -> int:
    query = templates.render("relation.sql.j2:count", relation=named("temp", relation))
    return int(engine.rows(con, query, "suggest")[0][0])


def _together(con: duckdb.DuckDBPyConnection, records: str, quasi: Sequence[Facts]) -> ColumnSet | None:
    """Count the set of all quasi-identifiers over all records."""
    if not quasi:
        return None
    columns = [facts.column.code for facts in quasi]
    query = templates.render("relation.sql.j2:combinations", records=records, columns=columns)
    size, _, alone = engine.rows(con, query, "suggest")[0]
    return ColumnSet(tuple(facts.column.name for facts in quasi), size, alone, None, alone)


def _free(con: duckdb.DuckDBPyConnection, view: str) -> str:
    """Return the name of the view, with a number if a relation has that name."""
    rows = engine.rows(con, templates.render("suggest/statement.sql.j2:taken"), "suggest")
    taken = {fold(row[0]) for row in rows}
    names = itertools.chain([view], (f"{view}_{number}" for number in itertools.count(2)))
    return next(name for name in names if fold(name) not in taken)
