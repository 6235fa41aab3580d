"""What is asked of every other engine: the rows that were reckoned by hand, and the rows of DuckDB."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import sqlglot

from duckanon.audits.headers import audit_file
from duckanon.audits.portable import audit_sql
from duckanon.database import templates
from tests.engines.relations import Answer, Job, Relation, on_duckdb, relations_of
from tests.engines.same import assert_same
from tests.engines.worlds import DERIVED, EVEN_TEXT, World, at_a_class, job
from tests.trust.direct import CASES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.portable import Engine

DISTANCES = DERIVED["class_emd"]
WIDE = 10**24
EMD = {
    "class": "BIGINT", "class_size": "BIGINT", "emd_numerator": "HUGEINT", "emd_denominator": "HUGEINT", "emd": "DOUBLE",
}  # fmt: skip
TYPES = {
    "BIGINT": "bigint", "BOOLEAN": "boolean", "DOUBLE": "double", "HUGEINT": "decimal(38,0)", "INTEGER": "int",
    "MAP(BIGINT, DOUBLE)": "map<bigint,double>", "VARCHAR": "string", '"NULL"': "void",
}  # fmt: skip
"""Types of DuckDB, and what is the same on Spark."""
KEYS = [
    (30, "x", 1), (30, "x", 2), (30, None, 2), (30, None, None), (None, None, 1), (None, None, None), (None, "x", 3),
]  # fmt: skip


class Running(Protocol):
    """An engine that runs."""

    def ask(self, jobs: Sequence[Job]) -> list[Answer]: ...


def assert_by_hand(name: Engine, engine: Running, audit: str) -> None:
    """Assert that the engine gives the rows of tests/trust/direct.py."""
    cases = CASES[audit]
    views = [{r.name: r.select(name) for r in relations_of(case.relations)} for case in cases]
    answers = engine.ask([Job(made, audit_sql(audit, name)) for made in views])
    for case, answer in zip(cases, answers, strict=True):
        columns = case.columns.split(", ")
        wanted = [dict(zip(columns, row, strict=True)) for row in case.rows]
        assert answer.error is None, answer.error
        assert all(row.keys() == set(columns) for row in answer.rows)
        assert_same([{column: row[column] for column in columns} for row in answer.rows], wanted)


def assert_as_duckdb(name: Engine, engine: Running, world: World, audit: str) -> None:
    """Assert that the engine gives the rows of DuckDB."""
    (wanted,) = on_duckdb([job(world, audit, "duckdb")])
    (found,) = engine.ask([job(world, audit, name)])
    assert found.error is None, found.error
    assert_same(found.rows, wanted.rows)


def types_on_spark(engine: Running, world: World, audit: str) -> dict[str, str]:
    """Give the types of the columns of an audit."""
    (answer,) = engine.ask([job(world, audit, "spark", f"DESCRIBE QUERY {audit_sql(audit, 'spark')}")])
    assert answer.error is None, answer.error
    return {row["col_name"]: row["data_type"] for row in answer.rows}


def types_on_duckdb(world: World, audit: str) -> dict[str, str]:
    """Give the types of the columns of an audit, in the words of Spark."""
    (answer,) = on_duckdb([job(world, audit, "duckdb", f"DESCRIBE {audit_sql(audit)}")])
    return {row["column_name"]: TYPES[row["column_type"]] for row in answer.rows}


def assert_exact_at_t(name: Engine, engine: Running, distance: str) -> None:
    """Assert that a class at t passes and that it fails with t a step lower; by fractions."""
    even = EVEN_TEXT._replace(makers={**EVEN_TEXT.makers, "class_emd": distance})
    (emds,) = on_duckdb([job(even, distance, "duckdb")])
    at, below = at_a_class(even), at_a_class(even, -1)
    t = Fraction(at.relations["threshold"].rows[0][3])
    far = {row["class"]: Fraction(row["emd_numerator"], row["emd_denominator"]) for row in emds.rows}
    assert t in far.values()
    answers = engine.ask([job(world, "verdict_t_closeness", name) for world in (at, below)])
    for answer, limit in zip(answers, (t, t - Fraction(1, 10**12)), strict=True):
        assert answer.error is None, answer.error
        assert {row["class"]: row["violated"] for row in answer.rows} == {
            c: emd > limit for c, emd in far.items()
        }


def wide_verdict(name: Engine, numerator: int, t: str) -> Job:
    """Give a verdict on one class whose distance is a number of 10^-24."""
    emd = Relation("class_emd", EMD, [(1, 1, numerator, WIDE, numerator / WIDE)])
    limit = Relation("threshold", {"t": "DECIMAL(18,12)"}, [(Decimal(t),)])
    made = {relation.name: relation.select(name) for relation in (emd, limit)}
    return Job(made, audit_sql("verdict_t_closeness", name))


def assert_wide_integers_are_exact(name: Engine, engine: Running) -> None:
    """Assert it by hand: 10^24 / 4, and one more, is above a quarter by 10^-24; products have 36 digits."""
    jobs = [wide_verdict(name, WIDE // 4 + more, "0.25") for more in (0, 1)]
    assert [answer.rows[0]["violated"] for answer in engine.ask(jobs)] == [False, True]


def assert_composite_keys(name: Engine, engine: Running, key: str) -> None:
    """Assert that classes of two columns with NULL are told apart as DuckDB does it."""
    for audit in ("l_diversity_recursive", "t_closeness_ordered", "t_closeness_equal"):
        (wanted,) = on_duckdb([keyed("duckdb", "{'a': age, 'b': sex}", audit)])
        (found,) = engine.ask([keyed(name, key, audit)])
        assert found.error is None, found.error
        # The class itself has another form, so integers of the four classes are compared.
        lines = [sorted(integers(row) for row in answer.rows) for answer in (found, wanted)]
        assert len(lines[1]) == 4
        assert lines[0] == lines[1]


def assert_odd_doubles(name: Engine, engine: Running) -> None:
    """Assert that NaN is one value, the last before NULL, and that -0.0 is 0.0.

    By hand: six values (-inf, 0, 0.1, inf, NaN, NULL), so 5 steps; classes of 3, 3, 4 records hold three each.
    """
    nan, inf = float("nan"), float("inf")
    rows = [
        (1, nan),
        (1, 0.0),
        (1, None),
        (2, -0.0),
        (2, nan),
        (2, inf),
        (3, 0.0),
        (3, -0.0),
        (3, -inf),
        (3, 0.1),
    ]
    members = Relation("class_member", {"class": "BIGINT", "value": "DOUBLE"}, rows)
    for audit, column, numbers in (
        ("l_diversity", "distinct_l", [3, 3, 3]),
        ("t_closeness_ordered", "emd_denominator", [3 * 10 * 5, 3 * 10 * 5, 4 * 10 * 5]),
        ("t_closeness_equal", "emd_denominator", [2 * 3 * 10, 2 * 3 * 10, 2 * 4 * 10]),
    ):
        jobs = [Job({"class_member": members.select(d)}, audit_sql(audit, d)) for d in ("duckdb", name)]
        (wanted,), (found,) = on_duckdb(jobs[:1]), engine.ask(jobs[1:])
        assert found.error is None, found.error
        assert sorted(row[column] for row in found.rows) == numbers
        assert_same(found.rows, wanted.rows)


def keyed(name: Engine, key: str, audit: str) -> Job:
    """Give an audit of classes that are made of two columns."""
    record = Relation("record", {"age": "BIGINT", "sex": "VARCHAR", "value": "BIGINT"}, KEYS)
    limit = Relation("threshold", {"c": "HUGEINT"}, [(15 * 10**11,)])
    views = {relation.name: relation.select(name) for relation in (record, limit)}
    views["class_member"] = f"SELECT {key} AS class, value FROM record"
    return Job(views, audit_sql(audit, name))


def integers(row: dict[str, Any]) -> list[int]:
    """Give what a row counts."""
    return [value for name, value in row.items() if name not in {"class", "emd"}]


def as_sqlglot_has_it(audit: str, name: Engine) -> str:
    """Give an audit as sqlglot alone writes it."""
    return sqlglot.transpile(templates.read(audit_file(audit)), read="duckdb", write=name)[0]


def error_of_plain(name: Engine, engine: Running, audit: str) -> str:
    """Give the error that sqlglot's text of an audit meets."""
    (answer,) = engine.ask([job(EVEN_TEXT, audit, name, as_sqlglot_has_it(audit, name))])
    return answer.error or ""
