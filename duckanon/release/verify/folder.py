"""Verification of a release by Spark: its folder of Parquet files against the evidence in the folder."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from duckanon.audits.report import Measure
from duckanon.audits.run import audit_attributes, roles_of, unaudited
from duckanon.database import engine, file_room, own_copy, templates
from duckanon.database.fingerprint import digest, fingerprint
from duckanon.database.paths import check_readable, open_plain
from duckanon.database.relations import columns_of, named
from duckanon.database.templates import file_literal
from duckanon.errors import DuckanonError, PolicyError, ReleaseError, SourceError
from duckanon.policy.bind import Role, bind_audit
from duckanon.policy.names import fold
from duckanon.policy.policy import Policy
from duckanon.policy.reported import MIN_VALUES, proved
from duckanon.release import foreign
from duckanon.release.folders import (
    EVIDENCE,
    NAME,
    NOT_AUDITED,
    RECORD_MAX_BYTES,
    evidence_from,
    not_yet,
    released_type,
)
from duckanon.release.verify.outcome import Verification, Verified, differing, missing
from duckanon.release.verify.record import STAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb

    from duckanon.audits.report import Report
    from duckanon.policy.bind import Attribute
    from duckanon.release.folders import FolderEvidence

_DONE = "_SUCCESS"
"""Empty file that Spark writes after all other files."""

_FIRST_FILE_PREFIX = "part-00000-"
"""First characters of the name of the file by Spark's first task."""

_FILES_TOLD = 20
"""Entries of a folder that are listed one by one."""

_NOT_COMPARED = (
    "information loss, suppressed records, warnings, versions and settings are what the evidence says: "
    "nothing in the records tells them"
)


def verify_folder(folder: Path, expected: Sequence[str] = (), *, heads: Sequence[str] = ()) -> Verification:
    """Verify a folder of `duckanon.spark.anonymize` without writing and without Spark.

    The folder must not change meanwhile; its records are read once. A ReleaseError without readable evidence.
    `expected` is as for a database; a head is the SHA-256 of the evidence.
    """
    file_literal(folder)  # raises if DuckDB cannot name files in it
    evidence, text = _evidence(folder)
    files, strange = _files(folder)
    with foreign.opened(files) as con, engine.temporary(con) as workspace:
        release = _verified(con, f"{workspace}_records", folder, evidence, files)
    head = hashlib.sha256(text).hexdigest()
    differences = (*strange, *_unlike(evidence, text), *release.differences)
    release = replace(release, heads=(head,), links=(head,), differences=differences)
    return Verification(str(folder), (release,), tuple(missing((release,), expected, heads)))


def _evidence(folder: Path) -> tuple[FolderEvidence, bytes]:
    """Return the evidence and the bytes of its file."""
    file = folder / EVIDENCE
    if not os.path.lexists(file):
        raise ReleaseError(
            f"{str(folder)!r} is a folder without {EVIDENCE}, so no release that Spark made: give the folder "
            "of one, or an exported .duckdb file"
        )
    check_readable(file)
    with open_plain(file) as stream:
        text = stream.read(RECORD_MAX_BYTES + 1)
    return evidence_from(text, repr(str(file))), text


def _unlike(evidence: FolderEvidence, text: bytes) -> Iterator[str]:
    """Tell where the evidence file differs from duckanon's own writing, because blanks could hide data."""
    written = evidence.to_json().encode()
    if text != written:
        sizes = f"it has {len(text)} bytes, its content takes {len(written)}"
        yield f"{EVIDENCE} is not as duckanon writes it: {sizes}"


