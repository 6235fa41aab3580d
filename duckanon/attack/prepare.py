"""From two relations to the arrays of a linkage attack."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon import engine, sqlfiles
from duckanon.attack.cells import cells, counted
from duckanon.attack.columns import STAGE, columns_of, distribution, has_column, spreads
from duckanon.attack.groups import Problem
from duckanon.attack.scales import deviation, middles, own_value_inside, ranked, scaled
from duckanon.errors import DuckanonWarning, PolicyError, SourceError
from duckanon.release import released_rows
from duckanon.stages.stage import drop

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import numpy.typing as npt
    import pyarrow as pa

    from duckanon.attack.cells import Counted
    from duckanon.attack.columns import Column, Spread
    from duckanon.attack.options import Attack
    from duckanon.policy import Policy

_SLACK = 1e-9
"""A value at the edge of an interval is inside, whatever rounding makes of it."""


class Sides(NamedTuple):
    """The two tables: as SQL text, and how a report calls them."""

    original: str
    release: str
    original_name: str
    release_name: str


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


@dataclass(frozen=True)
class _Run:
    """What the steps of one preparation share."""

    con: duckdb.DuckDBPyConnection
    sides: Sides
    attack: Attack
    workspace: str
    quasi: tuple[Column, ...]
    guessed: tuple[Column, ...]
    wide: dict[str, Spread]
    records: int

    @property
    def every(self) -> tuple[Column, ...]:
        """Quasi-identifiers, then the other columns."""
        return tuple(dict.fromkeys((*self.quasi, *self.guessed)))

    def named(self, name: str) -> str:
        """Full name of a temporary table."""
        return f"{self.workspace}_{name}"

    def text(self, name: str, **values: object) -> str:
        """Text of an SQL file, with the names that all of them share."""
        names = {part: self.named(part) for part in ("sample", "classes", "owner")}
        return sqlfiles.render(f"linkage/{name}.sql.j2", **{"columns": self.quasi, **names, **values})

    def run(self, name: str, **values: object) -> None:
        """Run an SQL file that makes a table."""
        engine.run(self.con, self.text(name, **values), STAGE, error=SourceError)

    def table(self, name: str) -> pa.Table:
        """Rows of an SQL file."""
        return engine.table(self.con, self.text(name), STAGE)


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
    records, wide = spreads(con, sides.original, every, "original")
    released, _ = spreads(con, sides.release, every, "release")
    if released > records:
        raise SourceError(
            f"the release has {released} records and the original {records}: it is not the table it came from"
        )
    run = _Run(con, sides, attack, engine.workspace(), quasi, guessed, wide, records)
    try:
        run.run("classes", relation=sides.release)
        size = min(attack.sample, records)
        options = {"columns": every, "id": attack.id, "seed": attack.seed, "size": size}
        run.run("sample", relation=sides.original, **options)
        truth = np.full(size, -1) if attack.id is None else _truth(run, attack.id)
        return _prepared(run, truth, released)
    finally:
        drop(con, run.workspace)


def _truth(run: _Run, id_column: str) -> npt.NDArray[np.int64]:
    """Return the class of each record of the sample, -1 where it was left out; by the owner's id."""
    with _owners_copy(run, id_column) as copy:
        run.run("owner", relation=copy, id=id_column)
    query = run.text("check_owner", relation=run.sides.original, id=id_column)
    nameless, unknown, ambiguous, crowded, different = engine.rows(run.con, query, STAGE, error=SourceError)[
        0
    ]
    for count, what in (
        (
            different,
            "classes have another size in the release than by this policy: it was made in another way",
        ),
        (nameless, "released records have no id: give the id of every record, or leave out id"),
        (unknown, "released ids are unknown in the original: the id must mean the same in both tables"),
        (ambiguous, "ids were released in several classes: the id must be that of a record, or of a class"),
        (crowded, "classes are claimed by more records of the original than they have: the id is not unique"),
    ):
        if count:
            raise SourceError(f"id {id_column!r} does not say the truth: {count} {what}")
    classes = run.table("truth").column(0).fill_null(-1).to_numpy()
    found: npt.NDArray[np.int64] = classes.astype(np.int64)
    return found


@contextmanager
def _owners_copy(run: _Run, id_column: str) -> Iterator[str]:
    """Give the released records with their id, as SQL text: the release itself, or made by its policy."""
    policy = run.attack.policy
    if policy is None:
        if not has_column(run.con, run.sides.release, id_column):
            raise PolicyError(
                f"the release has no column {id_column!r}: give the owner's copy that has it, or the policy "
                "of the release, or leave out id to bound the risk from above"
            )
        yield run.sides.release
        return
    query = sqlfiles.render("files/query.sql.j2", relation=run.sides.original)
    with warnings.catch_warnings():
        # They were raised when the release was made.
        warnings.simplefilter("ignore", DuckanonWarning)
        copy = released_rows(run.con, query, _keeping(policy))
    registered = run.named("copy")
    run.con.register(registered, copy)
    try:
        yield sqlfiles.render("audit_bind/temporary.sql.j2", name=registered)
    finally:
        run.con.unregister(registered)


def _keeping(policy: Policy) -> Policy:
    """Return the policy that releases the identifiers, too."""
    if policy.insensitive == "*":
        return replace(policy, identifiers=())
    return replace(policy, identifiers=(), insensitive=(*policy.insensitive, *policy.identifiers))


def _prepared(run: _Run, truth: npt.NDArray[np.int64], released: int) -> Prepared:
    rows, drawn = run.table("cells"), run.table("drawn")
    records = rows.column("records").to_numpy().astype(np.int64)
    pairs = [
        cells(rows, column, number, drawn.column(f"x{number}"))
        for number, column in enumerate(run.quasi, start=1)
    ]
    disclosed = []
    for column in run.guessed:
        if column in run.quasi:
            cell, true = pairs[run.quasi.index(column)]
            guess = middles(cell, records, nominal=column.nominal)
        else:
            query = run.text("values", relation=run.sides.release, column=column)
            values = drawn.column(f"x{run.every.index(column) + 1}")
            guess, true = counted(run.con, query, column, values)
        disclosed.append(_interval(run, column, guess, true))
    scores = [
        scaled(run.wide.get(column.name), *found) for column, found in zip(run.quasi, pairs, strict=True)
    ]
    problem = Problem(
        np.column_stack([values for _, values in scores]),
        tuple(alternatives for alternatives, _ in scores),
        np.array([column.nominal for column in run.quasi]),
        records,
        truth,
        tuple(guess for guess, _, _ in disclosed),
        np.column_stack([low for _, low, _ in disclosed]),
        np.column_stack([high for _, _, high in disclosed]),
    )
    own = [
        own_value_inside(*part, truth) if column in run.quasi and run.attack.id is not None else None
        for column, part in zip(run.guessed, disclosed, strict=True)
    ]
    return Prepared(
        problem, run.quasi, run.guessed, tuple(own), run.records, released, int((truth < 0).sum())
    )


def _interval(
    run: _Run, column: Column, guess: Counted, true: npt.NDArray[np.float64]
) -> tuple[Counted, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return released values, and the two ends of the interval around the true ones, on its scale."""
    if column.nominal:
        return guess, true, true
    share, wide = run.attack.percent / 100 * (1 + _SLACK), run.wide[column.name]
    if run.attack.interval == "range":
        width = 2 * share * (wide.greatest / 2 - wide.least / 2)
    elif run.attack.interval == "sd":
        width = share * deviation(guess)
    else:
        found = distribution(run.con, run.sides.original, column)
        (guess, true), width = ranked(found, guess, true), share * run.records
    return guess, true - width, true + width
