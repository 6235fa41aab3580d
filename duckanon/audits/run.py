"""Audit of any table, view or file by a given policy, with warnings about columns without a threshold."""

from __future__ import annotations

import operator
import re
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from duckanon.audits.columns import SHARE_MEASURES, audit_columns, rank
from duckanon.audits.evidence import evidence_of
from duckanon.audits.headers import rows_of
from duckanon.audits.joint import audited_together
from duckanon.audits.legible import legible
from duckanon.audits.near import audited_near
from duckanon.audits.report import CHANGING, VIOLATIONS_LISTED, Measure, Report, violation_of, worst_first
from duckanon.audits.subsets import subset_measures, subset_values, subset_violations
from duckanon.database import engine, own_copy, templates
from duckanon.database.csv_files import read_csv
from duckanon.database.engine import temporary, transaction
from duckanon.database.relations import columns_of, databases, lookup, named, resolve
from duckanon.database.templates import ident
from duckanon.errors import PolicyError, ReleaseError, SourceError
from duckanon.hierarchies.tree import audit_tree
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.policy.names import fold
from duckanon.policy.policy import AuditPolicy, Policy
from duckanon.policy.subsets import subset_thresholds
from duckanon.statements.options import options_to_audit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import duckdb

    from duckanon.audits.certificate import Certificate, Supersets
    from duckanon.audits.columns import AuditColumn
    from duckanon.policy.bind import Attribute
    from duckanon.policy.subsets import SubsetThreshold
    from duckanon.statements.options import Options
    from duckanon.statements.tokens import QualifiedName


def audit_relation(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    policy: AuditPolicy | Policy,
    *,
    name: str,
    roles: Roles | None = None,
    evidence: bool = False,
) -> Report:
    """Audit of any relation (SQL text after FROM) by a policy; SourceError if it is unreadable or empty.

    Warnings name the unaudited columns and count the records that are unique in them. Evidence takes a sort
    of all rows.
    """
    stage, roles = f"audit of {name}", roles or roles_of(policy)
    policy = policy.audited() if isinstance(policy, Policy) else policy
    columns = columns_of(con, relation, stage)
    attributes = bind.bind_audit(policy, columns)
    whole, relation = relation, kept_relation(con, relation, policy, stage)
    graded = [attribute for attribute in attributes if attribute.distance == "hierarchical"]
    with temporary(con) if graded else nullcontext("") as workspace:
        trees = {each.name: audit_tree(con, workspace, each, relation=relation) for each in graded}
        report = audit_attributes(con, relation, attributes, policy, trees, name=name)
        report = _with_suppressed(con, whole, report, attributes, policy, stage)
        beyond = warnings_of(con, relation, columns, attributes, roles=roles, stage=stage)
        report = replace(report, warnings=(*report.warnings, *unknown_values(report), *beyond))
        if not evidence:
            return report
        proofs: dict[str, object] = {}
        if report.certificates:
            proofs["certificates"] = [one.to_dict() for one in report.certificates]
        if report.supersets is not None:
            proofs["supersets"] = report.supersets.to_dict()
        return replace(report, evidence=evidence_of(con, whole, policy, trees).to_dict() | proofs)


def kept_relation(con: duckdb.DuckDBPyConnection, relation: str, policy: AuditPolicy, stage: str) -> str:
    """Relation, as SQL text, without the records that carry the policy's mark of suppression.

    SourceError if all records carry the mark, because an audit of no record must not pass.
    """
    if policy.suppressed is None:
        return relation
    values = {"relation": relation, "columns": policy.quasi_identifiers, "mark": policy.suppressed}
    kept = templates.render("audit_bind/kept.sql.j2", **values).strip()
    query = templates.render("relation.sql.j2:any_record", relation=kept)
    any_record = templates.render("relation.sql.j2:any_record", relation=relation)
    if engine.rows(con, any_record, stage, error=SourceError) and not engine.rows(con, query, stage):
        raise SourceError(
            f"{stage}: every record is suppressed = {policy.suppressed!r}: there is nothing to audit"
        )
    return kept


