"""Intake: Arrow tables of users, in types that DuckDB reads."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from duckanon.database import engine
from duckanon.errors import SourceError


def readable(table: pa.Table) -> pa.Table:
    """Rows in types that DuckDB reads: it has no half floats, and no nanoseconds in an INTERVAL."""
    for place, field in enumerate(table.schema):
        if field.type == pa.float16():
            instead = pa.float32()
        elif field.type == pa.duration("ns"):
            instead = pa.duration("us")
        else:
            continue
        try:
            table = table.set_column(place, pa.field(field.name, instead), table.column(place).cast(instead))
        except pa.ArrowInvalid as lost:
            raise SourceError(
                f"column {field.name!r} has type {field.type}, and DuckDB would lose digits of it: {lost}; "
                f"round it to {instead}"
            ) from lost
    return table


def register_source(con: duckdb.DuckDBPyConnection, source: pa.Table) -> None:
    """Let the connection read a table as ``source``; a SourceError says which column it cannot read."""
    try:
        con.register("source", source)
    except duckdb.Error as refused:
        for field in source.schema:
            try:
                con.register("source", source.select([field.name]))
            except duckdb.Error as cause:
                raise SourceError(
                    f"column {field.name!r} has type {field.type}, which DuckDB does not read: "
                    f"{engine.first_line(cause)}; cast it"
                ) from cause
        raise SourceError(f"the table cannot be read: {engine.first_line(refused)}") from refused
