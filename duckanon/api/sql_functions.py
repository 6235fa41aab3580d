"""Functions for any DuckDB connection: table functions, scalar functions and the audit macros."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from duckdb.func import ARROW

from duckanon.api.planner import LEFT_OUT, SESSION, Slot, planner
from duckanon.audits import macros as auditsql
from duckanon.database import engine, templates
from duckanon.errors import DuckanonError, PolicyError
from duckanon.kernels.closeness.emd import emd_ordered
from duckanon.literature.partitions import partition

if TYPE_CHECKING:
    import duckdb

SLOTS = 16
"""Calls of the table functions that one query, or the cache, can hold."""

PLANNER = "duckanon_plan_"
"""Begin of the name of the scalar function that a connection's table functions call."""

_serial = itertools.count(1)


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
    con.create_function(_planner_name(serial), planner(con, slots), ["VARCHAR"] * 4, "VARCHAR")
    present = _present(con)
    if "microaggregate" not in present:
        con.create_function(
            "microaggregate", _microaggregate, ["DOUBLE[][]", "INTEGER"], "INTEGER[]", type=ARROW
        )
    if "emd_ordered" not in present:
        con.create_function("emd_ordered", _emd_ordered, ["DOUBLE[]"] * 2, "DOUBLE", type=ARROW)
    macros = templates.render(
        "functions/table_functions.sql.j2",
        planner=_planner_name(serial),
        left_out=LEFT_OUT,
        settings=SESSION,
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
    serials = [row[0] for row in engine.rows(con, templates.read("functions/serials.sql"), "unregister")]
    engine.run(con, templates.render("functions/remove.sql.j2", macros=_macros()), "unregister")
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
    return {row[0] for row in engine.rows(con, templates.read("functions/present.sql"), "register")}


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
