"""Advice: warnings for the owner of a valid release on Spark, in the same words as for DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from duckanon.database import arrow, engine, templates
from duckanon.policy.bind import Attribute, Role
from duckanon.policy.kinds import NUMBERS
from duckanon.release.stages.advise.advise import (
    ALONE_MIN_SHARE,
    OWN_VALUE_MIN_SHARE,
    TOLD_SHARE,
    UNIQUE_MIN_SHARE,
    alone_by,
    alone_together,
    approximate,
    codes,
    collapse,
    decimal_comma,
    own_value,
    singles_out,
    tells_one,
    without_nulls,
)
from duckanon.release.stages.advise.sensitive import one_value, reveals
from duckanon.release.stages.stage import Field
from duckanon.spark.embed import GRID_STEPS
from duckanon.spark.recode import recoded
from duckanon.spark.stage import BoundColumns, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.embed import Embedded
    from duckanon.spark.stage import Staged

COUNT_MAX_ERROR_SHARE = 0.2
"""Share by which an approximate count of values may fall short of the true one."""

COUNT_MAX_ERROR_VALUES = 8
"""Further values by which an approximate count of few values may be too low."""

USUAL_SAMPLE_NUMBERS = 100_000
"""Numbers, about, of the sample from which the usual range of a column is taken."""

_NUMBER = r"^\p{Zs}*[+-]?([0-9]+|[0-9]{1,3}([.][0-9]{3})+)(,[0-9]+)?\p{Zs}*\z"
_THOUSANDS = r"^\p{Zs}*[+-]?[0-9]{1,3},[0-9]{3}\p{Zs}*\z"
"""Patterns of `sql/advice/commas.sql.j2` for Java, with the spaces that DuckDB trims."""

_NUMBERED = Field(Attribute("o0", Role.INSENSITIVE, "BIGINT", "integer"), "o0")
"""The number of a class as a column; those of the DataFrame are o1, o2, ..."""

_SUMS = {"far": sf.sum, "value": sf.max, "others": sf.sum, "above": sf.sum}
"""Sums of a class and how they add up: `far` counts outliers, `value` is the outlier if there is exactly one,
`others` counts usual numbers, `above` sums their distance from the lowest, in steps of the usual range."""


@dataclass(frozen=True)
class AdvisedRelease:
    """A release, its records and its classes."""

    staged: Staged
    embedded: Embedded
    labelled: DataFrame  # staged records with the number of their first class
    final: DataFrame  # released records as staged, with the number of their final class
    released: DataFrame
    classes: int  # of released values, which several final classes may share


@dataclass(frozen=True)
class ColumnFacts:
    """Counts of values in the columns of the staged records."""

    others: Sequence[Field]  # insensitive columns
    kept: Sequence[Field]  # quasi-identifiers whose released value is one record's value
    commas: Mapping[Field, Mapping[str, bool]]  # texts that are numbers with a comma, and their form
    many: Sequence[Field]  # texts with approximate distances
    different: Mapping[str, int]  # distinct values by column, where a warning is possible
    together: int  # approximate number of combinations of insensitive values

    def own(self, field: Field, values: int) -> bool:
        """Whether the mode of a class is one person's own value; `values` records have a value."""
        different = self.different.get(field.column, 0)
        return different > 1 and different >= OWN_VALUE_MIN_SHARE * values


def advice(made: AdvisedRelease, policy: Policy, *, records: int, loss: float) -> tuple[str, ...]:
    """Warnings about the columns and the loss of a release, in the same order as for DuckDB."""
    found = [*_revealed(made.released, made.staged.bound), *_of_columns(made, policy)]
    if made.staged.left_out:
        found.append(without_nulls(made.staged.left_out))
    cost = collapse(made.classes, records, loss, policy.k)
    return (*found, *([cost] if cost else []))


def _revealed(released: DataFrame, bound: BoundColumns) -> Iterator[str]:
    """Warn of sensitive columns without a threshold if some classes have one value; NULL is a value."""
    free = [field for field in bound.sensitive if not field.attribute.limited]
    if not free:
        return
    named = released.toDF(*(field.column for field in bound.fields))
    values = [sf.count_distinct(sf.struct(field.column)).alias(field.column) for field in free]
    classes = named.groupBy(*(field.column for field in bound.quasi)).agg(
        sf.count(sf.lit(1)).alias("members"), *values
    )
    of_one = [sf.col(field.column) == 1 for field in free]
    [row] = classes.agg(
        sf.count(sf.lit(1)), sf.sum("members"), *map(sf.count_if, of_one),
        *(sf.sum(sf.when(one, sf.col("members")).otherwise(0)) for one in of_one),
    ).collect()  # fmt: skip
    count, records, counts = row[0], row[1], row[2:]
    for field, alike, members in zip(free, counts[: len(free)], counts[len(free) :], strict=True):
        name = bound.name_of(field.column)
        if members == records and named.select(field.column).distinct().limit(2).count() == 1:
            yield one_value(name, records)
        elif alike:
            yield reveals(name, alike, count, members, records)


