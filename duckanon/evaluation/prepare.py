"""Preparation of a linkage attack: arrays from two relations."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from duckanon.database import arrow, engine, templates
from duckanon.database.engine import temporary
from duckanon.database.relations import columns_of as columns_in
from duckanon.database.relations import named
from duckanon.errors import DuckanonWarning, PolicyError, SourceError
from duckanon.evaluation.columns import (
    STAGE,
    cells,
    columns_of,
    counted,
    deviation,
    distribution,
    has_column,
    own_value_inside,
    ranked,
    spreads,
    suggested,
)
from duckanon.evaluation.linking import Problem
from duckanon.hierarchies.tree import audit_tree
from duckanon.policy.bind import Attribute, Role, by_label
from duckanon.policy.checks import checked
from duckanon.policy.kinds import kind_of
from duckanon.policy.names import ByColumn, fold
from duckanon.release.unpublished import owners_copy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    import numpy.typing as npt
    import pyarrow as pa

    from duckanon.evaluation.columns import Counted, Disclosed, Known, SharedColumn, Spread
    from duckanon.policy.audit_policy import HierarchyRows
    from duckanon.policy.checks import Hierarchy
    from duckanon.policy.policy import Policy


Interval = Literal["range", "rank", "sd"]
SAMPLE = 10_000
"""Default number of records of the original that are linked."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A linkage attack.

    Attributes
    ----------
    quasi_identifiers : sequence of str
        Columns that an attacker may know.
    subsets : sequence of sequence of str, optional
        Known columns of each attack; by default all columns, each column alone, and all but one.
    columns : sequence of str, optional
        Columns whose values are to be disclosed; by default the quasi-identifiers.
    percent : float
        Half the width of the interval around a true value, above 0, in per cent of what `interval` names.
    interval : str
        ``range`` of the original column, ``rank`` among its values, or ``sd`` of the released column.
    id : str, optional
        Column of the original that tells records apart: its released value is the truth.
    policy : Policy, optional
        Policy of the release, for a release without the column `id`: the truth is computed anew by it. Needs
        `id`.
    hierarchies : mapping from column to str or to rows, optional
        Hierarchies of the quasi-identifiers that are released as labels, as in `duckanon.Policy`; by default
        those of the policy.
    sample : int
        Records of the original that are linked, at least 1; all records if there are no more.
    seed : int
        Draws another sample.

    Raises
    ------
    PolicyError
        A value is out of range, or a subset names other columns.
    """

    quasi_identifiers: Sequence[str]
    subsets: Sequence[Sequence[str]] | None = None
    columns: Sequence[str] | None = None
    percent: float = 5.0
    interval: Interval = "range"
    id: str | None = None
    policy: Policy | None = None
    hierarchies: Mapping[str, HierarchyRows] | None = None
    sample: int = SAMPLE
    seed: int = 0

    def __post_init__(self) -> None:
        _check_names(self.quasi_identifiers, "quasi_identifiers")
        if self.columns is not None:
            _check_names(self.columns, "columns")
        if self.interval not in get_args(Interval):
            raise PolicyError(f"unknown interval {self.interval!r}: use range, rank or sd")
        if not 0 < self.percent <= 100:
            raise PolicyError(f"percent must be above 0 and at most 100, not {self.percent}")
        if self.sample < 1:
            raise PolicyError(f"sample must be at least 1 record, not {self.sample}")
        if self.policy is not None and self.id is None:
            raise PolicyError(
                "a policy needs an id: name the column of the original that tells records apart"
            )
        known = {fold(name) for name in self.quasi_identifiers}
        for column in self.labels():
            if fold(column) not in known and self.hierarchies is not None:
                raise PolicyError(f"hierarchies names {column!r}, which is not among the quasi-identifiers")
        for subset in self.subsets or ():
            _check_names(subset, "a subset")
            for name in subset:
                if fold(name) not in known:
                    raise PolicyError(f"a subset names {name!r}, which is not among the quasi-identifiers")

    def labels(self) -> ByColumn[Hierarchy]:
        """Return the hierarchies of the quasi-identifiers that are released as labels."""
        if self.hierarchies is not None:
            return ByColumn(checked("hierarchies", self.hierarchies))
        if self.policy is None:
            return ByColumn()
        labelled = [name for name in self.policy.quasi_identifiers if by_label(self.policy, name)]
        return ByColumn({name: self.policy.hierarchies[name] for name in labelled})

    def known(self) -> list[tuple[int, ...]]:
        """Return the numbers of the known columns of each attack; the first attacker knows nothing."""
        number = {fold(name): at for at, name in enumerate(self.quasi_identifiers)}
        every = tuple(range(len(self.quasi_identifiers)))
        if self.subsets is not None:
            chosen = [tuple(sorted(number[fold(name)] for name in subset)) for subset in self.subsets]
        else:
            chosen = [every, *((at,) for at in every), *(every[:at] + every[at + 1 :] for at in every)]
        return list(dict.fromkeys([(), *chosen]))


def _check_names(names: Iterable[str], option: str) -> None:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise PolicyError(f"{option} is a list of columns, not {names!r}")
    folded = [fold(name) for name in names]
    if not folded:
        raise PolicyError(f"{option} names no column: name at least one")
    if len(set(folded)) < len(folded):
        raise PolicyError(f"{option} names a column twice: {', '.join(names)}")


class Sides(NamedTuple):
    """The two tables: as SQL text, and by the names of a report."""

    original: str
    release: str
    original_name: str
    release_name: str


@dataclass(frozen=True)
class Run:
    """What the steps of a preparation share."""

    con: duckdb.DuckDBPyConnection
    sides: Sides
    attack: Attack
    workspace: str  # prefix of the temporary tables
    quasi: tuple[SharedColumn, ...]
    guessed: tuple[SharedColumn, ...]  # columns to be disclosed
    wide: dict[str, Spread]  # spread of the original, by column
    records: int

    @property
    def every(self) -> tuple[SharedColumn, ...]:
        """Quasi-identifiers, then the other columns."""
        return tuple(dict.fromkeys((*self.quasi, *self.guessed)))

    def named(self, name: str) -> str:
        """Return the full name of a temporary table."""
        return f"{self.workspace}_{name}"

    def text(self, name: str, **values: object) -> str:
        """Return the text of a template, with the names that all templates share."""
        names = {part: self.named(part) for part in ("sample", "classes", "owner")}
        return templates.render(name, **{"columns": self.quasi, **names, **values})

    def run(self, name: str, **values: object) -> None:
        """Run a template that makes a table."""
        engine.run(self.con, self.text(name, **values), STAGE, error=SourceError)

    def table(self, name: str, **values: object) -> pa.Table:
        """Return the rows of a template."""
        return engine.table(self.con, self.text(name, **values), STAGE)


def true_classes(run: Run, id_column: str) -> npt.NDArray[np.int64]:
    """Return the class in which each sampled record was released, by the owner's id; -1 if left out.

    SourceError where the id does not say the truth. The tables of classes and sample must exist.
    """
    with _owners_copy(run, id_column) as copy:
        run.run("linkage/released.sql.j2:owner", relation=copy, id=id_column)
    query = run.text("linkage/released.sql.j2:check_owner", relation=run.sides.original, id=id_column)
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
    classes = run.table("linkage/released.sql.j2:truth").column(0).fill_null(-1).to_numpy()
    numbers: npt.NDArray[np.int64] = classes.astype(np.int64)
    return numbers


@contextmanager
def _owners_copy(run: Run, id_column: str) -> Iterator[str]:
    """Give the released records with their id, as SQL text: the release, or a copy made by its policy."""
    policy = run.attack.policy
    if policy is None:
        if not has_column(run.con, run.sides.release, id_column):
            raise PolicyError(
                f"the release has no column {id_column!r}: give the owner's copy that has it, or the policy "
                "of the release, or leave out id to bound the risk from above"
            )
        yield run.sides.release
        return
    query = templates.render("relation.sql.j2:rows", relation=run.sides.original)
    with warnings.catch_warnings():
        # The same warnings were raised when the release was made.
        warnings.simplefilter("ignore", DuckanonWarning)
        with owners_copy(run.con, query, policy) as copy:
            yield copy


_SLACK = 1e-9
"""Share by which intervals are widened, so that rounding leaves a value at the edge inside."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A problem, its columns, and the sizes of both tables."""

    problem: Problem
    quasi: tuple[SharedColumn, ...]
    guessed: tuple[SharedColumn, ...]
    # for each guessed column: whether the value released for the record is in the interval; None if unknown
    own: tuple[npt.NDArray[np.bool_] | None, ...]
    records: int
    released: int
    left_out: int  # records of the sample; all of them where the truth is unknown