def _files(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the files of the records, sorted by name, and tell which other entries should not be there.

    Every reader must see the same records: Spark skips names with _ or a dot in front and enters folders; a
    DuckDB pattern does neither.
    """
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    names = {entry.name for entry in found}
    strange = {entry.name: why for entry in found if (why := _strange(entry, names))}
    files = [
        folder / entry.name
        for entry in found
        if entry.name not in strange and entry.name.endswith(".parquet") and entry.name[0] not in "_."
    ]
    told = [f"the folder holds {name!r}, which {why}" for name, why in list(strange.items())[:_FILES_TOLD]]
    if len(strange) > _FILES_TOLD:
        told.append(f"the folder holds {len(strange) - _FILES_TOLD} more that are no part of a release")
    return files, told


def _strange(entry: os.DirEntry[str], names: Collection[str]) -> str | None:
    """Return why an entry of the folder is not written by a release on Spark; None if it may be."""
    name = entry.name
    if entry.is_symlink():
        return "is a link: what it leads to is elsewhere and was not read"
    if not entry.is_file():
        return "is a folder, and a release has none" if entry.is_dir() else "is no regular file"
    if name == EVIDENCE or (name == _DONE and not entry.stat().st_size):
        return None
    if name.startswith(".") and name.endswith(".crc"):
        # Hadoop's checksum of the file beside it.
        return None if name[1:].removesuffix(".crc") in names else "is the sum of a file that is gone"
    if name[0] in "_.":
        return "Spark passes over and did not write for a release: it was not read"
    return (
        None
        if name.endswith(".parquet")
        else "is not called .parquet, and Spark would read it: it was not read"
    )


@dataclass(frozen=True)
class _FolderRecords:
    """The present records, in a temporary table."""

    relation: str
    columns: list[tuple[str, str]]
    fingerprint: str
    number: int
    beside: tuple[str, ...]  # false statements of the files, and contents beside the records


def _verified(
    con: duckdb.DuckDBPyConnection, table: str, folder: Path, evidence: FolderEvidence, files: Sequence[Path]
) -> Verified:
    policy, differences = _asked(evidence)
    recorded = {row["measure"] for row in evidence.audit["measures"]}
    policy_hash = digest(evidence.policy)
    if evidence.policy_hash != policy_hash:
        differences.append(
            f"policy hash recorded {evidence.policy_hash}, found {policy_hash} of the recorded policy"
        )
    release = Verified(
        release=f"folder {str(folder)!r}",
        created_at=None,
        records=None,
        fingerprint=None,
        policy_hash=policy_hash,
        policy=None if policy is None else policy.to_toml(),
        heads=(),
        links=(),
        audits=1,
        report=None,
        differences=tuple(differences),
        notes=(_NOT_COMPARED, *proved(recorded & {MIN_VALUES})),
    )
    try:
        records = _read(con, table, files)
    except DuckanonError as failure:
        return replace(release, differences=(*differences, f"the records cannot be read: {failure}"))
    differences += _facts(evidence, records)
    report = None
    if policy is not None:
        try:
            report, found = _audited(con, records, policy, folder)
            differences += [*found, *_redone(evidence, policy, report)]
        except DuckanonError as failure:
            differences.append(f"the release cannot be audited: {failure}")
    return replace(
        release,
        records=records.number,
        fingerprint=records.fingerprint,
        report=report,
        differences=tuple(differences),
    )


def _asked(evidence: FolderEvidence) -> tuple[Policy | None, list[str]]:
    """Return the policy in the evidence, None if it cannot be audited, and its faults."""
    try:
        policy = Policy.from_toml(evidence.policy)
        options = not_yet(policy)
    except (PolicyError, RecursionError) as failure:
        what = failure if isinstance(failure, PolicyError) else "it is nested too deeply"
        return None, [f"the recorded policy cannot be read: {what}"]
    if options:
        what = " and ".join(options)
        return None, [f"the recorded policy asks for {what}, and no release on Spark that is known here does"]
    if evidence.supersets is not None:
        return None, ["the evidence has supersets, which no release on Spark has"]
    # Another version may write the same policy in other words.
    if policy.to_toml() != evidence.policy and _writer(evidence) == version("duckanon"):
        return policy, ["the recorded policy is not written as duckanon writes it"]
    return policy, []


def _writer(evidence: FolderEvidence) -> str | None:
    return evidence.versions.get("duckanon")


def _read(con: duckdb.DuckDBPyConnection, table: str, files: Sequence[Path]) -> _FolderRecords:
    """Read the records once into a table, because a Parquet file may lie about its rows."""
    if not files:
        raise SourceError("no Parquet file of a release is in the folder")
    first = _columns(con, files[:1])
    for file in files[1:]:
        columns = _columns(con, [file])
        if columns != first:
            # DuckDB drops a column that only a later file has, and casts a column of another type.
            raise SourceError(
                f"{files[0].name!r} has the columns {_listed(first)}, and {file.name!r} {_listed(columns)}"
            )
    odd = [name for name, type_text in first if not released_type(type_text)]
    if odd:
        raise SourceError(f"column {odd[0]!r} has a type that no release on Spark has: {dict(first)[odd[0]]}")
    relation = own_copy.copy(con, _relation(files), named("temp", table), STAGE)
    lies = own_copy.of_parquet(con, files, relation, STAGE)
    told = [own_copy.told(lies)] if lies else []
    told += [f"{file.name!r}: {what}" for file in files for what in _beside(con, file, files, first)]
    count = engine.rows(con, templates.render("relation.sql.j2:count", relation=relation), STAGE)
    found = fingerprint(con, relation)
    return _FolderRecords(
        relation, columns_of(con, relation, STAGE), found, int(count[0][0]), tuple(told[:_FILES_TOLD])
    )


def _beside(
    con: duckdb.DuckDBPyConnection, file: Path, files: Sequence[Path], columns: Sequence[tuple[str, str]]
) -> Iterator[str]:
    yield from file_room.beside_parquet(con, file, [name for name, _ in columns], STAGE)
    # The first task of Spark writes a file even without records.
    first = [one for one in files if one.name.startswith(_FIRST_FILE_PREFIX)]
    if [file] != first and not file_room.parquet_records(con, file, STAGE):
        yield f"it has no record, and only one file may have none, called {_FIRST_FILE_PREFIX}..."


def _columns(con: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> list[tuple[str, str]]:
    return columns_of(con, _relation(files), STAGE)


def _relation(files: Sequence[Path]) -> str:
    return templates.render("relation.sql.j2:parquet", names=files).strip()


def _listed(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type_text}" for name, type_text in columns)


def _facts(evidence: FolderEvidence, records: _FolderRecords) -> Iterator[str]:
    yield from records.beside
    if evidence.records != records.number:
        yield f"records recorded {evidence.records}, found {records.number}"
    if evidence.fingerprint != records.fingerprint:
        yield f"fingerprint recorded {evidence.fingerprint}, found {records.fingerprint}"


def _audited(
    con: duckdb.DuckDBPyConnection, records: _FolderRecords, policy: Policy, folder: Path
) -> tuple[Report, list[str]]:
    """Return the audit of the records by the policy, and tell where their columns do not fit the policy."""
    asked = policy.audited()
    attributes = bind_audit(asked, records.columns)
    report = audit_attributes(con, records.relation, attributes, asked, {}, name=str(folder))
    return report, list(_roles(records, policy, attributes))


def _roles(records: _FolderRecords, policy: Policy, attributes: Sequence[Attribute]) -> Iterator[str]:
    roles, names = roles_of(policy), [name for name, _ in records.columns]
    for name in unaudited(names, attributes):
        role = roles.of(name)
        if role is None:
            yield f"the records have a column {name!r}, and the recorded policy gives it no role"
        elif role is Role.IDENTIFIER:
            yield f"the records have the column {name!r}, an identifier, which the recorded policy drops"
    for name in () if roles.insensitive == "*" else roles.insensitive:
        if fold(name) not in map(fold, names):
            yield f"the recorded policy releases the column {name!r}, and the records do not have it"


def _of_the_source(recorded: Sequence[Mapping[str, Any]], policy: Policy, classes: int) -> Iterator[Measure]:
    """Give the rows of `min_values` as they must be recorded; the released records do not contain them."""
    names = {fold(name) for name in policy.quasi_identifiers}
    for row in recorded:
        name, least = row["attribute"], policy.least_values
        if row["measure"] == MIN_VALUES and name is not None and fold(name) in names:
            yield Measure(MIN_VALUES, name, least, float(least), classes, 0, 0, True)


def _redone(evidence: FolderEvidence, policy: Policy, report: Report) -> Iterator[str]:
    """Compare the recorded audit with the repeated audit."""
    audit = evidence.audit
    if audit["name"] != NAME and _writer(evidence) == version("duckanon"):
        yield f"the recorded audit is called {audit['name']!r}, and duckanon calls it {NAME!r}"
    again = (*report.measures, *_of_the_source(audit["measures"], policy, report.classes))
    yield from differing(audit["measures"], again, writer=_writer(evidence))
    if audit["passed"] != report.passed:
        yield f"verdict recorded {_verdict(audit['passed'])}, found {_verdict(report.passed)}"
    for name in NOT_AUDITED:
        if audit[name] not in (None, []):
            yield f"the recorded audit has {name}, which the audit of a release on Spark has not"


def _verdict(passed: bool) -> str:
    return "passed" if passed else "VIOLATED"
