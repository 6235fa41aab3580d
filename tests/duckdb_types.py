"""Values of every type that DuckDB has, and how rows are compared without the product: texts, JSON, bytes, types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    import duckdb

SCALARS: dict[str, tuple[str, list[str]]] = {
    "BOOLEAN": ("BOOLEAN", ["true", "false"]),
    "TINYINT": ("TINYINT", ["-128", "127", "0"]),
    "SMALLINT": ("SMALLINT", ["-32768", "32767"]),
    "INTEGER": ("INTEGER", ["-2147483648", "2147483647", "0"]),
    "BIGINT": ("BIGINT", ["-9223372036854775808", "9223372036854775807"]),
    "HUGEINT": (
        "HUGEINT",
        ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727", "0"],
    ),
    "UTINYINT": ("UTINYINT", ["255", "0"]),
    "USMALLINT": ("USMALLINT", ["65535"]),
    "UINTEGER": ("UINTEGER", ["4294967295"]),
    "UBIGINT": ("UBIGINT", ["18446744073709551615", "0"]),
    "UHUGEINT": ("UHUGEINT", ["340282366920938463463374607431768211455", "0"]),
    "BIGNUM": ("BIGNUM", ["123456789012345678901234567890123456789012345678901234567890", "-1", "0"]),
    "FLOAT": ("FLOAT", ["0", "-0.0", "nan", "-nan", "inf", "-inf", "3.4028235e38", "1e-45", "0.1"]),
    "DOUBLE": (
        "DOUBLE",
        ["0", "-0.0", "nan", "-nan", "inf", "-inf", "1.7976931348623157e308", "5e-324", "0.1"],
    ),
    "DECIMAL": ("DECIMAL(9,2)", ["-9999999.99", "0.01", "0"]),
    "VARCHAR": ("VARCHAR", ["", " ", "a", "NULL", "null", "O'Hare", 'say "x", y', "é", "e\u0301", "=1+1", "1", "a\nb", "日本"]),
    "BLOB": ("BLOB", ["", r"\x00", r"\xFF\xFE", "abc", r"\x22,\x0A"]),
    "BIT": ("BIT", ["0", "1", "010101", "0000000000000001"]),
    "UUID": ("UUID", ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]),
    "DATE": ("DATE", ["2000-02-29", "infinity", "-infinity", "5877642-06-25 (BC)", "5881580-07-10"]),
    "TIME": ("TIME", ["00:00:00", "24:00:00", "23:59:59.999999"]),
    "TIME_NS": ("TIME_NS", ["00:00:00", "23:59:59.999999999"]),
    "TIME WITH TIME ZONE": ("TIME WITH TIME ZONE", ["12:00:00+00", "12:00:00+05:30", "12:00:00-15:59:59", "24:00:00+15:59:59"]),
    "TIMESTAMP": ("TIMESTAMP", ["2000-01-01 00:00:00.000001", "infinity", "-infinity", "290309-12-22 (BC) 00:00:00"]),
    "TIMESTAMP_S": ("TIMESTAMP_S", ["2000-01-01 00:00:01", "1969-12-31 23:59:59", "infinity"]),
    "TIMESTAMP_MS": ("TIMESTAMP_MS", ["2000-01-01 00:00:00.001", "-infinity"]),
    "TIMESTAMP_NS": ("TIMESTAMP_NS", ["2000-01-01 00:00:00.000000001", "infinity", "1677-09-22 00:00:00"]),
    "TIMESTAMP WITH TIME ZONE": ("TIMESTAMP WITH TIME ZONE", ["2000-01-01 00:00:00+00", "infinity", "-infinity", "2020-10-25 00:30:00+00"]),
    "TIMESTAMPTZ_NS": ("TIMESTAMPTZ_NS", ["2000-01-01 00:00:00.000000001+00", "2262-04-11 23:47:16+00"]),
    "INTERVAL": ("INTERVAL", ["1 month", "30 days", "24 hours", "1 day", "-3 days 4 microseconds", "0 days"]),
    "GEOMETRY": ("GEOMETRY", ["POINT(1 2)", "POINT EMPTY", "LINESTRING(0 0, 1 1)"]),
}  # fmt: skip
"""By logical type: the type as SQL has it, and texts that DuckDB casts to it; ties that differ, extremes, odd texts."""

NESTED = ("LIST", "ARRAY", "STRUCT", "MAP", "UNION", "TUPLE")
"""Logical types that hold others."""

OTHERS = ("ENUM", "VARIANT", "NULL")
"""Logical types with values of another kind: see `column`."""

NO_COLUMN = ("TYPE",)
"""Logical types of which DuckDB makes no column in a table."""


def logical_types(con: duckdb.DuckDBPyConnection) -> set[str]:
    """Give every logical type that this version of DuckDB has."""
    query = "SELECT DISTINCT logical_type FROM duckdb_types() WHERE database_name = 'system'"
    return {row[0] for row in con.execute(query).fetchall()}


def literal(text: str) -> str:
    """Give a text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def column(draw: random.Random, kind: str, size: int, *, depth: int = 1) -> tuple[str, list[str]]:
    """Give the type of a column of some logical type, and SQL expressions of its values, some of them NULL.

    Parameters
    ----------
    draw : Random
        Decides.
    kind : str
        The logical type.
    size : int
        Number of values.
    depth : int
        How many levels may nest.
    """
    if kind == "NULL":
        return '"NULL"', ["NULL"] * size
    if kind == "ENUM":
        return "ENUM('b', 'a', 'never')", [_null_or(draw, draw.choice(["'a'", "'b'"])) for _ in range(size)]
    if kind == "JSON":
        texts = ['{"a": 1}', "[1, null]", '"x"', "1.0", "null"]
        return "JSON", [_null_or(draw, literal(draw.choice(texts))) for _ in range(size)]
    if kind == "VARIANT":
        return "VARIANT", [_null_or(draw, _variant(draw)) for _ in range(size)]
    if kind in SCALARS:
        type_text, texts = SCALARS[kind]
        return type_text, [
            _null_or(draw, f"CAST({literal(draw.choice(texts))} AS {type_text})") for _ in range(size)
        ]
    inner = [k for k in (*SCALARS, "JSON", "VARIANT") if k != "GEOMETRY"] + (
        list(NESTED) if depth > 0 else []
    )
    many = 3 * size
    first, ones = column(draw, draw.choice(inner), many, depth=depth - 1)
    second, twos = column(draw, draw.choice(inner), many, depth=depth - 1)
    return _nested(draw, kind, size, first, ones, second, twos)


