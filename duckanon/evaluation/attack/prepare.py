"""From two relations to the arrays of a linkage attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from duckanon.database import arrow, engine
from duckanon.database.engine import temporary
from duckanon.errors import PolicyError, SourceError
from duckanon.evaluation.attack.cells import cells, counted, suggested
from duckanon.evaluation.attack.columns import STAGE, columns_of, distribution, has_column, spreads
from duckanon.evaluation.attack.groups import Problem
from duckanon.evaluation.attack.run import Run
from duckanon.evaluation.attack.scales import deviation, own_value_inside, ranked
from duckanon.evaluation.attack.truth import true_classes

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt
    import pyarrow as pa

    from duckanon.evaluation.attack.cells import Counted, Disclosed, Known
    from duckanon.evaluation.attack.columns import Column
    from duckanon.evaluation.attack.options import Attack
    from duckanon.evaluation.attack.run import Sides

_SLACK = 1e-9
"""A value at the edge of an interval is inside, whatever rounding makes of it."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A problem, the columns it speaks about, and the size of both tables.

    Attributes
    ----------
    problem : Problem
        Sample and classes.
    quasi, guessed : tuple of Column
        Quasi-identifiers, and columns to be disclosed.
    own : tuple of ndarray of shape (r,), bool, or None
        For each of `guessed` that is a quasi-identifier: whether the value that was released for the record
        itself is in the interval; None where the truth is not known, or for another column.
    records, released, left_out : int
        Records of the original and of the release; of the sample those that were not released (all of them
        where the truth is not known).
    """

    problem: Problem
    quasi: tuple[Column, ...]
    guessed: tuple[Column, ...]
    own: tuple[npt.NDArray[np.bool_] | None, ...]
    records: int
    released: int
    left_out: int


def prepare(con: duckdb.DuckDBPyConnection, sides: Sides, attack: Attack) -> Prepared:
    """Read what an attack needs from both tables.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Sees both tables; temporary tables are made, and removed.
    sides : Sides
        The tables.
    attack : Attack
        Columns, interval, truth and sample.

    Returns
    -------
    Prepared
        O(n log n) in SQL for n records; in memory the sample and the released classes.

    Raises
    ------
    DuckanonError
        A table is empty or cannot be read, a column does not suit, or the id does not say the truth.
    """
    tables = sides[:2]
    if attack.id is not None and not has_column(con, sides.original, attack.id):
        raise PolicyError(
            f"the original has no column {attack.id!r}: id is the column that tells records apart"
        )
    quasi = columns_of(con, tables, attack.quasi_identifiers, "quasi_identifiers")
    guessed = columns_of(con, tables, attack.columns or attack.quasi_identifiers, "columns")
    every = tuple(dict.fromkeys((*quasi, *guessed)))
    records, wide = spreads(con, sides.original, every)
    with temporary(con) as workspace:
        run = Run(con, sides, attack, workspace, quasi, guessed, wide, records)
        run.run("classes", relation=sides.release)
        _check_texts(run)
        size = min(attack.sample, records)
        run.run("sample", relation=sides.original, columns=every, id=attack.id, seed=attack.seed, size=size)
        rows = run.table("cells")
        released = arrow.numbers(rows.column("records")).astype(np.int64)
        _check_size(records, int(released.sum()))
        truth = np.full(size, -1) if attack.id is None else true_classes(run, attack.id)
        return _prepared(run, rows, released, truth)


def _check_size(records: int, released: int) -> None:
    if not released:
        raise SourceError("the release is empty: there is nothing to link")
    if released > records:
        raise SourceError(
            f"the release has {released} records and the original {records}: it is not the table it came from"
        )


def _check_texts(run: Run) -> None:
    """Raise an error for a text that no record of the original has: nothing would be near it."""
    for number, column in enumerate(run.quasi, start=1):
        if not column.nominal:
            continue
        query = run.text("foreign", relation=run.sides.original, column=column, q=f"q{number}")
        texts, example = engine.rows(run.con, query, STAGE, error=SourceError)[0]
        if texts:
            raise SourceError(
                f"column {column.name!r} of the release has {texts} texts that the original does not have, "
                f"such as {example[:40]!r}: give the list of\nthe texts that each stands for (of a CSV, "
                "which turns lists into text, the parquet or DuckDB file), or NULL"
            )


def _prepared(
    run: Run, rows: pa.Table, records: npt.NDArray[np.int64], truth: npt.NDArray[np.int64]
) -> Prepared:
    drawn = run.table("drawn", columns=run.every)
    values = {column: drawn.column(number) for number, column in enumerate(run.every)}
    known = {
        column: cells(rows, column, number, values[column], run.wide.get(column.name))
        for number, column in enumerate(run.quasi, start=1)
    }
    intervals = [
        _interval(run, column, _disclosed(run, column, known, records, values[column]))
        for column in run.guessed
    ]
    axes = [part.axis for part in known.values()]
    problem = Problem(
        np.stack([part.values for part in known.values()], axis=1),
        tuple(part.cells for part in known.values()),
        np.array([column.nominal for column in run.quasi]),
        np.array([[0.0, 0.0] if axis is None else axis.center for axis in axes]),
        np.array([1.0 if axis is None else axis.factor for axis in axes]),
        records,
        truth,
        tuple(guess for guess, _, _ in intervals),
        np.column_stack([low for _, low, _ in intervals]),
        np.column_stack([high for _, _, high in intervals]),
    )
    own = [
        own_value_inside(*part, truth) if column in run.quasi and run.attack.id is not None else None
        for column, part in zip(run.guessed, intervals, strict=True)
    ]
    return Prepared(
        problem,
        run.quasi,
        run.guessed,
        tuple(own),
        run.records,
        int(records.sum()),
        int((truth < 0).sum()),
    )


def _disclosed(
    run: Run,
    column: Column,
    known: dict[Column, Known],
    records: npt.NDArray[np.int64],
    drawn: pa.ChunkedArray,
) -> Disclosed:
    if column in known:
        return suggested(known[column], records)
    query = run.text("values", relation=run.sides.release, column=column)
    return counted(run.con, query, column, drawn, run.wide.get(column.name))


def _interval(
    run: Run, column: Column, found: Disclosed
) -> tuple[Counted, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return released values, and the two ends of the interval around the true ones, on its scale."""
    guess, true, axis = found
    if axis is None:
        return guess, true, true
    share = run.attack.percent / 100 * (1 + _SLACK)
    if run.attack.interval == "range":
        width = share * axis.reach
    elif run.attack.interval == "sd":
        width = share * deviation(guess)
    else:
        values, before = distribution(run.con, run.sides.original, column)
        guess, true = ranked((axis.above(axis.placed(values)), before), guess, true)
        width = share * run.records
    return guess, true - width, true + width
