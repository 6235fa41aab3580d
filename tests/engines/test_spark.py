"""Every audit on Apache Spark: the rows reckoned by hand, and those of DuckDB."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from duckanon.audits.portable import audit_names, audit_sql
from tests.engines import agreement, spark
from tests.engines.docs import blocks, lines, run_shell
from tests.engines.large import cases, large
from tests.engines.relations import Relation, on_duckdb
from tests.engines.same import assert_same
from tests.engines.worlds import DERIVED, DOUBLES, WORLDS, job, reads, world
from tests.examples import some
from tests.trust.direct import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines.worlds import World

pytestmark = pytest.mark.slow

# Spark plans for some tenths of a second whatever the rows are, and longer where an audit reads the rows of another.
# So these see fewer worlds here than on PostgreSQL.
HERE = [
    (audit, world)
    for audit in audit_names()
    for world in ("text", "many", "classes of one, of NULL")
    if world != "classes of one, of NULL" or not DERIVED.keys() & {*reads(audit)}
]


ORDERED = ("t_closeness_ordered", "nt_closeness_ordered")
# What one task does alone, whatever the number of rows: a window over all of them, or all of them brought together.
# To bring together the sums of the tasks, one row each, is no such thing.
ALONE = """
from pyspark.sql import SparkSession

def nodes(plan):
    yield plan
    for place in range(plan.children().size()):
        yield from nodes(plan.children().apply(place))

spark = SparkSession.builder.getOrCreate()
for name, select in {views!r}:
    spark.sql("CREATE OR REPLACE TEMP VIEW " + name + " AS " + select)
for node in nodes(spark.sql({query!r})._jdf.queryExecution().executedPlan()):
    if node.nodeName() == "Window" and node.partitionSpec().isEmpty():
        print("Window", node.orderSpec().toString())
    if node.nodeName() == "Exchange" and node.outputPartitioning().toString() == "SinglePartition":
        if not (node.child().nodeName() == "HashAggregate" and node.child().groupingExpressions().isEmpty()):
            print("Exchange", node.child().nodeName())
    if node.nodeName() == "CartesianProduct":
        print("CartesianProduct")
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[spark.Spark]:
    python = spark.find()
    if python is None:
        pytest.skip(spark.MISSING)
    if not spark.java_is_there():
        pytest.skip(spark.NO_JAVA)
    with spark.Spark(python) as running:
        yield running


@pytest.mark.parametrize("audit", CASES)
def test_rows_reckoned_by_hand(engine: spark.Spark, audit: str) -> None:
    agreement.assert_by_hand("spark", engine, audit)


@pytest.mark.parametrize(("audit", "world"), some(HERE, one_of=2))
def test_rows_of_duckdb(engine: spark.Spark, audit: str, world: str) -> None:
    if WORLDS[world].text and audit in DOUBLES:
        world = "ties"
    agreement.assert_as_duckdb("spark", engine, WORLDS[world], audit)


@pytest.mark.parametrize(("audit", "world"), [*cases()])
def test_rows_of_duckdb_from_100000_records(engine: spark.Spark, audit: str, world: World) -> None:
    agreement.assert_as_duckdb("spark", engine, world, audit)


@pytest.mark.parametrize("audit", audit_names())
def test_columns_are_as_wide_as_those_of_duckdb(engine: spark.Spark, audit: str) -> None:
    """What another audit multiplies: an INT in the place of a BIGINT is an overflow in a larger table."""
    found = agreement.types_on_spark(engine, WORLDS["ties"], audit)
    wanted = agreement.types_on_duckdb(WORLDS["ties"], audit)
    if audit == "dominance":
        # The sum of the contributions: docs/engines.md says that BIGINT stays BIGINT.
        assert (found.pop("total"), wanted.pop("total")) == ("bigint", "decimal(38,0)")
    assert found == wanted


def test_ranks_as_sqlglot_has_them_are_too_narrow(engine: spark.Spark) -> None:
    """Why they are cast: 100,000 times 100,000 is above 2^31."""
    plain = agreement.as_sqlglot_has_it("t_closeness_ordered", "spark").replace("INT128", "DECIMAL(38, 0)")
    (answer,) = engine.ask([job(large(), "t_closeness_ordered", "spark", plain)])
    assert "ARITHMETIC_OVERFLOW" in (answer.error or "")


def alone(engine: spark.Spark, audit: str, query: str) -> list[str]:
    """Give what one task does alone in a query in place of an audit."""
    made = job(large(), audit, "spark", query)
    return engine.run(ALONE.format(views=[*made.views.items()], query=made.query)).splitlines()


@pytest.mark.parametrize("audit", ORDERED)
def test_no_task_has_all_records_of_an_ordered_distance(engine: spark.Spark, audit: str) -> None:
    assert alone(engine, audit, audit_sql(audit, "spark")) == []


@pytest.mark.parametrize("audit", ORDERED)
def test_one_task_would_have_all_records_in_the_text_of_all_engines(engine: spark.Spark, audit: str) -> None:
    """Why Spark has a text of its own."""
    plain = agreement.as_sqlglot_has_it(audit, "spark").replace("INT128", "DECIMAL(38, 0)")
    assert {line.split()[0] for line in alone(engine, audit, plain)} == {"Window", "Exchange"}


