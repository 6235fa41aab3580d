"""REFRESH with mode 'append': records of new subjects form classes of their own beside the published classes.

Published classes never change. A released subject keeps its published records, even if the source has
changed. Records of new subjects wait in the source until k subjects can form classes that keep the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from duckanon import progress
from duckanon.audits.columns import AuditColumn, audit_columns
from duckanon.audits.report import Measure
from duckanon.audits.run import audit_sql
from duckanon.database import engine, templates
from duckanon.database.relations import columns_of, named, relation_of, subquery
from duckanon.errors import InfeasibleError, PolicyError, ReleaseError, tell
from duckanon.policy import bind
from duckanon.policy.bind import Role
from duckanon.policy.names import ByColumn
from duckanon.policy.reported import MIN_VALUES, P_PERCENT, SUBJECTS, SUBJECTS_SUBSET, reported_loss
from duckanon.policy.subsets import binding, subset_thresholds
from duckanon.release import metadata, successive
from duckanon.release.chain import changed_by_hand
from duckanon.release.pipeline import candidate_of
from duckanon.release.publish import Ready, hierarchies, publish
from duckanon.release.source import in_step, names_of
from duckanon.release.stages.advise.advise import dominated
from duckanon.release.stages.advise.sensitive import revealed
from duckanon.release.stages.stage import read_source, subject_columns_of
from duckanon.release.verify.record import of_the_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from duckanon.audits.report import Report
    from duckanon.policy.bind import Attribute
    from duckanon.policy.checks import Intersection
    from duckanon.policy.policy import Policy
    from duckanon.release.metadata import Published
    from duckanon.release.pipeline import Candidate
    from duckanon.release.source import Drawn, Source
    from duckanon.release.stages.stage import Staged, SubjectColumn
    from duckanon.release.successive import Kept, Persons

STAGE = "append"


@dataclass(frozen=True)
class Since:
    """Numbers of subjects in a source, compared with the release made from it."""

    released: int  # subjects in the release
    waiting: int  # subjects in the source, not in the release
    gone: int  # released subjects that the source no longer has
    changed: int  # released subjects with other released values or another number of records


@dataclass(frozen=True)
class Appended:
    """Result of an append."""

    made: Ready | None  # what was published; None if all new records wait
    since: Since  # after the append
    why: str | None  # why records wait although they are enough for a class


@dataclass(frozen=True)
class _Batch:
    """The new records of a source, and the release that gets their classes."""

    published: Published
    policy: Policy
    source: Source
    known: Kept
    earlier: Sequence[Kept]  # known at the start, including `known`
    workspace: str
    attributes: tuple[Attribute, ...]
    subject_columns: tuple[SubjectColumn, ...]

    @property
    def all(self) -> str:
        """Temporary table of the rows of the source."""
        return f"{self.workspace}_source"

    @property
    def new(self) -> str:
        """Temporary table of the source rows whose subject is not in the release."""
        return f"{self.workspace}_new"

    @property
    def home(self) -> str:
        """Database of the release."""
        return self.published.target.catalog


def append(
    con: duckdb.DuckDBPyConnection,
    published: Published,
    source: Source,
    policy: Policy,
    *,
    on_intersection: Intersection,
) -> Appended:
    """Publish the release with classes of new subjects. O(n log n) in the new records.

    The audit covers all rows, so t is against the released distribution. Fewer than k new subjects wait, and
    so do new records that cannot keep the policy. PolicyError if the view does not permit appending.
    """
    _check(published, policy)
    earlier = successive.kept(con, published.target.catalog)
    known = _known(published, earlier)
    changed = changed_by_hand(con, published, metadata.rows(con, published))
    if changed is not None:
        raise ReleaseError(f"mode = 'append' keeps what is published, and {changed}")
    with names_of(con, source), engine.temporary(con) as workspace:
        batch = _read(con, published, policy, source, known, earlier, workspace)
        appended = _appended(con, batch, on_intersection)
        if appended.made is None:
            with engine.transaction(con):
                successive.waits(con, batch.home, known)
        return appended


def _appended(con: duckdb.DuckDBPyConnection, batch: _Batch, on_intersection: Intersection) -> Appended:
    """Publish new classes, or return why the new records wait."""
    since = _since(con, batch, named("temp", batch.all))
    if not since.released:
        raise _not_kept(batch.published)
    if since.released == since.gone and since.waiting:
        raise ReleaseError(
            f"no subject of {batch.published.target} is in its source any more, and those that are would be "
            "published beside them: REFRESH it without mode = 'append'"
        )
    if since.waiting < _fewest(batch.policy):
        return Appended(None, since, None)
    if batch.policy.nulls == "suppress" and _usable(con, batch) < _fewest(batch.policy):
        return Appended(None, since, "too few have quasi-identifiers without a NULL")
    limits = _limits(con, batch)
    if limits is None:
        return Appended(None, since, "their sensitive values are farther from those of all records than t")
    try:
        return _released(con, batch, limits, since, on_intersection)
    except InfeasibleError as failure:
        return Appended(None, since, str(failure))


def since_release(
    con: duckdb.DuckDBPyConnection, published: Published, source: Source, policy: Policy
) -> Since | None:
    """Subjects of the present source beside an appended release; None for other releases. O(n)."""
    earlier = successive.kept(con, published.target.catalog)
    kept = next((one for one in earlier if one.release_id == published.release_id), None)
    if kept is None or kept.mode != "append":
        return None
    with names_of(con, source), engine.temporary(con) as workspace:
        batch = _read(con, published, policy, source, kept, earlier, workspace)
        return _since(con, batch, named("temp", batch.all))


def _check(published: Published, policy: Policy) -> None:
    name = published.target
    if not policy.subject:
        raise PolicyError(
            f"mode = 'append' has to know which rows of the source are new, and {name} names nobody: make it "
            "with subject = (...), the columns that tell whose a row is"
        )
    if policy.release != "table":
        raise PolicyError(
            f"mode = 'append' is of release = 'table', and {name} has release = {policy.release!r}: leave "
            "the mode out"
        )
    if policy.joint_t is not None:
        raise PolicyError(
            f"mode = 'append' gives new records classes of their own, and {name} has t of several columns "
            "together, which is measured on all records: leave the mode out"
        )
    if policy.method == "full_domain":
        raise PolicyError(
            f"mode = 'append' would give new classes of {name} other levels than the published ones: "
            "method = 'full_domain' has one for all, so leave the mode out"
        )


def _known(published: Published, earlier: Sequence[Kept]) -> Kept:
    for one in earlier:
        if one.release_id == published.release_id:
            return one
    raise _not_kept(published)


def _not_kept(published: Published) -> ReleaseError:
    return ReleaseError(
        f"of {published.target} it was not kept who is in it: REFRESH it once without mode = 'append'"
    )


def _read(
    con: duckdb.DuckDBPyConnection,
    published: Published,
    policy: Policy,
    source: Source,
    known: Kept,
    earlier: Sequence[Kept],
    workspace: str,
) -> _Batch:
    """Read the source, and separate the new records."""
    read_source(con, source.query, f"{workspace}_source", None)
    columns = columns_of(con, named("temp", f"{workspace}_source"), STAGE)
    if source.drawn is not None:
        columns = in_step(columns, source.drawn, policy)
    subject_columns = subject_columns_of(policy, columns)
    attributes = bind.bind(policy, columns)
    batch = _Batch(published, policy, source, known, earlier, workspace, attributes, subject_columns)
    basis = successive.basis_of(con, subject_columns)
    if basis != known.basis:
        raise ReleaseError(
            f"the source of {published.target} tells subjects by other columns "
            f"({basis}) than when it was released ({known.basis}): REFRESH it without "
            "mode = 'append'"
        )
    _run(con, "successive/append.sql.j2:new", batch, new=batch.new, source=batch.all)
    return batch


def _run(con: duckdb.DuckDBPyConnection, template: str, batch: _Batch, **values: object) -> None:
    engine.run(con, templates.render(template, **_of(batch), **values), STAGE)


def _of(batch: _Batch) -> dict[str, object]:
    """Return template values of the release and of the columns of the source."""
    return {
        "catalog": batch.home,
        "release_id": batch.known.release_id,
        "salt": batch.known.salt,
        "subject_columns": [
            (templates.render("relation.sql.j2:named", parts=[one.name]), one.type)
            for one in batch.subject_columns
        ],
    }


def _usable(con: duckdb.DuckDBPyConnection, batch: _Batch) -> int:
    """Count the new subjects that no NULL leaves out."""
    query = templates.render(
        "successive/append.sql.j2:usable", new=batch.new, quasi=_quasi(batch), **_of(batch)
    )
    return int(engine.rows(con, query, STAGE)[0][0])


def _quasi(batch: _Batch) -> list[tuple[str, str]]:
    return _columns(batch, Role.QUASI_IDENTIFIER)


def _columns(batch: _Batch, *roles: Role) -> list[tuple[str, str]]:
    """Return quoted columns of some roles, with their types."""
    return [(named(one.name), one.type) for one in successive.in_order(batch.attributes) if one.role in roles]


def _since(con: duckdb.DuckDBPyConnection, batch: _Batch, relation: str) -> Since:
    query = templates.render(
        "successive/append.sql.j2:since",
        source=relation,
        quasi=_quasi(batch),
        columns=_columns(batch, Role.QUASI_IDENTIFIER, Role.SENSITIVE, Role.INSENSITIVE),
        suppress=batch.policy.nulls == "suppress",
        **_of(batch),
    )
    return Since(*(int(count) for count in engine.rows(con, query, STAGE)[0]))


def _limits(con: duckdb.DuckDBPyConnection, batch: _Batch) -> dict[str, Decimal] | None:
    """Return t of each sensitive column for classes among the new records; None if no t is positive.

    EMD is a metric. So EMD(class, all) <= EMD(class, new) + EMD(new, all), and t is reduced by the last term.
    It is not reduced for hierarchies; their t is decided by the audit of all rows.
    """
    with_t = [one for one in batch.attributes if one.role is Role.SENSITIVE and one.t is not None]
    if not with_t:
        return {}
    types = dict(columns_of(con, relation_of(batch.published.target), STAGE))
    measured = [one for one in with_t if one.distance != "hierarchical"]
    distances: dict[str | None, float] = {}
    if measured:
        columns = [(one.name, types[one.name]) for one in measured]
        flag = "is_new" + "_" * max(len(one.name) for one in measured)
        query = templates.render(
            "successive/append.sql.j2:batch",
            relation=relation_of(batch.published.target),
            new=batch.new,
            columns=columns,
            flag=flag,
        )
        asked = [AuditColumn(one.name, one.distance or "equal", order=one.order) for one in measured]
        report = audit_sql(con, subquery(query), [flag], asked, k=None, name="the new records", texts=set())
        distances = {
            measure.attribute: float(measure.value or 0)
            for measure in report.measures
            if measure.measure == "t_closeness"
        }
    limits = {}
    for one in with_t:
        # An audit compares 12 digits. One unit more is subtracted to cover the rounding of the distance.
        far = Decimal(str(round(distances.get(one.name, 0.0), 12))) + Decimal("1e-12") * bool(
            distances.get(one.name)
        )
        limits[one.name] = (one.t or Decimal(1)) - far
    return limits if all(limit > 0 for limit in limits.values()) else None


def _released(
    con: duckdb.DuckDBPyConnection,
    batch: _Batch,
    limits: dict[str, Decimal],
    since: Since,
    on_intersection: Intersection,
) -> Appended:
    """Publish the release with the new classes, or return which part of the policy it would violate."""
    policy = replace(batch.policy, t=ByColumn(limits)) if limits else batch.policy
    query = templates.render("relation.sql.j2:rows", relation=named("temp", batch.new))
    # Advice on the new records alone would mislead. The revealed values of all classes are reported instead.
    with candidate_of(con, query, policy, drawn=batch.source.drawn, advice=False) as candidate:
        if batch.source.drawn is not None:
            _check_hierarchies(con, batch.source.drawn, candidate.staged)
        made, persons, failed = _beside(con, batch, candidate)
        if failed is not None:
            about = f" of {failed.attribute!r}" if failed.attribute else ""
            missed = f"{failed.measure}{about} of all records would be {failed.value:.6g}"
            why = f"with them {missed} where the policy asks for {failed.threshold}"
            return Appended(None, since, why)
        target = batch.published.target
        report = successive.compared(
            con, replace(candidate, report=made.report), persons, target, batch.earlier, on_intersection
        ).report
        made = replace(made, report=report)
        for text in report.warnings:
            tell(text)
        with progress.step("publish"):
            number = publish(con, made, batch.source, target, persons=persons, refreshed=batch.published)
    now = replace(batch, known=replace(batch.known, release_id=number))
    return Appended(made, _since(con, now, named("temp", batch.all)), None)


def _check_hierarchies(con: duckdb.DuckDBPyConnection, source: Drawn, staged: Staged) -> None:
    """Raise if new classes would have other hierarchies than the published classes."""
    before = {column.name: column.hierarchy for column in source.columns}
    for name, now in hierarchies(con, staged).items():
        if before.get(name) != now:
            raise ReleaseError(
                f"the hierarchy of {name!r} is not the one that {source.view} was made with, and mode = "
                "'append' would release nodes of both: REFRESH it without mode = 'append'"
            )


def _beside(
    con: duckdb.DuckDBPyConnection, batch: _Batch, candidate: Candidate
) -> tuple[Ready, Persons, Measure | None]:
    """Put new classes beside the published ones; return the audited result, its persons, a failed measure."""
    published, table = batch.published, f"{batch.workspace}_combined"
    relation = relation_of(published.target)
    columns = columns_of(con, relation, STAGE)
    if columns != columns_of(con, named("temp", candidate.recoded.table), STAGE):
        raise ReleaseError(
            f"the columns of {published.target} have other names, types or another order than new records "
            "would have: REFRESH it without mode = 'append'"
        )
    persons = _all_persons(con, batch, candidate, table, [name for name, _ in columns])
    released = candidate.recoded.released
    records = published.records + released
    # The mean of the losses of both parts, each against its own spread. The loss against the whole spread
    # needs the source.
    old, new, loss = published.information_loss, candidate.information_loss, None
    if old is not None and new is not None:
        lost = (published.records * old + released * new) / records
        loss = reported_loss(lost, batch.policy)
    report, failed = _audited(con, batch, candidate, table, persons, loss)
    made = Ready(
        replace(candidate, policy=batch.policy),
        table,
        records,
        report.classes,
        candidate.recoded.suppressed,
        loss,
        report,
        tuple(one for one in batch.attributes if one.role is Role.SENSITIVE),
        "append",
    )
    return made, persons, failed


def _all_persons(
    con: duckdb.DuckDBPyConnection, batch: _Batch, candidate: Candidate, table: str, columns: list[str]
) -> Persons:
    """Make the rows of all classes, published and new, and the tables of their persons."""
    news = successive.persons_of(con, candidate, batch.source, batch.earlier)
    old = metadata.backing(batch.home, successive.tables_of(batch.known.release_id)[0])
    offset = int(
        engine.rows(con, templates.render("successive/kept.sql.j2:classes", relation=old), STAGE)[0][0]
    )
    workspace = batch.workspace
    _run(
        con,
        "successive/append.sql.j2:combined",
        batch,
        combined=table,
        relation=relation_of(batch.published.target),
        candidate=candidate.recoded.table,
        columns=columns,
        persons=f"{workspace}_persons",
        sensitive=f"{workspace}_values",
        new_persons=news.persons,
        new_sensitive=news.sensitive,
        offset=offset,
    )
    return replace(news, persons=f"{workspace}_persons", sensitive=f"{workspace}_values", published=offset)


def _audited(
    con: duckdb.DuckDBPyConnection,
    batch: _Batch,
    candidate: Candidate,
    table: str,
    persons: Persons,
    loss: float | None,
) -> tuple[Report, Measure | None]:
    """Audit all rows by the policy of the view, and find the fewest subjects of a class."""
    policy, staged = batch.policy, candidate.staged
    sensitive = [one for one in batch.attributes if one.role is Role.SENSITIVE]
    quasi = [field.name for field in staged.quasi]
    asked = audit_columns(sensitive, policy.audited(), staged.trees)
    subsets = subset_thresholds(policy.k_subsets, quasi, policy.k)
    relation, name = named("temp", table), str(batch.published.target)
    report = audit_sql(con, relation, quasi, asked, k=policy.k, name=name, subsets=subsets)
    query = templates.render("successive/kept.sql.j2:classes", relation=named("temp", persons.persons))
    # A new class with published values merges with a published class. So the smaller of both is a lower
    # bound.
    fewest = engine.rows(con, query, STAGE)[0][1]
    few = 0 if fewest >= policy.k else 1
    subjects = Measure(SUBJECTS, None, policy.k, float(fewest), report.classes, few, few, not few)
    extra = of_the_source(report.classes, information_loss=loss, suppressed=candidate.recoded.suppressed)
    plan = f"classes of new records beside those published; of the new ones: {candidate.report.plan}"
    warnings = (*revealed(con, staged, table, staged.quasi), *dominated(con, staged, policy))
    within = [*_of_subsets(candidate), *_within(candidate, report.classes)]
    enough = _enough(con, batch, candidate, report.classes)
    full = report.extended((*extra, subjects, *within, *enough), warnings=warnings, plan=plan)
    return full, next((one for one in full.measures if one.passed is False), None)


def _fewest(policy: Policy) -> int:
    """Fewest new records from which classes are made: k, or the largest k of a subset."""
    return max(
        [policy.k, *(one.k or 0 for one in binding(policy.k_subsets, policy.quasi_identifiers, policy.k))]
    )


def _of_subsets(candidate: Candidate) -> list[Measure]:
    """Give the subjects of subsets for all classes: published and new classes keep each k by themselves."""
    return [
        replace(found, value=float(found.threshold or 0))
        for found in candidate.report.measures
        if found.measure == SUBJECTS_SUBSET
    ]


def _within(candidate: Candidate, classes: int) -> list[Measure]:
    """Give the p % rule for all classes; published classes keep it by the same policy."""
    return [
        replace(found, classes=classes) for found in candidate.report.measures if found.measure == P_PERCENT
    ]


def _enough(
    con: duckdb.DuckDBPyConnection, batch: _Batch, candidate: Candidate, classes: int
) -> list[Measure]:
    """Give the least number of values behind a class mean, for each column that some records lack."""
    query = templates.render("successive/append.sql.j2:proved", measure=MIN_VALUES, **_of(batch))
    names = [name for name, _ in engine.rows(con, query, STAGE)]
    names += [one.attribute for one in candidate.report.measures if one.measure == MIN_VALUES]
    least = batch.policy.least_values
    return [Measure(MIN_VALUES, name, least, float(least), classes, 0, 0, True) for name in sorted({*names})]
