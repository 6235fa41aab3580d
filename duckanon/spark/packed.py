"""Rows on their way from task to task: Spark moves one value of many rows for far less than these rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database import arrow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

PACKED = "part long, records long, packed binary"
"""Columns of packed rows: the number by which they are dealt, how many they are, and they themselves."""


def packed(rows: pa.Table, parts: NDArray[np.int64]) -> pa.RecordBatch:
    """Rows (n,) by the numbers of their parts (n,), those of a part in their order: `PACKED`."""
    order = np.argsort(parts, kind="stable")
    numbers, begins, counts = np.unique(parts[order], return_index=True, return_counts=True)
    # Most tables have one part, or come in order.
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
    """All rows that were packed, in the order of the values, of which there is one at least."""
    return pa.concat_tables([pa.ipc.open_stream(value.as_buffer()).read_all() for value in values])
