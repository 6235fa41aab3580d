"""Packed rows: what a task packs, another unpacks, whatever the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.spark.running import Running

pytestmark = pytest.mark.slow

ROWS = """
from datetime import UTC, datetime
from decimal import Decimal
import numpy as np
import pyarrow as pa
from duckanon.spark.packed import packed, unpacked
moments = [datetime(2024, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(6)]
ROWS = pa.table({
    "n": pa.array([1, None, 3, 4, 5, 6], pa.int32()), "s": ["a", "", None, "ä" * 50, "b", "c"],
    "x": [0.0, -0.0, float("nan"), None, float("inf"), 1.5], "at": pa.array(moments, pa.timestamp("us", "UTC")),
    "money": pa.array([Decimal("1.50"), None, *map(Decimal, "2345")], pa.decimal128(12, 2)),
    "raw": pa.array([b"\\\\x00", b"", None, b"abc", b"d", b"e"], pa.binary()),
    "yes": [True, None, False, True, True, False],
})
same = lambda one, other: one.schema == other.schema and repr(one.to_pydict()) == repr(other.to_pydict())
"""

PARTS = """
for parts in ([0] * 6, [0, 0, 1, 1, 1, 5], [5, 0, 5, 1, 0, 5], [6, 5, 4, 3, 2, 1]):
    batch = packed(ROWS, np.array(parts, np.int64))
    print(batch.column("part").to_pylist() == sorted(set(parts)))
    for part, records, value in zip(*batch.columns, strict=True):
        places = [place for place, number in enumerate(parts) if number == part.as_py()]
        print(records.as_py() == len(places) and same(unpacked([value]), ROWS.take(places)))
"""

TASKS = """
batches = [packed(ROWS.slice(start, 3), np.zeros(3, np.int64)) for start in (0, 3)]
print(same(unpacked([value for batch in batches for value in batch.column("packed")]), ROWS))
many = pa.table({"s": ["text " * 100] * 1000})
print(len(packed(many.slice(998), np.zeros(2, np.int64)).column("packed")[0].as_py()) < 4000)
print(len(packed(ROWS.slice(0, 0), np.zeros(0, np.int64))) == 0)
"""


def test_each_part_has_its_rows_in_their_order(running: Running) -> None:
    assert set(running.run(ROWS + PARTS).split()) == {"True"}


def test_what_several_tasks_packed_is_put_together(running: Running) -> None:
    """A slice of a table packs its own rows alone, and no row is no part."""
    assert running.run(ROWS + TASKS).split() == ["True"] * 3
