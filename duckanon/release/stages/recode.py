"""Recode: the labels of the partition become the released table, one value a class and quasi-identifier.

Means of integers, DECIMAL, DATE and TIMESTAMP are exact and rounded half away from zero. A date counts in
days from 1970, a timestamp in its own unit from 1970. Of several modes 'mode' takes the smallest, with NULL
last.

A class with too few values in a column releases NULL, because a mean of few would reveal them. A record of
such a class moves from the class mean to the place of NULL. For a class of s records with h values and sum S
of their scores, SSE grows by w^2 (S^2 + h^2) / s, where w^2 is the weight of the column.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon import progress
from duckanon.audits.report import Measure
from duckanon.database import arrow, engine, templates
from duckanon.database.relations import columns_of, named, subquery
from duckanon.errors import DuckanonError, SourceError
from duckanon.policy.names import CLASS
from duckanon.policy.reported import MIN_VALUES
from duckanon.release.stages.classes import class_means
from duckanon.release.stages.digits import with_digits
from duckanon.release.stages.stage import column_of
from duckanon.release.tables import counted, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    import numpy.typing as npt

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.classes import Classes
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.stage import Field, Staged


@dataclass(frozen=True)
class Recoded:
    """The released table before its audit."""

    table: str  # temporary table: released columns in source order, rows in the order of their values
    in_step: bool  # whether all records are released, with classes in their order
    released: int  # records
    suppressed: int  # records without release, by suppression or ``nulls = 'suppress'``
    loss: float  # IL of the released values, in per cent


@progress.step("recode")
def recode(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    classes: Classes,
    levels: Mapping[str, int],
    policy: Policy,
) -> Recoded:
    """Give all records of a class one value a quasi-identifier. O(n log n) in SQL, O(n) for DOUBLE means.

    `levels` are the levels of full-domain generalization, by column. Rounding: top of the module.
    """
    candidate, means = f"{staged.workspace}_candidate", f"{staged.workspace}_means"
    more = loss_by_nulls(con, staged, embedded, classes, policy) if policy.release == "table" else 0.0
    # Kernels have read it. It is as large as the records, and would only be spilled from now on.
    drop_coded = templates.render("relation.sql.j2:drop", parts=("temp", embedded.coded), view=False)
    engine.run(con, drop_coded, "recode")
    _load(con, _labels(staged), classes.labels.read())
    if policy.release == "table":
        _load(con, means, _means(con, staged, classes) if classes.means is None else classes.means.read())
        _value(con, staged, means, levels, policy)
    else:
        _number(con, staged)
    step = _place(con, staged)
    given: dict[str, object] = {
        "fields": staged.fields,
        "records": staged.records,
        "placed": placed_relation(staged),
        "in_step": step,
    }
    loss = min(classes.information_loss + more, 100.0)
    gone = staged.left_out + classes.suppressed
    recoded = Recoded(candidate, step, staged.size - classes.suppressed, gone, loss)
    if policy.release == "anatomy":
        _in_two_tables(con, staged, candidate, given)
        return recoded
    if policy.release == "swap":
        statement = templates.render(
            "recode/swap.sql.j2",
            candidate=candidate,
            members=f"{staged.workspace}_members",
            quasi=staged.quasi,
            number=CLASS,
            seed=policy.seed,
            **given,
        )
    else:
        keys = _sort_keys(staged.fields)
        first = keys[0][0].quasi and not any(key[0].quasi for key in keys[1:])
        statement = templates.render(
            "recode/candidate_by_class.sql.j2" if first else "recode/candidate.sql.j2",
            candidate=candidate,
            classes=classes_relation(staged),
            keys=keys,
            **given,
        )
    engine.run(con, statement, "recode")
    return recoded


def _value(
    con: duckdb.DuckDBPyConnection, staged: Staged, means: str, levels: Mapping[str, int], policy: Policy
) -> None:
    """Make the table of the classes with their released values; the means of DOUBLEs are given."""
    counted = sparse(staged, policy)
    statement = templates.render(
        "recode/class_values.sql.j2",
        classes=classes_relation(staged),
        records=staged.records,
        labels=_labels(staged),
        means=means,
        quasi=with_digits(con, staged),
        climbs=staged.climbs,
        levels=levels,
        in_sql=[field for field in staged.quasi if field in counted or not field.averaged],
        sparse=[field.column for field in counted],
        least=policy.least_values,
        subject=staged.subject is not None,
        alone=False,
    )
    try:
        engine.run(con, statement, "recode")
    except DuckanonError as failure:
        # A sum beyond HUGEINT, or one number of type UHUGEINT.
        if "out of range" not in str(failure).lower():
            raise
        raise SourceError(
            "recode: the numbers of a quasi-identifier are too large for an exact mean: "
            "CAST the column to DOUBLE in the source query, or recode it by 'mode', 'range' or 'set'"
        ) from failure


def class_codes(
    con: duckdb.DuckDBPyConnection, staged: Staged, classes: Classes, fields: Sequence[Field], policy: Policy
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Ranks (fields, classes), from 0, of the values that each class would release, and which are NULL.

    NULL has the last rank. O(n log n) in SQL.
    """
    means, made = f"{staged.workspace}_means", classes_relation(staged)
    _load(con, _labels(staged), classes.labels.read())
    _load(con, means, _means(con, staged, classes) if classes.means is None else classes.means.read())
    _value(con, staged, means, {}, policy)
    codes = np.empty((len(fields), classes.count), dtype=np.int64)
    nulls = np.zeros(codes.shape, dtype=bool)
    for row, null, field in zip(codes, nulls, fields, strict=True):
        text = field.sort_type == "VARCHAR"
        query = templates.render("recode/coded.sql.j2", classes=made, column=field.column, text=text)
        found = engine.column(con, query, "recode", classes.count)
        null[:] = np.isnan(found)
        row[:] = np.where(null, np.max(found, where=~null, initial=-1.0) + 1.0, found)
    for table in (_labels(staged), means, made):
        drop = templates.render("relation.sql.j2:drop", parts=("temp", table), view=False)
        engine.run(con, drop, "recode")
    return codes, nulls