@pytest.mark.parametrize("seed", some(range(8)))
@pytest.mark.parametrize("audit", ORDERED)
def test_rows_of_duckdb_from_random_tables(engine: spark.Spark, audit: str, seed: int) -> None:
    """DuckDB runs the text of all engines; 150 values are more than the 63 that Spark's own cuts them by."""
    rng = random.Random(seed)
    values = [None, *range(rng.choice([0, 1, 9, 150]))]
    members = [(rng.randrange(rng.choice([1, 5, 40])), rng.choice(values)) for _ in range(rng.randrange(300))]
    given = world(members or [(1, 1)], seed)
    agreement.assert_as_duckdb("spark", engine, given, audit)


def test_nothing_comes_of_an_empty_table(engine: spark.Spark) -> None:
    empty = {"class_member": Relation("class_member", {"class": "BIGINT", "value": "BIGINT"}, [])}
    for audit in ORDERED:
        given = WORLDS["ties"]
        (found,) = engine.ask([job(given._replace(relations={**given.relations, **empty}), audit, "spark")])
        assert found.error is None, found.error
        assert found.rows == []


def test_text_that_a_collation_calls_equal_is_one_value(engine: spark.Spark) -> None:
    """a and A have one rank though two hashes: the rows are those of the table in lower case."""
    letters = [chr(ord("a") + place % 26) * (1 + place // 26) for place in range(40)]
    rng = random.Random(5)
    members = [
        (rng.randrange(9), rng.choice([str.upper, str.lower])(rng.choice(letters))) for _ in range(400)
    ]
    folded = world([(number, value.lower()) for number, value in members], 2, text=True)
    (wanted,) = on_duckdb([job(folded, "t_closeness_ordered", "duckdb")])
    made = job(world(members, 2, text=True), "t_closeness_ordered", "spark")
    collated = made.views["class_member"].replace(" AS value", " COLLATE UTF8_LCASE AS value")
    assert collated.count("COLLATE") == 1
    (found,) = engine.ask([made._replace(views={**made.views, "class_member": collated})])
    assert found.error is None, found.error
    assert_same(found.rows, wanted.rows)


def test_sums_of_contributions_are_as_wide_as_these(engine: spark.Spark) -> None:
    """docs/engines.md says so: 2^62 + 2^62 = 2^63 is no BIGINT."""
    columns = {"class": "BIGINT", "attribute": "VARCHAR", "contributor": "BIGINT"}
    rows = [(1, "pay", contributor, 2**62) for contributor in (1, 2)]
    narrow, wide = (
        Relation("contribution", columns | {"value": kind}, rows) for kind in ("BIGINT", "HUGEINT")
    )
    given = WORLDS["ties"].relations
    (overflow,), (found,) = (
        engine.ask(
            [job(WORLDS["ties"]._replace(relations={**given, "contribution": r}), "dominance", "spark")]
        )
        for r in (narrow, wide)
    )
    assert "ARITHMETIC_OVERFLOW" in (overflow.error or "")
    assert [row["total"] for row in found.rows] == [2**63]


@pytest.mark.parametrize("distance", agreement.DISTANCES)
def test_a_class_at_t_passes_and_a_step_lower_fails(engine: spark.Spark, distance: str) -> None:
    agreement.assert_exact_at_t("spark", engine, distance)


def test_wide_integers_are_exact(engine: spark.Spark) -> None:
    agreement.assert_wide_integers_are_exact("spark", engine)


def test_an_overflow_is_an_error_in_ansi_mode_only(engine: spark.Spark) -> None:
    """docs/engines.md warns of it: 10^24 times 10^12 fits into 38 digits, 10^30 times 10^12 does not."""
    job = agreement.wide_verdict("spark", 10**30, "0.25")
    (answer,) = engine.ask([job])
    assert "NUMERIC_VALUE_OUT_OF_RANGE" in (answer.error or "")
    (silent,) = engine.ask([job], {"spark.sql.ansi.enabled": "false"})
    assert [row["violated"] for row in silent.rows] == [None]


def test_classes_of_several_columns(engine: spark.Spark) -> None:
    agreement.assert_composite_keys("spark", engine, "struct(age, sex)")


def test_odd_doubles(engine: spark.Spark) -> None:
    agreement.assert_odd_doubles("spark", engine)


def test_what_is_rewritten_is_needed(engine: spark.Spark) -> None:
    assert "INT128" in agreement.error_of_plain("spark", engine, "class_metrics")


def test_the_example_of_the_page_runs(engine: spark.Spark, tmp_path: Path) -> None:
    run_shell(blocks("sh")[0], tmp_path)
    (script,) = blocks("python")
    (shown,) = (text for text in blocks("text") if text.startswith("+"))
    printed = engine.run(f"import os; os.chdir({os.fspath(tmp_path)!r})\n{script}")
    assert lines(printed) == lines(shown)
