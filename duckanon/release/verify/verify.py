"""Verification of released data: every recorded audit is repeated and compared with its record.

The tables of a database are copied before they are queried, one release at a time, so that statistics in the
file have no influence. A macro of the current database would hide DuckDB's function of the same name: a file
could bring its own sha256, or a duckdb_functions without that macro. So names are made to mean DuckDB's own
functions.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duckanon.audits.evidence import canonical, read_canonical, tree_fingerprints
from duckanon.audits.report import COLUMNS, Measure
from duckanon.audits.run import audit_attributes
from duckanon.database import engine, interrupts, own_copy, templates
from duckanon.database.fingerprint import digest, fingerprint
from duckanon.database.relations import Target, columns_of, relation_of
from duckanon.errors import DuckanonError
from duckanon.policy.bind import bind_audit
from duckanon.policy.policy import Policy
from duckanon.policy.reported import OF_THE_RECORDS, P_PERCENT
from duckanon.release import foreign, metadata
from duckanon.release.metadata import SCHEMA
from duckanon.release.proofs import read_proof, read_supersets
from duckanon.release.tables import parts_of, read
from duckanon.release.verify.beside import misshapen
from duckanon.release.verify.contents import held
from duckanon.release.verify.outcome import Verification, Verified, differing, missing
from duckanon.release.verify.record import STAGE, checked, misworded, of_the_source, read_releases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import duckdb

    from duckanon.audits.report import Report
    from duckanon.policy.policy import AuditPolicy
    from duckanon.release.tables import Part
    from duckanon.release.verify.record import RecordedAudit, RecordedRelease


def verify(
    con: duckdb.DuckDBPyConnection, expected: Sequence[str] = (), *, heads: Sequence[str] = ()
) -> Verification:
    """Verify every release of the current database, opened read-only; nothing is written.

    Each expected fingerprint or policy hash must belong to a release, each head to a link of a chain. Costs a
    fingerprint for each release, and an audit for each of its distinct policies.
    """
    with _own_functions(con) as home, own_copy.room(con, [SCHEMA], STAGE) as told:
        foreign.check_metadata(con, home, STAGE)
        lies = foreign.own_metadata(con, home, told, STAGE)
        recorded = read_releases(con, told, called=home)
        releases = tuple(_verified(con, home, release) for release in recorded)
        beside = held(con, home, told, recorded)
    differences = (*missing(releases, expected, heads), *lies, *beside.differences)
    return Verification(home, releases, differences, beside.notes, beside.macros)


@contextlib.contextmanager
def _own_functions(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Let names mean DuckDB's own functions; give the name of the database that was current."""
    ((home, schema, before),) = engine.rows(con, templates.render("session.sql.j2:current"), STAGE)

    def restore() -> None:
        # Names of the search path may belong to the database that was current.
        engine.run(con, templates.render("session.sql.j2:use", catalog=home, schema=schema), STAGE)
        look_up(before)

    def look_up(path: str) -> None:
        statement = templates.render("session.sql.j2:set", name="search_path", value=path, session=False)
        engine.run(con, statement, STAGE)

    with interrupts.cleanup(con, restore):
        look_up("system.main")
        yield home


def _verified(con: duckdb.DuckDBPyConnection, home: str, release: RecordedRelease) -> Verified:
    with own_copy.room(con, [SCHEMA], STAGE) as room:
        return _verified_in(con, home, room, release)


def _verified_in(con: duckdb.DuckDBPyConnection, home: str, room: str, release: RecordedRelease) -> Verified:
    relation, differences = _place(con, home, room, release)
    chain = checked(con, release.target.catalog, release)
    differences += [*misworded(release), *chain.differences]
    empty = Verified(
        release=str(release),
        created_at=release.created_at,
        records=None,
        fingerprint=None,
        policy_hash=None,
        policy=None,
        heads=chain.heads,
        links=chain.links,
        audits=len(release.audits),
        report=None,
        differences=tuple(differences),
        notes=(),
    )
    if relation is None:
        return empty
    try:
        subject, lies = _subject(con, home, room, release, relation)
        differences += lies
        asked = release.asked()
        text = canonical(asked, subject.columns, subject.trees)
        report = subject.audit(asked)
    except DuckanonError as failure:
        return replace(empty, differences=(*differences, f"the release cannot be audited: {failure}"))
    differences += [*_structure(release, subject, report), *_policies(release, subject, text)]
    for audit in release.audits:
        differences += [f"{audit}: {what}" for what in _redone(release, audit, subject)]
    return replace(
        empty,
        records=subject.records,
        fingerprint=subject.fingerprint,
        policy_hash=digest(text),
        policy=text,
        report=report,
        differences=tuple(differences),
        notes=release.told,
    )


@dataclass(frozen=True)
class _Subject:
    """The present released rows."""

    columns: list[tuple[str, str]]
    trees: dict[str, str]
    fingerprint: str
    records: int
    audit: Callable[[AuditPolicy], Report]


