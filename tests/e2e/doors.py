"""Random tables over all types of DuckDB, and every way by which a release of them can leave."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from tests.duckdb_types import NESTED, OTHERS, SCALARS, column, literal, seen

if TYPE_CHECKING:
    import random
    from collections.abc import Collection
    from pathlib import Path

KINDS = (*SCALARS, "JSON", *NESTED, *OTHERS)

QUASI = {
    "TINYINT": ["1", "2", "127"],
    "BIGINT": ["-9223372036854775808", "5", "7"],
    "UBIGINT": ["18446744073709551615", "3"],
    "UHUGEINT": ["340282366920938463463374607431768211", "5"],
    "HUGEINT": ["-170141183460469231731687303715", "5"],
    "DECIMAL(38,10)": ["1.5", "-0.0000000001"],
    "FLOAT": ["0.1", "-0.0", "3"],
    "DOUBLE": ["0.1", "-0.0", "1e300"],
    "DATE": ["2000-01-01", "2000-01-04"],
    "TIMESTAMP_S": ["2000-01-01", "2000-01-04 01:02:03"],
    "TIMESTAMP_MS": ["2000-01-01", "2000-01-04 01:02:03.004"],
    "TIMESTAMP_NS": ["2000-01-01", "2000-01-04 01:02:03.000000004"],
    "TIMESTAMP": ["2000-01-01", "2000-01-04 01:02:03.000004"],
    "TIMESTAMP WITH TIME ZONE": ["2000-01-01 00:00:00+00", "2000-01-04 01:02:03+00"],
    "BOOLEAN": ["true", "false"],
    "VARCHAR": ["", "a", "NULL"],
    "UUID": ["00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "JSON": ['{"a": 1}', "null"],
}
"""Types and values of the quasi-identifier: its released values leave, too, some of them as STRUCT or LIST."""


@dataclass(frozen=True)
class Made:
    """A table p, its policy, and the columns that are released as they are."""

    types: dict[str, str]
    rows: list[list[str]]
    policy: duckanon.Policy

    def load(self, con: duckdb.DuckDBPyConnection) -> None:
        """Create the table."""
        names = ", ".join(f'"{name}"' for name in self.types)
        values = ", ".join(f"({', '.join(row)})" for row in self.rows)
        casts = ", ".join(
            "NULL" if kind == '"NULL"' else f'CAST("{name}" AS {kind})' for name, kind in self.types.items()
        )
        con.execute(f"CREATE TABLE p({names}) AS SELECT {casts} FROM (VALUES {values}) AS t({names})")

    @property
    def kept(self) -> list[str]:
        """Columns that are released as they are, but for an ENUM, which leaves as text."""
        return [name for name in self.types if name not in ("quasi", "id")]


def made(draw: random.Random, kinds: list[str]) -> Made:
    """Give a table with a quasi-identifier of some type and a column of each kind."""
    size = draw.randrange(4, 10)
    quasi = draw.choice(list(QUASI))
    values = [f"CAST({literal(draw.choice(QUASI[quasi]))} AS {quasi})" for _ in range(size)]
    types = {"id": "INTEGER", "quasi": quasi}
    columns = [[str(number) for number in range(size)], values]
    for number, kind in enumerate(kinds):
        type_text, texts = column(draw, kind, size)
        types[f"c{number}"] = type_text
        columns.append(texts)
    text = quasi in ("BOOLEAN", "VARCHAR", "UUID", "JSON")
    recode = draw.choice(["mode", "set"] if text else ["mean", "median", "mode", "range", "set"])
    policy = duckanon.Policy(
        quasi_identifiers="quasi", identifiers="id", insensitive="*", k=2, recode={"quasi": recode}, effort="fast"
    )  # fmt: skip
    return Made(types, [list(row) for row in zip(*columns, strict=True)], policy)


def call(function: str, policy: duckanon.Policy) -> str:
    """Give the call of a table function."""
    return (
        f"{function}('p', quasi_identifiers := ['quasi'], identifiers := ['id'], insensitive := '*', k := 2, "
        f"recode := {{'quasi': '{policy.recode['quasi']}'}}, effort := 'fast')"
    )


def arrow(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    """Give rows as Arrow with every type of DuckDB, as who has such a table would."""
    with con.cursor() as cursor:
        cursor.execute("SET SESSION arrow_lossless_conversion = true")
        return cursor.sql(query).to_arrow_table()


FILES = ("duckdb", "parquet", "csv")

REFUSED = {
    "function": {"UNION"},
    "table": {"UNION"},
    "duckdb": {"UNION", "TUPLE", "VARIANT"},
    "csv": {"UNION", "VARIANT", "NULL", "JSON"},
    "parquet": {
        "HUGEINT", "UHUGEINT", "BIGNUM", "BIT", "TIME WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS", "GEOMETRY",
        "UNION", "TUPLE", "NULL", "VARIANT", "INTERVAL", "ENUM", "[2]", "JSON",
    },
}  # fmt: skip
"""Types, as words of their text, that a way out may refuse by name. Arrow has no NULL of a UNION, a file of
STORAGE_VERSION v1.2.0 no TUPLE and no VARIANT, a CSV no JSON in a list that is NULL beside one that is null, and
Parquet no arrays, no interval below zero and few times."""


def as_released(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    columns: list[str],
    texts: tuple[str, ...] = ("ENUM", "UUID", "JSON"),
) -> tuple[Any, Any]:
    """Give columns of a source as a release has them: an ENUM, a UUID and a JSON are text there."""
    kinds = [row[:2] for row in con.execute(f"DESCRIBE FROM {relation}").fetchall() if row[0] in columns]
    casts = ", ".join(
        f'CAST("{name}" AS VARCHAR) AS "{name}"' if kind.startswith(texts) and not kind.endswith("]") else f'"{name}"'
        for name, kind in kinds
    )  # fmt: skip
    return seen(con, f"(SELECT {casts} FROM {relation})")


def without_empty_text(con: duckdb.DuckDBPyConnection, relation: str) -> tuple[Any, Any]:
    """Give rows in which the empty text is NULL, since a CSV has one of the two."""
    kinds = [row[:2] for row in con.execute(f"DESCRIBE FROM {relation}").fetchall()]
    merged = ", ".join(
        f"""nullif("{name}", CAST('' AS {kind})) AS "{name}\""""
        if kind in ("VARCHAR", "BLOB")
        else f'"{name}"'
        for name, kind in kinds
    )
    return seen(con, f"(SELECT {merged} FROM {relation})")


