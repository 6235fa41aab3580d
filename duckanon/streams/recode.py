"""Recode: tuples that leave a stream get the values of their class, by the rules of every release."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, outgoing, templates
from duckanon.database.intake import plain_type
from duckanon.errors import ReleaseError, SourceError
from duckanon.policy.bind import Role
from duckanon.policy.names import CLASS
from duckanon.release.stages.recode.digits import asked_of
from duckanon.release.stages.stage import Field
from duckanon.streams.methods import Left

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from duckanon.policy.bind import Attribute
    from duckanon.release.stages.stage import Rounding

STAGE = "stream"

LARGE = 1e300
"""Numbers beyond are divided before they are added."""


@dataclasses.dataclass(frozen=True)
class Recoder:
    """How the tuples of a stream are written."""

    fields: tuple[Field, ...]
    types: dict[str, pa.DataType]  # of the tuples, plain, by column
    class_id: bool
    climbs: Mapping[str, str]  # tables of hierarchies, by column of their field
    k: int
    least: int  # values that a class mean is of
    kinds: Mapping[str, pa.DataType] = dataclasses.field(default_factory=dict)  # of an input; see `encoded`
    _queries: dict[tuple[object, ...], str] = dataclasses.field(default_factory=dict)  # see `_query`
    _orders: dict[str, outgoing.Orders] = dataclasses.field(default_factory=dict)  # see `learn`

    def rounded(self, roundings: Mapping[str, Rounding]) -> Recoder:
        """Return it with other roundings of some columns."""
        fields = tuple(
            dataclasses.replace(field, rounding=roundings.get(field.column, field.rounding))
            for field in self.fields
        )
        return dataclasses.replace(self, fields=fields, _queries={})

    def learn(self, batch: pa.RecordBatch) -> None:
        """Keep the order of the values of ordered dictionaries, by which they are written."""
        for name in self.kinds:
            told = outgoing.orders([batch.column(name)], declared=True)
            if told:
                self._orders[name] = outgoing.joined(self._orders.get(name, {}), told)

    def schema(self, con: duckdb.DuckDBPyConnection) -> pa.Schema:
        """Columns that are written, with their types."""
        nothing = pa.Table.from_batches([], pa.schema(self.types.items()))
        none = np.zeros(0, np.int64)
        made = self.written(con, nothing, Left(none, none, none, none > 0, none, {}), None)[0]
        return self.encoded(made).schema

    def encoded(self, made: pa.Table) -> pa.Table:
        """Tuples that are written, in the types of the input, with dictionaries of their own values."""
        columns = {name: made.column(name) for name in made.column_names}
        for field in self.fields:
            column, kind = columns[field.name], self.kinds.get(field.name)
            # Tuples of Spark have no other type. Means of half floats are none.
            if kind is None or (
                field.quasi and (column.type != plain_type(kind) or pa.types.is_float16(kind))
            ):
                continue
            try:
                columns[field.name] = outgoing.encoded(column, kind, self._orders.get(field.name, {}))
            except pa.ArrowInvalid as beyond:
                raise SourceError(
                    f"column {field.name!r} of type {kind} cannot hold what leaves together: "
                    f"{engine.first_line(beyond)}; give int32 codes to its dictionary"
                ) from beyond
        return pa.table(columns)

    def written(
        self,
        con: duckdb.DuckDBPyConnection,
        tuples: pa.Table,
        left: Left,
        before: pa.Table | None,
        whose: NDArray[np.int64] | None = None,
    ) -> tuple[pa.Table, pa.Table, NDArray[np.int64]]:
        """Tuples as they are written; of each its class and values; their places in what is given.

        What leaves together comes in the order of output, and in each in that of the values that are no
        quasi-identifiers, so that nobody sees which of them came first. A tuple that leaves alone is not
        written, and has no place, if it lies outside of the ranges of its class by less than a coordinate
        tells: `before` has the values of the classes that left before. `whose` numbers the subject of each
        tuple, if one is told.
        """
        quasi, alone = [one for one in self.fields if one.quasi], bool(left.alone.any())
        members = pa.table(
            {
                "place": arrow.arrow(np.arange(len(left.classes))),
                "class_id": arrow.arrow(left.classes),
                "run": arrow.arrow(left.runs),
                **({"alone": pa.array(left.alone)} if alone else {}),
                **({} if whose is None else {"subject": arrow.arrow(whose)}),
                **{field.column: tuples.column(field.name) for field in self.fields},
            }
        )
        sparse = self._sparse(tuples)
        query = self._query(alone, before is not None, whose is not None, sparse)
        tables = {"duckanon_members": members, "duckanon_means": self._means(tuples, left)}
        with engine.registered(con, tables if before is None else {**tables, "duckanon_before": before}):
            found = engine.table(con, query, STAGE)
        values = found.select(["class_id", *(field.column for field in quasi)])
        self._check(found, tuples, left, sparse, whose)
        if alone:
            found = found.filter(found.column("inside"))
        places = found.column("place")
        columns, names = [], []
        for field in self.fields:
            if field.quasi:
                columns.append(self._typed(found.column(field.column), field))
            else:
                columns.append(tuples.column(field.name).take(places))
            names.append(field.name)
        if self.class_id:
            columns.append(found.column("class_id"))
            names.append(CLASS)
        return pa.table(dict(zip(names, columns, strict=True))), values, arrow.numbers(places)

    def _sparse(self, tuples: pa.Table) -> tuple[str, ...]:
        """Columns of which a class may have a value in fewer tuples, or subjects, than it needs."""
        short = self.least > self.k
        return tuple(
            field.column
            for field in self.fields
            if field.quasi and field.rule.of_values and (short or tuples.column(field.name).null_count)
        )

    def _check(
        self,
        found: pa.Table,
        tuples: pa.Table,
        left: Left,
        sparse: Sequence[str],
        whose: NDArray[np.int64] | None,
    ) -> None:
        """Count anew of how many values each class mean is that is to be written; an error if of too few."""
        names = {field.column: field.name for field in self.fields}
        formed = ~left.alone
        now = formed[arrow.numbers(found.column("place"))]
        for column in sparse:
            there = formed & ~np.asarray(tuples.column(names[column]).is_null())
            pairs = np.stack([left.classes, np.arange(len(left.classes)) if whose is None else whose])
            classes, held = np.unique(np.unique(pairs[:, there], axis=1)[0], return_counts=True)
            told = now & ~np.asarray(found.column(column).is_null())
            if not np.isin(arrow.numbers(found.column("class_id"))[told], classes[held >= self.least]).all():
                raise ReleaseError(
                    f"a class would tell a value of {names[column]!r} that fewer than min_values = "
                    f"{self.least} of it have: nothing of it was written; please report this"
                )

    def _query(self, alone: bool, before: bool, subject: bool, sparse: tuple[str, ...]) -> str:
        """Return the statement that recodes; rendered once: again for each batch takes a twentieth of all."""
        asked = alone, before, subject, sparse
        if asked not in self._queries:
            self._queries[asked] = templates.render(
                "stream/recode.sql.j2",
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

    def _means(self, tuples: pa.Table, left: Left) -> pa.Table:
        """Means of floating-point columns, that depend on no order; NULL where no tuple has a number."""
        formed = ~left.alone[left.starts]
        begins, ends = left.starts[formed], np.append(left.starts[1:], len(left.classes))[formed]
        means = {"class_id": arrow.arrow(left.classes[begins])}
        for field in self.fields:
            if field.quasi and field.recode == "mean" and not field.exact:
                values = arrow.numbers(tuples.column(field.name)).astype(np.float64)
                means[field.column] = arrow.arrow(_means_between(values, begins, ends))
        return pa.table(means)

    def _typed(self, column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
        """Values of a class in the type of the input, where the rule keeps it."""
        kind = _written_as(self.types[field.name])
        same = not field.rule.keeps_type or column.type == kind or isinstance(kind, pa.BaseExtensionType)
        return column if same else column.cast(kind)


def _written_as(kind: pa.DataType) -> pa.DataType:
    """Type of the values of classes; instants may lie between those of the input."""
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) and kind.tz else kind


def known(before: pa.Table | None, values: pa.Table, public: NDArray[np.int64]) -> pa.Table | None:
    """Return the values of some classes, a row each, of those that left before and now; None without any."""
    if not len(public):
        return None
    rows = values if before is None else pa.concat_tables([before, values])
    classes, first = np.unique(arrow.numbers(rows.column("class_id")), return_index=True)
    return rows.take(arrow.arrow(first[np.isin(classes, public)]))


def _means_between(
    values: NDArray[np.float64], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Means of the values between each begin and end, those of classes of one size together."""
    means, sizes = np.empty(len(begins)), ends - begins
    if len(sizes) and (sizes == sizes[0]).all() and np.array_equal(begins[1:], ends[:-1]):
        # Mostly all classes have k tuples, one class after the other: nothing is gathered.
        return class_means(values[begins[0] : ends[-1]].reshape(len(sizes), sizes[0]))
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size)
        means[same] = class_means(values[begins[same, None] + np.arange(size)])
    return means


