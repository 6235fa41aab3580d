"""The audit of classes in parts, put together, is the audit of the whole table."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.audits.columns import AuditColumn
from duckanon.audits.portable import part_sql
from duckanon.audits.run import audit_sql
from duckanon.database import templates
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = st.lists(
    st.tuples(
        st.sampled_from([*range(8), None]),
        st.sampled_from([0.0, -0.0, 1.5, 2.5, float("nan"), float("inf"), None]),
        st.sampled_from(["a", "A", "b", "", None]),
    ),
    min_size=1,
    max_size=60,
)
COLUMNS = st.tuples(
    *(
        st.builds(
            AuditColumn,
            name=st.just(name),
            distance=st.sampled_from(["ordered", "equal"]),
            t=st.sampled_from([None, Decimal("0.2"), Decimal("0.5"), Decimal(1) / 3]),
            l=st.sampled_from([None, Decimal(2), Decimal("1.5")]),
            l_kind=st.sampled_from(["distinct", "entropy", "recursive"]),
            c=st.sampled_from([None, Decimal(2)]),
        )
        for name in ("pay", "ill")
    )
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@settings(max_examples=examples(200, 5))
@given(rows=ROWS, columns=COLUMNS, k=st.sampled_from([None, 2, 5]), parts=st.integers(1, 5))
def test_parts_together_are_the_whole(
    con: duckdb.DuckDBPyConnection,
    rows: list[tuple[int | None, float | None, str | None]],
    columns: tuple[AuditColumn, ...],
    k: int | None,
    parts: int,
) -> None:
    """Against the audit of the whole table, which tests/sql compares with an oracle and the definitions."""
    con.register(
        "given",
        pa.Table.from_pylist([dict(zip(("q", "pay", "ill"), row, strict=True)) for row in rows], SCHEMA),
    )
    con.execute("CREATE OR REPLACE TEMP TABLE whole AS SELECT * FROM given")
    for column in columns:
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE domain_{column.name} AS"
            f" SELECT {column.name} AS value, count(*) AS records FROM whole GROUP BY value"
        )
    con.execute(f"CREATE OR REPLACE TEMP TABLE told AS {EMPTY}")
    for number in range(parts):
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE part AS FROM whole WHERE coalesce(q, 8) % {parts} = {number}"
        )
        [(found,)] = con.execute("SELECT count(*) FROM part").fetchall()
        if found:
            text = part_sql("part", ["q"], columns, [f"domain_{one.name}" for one in columns], k=k)
            for place, row in enumerate(con.execute(text).fetchall()):
                con.execute("INSERT INTO told VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (found, place, *row))
    query = templates.render("spark.sql.j2:together", relation="told", records=len(rows))
    together = con.execute(query).fetchall()
    report = audit_sql(con, "whole", ["q"], columns, k=k, name="whole")
    assert {row[0] for row in together} == {len(rows)}
    assert [row[1:] for row in together] == [measure.row() for measure in report.measures]


SCHEMA = pa.schema([("q", pa.int32()), ("pay", pa.float64()), ("ill", pa.string())])
EMPTY = """
SELECT CAST(NULL AS BIGINT) AS found, 0 AS place, '' AS measure, '' AS attribute, CAST(0 AS DOUBLE) AS threshold,
    CAST(0 AS DOUBLE) AS value, CAST(0 AS BIGINT) AS classes, CAST(0 AS BIGINT) AS violations,
    CAST(0 AS BIGINT) AS records, TRUE AS passed
LIMIT 0
"""


def test_a_part_that_is_the_whole_table_needs_no_counts() -> None:
    columns = [AuditColumn("s", "ordered", t=Decimal("0.5"))]
    with duckdb.connect() as con:
        con.execute("CREATE TABLE part AS SELECT i % 3 AS q, i AS s FROM range(9) AS r(i)")
        found = con.execute(part_sql("part", ["q"], columns, [], k=3)).fetchall()
        report = audit_sql(con, "part", ["q"], columns, k=3, name="part")
    assert found == [measure.row() for measure in report.measures]