UNKNOWN_VALUE = "alpha names a value that no record has"
"""How a warning begins that an audit must not leave unseen."""


def unknown_values(report: Report) -> Iterator[str]:
    """Warnings of values that alpha names and no record has: a misspelt value would pass unseen."""
    for measure in report.measures:
        if measure.measure == SHARE_MEASURES["alpha"] and measure.value == 0:
            yield f"{UNKNOWN_VALUE}: {legible(str(measure.attribute))}"


_MARKS = ("*", "**", "NA", "N/A", "NULL", "?", "-")
"""Values that other tools write for the quasi-identifiers of a suppressed record."""


def _with_suppressed(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    report: Report,
    attributes: Sequence[Attribute],
    policy: AuditPolicy,
    stage: str,
) -> Report:
    """Report with the number of suppressed records; without the option, a warning of likely ones."""
    quasi = [attribute.name for attribute in attributes if attribute.role is Role.QUASI_IDENTIFIER]
    marks = _MARKS if policy.suppressed is None else (policy.suppressed,)
    query = templates.render("audit_bind/suppressed.sql.j2", relation=relation, columns=quasi, marks=marks)
    found = dict(engine.rows(con, query, stage, error=SourceError))
    if policy.suppressed is not None:
        count, classes = sum(found.values()), report.measures[0].classes
        line = Measure("suppressed_records", None, None, float(count), classes, None, None, None)
        return replace(report, measures=(*report.measures, line))
    # NULL is a value of its own. In a single column it is no sign of suppression by another tool.
    suppressed = [
        f"the {count:,} records whose quasi-identifiers all are {mark} count as a class: if they are "
        f"suppressed, leave them out by suppressed = {mark!r} (--suppressed {mark!r} on the command line)"
        for mark, count in found.items()
        if mark != "NULL" or len(quasi) > 1
    ]
    return replace(report, warnings=(*report.warnings, *suppressed))


def roles_of(policy: AuditPolicy | Policy) -> Roles:
    """Roles of the unaudited columns; an AuditPolicy does not have them."""
    return Roles(policy.insensitive, policy.identifiers) if isinstance(policy, Policy) else Roles()


def audit_table(con: duckdb.DuckDBPyConnection, name: QualifiedName, options: Options) -> Report:
    """Audit of a table, view or file by the options of AUDIT TABLE."""
    called = ".".join(part for part in (name.catalog, name.schema, name.name) if part is not None)
    return audit_named(con, name, options_to_audit(options), called=called)


def audit_named(
    con: duckdb.DuckDBPyConnection, name: QualifiedName, policy: AuditPolicy | Policy, *, called: str
) -> Report:
    """Audit of a table, view or file by its name, as `audit_relation`; a CSV is read as by `duckanon audit`.

    All but tables in memory are copied first, see `audit_copied`. A SourceError if a Parquet file states
    falsehoods about its rows. (DuckDB's own CSV reader would round numbers to the type of its first rows.)
    """
    relation, stage = named(name.catalog, name.schema, name.name), f"audit of {called}"
    kind, stored, computed = _found(con, name, stage)
    if kind == "table" and not stored:
        return audit_relation(con, relation, policy, name=called)
    file = Path(name.name)
    alone = name.schema is None and file.is_file() and kind is None
    if alone and file.suffix.lower() in {".csv", ".tsv"}:
        asked = [*policy.quasi_identifiers, *policy.sensitive]
        read = read_csv(con, file, apart=policy.quasi_identifiers, typed=asked)
        return audit_relation(con, read.relation, policy, name=called)
    files = [] if kind == "table" else _files(con, name, stage)
    return audit_copied(con, relation, policy, name=called, files=files, again=kind == "view" or computed)


