"""Advice: what the owner of a valid release on Spark should know, in the words of every release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from duckanon.database import arrow, engine, templates
from duckanon.policy.bind import Attribute, Role
from duckanon.policy.kinds import NUMBERS
from duckanon.release.stages.advice import (
    ALONE,
    NEAR,
    NEARLY_UNIQUE,
    OWN_VALUE,
    alone_by,
    alone_together,
    approximate,
    codes,
    collapse,
    decimal_comma,
    one_value,
    own_value,
    reveals,
    singles_out,
    tells_one,
    without_nulls,
)
from duckanon.release.stages.stage import Field
from duckanon.spark.columns import BoundColumns, number
from duckanon.spark.embed import GRID_STEPS
from duckanon.spark.recode import recoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

    from duckanon.policy.policy import Policy
    from duckanon.spark.embed import Embedded
    from duckanon.spark.stage import Staged

COUNT_MAX_ERROR_SHARE = 0.2
"""What an approximate count of values may be short of the true one, by far."""

COUNT_MAX_ERROR_VALUES = 8
"""What it may be short besides, where there are few values."""

USUAL_SAMPLE_NUMBERS = 100_000
"""Numbers, about, that tell where a column usually lies."""

_NUMBER = r"^\p{Zs}*[+-]?([0-9]+|[0-9]{1,3}([.][0-9]{3})+)(,[0-9]+)?\p{Zs}*\z"
_THOUSANDS = r"^\p{Zs}*[+-]?[0-9]{1,3},[0-9]{3}\p{Zs}*\z"
"""Those of `sql/advice/commas.sql.j2`, with the spaces that DuckDB trims, in the words of Java."""

_NUMBERED = Field(Attribute("o0", Role.INSENSITIVE, "BIGINT", "integer"), "o0")
"""The number of a class as a column beside those of the DataFrame, which are numbered from 1."""

_SUMS = {"far": sf.sum, "value": sf.max, "others": sf.sum, "above": sf.sum}
"""What is known of a class, and how it adds up: numbers that are not usual; one of them, the only one where
there is one; usual numbers; how far these are above the lowest, in steps of the usual range."""


@dataclass(frozen=True)
class AdvisedRelease:
    """A release and what it was made from."""

    staged: Staged
    embedded: Embedded
    labelled: DataFrame  # all records as they are staged, with the number of their first class
    final: DataFrame  # those that are released, with the number of their final class
    released: DataFrame
    classes: int  # of the released values, which several classes may share


@dataclass(frozen=True)
class ColumnFacts:
    """What is known of the columns of the staged records."""

    others: Sequence[Field]  # insensitive ones
    kept: Sequence[Field]  # quasi-identifiers of which a class shows values of its records
    commas: Mapping[Field, Mapping[str, bool]]  # texts that are numbers with a comma, and how these look
    many: Sequence[Field]  # texts with approximate distances
    different: Mapping[str, int]  # different values, by column, where there may be enough to tell of them
    together: int  # combinations of the insensitive columns, about

    def own(self, field: Field, values: int) -> bool:
        """Whether the most frequent value in a class is one person's own; so many records have a value."""
        different = self.different.get(field.column, 0)
        return different > 1 and different >= OWN_VALUE * values


def advice(made: AdvisedRelease, policy: Policy, *, records: int, loss: float) -> tuple[str, ...]:
    """Warnings about columns of a release, and of what its thresholds cost, in the order of every release."""
    found = [*_revealed(made.released, made.staged.bound), *_of_columns(made, policy)]
    if made.staged.left_out:
        found.append(without_nulls(made.staged.left_out))
    cost = collapse(made.classes, records, loss, policy.k)
    return (*found, *([cost] if cost else []))


def _revealed(released: DataFrame, bound: BoundColumns) -> Iterator[str]:
    """Tell which sensitive columns without a threshold have classes of one value; NULL is a value."""
    free = [field for field in bound.sensitive if field.attribute.t is None and field.attribute.l is None]
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
    """Tell what is to be said of single columns, in the order in which a release of DuckDB does."""
    looked, values, bound = _looked(made), made.staged.values, made.staged.bound
    yield from _insensitive(made.staged, looked)
    yield from codes(bound.quasi, [bound.name_of(field.column) for field in bound.quasi], policy)
    yield from _dominated(made, policy)
    own = [field for field in looked.kept if looked.own(field, values[field.column])]
    own = [field for field in own if field not in looked.commas]
    for field in own:
        different = looked.different[field.column]
        yield own_value(bound.name_of(field.column), field, different, values[field.column])
    for field, look in looked.commas.items():
        name = bound.name_of(field.column)
        # What is in double quotes is a text for Spark, and no name.
        yield decimal_comma(name, look, quoted=f"`{name.replace('`', '``')}`")
    for field in looked.many:
        if field not in own and field not in looked.commas:
            null = values[field.column] < made.staged.size  # it has a code of its own
            yield approximate(bound.name_of(field.column), looked.different[field.column] + null)


