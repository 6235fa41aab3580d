"""The portable part of SQL: every audit can be written for every engine, and nothing is lost on the way."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError

from duckanon.audits import headers
from duckanon.audits.portable import DIFFERENCES, ENGINES, _wide_place, audit_file, audit_names, audit_sql
from duckanon.database import templates
from duckanon.errors import PolicyError
from tests.engines.docs import PAGE, ROOT

if TYPE_CHECKING:
    from duckanon.audits.portable import Engine

OTHERS = tuple(engine for engine in ENGINES if engine != "duckdb")
on_each = pytest.mark.parametrize(
    ("audit", "engine"), [(audit, engine) for audit in audit_names() for engine in OTHERS]
)


def refused(audit: str, engine: Engine) -> bool:
    """Tell whether sqlglot alone says that it cannot write an audit for an engine."""
    text = templates.read(audit_file(audit, engine))
    try:
        sqlglot.transpile(text, read="duckdb", write=engine, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError:
        return True
    return False


@on_each
def test_what_does_not_carry_over_is_in_the_table(audit: str, engine: Engine) -> None:
    assert refused(audit, engine) == ((audit, engine) in DIFFERENCES)


def test_the_table_names_what_is_there() -> None:
    assert {*DIFFERENCES} <= {(audit, engine) for audit in audit_names() for engine in OTHERS}


@on_each
def test_the_text_reads_back_as_the_same_query(audit: str, engine: Engine) -> None:
    """Orders say the same of NULL, no type is left that only DuckDB has, names and relations are the same."""
    texts = {"duckdb": templates.read(audit_file(audit, engine)), engine: audit_sql(audit, engine)}
    ours, theirs = (
        sqlglot.parse_one(text, read=name, error_level=ErrorLevel.RAISE) for name, text in texts.items()
    )
    assert isinstance(ours, exp.Query)
    assert isinstance(theirs, exp.Query)
    # Depth first: a CAST around a window does not change the order of what is in it.
    orders = [[places(order) for order in q.find_all(exp.Ordered, bfs=False)] for q in (ours, theirs)]
    assert orders[0] == orders[1]
    assert not [kind for kind in theirs.find_all(exp.DataType) if kind.this is exp.DataType.Type.INT128]
    assert ours.named_selects == theirs.named_selects
    for kind in (exp.CTE, exp.Join, exp.Window, exp.WindowSpec, exp.Distinct):
        assert len([*ours.find_all(kind)]) == len([*theirs.find_all(kind)]), kind
    tables = [sorted(table.name for table in query.find_all(exp.Table)) for query in (ours, theirs)]
    assert tables[0] == tables[1]


def places(order: exp.Ordered) -> tuple[str, bool, bool]:
    return order.this.name, bool(order.args.get("desc")), bool(order.args.get("nulls_first"))


@on_each
def test_the_text_keeps_its_header_and_says_what_differs(audit: str, engine: Engine) -> None:
    head = [line for line in audit_sql(audit, engine).splitlines() if line.startswith("--")]
    file = [line for line in templates.read(audit_file(audit, engine)).splitlines() if line.startswith("--")]
    note = DIFFERENCES.get((audit, engine))
    assert head[: len(file)] == file
    assert head[len(file) :] == [
        f"-- engine: {engine}; HUGEINT is DECIMAL(38, 0)",
        *([f"-- differs: {note}"] if note else []),
    ]


def test_a_text_of_its_own_is_of_an_audit_and_an_engine_and_says_of_itself_what_the_other_says() -> None:
    fast = templates.folder() / "audit" / "fast"
    folders = {path.name for path in fast.iterdir() if path.is_dir()}
    assert folders == {"spark", "few_values"}
    own = [path.stem for path in (fast / "spark").iterdir()]
    assert sorted(own) == ["nt_closeness_ordered", "t_closeness_ordered"]
    for audit in own:
        assert audit_file(audit, "spark") == f"audit/fast/spark/{audit}.sql"
        assert audit_file(audit, "postgres") == audit_file(audit, "duckdb") == f"audit/fast/{audit}.sql"
        heads = [headers.entries(audit_sql(audit, engine)) for engine in ("duckdb", "spark")]
        assert all(heads[1][key] == text for key, text in heads[0].items())


def test_ranks_are_wide_on_spark() -> None:
    """There they are INT, and so is a product of two of them."""
    queries = [sqlglot.parse_one(audit_sql(audit, "spark"), read="spark") for audit in audit_names()]
    windows = [window for query in queries for window in query.find_all(exp.Window)]
    places = [one for one in windows if isinstance(one.this, exp.RowNumber | exp.Rank | exp.DenseRank)]
    assert places
    narrow = [
        one for one in places if not isinstance(one.parent, exp.Cast) or not one.parent.is_type("BIGINT")
    ]
    assert not narrow


@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
def test_a_rank_is_widened_where_it_is_made(function: str) -> None:
    query = sqlglot.parse_one(
        f"SELECT {function}() OVER (ORDER BY a NULLS LAST) * 2 AS b FROM t", read="duckdb"
    )
    wide = query.transform(_wide_place).sql("spark", normalize_functions="lower")
    assert wide == f"SELECT CAST({function}() OVER (ORDER BY a NULLS LAST) AS BIGINT) * 2 AS b FROM t"


def test_for_duckdb_it_is_the_file() -> None:
    assert all(audit_sql(audit) == templates.read(audit_file(audit)) for audit in audit_names())


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(PolicyError, match="there is no audit 'k_anonimity': did you mean 'k_anonymity'"):
        audit_sql("k_anonimity")
    with pytest.raises(PolicyError, match="there is no engine 'oracle': there are duckdb, postgres, spark"):
        audit_sql("k_anonymity", "oracle")  # type: ignore[arg-type]  # what a user might type


def test_sqlite_turns_wide_integers_into_doubles() -> None:
    """docs/engines.md says so: that is why SQLite is no engine here."""
    with closing(sqlite3.connect(":memory:")) as con:
        assert con.execute("SELECT typeof(9223372036854775807 * 10)").fetchone() == ("real",)


def test_the_page_tells_every_difference_and_its_links_lead_somewhere() -> None:
    plain = " ".join(PAGE.split()).replace("`", "")
    assert all(f"{audit}: {note}" in plain for (audit, _), note in DIFFERENCES.items())
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if "://" not in link]
    assert links
    assert all((ROOT / "docs" / link).exists() for link in links), links
    assert max(len(line) for line in PAGE.splitlines() if not line.startswith("|")) <= 120