def audit_copied(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    policy: AuditPolicy | Policy,
    *,
    name: str,
    files: Sequence[Path] = (),
    again: bool,
) -> Report:
    """Audit of a copy of a relation, so that false statistics of a file have no effect.

    A SourceError if a Parquet file of the rows states falsehoods. With `again` the relation itself is
    audited, too: a copy would hide that it gives other rows each time.
    """
    stage = f"audit of {name}"
    with temporary(con) as workspace:
        rows = own_copy.copy(con, relation, named("temp", f"{workspace}_rows"), stage)
        lies = own_copy.of_parquet(con, files, rows, stage)
        if lies:
            raise SourceError(f"{stage}: {own_copy.told(lies)}")
        report = audit_relation(con, rows, policy, name=name)
    if again:
        with own_copy.plain_scans(con, stage):
            audit_relation(con, relation, policy, name=name)
    return report


def _found(con: duckdb.DuckDBPyConnection, name: QualifiedName, stage: str) -> tuple[str | None, bool, bool]:
    """Kind of a table or view, whether its database is a file, and whether it has computed columns.

    The kind is None if the name is no table or view, for example a file.
    """
    try:
        target = resolve(con, name)
    except ReleaseError:
        return None, False, False
    relation = lookup(con, target)
    if relation is None:
        return None, False, False
    database = databases(con, stage).get(target.catalog)
    query = templates.render(
        "files/stored.sql.j2:relation", catalog=target.catalog, schema=target.schema, name=target.name
    )
    computed = any(row[3] for row in engine.rows(con, query, stage))
    return relation.kind, database is not None and database.path is not None, computed


_PARQUET = re.compile(r"\.parquet(\?.*)?$", re.IGNORECASE | re.DOTALL)
"""End of a name that DuckDB reads as Parquet files, also of a pattern with a question mark."""


def _files(con: duckdb.DuckDBPyConnection, name: QualifiedName, stage: str) -> list[Path]:
    """Local Parquet files that DuckDB reads for a name, in the order of reading."""
    if name.schema is not None or not _PARQUET.search(name.name):
        return []
    if lookup(con, resolve(con, name)) is not None:
        return []
    rows = engine.rows(
        con, templates.render("files/stored.sql.j2:meant", name=name.name), stage, error=SourceError
    )
    return [Path(file) for (file,) in rows if Path(file).is_file()]


def audit_attributes(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    attributes: Sequence[Attribute],
    policy: AuditPolicy,
    trees: Mapping[str, str],
    *,
    name: str,
    certificates: Mapping[str, Certificate] | None = None,
    supersets: Supersets | None = None,
) -> Report:
    """Audit of the columns of a relation with known roles, thresholds and trees.

    A tree (value, level, node) is SQL text, by column. `certificates` of several columns together, by their
    name, and `supersets` of n records are checked in place of new ones. PolicyError without a
    quasi-identifier.
    """
    quasi = [attribute.name for attribute in attributes if attribute.role is Role.QUASI_IDENTIFIER]
    if not quasi:
        raise PolicyError("an audit needs at least one quasi-identifier")
    asked = audit_columns(attributes, policy, trees)
    texts = {attribute.name for attribute in attributes if attribute.type == "VARCHAR"}
    together = bind.joint_thresholds(policy, attributes)
    subsets = subset_thresholds(policy.k_subsets, quasi, policy.k)
    near = policy.n if any(column.t is not None for column in asked) else None
    # t-closeness, the distance to the whole table, is no more than reported beside n.
    of_table = asked if near is None else [replace(column, t=None) for column in asked]
    with transaction(con, last=False, whole=False) if together or near else nullcontext():
        report = audit_sql(
            con, relation, quasi, of_table, k=policy.k, name=name, texts=texts, subsets=subsets
        )
        if together:
            report = audited_together(con, relation, quasi, together, report, texts=texts, given=certificates)
        if near is not None:
            # A release and its files have one order of columns, whatever the order in a policy.
            names = [column for column, _ in columns_of(con, relation, f"audit of {name}")]
            places = sorted(quasi, key=names.index)
            report = audited_near(con, relation, places, asked, near, report, texts=texts, given=supersets)
    return report


