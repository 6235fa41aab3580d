"""Stage: the user's query becomes a temporary table of typed, numbered records without identifiers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb

from duckanon import progress
from duckanon.database import engine, interrupts, templates
from duckanon.database.relations import columns_of, named
from duckanon.errors import PolicyError, SourceError
from duckanon.policy import bind
from duckanon.policy.bind import Attribute, Role
from duckanon.policy.kinds import enum_values, kind_of, rule_of
from duckanon.policy.names import CLASS, fold, shortened
from duckanon.policy.subsets import out_of_reach, subset_thresholds
from duckanon.release.source import in_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from duckanon.policy.kinds import Kind, Rule
    from duckanon.policy.policy import Policy
    from duckanon.release.source import Drawn

_LINES_BEFORE_QUERY = 2
"""Lines before the query in stage/raw.sql.j2."""


@dataclass(frozen=True)
class Rounding:
    """Rounding of the means of a column; see `digits`."""

    digits: int | None = None  # after the point, for floating-point numbers; None does not round
    step: int = 1  # in units of the integers behind other types
    limit: int | None = None  # largest multiple of the step in the type, if a mean may exceed it


@dataclass(frozen=True)
class Field:
    """A column of the release, with its name inside the pipeline: q1.. , s1.. or o1.. ."""

    attribute: Attribute
    column: str
    rounding: Rounding = Rounding()

    @property
    def name(self) -> str:
        """Name of the column in the source and in the release."""
        return self.attribute.name

    @property
    def kind(self) -> Kind:
        """Kind of its type: integer, decimal, float, date, timestamp, boolean, text or other."""
        return self.attribute.kind

    @property
    def type(self) -> str:
        """DuckDB type of the source column."""
        return self.attribute.type

    @property
    def sort_type(self) -> str | None:
        """Type by which released values are sorted; None if equal values are always identical.

        Quasi-identifiers have neither -0.0 nor NaN, and no type with distinguishable equal values.
        """
        if not self.quasi:
            return "VARCHAR" if self.kind == "text" else self.type
        released = self.rule.released.format("VARCHAR" if self.kind == "text" else self.type)
        return released if self.kind == "text" or released == "VARCHAR" else None

    @property
    def recode(self) -> str | None:
        """Recoding of a quasi-identifier; None for other roles."""
        return self.attribute.recode

    @property
    def rule(self) -> Rule:
        """Rule of the recoding of a quasi-identifier."""
        return rule_of(str(self.attribute.recode))

    @property
    def nominal(self) -> bool:
        """Whether values are texts, booleans or leaves of a hierarchy, whose distances come from codes."""
        if self.ranked:
            return False
        return self.kind in {"text", "boolean"} or self.attribute.hierarchy is not None

    @property
    def ranked(self) -> bool:
        """Whether the field is a quasi-identifier of text whose values have an order."""
        return self.quasi and self.attribute.order is not None

    @property
    def rounds(self) -> bool:
        """Whether the released value of a class is a number that is rounded."""
        return self.rule.rounds and self.kind != "text"

    @property
    def exact(self) -> bool:
        """Whether values are integers behind the type, so that a mean can be rounded exactly."""
        return self.kind in {"integer", "decimal", "date", "timestamp"}

    @property
    def averaged(self) -> bool:
        """Whether `class_means` makes its means, because sums in SQL may depend on the order of rows."""
        return self.recode == "mean" and not self.exact

    @property
    def scale(self) -> int:
        """Digits after the point of a DECIMAL; 0 for other types."""
        return int(self.type.rstrip(")").rpartition(",")[2]) if self.kind == "decimal" else 0

    @property
    def quasi(self) -> bool:
        """Whether the field is a quasi-identifier."""
        return self.attribute.role is Role.QUASI_IDENTIFIER


CLASS_FIELD = Field(Attribute(CLASS, Role.CLASS, "BIGINT", "integer"), CLASS)
"""The class of a record, the first column of a release whose quasi-identifiers are not recoded."""


@dataclass(frozen=True)
class SubjectColumn:
    """A column of the source that identifies the subject of a record."""

    name: str
    type: str

    @property
    def kind(self) -> Kind:
        """Kind of its type, as in `Field`."""
        return kind_of(self.type)


@dataclass(frozen=True)
class Staged:
    """The staged records."""

    workspace: str  # prefix of all temporary relations of this run
    records: str  # temporary table: record_id 1..size in the order of all values, then a column a field
    fields: tuple[Field, ...]  # columns of the release in source order
    size: int  # number of records
    left_out: int  # records dropped by nulls = 'suppress'
    subject: Field | None = None  # number of the subject, if some subject has several records
    subject_columns: tuple[SubjectColumn, ...] = ()  # columns of the source that identify the subject
    until: float | None = None  # value of `time.monotonic` at which refinement ends
    source: str | None = None  # temporary table of the source rows with identifiers, if requested
    row: str | None = None  # column of `source` that numbers its rows: the source_row of a record
    in_order: bool = False  # whether the records are stored in the order of their numbers
    columns: tuple[tuple[str, str], ...] = ()  # of the source, names with types, including dropped columns
    with_nulls: frozenset[str] = frozenset()  # columns of quasi-identifiers with a NULL in some record

    def tree(self, field: Field) -> str:
        """Temporary table (value, level, node) of a field with a hierarchy."""
        return f"{self.workspace}_tree_{field.column}"

    @property
    def late(self) -> bool:
        """Whether the time for refinement is over."""
        return self.until is not None and time.monotonic() > self.until

    @property
    def climbs(self) -> dict[str, str]:
        """Temporary tables (place, value, level, node) of quasi-identifiers with a hierarchy, by column."""
        with_tree = [field for field in self.quasi if field.attribute.hierarchy is not None]
        return {field.column: f"{self.workspace}_climb_{field.column}" for field in with_tree}

    @property
    def trees(self) -> dict[str, str]:
        """Trees of sensitive fields with hierarchical distance, as SQL text, by name."""
        graded = [field for field in self.sensitive if field.attribute.distance == "hierarchical"]
        return {field.name: named("temp", self.tree(field)) for field in graded}

    @property
    def quasi(self) -> tuple[Field, ...]:
        """Quasi-identifiers in source order."""
        return tuple(field for field in self.fields if field.quasi)

    @property
    def sensitive(self) -> tuple[Field, ...]:
        """Sensitive fields in source order."""
        return tuple(field for field in self.fields if field.attribute.role is Role.SENSITIVE)


@progress.step("stage")
def stage(
    con: duckdb.DuckDBPyConnection,
    query: str,
    policy: Policy,
    workspace: str,
    *,
    drawn: Drawn | None = None,
    keep_source: bool = False,
) -> Staged:
    """Records of the user's query, typed and numbered, in a temporary table with prefix `workspace`.

    The source must have the columns `drawn`; `keep_source` keeps it with numbered rows. SourceError: no rows,
    or a forbidden NULL, NaN or infinity. PolicyError: a role, type or k does not fit.
    """
    until = time.monotonic() + policy.time_limit if policy.time_limit else None
    raw, records = f"{workspace}_raw", f"{workspace}_records"
    row = f"{workspace}_row" if keep_source else None
    read_source(con, query, raw, row)
    count = templates.render("relation.sql.j2:count", relation=named("temp", raw))
    total = int(engine.rows(con, count, "stage")[0][0])
    columns = [column for column in columns_of(con, named("temp", raw), "stage") if column[0] != row]
    if drawn is not None:
        columns = in_step(columns, drawn, policy)
    fields = _fields(bind.bind(policy, columns))
    subject_columns = subject_columns_of(policy, columns)
    # Quasi-identifiers first, so that records with equal ones get consecutive numbers.
    ordered = sorted(fields, key=lambda field: "qso".index(field.column[0]))
    statement = templates.render(
        "stage/records.sql.j2",
        raw=raw,
        records=records,
        fields=fields,
        ordered=ordered,
        subject=subject_columns,
        who=[(f"who_{number}", one.type) for number, one in enumerate(subject_columns, start=1)],
        nulls=policy.nulls,
        row=row,
    )
    engine.run(con, statement, "stage")
    if row is None:
        engine.run(con, templates.render("relation.sql.j2:drop", parts=("temp", raw), view=False), "stage")
    size, subject, in_order, with_nulls = _check(con, records, fields, policy)
    _check_orders(con, records, fields, policy, new=drawn is None)
    source = raw if row else None
    return Staged(
        *(workspace, records, fields, size, total - size, subject, subject_columns, until, source, row),
        in_order=in_order,
        columns=tuple(columns),
        with_nulls=with_nulls,
    )


def class_fields(staged: Staged, policy: Policy) -> tuple[Field, ...]:
    """Columns of a release that identify the class of a record."""
    return staged.quasi if policy.release == "table" else (CLASS_FIELD,)


def subject_columns_of(policy: Policy, columns: Sequence[tuple[str, str]]) -> tuple[SubjectColumn, ...]:
    """Columns of a source that identify the subject of a record, by name, in any order of the policy."""
    types = dict(columns)
    return tuple(
        SubjectColumn(name, types[name]) for name in sorted(bind.subject_of(policy, columns), key=fold)
    )


def read_source(con: duckdb.DuckDBPyConnection, query: str, raw: str, row: str | None) -> None:
    """Make a temporary table of the rows of a user's query, numbered in `row` if it is not None."""
    statement = templates.render("stage/raw.sql.j2", raw=raw, query=engine.one_query(con, query), row=row)
    try:
        with interrupts.running(con):
            con.execute(statement)
    except duckdb.Error as cause:
        raise engine.failed_query(cause, query, _LINES_BEFORE_QUERY) from cause


