"""Digits of class means, from the values of the whole table."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from duckanon.database import arrow
from duckanon.release.stages.digits import (
    NOISE_SHARE,
    WHOLE_MIN_NUMBER,
    rounding_of,
    searched,
    telling,
    units_of,
)
from duckanon.spark.columns import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column

    from duckanon.release.stages.stage import Field, Rounding
    from duckanon.spark.columns import BoundColumns
    from duckanon.spark.stage import Staged


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
