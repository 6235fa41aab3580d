"""Metadata of a database about its releases, read as untrusted input for verification."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duckanon.audits.columns import share_options
from duckanon.audits.report import COLUMNS, Measure
from duckanon.database import engine, templates
from duckanon.database.relations import Target
from duckanon.errors import PolicyError, ReleaseError
from duckanon.policy.bind import Role
from duckanon.policy.joint import JOINT_MEASURES, NT_CLOSENESS, NT_RECORDS, JointDistanceWord
from duckanon.policy.kinds import RULES, UNRECODED
from duckanon.policy.methods import RECORDED
from duckanon.policy.policy import AuditPolicy
from duckanon.policy.reported import OF_THE_RECORDS, form_notes, proved
from duckanon.policy.subsets import BySubset, key_columns
from duckanon.release.chain import Place, link, origin
from duckanon.release.metadata import SCHEMA, check_version, order_of, tables
from duckanon.release.proofs import proof_tables, superset_table
from duckanon.release.tables import Released

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from decimal import Decimal

    import duckdb


STAGE = "verify"

_SIZES = (
    "records",
    "classes",
    "suppressed",
    "method",
    "information_loss",
    "duckanon_version",
    "created_at",
    "policy",
)

_AUDIT = (
    "audit_id",
    "schema_version",
    "audited_at",
    "statement",
    "policy",
    "policy_hash",
    "fingerprint",
    "duckanon_version",
    "duckdb_version",
    "previous",
    "chain",
    "number",
)


OF_THE_SOURCE = ("information_loss", "suppressed_records")
"""Measures of a release that are unknown from its rows."""


@dataclass(frozen=True)
class RecordedColumn:
    """A released column in the metadata; NULL is None."""

    # Any types, because the policy and the comparison check the values of the file.
    position: Any
    name: Any
    role: Any
    type: Any
    recode: Any
    distance: Any
    tree: Any
    order: tuple[str, ...] | None = None  # its released values, if they have an order


@dataclass(frozen=True)
class RecordedAudit:
    """An audit in the metadata; NULL is None."""

    audit_id: str
    schema_version: int  # of the layout of the metadata
    audited_at: str | None  # UTC
    statement: str | None  # release, audit or export
    policy: str | None
    policy_hash: str | None
    fingerprint: str | None
    duckanon_version: str | None
    duckdb_version: str | None
    previous: str | None  # link of the audit before it
    chain: str | None  # its own link
    number: int | None  # place in the chain, from 1
    measures: tuple[dict[str, Any], ...]  # the report rows

    def __str__(self) -> str:
        """Name of the audit, as in the metadata."""
        return f"audit {self.audit_id} ({self.statement}, {self.audited_at} UTC)"


@dataclass(frozen=True)
class RecordedRelease:
    """A release in the metadata; NULL is None."""

    exported: bool  # whether in an exported file, not in the database where it was made
    release_id: int
    schema_version: int  # of the layout of the metadata
    target: Target  # the view under its recorded name
    table: str  # backing table
    records: int | None
    classes: int | None
    suppressed: int | None
    method: str | None
    information_loss: float | None
    duckanon_version: str | None
    created_at: str | None  # UTC
    policy: str | None  # as TOML; None in an exported file
    columns: tuple[RecordedColumn, ...]  # in their order
    thresholds: tuple[tuple[Any, ...], ...]  # measure, attribute, threshold, l_diversity and c of each
    audits: tuple[RecordedAudit, ...]  # in the order of time

    def __str__(self) -> str:
        """Number and name of the release."""
        return f"release {self.release_id} ({self.target.schema}.{self.target.name})"

    def asked(self) -> AuditPolicy:
        """Policy in the tables of columns and thresholds; a PolicyError if they contain none."""
        thresholds: dict[str, dict[str, Decimal]] = {}
        diversity: dict[str, Any] = {}
        for measure, attribute, threshold, kind, c in self.thresholds:
            thresholds.setdefault(measure, {})[attribute] = threshold
            if kind is not None:
                diversity = {"l_diversity": kind, "c": c}
        if not diversity:
            diversity = {"l_diversity": self._kind()}
        sensitive = [column for column in self.columns if column.role == "sensitive"]
        k = next(iter(thresholds.get("k_anonymity", {}).values()), None)
        n = next(iter(thresholds.get(NT_RECORDS, {}).values()), None)
        word: JointDistanceWord = "sum" if JOINT_MEASURES["sum"] in thresholds else "maximum"
        several = {"(" + columns + ")": t for columns, t in thresholds.get(JOINT_MEASURES[word], {}).items()}
        return AuditPolicy(
            quasi_identifiers=self._classes(),
            sensitive=[column.name for column in sensitive],
            k=None if k is None else int(k),
            t={**thresholds.get("t_closeness", {}), **thresholds.get(NT_CLOSENESS, {})} or None,
            n=None if n is None else _whole(n),
            l=thresholds.get("l_diversity") or None,
            **diversity,
            joint_t=several or None,
            joint_distance=word,
            **share_options(thresholds, [column.name for column in sensitive]),
            k_subsets=self._subsets(thresholds.get("k_anonymity_subset", {})),
            distance={column.name: column.distance for column in sensitive if column.distance is not None},
            order={column.name: column.order for column in sensitive if column.order},
            hierarchies={
                column.name: column.tree
                for column in sensitive
                if column.tree is not None and column.distance != "ordered"
            },
        )

    @property
    def numbered(self) -> bool:
        """Whether a column of its own identifies the classes, instead of the quasi-identifiers."""
        return any(column.role == Role.CLASS.value for column in self.columns)

    @property
    def told(self) -> tuple[str, ...]:
        """Remarks for readers of an audit of the release."""
        measures = [row[0] for row in self.thresholds]
        forms = {column.recode for column in self.columns if column.recode is not None}
        return (*form_notes(forms, with_l="l_diversity" in measures), *proved(measures))

    @property
    def proved(self) -> dict[tuple[str, str | None], Decimal | None]:
        """Thresholds by measure and column that were proved from the source, not from released rows."""
        return {(row[0], row[1]): row[2] for row in self.thresholds if row[0] in OF_THE_RECORDS}

    @property
    def proofs(self) -> dict[str, str]:
        """Tables of its certificates by the names of the columns."""
        return proof_tables(self.release_id, self.thresholds)

    @property
    def supersets(self) -> str | None:
        """Table of its boxes of (n, t)-closeness; None without n."""
        return superset_table(self.release_id, self.thresholds)

    @property
    def released(self) -> tuple[Released, ...]:
        """Its columns, in the form of our own metadata."""
        return tuple(Released(one.name, one.role, one.recode, one.tree, one.distance) for one in self.columns)

    def _classes(self) -> list[str]:
        """Columns that identify the class: its number if there is one, else the quasi-identifiers."""
        role = Role.CLASS if self.numbered else Role.QUASI_IDENTIFIER
        return [column.name for column in self.columns if column.role == role.value]

    def _subsets(self, thresholds: Mapping[str, Decimal]) -> BySubset[int] | None:
        """The k of subsets, from the text of their columns."""
        named = {key_columns("(" + name + ")") or (): int(k) for name, k in thresholds.items()}
        return BySubset(named) if named else None

    def _kind(self) -> str:
        """Kind of l-diversity that was reported without a threshold, which only the audits state."""
        names = [row["measure"] for audit in self.audits for row in audit.measures]
        return "entropy" if "entropy_l_diversity" in names[:3] else "distinct"


def _whole(n: Decimal) -> int:
    """The recorded n; a PolicyError for a fraction."""
    if n % 1:
        raise PolicyError(f"n is recorded as {n}, and it is a whole number")
    return int(n)


def read_releases(
    con: duckdb.DuckDBPyConnection, home: str, *, called: str | None = None
) -> list[RecordedRelease]:
    """Releases in the metadata of a database, in the order of their numbers.

    `home` may be a copy of the metadata; errors call the database `called`. A ReleaseError without a release,
    and for metadata that are unreadable or of another version.
    """
    kind = dict(engine.rows(con, templates.render("catalog/databases.sql.j2:with_releases"), STAGE)).get(home)
    if kind not in {"releases", "exported"}:
        other = f": its table {SCHEMA}.releases is of another kind" if kind else ""
        raise ReleaseError(f"the database {called or home!r} holds no release of duckanon{other}")
    exported = kind == "exported"
    rows = _rows(con, templates.render("evidence/recorded.sql.j2:releases", catalog=home, exported=exported))
    if not rows:
        raise ReleaseError(
            f"the database {called or home!r} holds no release of duckanon: its metadata is empty"
        )
    return [_release(con, home, row, exported=exported) for row in rows]


def _release(
    con: duckdb.DuckDBPyConnection, home: str, row: tuple[Any, ...], *, exported: bool
) -> RecordedRelease:
    number, version, schema, view, table, *sizes = row
    if None in (number, version, schema, view, table):
        raise ReleaseError(f"the metadata is broken: release {number} has no name or version")
    check_version(f"release {number}", version)
    values = {"catalog": home, "release_id": number}
    columns = _rows(con, templates.render("evidence/recorded.sql.j2:columns", **values))
    thresholds = _rows(con, templates.render("evidence/recorded.sql.j2:thresholds", **values))
    audits = _rows(con, templates.render("evidence/recorded.sql.j2:audits", **values))
    return RecordedRelease(
        exported=exported,
        release_id=number,
        schema_version=version,
        target=Target(home, schema, view),
        table=table,
        **dict(zip(_SIZES, sizes, strict=True)),
        columns=tuple(_column(con, home, row) for row in columns),
        thresholds=tuple(thresholds),
        audits=tuple(_audits(audits)),
    )


def _column(con: duckdb.DuckDBPyConnection, home: str, row: Sequence[Any]) -> RecordedColumn:
    """Return a recorded column with its order; None if it has none, or the table of the order is gone."""
    column = RecordedColumn(*row)
    table = str(column.tree or "")
    if column.distance != "ordered" or not table.startswith("tree_") or table not in tables(con, home):
        return column
    return replace(column, order=order_of(con, home, table))


def _audits(recorded: Sequence[tuple[Any, ...]]) -> list[RecordedAudit]:
    heads: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in recorded:
        if None in row[:2]:
            raise ReleaseError(f"the metadata is broken: audit {row[0]} has no id or no version")
        # An audit whose rows contradict each other is read as several audits.
        heads.setdefault(row[: len(_AUDIT)], []).append(dict(zip(COLUMNS, row[len(_AUDIT) :], strict=True)))
    return [
        RecordedAudit(**dict(zip(_AUDIT, head, strict=True)), measures=tuple(rows))
        for head, rows in heads.items()
    ]


def _rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return engine.rows(con, query, "verify: the metadata cannot be read", error=ReleaseError)


def of_the_source(
    classes: int, *, information_loss: float | None, suppressed: int | None
) -> tuple[Measure, ...]:
    """Measures that CREATE records in ``duckanon.releases``, because released rows do not contain them."""
    values = information_loss, None if suppressed is None else float(suppressed)
    return tuple(
        Measure(name, None, None, value, classes, None, None, None)
        for name, value in zip(OF_THE_SOURCE, values, strict=True)
    )


_RELEASED = {role.value for role in Role if role not in {Role.IDENTIFIER, Role.SUBJECT}}

_STATEMENTS = {"release", "audit", "export"}


def misworded(release: RecordedRelease) -> Iterator[str]:
    """Words and names in the metadata of a release that this version would not write."""
    if release.table != f"release_{release.release_id}":
        yield f"the table of the release is recorded as {release.table!r}"
    if release.exported and release.target.schema != "main":
        yield f"the schema of an exported release is recorded as {release.target.schema!r}, and it is 'main'"
    if release.method not in RECORDED:
        yield f"the method is recorded as {release.method!r}, which is none that this version knows"
    yield from _columns(release)
    yield from _of_n(release)
    statements = [audit.statement for audit in release.audits]
    for statement in sorted({str(each) for each in statements} - _STATEMENTS):
        yield f"{SCHEMA}.audits has an audit by {statement!r}, which is no statement that records one"
    exports = statements.count("export")
    if release.exported and not exports:
        yield "the audit with which the file was exported is not recorded"
    if not release.exported and exports:
        yield f"{SCHEMA}.audits has an audit of an export, which only an exported file has"


def _columns(release: RecordedRelease) -> Iterator[str]:
    positions = [column.position for column in release.columns]
    if positions != list(range(1, len(positions) + 1)):
        yield f"{SCHEMA}.columns numbers the columns {positions}, and not from 1 on"
    recodes = UNRECODED if release.numbered else RULES
    for column in release.columns:
        if column.role not in _RELEASED:
            yield f"the role of {column.name!r} is recorded as {column.role!r}, which is no role of a release"
        quasi = column.role == Role.QUASI_IDENTIFIER.value
        if (column.recode not in recodes) if quasi else column.recode is not None:
            yield f"column {column.name!r} is recorded as recoded by {column.recode!r}"
        if column.distance == "ordered" and column.tree is not None:
            if column.order is None:
                yield f"the table {SCHEMA}.{column.tree} with the order of {column.name!r} is gone"
        elif (column.tree is not None) != (column.distance == "hierarchical"):
            yield f"column {column.name!r} is recorded with {column.distance!r} and the tree {column.tree!r}"


def _of_n(release: RecordedRelease) -> Iterator[str]:
    names = {row[0] for row in release.thresholds}
    if (NT_RECORDS in names) != (NT_CLOSENESS in names):
        there, gone = (NT_RECORDS, NT_CLOSENESS) if NT_RECORDS in names else (NT_CLOSENESS, NT_RECORDS)
        yield f"{SCHEMA}.thresholds has {there} without {gone}"
    if NT_RECORDS in names and "t_closeness" in names:
        yield f"{SCHEMA}.thresholds has t_closeness beside {NT_RECORDS}, where every t is of {NT_CLOSENESS}"
    if any(row[0] == NT_RECORDS and (row[1] is not None or row[2] is None) for row in release.thresholds):
        yield f"{SCHEMA}.thresholds has {NT_RECORDS} with a column or without a number"


@dataclass(frozen=True)
class Chain:
    """Result of checking the chain of a release."""

    links: tuple[str, ...]  # of every audit, computed again, by number
    heads: tuple[str, ...]  # links without a successor: one if the chain is a line
    differences: tuple[str, ...]  # breaks of the chain


_NEW_CHAIN = "REFRESH and EXPORT where it was made give a chain anew"


def checked(con: duckdb.DuckDBPyConnection, home: str, release: RecordedRelease) -> Chain:
    """Check the chain of a release: every link is computed again, by one query for each audit."""
    chained = [audit for audit in release.audits if audit.chain is not None]
    chained.sort(key=lambda audit: (audit.number or 0, audit.chain or ""))
    begin = origin(con, home, release.release_id)
    differences: list[str] = []
    links = []
    for audit in chained:
        anew = link(
            con, home, release.release_id, audit.audit_id, Place(audit.number or 0, audit.previous or "")
        )
        links.append(anew)
        if anew != audit.chain:
            differences.append(
                f"{audit}: it is not as it was recorded: link recorded {audit.chain}, found {anew}"
            )
        differences += [f"{audit}: {what}" for what in _misplaced(audit, chained, begin)]
    differences += _out_of_line(chained, exported=release.exported)
    differences += [
        f"{audit}: it is not in the chain of audits" for audit in release.audits if audit.chain is None
    ]
    followed = {audit.previous for audit in chained}
    heads = tuple(head for head in links if head not in followed)
    return Chain(tuple(links), heads, tuple(differences))


def _misplaced(audit: RecordedAudit, chained: Sequence[RecordedAudit], begin: str) -> Iterator[str]:
    """Tell what is wrong with the place of an audit."""
    previous = audit.previous or ""
    if previous == begin:
        expected = 1
    else:
        numbers = {each.chain: each.number or 0 for each in chained}
        if previous not in numbers and audit.number == 1:
            yield "the release, its columns or its thresholds are not those with which the chain begins"
            return
        if previous not in numbers:
            yield f"an audit that was recorded before it is gone: {previous or 'it follows none'}"
            return
        expected = 1 + numbers[previous]
    if audit.number != expected:
        yield f"number recorded {audit.number}, and the audits before it make it number {expected}"


def _out_of_line(chained: Sequence[RecordedAudit], *, exported: bool) -> Iterator[str]:
    """Tell where the chain is no single line from the release on; an exported file ends it at the export."""
    for previous, times in Counter(audit.previous for audit in chained).items():
        if times > 1:
            yield f"{times} audits follow {previous}, and the chain is one line: {_NEW_CHAIN}"
    for audit in chained:
        if audit.statement == "release" and audit.number != 1:
            yield f"{audit}: the audit of a release is the first of the chain, not number {audit.number}"
    exports = [audit for audit in chained if audit.statement == "export"]
    if exports and not exported:
        yield f"{exports[0]}: an export is recorded in its file, and not where the release was made"
    for audit in exports[1:] if exported else ():
        yield f"{audit}: a second export is recorded in the file: {_NEW_CHAIN}"
    last = chained[-1] if chained else None
    if exported and exports and last is not exports[0]:
        yield f"{last}: it is recorded behind the export, with which the chain of a file ends: {_NEW_CHAIN}"
