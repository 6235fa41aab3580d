"""Recode: the labels of the partition become the released table, one value a class and quasi-identifier."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.database import arrow, engine, templates
from duckanon.errors import DuckanonError, SourceError
from duckanon.release.stages.means import class_means

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt

    from duckanon.policy.policy import Policy
    from duckanon.release.stages.repair import Repaired
    from duckanon.release.stages.stage import Field, Staged


@dataclass(frozen=True)
class Recoded:
    """The released table, which nobody has audited yet."""

    repaired: Repaired
    table: str  # temporary table: released columns in source order, rows in the order of their values


def recode(con: duckdb.DuckDBPyConnection, repaired: Repaired, policy: Policy) -> Recoded:
    """One value of each quasi-identifier for all records of a class.

    O(n log n) in SQL, and O(n) for the means of floating-point columns. Means of integers, DECIMAL, DATE and
    TIMESTAMP are exact and rounded half away from zero (a date counts in days, a timestamp in its own unit,
    both from 1970); 'mode' takes the smallest of several values, NULL last.
    """
    del policy
    staged, labels = repaired.partitioned.bucketed.limited.embedded.staged, repaired.labels
    candidate = f"{staged.workspace}_candidate"
    relations = {"labels": f"{staged.workspace}_labels", "means": f"{staged.workspace}_means"}
    averaged = [field for field in staged.quasi if field.recode == "mean" and not field.exact]
    statement = templates.render(
        "recode/candidate.sql.j2",
        candidate=candidate,
        classes=classes_relation(staged),
        records=staged.records,
        **relations,
        fields=staged.fields,
        quasi=staged.quasi,
        in_sql=[field for field in staged.quasi if field not in averaged],
        keys=_sort_keys(staged.fields),
    )
    means = _means(con, staged, averaged, labels)
    with engine.registered(con, {relations["labels"]: labels_table(labels), relations["means"]: means}):
        try:
            engine.run(con, statement, "recode")
        except DuckanonError as failure:
            if "Out of Range" not in str(failure):
                raise
            raise SourceError(
                "recode: the numbers of a quasi-identifier are too large for an exact mean: "
                "CAST the column to DOUBLE in the source query, or recode it by 'mode', 'range' or 'set'"
            ) from failure
    return Recoded(repaired, candidate)


def classes_relation(staged: Staged) -> str:
    """Name of the temporary table of the classes that `recode` leaves beside the candidate.

    A row a class of the partition: class_id, its released values, and ``released_class``, 0.. in the order of
    these values, one number for classes that share them all.
    """
    return f"{staged.workspace}_classes"


def _means(
    con: duckdb.DuckDBPyConnection, staged: Staged, averaged: list[Field], labels: npt.NDArray[np.int64]
) -> pa.Table:
    """Arrow table of every class_id and the means of the floating-point columns; NULL where there is none."""
    classes = int(labels.max(initial=-1)) + 1
    columns = {"class_id": arrow.arrow(np.arange(classes))}
    for field in averaged:
        query = templates.render("relation/numbers.sql.j2", records=staged.records, column=field.column)
        means = class_means(engine.column(con, query, "recode", staged.size), labels, classes)
        columns[field.column] = arrow.arrow(means)
    return pa.table(columns)


def _sort_keys(fields: tuple[Field, ...]) -> list[tuple[Field, ...]]:
    """Fields in source order; neighbouring quasi-identifiers are one key, since a class shares them."""
    keys: list[tuple[Field, ...]] = []
    for quasi, group in itertools.groupby(fields, key=lambda field: field.quasi):
        run = tuple(group)
        keys.extend([run] if quasi else [(field,) for field in run])
    return keys


def labels_table(labels: npt.NDArray[np.int64]) -> pa.Table:
    """Arrow table (record_id, class_id) of the records that are released; negative labels are suppressed."""
    record_id = np.arange(1, len(labels) + 1)
    if len(labels) and labels.min() < 0:
        record_id, labels = record_id[labels >= 0], labels[labels >= 0]
    return pa.table({"record_id": arrow.arrow(record_id), "class_id": arrow.arrow(labels)})
