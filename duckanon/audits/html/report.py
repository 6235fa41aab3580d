"""The HTML report: one self-contained file that says whether a table may be published, and why.

The page also has what another person needs to check it: versions, hashes, and the SQL of every audit.
"""

from __future__ import annotations

import contextlib
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from duckanon.audits import headers
from duckanon.audits.changes import same_value
from duckanon.audits.columns import SHARE_MEASURES, audit_columns, labels_of
from duckanon.audits.evidence import evidence_of
from duckanon.audits.html import sections, verdict
from duckanon.audits.html.charts import frontier_charts, required
from duckanon.audits.html.classes import distances, risk, sizes
from duckanon.audits.html.comparison import changed, correlations, effect, matching
from duckanon.audits.html.copies import STAGE, copied, make, released_columns, revealed, summary, uniqueness
from duckanon.audits.html.sections import effects
from duckanon.audits.legible import clean, counted, legible, number, percent, threshold
from duckanon.audits.run import audit_sql, roles_of, unaudited, warning_of
from duckanon.database import engine, templates
from duckanon.database.fingerprint import digest, fingerprint
from duckanon.database.paths import split
from duckanon.database.relations import columns_of, named
from duckanon.database.templates import ident, one_file
from duckanon.errors import PolicyError, SourceError
from duckanon.hierarchies.tree import audit_tree, label_tree
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.policy.names import fold
from duckanon.policy.policy import Policy
from duckanon.policy.subsets import subset_thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import pyarrow as pa

    from duckanon.audits.html.classes import Sizes
    from duckanon.audits.html.copies import CopiedColumn, Copies
    from duckanon.audits.report import Report
    from duckanon.audits.run import Roles
    from duckanon.policy.bind import Attribute
    from duckanon.policy.checks import Hierarchy
    from duckanon.policy.policy import AuditPolicy


@dataclass(frozen=True)
class Page:
    """HTML report of an audit.

    Attributes
    ----------
    html : str
        The page: one document without scripts, which loads nothing.
    report : Report
        The audit that the page shows.
    """

    html: str
    report: Report

    def __str__(self) -> str:
        """Text of the report, for a reader of a terminal."""
        return str(self.report)

    def __repr__(self) -> str:
        """Size and table of the page, since the page itself is long."""
        return f"Page of {self.report.name}: {len(self.html):,} characters of HTML"

    def _repr_html_(self) -> str:
        """Return the page in a frame, which keeps its style apart from the notebook."""
        frame = '<iframe title="Report of {}" srcdoc="{}" style="width:100%;height:42rem;border:0"></iframe>'
        return str(Markup(frame).format(clean(self.report.name), self.html))