def prepare(con: duckdb.DuckDBPyConnection, sides: Sides, attack: Attack) -> Prepared:
    """Read the arrays of an attack from both tables; temporary tables are removed.

    O(n log n) in SQL for n records; memory holds the sample and the released classes.
    """
    tables = sides[:2]
    if attack.id is not None and not has_column(con, sides.original, attack.id):
        raise PolicyError(
            f"the original has no column {attack.id!r}: id is the column that tells records apart"
        )
    with temporary(con) as workspace:
        below = _leaves(con, sides.original, attack, workspace)
        quasi = columns_of(con, tables, attack.quasi_identifiers, "quasi_identifiers", below=below)
        names = attack.columns or attack.quasi_identifiers
        guessed = columns_of(con, tables, names, "columns", below=below)
        every = tuple(dict.fromkeys((*quasi, *guessed)))
        records, wide = spreads(con, sides.original, every)
        run = Run(con, sides, attack, workspace, quasi, guessed, wide, records)
        run.run("linkage/released.sql.j2:classes", relation=sides.release)
        _check_texts(run)
        size = min(attack.sample, records)
        run.run(
            "linkage/original.sql.j2:sample",
            relation=sides.original,
            columns=every,
            id=attack.id,
            seed=attack.seed,
            size=size,
        )
        rows = run.table("linkage/released.sql.j2:cells")
        released = arrow.numbers(rows.column("records")).astype(np.int64)
        _check_size(records, int(released.sum()))
        truth = np.full(size, -1) if attack.id is None else true_classes(run, attack.id)
        return _prepared(run, rows, released, truth)