def _looked(made: AdvisedRelease) -> ColumnFacts:
    """Count what is to be known of the columns: about in one pass, and exactly what may be said.

    Of a column whose values are known already, nobody asks the records again.
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
    wanted = dict.fromkeys(others, ALONE * staged.size)
    wanted |= {field: OWN_VALUE * staged.values[field.column] for field in kept if field not in commas}
    asked = [field for field in wanted if field not in known]
    exactly = [field for field in asked if _enough(seen[f"about_{field.column}"], wanted[field])]
    exactly += [field for field in many if field not in exactly and field not in commas]
    if exactly:
        [row] = staged.frame.agg(*(sf.count_distinct(field.column) for field in exactly)).collect()
        different |= zip((field.column for field in exactly), row, strict=True)
    return ColumnFacts(others, kept, commas, many, different, seen.get("about_together", 0))


def _known(embedded: Embedded) -> dict[Field, pa.Array]:
    """Different values of texts, NULL as one of them, where the driver has them all."""
    found = {axis.field: axis.values for axis in embedded.axes if axis.values is not None}
    for field, domain in zip(embedded.fields, embedded.domains, strict=True):
        if field.kind == "text" and domain.ranges == 1 and domain.rest is None:
            found[field] = domain.values
    return found


def _enough(about: int, least: float) -> bool:
    """Whether there may be so many values."""
    return about + COUNT_MAX_ERROR_VALUES >= (1 - COUNT_MAX_ERROR_SHARE) * least


def _seen(
    staged: Staged, others: Sequence[Field], kept: Sequence[Field], texts: Sequence[Field]
) -> Mapping[str, Any]:
    """Ask all records at once: about how many values there are, and how texts look."""
    about = [field.column for field in (*others, *kept)]
    asked = [sf.approx_count_distinct(column).alias(f"about_{column}") for column in about]
    asked += [_look(field.column).alias(f"look_{field.column}") for field in texts]
    if len(others) > 1:
        # A hash passes over NULL: without a word of it (1, NULL) and (NULL, 1) would be the same.
        parts = [part for field in others for part in (sf.isnull(field.column), sf.col(field.column))]
        asked.append(sf.approx_count_distinct(sf.xxhash64(*parts)).alias("about_together"))
    if not asked:
        return {}
    [row] = staged.frame.agg(*asked).collect()
    found: Mapping[str, Any] = row.asDict()
    return found


def _looks(values: Mapping[Field, pa.Array]) -> dict[Field, Mapping[str, bool]]:
    """Tell of each column, by its different values, whether they are numbers with a comma."""
    if not values:
        return {}
    tables = {field.column: pa.table({"value": texts}) for field, texts in values.items()}
    query = templates.render("advice/commas.sql.j2", domains=[*tables])
    with engine.in_memory(threads=1) as con, engine.registered(con, tables):
        [looks] = engine.rows(con, query, "advice")
    return dict(zip(values, looks, strict=True))


def _look(column: str) -> Column:
    """Tell whether a text is numbers with a comma, as `sql/advice/commas.sql.j2` does of its values."""
    value, no = sf.col(column), sf.lit(False)
    comma = value.contains(",")
    numbers = sf.coalesce(sf.bool_and(value.rlike(_NUMBER)), no) & sf.coalesce(sf.bool_or(comma), no)
    return sf.struct(
        numbers.alias("numbers"),
        sf.coalesce(sf.bool_or(value.contains(".")), no).alias("points"),
        sf.coalesce(sf.bool_and(~comma | value.rlike(_THOUSANDS)), no).alias("thousands"),
    )


def _insensitive(staged: Staged, looked: ColumnFacts) -> Iterator[str]:
    """Tell the insensitive columns whose values, each or together, belong to one record."""
    common = []
    for field in looked.others:
        different = looked.different.get(field.column, 0)
        if different > NEARLY_UNIQUE * staged.size:
            yield singles_out(staged.bound.name_of(field.column), different, staged.size)
            continue
        # No more records are alone than there are values; NULL may be one more.
        alone = _alone(staged, [field.column]) if different + 1 >= ALONE * staged.size else 0
        if alone >= ALONE * staged.size:
            yield alone_by(staged.bound.name_of(field.column), alone, staged.size)
        else:
            common.append(field.column)
    # No more records are alone than there are combinations, of all columns even more.
    if len(common) < 2 or not _enough(looked.together, ALONE * staged.size):
        return
    alone = _alone(staged, common)
    if alone >= ALONE * staged.size:
        yield alone_together(alone, staged.size, len(common))


def _alone(staged: Staged, columns: Sequence[str]) -> int:
    """Count the records whose values in some columns no other record has."""
    combined = staged.frame.groupBy(*columns).agg(sf.count(sf.lit(1)).alias("records"))
    [[alone]] = combined.agg(sf.count_if(sf.col("records") == 1)).collect()
    return int(alone)


def _dominated(made: AdvisedRelease, policy: Policy) -> Iterator[str]:
    """Tell the means that tell one value to whoever knows where those of the column usually lie.

    As `sql/advice/dominated.sql.j2`, in sums of whole numbers, which do not depend on the order of records.
    What they round is taken off, so that a class at the very limit is rather told of.
    """
    found = _usual(made, policy.k)
    if not found:
        return
    parts = [part for field, (low, high) in found.items() for part in _parts(field, low, high)]
    classes = _summed(made.final.select("class_id", *parts), ["class_id"], found)
    tells = [_tells(field, low, high) for field, (low, high) in found.items()]
    [row] = classes.agg(sf.count(sf.lit(1)), *map(sf.count_if, tells)).collect()
    if any(row[1:]) and row[0] != made.classes:
        # Some are released with equal values, and are one class to whoever looks at them. With others added
        # no more is told than before: where nothing was, nothing is.
        classes = _summed(*_together(made, classes, policy), found)
        [row] = classes.agg(sf.count(sf.lit(1)), *map(sf.count_if, tells)).collect()
    for field, count in zip(found, row[1:], strict=True):
        if count:
            yield tells_one(made.staged.bound.name_of(field.column), count, "record")


def _usual(made: AdvisedRelease, k: int) -> dict[Field, tuple[float, float]]:
    """Lowest and highest usual number of each column of which a mean may tell one that is not.

    As `sql/advice/usual.sql.j2`; of few numbers the sample is all of them.
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
        # Beside records without a number one is told whatever the others are.
        missing = values[field.column] < staged.size
        if missing or 2 * NEAR * farthest >= (k - 1) * (high - low):
            found[field] = low, high
    return found


