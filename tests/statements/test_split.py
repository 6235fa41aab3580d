"""Cutting scripts: where DuckDB accepts a script, its own cuts (`extract_statements`) are the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.statements.tokens import BLANKS, Piece, Token, place_of, split, tokenize
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPTS = [
    ("", []),
    (" ;\n; ", []),
    ("-- nothing\n/* at all */", []),
    ("SELECT 1", [Piece("SELECT 1", 1, 1)]),
    ("SELECT 1;SELECT 2;", [Piece("SELECT 1", 1, 1), Piece("SELECT 2", 1, 10)]),
    ("\n  SELECT 1;\n\n\tSELECT\n2 ;", [Piece("SELECT 1", 2, 3), Piece("SELECT\n2", 4, 2)]),
    (
        "SELECT ';' ; -- a;b\nSELECT 2 -- c;",
        [Piece("SELECT ';'", 1, 1), Piece("-- a;b\nSELECT 2 -- c;", 1, 14)],
    ),
    ("SELECT 1; /* last ; */", [Piece("SELECT 1", 1, 1)]),
    ("SELECT 'é;ü'; ü", [Piece("SELECT 'é;ü'", 1, 1), Piece("ü", 1, 15)]),
    ("SELECT 'never closed; SELECT 2", [Piece("SELECT 'never closed; SELECT 2", 1, 1)]),
    ("\ufeffSELECT 1;\u00a0SELECT 2", [Piece("SELECT 1", 1, 2), Piece("SELECT 2", 1, 12)]),
    ("a\r\n;\r\nb", [Piece("a", 1, 1), Piece("b", 3, 1)]),
    ("SELECT 1 --a\r; SELECT 2", [Piece("SELECT 1 --a", 1, 1), Piece("SELECT 2", 1, 16)]),
]

ONE_STATEMENT = [
    "SELECT $$a;b$$",
    "SELECT $tag$ ; $$ ; $other$ ; $tag$",
    "SELECT $é_1$;$é_1$",
    "SELECT 1 AS a$b$, ';' AS c$b$",
    "SELECT /* a /* nested ; */ ; */ 1",
    "SELECT /*/ ; */ 1",
    "SELECT E'a\\';b', e'\\\\', E'it''s;'",
    "SELECT 'a\\' -- ;",
    "SELECT 'it''s;'",
    "SELECT 'a'\n'b;'",
    'SELECT 1 AS "with (", 2 AS "a"";b"',
    "SELECT 1_000, 1e-5, .5, 5. --1;\n+ 1, 0x1F",
    "SELECT '{}'::JSON->'a;', '{}'->>'$.b;'",
    "SELECT {a: 1, 'b;': [1, 2]}, MAP {'k;': 1}",
    "SELECT ?, ?2",
    "SELECT $1, $2",
    "SELECT $name, $nom",
    "SELECT a//b, @-1, 2**3, 'x' ~ ';', x[1:2] FROM t",
    "SELECT list_transform([1], lambda x: x + 1)",
    "CALL pragma_version(';')",
    "COPY t TO 'x;y.csv' (DELIMITER ';')",
    "SHOW TABLES",
    "PRAGMA version",
    "SET VARIABLE v = ';'",
    "CREATE MACRO f(a, b := ';') AS TABLE SELECT a, b",
    "COMMENT ON TABLE t IS ';'",
    "EXPLAIN ANALYZE SELECT ';'",
    "PIVOT t ON a USING sum(b)",
    'FROM t SELECT "a;"',
    "SELECT x'3B', b'0'",
    "SELECT U & ';'",
    "SELECT 😀, ünï FROM t /*+ hint; */",
]

FRAGMENTS = [
    *[
        "'",
        '"',
        "$$",
        "$a$",
        "$",
        "a",
        "e",
        "E'",
        "e'",
        "n'",
        "select 1",
        "select",
        "from t",
        ";",
        " ",
        "\n",
        "\r",
    ],
    *[
        "--",
        "/*",
        "*/",
        "/",
        "*",
        "\\",
        "'x'",
        '"y"',
        "1",
        "_",
        "é",
        "(",
        ")",
        "0x",
        "1e",
        "#",
        "@",
        "-",
        "?",
        ".5",
    ],
]
INSIDE = st.text(";'\"$-/*\\ae\né", max_size=6)
VALUES = st.one_of(
    INSIDE.map(lambda text: "'" + text.replace("'", "''") + "'"),
    INSIDE.map(lambda text: "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"),
    INSIDE.map(lambda text: f"$q${text}$q$"),
    INSIDE.filter(lambda text: "$" not in text).map(lambda text: f"$${text}$$"),
    INSIDE.map(lambda text: '1 AS "x' + text.replace('"', '""') + '"'),
    st.sampled_from(["1", "a$b$", "?", "$1", "1e5", ".5", "1_0", "a / 2", "- 1", "[1][1]", "typ"]),
)
BETWEEN = st.one_of(
    st.sampled_from([" ", "\n", "\t "]),
    INSIDE.map(lambda text: " --" + text.replace("\n", "") + "\n"),
    INSIDE.map(lambda text: " /*" + text.replace("*", "").replace("/", "") + "*/ "),
    INSIDE.map(lambda text: " /* /*" + text.replace("*", "").replace("/", "") + "*/ ; */ "),
)
SELECTS = st.tuples(BETWEEN, BETWEEN, VALUES, BETWEEN).map(lambda parts: "{}SELECT{}{}{}".format(*parts))


@pytest.mark.parametrize(("script", "pieces"), SCRIPTS)
def test_pieces_and_places(script: str, pieces: list[Piece]) -> None:
    """By hand: the text of each statement and where it begins."""
    assert list(split(script)) == pieces


@pytest.mark.parametrize("statement", ONE_STATEMENT)
def test_one_statement_is_one_piece(statement: str) -> None:
    """DuckDB takes each for one statement; between two others it stays in one piece, letter by letter."""
    assert len(duckdb.extract_statements(statement)) == 1
    texts = [piece.text for piece in split(f"BEGIN;\n{statement}\n;COMMIT")]
    assert texts == ["BEGIN", statement, "COMMIT"]


@settings(max_examples=examples(300))
@given(st.lists(SELECTS, min_size=1, max_size=4).map(";".join))
def test_cuts_are_those_of_duckdb(script: str) -> None:
    """Strings, names and comments of every kind, full of semicolons and quotes: DuckDB's cuts are ours."""
    assert_same_cuts(script, duckdb.extract_statements(script))


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=6).map(lambda parts: "select 1" + "".join(parts)))
def test_cuts_of_odd_text_are_those_of_duckdb(script: str) -> None:
    """Of text without sense DuckDB accepts some; what it accepts it cuts at the same places."""
    try:
        statements = duckdb.extract_statements(script)
    except duckdb.ParserException:
        return
    assert_same_cuts(script, statements)


