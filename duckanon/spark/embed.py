"""Embed: coordinates of quasi-identifiers and codes of sensitive values, the same in every task.

Moments of the whole table are sums of integers, which do not depend on partitions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from duckanon.database import arrow
from duckanon.errors import InfeasibleError, PolicyError
from duckanon.kernels.closeness.reference import LARGEST_TOTAL
from duckanon.policy.kinds import NUMBERS
from duckanon.release.stages.embed import (
    CODE_DIRECTIONS,
    EXACT_VALUES,
    Coordinates,
    coordinates,
    dimensions,
    signs_of,
    simplex,
)
from duckanon.release.stages.limit import EVENED, check_l, threshold_of
from duckanon.spark.domain import digest, domain_of
from duckanon.spark.stage import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.stage import Field
    from duckanon.spark.domain import Domain
    from duckanon.spark.stage import Staged

GRID_STEPS = 1 << 26
"""Steps of a range to which numbers are rounded for their moments, so that squares are whole numbers."""

_WHOLE_CLASSES = "or anonymize with DuckDB, which looks for records to suppress until the others reach it"
"""Advice if a part of a table may have an l that the table lacks: Spark suppresses whole classes only."""


@dataclass(frozen=True)
class Axis:
    """Map from a quasi-identifier to coordinates."""

    field: Field
    axis: Coordinates  # with corners of `values`, or without: then each task makes them
    values: pa.Array | None = None  # texts by code, NULL last; None for numbers and for many texts

    def numbers(self, column: pa.ChunkedArray, seed: int) -> tuple[Coordinates, NDArray[np.float64]]:
        """Return the axis with its corners, and the number or code of each record."""
        if self.field.kind in NUMBERS:
            return self.axis, _numbers(column, self.field)
        codes, hashes = self._codes(column)
        axis = self.axis if hashes is None else replace(self.axis, corners=signs_of(hashes, seed))
        return axis, codes.astype(np.float64)

    def cuts(self, column: pa.ChunkedArray) -> NDArray[np.float64]:
        """Return the numbers by which records are cut into tiles, NULL last."""
        if self.field.kind in NUMBERS:
            return np.nan_to_num(_numbers(column, self.field), nan=np.inf)
        codes, hashes = self._codes(column)
        return np.asarray((codes if hashes is None else hashes[codes]).astype(np.float64))

    def _codes(self, column: pa.ChunkedArray) -> tuple[NDArray[np.int32], NDArray[np.uint64] | None]:
        """Return the code of each text, and the hash of each code if the driver does not have all texts."""
        texts = arrow.sortable(pc.cast(column, pa.string()))
        known = arrow.distinct(texts) if self.values is None else self.values
        codes = arrow.numbers(arrow.places_among(texts, known))
        if self.values is not None:
            return codes, None
        return codes, np.array([digest(value) for value in known.to_pylist()], np.uint64)


@dataclass(frozen=True)
class Embedded:
    """Axes, codes and thresholds of the whole table, which every task gets."""

    axes: tuple[Axis, ...]
    fields: tuple[Field, ...]  # sensitive fields with a threshold, ordered distance first
    domains: tuple[Domain, ...]  # domain of each field
    thresholds: tuple[Threshold, ...]
    seed: int

    @property
    def dimensions(self) -> int:
        """Coordinates of a record."""
        return dimensions(tuple(one.axis for one in self.axes))

    def points(self, table: pa.Table) -> NDArray[np.float64]:
        """Coordinates (n, d) of some records."""
        found = [one.numbers(table.column(one.field.column), self.seed) for one in self.axes]
        columns = {axis.column: numbers for axis, numbers in found}
        return coordinates(tuple(axis for axis, _ in found), columns)

    def codes(self, table: pa.Table) -> NDArray[np.int64]:
        """Codes (S, n) of the sensitive values of some records."""
        pairs = zip(self.fields, self.domains, strict=True)
        found = [domain.codes(table.column(field.column)) for field, domain in pairs]
        return np.array(found, np.int64).reshape(len(found), len(table))


def embed(staged: Staged, policy: Policy, folder: str) -> Embedded:
    """Moments and domains of the whole table, by aggregates, O(n). The driver holds the domains.

    Values to be sorted are written to the folder.
    """
    numbers = _of_numbers(staged, [field for field in staged.bound.quasi if field.kind in NUMBERS])
    axes = tuple(numbers.get(field.column) or _of_text(staged, field) for field in staged.bound.quasi)
    bound = [
        one for one in staged.bound.sensitive if one.attribute.t is not None or one.attribute.l is not None
    ]
    fields = tuple(sorted(bound, key=lambda field: field.attribute.distance != "ordered"))
    if fields and staged.size >= LARGEST_TOTAL:
        raise PolicyError(
            f"t and l of {staged.size:,} records are not yet for Spark: up to {LARGEST_TOTAL - 1:,} are; "
            "release parts of them, each a whole of its own, or ask for k alone"
        )
    return limited(Embedded(axes, fields, (), (), policy.seed), staged, policy, folder)


def limited(embedded: Embedded, staged: Staged, policy: Policy, folder: str) -> Embedded:
    """Same axes, with domains and thresholds of the staged records."""
    domains, thresholds = [], []
    for field in embedded.fields:
        name = staged.bound.name_of(field.column)
        asked = replace(field, attribute=replace(field.attribute, name=name))
        distance = field.attribute.distance or "equal"
        domain = domain_of(staged.frame, field.column, distance, f"{folder}_{field.column}")
        try:
            check_l(asked, domain.counts, policy)
        except InfeasibleError as missed:
            if policy.suppression_limit and policy.audited().l_diversity in EVENED:
                raise InfeasibleError(f"{missed}, {_WHOLE_CLASSES}", missed.best) from missed
            raise
        thresholds.append(domain.strict(threshold_of(asked, domain.counts, None, policy), name))
        domains.append(domain)
    return replace(embedded, domains=tuple(domains), thresholds=tuple(thresholds))


def _numbers(column: pa.ChunkedArray, field: Field) -> NDArray[np.float64]:
    """Return numbers as `columns.number` does, NaN for NULL."""
    if field.type == "DATE":
        column = pc.cast(column, pa.int32())
    if field.kind == "timestamp":
        column = pc.cast(column, pa.int64())
    return arrow.numbers(pc.cast(column, pa.float64(), safe=False)).astype(np.float64)


def _of_text(staged: Staged, field: Field) -> Axis:
    weight = float(field.attribute.weight)
    texts = staged.frame.select(sf.col(field.column).cast("string").alias("value"))
    counted = texts.groupBy("value").count()
    rows = counted.limit(EXACT_VALUES + 1).toArrow()
    if len(rows) > EXACT_VALUES:
        [row] = counted.agg(sf.sum(sf.col("count").cast("decimal(38,0)") * sf.col("count"))).collect()
        axis = _nominal(field, weight, np.zeros((0, CODE_DIRECTIONS)), 1 - float(row[0]) / staged.size**2)
        return Axis(field, axis)
    values = arrow.distinct(arrow.sortable(rows.column("value")))
    counts = arrow.numbers(rows.column("count"))[_order(values, rows.column("value"))]
    shares = counts / staged.size
    return Axis(field, _nominal(field, weight, simplex(len(values)), 1 - float((shares**2).sum())), values)


def _nominal(field: Field, weight: float, corners: NDArray[np.float64], width: float) -> Coordinates:
    column = f"x_{field.column}"
    return Coordinates(column, 0, 0.0, 0.0, math.sqrt(weight), False, corners, weight * width / 2)


def _of_numbers(staged: Staged, fields: Sequence[Field]) -> dict[str, Axis]:
    """Return the axes of numbers by one aggregate: mean and standard deviation on a grid over each range."""
    if not fields:
        return {}
    sums = []
    for field in fields:
        low, high = staged.ranges[field.column]
        if low is None or high is None or low == high:
            sums += [sf.lit(0), sf.lit(0), sf.lit(0)]
            continue
        # Halves keep the range of very large numbers finite; `round` would make a decimal of each number.
        step = sf.rint((number(field) / 2 - low / 2) / (high / 2 - low / 2) * GRID_STEPS).cast("bigint")
        square = step * step
        # Two parts of a square have sums that fit in a BIGINT. Sums of decimals take many times as long.
        rest = square.bitwiseAND(sf.lit(GRID_STEPS - 1))
        sums += [sf.sum(step), sf.sum(sf.shiftright(square, GRID_STEPS.bit_length() - 1)), sf.sum(rest)]
    [found] = staged.frame.agg(*sums).collect()
    steps = zip(found[::3], found[1::3], found[2::3], strict=True)
    return {
        field.column: _of_number(staged, field, total, parts * GRID_STEPS + rest)
        for field, (total, parts, rest) in zip(fields, steps, strict=True)
    }


def _of_number(staged: Staged, field: Field, total: int, squares: int) -> Axis:
    """Return the axis of a number from its range, the sum of its grid steps and the sum of their squares."""
    (low, high), count = staged.ranges[field.column], staged.values[field.column]
    weight = float(field.attribute.weight)
    share = 1 - count / staged.size
    exponent, center, spread = 0, 0.0, 0.0
    if low is not None and high is not None and low < high:
        exponent = math.frexp(max(-low, high))[1] + 1
        width = (math.ldexp(high, -exponent) - math.ldexp(low, -exponent)) / GRID_STEPS
        center = math.ldexp(low, -exponent) + total / count * width
        spread = math.sqrt(max(count * squares - total * total, 0)) / count * width
    variance = weight * ((1 - share) * (spread > 0) + share * (1 - share))
    axis = Coordinates(
        f"x_{field.column}", exponent, center, spread, math.sqrt(weight), count < staged.size, None, variance
    )
    return Axis(field, axis)


def _order(values: pa.Array, column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the row of each value."""
    places = arrow.numbers(arrow.places_among(arrow.sortable(column), values))
    rows = np.empty(len(places), np.int64)
    rows[places] = np.arange(len(places))
    return rows
