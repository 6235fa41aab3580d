"""Packed rows: many rows as one value, which Spark moves from task to task at far lower cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database import arrow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

PACKED = "part long, records long, packed binary"
"""Columns of packed rows: number of their part, count of the rows, and the rows as Arrow writes them."""


def packed(rows: pa.Table, parts: NDArray[np.int64]) -> pa.RecordBatch:
    """Pack rows (n,) by part number (n,) into columns `PACKED`; the order within a part stays."""
    order = np.argsort(parts, kind="stable")
    numbers, begins, counts = np.unique(parts[order], return_index=True, return_counts=True)
    # Most tables have one part, or are already in the order of the parts.
    dealt = rows if (np.diff(order) == 1).all() else rows.take(arrow.arrow(order))
    dealt = dealt.combine_chunks()
    values = [written(dealt.slice(begin, count)) for begin, count in zip(begins, counts, strict=True)]
    return pa.record_batch(
        {
            "part": arrow.arrow(numbers.astype(np.int64)),
            "records": arrow.arrow(counts.astype(np.int64)),
            "packed": pa.array(values, pa.binary()),
        }
    )


def written(rows: pa.Table) -> bytes:
    """Rows as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(values: Iterable[pa.BinaryScalar]) -> pa.Table:
    """All rows of one or more packed values, in the order of the values."""
    return pa.concat_tables([pa.ipc.open_stream(value.as_buffer()).read_all() for value in values])
