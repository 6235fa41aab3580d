"""Our functions on any DuckDB connection: table and scalar functions, macros of audits and hierarchies."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
import threading
from collections import OrderedDict
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
from duckdb.func import ARROW

from duckanon.audits.headers import audit_names, templates_of_macros
from duckanon.database import engine, templates
from duckanon.database.fingerprint import row_digests, tells_all
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import columns_of, named
from duckanon.errors import DuckanonError, PolicyError, SourceError
from duckanon.hierarchies import build as hierarchies
from duckanon.kernels.closeness.emd import emd_ordered
from duckanon.literature.partitions import partition
from duckanon.policy.names import fold
from duckanon.policy.policy import Policy, hierarchy_names
from duckanon.release import unpublished
from duckanon.statements.tokens import parse_name, tokenize, unquoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from duckanon.database.handover import Handover

SLOTS = 16
"""Largest number of table function calls in one query, and of calls in the cache."""

PLANNER = "duckanon_plan_"
"""Prefix of the name of the planner, the scalar function that the table functions of a connection call."""

TABLE_FUNCTIONS = ("anonymize", "equivalence_classes")
"""Names of the table functions that the planner answers."""

_serial = itertools.count(1)


class _Failed(threading.local):
    """Error of the last call of a table function, in the thread that binds the query."""

    error: DuckanonError | None = None


_failed = _Failed()


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """Raise the error of a table function itself, in place of DuckDB's error that only quotes it."""
    before, _failed.error = _failed.error, None
    try:
        yield
    except duckdb.Error as quoting:
        if _failed.error is None:
            raise
        raise _failed.error from quoting
    finally:
        _failed.error = before