def html_report(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    report: Report,
    policy: AuditPolicy | Policy,
    *,
    roles: Roles | None = None,
    original: str | None = None,
    title: str | None = None,
    now: datetime | None = None,
    trees: Mapping[str, str] | None = None,
    frontier: pa.Table | None = None,
    hierarchies: Mapping[str, Hierarchy] | None = None,
) -> str:
    """HTML page of an audit: verdicts, risk, utility, and all that is needed to check them.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Connection that sees the relations; only temporary tables are made, and removed.
    relation : str
        The released table, as quoted SQL text after FROM.
    report : Report
        Audit of that table.
    policy : AuditPolicy or Policy
        The policy of the audit, or of the release, which also names the unaudited columns.
    roles : Roles, optional
        Roles of the unaudited columns; by default those of a Policy.
    original : str, optional
        The source table of the release. With it the page shows distributions and correlations before and
        after, changes and losses, and is for internal use.
    title : str, optional
        Heading; by default the name of the report.
    now : datetime, optional
        Time stamp, by default the present; without a time zone it counts as UTC.
    trees : mapping from str to str, optional
        Tree (value, level, node), as SQL text, of sensitive columns with hierarchical distance; by default
        they are made from the hierarchy tables of the policy.
    frontier : pyarrow.Table, optional
        Rows of `duckanon.release.frontier.frontier`: the page then shows the cost of other k and t.
    hierarchies : mapping from str to str or to rows, optional
        Hierarchies of quasi-identifiers, by which their labels are ordered; by default those of a Policy.

    Returns
    -------
    str
        One HTML document without script, which loads nothing. The same input gives the same text.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    SourceError
        A relation cannot be read or is empty, or the report speaks of other rows.
    PolicyError
        A column does not exist, a hierarchy is unusable, or the report was judged by other thresholds.

    Notes
    -----
    SQL aggregates everything in O(n log n) time; Python gets some hundred rows a chart at most. Original
    values and tails of fewer than k records are not shown.
    """
    required()
    roles = roles or roles_of(policy)
    hierarchies = policy.hierarchies if hierarchies is None else hierarchies
    policy = policy.audited() if isinstance(policy, Policy) else policy
    columns = columns_of(con, relation, STAGE)
    attributes = bind.bind_audit(policy, columns)
    beyond = set(unaudited([name for name, _ in columns], attributes))
    others = [column for column in columns if column[0] in beyond]
    with copied(con, relation, attributes, others, original=original) as copies:
        paths = _trees(copies, attributes, relation, trees)
        _agree(copies, report, policy, attributes, paths)
        parts = {
            **_privacy(copies, report, policy, attributes, others, roles, paths),
            **_utility(copies, policy, hierarchies, original=original is not None),
        }
    made = evidence_of(con, relation, policy, trees)
    hashes = [("Released rows", made.fingerprint), ("Audit policy", made.policy_hash)]
    if original is not None:
        hashes.append(("Original rows", fingerprint(con, original)))
    return render(
        "report.html.j2",
        **parts,
        title=clean(title or f"Audit of {report.name}"),
        name=clean(report.name),
        when=stamp(now),
        internal=original is not None,
        policy=_policy(policy, attributes),
        policy_text=made.policy,
        plan=report.plan,
        frontier_charts=() if frontier is None else frontier_charts(frontier),
        # The page's statements read this file.
        hashes=[*hashes, ("sql/install.sql", digest(templates.read("install.sql")))],
        versions=versions(con),
        audits=audits(),
        stock_sql=stock_sql(report.name, policy, attributes, [name for name, _ in others]),
    )


def _privacy(
    copies: Copies,
    report: Report,
    policy: AuditPolicy,
    attributes: Sequence[Attribute],
    others: Sequence[tuple[str, str]],
    roles: Roles,
    paths: Mapping[str, str],
) -> dict[str, Any]:
    """Verdict, its limits, and the risks."""
    class_sizes = sizes(copies, policy.k)
    released = released_columns(copies, attributes, others, roles)
    alone = uniqueness(copies, class_sizes.records)
    uniform = {column.place: revealed(copies, column) for column in copies.sensitive}
    beside = warning_of(alone.unaudited, len(released), class_sizes.records, alone.alone_unaudited, roles)
    distinct = {one.column.place: summary(copies.con, one.column).distinct for one in released}
    return {
        **verdict.verdicts(report, [text for text in report.warnings if text != beside]),
        **sections.classes(class_sizes, policy.k),
        "sizes": class_sizes,
        "released": verdict.rows(released, policy, distinct),
        "audited": len(attributes),
        "unaudited": verdict.unaudited(alone, len(released)),
        "unsaid": verdict.unsaid(released, alone, uniform, classes=class_sizes.classes, policy=policy),
        "beside": verdict.beside(alone),
        "distances": [
            sections.distance(distances(copies, column, attribute, tree=paths.get(attribute.name)))
            for column, attribute in _sensitive(copies, attributes)
        ],
        "risks": _risks(risk(copies), class_sizes),
    }


def _utility(
    copies: Copies, policy: AuditPolicy, hierarchies: Mapping[str, Hierarchy], *, original: bool
) -> dict[str, Any]:
    """Utility of the release, compared with the original if it is given."""
    k = policy.k or 2
    trees = _label_trees(copies, hierarchies)
    changes = [changed(copies, column, k=k, tree=trees.get(column.place)) for column in copies.columns]
    match = matching(copies)
    measured = [] if match is None else [effect(copies, match, column, k=k) for column in copies.columns]
    return {
        **sections.utility(changes, correlations(copies), original=original),
        "missing": [
            clean(one.name) for one in copies.columns if copies.before and one.place not in copies.before
        ],
        "effect": None if match is None else effects(match, measured, k=k),
    }