def held(con: duckdb.DuckDBPyConnection, file: Path) -> bool:
    """Whether a file holds the rows of the view v; a CSV has no types, so its reader gives those of the release."""
    if file.suffix == ".duckdb":
        with duckdb.connect(str(file), read_only=True) as reader:
            return seen(reader, "v") == seen(con, "v")
    if file.suffix == ".parquet":
        return seen(con, f"read_parquet('{file}')") == seen(con, "v")
    kinds = {name: kind for name, kind, *_ in con.execute("DESCRIBE FROM v").fetchall()}
    # No quasi-identifier of a source is a struct: this one is a range, which is a text of two ends in a CSV.
    span = kinds["quasi"] if kinds.get("quasi", "").startswith("STRUCT(low ") else None
    as_text = kinds | ({"quasi": "VARCHAR"} if span else {})
    types = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in as_text.items())
    reading = f"read_csv('{file}', header = true, auto_detect = false, delim = ',', quote = '\"', escape = '\"', columns = {{{types}}})"
    if span:
        ends = "string_split(quasi, CASE WHEN contains(quasi, ' to ') THEN ' to ' ELSE '-' END)"
        both = f"CASE WHEN quasi IS NOT NULL THEN CAST({{'low': {ends}[1], 'high': {ends}[2]}} AS {span}) END"
        reading = f"(SELECT * REPLACE ({both} AS quasi) FROM {reading})"
    return without_empty_text(con, reading) == without_empty_text(con, "v")


