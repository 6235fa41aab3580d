"""The recoder: the records of a class get common values, by the rules of every release."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, templates
from duckanon.errors import ReleaseError
from duckanon.policy.bind import Role
from duckanon.policy.names import CLASS
from duckanon.release.stages.digits import asked_of
from duckanon.release.stages.stage import Field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from duckanon.policy.bind import Attribute
    from duckanon.release.stages.stage import Rounding

STAGE = "recode"

SUMMED_MAX_VALUE = 1e300
"""Largest absolute value in a class whose values are added before the division: larger sums may overflow."""


@dataclasses.dataclass(frozen=True)
class Members:
    """Records in the order of output: whole classes, and single records of earlier classes."""

    classes: NDArray[np.int64]  # (n,), class whose values the record gets
    starts: NDArray[np.int64]  # first record of each run: a class, or a single record
    alone: NDArray[np.bool_]  # (n,), whether the class was written before

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """Number, from 0, of the run of each record (n,)."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self.classes)))


@dataclasses.dataclass(frozen=True)
class Recoder:
    """Rules for writing records."""

    fields: tuple[Field, ...]
    types: Mapping[str, pa.DataType]  # of the records, without dictionaries, by name
    k: int
    least: int  # values, or subjects with a value, that a mean, median or range needs
    class_id: bool = False  # whether the class number is a column of its own
    climbs: Mapping[str, str] = dataclasses.field(default_factory=dict)  # tables of hierarchies, by column
    _queries: dict[tuple[object, ...], str] = dataclasses.field(default_factory=dict)  # see `_query`

    def rounded(self, roundings: Mapping[str, Rounding]) -> Recoder:
        """Return the recoder with other roundings of some columns."""
        fields = tuple(
            dataclasses.replace(field, rounding=roundings.get(field.column, field.rounding))
            for field in self.fields
        )
        return dataclasses.replace(self, fields=fields, _queries={})

    def empty(self, con: duckdb.DuckDBPyConnection) -> pa.Table:
        """Empty table of the written columns with their types."""
        nothing = np.zeros(0, np.int64)
        records = pa.Table.from_batches([], pa.schema(self.types.items()))
        return self.written(con, records, Members(nothing, nothing, nothing > 0), None)[0]

    def written(
        self,
        con: duckdb.DuckDBPyConnection,
        records: pa.Table,
        members: Members,
        before: pa.Table | None,
        subjects: NDArray[np.int64] | None = None,
    ) -> tuple[pa.Table, pa.Table, NDArray[np.int64]]:
        """Return the released records, class and values of each record, and places of the released ones.

        `before` has the values of earlier classes; `subjects` (n,) numbers the subjects.
        """
        quasi, alone = [one for one in self.fields if one.quasi], bool(members.alone.any())
        table = pa.table(
            {
                "place": arrow.arrow(np.arange(len(members.classes))),
                "class_id": arrow.arrow(members.classes),
                "run": arrow.arrow(members.runs),
                **({"alone": pa.array(members.alone)} if alone else {}),
                **({} if subjects is None else {"subject": arrow.arrow(subjects)}),
                **{field.column: records.column(field.name) for field in self.fields},
            }
        )
        sparse = self._sparse(records)
        query = self._query(alone, before is not None, subjects is not None, sparse)
        tables = {"duckanon_members": table, "duckanon_means": self._means(records, members)}
        with engine.registered(con, tables if before is None else {**tables, "duckanon_before": before}):
            found = engine.table(con, query, STAGE)
        values = found.select(["class_id", *(field.column for field in quasi)])
        self._check(found, records, members, sparse, subjects)
        if alone:
            # A record may lie outside its ranges by less than the precision of a coordinate.
            found = found.filter(found.column("inside"))
        places = found.column("place")
        # A run is sorted by its other columns, to hide the order of arrival.
        columns = {
            field.name: self._typed(found.column(field.column), field)
            if field.quasi
            else records.column(field.name).take(places)
            for field in self.fields
        }
        if self.class_id:
            columns[CLASS] = found.column("class_id")
        return pa.table(columns), values, arrow.numbers(places)

    def _sparse(self, records: pa.Table) -> tuple[str, ...]:
        """Columns in which a class may have fewer values, or subjects with a value, than required."""
        short = self.least > self.k
        return tuple(
            field.column
            for field in self.fields
            if field.quasi and field.rule.of_values and (short or records.column(field.name).null_count)
        )

    def _check(
        self,
        found: pa.Table,
        records: pa.Table,
        members: Members,
        sparse: Sequence[str],
        subjects: NDArray[np.int64] | None,
    ) -> None:
        """Count the values behind each class mean again; a ReleaseError if they are too few."""
        names = {field.column: field.name for field in self.fields}
        formed = ~members.alone
        now = formed[arrow.numbers(found.column("place"))]
        for column in sparse:
            there = formed & ~np.asarray(records.column(names[column]).is_null())
            owners = np.arange(len(members.classes)) if subjects is None else subjects
            pairs = np.stack([members.classes, owners])
            classes, held = np.unique(np.unique(pairs[:, there], axis=1)[0], return_counts=True)
            shown = now & ~np.asarray(found.column(column).is_null())
            if not np.isin(arrow.numbers(found.column("class_id"))[shown], classes[held >= self.least]).all():
                raise ReleaseError(
                    f"a class would tell a value of {names[column]!r} that fewer than min_values = "
                    f"{self.least} of it have: nothing of it was written; please report this"
                )

    def _query(self, alone: bool, before: bool, subject: bool, sparse: tuple[str, ...]) -> str:
        """Return the statement that recodes; rendering it for each batch takes a twentieth of all time."""
        asked = alone, before, subject, sparse
        if asked not in self._queries:
            self._queries[asked] = templates.render(
                "recode/members.sql.j2",
                members="duckanon_members",
                means="duckanon_means",
                before="duckanon_before" if before else None,
                alone=alone,
                fields=self.fields,
                quasi=[one for one in self.fields if one.quasi],
                climbs=self.climbs,
                levels={},
                subject=subject,
                sparse=sparse,
                least=self.least,
            )
        return self._queries[asked]

    def _means(self, records: pa.Table, members: Members) -> pa.Table:
        """Means of floating-point columns, one row a class; NULL for a class without a number."""
        formed = ~members.alone[members.starts]
        begins = members.starts[formed]
        ends = np.append(members.starts[1:], len(members.classes))[formed]
        means = {"class_id": arrow.arrow(members.classes[begins])}
        for field in self.fields:
            if field.averaged:
                values = arrow.numbers(records.column(field.name)).astype(np.float64)
                means[field.column] = arrow.arrow(means_between(values, begins, ends))
        return pa.table(means)

    def _typed(self, column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
        """Values of a class in the type of the input, if the rule keeps it."""
        kind = self.types[field.name]
        if pa.types.is_timestamp(kind) and kind.tz:
            # Means may lie between the instants of the input type.
            kind = pa.timestamp("us", kind.tz)
        same = not field.rule.keeps_type or column.type == kind or isinstance(kind, pa.BaseExtensionType)
        return column if same else column.cast(kind)


def fields_of(attributes: Sequence[Attribute]) -> tuple[Field, ...]:
    """Written columns in the order of the input, each with its requested rounding."""
    kept = [one for one in attributes if one.role is not Role.IDENTIFIER]
    fields = [
        Field(one, f"{'q' if one.role is Role.QUASI_IDENTIFIER else 'o'}{number}")
        for number, one in enumerate(kept, start=1)
    ]
    return tuple(
        dataclasses.replace(field, rounding=asked_of(field)) if field.quasi and field.rounds else field
        for field in fields
    )


def known_classes(before: pa.Table | None, values: pa.Table, public: NDArray[np.int64]) -> pa.Table | None:
    """Return earlier and present values of the classes `public`, one row a class; None without any."""
    if not len(public):
        return None
    rows = values if before is None else pa.concat_tables([before, values])
    classes, first = np.unique(arrow.numbers(rows.column("class_id")), return_index=True)
    return rows.take(arrow.arrow(first[np.isin(classes, public)]))


def means_between(
    values: NDArray[np.float64], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Mean of the values between each begin and end, without NaN; classes of one size together."""
    means, sizes = np.empty(len(begins)), ends - begins
    if len(sizes) and (sizes == sizes[0]).all() and np.array_equal(begins[1:], ends[:-1]):
        # Usually all classes have k records and are adjacent, so nothing is copied.
        return _class_means(values[begins[0] : ends[-1]].reshape(len(sizes), sizes[0]))
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size)
        means[same] = _class_means(values[begins[same, None] + np.arange(size)])
    return means


def _class_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each row (m, k) without its NaN, in any order of the row; NaN for a row of NaN alone."""
    plain = ordered = np.sort(values, axis=1)
    counts = np.full(len(ordered), ordered.shape[1])
    if np.isnan(ordered[:, -1]).any():
        counts = np.maximum(np.sum(~np.isnan(ordered), axis=1), 1)
        plain = np.where(np.isnan(ordered), 0.0, ordered)
    low, high = ordered[:, 0], ordered[np.arange(len(ordered)), counts - 1]
    with np.errstate(over="ignore", invalid="ignore"):
        # By columns, one instruction adds many classes. For a single row numpy uses another order of
        # additions.
        columns = np.ascontiguousarray(plain.T)
        sums = np.add.accumulate(columns)[-1] if len(plain) == 1 else columns.sum(axis=0)
        means = sums / counts
        wide = np.maximum(-low, high) > SUMMED_MAX_VALUE
        means[wide] = (plain[wide] / counts[wide, None]).sum(axis=1)
    return np.asarray(np.clip(means, low, high))