def _subject(
    con: duckdb.DuckDBPyConnection, home: str, room: str, release: RecordedRelease, relation: str
) -> tuple[_Subject, list[str]]:
    """Return the rows of a release, copies of its trees, and false statements of the file about the trees."""
    done: dict[str, Report] = {}
    asked = release.asked()
    columns = columns_of(con, relation, STAGE)
    name = str(replace(release.target, catalog=home))

    def audit(policy: AuditPolicy) -> Report:
        key = canonical(policy, columns, {})
        if key not in done:
            attributes = bind_audit(policy, columns)
            own = certificates if policy.joint_distance == asked.joint_distance else {}
            done[key] = audit_attributes(
                con, relation, attributes, policy, trees, name=name, certificates=own, supersets=boxes
            )
        return done[key]

    lies: list[str] = []
    graded = [column for column in release.columns if column.distance == "hierarchical"]
    named = {column.name: column.tree for column in graded if column.tree is not None}
    for tree in dict.fromkeys(named.values()):
        stored = foreign.stored(con, Target(home, SCHEMA, tree), STAGE)
        lies += foreign.own_table(con, stored, room, STAGE)[1]
    trees = {column: metadata.backing(room, tree) for column, tree in named.items()}
    proofs = {}
    for proof in (*release.proofs.values(), *([release.supersets] if release.supersets else [])):
        stored = foreign.stored(con, Target(home, SCHEMA, proof), STAGE)
        own, told = foreign.own_table(con, stored, room, STAGE)
        proofs[proof] = relation_of(own)
        lies += told
    certificates = {
        name: read_proof(con, proofs[proof], name, STAGE) for name, proof in release.proofs.items()
    }
    boxes = read_supersets(con, proofs[release.supersets], STAGE) if release.supersets else None
    lies += misshapen(con, home, room, release, relation)
    count = engine.rows(con, templates.render("relation.sql.j2:count", relation=relation), STAGE)
    subject = _Subject(
        columns=columns,
        trees=tree_fingerprints(con, trees),
        fingerprint=fingerprint(con, relation),
        records=int(count[0][0]),
        audit=audit,
    )
    return subject, lies


def _place(
    con: duckdb.DuckDBPyConnection, home: str, room: str, release: RecordedRelease
) -> tuple[str | None, list[str]]:
    """Copy the rows of a release to a room; return them as SQL text, and faults of their place."""
    query = templates.render("evidence/contents.sql.j2:relations", catalog=home)
    rows = engine.rows(con, query, STAGE)
    parts, there = parts_of(release.released), [row[:3] for row in rows]
    if release.exported:
        tables = [Target(home, "main", part.of(release.target.name)) for part in parts]
        missing = "the table {0.name!r} of the release is not in the file"
        differences = []
    else:
        tables = [Target(home, SCHEMA, part.of(release.table)) for part in parts]
        missing = "the table {0.schema}.{0.name} of the release is gone"
        differences = [text for part in parts for text in _view(con, home, release, part, rows)]
    for table in tables:
        if ("table", table.schema, table.name) not in there:
            return None, [*differences, missing.format(table)]
    try:
        relations = []
        for table in tables:
            own, lies = foreign.own_table(con, foreign.stored(con, table, STAGE), room, STAGE)
            relations.append(relation_of(own))
            differences += lies
        return read(con, relations, release.released, STAGE), differences
    except DuckanonError as failure:
        return None, [*differences, str(failure)]


def _view(
    con: duckdb.DuckDBPyConnection,
    home: str,
    release: RecordedRelease,
    part: Part,
    rows: Sequence[tuple[Any, ...]],
) -> Iterator[str]:
    """Tell whether the view of a part shows its table; the view is read as text and never run."""
    target, table = part.beside(release.target), part.of(release.table)
    marked = [row[1:3] for row in rows if row[3] == metadata.comment(release.release_id, part.ending)]
    if (target.schema, target.name) not in marked:
        now = f"it is now called {'.'.join(marked[0])}" if marked else "it is gone or was replaced"
        yield f"the view {target.schema}.{target.name} does not show the release: {now}"
    else:
        marked = [(target.schema, target.name)]
    for schema, name in marked[:1]:
        view = Target(home, schema, name)
        if not metadata.is_release_view(con, view, table, part.columns):
            yield (
                f"the view {schema}.{name} is not the one that duckanon wrote: its rows were not read, but "
                f"those of {SCHEMA}.{table}"
            )


