"""`assert_private` for test suites: it audits a table and fails the test if a threshold is violated."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import duckdb

from duckanon.api import files, python
from duckanon.api.frames import arrow_table
from duckanon.audits.run import audit_copied, audit_relation
from duckanon.database import engine, paths, sources
from duckanon.database.intake import register_source
from duckanon.errors import PolicyError, SourceError
from duckanon.policy.names import twice
from duckanon.policy.policy import AuditPolicy, hierarchy_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import SupportsIndex

    from duckanon.api.connection import Connection
    from duckanon.audits.report import Report
    from duckanon.policy.audit_policy import AlphaNumber, Subsets
    from duckanon.policy.checks import Columns, Distance, LDiversity, Number


def assert_private(
    table: object,
    *,
    quasi_identifiers: Columns,
    sensitive: Columns = (),
    k: SupportsIndex | None = None,
    l: Number | Mapping[str, Number] | None = None,  # noqa: E741 - l-diversity has this name everywhere
    t: Number | Mapping[Any, Number] | None = None,
    n: SupportsIndex | None = None,
    l_diversity: LDiversity = "distinct",
    c: Number | None = None,
    alpha: AlphaNumber | None = None,
    delta: Number | Mapping[str, Number] | None = None,
    beta: Number | Mapping[str, Number] | None = None,
    enhanced_beta: Number | Mapping[str, Number] | None = None,
    distance: Mapping[str, Distance] | None = None,
    order: Mapping[str, Sequence[str]] | None = None,
    hierarchies: Mapping[str, str] | None = None,
    suppressed: str | None = None,
    k_subsets: int | Subsets | None = None,
    con: Connection | duckdb.DuckDBPyConnection | None = None,
    trust: bool = False,
) -> Report:
    """Audit a table and return the report; raise an AssertionError if a threshold is violated.

    Parameters
    ----------
    table : duckdb.DuckDBPyRelation, str, Path, pandas.DataFrame, polars.DataFrame or pyarrow.Table
        A relation is read on its own connection. With `con`, a text is the name of a table or view, as in
        SQL. Without `con`, a text is a file as on the command line: ``file.csv``, ``file.parquet`` or
        ``file.duckdb:table``. Any other object with an Arrow C stream is read, too; a pandas index is not a
        column. Different texts of a quasi-identifier in a CSV stay different, also 1 and 1.0.
    quasi_identifiers, sensitive : str or iterable of str
        Columns that make the equivalence classes, and columns that l and t protect.
    k, l, t, alpha, delta, beta, enhanced_beta : numbers, optional
        Thresholds, at least one of them; all but k are one number, or numbers by column, and k also a number
        by subset of the quasi-identifiers.
    n, l_diversity, c, distance, order, hierarchies, suppressed, k_subsets
        As in `AuditPolicy`. Tables of hierarchies are read from the connection of `table`.
    con : Connection or duckdb.DuckDBPyConnection, optional
        Connection of a table that is given by name.
    trust : bool
        Whether a view in a ``.duckdb`` file, a program of the file's maker, may run and read other files.

    Returns
    -------
    Report
        All measures, for further assertions.

    Raises
    ------
    AssertionError
        A threshold is violated. The text is the report with the worst classes.
    DuckanonError
        The table is empty or cannot be read, a column does not exist or stands twice, or no threshold is
        given.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"age": [33, 33, 62, 62], "pay": [3, 9, 4, 8]})
    >>> assert_private(people, quasi_identifiers=["age"], sensitive=["pay"], k=2, l=2).passed
    True
    """
    __tracebackhide__ = True  # pytest shows the line of the test, not this one
    policy = AuditPolicy(
        quasi_identifiers=quasi_identifiers,
        sensitive=sensitive,
        k=k,
        t=t,
        n=n,
        l=l,
        l_diversity=l_diversity,
        c=c,
        alpha=alpha,
        delta=delta,
        beta=beta,
        enhanced_beta=enhanced_beta,
        distance=distance,
        order=order,
        hierarchies=hierarchies,
        suppressed=suppressed,
        k_subsets=k_subsets,
    )
    given = (k, l, t, alpha, delta, beta, enhanced_beta)
    if all(one is None for one in given) and not isinstance(k_subsets, Mapping):
        raise PolicyError("assert_private has nothing to judge: give k, l, t, alpha, delta or beta")
    report = _audit(table, policy, con, trust=trust)
    if not report.passed:
        raise AssertionError(f"{report.name} is not private\n{report.to_text()}")
    return report


def _audit(
    table: object, policy: AuditPolicy, con: Connection | duckdb.DuckDBPyConnection | None, *, trust: bool
) -> Report:
    if isinstance(table, str) and con is not None:
        return python.audit(con, table, policy)
    if con is not None:
        raise SourceError(f"con goes with the name of a table, not with a {type(table).__name__}")
    if isinstance(table, duckdb.DuckDBPyRelation):
        return _audit_relation(table, policy)
    with _opened(table, policy, trust=trust) as (reader, relation, name):
        return audit_relation(reader, relation, policy, name=name)


def _audit_relation(relation: duckdb.DuckDBPyRelation, policy: AuditPolicy) -> Report:
    name, reader = "the relation", _OfRelation(relation, engine.workspace())
    # `_OfRelation` has the methods of a connection that the engine calls.
    plain = cast("duckdb.DuckDBPyConnection", reader)
    try:
        again = twice(relation.columns)
        if again is not None:
            raise SourceError(f"{name} has the column {again!r} twice: rename one with AS")
        return audit_copied(plain, reader.name, policy, name=name, again=True)
    except duckdb.Error as cause:
        raise SourceError(f"{name} cannot be read: {engine.first_line(cause)}") from cause


@contextmanager
def _opened(
    table: object, policy: AuditPolicy, *, trust: bool
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str, str]]:
    """Yield a connection that sees a file or a table in memory, the relation as SQL text, and its name."""
    if not isinstance(table, str | Path):
        with engine.in_memory() as con:
            register_source(con, arrow_table(table), "assert_private")
            yield con, "assert_private", f"the {type(table).__name__}"
        return
    if sources.is_plain(str(table)) and not paths.split(str(table))[0].suffix:
        raise SourceError(f"{str(table)!r} is no file: for the name of a table, give con=...")
    trees = hierarchy_names(policy)
    with files.opened(table, trees=trees, trust=trust) as con:
        relation = files.relation(
            con,
            str(table),
            apart=policy.quasi_identifiers,
            typed=(*policy.quasi_identifiers, *policy.sensitive),
            trust=trust,
        )
        files.check_hierarchies(con, trees, trust=trust)
        yield con, relation, str(table)


class _OfRelation:
    """Stand-in for the connection of a relation: statements see the relation under a name."""

    # A relation does not give its connection, and a copy through Arrow would change types.
    def __init__(self, relation: duckdb.DuckDBPyRelation, name: str) -> None:
        self._relation = relation
        self.name = name

    def execute(self, sql: str) -> Any:
        return self._relation.query(self.name, sql)

    sql = execute