def _number(con: duckdb.DuckDBPyConnection, staged: Staged) -> None:
    """Make the table of the classes for unchanged quasi-identifiers: each class has a number."""
    statement = templates.render(
        "recode/numbered.sql.j2",
        classes=classes_relation(staged),
        records=staged.records,
        labels=_labels(staged),
        quasi=staged.quasi,
    )
    engine.run(con, statement, "recode")


def _place(con: duckdb.DuckDBPyConnection, staged: Staged) -> bool:
    """Make the table of the released records' classes, and tell whether it is `in_step` with the records.

    Then no join has to look up the class of a record.
    """
    placed = placed_relation(staged)
    statement = templates.render(
        "recode/placed.sql.j2:placed", placed=placed, labels=_labels(staged), classes=classes_relation(staged)
    )
    engine.run(con, statement, "recode")
    step = in_step(con, staged, placed)
    if step:
        engine.run(con, templates.render("recode/placed.sql.j2:unnumbered", placed=placed), "recode")
    return step


def in_step(con: duckdb.DuckDBPyConnection, staged: Staged, table: str) -> bool:
    """Whether a temporary table with a record_id has all records in their stored order. O(n).

    Several threads write a table in order, unless a setting of the session permits any order.
    """
    query = templates.render("recode/placed.sql.j2:in_step", table=table, size=staged.size)
    return staged.in_order and bool(engine.rows(con, query, "recode")[0][0])


def label(con: duckdb.DuckDBPyConnection, staged: Staged, recoded: Recoded) -> None:
    """Make the released records with their classes, see `labelled_relation`. O(n).

    If some records are left out, the relation is as large as the records, so it is made after the audit has
    passed.
    """
    statement = templates.render(
        "recode/placed.sql.j2:labelled",
        labelled=labelled_relation(staged),
        records=staged.records,
        placed=placed_relation(staged),
        in_step=recoded.in_step,
    )
    engine.run(con, statement, "label")


def _in_two_tables(
    con: duckdb.DuckDBPyConnection, staged: Staged, candidate: str, given: dict[str, object]
) -> None:
    """Make the rows that the two tables of the release will give; the persons of the values are forgotten."""
    members = f"{staged.workspace}_members"
    statement = templates.render("recode/anatomy.sql.j2", members=members, number=CLASS, **given)
    engine.run(con, statement, "recode")
    relation = named("temp", members)
    columns = columns_of(con, relation, "recode")
    held = [field.name for field in staged.sensitive]
    first = [name for name, _ in columns if name not in held]
    persons = templates.render("relation.sql.j2:select", columns=first, relation=relation, order=())
    rows = whole([subquery(persons), subquery(counted(relation, columns, held))], columns, held)
    _keep(con, candidate, rows)
    drop = templates.render("relation.sql.j2:drop", parts=("temp", members), view=False)
    engine.run(con, drop, "recode")


def classes_relation(staged: Staged) -> str:
    """Name of the temporary table of the classes that `recode` leaves beside the candidate.

    A row is a class of the partition: class_id, released values, and ``released_class``, a number from 0 in
    the order of these values, the same for classes with equal values.
    """
    return f"{staged.workspace}_classes"


def placed_relation(staged: Staged) -> str:
    """Name of the temporary table of the released records' classes, which stays if it is ``in_step``.

    A row is a record: the class_id of the partition and the ``released_class``.
    """
    return f"{staged.workspace}_placed"


def labelled_relation(staged: Staged) -> str:
    """Name of the temporary relation of the released records from `label`.

    It has the columns of ``staged.records``, the class_id of the partition, and the ``released_class``.
    """
    return f"{staged.workspace}_labelled"


def _labels(staged: Staged) -> str:
    """Name of the temporary table (record_id, class_id) of the released records, which `_placed` drops."""
    return f"{staged.workspace}_labels"