def column_of(
    con: duckdb.DuckDBPyConnection, relation: str, column: str, size: int, stage: str
) -> npt.NDArray[np.float64]:
    """Numbers (size,) of a column of records, by record_id from 1; NaN for NULL."""
    query = templates.render("relation.sql.j2:numbers", records=relation, column=column)
    return engine.column(con, query, stage, size)


def _fields(attributes: tuple[Attribute, ...]) -> tuple[Field, ...]:
    letters = {Role.QUASI_IDENTIFIER: "q", Role.SENSITIVE: "s", Role.INSENSITIVE: "o"}
    kept = [attribute for attribute in attributes if attribute.role is not Role.IDENTIFIER]
    return tuple(
        Field(attribute, f"{letters[attribute.role]}{number}")
        for number, attribute in enumerate(kept, start=1)
    )


def _check(
    con: duckdb.DuckDBPyConnection, records: str, fields: tuple[Field, ...], policy: Policy
) -> tuple[int, Field | None, bool, frozenset[str]]:
    """Return the size, the field of a subject with several records, `Staged.in_order` and `with_nulls`."""
    query = templates.render("stage/check.sql.j2", records=records, fields=fields, subject=policy.subject)
    size, in_order, subjects, of_nobody, *counts = engine.rows(con, query, "stage")[0]
    if size == 0:
        rule = " without a NULL in a quasi-identifier" if policy.nulls == "suppress" else ""
        raise SourceError(f"the source query has no records{rule}: there is nothing to release")
    quasi = [field for field in fields if field.quasi]
    for field, nulls, unusable in zip(quasi, counts[::2], counts[1::2], strict=True):
        if nulls and policy.nulls == "error":
            raise SourceError(
                f"quasi-identifier {field.name!r} is NULL in {nulls} of {size} records and nulls = 'error': "
                "filter them out, or use nulls = 'category' or 'suppress'"
            )
        if unusable:
            raise SourceError(
                f"quasi-identifier {field.name!r} is NaN or infinite in {unusable} of {size} records: "
                "filter them out or turn them into NULL in the source query"
            )
    if of_nobody:
        raise SourceError(
            f"subject ({', '.join(policy.subject)}) is NULL in {of_nobody} of {size} records, which then are "
            "nobody's: filter them out in the source query, or name who they are of"
        )
    if subjects is not None and policy.k > subjects:
        raise PolicyError(
            f"k = {policy.k} is more than the {subjects} subjects that the {size} records of the source "
            f"have: use k <= {subjects}"
        )
    if policy.k > size:
        if size == 1:
            raise SourceError("the source query has one record: nobody can hide in a release of one")
        raise PolicyError(f"k = {policy.k} is more than the {size} records of the source: use k <= {size}")
    most, what = (size, "records") if subjects is None else (subjects, "subjects")
    for one in subset_thresholds(policy.k_subsets, policy.quasi_identifiers, policy.k):
        if one.k is not None and one.k > most:
            raise out_of_reach(one, most, what)
    with_nulls = frozenset(field.column for field, nulls in zip(quasi, counts[::2], strict=True) if nulls)
    several = None if subjects in (None, size) else _subject_field(policy)
    return int(size), several, bool(in_order), with_nulls


