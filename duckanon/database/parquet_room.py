"""Bytes of a Parquet file of a release outside its records: bytes of no column, and words in the footer.

No query reads these bytes. Page headers and unknown fields of the footer are not checked.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from duckanon.database import engine, templates
from duckanon.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import duckdb

_MAGIC, _TAIL = 4, 8
"""Bytes before the first column, and behind the footer."""

_WRITER = re.compile(r"[A-Za-z0-9 ._()+:-]{1,100}")
_VERSION = re.compile(r"[0-9][A-Za-z0-9._-]{0,39}")
_TYPE = re.compile(r"[a-z_]+(\([0-9, ]+\))?")

SPARK_VERSION = "org.apache.spark.version"
SPARK_COLUMNS = "org.apache.spark.sql.parquet.row.metadata"


def records(con: duckdb.DuckDBPyConnection, path: Path, stage: str) -> int:
    """Number of records that the footer of a file states."""
    return int(_facts(con, path, stage)[1])


def beside(
    con: duckdb.DuckDBPyConnection, path: Path, columns: Sequence[str], stage: str, *, ours: str | None = None
) -> Iterator[str]:
    """Tell what a file with these columns holds that Spark, or EXPORT with its key `ours`, does not write."""
    writer, _, footer, size = _facts(con, path, stage)
    free = _free(con, path, size - _TAIL - footer, stage)
    if free:
        yield f"it holds {free} bytes that belong to no column"
    if not _WRITER.fullmatch(writer or ""):
        yield "the name of the program that wrote it is none"
    query = templates.render("evidence/parquet.sql.j2:parquet_words", path=path)
    for key, value in engine.rows(con, query, stage, error=SourceError):
        name = bytes(key).decode("utf-8", "replace")
        if name != ours if ours else not _expected(name, bytes(value), columns):
            writer = "EXPORT" if ours else "Spark"
            yield f"its footer has {name[:80]!r}, {len(value)} bytes, which {writer} does not write like this"


def _facts(con: duckdb.DuckDBPyConnection, path: Path, stage: str) -> tuple[Any, ...]:
    query = templates.render("evidence/parquet.sql.j2:parquet_facts", path=path)
    (facts,) = engine.rows(con, query, stage, error=SourceError)
    return facts


def _free(con: duckdb.DuckDBPyConnection, path: Path, end: int, stage: str) -> int:
    """Bytes before the footer outside every column, index and filter."""
    query = templates.render("evidence/parquet.sql.j2:parquet_room", path=path)
    free, at = 0, _MAGIC
    for first, length in engine.rows(con, query, stage, error=SourceError):
        free += max(0, first - at)
        at = max(at, first + length)
    return int(free + max(0, end - at))


def _expected(name: str, value: bytes, columns: Sequence[str]) -> bool:
    """Whether Spark writes an entry of the footer for columns without metadata."""
    try:
        text = value.decode("utf-8")
        if name == SPARK_VERSION:
            return _VERSION.fullmatch(text) is not None
        return name == SPARK_COLUMNS and _bare(json.loads(text), text, columns)
    except ValueError:
        return False


def _bare(schema: Any, text: str, columns: Sequence[str]) -> bool:
    """Whether a schema of Spark has names and types of the columns and nothing else."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list) or schema != {"type": "struct", "fields": fields}:
        return False
    names = [field.get("name") for field in fields if isinstance(field, dict)]
    shortest = len(json.dumps(schema, separators=(",", ":"), ensure_ascii=False))
    return (
        names == list(columns)
        and len(names) == len(fields)
        and len(text) <= shortest
        and all(
            field == {"name": field["name"], "type": field.get("type"), "nullable": True, "metadata": {}}
            and isinstance(field["type"], str)
            and _TYPE.fullmatch(field["type"])
            for field in fields
        )
    )
