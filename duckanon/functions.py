"""Functions for any DuckDB connection: table functions, scalar functions and the audit macros."""

from __future__ import annotations

import itertools
import json
from collections import OrderedDict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from duckdb.func import ARROW

from duckanon import auditsql, engine, release, sqlfiles
from duckanon.errors import DuckanonError, PolicyError, SourceError
from duckanon.interrupts import interruptible
from duckanon.kernels.emd import emd_ordered
from duckanon.methods import partition
from duckanon.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

SLOTS = 16
"""Calls of the table functions that one query, or the cache, can hold."""

PLANNER = "duckanon_plan_"
"""Begin of the name of the scalar function that a connection's table functions call."""

LEFT_OUT = "(left out)"
"""Value of an argument of a table function that the caller did not write."""

_serial = itertools.count(1)


class Slot:
    """An Arrow table behind a registered name; DuckDB asks for it anew in every query.

    Every filling has a column with a name of its own, so that a prepared statement that was bound to an older
    filling fails and never shows the rows of another call.
    """

    def __init__(self) -> None:
        self.fill(pa.table({}))

    def fill(self, table: pa.Table) -> None:
        """Hold another table from now on."""
        self.mark = f"duckanon_filling_{next(_serial)}"
        self.table = table.append_column(self.mark, pa.nulls(table.num_rows, pa.bool_()))

    def __arrow_c_schema__(self) -> object:
        """Schema of the table of the moment."""
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Rows of the table of the moment."""
        return self.table.__arrow_c_stream__(requested_schema)


def register(con: duckdb.DuckDBPyConnection) -> None:
    """Add our functions to a plain DuckDB connection, as temporary objects.

    Table functions ``anonymize`` and ``equivalence_classes``, scalar functions ``microaggregate`` and
    ``emd_ordered``, and the audit macros. Calling it again renews them.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection. Close it, or call `unregister`, before the interpreter ends.

    Notes
    -----
    The table functions run when the query is bound, on a cursor of their own: they see committed,
    non-temporary relations only, and a prepared statement keeps the rows of its preparation.
    """
    unregister(con)
    serial = next(_serial)
    slots = {_slot_name(serial, number): Slot() for number in range(SLOTS)}
    for name, slot in slots.items():
        con.register(name, slot)
    # Functions belong to the database instance, so every connection has a planner of its own.
    con.create_function(_planner_name(serial), _planner(con, slots), ["VARCHAR"] * 3, "VARCHAR")
    present = _present(con)
    if "microaggregate" not in present:
        con.create_function(
            "microaggregate", _microaggregate, ["DOUBLE[][]", "INTEGER"], "INTEGER[]", type=ARROW
        )
    if "emd_ordered" not in present:
        con.create_function("emd_ordered", _emd_ordered, ["DOUBLE[]"] * 2, "DOUBLE", type=ARROW)
    macros = sqlfiles.render(
        "functions/table_functions.sql.j2", planner=_planner_name(serial), left_out=LEFT_OUT
    )
    engine.run(con, macros, "register")
    for statement in auditsql.macro_statements(temporary=True):
        engine.run(con, statement, "register")


def unregister(con: duckdb.DuckDBPyConnection) -> None:
    """Remove what `register` added; nothing happens where nothing was added.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        The connection. The scalar functions stay while another connection of the database uses them.
    """
    serials = [row[0] for row in engine.rows(con, sqlfiles.read("functions/serials.sql"), "unregister")]
    engine.run(con, sqlfiles.render("functions/remove.sql.j2", macros=_macros()), "unregister")
    for serial in serials:
        con.remove_function(_planner_name(serial))
        for number in range(SLOTS):
            con.unregister(_slot_name(serial, number))
    left = _present(con)
    if serials and not any(name.startswith(PLANNER) for name in left):
        for name in ("microaggregate", "emd_ordered"):
            if name in left:
                con.remove_function(name)


def _present(con: duckdb.DuckDBPyConnection) -> set[str]:
    return {row[0] for row in engine.rows(con, sqlfiles.read("functions/present.sql"), "register")}


def _planner(con: duckdb.DuckDBPyConnection, slots: dict[str, Slot]) -> Callable[[str, str, str], str]:
    filled: OrderedDict[tuple[Any, ...], str] = OrderedDict()

    @interruptible
    def duckanon_plan(function: str, relation: str, options: str) -> str:
        # DuckDB binds a query more than once: the same call on the same data is answered from its slot.
        with con.cursor() as cursor:
            # One snapshot for the fingerprint and for the rows; nothing is written.
            cursor.begin()
            key = (function, relation, options, *_fingerprint(cursor, relation))
            if key not in filled:
                table = _rows(cursor, function, relation, options)
                free = [name for name in slots if name not in filled.values()]
                filled[key] = free[0] if free else filled.popitem(last=False)[1]
                slots[filled[key]].fill(table)
            filled.move_to_end(key)
            cursor.rollback()
        name = filled[key]
        return sqlfiles.render("functions/slot.sql.j2", slot=name, mark=slots[name].mark)

    return duckanon_plan


def _fingerprint(cursor: duckdb.DuckDBPyConnection, relation: str) -> tuple[Any, ...]:
    query = sqlfiles.render("functions/fingerprint.sql.j2", relation=relation)
    try:
        return tuple(engine.rows(cursor, query, f"relation {relation!r}", error=SourceError)[0])
    except SourceError as unseen:
        raise SourceError(f"{unseen} (only committed, non-temporary relations are seen here)") from unseen


def _rows(cursor: duckdb.DuckDBPyConnection, function: str, relation: str, options: str) -> pa.Table:
    policy = _policy(options)
    query = sqlfiles.render("functions/source.sql.j2", relation=relation)
    if function == "equivalence_classes":
        return release.equivalence_classes(cursor, query, policy)
    return release.released_rows(cursor, query, policy)


def given_options(options: str) -> dict[str, Any]:
    """Options that the caller of a table function wrote.

    Parameters
    ----------
    options : str
        All arguments as JSON; `LEFT_OUT` stands for those that were not written.

    Returns
    -------
    dict
        Value by name; an empty list is as good as none.

    Raises
    ------
    PolicyError
        A value is NULL: a threshold from a query without a row must not be lost.
    """
    given = {
        name: value
        for name, value in json.loads(options, parse_float=Decimal).items()
        if value not in (LEFT_OUT, [])
    }
    for name, value in given.items():
        if value is None:
            raise PolicyError(f"{name} is NULL: give a value, or leave {name} out")
    return given


def _policy(options: str) -> Policy:
    given = given_options(options)
    missing = [name for name in ("quasi_identifiers", "k") if name not in given]
    if missing:
        raise PolicyError(f"option {missing[0]!r} is missing: write {missing[0]} := ...")
    return Policy(**given)


def _microaggregate(points: pa.ChunkedArray, k: pa.ChunkedArray) -> pa.Array:
    labels = [
        None if one is None or size is None else _labels(one, size)
        for one, size in zip(points.to_pylist(), k.to_pylist(), strict=True)
    ]
    return pa.array(labels, pa.list_(pa.int32()))


def _labels(points: list[list[float]], k: int) -> list[int]:
    if not points or any(point is None or None in point for point in points):
        raise PolicyError("microaggregate() takes a list of points without NULL, at least one")
    if len({len(point) for point in points}) > 1:
        raise PolicyError("microaggregate() takes points of one and the same length")
    result: list[int] = partition(np.array(points, dtype=np.float64), k, method="mdav").tolist()
    return result


def _emd_ordered(members: pa.ChunkedArray, population: pa.ChunkedArray) -> pa.Array:
    pairs = zip(members.to_pylist(), population.to_pylist(), strict=True)
    return pa.array([None if a is None or b is None else _emd(a, b) for a, b in pairs], pa.float64())


def _emd(members: list[float | None], population: list[float | None]) -> float:
    try:
        return emd_ordered(np.array(members, dtype=np.float64), np.array(population, dtype=np.float64))
    except ValueError as wrong:
        raise DuckanonError(f"emd_ordered(): {wrong}") from wrong


def _planner_name(serial: int) -> str:
    return f"{PLANNER}{serial}"


def _slot_name(serial: int, number: int) -> str:
    return f"duckanon_slot_{serial}_{number}"


def _macros() -> list[tuple[str, bool]]:
    return [("anonymize", True), ("equivalence_classes", True), *auditsql.macro_names()]