def _nested(
    draw: random.Random, kind: str, size: int, first: str, ones: list[str], second: str, twos: list[str]
) -> tuple[str, list[str]]:
    if kind == "LIST":
        type_text = f"{first}[]"
        made = [f"[{', '.join(ones[: draw.randrange(4)])}]" for _ in range(size)]
    elif kind == "ARRAY":
        type_text = f"{first}[2]"
        made = [f"[{draw.choice(ones)}, {draw.choice(ones)}]" for _ in range(size)]
    elif kind == "STRUCT":
        type_text = f'STRUCT("x y" {first}, b {second})'
        made = [f"{{'x y': {draw.choice(ones)}, 'b': {draw.choice(twos)}}}" for _ in range(size)]
    elif kind == "TUPLE":
        type_text = f"TUPLE({first}, {second})"
        made = [f"row({draw.choice(ones)}, {draw.choice(twos)})" for _ in range(size)]
    elif kind == "MAP":
        # A key is one value by equality, and never NULL.
        type_text = f"MAP(VARCHAR, {second})"
        made = [f"MAP {{'k': {draw.choice(twos)}, '': {draw.choice(twos)}}}" for _ in range(size)]
    else:
        type_text = f"UNION(one {first}, two {second})"
        made = [
            f"union_value(one := CAST({draw.choice(ones)} AS {first}))"
            if draw.random() < 0.5
            else f"union_value(two := CAST({draw.choice(twos)} AS {second}))"
            for _ in range(size)
        ]
    return type_text, [_null_or(draw, f"CAST({value} AS {type_text})") for value in made]


def _variant(draw: random.Random) -> str:
    kind = draw.choice(["INTEGER", "VARCHAR", "DOUBLE", "BOOLEAN", "TINYINT"])
    type_text, texts = SCALARS[kind]
    return f"CAST(CAST({literal(draw.choice(texts))} AS {type_text}) AS VARIANT)"


def _null_or(draw: random.Random, value: str) -> str:
    return "NULL" if draw.random() < 0.15 else value


def seen(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[str] | None = None
) -> tuple[Any, Any]:
    """Give names and types of columns, and every row as type, text, JSON and bytes of each value, sorted.

    Not with what the product compares by: no hash, and each value tells its own type.
    """
    described = [row[:2] for row in con.execute(f"DESCRIBE FROM {relation}").fetchall()]
    chosen = [row for row in described if columns is None or row[0] in columns]
    parts = []
    for name, type_text in chosen:
        value = '"' + name.replace('"', '""') + '"'
        own = f"variant_typeof({value})" if type_text == "VARIANT" else "NULL"
        data = f"encode(CAST({value} AS VARCHAR))"
        parts += [f"typeof({value})", own, f"CAST({value} AS VARCHAR)", f"hex({data})"]
        parts += [] if "GEOMETRY" in type_text else [f"CAST(to_json({value}) AS VARCHAR)"]
    rows = con.execute(f"SELECT {', '.join(parts)} FROM {relation}").fetchall()
    return chosen, sorted(rows, key=repr)
