"""Recode: the labels of the partition become the released table, one value a class and quasi-identifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from duckanon import engine, sqlfiles
from duckanon.errors import DuckanonError, SourceError

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import numpy.typing as npt

    from duckanon.stages.stage import Staged


def recode(con: duckdb.DuckDBPyConnection, staged: Staged, labels: npt.NDArray[np.int64]) -> str:
    """Name of a temporary table that holds the candidate of a release.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The caller's connection.
    staged : Staged
        The records.
    labels : ndarray of shape (staged.size,), int64
        Class of record_id 1, 2, ...; a negative label suppresses the record.

    Returns
    -------
    str
        The candidate: released columns in source order, rows ordered by the released values.

    Notes
    -----
    O(n log n) in SQL. Integers, DECIMAL, DATE and TIMESTAMP means are exact and rounded half away from
    zero (a date counts in days, a timestamp in its own unit, both from 1970); the most frequent value is
    released by 'mode', the smallest of several, NULL last.
    """
    candidate = f"{staged.workspace}_candidate"
    registered = f"{staged.workspace}_labels"
    con.register(registered, labels_table(labels))
    try:
        statement = sqlfiles.render(
            "recode/candidate.sql.j2",
            candidate=candidate,
            records=staged.records,
            labels=registered,
            fields=staged.fields,
            quasi=staged.quasi,
        )
        engine.run(con, statement, "recode")
    except DuckanonError as failure:
        if "Out of Range" not in str(failure):
            raise
        raise SourceError(
            "recode: the numbers of a quasi-identifier are too large for an exact mean: "
            "CAST the column to DOUBLE in the source query, or recode it by 'mode', 'range' or 'set'"
        ) from failure
    finally:
        con.unregister(registered)
    return candidate


def labels_table(labels: npt.NDArray[np.int64]) -> pa.Table:
    """Arrow table (record_id, class_id) of the records that are released.

    Parameters
    ----------
    labels : ndarray of shape (n,), int64
        Class of record_id 1, 2, ...; negative where suppressed.

    Returns
    -------
    pyarrow.Table
        Two BIGINT columns.
    """
    released = (labels >= 0).nonzero()[0]
    return pa.table({"record_id": pa.array(released + 1), "class_id": pa.array(labels[released])})
