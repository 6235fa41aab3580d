"""Any text as a name, a file or a statement: it survives, or it is refused; never anything else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.database.templates import ident, literal
from duckanon.errors import PolicyError, StatementError
from duckanon.statements.grammar import Audit, Create, Drop, Export
from duckanon.statements.parse import parse
from duckanon.statements.tokens import Piece, QualifiedName, parse_name, split
from tests.examples import examples

CREATE = "CREATE ANONYMIZED VIEW v AS"


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_any_quoted_name_survives(catalog: str, schema: str, view: str) -> None:
    """A name of any characters comes back from its quoted form, in each kind of statement."""
    expected = QualifiedName(catalog, schema, view)
    quoted = f"{ident(catalog)}.{ident(schema)}.{ident(view)}"
    for text in (
        f"DROP ANONYMIZED VIEW {quoted}",
        f"AUDIT VIEW {quoted}",
        f"{CREATE.replace(' v ', f' {quoted} ')} SELECT 1 WITH (k = 2)",
    ):
        (piece,) = split(text)
        statement = parse(piece)
        assert isinstance(statement, Drop | Audit | Create)
        assert statement.name == expected


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_name_alone_survives(schema: str, view: str) -> None:
    """The same for a name that is given from Python."""
    assert parse_name(f"{ident(schema)}.{ident(view)}") == QualifiedName(None, schema, view)
    assert parse_name(literal(view)) == QualifiedName(None, None, view)


@pytest.mark.parametrize(
    "text", ["", "a b", "a.", ".a", "a.b.c.d", "SELECT 1", "FROM t", "(SELECT 1)", '"a', "''"]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    """Queries and broken names are told from names."""
    with pytest.raises(PolicyError, match="is not a name"):
        parse_name(text)


@given(st.text(min_size=1))
def test_any_file_name_survives(path: str) -> None:
    """A path of any characters comes back from its literal."""
    assert parse(f"EXPORT ANONYMIZED VIEW v TO {literal(path)}") == Export(
        QualifiedName(None, None, "v"), path
    )
    assert parse(f"AUDIT TABLE {literal(path)}") == Audit("table", QualifiedName(None, None, path))


PARTS = [
    *[
        "CREATE",
        "OR REPLACE",
        "ANONYMIZED",
        "VIEW",
        "VIEWS",
        "AS",
        "SELECT",
        "WITH",
        "EXPLAIN",
        "REFRESH",
        "AUDIT",
    ],
    *[
        "TABLE",
        "SHOW",
        "EXPORT",
        "TO",
        "DROP",
        "IF EXISTS",
        "v",
        '"a""b"',
        "'x'",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
    ],
    *[
        "k",
        "=",
        "5",
        "0.15",
        "1e999999999999999999999",
        "9" * 70,
        ",",
        ":",
        "*",
        "-",
        ".",
        ";",
        "true",
        "E'x'",
    ],
    *["'", '"', "$$", "/*", "*/", "--", "\n", "quasi_identifiers", "t"],
]


@settings(max_examples=examples(400))
@given(st.lists(st.sampled_from(PARTS), max_size=30).map(" ".join) | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text does anything but be read, be left to DuckDB, or raise StatementError."""
    pieces: list[str | Piece] = [text, *split(text)]
    for piece in pieces:
        with contextlib.suppress(StatementError):
            parse(piece)


@settings(max_examples=examples(400))
@given(st.lists(st.sampled_from(PARTS), max_size=14).map(lambda parts: " ".join(["(", *parts, ")"])))
def test_any_options_are_read_or_refused(options: str) -> None:
    """The same behind the head of a statement, so that the options are reached."""
    with contextlib.suppress(StatementError):
        parse(f"{CREATE} SELECT 1 WITH {options}")
