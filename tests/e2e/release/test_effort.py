"""Releases with effort, time_limit and seed: valid whatever they are, and they say how they came about."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon.errors import DuckanonWarning
from duckanon.release.stages.partition import plan

if TYPE_CHECKING:
    from duckanon.kernels.recipes import Recipe

TABLE = """CREATE TABLE people AS
SELECT hash(i) % 1000 / 10 AS age, CASE WHEN i % 17 = 0 THEN NULL ELSE hash(-i) % 50 END AS weight,
    hash(i + 9000) % 20 AS charge
FROM range(600) AS r(i)"""


def released(con: duckanon.Connection, options: str, source: str = "people") -> list[tuple[object, ...]]:
    """Create a view, require that its own audit in SQL passes, and give its rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuckanonWarning)
        con.sql(
            f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM {source} "
            f"WITH (quasi_identifiers = (age, weight), sensitive = charge, {options})"
        )
    smallest = con.duckdb.execute(
        "SELECT min(n) FROM (SELECT count(*) AS n FROM v GROUP BY age, weight)"
    ).fetchall()[0][0]
    rows = con.duckdb.execute("SELECT * FROM v ORDER BY ALL").fetchall()
    assert smallest is None or smallest >= 2
    return rows


@pytest.fixture
def con() -> duckanon.Connection:
    con = duckanon.connect()
    con.duckdb.execute(TABLE)
    return con


@pytest.mark.parametrize("effort", ["fast", "balanced", "best"])
def test_no_time_at_all_gives_a_valid_release(con: duckanon.Connection, effort: str) -> None:
    """The first partition, repaired, is the best valid result when time is up at once."""
    rows = released(con, f"k = 4, t = 0.2, effort = '{effort}', time_limit = 0.000001")
    assert len(rows) == 600
    report = con.run_script("AUDIT VIEW v")[-1].report
    assert report is not None
    assert report.passed


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["-1", "-999999999999999999", "999999999999999999"])
def test_every_seed_gives_one_release(con: duckanon.Connection, seed: str) -> None:
    options = f"k = 4, t = 0.3, effort = 'balanced', seed = {seed}"
    assert released(con, options) == released(con, options)


@pytest.mark.parametrize(
    ("source", "k", "classes"),
    [
        ("(FROM people LIMIT 2)", 2, 1),
        ("(SELECT 1.5 AS age, NULL::INT AS weight, i AS charge FROM range(9) AS r(i))", 3, 1),
        ("(SELECT i % 2 AS age, NULL::INT AS weight, i // 2 AS charge FROM range(8) AS r(i))", 4, 2),
        ("(SELECT i AS age, i AS weight, i AS charge FROM range(7) AS r(i))", 7, 1),
    ],
)
def test_small_and_equal_tables_are_refined(
    con: duckanon.Connection, source: str, k: int, classes: int
) -> None:
    """Classes counted by hand: k = n, all equal and NULL, two values with four records each, k = n."""
    released(con, f"k = {k}", source)
    found = con.duckdb.execute("SELECT count(*) FROM (SELECT DISTINCT age, weight FROM v)").fetchall()
    assert found == [(classes,)]


def test_the_report_says_which_method_was_picked_and_why(con: duckanon.Connection) -> None:
    outcome = con.run_script(
        "CREATE ANONYMIZED VIEW v AS FROM people "
        "WITH (quasi_identifiers = (age, weight), sensitive = charge, k = 4, t = 0.3)"
    )[-1]
    assert outcome.report is not None
    said = outcome.report.plan
    assert said is not None
    assert "refined (balanced): least loss on a sample of 600 records of" in said
    assert f"method: {said}" in outcome.report.to_text().splitlines()
    assert json.loads(outcome.report.to_json())["plan"] == said
    explained = {
        row["property"]: row for row in con.run_script("EXPLAIN ANONYMIZED VIEW v")[-1].table.to_pylist()
    }
    assert said.startswith(explained["method"]["value"])
    # What is proved at release, not from the rows, follows.
    assert explained["method"]["reason"] in said


@pytest.mark.parametrize("best", [0, 1])
def test_the_recipe_that_loses_least_in_the_trial_is_taken(
    con: duckanon.Connection, monkeypatch: pytest.MonkeyPatch, best: int
) -> None:
    tried = []

    def classes_of(
        points: object, codes: object, policy: object, recipe: Recipe, *more: object, **how: object
    ) -> Any:
        tried.append(recipe)
        return len(tried) - 1

    monkeypatch.setattr(plan, "classes_of", classes_of)
    monkeypatch.setattr(plan, "information_loss", lambda _, classes: float(abs(classes - best)))
    outcome = con.run_script(
        "EXPLAIN CREATE ANONYMIZED VIEW v AS FROM people "
        "WITH (quasi_identifiers = (age, weight), sensitive = charge, k = 4, t = 0.3)"
    )[-1]
    assert outcome.table is not None
    found = {row["property"]: row["value"] for row in outcome.table.to_pylist()}
    assert len(tried) > 1
    assert (found["method"], found["class_size"]) == (tried[best].start, str(tried[best].size))


def test_few_values_are_no_collapse(con: duckanon.Connection) -> None:
    """Ninety values in 20,000 records make ninety classes, and nothing is lost: no warning."""
    con.duckdb.execute("CREATE TABLE few AS SELECT (hash(i) % 90)::INT AS age FROM range(20000) AS r(i)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        con.sql("CREATE ANONYMIZED VIEW f AS FROM few WITH (quasi_identifiers = age, k = 5)")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "mdav"])
def test_the_number_of_cores_leaves_no_trace(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Several tiles, refined on one, two and five workers, with as many threads of DuckDB."""
    found = []
    for cores in (1, 2, 5):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        with duckanon.connect() as con, warnings.catch_warnings():
            warnings.simplefilter("ignore", DuckanonWarning)
            con.duckdb.execute(f"SET threads = {cores}")
            con.duckdb.execute(
                "CREATE TABLE many AS SELECT (hash(i) % 1000003)::DOUBLE AS a, (hash(-i) % 100003)::DOUBLE AS b, "
                "hash(i * 7) % 300 AS s FROM range(20_000) AS r(i)"
            )
            con.sql(
                "CREATE ANONYMIZED VIEW m AS FROM many WITH (quasi_identifiers = (a, b), insensitive = s, "
                f"k = 5, effort = 'fast', method = '{method}')"
            )
            found.append(con.duckdb.execute("FROM m").fetchall())
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 20_000