def _sensitive(copies: Copies, attributes: Sequence[Attribute]) -> list[tuple[CopiedColumn, Attribute]]:
    sensitive = [one for one in attributes if one.role is Role.SENSITIVE]
    return list(zip(copies.sensitive, sensitive, strict=True))


def _label_trees(copies: Copies, hierarchies: Mapping[str, Hierarchy]) -> dict[str, str]:
    """Trees of quasi-identifiers with labels, by place; without those whose hierarchy is gone since."""
    by_name = {fold(name): hierarchy for name, hierarchy in hierarchies.items()}
    trees = {}
    for column in copies.quasi:
        hierarchy = by_name.get(fold(column.name))
        if hierarchy is None or column.kind != "text":
            continue
        tree, domain = (f"{copies.workspace}_{part}_{column.place}" for part in ("labels", "values"))
        values = copies.before.get(column.place, column)
        relation = named("temp", values.table)
        make(copies.con, "tree/values.sql.j2:domain", domain=domain, column=values.place, relation=relation)
        with contextlib.suppress(PolicyError):
            kind = "VARCHAR" if values.kind == "text" else values.type
            label_tree(copies.con, hierarchy, kind, tree=tree, domain=domain)
            trees[column.place] = tree
    return trees


def _trees(
    copies: Copies, attributes: Sequence[Attribute], relation: str, trees: Mapping[str, str] | None
) -> dict[str, str]:
    """Tree of every hierarchical column: the given tree, or the tree of its hierarchy."""
    return {
        one.name: (trees or {}).get(one.name)
        or audit_tree(copies.con, copies.workspace, one, relation=relation)
        for one in attributes
        if one.distance == "hierarchical"
    }


def _agree(
    copies: Copies,
    report: Report,
    policy: AuditPolicy,
    attributes: Sequence[Attribute],
    trees: Mapping[str, str],
) -> None:
    """Raise unless an audit of these rows by this policy gives the same report, so the page is consistent."""
    known = audit_columns(attributes, policy, trees)
    if policy.n is not None:
        # The distance from the whole table is reported and not judged.
        known = [replace(one, t=None) for one in known]
    asked = [replace(one, name=column.place) for one, column in zip(known, copies.sensitive, strict=True)]
    names = dict(labels_of(asked, known))
    relation = named("temp", copies.released)
    places = {fold(one.name): one.place for one in copies.quasi}
    subsets = []
    for one in subset_thresholds(policy.k_subsets, [one.name for one in copies.quasi], policy.k):
        moved = replace(one, columns=tuple(places[fold(name)] for name in one.columns))
        names[moved.name] = one.name
        subsets.append(moved)
    again = audit_sql(
        copies.con, relation, [*places.values()], asked, k=policy.k, name=report.name, subsets=subsets
    )
    reported = {(one.measure, one.attribute): one for one in report.measures}
    for measure in again.measures:
        name = None if measure.attribute is None else names[measure.attribute]
        before = reported.get((measure.measure, name))
        if before is None or before.threshold != measure.threshold:
            judged = "not at all" if before is None else f"by {before.threshold}"
            raise PolicyError(
                f"{STAGE}: {measure.measure} was judged {judged}, but the policy says {measure.threshold}: "
                "give the policy of the audit"
            )
        if not all(map(same_value, before.row()[3:], measure.row()[3:])):
            raise SourceError(
                f"{STAGE}: the report of {report.name!r} is not about these rows, or they "
                "changed since: audit again"
            )


def _risks(row: Mapping[str, float], class_sizes: Sizes) -> list[tuple[str, float]]:
    return [
        *((verdict.RISKS.get(name, name.replace("_", " ")), value) for name, value in row.items()),
        (
            "Share of the records that are alone in their class (unique)",
            class_sizes.unique / class_sizes.records,
        ),
    ]


def _policy(policy: AuditPolicy, attributes: Sequence[Attribute]) -> dict[str, Any]:
    return {
        "quasi": [one for one in attributes if one.role is Role.QUASI_IDENTIFIER],
        "sensitive": [one for one in attributes if one.role is Role.SENSITIVE],
        "k": policy.k,
        "l_diversity": policy.l_diversity,
        "c": policy.c,
        "bounds": {one.name: verdict.bounds_in_words(one) for one in attributes},
    }


