"""A text that is different in every record makes no coordinates, and its loss is counted all the same.

Source of every figure: explicit points, in which each such record has a coordinate of its own (an identity
matrix), so that any two are at squared distance 1 times the weight; 100 SSE / SST of the released classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import duckanon
from duckanon.release import pipeline
from duckanon.release.stages import embed
from duckanon.release.stages.bucket import bucket
from duckanon.release.stages.class_sums import information_loss, loss_of, spread_of, sums_of
from duckanon.release.stages.embed import EXACT_VALUES, SEARCHED, dimensions

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

N = 200

PEOPLE = f"""
SELECT 'person ' || i AS name, 'street ' || (i * 7) % {N} AS street, (i * i) % 83 AS age,
    CASE WHEN i % 50 = 0 THEN 900 ELSE i % 9 END AS sales, i AS pay, 'ill ' || i % 10 AS illness
FROM range({N}) AS r(i)
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds in large tables, whose classes are made once, tried with few records."""
    monkeypatch.setattr(embed, "SEARCHED", 64)
    monkeypatch.setattr(embed, "rebuilds_any", lambda *_, **_more: False)


def explicit(rows: dict[str, NDArray[Any]], weights: dict[str, float]) -> NDArray[np.float64]:
    """Coordinates of all records: z-scores, and an axis a record for a text that differs in each."""
    parts = []
    for name, weight in weights.items():
        if name in {"name", "street"}:
            parts.append(np.eye(N) * np.sqrt(0.5 * weight))
        else:
            x = rows[name].astype(float)
            parts.append(((x - x.mean()) / x.std() * np.sqrt(weight))[:, None])
    return np.hstack(parts)


def loss(points: NDArray[np.float64], classes: NDArray[np.int64]) -> float:
    parts = [points[classes == c] for c in set(classes)]
    within = sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts)
    return float(100 * within / ((points - points.mean(axis=0)) ** 2).sum())


@pytest.mark.filterwarnings("ignore::duckanon.errors.DuckanonWarning")
@pytest.mark.parametrize(
    ("quasi", "more"),
    [
        ("name, age", {}),
        ("name, age", {"t": {"pay": 0.2}}),
        ("age, name, street", {"effort": "fast"}),
        ("name, age", {"weights": {"name": 3, "age": 0.5}}),
        ("name, age", {"refine": False, "method": "mondrian"}),
        ("name, age", {"t": {"illness": 0.35}, "suppression_limit": 0.2}),
        ("name, age, sales", {"p_percent": 20}),
        ("name, age", {"t": {"illness": 0.35}, "method": "mondrian", "suppression_limit": 0.1}),
        ("name, age, street", {"t": {"pay": 0.3}, "method": "tcloseness_merge"}),
    ],
)
@pytest.mark.usefixtures("few")
def test_the_loss_is_that_of_explicit_points(
    fresh_db: duckdb.DuckDBPyConnection, quasi: str, more: dict[str, Any]
) -> None:
    names = quasi.split(", ")
    policy = duckanon.Policy(quasi_identifiers=names, sensitive=["pay", "illness"], k=4, **more)
    fresh_db.execute(f"CREATE TABLE people AS {PEOPLE}")
    columns = ", ".join([*names, "pay", "illness"])
    made = duckanon.anonymize(fresh_db, f"SELECT {columns} FROM people", policy, name="released")
    grouped = ", ".join(f"released.{name}" for name in names)
    rows = fresh_db.execute(
        f"SELECT people.*, dense_rank() OVER (ORDER BY {grouped}) AS class "
        "FROM people LEFT JOIN released USING (pay) ORDER BY pay"
    ).fetchnumpy()
    left = np.isin(rows["pay"], fresh_db.execute("SELECT pay FROM released").fetchnumpy()["pay"])
    weights = {name: float(more.get("weights", {}).get(name, 1)) for name in names}
    wanted = loss(explicit(rows, weights)[left], np.asarray(rows["class"])[left])
    assert made.information_loss == pytest.approx(wanted, rel=1e-9)
    assert 0 < wanted < 100


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_a_trial_and_a_release_count_it_alike(columns: int) -> None:
    """Of points and of sums of classes; tiles say the same as the table, and one of no records nothing."""
    draw = np.random.default_rng(7)
    points, labels = draw.normal(size=(N, columns)), draw.permutation(np.arange(N) % 30)
    wanted = loss(np.hstack([points, np.eye(N) * np.sqrt(0.5 * 1.7)]), labels)
    assert loss_of(points, labels, 1.7) == pytest.approx(wanted, rel=1e-12)
    first = labels < 11
    tiles = [points[first], points[~first], points[:0]], [labels[first], labels[~first] - 11, labels[:0]]
    parts = [spread_of(sums_of(*tile)) for tile in zip(*tiles, strict=True)]
    assert information_loss(parts, 1.7) == pytest.approx(wanted, rel=1e-12)
    assert information_loss(parts[2:], 1.7) == 0.0


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("'person ' || i", 1),
        ("CASE WHEN i > 0 THEN 'person ' || i END", 1),  # one NULL is a value of one record
        ("'person ' || i // 2", 49),
        ("'person ' || greatest(i, 1)", 49),  # one text stands twice: as many signs as for all others
    ],
)
@pytest.mark.usefixtures("few")
def test_only_what_differs_in_every_record_has_no_coordinates(
    fresh_db: duckdb.DuckDBPyConnection, name: str, columns: int
) -> None:
    query = f"SELECT {name} AS name, i AS age FROM range({N}) AS r(i)"
    policy = duckanon.Policy(quasi_identifiers=["name", "age"], k=5)
    with pipeline.through(bucket, fresh_db, query, policy) as bucketed:
        assert dimensions(bucketed.limited.embedded.axes) == columns


@pytest.mark.usefixtures("few")
def test_columns_that_all_differ_have_signs(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """Without coordinates a method that cuts would leave one class of all, and lose all."""
    query = f"SELECT name, street, illness FROM ({PEOPLE})"
    policy = duckanon.Policy(
        quasi_identifiers=["name", "street"], sensitive=["illness"], k=5, t=0.4, method="mondrian"
    )
    with pipeline.through(bucket, fresh_db, query, policy) as bucketed:
        assert dimensions(bucketed.limited.embedded.axes) == 96
        # Two values of one record each: the mean squared distance from their middle, for each column.
        assert [x.variance for x in bucketed.limited.embedded.axes] == [pytest.approx((1 - 1 / N) / 2)] * 2
    with pytest.warns(duckanon.errors.DuckanonWarning):
        made = duckanon.anonymize(fresh_db, query, policy, name="released")
    assert made.information_loss < 95


@pytest.mark.usefixtures("few")
def test_few_texts_are_exact_as_they_were(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """The corners of a simplex say the same, and hold for a table that grows."""
    query = f"SELECT 'person ' || i AS name FROM range({EXACT_VALUES}) AS r(i)"
    policy = duckanon.Policy(quasi_identifiers=["name"], k=5)
    with pipeline.through(bucket, fresh_db, query, policy) as bucketed:
        assert dimensions(bucketed.limited.embedded.axes) == EXACT_VALUES - 1


@pytest.mark.usefixtures("few")
def test_explain_says_what_such_a_column_does() -> None:
    with duckanon.connect() as con:
        policy = duckanon.Policy(quasi_identifiers=["name", "age"], sensitive=["pay"], k=5, release="swap")
        duckanon.anonymize(con, f"SELECT name, age, pay FROM ({PEOPLE})", policy, name="released")
        rows = con.execute("EXPLAIN ANONYMIZED VIEW released").fetchall()
    how = [row[3] for row in rows if row[:2] == ("recode", "name")]
    assert how == ["different in every record: no class is better for it than another"]


@pytest.mark.filterwarnings("error::duckanon.errors.DuckanonWarning")
@pytest.mark.usefixtures("few")
def test_its_distances_are_not_called_approximate(fresh_db: duckdb.DuckDBPyConnection) -> None:
    """Swapped values are no class's, so that no other warning stands before this one."""
    policy = duckanon.Policy(quasi_identifiers=["name", "age"], sensitive=["pay"], k=5, release="swap")
    duckanon.anonymize(fresh_db, f"SELECT name, age, pay FROM ({PEOPLE})", policy, name="released")


@pytest.mark.parametrize(
    ("records", "more", "columns"),
    [
        (SEARCHED, {"effort": "fast"}, 49),
        (SEARCHED + 1, {"effort": "fast"}, 1),
        (SEARCHED + 1, {}, 49),  # balanced forms classes anew
        (SEARCHED + 1, {"refine": False}, 1),
        (20_000, {"t": 0.3}, 1),  # with thresholds that is dear, so that it is done for fewer records
        (20_000, {}, 49),
    ],
)
def test_where_classes_are_formed_anew_signs_are_the_measure(
    fresh_db: duckdb.DuckDBPyConnection, records: int, more: dict[str, Any], columns: int
) -> None:
    """A higher effort lost more without them: it ended with fewer classes."""
    query = f"SELECT 'person ' || i AS name, i AS age, i % 9 AS pay FROM range({records}) AS r(i)"
    policy = duckanon.Policy(quasi_identifiers=["name", "age"], sensitive=["pay"], k=5, **more)
    with pipeline.through(bucket, fresh_db, query, policy) as bucketed:
        assert dimensions(bucketed.limited.embedded.axes) == columns
