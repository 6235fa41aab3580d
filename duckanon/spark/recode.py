"""Recode: the records of a class get common values, by the recoder of `release.recoding`.

Digits of class means come from the values of the whole table. The number of values behind each class mean is
counted again beside the released records.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from duckanon.audits.report import Measure
from duckanon.database import arrow, engine
from duckanon.errors import ReleaseError
from duckanon.policy.reported import MIN_VALUES
from duckanon.release.recoding import Members, Recoder
from duckanon.release.stages.digits import (
    NOISE_SHARE,
    WHOLE_MIN_NUMBER,
    rounding_of,
    searched,
    telling,
    units_of,
)
from duckanon.release.stages.recode import too_few
from duckanon.spark.partition import CLASS_BITS, in_order
from duckanon.spark.stage import column, number
from duckanon.spark.tasks import PACKED, combined, database, in_utc, mapped, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import Broadcast
    from pyspark.sql import Column, DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.stage import Field, Rounding
    from duckanon.spark.stage import BoundColumns, Staged


def with_digits(staged: Staged) -> BoundColumns:
    """Columns with the rounding of their means and medians, as in DuckDB. O(n).

    A floating-point column without short decimals is sorted to find its least difference.
    """
    fields = [field for field in staged.bound.quasi if searched(field)]
    checks = [
        sf.coalesce(sf.bool_and(_has(field, unit)), sf.lit(True))
        for field in fields
        for unit in units_of(field)
    ]
    answers = iter(staged.frame.agg(*checks).collect()[0] if checks else ())
    found: dict[str, Rounding] = {}
    for field in fields:
        units = [unit for unit in units_of(field) if next(answers)]
        found[field.column] = rounding_of(field, units[0] if units else _digits(staged, field))
    rounded = (
        replace(field, rounding=found.get(field.column, field.rounding)) for field in staged.bound.fields
    )
    return replace(staged.bound, fields=tuple(rounded))


def _has(field: Field, unit: int) -> Column:
    """Whether a value is a multiple of a unit of `units_of`."""
    if field.kind == "timestamp":
        if field.type == "TIMESTAMP":
            begin = sf.to_timestamp_ntz(sf.lit("1970-01-01 00:00:00"))
            return sf.timestamp_diff("MICROSECOND", begin, sf.col(field.column)) % unit == 0
        return sf.unix_micros(field.column) % unit == 0
    value, tens = number(field), 10.0**unit
    rounded = (sf.rint(value * tens) / tens).cast("float" if field.type == "FLOAT" else "double")
    return (sf.abs(value) >= WHOLE_MIN_NUMBER / tens) | (rounded == sf.col(field.column))


def _digits(staged: Staged, field: Field) -> int:
    """Digits after the point that distinguish the values of a floating-point column; see `telling`."""
    low, high = staged.ranges[field.column]
    values = staged.frame.select(number(field).alias("value")).where("value IS NOT NULL").sort("value")
    parts = values.mapInArrow(
        partial(_nearest, NOISE_SHARE[field.type]), "low double, high double, half double"
    )
    rows = parts.collect()
    ends = sorted((row["low"], row["high"]) for row in rows)
    between = [
        after / 2 - before / 2
        for (_, before), (after, _) in itertools.pairwise(ends)
        if after - before > abs(after) * NOISE_SHARE[field.type]
    ]
    halves = [row["half"] for row in rows if row["half"] is not None] + between
    return telling(min(halves, default=None), max(abs(low or 0.0), abs(high or 0.0)))


def _nearest(noise: float, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give lowest value, highest value and half the least difference of a sorted part, in a task."""
    low = high = half = None
    for batch in batches:
        values = arrow.numbers(batch.column(0)).astype(np.float64)
        if not len(values):
            continue
        low = float(values[0]) if low is None else low
        values = values if high is None else np.append(high, values)
        halves = np.diff(values / 2)
        halves = halves[2 * halves > np.abs(values[1:]) * noise]
        least = float(halves.min()) if len(halves) else None
        half = min((one for one in (half, least) if one is not None), default=None)
        high = float(values[-1])
    if low is not None:
        names = ["low", "high", "half"]
        yield pa.RecordBatch.from_arrays([pa.array([one], pa.float64()) for one in (low, high, half)], names)


def recoded(labelled: DataFrame, bound: BoundColumns, policy: Policy, folder: str | None = None) -> DataFrame:
    """Return the released records under safe names, each tile in the order of all values.

    The class number contains the tile, whose task recodes it. `folder` has files of the labelled records.
    """
    columns = [field.column for field in bound.fields]
    given = labelled.select(*columns).limit(0).toArrow().schema
    types = {name: given.field(name).type for name in columns}
    recoder = Recoder(bound.fields, types, policy.k, policy.least_values)
    with engine.in_memory(threads=1) as con:
        released = in_utc(recoder.empty(con)).schema
    context = labelled.sparkSession.sparkContext.broadcast((recoder, released))
    tiles = mapped(labelled.select("class_id", *columns), _by_tile, PACKED, folder=folder)
    return tiles.groupBy("part").applyInArrow(
        lambda table: _written(context, table), from_arrow_schema(released, prefer_timestamp_ntz=True)
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
    return in_order(made).cast(released)


def min_values(
    final: DataFrame, released: DataFrame, staged: Staged, policy: Policy, *, classes: int
) -> tuple[tuple[Measure, ...], tuple[str, ...]]:
    """The measure `min_values` of each column that may lack values, and warnings.

    A ReleaseError if more released records have a value than `final` has in classes with enough values.
    """
    least, bound = policy.least_values, staged.bound
    fields = [
        field
        for field in bound.quasi
        if field.rule.of_values and (least > policy.k or staged.values[field.column] < staged.size)
    ]
    if not fields:
        return (), ()
    held = [sf.count(field.column).alias(field.column) for field in fields]
    counted = final.groupBy("class_id").agg(sf.count(sf.lit(1)).alias("records"), *held)
    sums = []
    for field in fields:
        values = sf.col(field.column)
        few = (values > 0) & (values < least)
        sums += [sf.sum(sf.when(values >= least, sf.col("records")).otherwise(0))]
        sums += [sf.count_if(few), sf.sum(sf.when(few, values).otherwise(0))]
    [found] = counted.agg(*sums).collect()
    names = [bound.name_of(field.column) for field in fields]
    [shown] = released.agg(*(sf.count(column(name)) for name in names)).collect()
    measures, warnings = [], []
    for place, name in enumerate(names):
        with_value, empty, lost = found[3 * place : 3 * place + 3]
        if shown[place] > with_value:
            raise ReleaseError(
                f"{shown[place] - with_value} released records have a value of {name!r} that fewer than "
                f"min_values = {least} records of their class have: nothing was released; please report this"
            )
        measures.append(Measure(MIN_VALUES, name, least, float(least), classes, 0, 0, True))
        if empty:
            warnings.append(too_few(name, empty, lost, policy))
    return tuple(measures), tuple(warnings)