COLUMNS_PER_STATEMENT = 16
"""Sensitive columns of one statement: with 180 in one, DuckDB plans for a minute, and refuses 200."""

CLASS_FIGURES = 3
"""Rows at the end of a report that are figures of the classes."""


def audit_sql(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    quasi_identifiers: Sequence[str],
    audit_columns: Sequence[AuditColumn],
    *,
    k: int | None,
    name: str,
    texts: Collection[str] | None = None,
    subsets: Sequence[SubsetThreshold] = (),
) -> Report:
    """Audit of any relation: verdicts in exact arithmetic, and the worst violating classes. O(n log n).

    `texts` are the columns of text, if known. SourceError if a column is missing, or the relation is empty or
    fails.
    """
    stage = f"audit of {name}"
    if texts is None:
        texts = {column for column, kind in columns_of(con, relation, stage) if kind == "VARCHAR"}
    values: dict[str, object] = {"relation": relation, "texts": texts, "k": k}
    values |= {"qi": list(quasi_identifiers), "rows_of": rows_of}
    parts = list(engine.in_parts(audit_columns, COLUMNS_PER_STATEMENT)) or [()]
    of_subsets = subset_values(relation, subsets, texts)
    # All parts of one audit must see the same rows.
    with transaction(con, last=False, whole=False) if len(parts) > 1 or subsets else nullcontext():
        measures = _measures(con, values, parts, stage)
        if subsets:
            measures = subset_measures(con, of_subsets, measures, stage)
        report = Report(name, measures)
        if report.passed or not any(measure.violations for measure in measures):
            return report
        # The worst class of every measure comes before the second worst of any, so every measure is listed.
        violated = [measure.attribute for measure in measures if measure.violations][:VIOLATIONS_LISTED]
        columns = [column for column in audit_columns if not {*column.labels}.isdisjoint(violated)]
        found = [violation_of(row, quasi_identifiers) for row in _worst(con, values, columns, stage)]
        if any(measure.violations for measure in measures[1 : 1 + len(subsets)]):
            rare = subset_violations(con, of_subsets, subsets, limit=VIOLATIONS_LISTED, stage=stage)
            of_k = [one for one in found if one.attribute is None]
            others = [one for one in found if one.attribute is not None]
            found = worst_first([*of_k, *rare, *others])[:VIOLATIONS_LISTED]
    return Report(name, measures, tuple(found))


def _measures(
    con: duckdb.DuckDBPyConnection,
    values: Mapping[str, object],
    parts: Sequence[Sequence[AuditColumn]],
    stage: str,
) -> tuple[Measure, ...]:
    """Measures of an audit: k, l of every column, t, shares of values, and figures of the classes."""
    sizes, diversity, closeness, shares = set(), [], [], []
    for part in parts:
        statement = templates.render("audit_bind/report.sql.j2", **values, attributes=list(part))
        first, *lines = engine.rows(con, statement, stage, error=SourceError)
        diversity += lines[: len(part)]
        closeness += lines[len(part) : 2 * len(part)]
        shares += lines[2 * len(part) : -CLASS_FIGURES]
        sizes.add((first, *lines[-CLASS_FIGURES:]))
    if len(sizes) > 1:
        raise SourceError(f"{stage}: {CHANGING}")
    first, *last = sizes.pop()
    return tuple(Measure(*row) for row in (first, *diversity, *closeness, *shares, *last))


def _worst(
    con: duckdb.DuckDBPyConnection,
    values: Mapping[str, object],
    columns: Sequence[AuditColumn],
    stage: str,
) -> list[tuple[object, ...]]:
    """Classes that violate k, or a threshold of some columns; the worst of every measure come first."""
    places = {label: place for place, column in enumerate(columns) for label in column.labels}
    parts = list(engine.in_parts(columns, COLUMNS_PER_STATEMENT)) or [()]
    found: list[tuple[tuple[int, int, int], tuple[object, ...]]] = []
    severities: Counter[tuple[object, object]] = Counter()
    for part in parts:
        query = templates.render(
            "audit_bind/classes.sql.j2", **values, attributes=list(part), limit=VIOLATIONS_LISTED
        )
        for row in engine.rows(con, query, stage):
            measure, attribute, *_ = row
            if attribute is None and part is not parts[0]:
                continue
            severities[measure, attribute] += 1
            place = (-1, 0) if attribute is None else (rank(str(measure)), places[attribute])
            found.append(((severities[measure, attribute], *place), row))
    return [row for _, row in sorted(found, key=operator.itemgetter(0))[:VIOLATIONS_LISTED]]


