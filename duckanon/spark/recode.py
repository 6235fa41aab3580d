"""Recode: the records of a class get common values, by the recoder of `release.recoding`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from duckanon.database import arrow, engine
from duckanon.release.recoding import Members, Recoder
from duckanon.spark.files import mapped
from duckanon.spark.handed import as_spark_has_it, combined, without_key
from duckanon.spark.packed import PACKED, packed, unpacked
from duckanon.spark.partition import CLASS_BITS, in_order
from duckanon.spark.worker import database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.columns import BoundColumns


def recoded(labelled: DataFrame, bound: BoundColumns, policy: Policy, folder: str | None = None) -> DataFrame:
    """Return the released records under safe names, each tile in the order of all values.

    The class number contains the tile, whose task recodes it. `folder` has files of the labelled records.
    """
    columns = [field.column for field in bound.fields]
    given = labelled.select(*columns).limit(0).toArrow().schema
    types = {name: given.field(name).type for name in columns}
    recoder = Recoder(bound.fields, types, policy.k, policy.least_values)
    with engine.in_memory(threads=1) as con:
        released = as_spark_has_it(recoder.empty(con), pa.schema([])).schema
    context = labelled.sparkSession.sparkContext.broadcast((recoder, released))
    tiles = mapped(labelled.select("class_id", *columns), _by_tile, PACKED, folder=folder)
    return tiles.groupBy("part").applyInArrow(
        without_key(partial(_written, context)), from_arrow_schema(released, prefer_timestamp_ntz=True)
    )


def _by_tile(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the records by the tile in their class number, in a task."""
    for table in combined(batches):
        yield packed(table, arrow.numbers(table.column("class_id")).astype(np.int64) >> CLASS_BITS)


def _written(context: Broadcast[tuple[Recoder, pa.Schema]], table: pa.Table) -> pa.Table:
    """Recode the classes of a packed tile, in a task."""
    recoder, released = context.value
    table = unpacked(table.column("packed"))
    order = np.argsort(arrow.numbers(table.column("class_id")), kind="stable")
    rows = table.take(arrow.arrow(order))
    classes = arrow.numbers(rows.column("class_id")).astype(np.int64)
    starts = np.flatnonzero(np.diff(classes, prepend=-1))
    members = Members(classes, starts, np.zeros(len(rows), np.bool_))
    made, _, _ = recoder.written(database(), rows.drop_columns("class_id"), members, None)
    # The order of the classes would reveal the earlier places of their records.
    return as_spark_has_it(in_order(made), released)