def _of_columns(made: AdvisedRelease, policy: Policy) -> Iterator[str]:
    """Warn of single columns, in the same order as for DuckDB."""
    facts, values, bound = _column_facts(made), made.staged.values, made.staged.bound
    yield from _insensitive(made.staged, facts)
    yield from codes(bound.quasi, [bound.name_of(field.column) for field in bound.quasi], policy)
    yield from _dominated(made, policy)
    own = [field for field in facts.kept if facts.own(field, values[field.column])]
    own = [field for field in own if field not in facts.commas]
    for field in own:
        different = facts.different[field.column]
        yield own_value(bound.name_of(field.column), field, different, values[field.column])
    for field, look in facts.commas.items():
        name = bound.name_of(field.column)
        # In Spark a name in double quotes is a text: names have backticks.
        yield decimal_comma(name, look, quoted=f"`{name.replace('`', '``')}`")
    for field in facts.many:
        if field not in own and field not in facts.commas:
            null = values[field.column] < made.staged.size  # NULL has a code of its own
            yield approximate(bound.name_of(field.column), facts.different[field.column] + null)


def _column_facts(made: AdvisedRelease) -> ColumnFacts:
    """Count values: approximately in one pass, then exactly where a warning is possible.

    Columns whose values the driver already has are not counted again.
    """
    staged, bound, known = made.staged, made.staged.bound, _known(made.embedded)
    others = [field for field in bound.fields if field.attribute.role is Role.INSENSITIVE]
    kept = [field for field in bound.quasi if field.rule.shows and field.kind != "boolean"]
    texts = [field for field in (*bound.quasi, *bound.sensitive) if field.kind == "text"]
    seen = _seen(
        staged, others, [one for one in kept if one not in known], [one for one in texts if one not in known]
    )
    looks = _looks({field: known[field] for field in texts if field in known})
    looks |= {field: seen[f"look_{field.column}"].asDict() for field in texts if field not in known}
    commas = {field: looks[field] for field in texts if looks[field]["numbers"]}
    different = {field.column: len(values) - values.null_count for field, values in known.items()}
    axes = made.embedded.axes
    many = [axis.field for axis in axes if axis.values is None and axis.field.kind not in NUMBERS]
    wanted = dict.fromkeys(others, ALONE_MIN_SHARE * staged.size)
    wanted |= {
        field: OWN_VALUE_MIN_SHARE * staged.values[field.column] for field in kept if field not in commas
    }
    asked = [field for field in wanted if field not in known]
    exactly = [field for field in asked if _enough(seen[f"about_{field.column}"], wanted[field])]
    exactly += [field for field in many if field not in exactly and field not in commas]
    if exactly:
        [row] = staged.frame.agg(*(sf.count_distinct(field.column) for field in exactly)).collect()
        different |= zip((field.column for field in exactly), row, strict=True)
    return ColumnFacts(others, kept, commas, many, different, seen.get("about_together", 0))


def _known(embedded: Embedded) -> dict[Field, pa.Array]:
    """Distinct values of texts, NULL included, for the columns whose values the driver has."""
    found = {axis.field: axis.values for axis in embedded.axes if axis.values is not None}
    for field, domain in zip(embedded.fields, embedded.domains, strict=True):
        if field.kind == "text" and domain.ranges == 1 and domain.rest is None:
            found[field] = domain.values
    return found


def _enough(about: int, least: float) -> bool:
    """Whether there may be `least` values, given an approximate count."""
    return about + COUNT_MAX_ERROR_VALUES >= (1 - COUNT_MAX_ERROR_SHARE) * least


def _seen(
    staged: Staged, others: Sequence[Field], kept: Sequence[Field], texts: Sequence[Field]
) -> Mapping[str, Any]:
    """Count values approximately, and look at the form of texts, in one pass over all records."""
    about = [field.column for field in (*others, *kept)]
    asked = [sf.approx_count_distinct(column).alias(f"about_{column}") for column in about]
    asked += [_look(field.column).alias(f"look_{field.column}") for field in texts]
    if len(others) > 1:
        # A hash ignores NULL: without the flags, (1, NULL) and (NULL, 1) would have the same hash.
        parts = [part for field in others for part in (sf.isnull(field.column), sf.col(field.column))]
        asked.append(sf.approx_count_distinct(sf.xxhash64(*parts)).alias("about_together"))
    if not asked:
        return {}
    [row] = staged.frame.agg(*asked).collect()
    found: Mapping[str, Any] = row.asDict()
    return found