def _check_orders(
    con: duckdb.DuckDBPyConnection, records: str, fields: tuple[Field, ...], policy: Policy, *, new: bool
) -> None:
    """Raise if a declared order lacks a value of its column, or a `new` policy has a value too many.

    A later source may lack values, and a view keeps its order.
    """
    for field in fields:
        if field.attribute.order is None or field.name not in policy.order:
            continue
        query = templates.render(
            "stage/declared.sql.j2",
            records=records,
            column=field.column,
            values=field.attribute.order,
        )
        for value, there in engine.rows(con, query, "stage"):
            if there:
                raise PolicyError(
                    f"order of {field.name!r} lacks the value {shortened(value, 40)!r} of the column: add it "
                    "in its place"
                )
            may = enum_values(field.attribute.type)
            if new and value not in (may or ()):
                raise PolicyError(
                    f"order of {field.name!r} has the value {shortened(value, 40)!r}, which the column has "
                    "not: leave it out"
                    + ("" if may else ", or CAST the column to an ENUM, which may have more values")
                )


def _subject_field(policy: Policy) -> Field:
    """Return the number of the subject as a column with k distinct values in every class."""
    attribute = Attribute("subject", Role.SUBJECT, "BIGINT", "integer", distance="equal", l=Decimal(policy.k))
    return Field(attribute, "subject")