def _structure(release: RecordedRelease, subject: _Subject, report: Report) -> Iterator[str]:
    recorded = [(column.name, column.type) for column in release.columns]
    if recorded != subject.columns:
        yield f"columns recorded {_listed(recorded)}, found {_listed(subject.columns)}"
    if release.records != subject.records:
        yield f"records recorded {release.records}, found {subject.records}"
    classes = report.classes
    if release.classes != classes:
        yield f"classes recorded {release.classes}, found {classes}"
    if any(audit.audited_at is None for audit in release.audits):
        yield f"{SCHEMA}.audits has an audit without its time"
    for (measure, attribute), times in Counter(row[:2] for row in release.thresholds).items():
        if times > 1:
            about = measure if attribute is None else f"{measure} of {attribute}"
            yield f"{SCHEMA}.thresholds names {about} {times} times"


def _policies(release: RecordedRelease, subject: _Subject, text: str) -> Iterator[str]:
    """Compare the three statements of the policy of the release."""
    if not release.exported:
        try:
            policy = _as_released(Policy.from_toml(release.policy or "").audited(), release)
            stated = canonical(policy, subject.columns, subject.trees)
        except DuckanonError as failure:
            yield f"the policy of the release cannot be read: {failure}"
        else:
            yield from _lines("the policy of the release", stated, text)
    made = [audit for audit in release.audits if audit.statement in {"release", "export"}]
    if not [audit for audit in release.audits if audit.statement == "release"]:
        yield "the audit with which the release was made is not recorded"
    for audit in made:
        yield from _lines(f"the policy of {audit}", audit.policy or "", text)


def _as_released(policy: AuditPolicy, release: RecordedRelease) -> AuditPolicy:
    """Return a policy whose orders have released values only; the order of an ENUM is not in the policy."""
    recorded = {column.name: column.order for column in release.columns if column.order}
    return policy.override(
        order={
            name: tuple(value for value in policy.order.get(name, values) if value in values)
            for name, values in recorded.items()
        }
    )


def _lines(what: str, stated: str, tables: str) -> Iterator[str]:
    one, other = stated.splitlines(), tables.splitlines()
    for line in one:
        if line not in other:
            yield f"{what} says {line}, the tables of columns and thresholds do not"
    for line in other:
        if line not in one:
            yield f"{what} does not say {line}, the tables of columns and thresholds do"


def _redone(release: RecordedRelease, audit: RecordedAudit, subject: _Subject) -> Iterator[str]:
    if audit.schema_version != release.schema_version:
        yield f"metadata version recorded {audit.schema_version}, of the release {release.schema_version}"
    if audit.fingerprint != subject.fingerprint:
        yield f"fingerprint recorded {audit.fingerprint}, found {subject.fingerprint}"
    policy_hash = digest(audit.policy or "")
    if audit.policy_hash != policy_hash:
        yield f"policy hash recorded {audit.policy_hash}, found {policy_hash} of the recorded policy"
    try:
        policy = read_canonical(audit.policy or "")
        if canonical(policy, subject.columns, subject.trees) != audit.policy:
            yield "the recorded policy is not the one that these columns and trees give"
        again = subject.audit(policy).measures
    except DuckanonError as failure:
        yield f"it cannot be done again: {failure}"
        return
    if audit.statement == "release":
        again += of_the_source(
            again[0].classes, information_loss=release.information_loss, suppressed=release.suppressed
        )
        yield from _proved(release, audit)
        again += tuple(as_it_was(row) for row in audit.measures if row["measure"] in OF_THE_RECORDS)
    writer = audit.duckanon_version or release.duckanon_version
    yield from differing(audit.measures, again, writer=writer)


def _proved(release: RecordedRelease, audit: RecordedAudit) -> Iterator[str]:
    """Tell where the record of facts beyond the released rows contradicts itself."""
    rows = [row for row in audit.measures if row["measure"] in OF_THE_RECORDS]
    found = {(row["measure"], row["attribute"]) for row in rows}
    for measure, attribute in sorted(found ^ release.proved.keys(), key=str):
        alone = "audits" if (measure, attribute) in found else "thresholds"
        yield f"{_of(measure, attribute)} is recorded in {SCHEMA}.{alone} alone"
    for row in rows:
        asked = release.proved.get((row["measure"], row["attribute"]))
        if asked is None:
            continue
        # If all values are 0, there is no value to reveal, and no least per cent.
        least = (
            row["value"]
            if row["value"] is not None
            else math.inf * (1 if row["measure"] == P_PERCENT else -1)
        )
        kept = row["threshold"] == asked <= least and row["passed"] and row["violations"] == 0
        if not kept:
            what = _of(row["measure"], row["attribute"])
            yield f"{what} is recorded as {row['value']}, where {asked} were asked for"


def _of(measure: str, attribute: str | None) -> str:
    return measure if attribute is None else f"{measure} of {attribute!r}"


def as_it_was(row: Mapping[str, Any]) -> Measure:
    """Measure of a recorded row."""
    return Measure(*(row[name] for name in COLUMNS))


def _listed(columns: Sequence[tuple[str | None, str | None]]) -> str:
    return ", ".join(f"{name} {type_text}" for name, type_text in columns)
