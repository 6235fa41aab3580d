"""The number of coordinates that is said before any record is read is that of the points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.release import pipeline
from duckanon.release.stages.bucket import bucket
from duckanon.release.stages.embed import dimensions
from duckanon.release.stages.plan import sample

if TYPE_CHECKING:
    import duckdb


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
    with pipeline.through(bucket, fresh_db, f"SELECT {columns} FROM range(20) AS r(i)", policy) as bucketed:
        points, _ = sample(fresh_db, bucketed)
        found = dimensions(bucketed.limited.embedded.axes)
    assert found == points.shape[1]
    assert coordinates in {None, found}