def _looks(values: Mapping[Field, pa.Array]) -> dict[Field, Mapping[str, bool]]:
    """Whether the distinct values of each column are numbers with a comma."""
    if not values:
        return {}
    tables = {field.column: pa.table({"value": texts}) for field, texts in values.items()}
    query = templates.render("advice/commas.sql.j2", domains=[*tables])
    with engine.in_memory(threads=1) as con, engine.registered(con, tables):
        [looks] = engine.rows(con, query, "advice")
    return dict(zip(values, looks, strict=True))


def _look(column: str) -> Column:
    """Whether the texts of a column are numbers with a comma, as in `sql/advice/commas.sql.j2`."""
    value, no = sf.col(column), sf.lit(False)
    comma = value.contains(",")
    numbers = sf.coalesce(sf.bool_and(value.rlike(_NUMBER)), no) & sf.coalesce(sf.bool_or(comma), no)
    return sf.struct(
        numbers.alias("numbers"),
        sf.coalesce(sf.bool_or(value.contains(".")), no).alias("points"),
        sf.coalesce(sf.bool_and(~comma | value.rlike(_THOUSANDS)), no).alias("thousands"),
    )


def _insensitive(staged: Staged, facts: ColumnFacts) -> Iterator[str]:
    """Warn of insensitive columns that single out records, alone or together."""
    common = []
    for field in facts.others:
        different = facts.different.get(field.column, 0)
        if different > UNIQUE_MIN_SHARE * staged.size:
            yield singles_out(staged.bound.name_of(field.column), different, staged.size)
            continue
        # There are at most as many unique records as values, NULL included.
        alone = _alone(staged, [field.column]) if different + 1 >= ALONE_MIN_SHARE * staged.size else 0
        if alone >= ALONE_MIN_SHARE * staged.size:
            yield alone_by(staged.bound.name_of(field.column), alone, staged.size)
        else:
            common.append(field.column)
    # There are at most as many unique records as combinations of all columns.
    if len(common) < 2 or not _enough(facts.together, ALONE_MIN_SHARE * staged.size):
        return
    alone = _alone(staged, common)
    if alone >= ALONE_MIN_SHARE * staged.size:
        yield alone_together(alone, staged.size, len(common))


def _alone(staged: Staged, columns: Sequence[str]) -> int:
    """Number of records that are unique in some columns."""
    combined = staged.frame.groupBy(*columns).agg(sf.count(sf.lit(1)).alias("records"))
    [[alone]] = combined.agg(sf.count_if(sf.col("records") == 1)).collect()
    return int(alone)


def _dominated(made: AdvisedRelease, policy: Policy) -> Iterator[str]:
    """Warn of means that reveal an outlier to a reader who knows the usual range of the column.

    As `sql/advice/dominated.sql.j2`, in whole numbers. Rounding makes a warning more likely.
    """
    found = _usual(made, policy.k)
    if not found:
        return
    parts = [part for field, (low, high) in found.items() for part in _parts(field, low, high)]
    classes = _summed(made.final.select("class_id", *parts), ["class_id"], found)
    tells = [_tells(field, low, high) for field, (low, high) in found.items()]
    [row] = classes.agg(sf.count(sf.lit(1)), *map(sf.count_if, tells)).collect()
    if any(row[1:]) and row[0] != made.classes:
        # A reader sees classes with equal released values as one class. Merging such classes can only remove
        # a warning.
        classes = _summed(*_together(made, classes, policy), found)
        [row] = classes.agg(sf.count(sf.lit(1)), *map(sf.count_if, tells)).collect()
    for field, count in zip(found, row[1:], strict=True):
        if count:
            yield tells_one(made.staged.bound.name_of(field.column), count, "record")


def _usual(made: AdvisedRelease, k: int) -> dict[Field, tuple[float, float]]:
    """Lowest and highest usual number of each column whose means may reveal an outlier.

    As `sql/advice/usual.sql.j2`; a column with few numbers is in the sample completely.
    """
    staged, values = made.staged, made.staged.values
    has_total = [field for field in staged.bound.quasi if field.attribute.has_total]
    samples = _samples(made.labelled, {field: values[field.column] for field in has_total})
    if not samples:
        return {}
    asked = []
    for field, sample in samples.items():
        value, (low, high) = number(field), _fences(sample)
        inside = value.between(low, high)
        asked += [sf.min(sf.when(inside, value)), sf.max(sf.when(inside, value))]
        asked.append(sf.max(sf.when(~inside, sf.abs(value))))
    [row] = staged.frame.agg(*asked).collect()
    found = {}
    for field, low, high, farthest in zip(samples, row[::3], row[1::3], row[2::3], strict=True):
        if low is None or farthest is None:
            continue
        # In a class without other numbers the mean is the outlier itself.
        missing = values[field.column] < staged.size
        if missing or 2 * TOLD_SHARE * farthest >= (k - 1) * (high - low):
            found[field] = low, high
    return found