def stamp(now: datetime | None) -> str:
    """Time as a page states it, by default the present; a time without zone counts as UTC."""
    when = now or datetime.now(UTC)
    utc = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%S UTC")


_FOLDER = Path(__file__).parents[2] / "templates"

_MARKS = re.compile(r"(?<=[_/.,;:?&=@|-])(?=[^\s_/.,;:?&=@|-])")
_WORD_MAX_LETTERS = 40
"""Letters of a word above which it may break anywhere."""


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(number=number, counted=counted, percent=percent, threshold=threshold)
    environment.filters.update(clean=clean, breakable=breakable)
    environment.filters["legible"] = lambda text: "\n".join(map(legible, text.split("\n")))
    return environment


def render(name: str, /, **values: object) -> str:
    """HTML text of a file in ``duckanon/templates``; an undefined name is an error.

    Text is escaped unless it is ``markupsafe.Markup``.
    """
    return _environment().get_template(name).render(**values)


def breakable(text: str) -> Markup:
    """Name or value that may break after marks (``_``, ``/`` ...), but not within words.

    A word that is too long for any column is marked as breakable anywhere.
    """
    return Markup(" ").join(
        Markup("<wbr>").join(
            Markup('<span class="long">{}</span>').format(part)
            if len(part) > _WORD_MAX_LETTERS
            else escape(part)
            for part in _MARKS.split(word)
        )
        for word in clean(text).split(" ")
    )


def versions(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Names and versions of the programs that made the report."""
    database = engine.rows(con, templates.render("report/classes.sql.j2:version"), STAGE)[0][0]
    return [
        ("duckanon", version("duckanon")),
        ("DuckDB", str(database).removeprefix("v")),
        ("Python", platform.python_version()),
        ("matplotlib", version("matplotlib")),
    ]


def audits() -> list[tuple[str, str, str]]:
    """Every audit of the report: its file below ``sql/``, its question, and its text."""
    files = {name: headers.audit_file(name) for name in headers.audit_names()}
    return [(file, headers.header(name).question, templates.read(file)) for name, file in files.items()]


def stock_sql(
    name: str, policy: AuditPolicy, attributes: Sequence[Attribute], unaudited: Sequence[str] = ()
) -> str:
    """Statements that repeat the audit in the stock ``duckdb`` command line, by ``sql/install.sql``."""
    path, table = split(name)
    if table is not None:
        schema, _, bare = table.rpartition(".")
        name = ".".join(ident(part) for part in ("released", schema or "main", bare))
    elif path.is_file():
        name = one_file(name)
    sensitive = [one for one in attributes if one.role is Role.SENSITIVE]
    plain = {one.name for one in sensitive if one.distance != "hierarchical"}
    # Text with an order is audited by the places of its values, in a statement of its own.
    ranked = {one.name for one in sensitive if one.order}
    one_value: list[tuple[str, Any]] = []
    by_column: list[tuple[str, list[tuple[str, Any]]]] = []
    if policy.l_diversity != "distinct":
        one_value.append(("l_diversity", policy.l_diversity))
    for option in ("k", "l", "t", "c", *SHARE_MEASURES):
        value = getattr(policy, option)
        if option == "t" and value is not None and ranked:
            entries = [(one.name, one.t) for one in sensitive if one.t and one.name in plain - ranked]
            by_column += [(option, entries)] if entries else []
        elif isinstance(value, Mapping):
            entries = [(column, value[column]) for column in value if column in plain]
            by_column += [(option, entries)] if entries else []
        elif value is not None and (plain or option == "k"):
            one_value.append((option, value))
    chosen = [
        (column, kind)
        for column, kind in policy.distance.items()
        if kind != "hierarchical" and column not in ranked
    ]
    return templates.render(
        "report/check.sql.j2",
        name=name,
        file=None if table is None else str(path),
        quasi=[one.name for one in attributes if one.role is Role.QUASI_IDENTIFIER],
        sensitive=sensitive,
        unaudited=unaudited,
        subsets=[
            one.columns for one in subset_thresholds(policy.k_subsets, policy.quasi_identifiers, policy.k)
        ],
        thresholds=one_value,
        by_column=by_column + ([("distance", chosen)] if chosen else []),
    ).lstrip()