def class_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each row (m, k) without NaN, NaN where there is nothing else; whatever the order of a row."""
    plain = ordered = np.sort(values, axis=1)
    counts = np.full(len(ordered), ordered.shape[1])
    if np.isnan(ordered[:, -1]).any():
        counts = np.maximum(np.sum(~np.isnan(ordered), axis=1), 1)
        plain = np.where(np.isnan(ordered), 0.0, ordered)
    low, high = ordered[:, 0], ordered[np.arange(len(ordered)), counts - 1]
    with np.errstate(over="ignore", invalid="ignore"):
        # Column by column, which handles many classes an instruction; one alone numpy adds in another order.
        columns = np.ascontiguousarray(plain.T)
        sums = np.add.accumulate(columns)[-1] if len(plain) == 1 else columns.sum(axis=0)
        means = sums / counts
        wide = np.maximum(-low, high) > LARGE
        means[wide] = (plain[wide] / counts[wide, None]).sum(axis=1)
    return np.asarray(np.clip(means, low, high))


def fields_of(attributes: Sequence[Attribute]) -> tuple[Field, ...]:
    """Columns that are written, in the order of the input."""
    kept = [one for one in attributes if one.role is not Role.IDENTIFIER]
    fields = [
        Field(one, f"{'q' if one.role is Role.QUASI_IDENTIFIER else 'o'}{number}")
        for number, one in enumerate(kept, start=1)
    ]
    return tuple(
        dataclasses.replace(field, rounding=asked_of(field)) if field.quasi and field.rule.rounds else field
        for field in fields
    )
