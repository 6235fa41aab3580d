"""Verification of a Parquet or CSV file against its evidence, in the footer or in a JSON file."""

from __future__ import annotations

import csv
import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon.audits.certificate import Supersets
from duckanon.audits.evidence import read_canonical
from duckanon.audits.run import audit_attributes
from duckanon.database import engine, file_room, own_copy, templates
from duckanon.database.csv_files import Rewritten
from duckanon.database.fingerprint import digest, fingerprint
from duckanon.database.paths import check_readable, open_plain
from duckanon.database.relations import columns_of, named
from duckanon.errors import DuckanonError, ReleaseError
from duckanon.policy.bind import bind_audit
from duckanon.policy.reported import OF_THE_RECORDS, proved
from duckanon.release import file_evidence, foreign
from duckanon.release.cells import header_of
from duckanon.release.folders import RECORD_MAX_BYTES, evidence_from
from duckanon.release.verify.beside import strange_boxes
from duckanon.release.verify.outcome import Verification, Verified, differing, missing
from duckanon.release.verify.record import OF_THE_SOURCE, STAGE
from duckanon.release.verify.verify import as_it_was

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import duckdb

    from duckanon.audits.report import Report
    from duckanon.policy.policy import AuditPolicy
    from duckanon.release.folders import FolderEvidence

ENDINGS = (".parquet", ".csv")
"""Files that are verified here."""

_TYPE = re.compile(r"[A-Z][A-Z0-9_ ]*(\(\d+(, ?\d+)?\))?")
"""Types of columns of a CSV: texts of a file that are part of a query."""

_NOT_COMPARED = (
    "information loss, suppressed records and versions are what the evidence says: nothing in the file tells "
    "them"
)


def verify_file(
    file: Path, expected: Sequence[str] = (), *, heads: Sequence[str] = (), evidence: Path | None = None
) -> Verification:
    """Verify a Parquet or CSV file; nothing is written. A ReleaseError without evidence that can be read.

    `evidence` is a JSON file, by default the footer of a Parquet file, or ``released.csv.json`` beside a CSV.
    """
    check_readable(file)
    with foreign.opened([file]) as con, engine.temporary(con) as workspace:
        text, where = _text(con, file, evidence)
        found = evidence_from(text, where)
        release = _verified(con, named("temp", f"{workspace}_records"), file, found)
    head = hashlib.sha256(text).hexdigest()
    differences = list(release.differences)
    if text != found.to_json().encode():
        differences.append(f"{where} is not as duckanon writes it")
    release = replace(release, heads=(head,), links=(head,), differences=tuple(differences))
    return Verification(str(file), (release,), tuple(missing((release,), expected, heads)))


def _text(con: duckdb.DuckDBPyConnection, file: Path, evidence: Path | None) -> tuple[bytes, str]:
    """Bytes of the evidence, and where they stand."""
    if evidence is None and file.suffix.lower() == ".parquet":
        query = templates.render("evidence/parquet.sql.j2:parquet_words", path=file)
        words = {
            bytes(key): bytes(value) for key, value in engine.rows(con, query, STAGE, error=ReleaseError)
        }
        text = words.get(file_evidence.KEY.encode())
        if text is None:
            raise ReleaseError(
                f"the footer of {str(file)!r} has no evidence: EXPORT writes it; or give --evidence FILE"
            )
        return text, f"the footer of {str(file)!r}"
    place = evidence or file_evidence.beside(file)
    if not place.exists():
        raise ReleaseError(f"{str(place)!r} is missing, the evidence of {str(file)!r}: give --evidence FILE")
    check_readable(place)
    with open_plain(place) as stream:
        return stream.read(RECORD_MAX_BYTES + 1), repr(str(place))


def _verified(con: duckdb.DuckDBPyConnection, table: str, file: Path, evidence: FolderEvidence) -> Verified:
    policy_hash, differences = digest(evidence.policy), []
    if evidence.policy_hash != policy_hash:
        differences.append(
            f"policy hash recorded {evidence.policy_hash}, found {policy_hash} of the recorded policy"
        )
    recorded = [row["measure"] for row in evidence.audit["measures"]]
    release = Verified(
        release=f"file {str(file)!r}", created_at=None, records=None, fingerprint=None,
        policy_hash=policy_hash, policy=evidence.policy, heads=(), links=(), audits=1, report=None,
        differences=(), notes=(_NOT_COMPARED, *proved(recorded)),
    )  # fmt: skip
    try:
        relation, lies = _read(con, table, file, evidence)
        count = engine.rows(con, templates.render("relation.sql.j2:count", relation=relation), STAGE)
        release = replace(
            release, records=int(count[0][0]), fingerprint=_fingerprint(con, relation, file, evidence)
        )
        differences += [*lies, *_facts(evidence, release)]
        report = _audited(con, relation, file, evidence)
        release = replace(release, report=report)
        differences += [*_redone(evidence, report), *_strange(con, relation, evidence, report)]
    except DuckanonError as failure:
        differences.append(f"the release cannot be audited: {failure}")
    return replace(release, differences=tuple(differences))


