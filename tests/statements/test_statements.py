"""Reading our statements: expected values by hand."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from duckanon.errors import StatementError
from duckanon.statements.grammar import Audit, Create, Drop, Explain, Export, Refresh, ShowViews, Statement
from duckanon.statements.options import options_to_audit, options_to_policy
from duckanon.statements.parse import parse
from duckanon.statements.tokens import Piece, QualifiedName, split

DOCS = Path(__file__).resolve().parents[2] / "docs"


def name(*parts: str) -> QualifiedName:
    """Return a name from its one to three parts."""
    catalog, schema, last = [None] * (3 - len(parts)) + list(parts)
    return QualifiedName(catalog, schema, str(last))


READ: list[tuple[str, Statement]] = [
    ("REFRESH ANONYMIZED VIEW v", Refresh(name("v"))),
    ("refresh Anonymized view S.V;", Refresh(name("S", "V"))),
    (
        '/* c */ -- d\n REFRESH ANONYMIZED VIEW /* e */ c . "s.x" . "a""b" -- f',
        Refresh(name("c", "s.x", 'a"b')),
    ),
    ("DROP ANONYMIZED VIEW v", Drop(name("v"))),
    ("DROP ANONYMIZED VIEW IF EXISTS v;;", Drop(name("v"), if_exists=True)),
    ("DROP ANONYMIZED VIEW if", Drop(name("if"))),
    ("SHOW ANONYMIZED VIEWS", ShowViews()),
    ("EXPORT ANONYMIZED VIEW v TO 'out/it''s.parquet'", Export(name("v"), "out/it's.parquet")),
    ("EXPORT ANONYMIZED VIEW v TO $$it's.csv$$", Export(name("v"), "it's.csv")),
    ("EXPLAIN ANONYMIZED VIEW main.v", Explain(name("main", "v"))),
    ("EXPLAIN ANONYMIZED VIEW v FRONTIER", Explain(name("v"), frontier=True)),
    ("explain anonymized view s.v fRontier;", Explain(name("s", "v"), frontier=True)),
    ("EXPLAIN ANONYMIZED VIEW frontier", Explain(name("frontier"))),
    ("EXPLAIN ANONYMIZED VIEW frontier /* c */ FRONTIER -- d", Explain(name("frontier"), frontier=True)),
    ("AUDIT VIEW v", Audit("view", name("v"))),
    ("AUDIT TABLE ünï.😀", Audit("table", name("ünï", "😀"))),
    ("AUDIT TABLE 'x y.parquet'", Audit("table", name("x y.parquet"))),
    ("AUDIT VIEW anonymized", Audit("view", name("anonymized"))),
]

NOT_OURS = [
    "",
    "-- CREATE ANONYMIZED VIEW",
    "SELECT 1",
    "CREATE VIEW anonymized AS SELECT 1",
    "CREATE OR REPLACE VIEW v AS SELECT 'ANONYMIZED VIEW'",
    'CREATE "ANONYMIZED" VIEW v AS SELECT 1 WITH (k = 5)',
    "CREATE TEMP VIEW v AS SELECT 1",
    "SHOW anonymized",
    "SHOW anonymized.views",
    'SHOW "ANONYMIZED" VIEWS',
    "DESCRIBE anonymized",
    "DROP VIEW anonymized",
    "EXPLAIN SELECT * FROM anonymized",
    "EXPLAIN CREATE VIEW anonymized AS SELECT 1",
    "EXPLAIN ANALYZE SELECT 1",
    "EXPORT DATABASE 'anonymized'",
    "FROM audit",
    "SELECT 'never closed",
]

# What DuckDB refuses in any case, and was meant for us: each names the keyword and where it stands.
MISSPELT = [
    ("CREATE ANONYMISED VIEW v AS SELECT 1 WITH (k = 5)", "write CREATE ANONYMIZED VIEW", 8),
    ("create or replace anonymised view v AS SELECT 1", "write CREATE OR REPLACE ANONYMIZED VIEW", 19),
    ("CREATE ANONYMOUS VIEW v AS SELECT 1", "write CREATE ANONYMIZED VIEW", 8),
    ("ANONYMIZE TABLE v", "write CREATE ANONYMIZED VIEW", 1),
    ("ANONYMOUS VIEW v AS SELECT 1", "write CREATE ANONYMIZED VIEW", 1),
    ("REFRESH ANONYMISED VIEW v", "write REFRESH ANONYMIZED VIEW", 9),
    ("DROP ANONIMIZED VIEW v", "write DROP ANONYMIZED VIEW", 6),
    ("EXPORT ANONYMISED VIEW v TO 'f.csv'", "write EXPORT ANONYMIZED VIEW", 8),
    ("SHOW ANONYMISED VIEWS", "write SHOW ANONYMIZED VIEWS", 6),
    ("EXPLAIN CREATE ANONYMISED VIEW v AS SELECT 1", "write EXPLAIN CREATE ANONYMIZED VIEW", 16),
    ("CREATE VIEW ANONYMIZED v AS SELECT 1", "write CREATE ANONYMIZED VIEW name AS query", 13),
    ("CREATE VIEW a.v ANONYMIZED AS SELECT 1", "write CREATE ANONYMIZED VIEW name AS query", 17),
    ("CREATE VIEW v AS FROM t WITH (k = 5, quasi_identifiers = a)", "write CREATE ANONYMIZED VIEW", 8),
    ("CREATE TABLE v AS FROM t WITH (quasi_identifiers = (a), k = 5)", "write CREATE ANONYMIZED VIEW", 8),
    ("CREATE ANONYMIZED TABLE v AS SELECT 1", "a release is always a view", 19),
]

# The same words where they are names: DuckDB parses all of these.
NAMED_LIKE_US = [
    "CREATE VIEW anonymised AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW anonymized(a) AS SELECT 1",
    "CREATE VIEW anonymized.main AS SELECT 1",
    "CREATE TABLE anonymized (quasi_identifiers INTEGER)",
    "CREATE TABLE anonymous AS SELECT 1 AS quasi_identifiers WHERE (quasi_identifiers = 1)",
    "CREATE VIEW v AS WITH x AS (SELECT 1 AS quasi_identifiers) FROM x WHERE quasi_identifiers = 1",
    "CREATE VIEW IF NOT EXISTS anonymised AS SELECT 1",
    "DROP TABLE anonymised",
    "DROP VIEW IF EXISTS anonymous",
    "SHOW anonymised",
    "SELECT anonymise FROM anonymous AS view",
    "FROM anonymise",
    "EXPLAIN FROM anonymised",
    "ALTER TABLE anonymised RENAME TO anonymous",
]

CREATE = "CREATE ANONYMIZED VIEW v AS"
WRONG = [
    (
        "CREATE ANONYMIZED TABLE v AS SELECT 1 WITH (k = 5)",
        "expected VIEW after ANONYMIZED, found 'TABLE'",
        19,
    ),
    ("CREATE ANONYMIZED", "expected VIEW after ANONYMIZED, found the end", 18),
    ("CREATE TEMP ANONYMIZED VIEW v AS SELECT 1", "never temporary, leave out TEMP", 8),
    ("CREATE ANONYMIZED VIEW AS SELECT 1 WITH (k = 5)", "expected a name, found 'AS'", 24),
    ('CREATE ANONYMIZED VIEW "" AS SELECT 1 WITH (k = 5)', "a name is empty", 24),
    ("CREATE ANONYMIZED VIEW 'v' AS SELECT 1 WITH (k = 5)", "expected a name", 24),
    ("CREATE ANONYMIZED VIEW a.b.c.d AS SELECT 1 WITH (k = 5)", "at most three parts", 32),
    ("CREATE ANONYMIZED VIEW v SELECT 1 WITH (k = 5)", "expected AS after the name of the view", 26),
    ("CREATE ANONYMIZED VIEW IF NOT EXISTS v AS SELECT 1", "WITH (...) is missing at the end", 51),
    ("CREATE ANONYMIZED VIEW IF EXISTS v AS SELECT 1", "expected AS after the name of the view", 27),
    (
        "CREATE OR REPLACE ANONYMIZED VIEW IF NOT EXISTS v AS SELECT 1 WITH (k = 5)",
        "OR REPLACE and IF NOT EXISTS contradict each other",
        35,
    ),
    (f"{CREATE} SELECT 1", "WITH (...) is missing at the end", 37),
    (f"{CREATE} SELECT (SELECT 1 WITH (k = 5))", "WITH (...) is missing at the end", 59),
    (f"{CREATE} WITH (k = 5)", "the source query between AS and WITH is missing", 29),
    (f"{CREATE} SELECT 1 WITH (k = 5) LIMIT 1", "expected the end of the statement, found 'LIMIT'", 51),
    (f"{CREATE} SELECT 1 WITH (k = 5))", "expected the end of the statement, found ')'", 50),
    (f"{CREATE} SELECT 1 WITH (k = 5) (x)", "expected the end of the statement, found '('", 51),
    (f"{CREATE} SELECT (1 WITH (k = 5)", "this parenthesis is never closed", 36),
    (f"{CREATE} SELECT 1 WITH (k = 5", "this parenthesis is never closed", 43),
    (f"{CREATE} SELECT 'x WITH (k = 5)", "never closed", 36),
    (f"{CREATE} SELECT /* x WITH (k = 5)", "never closed", 36),
    ("EXPLAIN ANONYMIZED v", "expected VIEW", 20),
    ("EXPLAIN CREATE ANONYMIZED VIEW v AS SELECT 1", "WITH (...) is missing", 45),
    ("EXPLAIN ANONYMIZED VIEW v FRONTIER now", "expected the end of the statement, found 'now'", 36),
    ("EXPLAIN ANONYMIZED VIEW v FRONTIER FRONTIER", "expected the end of the statement", 36),
    ('EXPLAIN ANONYMIZED VIEW v "FRONTIER"', "expected the end of the statement", 27),
    (f"EXPLAIN {CREATE} SELECT 1 WITH (k = 5) FRONTIER (t)", "the end of the statement, found '('", 68),
    (f"EXPLAIN {CREATE} SELECT 1 FRONTIER WITH (k = 5) x", "the end of the statement, found 'x'", 68),
    (f"{CREATE} SELECT 1 WITH (k = 5) FRONTIER", "the end of the statement, found 'FRONTIER'", 51),
    ("REFRESH ANONYMIZED VIEW v FRONTIER", "expected the end of the statement, found 'FRONTIER'", 27),
    ("REFRESH ANONYMIZED VIEW", "expected a name, found the end of the statement", 24),
    ("REFRESH ANONYMIZED VIEW v now", "expected the end of the statement, found 'now'", 27),
    ("AUDIT", "expected VIEW name or TABLE name after AUDIT", 6),
    ("AUDIT v", "expected VIEW name or TABLE name after AUDIT", 7),
    ("AUDIT VIEW 'v'", "expected a name", 12),
    ("AUDIT VIEW v WITH k = 5", "expected ( after WITH", 19),
    ("AUDIT TABLE ''", "the name of a file", 13),
    ("AUDIT TABLE E'x'", "the name of a file", 13),
    ("SHOW ANONYMIZED TABLES", "expected VIEWS after SHOW ANONYMIZED", 17),
    ("EXPORT ANONYMIZED VIEW v", "expected TO 'file' after the name of the view", 25),
    ("EXPORT ANONYMIZED VIEW v TO x", "the name of a file", 29),
    ("DROP ANONYMIZED VIEW IF EXISTS", "expected a name", 31),
    ("DROP ANONYMIZED VIEW v, w", "expected the end of the statement, found ','", 23),
]

QUERIES = [
    "SELECT 1 AS a",
    "FROM range(3)",
    "FROM range(3) SELECT range AS a -- with (comment)\n",
    "TABLE src",
    "VALUES (1, ')'), (2, '(')",
    "(SELECT 1) UNION ALL (SELECT 2) ORDER BY 1 LIMIT 1",
    "WITH x AS (SELECT 1 AS a), y AS MATERIALIZED (SELECT 2 AS b) SELECT * FROM x, y",
    "WITH RECURSIVE u(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM u WHERE i < 3) FROM u",
    'WITH "with (" AS (SELECT 1 AS "a)") SELECT "a)" AS "WITH (k = 5)" FROM "with ("',
    "SELECT * FROM (WITH x AS (SELECT 1) FROM x)",
    "SELECT $$ WITH (k = 5) $$ AS a, $t$ ' \" $t$ AS b, 'WITH (' AS c, E'\\' WITH (' AS d",
    "SELECT /* WITH (k = 5) /* nested */ ( */ 1 AS a -- (\n",
    "SELECT x FROM unnest([1, 2]) WITH ORDINALITY AS t(x, o)",
    "PIVOT src ON a USING count(*)",
    "UNPIVOT src ON a, b INTO NAME n VALUE v",
    "DESCRIBE src",
    "SUMMARIZE src",
    "SHOW TABLES",
    "SELECT {a: 1, b: [1, (2)]}, MAP {'k': 1}, (1, 2)",
    "SELECT * EXCLUDE (a) REPLACE (b + 1 AS b) FROM src",
    "SELECT a, sum(b) OVER (PARTITION BY a) AS s FROM src QUALIFY s > 0",
    "SELECT list_filter([1, 2], lambda x: x > 1)",
    'SELECT count(*) FILTER (WHERE a > 0) AS "as" FROM src',
    "SELECT 1 AS a$b$, 2 AS c$b$",
    "SELECT 1 AS with_, 2 AS ünï, 3 AS 😀",
]
"""Source queries that DuckDB accepts after CREATE TABLE ... AS; `test_source_query_is_accepted` shows it."""


@pytest.mark.parametrize(("text", "statement"), READ)
def test_statement_is_read(text: str, statement: Statement) -> None:
    """By hand."""
    assert parse(text) == statement


@pytest.mark.parametrize("text", NOT_OURS)
def test_other_statements_are_left_to_duckdb(text: str) -> None:
    """What does not begin with our keywords is not read at all."""
    assert parse(text) is None


def test_create_is_read() -> None:
    """By hand: name, query as written, options in order with their places."""
    head = 'create or replace Anonymized VIEW s."my view" as\n  '
    text = head + "SELECT a /* with (x) */\n  FROM t with (k = 5,\nT = 0.15);"
    statement = parse(text)
    assert isinstance(statement, Create)
    assert statement.name == name("s", "my view")
    assert statement.query == "SELECT a /* with (x) */\n  FROM t "
    assert (statement.or_replace, statement.if_not_exists) == (True, False)
    assert [(o.name, o.line, o.column) for o in statement.options.values()] == [("k", 3, 16), ("t", 4, 1)]


def test_if_not_exists_is_read_and_if_stays_a_name() -> None:
    """By hand: IF alone is a name, as it is for DROP."""
    read = parse("create anonymized view If Not exists s.v AS SELECT 1 WITH (k = 5)")
    assert isinstance(read, Create)
    assert (read.name, read.if_not_exists, read.or_replace) == (name("s", "v"), True, False)
    plain = parse("CREATE ANONYMIZED VIEW if AS SELECT 1 WITH (k = 5)")
    assert isinstance(plain, Create)
    assert (plain.name, plain.if_not_exists) == (name("if"), False)


def test_explain_create_is_read() -> None:
    """EXPLAIN holds the statement that it explains."""
    create = f"{CREATE} SELECT 1 WITH (k = 5)"
    read = parse(f"EXPLAIN\n{create}")
    assert isinstance(read, Explain)
    assert isinstance(read.create, Create)
    assert (read.create.query, read.create.name, read.name) == ("SELECT 1 ", name("v"), name("v"))
    assert isinstance(parse(f"EXPLAIN {create.replace('CREATE', 'CREATE OR REPLACE')}"), Explain)


@pytest.mark.parametrize("keyword", ["FRONTIER", "frontier", "FrontieR;", "-- c\n frontier /* d */"])
def test_frontier_is_read_after_the_options(keyword: str) -> None:
    """By hand: the word ends the statement in any case; before WITH it belongs to the query."""
    read = parse(f"EXPLAIN {CREATE} SELECT 1 WITH (k = 5) {keyword}")
    assert isinstance(read, Explain)
    assert read.create is not None
    assert (read.frontier, read.create.query, list(read.create.options)) == (True, "SELECT 1 ", ["k"])
    plain = parse(f"EXPLAIN {CREATE} SELECT 1 AS frontier WITH (k = 5)")
    assert isinstance(plain, Explain)
    assert not plain.frontier


def test_audit_options_are_read() -> None:
    """WITH is optional for AUDIT, also after a file."""
    read = parse("AUDIT TABLE 'x.csv' WITH (quasi_identifiers = (age), k = 2)")
    assert isinstance(read, Audit)
    assert list(read.options) == ["quasi_identifiers", "k"]


@pytest.mark.parametrize(("text", "message", "column"), MISSPELT)
def test_a_misspelt_keyword_is_named(text: str, message: str, column: int) -> None:
    """DuckDB refuses the statement, so that no statement of its own can be meant."""
    with pytest.raises(duckdb.ParserException):
        duckdb.extract_statements(text)
    with pytest.raises(StatementError) as wrong:
        parse(text)
    assert message in str(wrong.value)
    assert (wrong.value.line, wrong.value.column) == (1, column)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("text", NAMED_LIKE_US)
def test_a_name_like_our_keyword_is_left_to_duckdb(text: str) -> None:
    """DuckDB is asked whether it reads them."""
    assert len(duckdb.extract_statements(text)) == 1
    assert parse(text) is None


@pytest.mark.parametrize(("text", "message", "column"), WRONG)
def test_wrong_statement_is_an_error_with_its_place(text: str, message: str, column: int) -> None:
    """By hand: what is wrong and where, alone and after a statement of two lines in a script."""
    with pytest.raises(StatementError) as alone:
        parse(text)
    assert message in str(alone.value)
    assert (alone.value.line, alone.value.column) == (1, column)
    with pytest.raises(StatementError) as second:
        parse(split(f"SELECT\n1; {text}")[1])
    assert (second.value.line, second.value.column) == (2, column + 3)
    assert str(second.value).endswith(f"(line 2, column {column + 3})")


@pytest.mark.parametrize("query", QUERIES)
def test_source_query_is_accepted(query: str, fresh_db: duckdb.DuckDBPyConnection) -> None:
    """The text before the last WITH ( is the query letter by letter, and DuckDB makes a table of it."""
    (piece,) = split(f"{CREATE} {query} WITH (k = 5, quasi_identifiers = (a)) ;")
    statement = parse(piece)
    assert isinstance(statement, Create)
    assert statement.query == f"{query} "
    assert list(statement.options) == ["k", "quasi_identifiers"]
    fresh_db.execute("CREATE TABLE src AS SELECT 1 AS a, 2 AS b")
    fresh_db.execute(f"CREATE TEMP TABLE raw AS\n{statement.query}")


@pytest.mark.parametrize("text", [text for text, _ in READ] + [f"{CREATE} {q} WITH (k = 5)" for q in QUERIES])
def test_duckdb_accepts_none_of_our_statements(text: str) -> None:
    """Nothing that DuckDB can run is taken from it."""
    with pytest.raises(duckdb.ParserException):
        duckdb.extract_statements(text)


@pytest.mark.parametrize("page", ["statements.md", "options.md"])
def test_documented_statements_are_read(page: str) -> None:
    """Every statement of the SQL examples is one of ours, with options that make a policy."""
    scripts = re.findall(r"```sql\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    statements = [parse(piece) for script in scripts for piece in split(script)]
    assert len(statements) >= 2
    for statement in statements:
        assert statement is not None
        if isinstance(statement, Create):
            options_to_policy(statement.options)
        if isinstance(statement, Audit) and statement.kind == "table":
            options_to_audit(statement.options)


def test_long_statement_is_cut_in_linear_time() -> None:
    """A source query of two hundred thousand tokens: quadratic work would take minutes."""
    query = "SELECT " + ", ".join(["(1)"] * 50_000)
    statement = parse(Piece(f"{CREATE} {query} WITH (k = 5)", 1, 1))
    assert isinstance(statement, Create)
    assert statement.query == f"{query} "