def _samples(labelled: DataFrame, counts: Mapping[Field, int]) -> dict[Field, NDArray[np.float64]]:
    """Numbers of each column in order; a hash samples columns with more than `USUAL_SAMPLE_NUMBERS`.

    The hash includes the class number; otherwise all or none of many equal records were sampled.
    """
    if not counts:
        return {}
    chosen = sf.xxhash64(*(name for name in labelled.columns if name not in {"violation", "within", "whole"}))
    drawn = []
    for field, count in counts.items():
        every = -(-count // USUAL_SAMPLE_NUMBERS)
        value = number(field)
        value = value if every <= 1 else sf.when(sf.pmod(chosen, sf.lit(every)) == 0, value)
        drawn.append(value.alias(field.column))
    there = sf.isnotnull(sf.coalesce(*(sf.col(field.column) for field in counts)))
    rows = labelled.select(*drawn).where(there).toArrow()
    columns = {field: arrow.numbers(rows.column(field.column)) for field in counts}
    found = {field: np.sort(values[~np.isnan(values)]) for field, values in columns.items()}
    return {field: values for field, values in found.items() if len(values)}


def _fences(ordered: NDArray[np.float64]) -> tuple[float, float]:
    """Lowest and highest usual number, from ordered numbers; see `sql/advice/usual.sql.j2`."""
    size = len(ordered)
    tail, quarter = min((size + 39) // 40 + 1, (size + 3) // 4), (size + 3) // 4
    first, third = float(ordered[quarter - 1]), float(ordered[size - quarter])
    wide = 3 * (third - first)
    return min(float(ordered[tail - 1]), first - wide), max(float(ordered[size - tail]), third + wide)


def _parts(field: Field, low: float, high: float) -> list[Column]:
    """Terms of a record in the sums `_SUMS` of its class."""
    value = number(field)
    usual, wide = value.between(low, high), high / 2 - low / 2
    # Halves keep the range of very large numbers finite.
    share = (value / 2 - sf.lit(low / 2)) / sf.lit(wide)
    step = sf.rint(share * GRID_STEPS).cast("bigint") if wide else sf.lit(0)
    parts = {
        "far": sf.coalesce((~usual).cast("bigint"), sf.lit(0)),
        "value": sf.when(~usual, value),
        "others": sf.coalesce(usual.cast("bigint"), sf.lit(0)),
        "above": sf.when(usual, step).otherwise(0).cast("bigint"),
    }
    return [part.alias(f"{name}_{field.column}") for name, part in parts.items()]


def _summed(frame: DataFrame, keys: Sequence[str], fields: Mapping[Field, object]) -> DataFrame:
    """Sums `_SUMS` of records or of classes, by key."""
    names = [(name, f"{name}_{field.column}") for field in fields for name in _SUMS]
    return frame.groupBy(*keys).agg(*(_SUMS[name](column).alias(column) for name, column in names))


def _tells(field: Field, low: float, high: float) -> Column:
    """Whether the total of a class reveals its only outlier when all other numbers are at one end."""
    far, value, others, above = (sf.col(f"{name}_{field.column}") for name in _SUMS)
    most = sf.greatest(above, others * GRID_STEPS - above) - others / 2
    return (far == 1) & (most * sf.lit((high / 2 - low / 2) / GRID_STEPS) <= TOLD_SHARE * sf.abs(value / 2))


def _together(made: AdvisedRelease, classes: DataFrame, policy: Policy) -> tuple[DataFrame, list[str]]:
    """Classes with their released values, and the names of these columns. Recodes the records again."""
    fields = (*made.staged.bound.quasi, _NUMBERED)
    names = tuple(field.column for field in fields)
    numbered = made.final.withColumn(_NUMBERED.column, sf.col("class_id"))
    values = recoded(numbered, BoundColumns(fields, names), policy).dropDuplicates([_NUMBERED.column])
    same = classes.withColumnRenamed("class_id", _NUMBERED.column)
    return same.join(values, _NUMBERED.column), [*names[:-1]]