def require_told(refused: Exception, table: Made, door: str) -> None:
    """Fail unless an error names a column of the table, its type, and the way out, and may be one."""
    found = re.search(r"column '(\w+)' of type (.*?) (does not survive|would not leave)", str(refused))
    assert found is not None, refused
    name, kind = found[1], found[2]
    assert "CAST it to" in str(refused)
    assert any(word in kind for word in REFUSED[door]) or (
        # The dictionary of a Parquet file takes NaN of both signs for one value.
        door == "parquet" and re.search("DOUBLE|FLOAT", kind) and {"'nan'", "'-nan'"} <= quoted(table, name)
    ), (door, kind)
    assert name in table.types


def quoted(table: Made, name: str) -> set[str]:
    """Give the quoted words of the values of a column."""
    place = list(table.types).index(name)
    return {word for row in table.rows for word in re.findall(r"'[^']*'", row[place])}


def variant_in_union(type_text: str) -> bool:
    """Whether one of the parentheses around a VARIANT is that of a UNION; beside a UNION it can be released."""
    opened: list[str] = []
    before = ""
    for piece in re.findall(r'"(?:[^"]|"")*"|\w+|[()]', type_text):
        if piece == "(":
            opened.append(before)
        elif piece == ")":
            opened.pop()
        elif piece == "VARIANT" and "UNION" in opened:
            return True
        before = piece
    return False


def check(con: duckanon.Connection, table: Made, folder: Path, doors: Collection[str]) -> None:
    """Release a table through some ways out; what leaves each of them is what was audited, types and bytes."""
    db = con.duckdb
    db.execute("DROP TABLE IF EXISTS p")
    con.sql("DROP ANONYMIZED VIEW IF EXISTS v")
    table.load(db)
    if any(re.search(r"TUPLE\(.*\[2\].*\)", kind) for kind in table.types.values()):
        with pytest.raises(
            duckanon.DuckanonError, match="crashes when it groups a TUPLE that holds an array"
        ):
            duckanon.anonymize(con, "p", table.policy, name="v")
        return
    if any(variant_in_union(kind) for kind in table.types.values()):
        with pytest.raises(duckanon.PolicyError, match="where a UNION holds a VARIANT"):
            duckanon.anonymize(con, "p", table.policy, name="v")
        return
    duckanon.anonymize(con, "p", table.policy, name="v")
    view = seen(db, "v")
    assert seen(db, "v", table.kept) == as_released(db, "p", table.kept)
    for door in doors:
        try:
            if door == "function":
                db.execute(f"CREATE OR REPLACE TEMP TABLE f AS FROM {call('anonymize', table.policy)}")
                assert seen(db, "f") == view, door
                db.execute(
                    f"CREATE OR REPLACE TEMP TABLE f AS FROM {call('equivalence_classes', table.policy)}"
                )
                assert seen(db, "f", list(table.types)) == seen(db, "p"), door
            elif door == "table":
                given = arrow(db, "FROM p")
                with duckdb.connect() as other:
                    other.register("given", given)
                    other.register("back", duckanon.anonymize_table(given, table.policy))
                    # A table in memory keeps the types UUID and JSON.
                    assert seen(other, "back", table.kept) == as_released(
                        other, "given", table.kept, ("ENUM",)
                    ), door
                    assert as_released(other, "back", ["quasi"]) == seen(db, "v", ["quasi"]), door
            else:
                file = folder / f"r.{door}"
                file.unlink(missing_ok=True)
                con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
                assert held(db, file), door
        except (duckanon.DuckanonError, duckdb.Error) as refused:
            require_told(refused, table, door)
