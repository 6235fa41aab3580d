"""What an exported database holds beside its rows: audit macros, the view ``duckanon.check``, comments.

View and comments follow from the metadata of the release, so that `verify` writes them anew and compares.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from duckanon.audits.columns import share_bounds
from duckanon.database import engine, templates
from duckanon.database.relations import named
from duckanon.errors import ReleaseError
from duckanon.policy.bind import Role, bind_audit, joint_thresholds
from duckanon.policy.names import RECORDS
from duckanon.policy.reported import OF_THE_RECORDS
from duckanon.policy.subsets import subset_thresholds
from duckanon.release.metadata import SCHEMA
from duckanon.release.tables import parts_of, sensitive_of, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import duckdb

    from duckanon.policy.bind import Attribute
    from duckanon.policy.policy import AuditPolicy
    from duckanon.policy.subsets import SubsetThreshold
    from duckanon.release.tables import Released

    Threshold = tuple[str, str | None, Decimal]

CHECK = "check"
"""Name of the view, in the schema of the metadata."""

_RELEASE = "Release of duckanon. FROM duckanon.check audits it; the columns say what was done to them."

_SECOND = "Second table of the release: the sensitive values of each class."

_COUNT = "Number of records of the class that have these values."

_CHECK = (
    "Audit of the release by its recorded thresholds, one row a threshold. found and passed are NULL where "
    "the rows do not show the measure: it was proved when the release was made."
)

_SUPERSETS = "Boxes of the audit of (n, t)-closeness, in ranks of quasi-identifiers; see duckanon.check."

_METADATA = {
    "releases": "The release: its name, size, method and information loss.",
    "columns": "The released columns: role, recode, distance and hierarchy of each.",
    "thresholds": "The thresholds that the policy asked for.",
    "audits": "The recorded audits, one row a measure; duckanon verify repeats them.",
}


@dataclass(frozen=True)
class Exported:
    """What the metadata of an exported file say about its release."""

    name: str
    columns: Sequence[tuple[str, str]]  # name and type of each released column
    released: Sequence[Released]
    policy: AuditPolicy
    proved: Sequence[Threshold]  # of `OF_THE_RECORDS`
    proofs: Mapping[str, str]  # tables of certificates by the names of several columns
    supersets: str | None  # table of the boxes of (n, t)-closeness


@dataclass(frozen=True)
class Comment:
    """A comment on an object, or on one of its columns."""

    kind: str  # table, view, macro or column
    schema: str
    name: str
    text: str
    column: str | None = None

    @property
    def about(self) -> str:
        """The object, as `verify` names it."""
        place = f"{self.schema}.{self.name}" + ("" if self.column is None else f".{self.column}")
        return f"comment on {self.kind.removesuffix(' table')} {place}"


def proved_of(thresholds: Sequence[Sequence[Any]]) -> list[Threshold]:
    """Thresholds that released rows do not show, from rows that begin with measure, column and threshold."""
    found = [(row[0], row[1], row[2]) for row in thresholds if row[0] in OF_THE_RECORDS]
    return sorted(found, key=lambda row: (row[0], row[1] or ""))


def check_query(exported: Exported) -> str:
    """Query of ``duckanon.check``: the audit of the release by the macros of the file."""
    relations = [named("main", part.of(exported.name)) for part in parts_of(exported.released)]
    attributes = _audited(exported)
    return templates.render(
        "export/check.sql.j2:query",
        rows=whole(relations, exported.columns, sensitive_of(exported.released)),
        name=exported.name,
        qi=[one.name for one in attributes if one.role is Role.QUASI_IDENTIFIER],
        sensitive=[one for one in attributes if one.role is Role.SENSITIVE],
        k=exported.policy.k,
        subsets=_subsets(exported, attributes),
        l_diversity=exported.policy.l_diversity,
        c=_short(exported.policy.c),
        shares=_shares(attributes),
        trees={one.name: one.tree for one in exported.released},
        proved=exported.proved,
        together=_together(exported, attributes),
        n=exported.policy.n,
        supersets=exported.supersets,
    ).strip()


def _together(exported: Exported, attributes: Sequence[Attribute]) -> list[dict[str, Any]]:
    """Each t of several columns, with the table of its certificate."""
    bound = joint_thresholds(exported.policy, attributes)
    return [
        {**asdict(one), "name": one.name, "t": _short(one.t), "proof": exported.proofs.get(one.name, "")}
        for one in bound
    ]


def comments(exported: Exported) -> list[Comment]:
    """Comments on the tables of a release and their columns, on the metadata and on every macro."""
    # sqlglot reads the macros; importing it takes a quarter of the start of every command.
    from duckanon.audits import macros

    found = [Comment("macro table", "main", name, text) for name, text in macros.questions().items()]
    found += [Comment("table", SCHEMA, name, text) for name, text in _METADATA.items()]
    found.append(Comment("view", SCHEMA, CHECK, _CHECK))
    attributes = {one.name: one for one in _audited(exported)}
    texts = {one.name: _column(one, attributes.get(one.name), exported.policy) for one in exported.released}
    for part in parts_of(exported.released):
        table = part.of(exported.name)
        found.append(Comment("table", "main", table, _SECOND if part.ending else _RELEASE))
        own = RECORDS if part.ending else None
        for column in part.columns:
            text = _COUNT if column == own else texts[column]
            found.append(Comment("column", "main", table, text, column))
    found += [
        Comment("table", SCHEMA, table, f"Certificate of the audit of {name} together; see duckanon.check.")
        for name, table in exported.proofs.items()
    ]
    if exported.supersets is not None:
        found.append(Comment("table", SCHEMA, exported.supersets, _SUPERSETS))
    for one in exported.released:
        what = "Order of the values" if one.distance == "ordered" else "Hierarchy"
        found += [Comment("table", SCHEMA, one.tree, f"{what} of {one.name}.")] if one.tree else []
    return found


def _subsets(exported: Exported, attributes: Sequence[Attribute]) -> list[SubsetThreshold]:
    """The k of subsets, sorted by their names: the metadata keep them in any order."""
    quasi = [one.name for one in attributes if one.role is Role.QUASI_IDENTIFIER]
    found = subset_thresholds(exported.policy.k_subsets, quasi, exported.policy.k)
    return sorted(found, key=lambda one: one.name)


def _audited(exported: Exported) -> list[Attribute]:
    """Audited columns; the metadata keep thresholds with more digits than the policy, and another order."""
    order = [name for name, _ in exported.columns]
    bound = sorted(bind_audit(exported.policy, exported.columns), key=lambda one: order.index(one.name))
    return [replace(one, t=_short(one.t), l=_short(one.l)) for one in bound]


def _shares(attributes: Sequence[Attribute]) -> dict[str, str]:
    """Thresholds of the shares of values by option, as JSON by column."""
    asked: dict[str, dict[str, Any]] = {}
    for one in attributes:
        for bound in share_bounds(one):
            by_column, share = asked.setdefault(bound.option, {}), float(bound.threshold)
            if bound.named is None:
                by_column[one.name] = share
            else:
                by_column.setdefault(one.name, {})[bound.named] = share
    return {option: json.dumps(by_column, ensure_ascii=False) for option, by_column in asked.items()}


def _column(column: Released, audited: Attribute | None, policy: AuditPolicy) -> str:
    """Role of a column, how it was recoded, and its thresholds."""
    if column.role == Role.CLASS.value:
        return f"Number of the class; k = {policy.k}."
    words = [column.role.replace("_", "-")]
    if column.recode is not None:
        words.append(f"recode = {column.recode}")
    if audited is not None and audited.role is Role.SENSITIVE:
        words.append(f"distance = {audited.distance}")
        c = "" if policy.c is None else f", c = {_short(policy.c)}"
        n = "" if policy.n is None else f" from {policy.n} records"
        words += [] if audited.t is None else [f"t = {audited.t}{n}"]
        words += [] if audited.l is None else [f"l = {audited.l} ({policy.l_diversity}{c})"]
        words += [
            f"{bound.option}{'' if bound.named is None else f' of {bound.named}'} = {_short(bound.threshold)}"
            for bound in share_bounds(audited)
        ]
    return f"{', '.join(words)}."


def _short(number: Decimal | None) -> Decimal | None:
    """Number without needless digits."""
    return None if number is None else Decimal(format(number.normalize(), "f"))


def attach(con: duckdb.DuckDBPyConnection, file: Path, *, new: bool) -> None:
    """Attach a file as `export` to a database in memory, either a new file or an existing one to read."""
    _run(con, templates.render("catalog/databases.sql.j2:attach", path=str(file), catalog="export", new=new))


def detach(con: duckdb.DuckDBPyConnection) -> None:
    """Detach the file, which is then complete."""
    _run(con, templates.render("catalog/databases.sql.j2:detach", catalog="export"))


def write_macros(con: duckdb.DuckDBPyConnection) -> None:
    """Write the audit macros into the attached file."""
    # sqlglot writes them; importing it takes a quarter of the start of every command.
    from duckanon.audits import macros

    _run(con, templates.render("session.sql.j2:use", catalog="export", schema="main"))
    for statement in macros.macro_statements(temporary=False):
        _run(con, statement)
    _run(con, templates.render("session.sql.j2:use", catalog="memory", schema="main"))


def write_check(con: duckdb.DuckDBPyConnection, exported: Exported) -> None:
    """Write the view that audits the release, and the comments, into the attached file."""
    _run(con, templates.render("session.sql.j2:use", catalog="export", schema="main"))
    _run(con, templates.render("export/check.sql.j2:view", query=check_query(exported)))
    _run(con, templates.render("export/check.sql.j2:comment", comments=comments(exported)))
    _run(con, templates.render("session.sql.j2:use", catalog="memory", schema="main"))


def _run(con: duckdb.DuckDBPyConnection, statement: str) -> None:
    engine.run(con, statement, "export", error=ReleaseError)
