"""The counts of all subsets by GROUPING SETS, the one text of an audit that a template makes, on other engines."""

from __future__ import annotations

import os
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
import sqlglot

from duckanon.audits.portable import audit_sql
from duckanon.database import templates
from tests.engines import postgres, spark
from tests.engines.relations import Job, Relation, on_duckdb
from tests.sql.gates import runs_in_1_2_2

if TYPE_CHECKING:
    from pathlib import Path

    from duckanon.audits.portable import Engine

KEYS = Relation(
    "distinct_key",
    {"qi_1": "VARCHAR", "qi_2": "BIGINT", "qi_3": "BIGINT", "records": "BIGINT"},
    [("a", 1, None, 3), ("a", 1, 7, 1), (None, 1, 7, 2), (None, None, None, 1)],
)
# By hand; a subset is the sum of 1, 2 and 4 over the columns that it lacks: 4 is (1, 2), 2 is (1, 3), 1 is (2, 3).
ROWS = [(1, 1, 3, 7), (2, 1, 4, 7), (4, 1, 3, 7)]


def jobs(engine: Engine) -> Job:
    text = templates.render("audit_bind/subset_class.sql.j2", width=3, sets=list(combinations((1, 2, 3), 2)))
    if engine == "spark":
        text = sqlglot.transpile(text, read="duckdb", write="spark")[0]
    views = {"distinct_key": KEYS.select(engine), "subset_class": text}
    return Job(views, audit_sql("k_anonymity_subset", engine))


def found(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    columns = ("subset", "k", "classes", "records")
    return sorted(tuple(int(str(row[column])) for column in columns) for row in rows)


def test_duckdb_of_today_and_1_2(tmp_path: Path) -> None:
    (answer,) = on_duckdb([jobs("duckdb")])
    assert found(answer.rows) == ROWS
    job = jobs("duckdb")
    made = "".join(f"CREATE VIEW {name} AS {text};\n" for name, text in job.views.items())
    shown = "SELECT string_agg(subset || ' ' || k || ' ' || classes || ' ' || records, '; ' ORDER BY subset)"
    question = f"{shown} FROM ({job.query.split('SELECT', 1)[1].join(['SELECT', ''])})"
    assert runs_in_1_2_2(tmp_path, [(":memory:", False, made + question)]) == ["1 1 3 7; 2 1 4 7; 4 1 3 7"]


@pytest.mark.slow
def test_postgres() -> None:
    programs = postgres.find()
    if programs is None or (os.geteuid() == 0 and postgres.other_user() is None):
        pytest.skip(postgres.MISSING)
    with postgres.Postgres(programs) as running:
        (answer,) = running.ask([jobs("postgres")])
    assert answer.error is None, answer.error
    assert found(answer.rows) == ROWS


@pytest.mark.slow
def test_spark() -> None:
    python = spark.find()
    if python is None or not spark.java_is_there():
        pytest.skip(spark.MISSING)
    with spark.Spark(python) as running:
        (answer,) = running.ask([jobs("spark")])
    assert answer.error is None, answer.error
    assert found(answer.rows) == ROWS
