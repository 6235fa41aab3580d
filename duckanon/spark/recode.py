"""Recode: the tuples of a class get its values, by the rules and the engine of every release."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from duckanon.database import arrow, engine
from duckanon.release.recoding.recoder import Members, Recoder
from duckanon.spark.files import mapped
from duckanon.spark.handed import alone, as_spark_has_it, many
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
    """Return the released records, their columns under safe names; in a class by their other values.

    All records of a class are in one task: the one of the tile whose number the class has. `folder` is where
    the labelled records are in files, if all of them are.
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
        alone(partial(_written, context)), from_arrow_schema(released, prefer_timestamp_ntz=True)
    )


def _by_tile(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the records by the tile whose number their class has."""
    for table in many(batches):
        yield packed(table, arrow.numbers(table.column("class_id")).astype(np.int64) >> CLASS_BITS)


def _written(context: Broadcast[tuple[Recoder, pa.Schema]], table: pa.Table) -> pa.Table:
    """Recode the classes of a tile, whose records are packed: the work of a task."""
    recoder, released = context.value
    table = unpacked(table.column("packed"))
    order = np.argsort(arrow.numbers(table.column("class_id")), kind="stable")
    rows = table.take(arrow.arrow(order))
    classes = arrow.numbers(rows.column("class_id")).astype(np.int64)
    starts = np.flatnonzero(np.diff(classes, prepend=-1))
    members = Members(classes, starts, np.zeros(len(rows), np.bool_))
    made, _, _ = recoder.written(database(), rows.drop_columns("class_id"), members, None)
    # Which class came first, and so what its records were before, is nobody's business.
    return as_spark_has_it(in_order(made), released)
