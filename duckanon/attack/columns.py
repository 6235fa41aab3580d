"""The columns that the original and the release have in common, and how wide they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon import engine, sqlfiles
from duckanon.errors import PolicyError, SourceError
from duckanon.names import fold, suggestion
from duckanon.schema import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

STAGE = "linkage"
_RANGE = re.compile(r'STRUCT\("?low"? (.+), "?high"? .+\)', re.IGNORECASE)
_FAMILY = {
    **dict.fromkeys(("integer", "decimal", "float"), "number"),
    **dict.fromkeys(("date", "timestamp"), "date or timestamp"),
    **dict.fromkeys(("text", "boolean"), "text"),
}


class Column(NamedTuple):
    """A column that both tables have.

    Attributes
    ----------
    name : str
        As the original spells it.
    kind : str
        integer, decimal, float, date, timestamp, boolean or text: of the original.
    form : str
        How it was released: value, range (a struct of low and high) or set (a list).
    """

    name: str
    kind: str
    form: str

    @property
    def nominal(self) -> bool:
        """Whether its values are equal or different, and nothing in between."""
        return self.kind in {"text", "boolean"}


@dataclass(frozen=True)
class Spread:
    """Centre and standard deviation of a column of numbers (population, then sample), and its ends."""

    center: float
    spread: float
    deviation: float
    least: float
    greatest: float


def columns_of(
    con: duckdb.DuckDBPyConnection, relations: tuple[str, str], wanted: Sequence[str], option: str
) -> tuple[Column, ...]:
    """Columns by name, as the original and the release have them.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Sees both tables.
    relations : tuple of str
        Original and release, as SQL text.
    wanted : sequence of str
        Names in any case.
    option : str
        What names them, for errors.

    Returns
    -------
    tuple of Column
        In the order of `wanted`.

    Raises
    ------
    PolicyError
        A column does not exist in both, has a type without distances, or another type in the release.
    SourceError
        A table cannot be read.
    """
    original, release = (_types(con, relation) for relation in relations)
    found = []
    for name in wanted:
        for types, table in ((original, "original"), (release, "release")):
            if fold(name) not in types:
                known = [spelled for spelled, _ in types.values()]
                hint = suggestion(name, known) or f": it has {', '.join(known[:20])}"
                raise PolicyError(f"{option} names {name!r}, which the {table} does not have{hint}")
        spelled, text = original[fold(name)]
        found.append(_column(spelled, text, release[fold(name)][1]))
    return tuple(found)


def has_column(con: duckdb.DuckDBPyConnection, relation: str, name: str) -> bool:
    """Whether a relation has a column, in any case.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Sees the relation.
    relation : str
        SQL text.
    name : str
        The column.

    Returns
    -------
    bool
        True if it has.
    """
    return fold(name) in _types(con, relation)


def _types(con: duckdb.DuckDBPyConnection, relation: str) -> dict[str, tuple[str, str]]:
    query = sqlfiles.render("export/describe.sql.j2", relation=relation)
    return {fold(row[0]): (row[0], row[1]) for row in engine.rows(con, query, STAGE, error=SourceError)}


def _column(name: str, original: str, released: str) -> Column:
    kind, form, inner = kind_of(original), "value", released
    if (struct := _RANGE.fullmatch(released)) is not None:
        form, inner = "range", struct[1]
    elif released.endswith("[]"):
        form, inner = "set", released[:-2]
    family = _FAMILY.get(kind)
    if family is None:
        raise PolicyError(f"column {name!r} has type {original[:40]}, whose values have no distance")
    if _FAMILY.get(kind_of(inner)) != family or (form == "range" and family == "text"):
        raise PolicyError(
            f"column {name!r} is {original[:40]} in the original and {released[:40]} in the release: "
            "CAST one, or read the release from parquet or DuckDB: a CSV turns ranges and sets into text"
        )
    return Column(name, kind, form)


def spreads(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[Column], table: str
) -> tuple[int, dict[str, Spread]]:
    """Number of records of a table, and how wide its columns of numbers are.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Sees the table.
    relation : str
        SQL text.
    columns : sequence of Column
        The columns; nominal ones are passed over, and ranges and sets.
    table : str
        original or release, for errors.

    Returns
    -------
    tuple of int and dict of Spread
        By name of column; zeros for a column that is NULL everywhere. O(n) in SQL.

    Raises
    ------
    SourceError
        The table is empty, cannot be read, or a column holds NaN or infinity.
    """
    numbers = [column for column in columns if not column.nominal]
    if table == "release":
        numbers = [column for column in numbers if column.form == "value"]
    query = sqlfiles.render("linkage/moments.sql.j2", relation=relation, columns=numbers)
    row = engine.rows(con, query, f"{STAGE}: {table}", error=SourceError)[0]
    if not row[0]:
        raise SourceError(f"the {table} is empty: there is nothing to link")
    found = {}
    for column, at in zip(numbers, range(1, len(row), 6), strict=True):
        unusable, *moments = row[at : at + 6]
        if unusable:
            raise SourceError(
                f"column {column.name!r} of the {table} holds NaN or infinity in {unusable} records: "
                "make them NULL, or leave the records out"
            )
        found[column.name] = Spread(*(float(moment or 0.0) for moment in moments))
    return int(row[0]), found


def distribution(
    con: duckdb.DuckDBPyConnection, relation: str, column: Column
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Values of a column of numbers in their order, and how many records come before each.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Sees the table.
    relation : str
        SQL text.
    column : Column
        A column of numbers.

    Returns
    -------
    tuple of ndarray of shape (v,) and of shape (v + 1,)
        Values, and counts from 0 up to the number of records that have a value. O(n log n) in SQL.
    """
    query = sqlfiles.render("linkage/distribution.sql.j2", relation=relation, column=column)
    table = engine.table(con, query, STAGE)
    values, records = table.column(0).to_numpy(), table.column(1).to_numpy()
    return values, np.concatenate([np.zeros(1, np.int64), np.cumsum(records)])
