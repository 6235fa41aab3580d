"""Tables in memory: pandas, polars or Arrow in, Arrow out, no database of the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from duckanon import release, sqlfiles
from duckanon.errors import SourceError
from duckanon.interrupts import interruptible
from duckanon.names import twice

if TYPE_CHECKING:
    from duckanon.policy import Policy


@interruptible
def anonymize_table(table: object, policy: Policy) -> pa.Table:
    """Released rows of a table in memory.

    Parameters
    ----------
    table : pandas.DataFrame, polars.DataFrame, pyarrow.Table, RecordBatch or RecordBatchReader
        The records; anything that offers the Arrow C stream works. A pandas index is not a column.
    policy : Policy
        Roles and thresholds.

    Returns
    -------
    pyarrow.Table
        Released columns in source order, rows in the order of the released values, audited.

    Raises
    ------
    DuckanonError
        The table cannot be read, or the policy cannot be kept.

    Examples
    --------
    >>> from duckanon import Policy
    >>> people = pa.table({"age": [31, 35, 60, 64], "pay": [3, 9, 4, 8]})
    >>> anonymize_table(people, Policy(quasi_identifiers="age", sensitive="pay", k=2)).to_pydict()
    {'age': [33, 33, 62, 62], 'pay': [3, 9, 4, 8]}
    """
    with duckdb.connect() as con:
        con.register("source", arrow_table(table))
        return release.released_rows(con, sqlfiles.read("functions/registered.sql"), policy)


def arrow_table(table: object) -> pa.Table:
    """Arrow form of a table.

    Parameters
    ----------
    table : pandas.DataFrame, polars.DataFrame, pyarrow.Table, pyarrow.RecordBatch or other Arrow stream
        A table in memory. The index of a pandas table is left out.

    Returns
    -------
    pyarrow.Table
        Without a copy where the source is Arrow.

    Raises
    ------
    SourceError
        It is no table, Arrow cannot hold its values, or it has two columns of one name.
    """
    kind = type(table).__name__
    try:
        found = _arrow(table)
    except (pa.ArrowException, ValueError, TypeError, OSError) as cause:
        words = "; ".join(map(str, cause.args)) or kind
        raise SourceError(f"cannot read a table from {kind}: {words}") from cause
    if found is None:
        raise SourceError(f"cannot read a table from {kind}: give a pandas, polars or Arrow table")
    again = twice(found.column_names)
    if again is not None:
        raise SourceError(f"the {kind} has the column {again!r} twice: rename one")
    return found


def _arrow(table: object) -> pa.Table | None:
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if type(table).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(table, preserve_index=False) if hasattr(table, "columns") else None
    return pa.table(table) if hasattr(table, "__arrow_c_stream__") else None
