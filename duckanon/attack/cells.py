"""Released cells as numbers: values, ranges and sets, in the same terms as the values of the original."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckanon import engine
from duckanon.attack.columns import STAGE
from duckanon.errors import PolicyError

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt

    from duckanon.attack.columns import Column


class Alternatives(NamedTuple):
    """Cells of one column: cell i is ``least[start[i]:start[i + 1]]`` to ``most[...]``; NaN is NULL."""

    start: npt.NDArray[np.int64]
    least: npt.NDArray[np.float64]
    most: npt.NDArray[np.float64]
    key: npt.NDArray[np.int64]
    """A number for each cell; equal cells have equal numbers."""


class Counted(NamedTuple):
    """Released values of a column: class, value (NaN for NULL) and number of records."""

    classes: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    records: npt.NDArray[np.int64]


def cells(table: pa.Table, column: Column, number: int, drawn: pa.ChunkedArray) -> tuple[Alternatives, Any]:
    """Released cells of a column, and the values of the sample in the same terms.

    Parameters
    ----------
    table : pyarrow.Table
        Rows of ``cells.sql.j2``.
    column : Column
        The column.
    number : int
        Its number, from 1.
    drawn : pyarrow.ChunkedArray
        Its values in the sample.

    Returns
    -------
    tuple of Alternatives and ndarray of shape (r,), float64
        Numbers as they are; codes, NULL among them, of a nominal column.
    """
    count = table.num_rows
    if column.form == "range":
        low, high = (_numbers(table.column(f"{end}{number}")) for end in ("low", "high"))
        return Alternatives(np.arange(count + 1), low, high, _paired(low, high)), _numbers(drawn)
    if column.form == "set":
        lists = table.column(f"list{number}").combine_chunks()
        # The release holds no empty list and no NULL list; a list of one NULL stands for both if it does.
        lists = pa.array([one or [None] for one in lists.to_pylist()], lists.type)
        start, flat = lists.offsets.to_numpy().astype(np.int64), lists.flatten()
        key, _ = coded(table.column(f"text{number}"))
    else:
        start, flat, key = np.arange(count + 1), table.column(f"value{number}"), None
    if column.nominal:
        least, known = coded(flat, drawn)
    else:
        least, known = _numbers(flat), _numbers(drawn)
    identity = np.unique(least, return_inverse=True)[1] if key is None else key.astype(np.int64)
    return Alternatives(start, least, least, identity), known


def coded(first: Any, second: Any = None) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Codes of texts, the same for equal texts in both arrays; NULL has a code of its own.

    Parameters
    ----------
    first, second : pyarrow.Array or pyarrow.ChunkedArray of text
        The texts; `second` may be missing.

    Returns
    -------
    tuple of ndarray, float64
        Whole numbers from 0.
    """
    parts = [part for part in (first, second) if part is not None]
    chunks = [chunk for part in parts for chunk in getattr(part, "chunks", [part])]
    joined = pa.chunked_array(chunks, pa.string()).combine_chunks()
    whole = joined.dictionary_encode()
    # Codes in the order of the texts, NULL last: near texts are near in the search tree, too.
    count = len(whole.dictionary)
    rank = np.full(count + 1, float(count))
    rank[pc.sort_indices(whole.dictionary).to_numpy().astype(np.int64)] = np.arange(count)
    codes = rank[whole.indices.fill_null(count).to_numpy()]
    return codes[: len(first)], codes[len(first) :]


def counted(
    con: duckdb.DuckDBPyConnection, query: str, column: Column, drawn: pa.ChunkedArray
) -> tuple[Counted, npt.NDArray[np.float64]]:
    """Released values of a column that is no quasi-identifier, by class, and those of the sample.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Sees the release.
    query : str
        Text of ``values.sql.j2``.
    column : Column
        The column.
    drawn : pyarrow.ChunkedArray
        Its values in the sample.

    Returns
    -------
    tuple of Counted and ndarray of shape (r,), float64
        Numbers, NaN for NULL; or codes of a nominal column, NULL among them.
    """
    if column.form != "value":
        raise PolicyError(
            f"column {column.name!r} is a {column.form} in the release: name it as quasi-identifier"
        )
    table = engine.table(con, query, STAGE)
    classes_of, records = (table.column(at).to_numpy().astype(np.int64) for at in (0, 2))
    if column.nominal:
        positions, known = coded(table.column(1), drawn)
    else:
        positions, known = _numbers(table.column(1)), _numbers(drawn)
    return Counted(classes_of, positions, records), known


def _numbers(values: Any) -> npt.NDArray[np.float64]:
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    numbers: npt.NDArray[np.float64] = whole.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _paired(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return a number for each pair of values."""
    left, right = (np.unique(values, return_inverse=True)[1] for values in (first, second))
    paired: npt.NDArray[np.int64] = left * (int(right.max(initial=0)) + 1) + right
    return paired