def assert_same_cuts(script: str, statements: list[duckdb.Statement]) -> None:
    """Each piece alone must be for DuckDB the statement that it found at that place of the script."""
    pieces = split(script)
    assert len(pieces) == len(statements)
    for piece, statement in zip(pieces, statements, strict=True):
        (alone,) = duckdb.extract_statements(piece.text)
        assert any(framed(before, after) for before, after in cuts(statement.query, alone.query))


def cuts(text: str, part: str) -> Iterator[tuple[str, str]]:
    """Give what stands before and after a part of a text, for each place where it stands."""
    place = text.find(part)
    while place >= 0:
        yield text[:place], text[place + len(part) :]
        place = text.find(part, place + 1)


def framed(before: str, after: str) -> bool:
    """Whether a statement begins and ends there; from 2.0.1 on DuckDB keeps blanks and comments before it."""
    return not duckdb.extract_statements(before) and after.strip(BLANKS)[:1] in {"", ";"}


@given(st.text())
def test_any_text_can_be_cut(script: str) -> None:
    """Pieces stand at their places, in order; between them are blanks, comments and semicolons only."""
    at = 0
    for piece in split(script):
        begin = script.index(piece.text, at)
        while place_of(script, begin) != (piece.line, piece.column):
            begin = script.index(piece.text, begin + 1)
        between = [token.text for token in tokenize(script[at:begin])]
        assert set(between) <= {";"}
        at = begin + len(piece.text)


@given(st.text())
def test_tokens_cover_the_text(text: str) -> None:
    """Tokens stand in the text where they say, one behind the other; only blanks and comments lie between."""
    at = 0
    for token in tokenize(text):
        assert text[token.start : token.end] == token.text
        between = text[at : token.start].strip(BLANKS)
        assert not between or between.startswith(("--", "/*"))
        at = token.end


def test_script_runs_like_its_pieces(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """A script with comments, strings and definitions does in pieces what it does as a whole."""
    script = """
    CREATE TABLE t (a INTEGER, "b;" VARCHAR); -- a comment; with semicolon
    INSERT INTO t VALUES (1, ';'), (2, $$;'$$), (3, E'\\';'); /* and ; this */
    CREATE MACRO twice(x) AS x * 2;;
    SELECT sum(twice(a)) AS total, string_agg("b;", '|' ORDER BY a) FROM t -- last
    """
    for piece in split(script):
        result = fresh_db.execute(piece.text).fetchall()
    assert result == [(12, ";|;'|';")]


def test_the_tokens_of_duckdb_are_not_those_that_it_runs() -> None:
    """Why `tokenize` is our own: where this fails, `duckdb.tokenize` may have become good enough."""
    blank = "SELECT\u00a01"
    assert duckdb.sql(blank).fetchall() == [(1,)]
    assert [start for start, _ in duckdb.tokenize(blank)] == [0]
    assert list(tokenize(blank)) == [Token("word", "SELECT", 0), Token("number", "1", 7)]
    closed, open_ = "SELECT 'open'", "SELECT 'open"
    assert duckdb.tokenize(closed) == duckdb.tokenize(open_)
    assert [list(tokenize(text))[-1].kind for text in (closed, open_)] == ["string", "unterminated"]