def add_called(con: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Add the functions of ours that a statement calls and that the connection lacks."""
    called = _called(statement)
    if not called:
        return
    query = templates.render("functions/registered.sql.j2:known", names=sorted(called))
    lacking = called.difference(row[0] for row in engine.rows(con, query, "register"))
    if not lacking.isdisjoint((*SCALARS, *TABLE_FUNCTIONS)):
        _add_functions(con)
    _add_macros(con, lacking)


def _called(statement: str) -> set[str]:
    if not _any_name().search(statement):
        return set()
    tokens = list(tokenize(statement))
    calls = [at for at, token in enumerate(tokens[1:]) if token.text == "("]
    # A statement that makes a macro has the name of the macro before its first parenthesis.
    makes = calls and not {"MACRO", "FUNCTION"}.isdisjoint(token.keyword for token in tokens[: calls[0]])
    names = (unquoted(tokens[at]) for at in (calls[1:] if makes else calls))
    return {name.lower() for name in names if _any_name().fullmatch(name)}


@cache
def _any_name() -> re.Pattern[str]:
    """Pattern of the names of our functions, read from the files, since rendering the macros is slower."""
    return re.compile(
        "|".join(
            (*SCALARS, *TABLE_FUNCTIONS, *templates_of_macros(), *audit_names(), *hierarchies.macro_names())
        ),
        re.IGNORECASE,
    )


def register(con: duckdb.DuckDBPyConnection) -> None:
    """Add our functions to a plain connection; see `duckanon.register`."""
    unregister(con)
    _add_functions(con)
    _add_macros(con, {name for name, _ in _macros()})


def _add_functions(con: duckdb.DuckDBPyConnection) -> None:
    serial = next(_serial)
    slots = {_slot_name(serial, number): Slot() for number in range(SLOTS)}
    for name, slot in slots.items():
        con.register(name, slot)
    # Scalar functions belong to the database instance, so every connection has its own planner.
    con.create_function(_planner_name(serial), planner(con, slots), ["VARCHAR"] * 4, "VARCHAR")
    present = _present(con)
    for name in sorted(SCALARS.keys() - present):
        _create_scalar(con, name)
    macros = templates.render(
        "functions/table_functions.sql.j2",
        planner=_planner_name(serial),
        left_out=LEFT_OUT,
        settings=SESSION,
    )
    engine.run(con, macros, "register")


def _create_scalar(con: duckdb.DuckDBPyConnection, name: str) -> None:
    function, given, result = SCALARS[name]
    try:
        con.create_function(name, function, given, result, type=ARROW)
    except duckdb.NotImplementedException as taken:
        # After a rollback of the transaction that made a function, DuckDB keeps its name without the
        # function.
        raise DuckanonError(
            f"DuckDB does not make {name}() again after a ROLLBACK on this connection: "
            "open another one, and call duckanon.register(con) before BEGIN"
        ) from taken


def _add_macros(con: duckdb.DuckDBPyConnection, names: Collection[str]) -> None:
    for name in hierarchies.macro_names():
        if name in names:
            engine.run(con, hierarchies.macro_statement(name), "register")
    if set(names) <= {*hierarchies.macro_names(), *SCALARS, *TABLE_FUNCTIONS}:
        return
    # Loading sqlglot, which writes these macros, takes a quarter of the start of a command.
    from duckanon.audits import macros as auditsql

    for name, statement in zip(auditsql.bindings(), auditsql.macro_statements(temporary=True), strict=True):
        if name in names:
            engine.run(con, statement, "register")


def unregister(con: duckdb.DuckDBPyConnection) -> None:
    """Remove what `register` added; see `duckanon.unregister`."""
    serials = [
        row[0]
        for row in engine.rows(con, templates.render("functions/registered.sql.j2:serials"), "unregister")
    ]
    engine.run(con, templates.render("functions/registered.sql.j2:remove", macros=_macros()), "unregister")
    for serial in serials:
        con.remove_function(_planner_name(serial))
        for number in range(SLOTS):
            con.unregister(_slot_name(serial, number))
    if not serials:
        return
    left = _present(con)
    if not any(name.startswith(PLANNER) for name in left):
        for name in left.intersection(SCALARS):
            con.remove_function(name)


def _present(con: duckdb.DuckDBPyConnection) -> set[str]:
    return {
        row[0]
        for row in engine.rows(con, templates.render("functions/registered.sql.j2:present"), "register")
    }


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


SCALARS: Mapping[str, tuple[Callable[..., pa.Array], list[Any], str]] = {
    "microaggregate": (_microaggregate, ["DOUBLE[][]", "INTEGER"], "INTEGER[]"),
    "emd_ordered": (_emd_ordered, ["DOUBLE[]", "DOUBLE[]"], "DOUBLE"),
}
"""Scalar functions with arguments and results; they belong to the database instance."""


def _planner_name(serial: int) -> str:
    return f"{PLANNER}{serial}"


def _slot_name(serial: int, number: int) -> str:
    return f"duckanon_slot_{serial}_{number}"


def _macros() -> list[tuple[str, bool]]:
    from duckanon.audits import macros as auditsql

    own = (*TABLE_FUNCTIONS, *hierarchies.macro_names())
    return [(name, True) for name in (*own, *auditsql.bindings())]


LEFT_OUT = "(left out)"
"""Default of a table function argument, by which a missing argument is recognized."""

SESSION = (
    "search_path",
    "TimeZone",
    "Calendar",
    "binary_as_string",
    "disable_timestamptz_casts",
    "error_on_division_by_zero",
    "file_search_path",
    "home_directory",
    "ieee_floating_point_ops",
    "integer_division",
    "legacy_disable_null_type",
    "order_by_non_integer_literal",
    "scalar_subquery_error_on_multiple_rows",
)
"""Settings of a session that decide which rows a name means."""

STAGE = "table function"


class Slot:
    """An Arrow table behind a registered name, which DuckDB reads again in every query."""

    # Each filling has a column with another name. A prepared statement that was bound to an older filling
    # therefore fails, and never shows the rows of another call.
    def __init__(self) -> None:
        self.mark = ""
        # DuckDB registers no table without a column.
        self.table = pa.table({"empty": pa.nulls(0)})
        self.columns: tuple[Any, ...] = ()

    def fill(self, rows: Handover) -> None:
        """Replace the table."""
        self.mark = f"duckanon_filling_{next(_serial)}"
        self.table = rows.table.append_column(self.mark, pa.nulls(rows.table.num_rows, pa.bool_()))
        self.columns = rows.columns

    def __arrow_c_schema__(self) -> object:
        """Schema of the current table."""
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Rows of the current table."""
        return self.table.__arrow_c_stream__(requested_schema)


def planner(con: duckdb.DuckDBPyConnection, slots: dict[str, Slot]) -> Callable[[str, str, str, str], str]:
    """Function that the table functions of a connection call while a query is bound; it returns a SELECT."""
    # Its arguments: the table function, the relation, options and session settings (both JSON). DuckDB binds
    # one query more than once. A repeated call is answered from its slot (by registered name) if nothing that
    # the answer depends on has changed: the call, the settings, the rows of the source and of every hierarchy
    # with names, types and order. If that cannot be known, the release is made again.
    filled: OrderedDict[object, str] = OrderedDict()

    def duckanon_plan(function: str, relation: str, options: str, session: str) -> str:
        try:
            return planned(function, relation, options, session)
        except DuckanonError as failure:
            _failed.error = failure
            raise

    @interruptible
    def planned(function: str, relation: str, options: str, session: str) -> str:
        policy = _policy(options)
        with con.cursor() as cursor:
            _same_session(cursor, json.loads(session))
            # One snapshot for all reads. Only temporary tables are written, and they end with the cursor.
            cursor.begin()
            source = _source(cursor, function, relation)
            call = _digest(cursor, [source], function, relation, options, _settings(cursor))
            trees = _trees(cursor, policy)
            key: object = (call, trees)
            if key not in filled:
                rows = _rows(cursor, function, source, policy)
                # A file may have changed meanwhile, and a view may give other rows each time.
                if call is None or trees is None or _trees(cursor, policy) != trees:
                    key = object()
                free = [name for name in slots if name not in filled.values()]
                filled[key] = free[0] if free else filled.popitem(last=False)[1]
                slots[filled[key]].fill(rows)
            filled.move_to_end(key)
            cursor.rollback()
        return _reading(filled[key], slots[filled[key]], relation)

    return duckanon_plan


def _same_session(cursor: duckdb.DuckDBPyConnection, session: dict[str, str]) -> None:
    """Give a cursor the settings of the caller's session, so that names and views mean the same rows."""
    for name, value in engine.rows(cursor, templates.render("session.sql.j2:settings"), STAGE):
        if name not in session or value == session[name]:
            continue
        statement = templates.render("session.sql.j2:set", name=name, value=session[name], session=True)
        try:
            engine.run(cursor, statement, STAGE)
        except DuckanonError as refused:
            raise SourceError(
                f"the table functions run in a session of their own, which cannot have your {name} = "
                f"{session[name]!r}: {refused}"
            ) from refused


def _source(cursor: duckdb.DuckDBPyConnection, function: str, relation: str) -> str:
    """Copy the rows of a relation to a temporary table, and return its name."""
    source = f"{engine.workspace()}_source"
    query = templates.render("functions/rows.sql.j2:source", source=source, relation=relation)
    try:
        engine.run(cursor, query, f"relation {relation!r}", error=SourceError)
    except SourceError as unseen:
        raise SourceError(f"{unseen} (only committed, non-temporary relations are seen here)") from unseen
    source = named("temp", source)
    if function == "equivalence_classes":
        for name, _ in columns_of(cursor, source, STAGE):
            if fold(name) == "class_id":
                raise SourceError(
                    f"relation {relation!r} has a column {name!r}, as equivalence_classes() calls its own: "
                    "rename it in a view"
                )
    return source


def _digest(cursor: duckdb.DuckDBPyConnection, relations: list[str], *others: str) -> str | None:
    """Hash of texts, and of the rows of relations with names, types and order; None if it is ambiguous."""
    # Two different VARIANT values may have one hash. (NaN is one value of each sign.)
    state = hashlib.sha256(json.dumps(others).encode())
    for relation in relations:
        columns = columns_of(cursor, relation, STAGE)
        if not all(tells_all(type_text) for _, type_text in columns):
            return None
        state.update(row_digests(cursor, relation, columns).encode())
    return state.hexdigest()


def _trees(cursor: duckdb.DuckDBPyConnection, policy: Policy) -> str | None:
    """Hash of the hierarchies; None if one cannot be read, and then the release reports the error."""
    names = sorted(set(hierarchy_names(policy)))
    files = [name for name in names if Path(name).is_file()]
    tables = [_tree(name) for name in names if name not in files]
    try:
        contents = [hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in files]
        return _digest(cursor, tables, *files, *contents)
    except (DuckanonError, OSError):
        return None


def _tree(name: str) -> str:
    return templates.render("relation.sql.j2:file", name=name, form=None).strip()


def _settings(cursor: duckdb.DuckDBPyConnection) -> str:
    """Every setting of the session: any of them may change the rows of a view, or the partition."""
    return json.dumps(engine.rows(cursor, templates.render("session.sql.j2:settings"), STAGE), default=str)


def _rows(cursor: duckdb.DuckDBPyConnection, function: str, source: str, policy: Policy) -> Handover:
    query = templates.render("relation.sql.j2:rows", relation=source)
    if function == "equivalence_classes":
        return unpublished.equivalence_classes(cursor, query, policy)
    return unpublished.released_rows(cursor, query, policy)


def _reading(name: str, slot: Slot, relation: str) -> str:
    """SELECT of the rows of a slot; it fails if the name means another relation to the caller."""
    try:
        parts = parse_name(relation)
        plain = parts.name if parts.schema is None else relation
    except PolicyError:
        plain = relation
    rows = templates.render("handover/reading.sql.j2", columns=slot.columns, relation=name)
    return templates.render(
        "functions/rows.sql.j2:slot", rows=rows, names=sorted({relation, plain}), relation=relation
    )


def given_options(options: str) -> dict[str, Any]:
    """Options by name in the JSON of a table function call, without `LEFT_OUT` values and empty lists."""
    # NULL is an error: a threshold from a subquery without a row must not be lost.
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
