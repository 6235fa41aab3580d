"""Coordinates: as many as is said before any record is read, and as far apart as a hierarchy says."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import duckanon
from duckanon.database import engine
from duckanon.release.stages import embed
from duckanon.release.stages.bucket import bucket, stream
from duckanon.release.stages.limit import limit
from duckanon.release.stages.partition.plan import sample
from duckanon.release.stages.stage import stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    from numpy.typing import NDArray

    from duckanon.release.stages.bucket import Tiles
    from duckanon.release.stages.limit import Limits


@contextlib.contextmanager
def dealt(
    con: duckdb.DuckDBPyConnection, query: str, policy: duckanon.Policy
) -> Iterator[tuple[embed.Embedded, Limits, Tiles]]:
    """Take a query as far as its tiles."""
    with engine.temporary(con) as workspace:
        staged = stage(con, query, policy, workspace)
        embedded = embed.embed(con, staged, policy)
        limits = limit(con, staged, embedded, policy)
        yield embedded, limits, bucket(con, staged, embedded, limits, policy)


@pytest.mark.parametrize(
    ("columns", "coordinates"),
    [
        ("i AS a", 1),
        ("nullif(i, 3) AS a", 2),  # its value, and whether there is one
        ("7 AS a, i AS b", 1),  # what is equal everywhere tells nothing
        ("CASE WHEN i > 4 THEN 7 END AS a, i AS b", 2),
        ("7 AS a", 0),
        ("DATE '2020-01-01' + i::INTEGER AS a, i % 2 AS b", 2),
        ("'x' || i % 2 AS a, i AS b", None),
        ("'x' || i % 5 AS a, nullif('y' || i % 3, 'y1') AS b, i % 3 = 0 AS d", None),
        ("'person ' || i AS a", None),
    ],
)
def test_as_many_as_the_points_have(
    fresh_db: duckdb.DuckDBPyConnection, columns: str, coordinates: int | None
) -> None:
    names = [
        part.rstrip(",").split(",")[0] for part in (piece.split()[0] for piece in columns.split(" AS ")[1:])
    ]
    policy = duckanon.Policy(quasi_identifiers=names, k=20, refine=False, method="mdav")
    with dealt(fresh_db, f"SELECT {columns} FROM range(20) AS r(i)", policy) as (embedded, limits, tiles):
        points = sample(fresh_db, embedded, limits, tiles).points
        found = embed.dimensions(embedded.axes)
    assert found == points.shape[1]
    assert coordinates in {None, found}


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        # Columns by hand: a number has one, with NULL two, three names the two of a triangle, one name none.
        (["zip"], [0]),
        (["one", "zip"], [0]),
        (["two", "zip"], [1]),
        (["three", "zip"], [2]),
        (["three", "zip", "two", "street"], [2, 4]),
        (["n", "one", "zip", "three", "missing", "street", "zip2"], [1, 6, 7]),
    ],
)
def test_hierarchies_are_told_of_the_columns_that_are_cut_by_them(
    fresh_db: duckdb.DuckDBPyConnection, names: list[str], columns: list[int]
) -> None:
    fresh_db.execute("CREATE TABLE tree AS SELECT 'z' || i AS a, 'h' || i // 3, '*' FROM range(6) AS r(i)")
    query = (
        f"SELECT {', '.join(names)} FROM (SELECT i AS n, nullif(i, 2) AS missing, 'x' AS one,"
        " 'x' || i % 2 AS two, 'x' || i % 3 AS three, 'z' || i % 6 AS zip, 'z' || i % 5 AS street, 'z' || i % 4 AS zip2 FROM range(20) AS r(i))"
    )
    graded = [name for name in names if name in {"zip", "street", "zip2"}]
    policy = duckanon.Policy(
        quasi_identifiers=names,
        k=2,
        method="mondrian",
        hierarchies=dict.fromkeys(graded, "tree"),
        recode=dict.fromkeys(graded, "hierarchy"),
    )
    with dealt(fresh_db, query, policy) as (embedded, limits, tiles):
        axes = embedded.axes
        (records,) = stream(fresh_db, embedded, limits, tiles)
    points, trees = embed.cut_points(axes, records.columns)
    attribute, _ = embed.cut_attributes(axes)
    assert list(trees) == columns
    assert [names[attribute[column]] for column in columns] == graded
    assert len(attribute) == points.shape[1]
    for (column, tree), name in zip(trees.items(), graded, strict=True):
        assert len(tree.paths) == {"zip": 6, "street": 5, "zip2": 4}[name]
        assert set(points[:, column]) == set(range(len(tree.paths)))


def lowest_common_level(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the first level, from the leaf up, on which two leaves have the same node."""
    return next(level for level, (a, b) in enumerate(zip(left, right, strict=True)) if a == b)