def _leaves(con: duckdb.DuckDBPyConnection, original: str, attack: Attack, workspace: str) -> dict[str, str]:
    """Make the relation (label, leaf) of each quasi-identifier with a hierarchy, by folded name."""
    made: dict[str, str] = {}
    for name, hierarchy in attack.labels().items():
        for spelled, type_text in columns_in(con, original, STAGE):
            if fold(spelled) != fold(name):
                continue
            attribute = Attribute(
                spelled, Role.QUASI_IDENTIFIER, type_text, kind_of(type_text), hierarchy=hierarchy
            )
            tree = audit_tree(con, workspace, attribute, relation=original)
            below = f"{workspace}_below_{len(made)}"
            engine.run(con, templates.render("linkage/released.sql.j2:below", below=below, tree=tree), STAGE)
            made[fold(name)] = named("temp", below)
    return made


def _check_size(records: int, released: int) -> None:
    if not released:
        raise SourceError("the release is empty: there is nothing to link")
    if released > records:
        raise SourceError(
            f"the release has {released} records and the original {records}: it is not the table it came from"
        )


def _check_texts(run: Run) -> None:
    """Raise SourceError for a released text that the original lacks, or a label that its hierarchy lacks."""
    for number, column in enumerate(run.quasi, start=1):
        if not column.nominal and column.form != "label":
            continue
        query = run.text(
            "linkage/released.sql.j2:foreign", relation=run.sides.original, column=column, q=f"q{number}"
        )
        texts, example = engine.rows(run.con, query, STAGE, error=SourceError)[0]
        if texts and column.form == "label":
            raise SourceError(
                f"column {column.name!r} of the release has {texts} labels that its hierarchy does not have, "
                f"such as {example[:40]!r}: give the hierarchy by which it was released"
            )
        if texts:
            raise SourceError(
                f"column {column.name!r} of the release has {texts} texts that the original does not have, "
                f"such as {example[:40]!r}: give the list of\nthe texts that each stands for (of a CSV, "
                "which turns lists into text, the parquet or DuckDB file), its hierarchy, or NULL"
            )


def _prepared(
    run: Run, rows: pa.Table, records: npt.NDArray[np.int64], truth: npt.NDArray[np.int64]
) -> Prepared:
    drawn = run.table("linkage/original.sql.j2:drawn", columns=run.every)
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
    inside = [
        own_value_inside(*part, truth) if column in run.quasi and run.attack.id is not None else None
        for column, part in zip(run.guessed, intervals, strict=True)
    ]
    return Prepared(
        problem,
        run.quasi,
        run.guessed,
        tuple(inside),
        run.records,
        int(records.sum()),
        int((truth < 0).sum()),
    )


def _disclosed(
    run: Run,
    column: SharedColumn,
    known: dict[SharedColumn, Known],
    records: npt.NDArray[np.int64],
    drawn: pa.ChunkedArray,
) -> Disclosed:
    if column in known:
        return suggested(known[column], records)
    query = run.text("linkage/released.sql.j2:values", relation=run.sides.release, column=column)
    return counted(run.con, query, column, drawn, run.wide.get(column.name))


def _interval(
    run: Run, column: SharedColumn, disclosed: Disclosed
) -> tuple[Counted, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return released values, and both ends of the interval around the true values, on the same scale."""
    guess, true, axis = disclosed
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
