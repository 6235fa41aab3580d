"""The columns that the original and the release have in common, and how wide they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from duckanon.database import engine, templates
from duckanon.database.relations import columns_of as described
from duckanon.errors import PolicyError, SourceError
from duckanon.evaluation.attack.numbers import Spread, pairs
from duckanon.policy.kinds import kind_of
from duckanon.policy.names import columns_listed, fold, suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

STAGE = "linkage"
_RANGE = re.compile(r'STRUCT\("?low"? (?P<low>.+), "?high"? (?P<high>.+)\)', re.IGNORECASE)
_FAMILY = {
    **dict.fromkeys(("integer", "decimal", "float"), "number"),
    **dict.fromkeys(("date", "timestamp"), "date or timestamp"),
    **dict.fromkeys(("text", "boolean"), "text"),
}
_NUMBER = pa.struct([("near", pa.float64()), ("rest", pa.float64())])
_ZONED = "TIMESTAMP WITH TIME ZONE"


class Measure(NamedTuple):
    """How values of a type become numbers.

    Attributes
    ----------
    rule : str
        whole, float, rounded (a DECIMAL beside a DOUBLE of the other table), date, micro, nano, or text.
    scale : int
        Digits after the point that count, the same for both tables.
    """

    rule: str
    scale: int = 0

    @property
    def finite(self) -> bool:
        """Whether the type has neither NaN nor infinity."""
        return self.rule in {"whole", "rounded"}


class Column(NamedTuple):
    """A column that both tables have.

    Attributes
    ----------
    name : str
        As the original spells it.
    form : str
        How it was released: value, range (a struct of low and high) or set (a list).
    original, released : Measure
        How its values become numbers: in the original, and in the release, in the same units.
    """

    name: str
    form: str
    original: Measure
    released: Measure

    @property
    def nominal(self) -> bool:
        """Whether its values are equal or different, and nothing in between."""
        return self.original.rule == "text"


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
                hint = suggestion(name, known) or f": {columns_listed(known)}"
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
    return {fold(name): (name, type_text) for name, type_text in described(con, relation, STAGE)}


def _column(name: str, original: str, released: str) -> Column:
    form, inner = "value", released
    if (struct := _RANGE.fullmatch(released)) is not None:
        form, inner = "range", struct["low"] if struct["low"] == struct["high"] else released
    elif released.endswith("[]"):
        form, inner = "set", released[:-2]
    family = _family(original)
    if family is None:
        raise PolicyError(
            f"column {name!r} has type {original[:40]}, whose values have no distance: CAST it to VARCHAR in "
            "both tables, to compare whether they are equal"
        )
    if _family(inner) != family or (form == "range" and family == "text"):
        zoned = _ZONED in (original, inner) and _FAMILY["date"] in (family, _family(inner))
        raise PolicyError(
            f"column {name!r} is {original[:40]} in the original and {released[:40]} in the release: CAST "
            + (
                "both to the same type, since it depends on the time zone which values are the same"
                if zoned
                else "one, or read the release from parquet or DuckDB: a CSV turns ranges and sets into text"
            )
        )
    kinds = {kind_of(original), kind_of(inner)}
    digits = 0 if "float" in kinds else max(_scale(original), _scale(inner))
    return Column(
        name, form, *(_measure(type_text, digits, real="float" in kinds) for type_text in (original, inner))
    )


def _family(type_text: str) -> str | None:
    """Return what values of a type can be compared with; None if they have no distance."""
    if type_text in {_ZONED, "TIMESTAMPTZ_NS"}:
        return type_text if type_text == _ZONED else None
    return _FAMILY.get(kind_of(type_text))


def _scale(type_text: str) -> int:
    """Return the digits after the point."""
    return int(type_text[:-1].rpartition(",")[2]) if kind_of(type_text) == "decimal" else 0


def _measure(type_text: str, digits: int, *, real: bool) -> Measure:
    kind = kind_of(type_text)
    if kind == "decimal" and real:
        return Measure("rounded", _scale(type_text))
    if kind == "timestamp":
        return Measure("nano" if type_text == "TIMESTAMP_NS" else "micro")
    rules = {"integer": "whole", "decimal": "whole", "boolean": "text"}
    return Measure(rules.get(kind, kind), digits)


def spreads(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[Column]
) -> tuple[int, dict[str, Spread]]:
    """Number of records of the original, and where its numbers lie.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Sees the table.
    relation : str
        SQL text.
    columns : sequence of Column
        The columns; nominal ones are passed over.

    Returns
    -------
    tuple of int and dict of Spread
        By name of column; zeros for a column that is NULL everywhere. O(n) in SQL.

    Raises
    ------
    SourceError
        The table is empty, cannot be read, or a column holds what is no number.
    """
    numbers = [column for column in columns if not column.nominal]
    query = templates.render("linkage/moments.sql.j2", relation=relation, columns=numbers)
    records, *row = engine.rows(con, query, f"{STAGE}: original", error=SourceError)[0]
    if not records:
        raise SourceError("the original is empty: there is nothing to link")
    parts = (row[at : at + 6] for at in range(0, len(row), 6))
    return int(records), {
        column.name: _spread(column.name, *part) for column, part in zip(numbers, parts, strict=True)
    }


def _spread(name: str, unusable: int, least: object, greatest: object, *moments: float | None) -> Spread:
    if unusable:
        raise SourceError(
            f"column {name!r} of the original holds NaN or infinity in {unusable} records: make them NULL, "
            "or leave the records out"
        )
    ends = pairs(pa.array([least, greatest], _NUMBER), name, "original")
    return Spread(np.nan_to_num(ends[0]), *(moment or 0.0 for moment in moments))


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
    tuple of ndarray of shape (v, 2) and of shape (v + 1,)
        Values, and counts from 0 up to the number of records that have a value. O(n log n) in SQL.
    """
    query = templates.render("linkage/distribution.sql.j2", relation=relation, column=column)
    table = engine.table(con, query, STAGE)
    values, records = pairs(table.column(0), column.name, "original"), table.column(1).to_numpy()
    return values, np.concatenate([np.zeros(1, np.int64), np.cumsum(records)])