def _read(
    con: duckdb.DuckDBPyConnection, table: str, file: Path, evidence: FolderEvidence
) -> tuple[str, list[str]]:
    """Copy the rows to our table, and tell what the file says that its rows do not."""
    if file.suffix.lower() == ".csv":
        return own_copy.copy(con, _csv(file, evidence), table, STAGE), []
    stored = templates.render("relation.sql.j2:file", name=file, form="parquet").strip()
    relation = own_copy.copy(con, stored, table, STAGE)
    lies = own_copy.of_parquet(con, [file], relation, STAGE)
    names = [name for name, _ in columns_of(con, relation, STAGE)]
    ours = (file_evidence.KEY, evidence.to_json().encode())
    beside = file_room.beside_parquet(con, file, names, STAGE, ours=ours)
    return relation, [*([own_copy.told(lies)] if lies else []), *beside]


def _csv(file: Path, evidence: FolderEvidence) -> str:
    """Expression that reads a CSV in the recorded types; they are untrusted, and become part of a query."""
    told = evidence.settings
    kinds = [
        (key.removeprefix(file_evidence.TYPE), kind)
        for key, kind in told.items()
        if key.startswith(file_evidence.TYPE)
    ]
    for name, kind in kinds:
        if not _TYPE.fullmatch(kind):
            raise ReleaseError(f"the type of {name!r} is recorded as {kind!r}")
    with open_plain(file) as stream:
        lines = (line.decode("utf-8", "replace") for line in stream)
        header = next(csv.reader(lines), [])
    if header not in ([name for name, _ in kinds], header_of(kinds)):
        raise ReleaseError(f"the columns recorded are {', '.join(name for name, _ in kinds)}, found {header}")
    formats = {
        name: Rewritten(kind, told.get(f"{file_evidence.FORMAT}{name}"))
        for name, kind in kinds
        if f"{file_evidence.FORMAT}{name}" in told
    }
    return templates.render(
        "export/csv.sql.j2:read_csv",
        path=file,
        columns=kinds,
        escaped=[],
        restored=[],
        spans={},
        written=formats,
    ).strip()


def _fingerprint(con: duckdb.DuckDBPyConnection, relation: str, file: Path, evidence: FolderEvidence) -> str:
    """Of the rows; of a CSV, and where the evidence has the SHA-256 of the file, of the bytes."""
    if evidence.settings:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    return fingerprint(con, relation)


def _facts(evidence: FolderEvidence, release: Verified) -> Iterator[str]:
    if evidence.records != release.records:
        yield f"records recorded {evidence.records}, found {release.records}"
    if evidence.fingerprint != release.fingerprint:
        yield f"fingerprint recorded {evidence.fingerprint}, found {release.fingerprint}"


def _audited(con: duckdb.DuckDBPyConnection, relation: str, file: Path, evidence: FolderEvidence) -> Report:
    policy = read_canonical(evidence.policy)
    if policy.hierarchies:
        raise ReleaseError(
            f"the hierarchy of {next(iter(policy.hierarchies))!r} is not in the file, but in one that EXPORT "
            "writes as .duckdb"
        )
    attributes = bind_audit(policy, columns_of(con, relation, STAGE))
    boxes = _boxes(evidence, policy)
    return audit_attributes(con, relation, attributes, policy, {}, name=str(file), supersets=boxes)


def _boxes(evidence: FolderEvidence, policy: AuditPolicy) -> Supersets | None:
    """Boxes of the evidence, which only a policy with n has."""
    if (evidence.supersets is None) != (policy.n is None):
        has, lacks = ("n", "supersets") if evidence.supersets is None else ("supersets", "n")
        raise ReleaseError(f"the evidence has {has} without {lacks}")
    if evidence.supersets is None:
        return None
    return Supersets.of_rows(evidence.supersets)


def _strange(
    con: duckdb.DuckDBPyConnection, relation: str, evidence: FolderEvidence, report: Report
) -> Iterator[str]:
    """Tell how many rows of boxes are beyond what the release has."""
    if report.supersets is not None:
        with engine.temporary(con) as workspace:
            name = f"{workspace}_boxes"
            with engine.registered(con, {name: report.supersets.bounds}):
                rows = strange_boxes(con, templates.ident(name), relation, read_canonical(evidence.policy))
        if rows:
            yield f"{rows} of the supersets in the evidence are none that a release stores"


def _redone(evidence: FolderEvidence, report: Report) -> Iterator[str]:
    """Compare the recorded audit with the repeated audit; what rows do not tell is taken as it was."""
    recorded = evidence.audit["measures"]
    elsewhere = [row for row in recorded if row["measure"] in {*OF_THE_RECORDS, *OF_THE_SOURCE}]
    again = (*report.measures, *map(as_it_was, elsewhere))
    yield from differing(recorded, again, writer=evidence.versions.get("duckanon"))
    if not all(row["passed"] in (None, True) for row in elsewhere) or not evidence.audit["passed"]:
        yield "the evidence records a violation, and no violated release is written"