def _load(con: duckdb.DuckDBPyConnection, table: str, rows: pa.Table | pa.RecordBatchReader) -> None:
    """Make a temporary table of rows, which DuckDB may spill."""
    with engine.registered(con, {f"{table}_rows": rows}):
        _keep(con, table, named(f"{table}_rows"))


def _keep(con: duckdb.DuckDBPyConnection, table: str, relation: str) -> None:
    engine.run(con, templates.render("relation.sql.j2:load", table=table, relation=relation), "recode")


def _means(con: duckdb.DuckDBPyConnection, staged: Staged, classes: Classes) -> pa.Table:
    """Arrow table of every class_id and the means of the floating-point columns; NULL without a mean."""
    labels = classes.by_record(staged.size)
    columns = {"class_id": arrow.arrow(np.arange(classes.count))}
    for field in (one for one in staged.quasi if one.averaged):
        values = column_of(con, staged.records, field.column, staged.size, "recode")
        columns[field.column] = arrow.arrow(class_means(values, labels, classes.count))
    return pa.table(columns)


def _sort_keys(fields: tuple[Field, ...]) -> list[tuple[Field, ...]]:
    """Fields in source order; adjacent quasi-identifiers are one key, because a class shares them."""
    keys: list[tuple[Field, ...]] = []
    for quasi, group in itertools.groupby(fields, key=lambda field: field.quasi):
        run = tuple(group)
        keys.extend([run] if quasi else [(field,) for field in run])
    return keys


def sparse(staged: Staged, policy: Policy) -> list[Field]:
    """Quasi-identifiers in which a class may have fewer values, or subjects with a value, than required."""
    short = policy.least_values > policy.k
    return [
        field
        for field in staged.quasi
        if field.rule.of_values and (short or field.column in staged.with_nulls)
    ]


def loss_by_nulls(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, classes: Classes, policy: Policy
) -> float:
    """Information loss in per cent of values released as NULL, in addition to the classes' loss. O(n)."""
    more, told = 0.0, sparse(staged, policy)
    if not told:
        return 0.0
    labels, size = classes.by_record(staged.size), staged.size
    subjects = None if staged.subject is None else column_of(con, staged.records, "subject", size, "recode")
    sizes = np.bincount(labels[labels >= 0], minlength=classes.count)
    for field, axis in zip(staged.quasi, embedded.axes, strict=True):
        if field not in told:
            continue
        values = column_of(con, embedded.coded, axis.column, size, "recode")
        there = (labels >= 0) & ~np.isnan(values)
        of, scores = labels[there], np.zeros(int(there.sum()))
        if axis.spread:
            scores = (np.ldexp(values[there], -axis.exponent) - axis.center) / axis.spread
        held = np.bincount(of, minlength=len(sizes))
        whose = held if subjects is None else _different(of, subjects[there], len(sizes))
        few = (whose < policy.least_values) & (held > 0)
        sums = np.bincount(of, weights=scores, minlength=len(sizes))
        more += axis.weight**2 * float(((sums[few] ** 2 + held[few] ** 2) / sizes[few]).sum())
    whole = staged.size * sum(axis.variance for axis in embedded.axes)
    return 100 * more / whole if whole else 0.0


def _different(
    labels: npt.NDArray[np.int64], subjects: npt.NDArray[np.float64], classes: int
) -> npt.NDArray[np.int64]:
    """Return the number of distinct subjects of each class."""
    pairs = np.unique(np.stack([labels, subjects.astype(np.int64)]), axis=1)
    return np.bincount(pairs[0], minlength=classes)


def min_values(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    policy: Policy,
    classes: int,
    *,
    relations: tuple[str, str],
) -> tuple[tuple[Measure, ...], tuple[str, ...]]:
    """The measure `min_values` by column, counted again from the released records, and warnings.

    `relations` are the temporary tables of released records with their class, and of class values. If kept,
    the measure shows its threshold, because the least count would describe a single class.
    """
    labelled, values = relations
    measures, warnings = [], []
    for field in sparse(staged, policy):
        query = templates.render(
            "recode/min_values.sql.j2",
            labelled=labelled,
            classes=values,
            column=field.column,
            subject=staged.subject is not None,
            least=policy.least_values,
        )
        fewest, violations, records, empty, lost = engine.rows(con, query, "audit")[0]
        least = float(fewest if violations else policy.least_values)
        counted = int(violations), int(records), violations == 0
        measures.append(Measure(MIN_VALUES, field.name, policy.least_values, least, classes, *counted))
        if empty:
            warnings.append(too_few(field.name, int(empty), int(lost), policy))
    return tuple(measures), tuple(warnings)


def too_few(name: str, classes: int, records: int, policy: Policy) -> str:
    """Warning of a column in which classes release NULL although some of their records have a value."""
    whose = "subjects" if policy.subject else "records"
    held = f"{records} value{'' if records == 1 else 's'}"
    what = (
        f"1 class with {held} of {name!r} releases"
        if classes == 1
        else f"{classes} classes with {held} of {name!r} release"
    )
    return (
        f"{what} NULL for it: fewer than {policy.least_values} {whose} of a class have one, and a mean of "
        "few tells them (min_values)"
    )