def _samples(labelled: DataFrame, counts: Mapping[Field, int]) -> dict[Field, NDArray[np.float64]]:
    """Numbers of each column that has some, in order; of more than 100,000 those that a hash chooses.

    The hash is that of the record with the number of its class, by which equal records are told apart: else
    all or none of them would be chosen, however many there are.
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
    """Lowest and highest number that is usual, from numbers in order; see `sql/advice/usual.sql.j2`."""
    size = len(ordered)
    tail, quarter = min((size + 39) // 40 + 1, (size + 3) // 4), (size + 3) // 4
    first, third = float(ordered[quarter - 1]), float(ordered[size - quarter])
    wide = 3 * (third - first)
    return min(float(ordered[tail - 1]), first - wide), max(float(ordered[size - tail]), third + wide)


def _parts(field: Field, low: float, high: float) -> list[Column]:
    """What a record adds to the sums of its class."""
    value = number(field)
    usual, wide = value.between(low, high), high / 2 - low / 2
    # Halves, so that the range of very large numbers is finite.
    step = (
        sf.rint((value / 2 - sf.lit(low / 2)) / sf.lit(wide) * GRID_STEPS).cast("bigint")
        if wide
        else sf.lit(0)
    )
    parts = {
        "far": sf.coalesce((~usual).cast("bigint"), sf.lit(0)),
        "value": sf.when(~usual, value),
        "others": sf.coalesce(usual.cast("bigint"), sf.lit(0)),
        "above": sf.when(usual, step).otherwise(0).cast("bigint"),
    }
    return [part.alias(f"{name}_{field.column}") for name, part in parts.items()]


def _summed(frame: DataFrame, keys: Sequence[str], fields: Mapping[Field, object]) -> DataFrame:
    """Sums of classes, of their records or of classes that are one."""
    names = [(name, f"{name}_{field.column}") for field in fields for name in _SUMS]
    return frame.groupBy(*keys).agg(*(_SUMS[name](column).alias(column) for name, column in names))


def _tells(field: Field, low: float, high: float) -> Column:
    """Whether the total of a class tells its only unusual number: the others could all be at one end."""
    far, value, others, above = (sf.col(f"{name}_{field.column}") for name in _SUMS)
    most = sf.greatest(above, others * GRID_STEPS - above) - others / 2
    return (far == 1) & (most * sf.lit((high / 2 - low / 2) / GRID_STEPS) <= NEAR * sf.abs(value / 2))


def _together(made: AdvisedRelease, classes: DataFrame, policy: Policy) -> tuple[DataFrame, list[str]]:
    """Classes with their released values, and the names of these: they are recoded once more."""
    fields = (*made.staged.bound.quasi, _NUMBERED)
    names = tuple(field.column for field in fields)
    numbered = made.final.withColumn(_NUMBERED.column, sf.col("class_id"))
    values = recoded(numbered, BoundColumns(fields, names, names), policy).dropDuplicates([_NUMBERED.column])
    same = classes.withColumnRenamed("class_id", _NUMBERED.column)
    return same.join(values, _NUMBERED.column), [*names[:-1]]