COLUMNS_LISTED = 20
"""Columns that a warning names."""

_PLAIN_NAME = re.compile(r"[^\s,;:()\"](?:[^,;:()\"]*[^\s,;:()\"])?")


@dataclass(frozen=True)
class Roles:
    """Roles of a policy for columns that an audit does not cover."""

    insensitive: tuple[str, ...] | Literal["*"] = ()  # released unchanged
    identifiers: tuple[str, ...] = ()  # dropped

    def of(self, column: str) -> Role | None:
        """Return the role of an unaudited column; None if the policy does not name it."""
        if fold(column) in map(fold, self.identifiers):
            return Role.IDENTIFIER
        if self.insensitive == "*" or fold(column) in map(fold, self.insensitive):
            return Role.INSENSITIVE
        return None


def unaudited(columns: Iterable[str], attributes: Sequence[Attribute]) -> list[str]:
    """Columns that an audit does not cover, in the order of the table."""
    looked_at = {fold(one.name) for one in attributes}
    return [name for name in columns if fold(name) not in looked_at]


def unique_records(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    columns: Sequence[str],
    *,
    texts: Collection[str],
    stage: str,
) -> tuple[int, int]:
    """Number of records, and of records that are unique in some columns, by sql/audit/uniqueness.sql. O(n).

    `texts` are the columns of text; errors name `stage`.
    """
    query = templates.render(
        "audit_bind/uniqueness.sql.j2", relation=relation, columns=list(columns), texts=texts
    )
    records, alone = engine.rows(con, query, stage, error=SourceError)[0]
    return int(records), int(alone)


def warnings_of(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    columns: Sequence[tuple[str, str]],
    attributes: Sequence[Attribute],
    *,
    roles: Roles,
    stage: str,
) -> tuple[str, ...]:
    """Warnings about columns that the audit does not cover; none if it covers all columns.

    `columns` are names and types of all columns of the relation.
    """
    left = unaudited([name for name, _ in columns], attributes)
    if not left:
        return ()
    texts = {name for name, kind in columns if kind == "VARCHAR"}
    records, alone = unique_records(con, relation, left, texts=texts, stage=stage)
    warnings = [warning_of(left, len(columns), records, alone, roles)]
    kept = set(map(fold, left))
    dropped = [name for name in roles.identifiers if fold(name) in kept]
    if dropped:
        warnings.append(f"the policy drops {', '.join(dropped)}, and the audited table still has it")
    return tuple(warnings)


def _named(name: str) -> str:
    """Return a name for a list: quoted as in SQL unless it is one plain word."""
    text = legible(name)
    return text if _PLAIN_NAME.fullmatch(text) else ident(text)


def warning_of(left: Sequence[str], columns: int, records: int, alone: int, roles: Roles) -> str:
    """One-line warning with the names of the unaudited columns; `alone` records are unique in them."""
    named = [
        f"{_named(name)} ({role.value})" if (role := roles.of(name)) else _named(name)
        for name in left[:COLUMNS_LISTED]
    ]
    if len(left) > COLUMNS_LISTED:
        named.append(f"and {len(left) - COLUMNS_LISTED:,} more")
    is_, it = ("is", "it") if len(left) == 1 else ("are", "them together")
    unique = f"{alone:,} of {records:,} records {'is' if alone == 1 else 'are'} unique on {it}"
    return f"{len(left):,} of {columns:,} released columns {is_} not audited: {', '.join(named)}; {unique}"