@st.composite
def trees(draw: st.DrawFn, largest: int = 12) -> NDArray[np.int64]:
    """Return the nodes above some leaves: random branches, numbered level by level."""
    size, height = draw(st.integers(1, largest)), draw(st.integers(1, 4))
    branches = [tuple(draw(st.integers(0, 2)) for _ in range(height - 1)) for _ in range(size)]
    names: dict[object, int] = {}
    return np.array(
        [
            [
                names.setdefault((level, leaf if level == 0 else branch[: height - level]), len(names))
                for level in range(height + 1)
            ]
            for leaf, branch in enumerate(branches)
        ]
    )


@given(paths=trees())
def test_squared_distances_in_a_hierarchy_are_levels_over_the_height(paths: NDArray[np.int64]) -> None:
    """By the definition of docs/design: the level of the lowest common ancestor / height of the tree."""
    corners, height = embed.tree_corners(paths), paths.shape[1] - 1
    assert corners.shape == (len(paths), len(paths) - 1)
    for i, j in itertools.combinations(range(len(paths)), 2):
        expected = lowest_common_level(paths[i], paths[j]) / height
        assert ((corners[i] - corners[j]) ** 2).sum() == pytest.approx(expected, abs=1e-12)


def test_upper_levels_are_exact_and_all_levels_may_be() -> None:
    """By the definition: 70 leaves below 3 nodes, of which the 3 are exact; of 20 leaves all are."""
    leaf = np.arange(70)
    paths = np.column_stack([leaf, 100 + leaf % 3, np.full(70, 200)])
    points = embed.tree_vectors(paths, 0)
    apart = ((points[:, None, :3] - points[None, :, :3]) ** 2).sum(axis=2)
    same = paths[:, None, 1] == paths[None, :, 1]
    assert np.array_equal(apart[same], np.zeros(same.sum()))
    assert apart[~same] == pytest.approx(0.5)
    small = np.column_stack([np.arange(20), 100 + np.arange(20) % 3, np.full(20, 200)])
    exact = embed.tree_vectors(small, 0)
    assert exact.shape == (20, 3 + 20)
    found = ((exact[:, None] - exact[None, :]) ** 2).sum(axis=2)
    expected = [[lowest_common_level(a, b) / 2 for b in small] for a in small]
    assert found == pytest.approx(np.array(expected))


def test_projected_distances_in_a_hierarchy_are_near_at_every_level() -> None:
    """1,000 leaves, ten below each of 100 nodes, ten of these below each of ten: levels 1, 2 and 3 of 3.

    The ten have coordinates of their own, the 100 are too many for it.
    """
    leaf = np.arange(1_000)
    paths = np.column_stack([leaf, 1_000 + leaf // 10, 1_100 + leaf // 100, np.full(1_000, 1_110)])
    points = embed.tree_vectors(paths, 0)
    assert points.shape == (1_000, 10 + embed.TREE_DIRECTIONS)
    distances = ((points[:, None] - points[None, :]) ** 2).sum(axis=2)
    level = np.select([paths[:, None, up] == paths[None, :, up] for up in range(3)], [0, 1, 2], default=3)
    for up in (1, 2, 3):
        found = distances[level == up] / (up / 3)
        assert abs(found.mean() - 1) < 0.05
        # sqrt(2 / 32) = 0.25 for a sum of many signs; two of the six steps at the top are exact.
        assert found.std() < (0.25 if up < 3 else 0.25 * 4 / 6)
    assert np.array_equal(points, embed.tree_vectors(paths, 0))
    assert not np.array_equal(points, embed.tree_vectors(paths, 1))
