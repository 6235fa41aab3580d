"""The command ``audit``: any table or file against thresholds, in a format for readers or for machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.api import files
from duckanon.audits import changes
from duckanon.audits.formats import FORMATS, formatted, titled
from duckanon.audits.html.charts import required
from duckanon.audits.html.report import html_report
from duckanon.audits.legible import legible
from duckanon.audits.run import Roles, audit_relation, kept_relation
from duckanon.cli.documents import check_output, deliver
from duckanon.cli.flags import from_policy_file, read_flags, read_text, require
from duckanon.cli.options import DOCUMENT, OF_AUDIT, SHARED, Option, Table, command
from duckanon.cli.output import PASSED, VIOLATION, complain, line, note
from duckanon.database import engine, templates
from duckanon.database.csv_form import Reading
from duckanon.database.paths import check_local, split
from duckanon.database.relations import current
from duckanon.errors import DuckanonError, PolicyError, SourceError
from duckanon.policy.audit_policy import audited
from duckanon.policy.checks import checked
from duckanon.policy.policy import (
    AUDIT_OPTIONS,
    OPTIONS,
    AuditPolicy,
    Policy,
    hierarchy_names,
    stated_options,
)
from duckanon.policy.reported import check_of_rows
from duckanon.release.frontier import frontier as measured
from duckanon.release.source import Source
from duckanon.release.tables import SECOND_ENDING, parts_of, together

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from duckanon.audits.changes import Changes
    from duckanon.audits.report import Report
    from duckanon.policy.checks import Hierarchy
    from duckanon.release.verify.record import RecordedRelease

KNOWN = (*FORMATS, "html")
"""Values of --format."""

_PROVED = frozenset({"json", "junit", "sarif"})
"""Formats for archives, which state the policy and the audited rows."""

_OF_THE_FILE = (
    "roles and thresholds are those that the file records of itself: whoever wrote the file chose them; "
    "duckanon verify compares them with the recorded audits"
)

_CHANGES = "changes since the audit of --against:"


@command(
    *OF_AUDIT, "order", "hierarchies", "suppressed", "policy", *DOCUMENT,
    form=SHARED["form"]._replace(choices=KNOWN),
    original=Option(
        "the table it was made from; for html: before and after", (), "none", "--original raw.csv", "TABLE"
    ),
    frontier=Option("for html with --original: what other k and t would cost", kind=bool),
    against=Option(
        "an audit saved by --format json: show what changed since", (), "none", "--against last.json", "FILE",
        Path,
    ),
    examples=(
        "duckanon audit released.csv --qi age,zip --sensitive charge -k 5 -t 0.15",
        "duckanon audit hospital.duckdb:visits --policy release.toml --format junit -o audit.xml",
    ),
)  # fmt: skip
def audit(
    source: Table,
    *,
    flags: dict[str, Any],
    policy: Path | None,
    form: str,
    output: Path | None,
    original: str | None,
    frontier: bool,
    against: Path | None,
    reading: Reading,
    trust: bool,
) -> int:
    """Audit any table or file.

    Exit code 1 when it violates a threshold.
    """
    release = None if policy or flags["quasi_identifiers"] is not None else _release_of(source)
    options = _options(flags, policy, {} if release is None else _recorded(release, source))
    audit_policy = _audited(options, by_flag=release is not None or flags["quasi_identifiers"] is not None)
    check_output(output, source, policy, original, against, *hierarchy_names(audit_policy))
    if form == "html":
        required()
    elif original is not None:
        raise PolicyError("--original is for --format html, which shows the table before and after")
    if frontier and original is None:
        raise PolicyError("--frontier measures the table that the release was made from: give --original")
    of_release = {name: value for name, value in options.items() if name in OPTIONS}
    asked = Policy(**{"insensitive": "*", **of_release}) if frontier else None
    roles = Roles(*(checked(name, options.get(name, ())) for name in ("insensitive", "identifiers")))
    before = None if against is None else _saved(against)
    in_two = options.get("release") == "anatomy" and flags["quasi_identifiers"] is None
    if release is not None:
        in_two = len(parts_of(release.released)) > 1
    typed = (*audit_policy.quasi_identifiers, *audit_policy.sensitive)
    second = files.beside(source, SECOND_ENDING) if in_two else None
    if second is not None and original is not None:
        raise PolicyError(
            "--original compares records, and with release = 'anatomy' none has a sensitive value of its "
            "own: leave it out"
        )
    named = [name for name in (source, second, original) if name is not None]
    with files.opened(*named, trees=hierarchy_names(audit_policy), trust=trust) as con:
        relation = files.relation(
            con, source, apart=audit_policy.quasi_identifiers, typed=typed, trust=trust, reading=reading
        )
        if second is not None:
            beside = files.relation(
                con, second, apart=audit_policy.quasi_identifiers, typed=typed, trust=trust, reading=reading
            )
            relation = together(con, relation, beside, f"audit of {source}")
        before_release = (
            None
            if original is None
            else files.relation(con, original, typed=typed, trust=trust, reading=reading)
        )
        files.check_hierarchies(con, hierarchy_names(audit_policy), trust=trust)
        proved = form in _PROVED or before is not None
        report = audit_relation(con, relation, audit_policy, name=source, roles=roles, evidence=proved)
        if release is not None:
            report = replace(report, warnings=(_OF_THE_FILE, *report.warnings))
        changed = None if before is None else changes.changes(before, json.loads(report.to_json()))
        if form == "html":
            shown = kept_relation(con, relation, audit_policy, f"audit of {source}")
            trees = checked("hierarchies", options.get("hierarchies"))
            text = _html(con, shown, report, audit_policy, roles, before_release, asked, trees)
        else:
            text = _with_changes(formatted(report, form), form, changed)
    _deliver(text, report, changed, form=form, output=output)
    return VIOLATION if report.violated else PASSED


def _release_of(source: str) -> RecordedRelease | None:
    """Release with its metadata, if the source is the view of one."""
    path, table = split(source)
    if table is None or not path.exists():
        return None
    with files.opened(path) as con:
        return files.recorded(con, source)[1]


def _recorded(release: RecordedRelease, source: str) -> dict[str, Any]:
    """Roles and thresholds in the metadata of a release, as options."""
    asked = release.asked()
    if asked.k is None:
        raise PolicyError(
            f"{source}: its metadata record no k, as those of every release do: use duckanon verify, or give "
            "--qi and thresholds"
        )
    if release.proved:
        names = ", ".join(sorted({measure for measure, _ in release.proved}))
        raise PolicyError(
            f"{source}: its policy asks for {names}, which the rows do not show: use duckanon verify, or "
            "give --qi and thresholds"
        )
    if asked.hierarchies:
        raise PolicyError(
            f"{source}: the hierarchy of {next(iter(asked.hierarchies))!r} is kept in another form: "
            "use duckanon verify, or give --qi and thresholds"
        )
    values = {name: getattr(asked, name) for name in AUDIT_OPTIONS}
    return {name: value for name, value in values.items() if value not in (None, (), {})}


def _options(flags: dict[str, Any], file: Path | None, recorded: dict[str, Any]) -> dict[str, Any]:
    """Options of the policy file or of the recorded release, replaced by those of the flags."""
    given = {**recorded, **read_flags(flags)}
    options = _stated("", **given) if file is None else from_policy_file(file, _stated, given)
    check_of_rows(*(options.get(name) for name in ("subject", "p_percent", "min_values")))
    require(options, "quasi_identifiers", file=True)
    return options


def _stated(text: str, **given: Any) -> dict[str, Any]:
    """Options of a policy file replaced by given ones, each checked by itself."""
    options = stated_options(text, **given)
    for name in options.keys() & set(AUDIT_OPTIONS):
        checked(name, options[name])
    return options


def _audited(options: dict[str, Any], *, by_flag: bool) -> AuditPolicy:
    """Policy of the audit; quasi-identifiers named by a flag are audited, whatever form the release has."""
    if options.get("release", "table") != "table" and not by_flag:
        return audited(options)
    return AuditPolicy(**{name: value for name, value in options.items() if name in AUDIT_OPTIONS})


def _saved(file: Path) -> dict[str, Any]:
    """Audit that was saved as JSON; read before the new audit, which may take long."""
    check_local(file)
    try:
        saved = json.loads(read_text(file, "saved audit"), parse_constant=str.lower)
        changes.changes(saved, {"measures": []})
    except (DuckanonError, ValueError, TypeError, AttributeError) as unread:
        raise SourceError(
            f"--against: {str(file)!r} is not a saved audit: {engine.first_line(unread)}; "
            "save an audit with --format json -o FILE"
        ) from unread
    return dict(saved)


def _html(
    con: duckdb.DuckDBPyConnection, relation: str, report: Report, audit_policy: AuditPolicy, roles: Roles,
    before: str | None, asked: Policy | None, trees: Mapping[str, Hierarchy],
) -> str:  # fmt: skip
    try:
        cost = None
        if asked is not None and before is not None:
            query = templates.render("relation.sql.j2:rows", relation=before)
            cost = measured(con, Source(query, *current(con)), asked)
        return html_report(
            con,
            relation,
            report,
            audit_policy,
            roles=roles,
            original=before,
            frontier=cost,
            hierarchies=trees,
        )
    except Exception:
        # The audit succeeded, so its verdicts are printed even if the page cannot be made.
        complain(report.to_text())
        raise


def _with_changes(text: str, form: str, changed: Changes | None) -> str:
    """Document with the changes since the saved audit; JUnit and SARIF have no place for them."""
    if changed is None:
        return text
    if form == "text":
        return "\n".join([text, "", _CHANGES, changed.to_text()])
    if form == "json":
        document = {**json.loads(text), "changes": _plain(changed)}
        return json.dumps(document, indent=2, allow_nan=False)
    return text


def _plain(changed: Changes) -> dict[str, Any]:
    return dict(json.loads(json.dumps(changed.to_dict(), default=str)))


def _deliver(text: str, report: Report, changed: Changes | None, *, form: str, output: Path | None) -> None:
    """Write the document; print changes apart from a document that a machine reads."""
    aside = [] if changed is None or form == "text" else [_CHANGES, changed.to_text()]
    deliver(text, output)
    if output is None:
        for words in aside:
            note(words)
        return
    line(_verdict(report))
    if form == "text" and changed is not None:
        aside = [_CHANGES, changed.to_text()]
    for words in aside:
        line(words)


def _verdict(report: Report) -> str:
    """One line for the log of a CI system, while the document goes to a file."""
    broken = [titled(measure) for measure in report.measures if measure.passed is False]
    judged = sum(measure.passed is True for measure in report.measures)
    verdict = f"passed, thresholds: {judged}" if judged else "no threshold was set"
    warned = f"; warnings: {len(report.warnings)}" if report.warnings else ""
    return f"{legible(report.name)}: {'VIOLATED: ' + ', '.join(broken) if broken else verdict}{warned}"
