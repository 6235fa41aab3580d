"""A policy bound to columns: kinds from DuckDB's own DESCRIBE, rules by hand."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from duckanon.database.templates import ident
from duckanon.errors import PolicyError
from duckanon.policy.bind import Attribute, Role, bind, bind_audit
from duckanon.policy.policy import AuditPolicy, Policy

if TYPE_CHECKING:
    import duckdb

KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "integer"),
    **dict.fromkeys(("DECIMAL", "DECIMAL(9)", "DECIMAL(9, 2)", "NUMERIC(38, 10)"), "decimal"),
    **dict.fromkeys(("FLOAT", "REAL", "DOUBLE"), "float"),
    **dict.fromkeys(
        ("TIMESTAMP", "DATETIME", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"), "timestamp"
    ),
    **dict.fromkeys(("VARCHAR", "TEXT", "VARCHAR(5)", "VARCHAR COLLATE NOCASE", "UUID", "JSON"), "text"),
    **dict.fromkeys(("ENUM('a', 'b')", "ENUM(')', ']', 'it''s[]')", "mood"), "text"),
    "price": "decimal",
    "DATE": "date",
    "BOOLEAN": "boolean",
}
"""Types in which a quasi-identifier can be recoded."""

UNSUPPORTED = {
    "INTEGER[]": "its elements as columns",
    "INTEGER[3]": "its elements as columns",
    "DECIMAL(9, 2)[]": "its elements as columns",
    "mood[]": "its elements as columns",
    "STRUCT(a INTEGER)": "its fields as columns",
    "MAP(INTEGER, VARCHAR)": "CAST it to VARCHAR",
    "UNION(a INTEGER, b VARCHAR)": "CAST it to VARCHAR",
    "BLOB": "CAST it to VARCHAR",
    "BIT": "CAST it to VARCHAR",
    "INTERVAL": "epoch(...)",
    "TIME": "epoch(...)",
    "TIMETZ": "epoch(...)",
    "TIME_NS": "epoch(...)",
    "TIMESTAMPTZ_NS": "CAST it to TIMESTAMP WITH TIME ZONE",
    "BIGNUM": "CAST it to DOUBLE",
    "VARIANT": "CAST it to VARCHAR",
}
"""Types of DuckDB in which it cannot, and what the error advises."""


def described(con: duckdb.DuckDBPyConnection, *types: str) -> list[tuple[str, str]]:
    """Return name and type of the columns c0, c1, ... of a table, as DuckDB describes them."""
    con.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    con.execute("CREATE TYPE price AS DECIMAL(5, 2)")
    columns = ", ".join(f"{ident(f'c{number}')} {duckdb_type}" for number, duckdb_type in enumerate(types))
    con.execute(f"CREATE TABLE described ({columns})")
    return [(row[0], row[1]) for row in con.execute("DESCRIBE described").fetchall()]


def bound(columns: dict[str, str], **options: Any) -> dict[str, Attribute]:
    """Return the attributes of columns by name, under a policy with these options."""
    attributes = bind(Policy(**{"k": 2} | options), list(columns.items()))
    assert [attribute.name for attribute in attributes] == list(columns)
    return {attribute.name: attribute for attribute in attributes}


def test_every_type_has_its_kind(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """Integers, DECIMAL, floats, dates, timestamps, BOOLEAN and text, named types included."""
    columns = described(fresh_db, *KINDS)
    attributes = bind(Policy(quasi_identifiers=[name for name, _ in columns], k=2), columns)
    assert [attribute.kind for attribute in attributes] == list(KINDS.values())
    assert [(attribute.name, attribute.type) for attribute in attributes] == columns


def test_defaults_follow_the_kind(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """Numbers, dates and timestamps: mean and ordered; text and booleans: mode and equal."""
    columns = described(fresh_db, *KINDS)
    names = [name for name, _ in columns]
    quasi = bind(Policy(quasi_identifiers=names, k=2), columns)
    sensitive = bind(Policy(quasi_identifiers="q", sensitive=names, k=2, t=0.1), [("q", "DATE"), *columns])[
        1:
    ]
    for kind, one, other in zip(KINDS.values(), quasi, sensitive, strict=True):
        plain = kind in {"text", "boolean"}
        assert (one.role, one.recode, one.distance, one.weight) == (
            Role.QUASI_IDENTIFIER,
            "mode" if plain else "mean",
            None,
            1.0,
        )
        assert (other.role, other.recode, other.distance, other.t, other.l) == (
            Role.SENSITIVE,
            None,
            "equal" if plain else "ordered",
            Decimal("0.1"),
            None,
        )


@pytest.mark.parametrize(("duckdb_type", "advice"), UNSUPPORTED.items())
def test_unsupported_type_is_an_error(
    duckdb_type: str, advice: str, fresh_db: duckdb.DuckDBPyConnection
) -> None:
    """The error names column, type and a way out; other roles take any type that holds no ENUM inside."""
    columns = described(fresh_db, duckdb_type)
    with pytest.raises(PolicyError) as wrong:
        bind(Policy(quasi_identifiers="c0", k=2), columns)
    assert str(wrong.value).startswith(
        f"quasi-identifier 'c0' has type {columns[0][1]}, which cannot be recoded: "
    )
    assert advice in str(wrong.value)
    wider = [("q", "DATE"), *columns]
    if duckdb_type == "mood[]":
        with pytest.raises(PolicyError, match="holds an ENUM inside"):
            bind(Policy(quasi_identifiers="q", sensitive="c0", k=2), wider)
        return
    other = bind(Policy(quasi_identifiers="q", sensitive="c0", k=2), wider)[1]
    assert other.distance == ("ordered" if duckdb_type in {"TIMESTAMPTZ_NS", "BIGNUM"} else "equal")


def test_column_without_type_is_an_error(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """A column that is NULL throughout may have no type."""
    fresh_db.execute("CREATE TABLE t AS SELECT NULL AS a")
    columns = [(row[0], row[1]) for row in fresh_db.execute("DESCRIBE t").fetchall()]
    with pytest.raises(PolicyError, match="CAST it to the type that it should have"):
        bind(Policy(quasi_identifiers="a", k=2), columns)


def test_rules_of_each_column_are_found_in_any_case() -> None:
    """By hand; names are spelled as in the source."""
    columns = {
        "Age": "INTEGER",
        "ZIP": "VARCHAR",
        "Charge": "DOUBLE",
        "diag": "VARCHAR",
        "id": "UUID",
        "x": "BLOB",
    }
    found = bound(
        columns,
        quasi_identifiers=["zip", "AGE"],
        sensitive=["DIAG", "charge"],
        identifiers="ID",
        insensitive="X",
        recode={"age": "median", "zip": "set"},
        weights={"zip": 2},
        t={"CHARGE": "0.15"},
        l={"diag": 3},
        distance={"Diag": "hierarchical"},
        hierarchies={"dIAG": "icd"},
    )
    assert list(found.values()) == [
        Attribute("Age", Role.QUASI_IDENTIFIER, "INTEGER", "integer", recode="median"),
        Attribute("ZIP", Role.QUASI_IDENTIFIER, "VARCHAR", "text", recode="set", weight=2.0),
        Attribute("Charge", Role.SENSITIVE, "DOUBLE", "float", distance="ordered", t=Decimal("0.15")),
        Attribute(
            "diag", Role.SENSITIVE, "VARCHAR", "text", distance="hierarchical", hierarchy="icd", l=Decimal(3)
        ),
        Attribute("id", Role.IDENTIFIER, "UUID", "text"),
        Attribute("x", Role.INSENSITIVE, "BLOB", "other"),
    ]
    roles = ["identifier", "subject", "class", "quasi_identifier", "sensitive", "insensitive"]
    assert [role.value for role in Role] == roles


def test_star_takes_the_rest() -> None:
    """`insensitive = *` is every column not named elsewhere."""
    columns = {"a": "DATE", "b": "DATE", "c": "DATE", "d": "DATE"}
    found = bound(columns, quasi_identifiers="B", identifiers="d", insensitive="*")
    assert [attribute.role.value for attribute in found.values()] == [
        *("insensitive", "quasi_identifier", "insensitive", "identifier")
    ]


WRONG: list[tuple[dict[str, str], dict[str, Any], str]] = [
    (
        {"a": "DATE", "b": "DATE", "c x": "DATE"},
        {"quasi_identifiers": "a"},
        "no role for 'b', 'c x': give each a role, or add insensitive = *",
    ),
    (
        {"age": "DATE"},
        {"quasi_identifiers": "aeg"},
        "quasi_identifiers names 'aeg', which the source does not have, did you mean 'age'?",
    ),
    (
        {"age, zip": "DATE", "b": "DATE"},
        {"quasi_identifiers": ["ZIP", "b"]},
        "names 'ZIP', which the source does not have; 'age, zip' is one name in double quotes. Columns: 'age, zip', 'b'",
    ),
    (
        {"a": "DATE"},
        {"quasi_identifiers": "a", "sensitive": "wage"},
        "sensitive names 'wage', which the source does not have: Columns: 'a'",
    ),
    ({"a": "DATE"}, {"quasi_identifiers": "a", "identifiers": "b"}, "identifiers names 'b'"),
    ({"a": "DATE"}, {"quasi_identifiers": "a", "insensitive": "b"}, "insensitive names 'b'"),
    (
        {"a": "DATE", "A": "DATE"},
        {"quasi_identifiers": "a"},
        "the source has column 'A' twice: rename one with AS",
    ),
    ({"é": "DATE"}, {"quasi_identifiers": "É"}, "quasi_identifiers names 'É'"),
    (
        {"a": "VARCHAR"},
        {"quasi_identifiers": "a", "recode": {"a": "mean"}},
        "recode of 'a' cannot be 'mean', which is for numbers",
    ),
    (
        {"a": "BOOLEAN"},
        {"quasi_identifiers": "a", "recode": {"a": "median"}},
        "use 'mode' or 'set' for BOOLEAN",
    ),
    ({"a": "UUID"}, {"quasi_identifiers": "a", "recode": {"a": "range"}}, "use 'mode' or 'set' for UUID"),
    (
        {"a": "BIGINT"},
        {"quasi_identifiers": "a", "order": {"a": ("1", "2")}},
        "order names 'a', which is BIGINT: an order is of text or of an ENUM",
    ),
    (
        {"a": "DATE", "m": "UUID"},
        {"quasi_identifiers": "a", "sensitive": "m", "order": {"m": ("x", "y")}},
        "order names 'm', which is UUID",
    ),
    (
        {"a": "VARCHAR"},
        {"quasi_identifiers": "a", "order": {"a": ("x", "y")}, "recode": {"a": "mean"}},
        "use 'median' or 'mode' or 'range' or 'set' for VARCHAR",
    ),
]


@pytest.mark.parametrize(("columns", "options", "message"), WRONG)
def test_policy_that_does_not_fit_the_source_is_an_error(
    columns: dict[str, str], options: dict[str, Any], message: str
) -> None:
    """By hand: the column, what is wrong with it, what would work."""
    with pytest.raises(PolicyError) as wrong:
        bound(columns, **options)
    assert message in str(wrong.value)


def test_audit_looks_at_named_columns_only() -> None:
    """Quasi-identifiers of any type, since nothing is recoded, and an ENUM in its own order."""
    columns = [
        ("s", "ENUM('x', 'y')"),
        ("q", "STRUCT(low INTEGER, high INTEGER)"),
        ("other", "BLOB"),
        ("n", "FLOAT"),
    ]
    policy = AuditPolicy(quasi_identifiers="Q", sensitive=["N", "S"], t={"n": 0.5}, distance={"s": "ordered"})
    assert bind_audit(policy, columns) == (
        Attribute("q", Role.QUASI_IDENTIFIER, "STRUCT(low INTEGER, high INTEGER)", "other"),
        Attribute("n", Role.SENSITIVE, "FLOAT", "float", distance="ordered", t=Decimal("0.5")),
        Attribute("s", Role.SENSITIVE, "ENUM('x', 'y')", "text", distance="ordered", order=("x", "y")),
    )
    with pytest.raises(PolicyError, match="sensitive names 'z', which the source does not have"):
        bind_audit(AuditPolicy(quasi_identifiers="q", sensitive="z"), columns)


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("UNION(one VARIANT, two INTEGER)", True),
        ("STRUCT(a INTEGER, b UNION(one STRUCT(v VARIANT), two INTEGER))[]", True),
        ("STRUCT(a UNION(one STRUCT(v BIGINT), two INTEGER), b VARIANT)", False),
        ('UNION("a VARIANT" INTEGER, two INTEGER)', False),
        ("VARIANT[]", False),
    ],
)
def test_a_variant_inside_a_union_is_refused(
    fresh_db: duckdb.DuckDBPyConnection, kind: str, refused: bool
) -> None:
    """DuckDB 2.0 reads memory that nobody wrote: the same rows end in one of several errors, or in none.

    It writes the name of a member without quotes where it is a word, so a member called VARIANT is refused, too.
    """
    columns = described(fresh_db, "INTEGER", kind)
    policy = Policy(quasi_identifiers="c0", insensitive="c1", k=2)
    if not refused:
        assert bind(policy, columns)[1].role is Role.INSENSITIVE
        return
    with pytest.raises(PolicyError, match="where a UNION holds a VARIANT; CAST it to VARCHAR"):
        bind(policy, columns)
    assert bind(Policy(quasi_identifiers="c0", identifiers="c1", k=2), columns)[0].name == "c0"
