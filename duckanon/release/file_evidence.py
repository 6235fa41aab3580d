"""The evidence of a released file: in the footer of a Parquet file, or in a JSON file of its own.

It is the record of the audit with which the release was made. For a CSV it is the audit of the file, with the
SHA-256 of the file and the types of its columns.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon.audits.report import Measure, Report
from duckanon.database import engine, templates
from duckanon.errors import ReleaseError
from duckanon.release.audit import stored_supersets
from duckanon.release.folders import NAME, RECORD_MAX_BYTES, FolderEvidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import duckdb

    from duckanon.audits.certificate import Supersets
    from duckanon.database.csv_files import Rewritten
    from duckanon.release.metadata import Published

KEY = "duckanon"
"""Key of the evidence in the footer of a Parquet file."""

TYPE, FORMAT = "type of ", "format of "
"""Prefixes of the settings by which a CSV is read: type of each column, and format of its times, if any."""


def beside(file: Path) -> Path:
    """Name of the evidence of a file, where `verify` looks for it: ``released.csv.json``."""
    return file.with_name(f"{file.name}.json")


def of_release(con: duckdb.DuckDBPyConnection, published: Published) -> FolderEvidence | None:
    """Evidence from the recorded audit of a release; None if that audit is not recorded."""
    query = templates.render(
        "evidence/recorded.sql.j2:audits", catalog=published.target.catalog, release_id=published.release_id
    )
    table = engine.table(con, query, "export").to_pylist()
    rows = [row for row in table if row["statement"] == "release" and row["policy"] is not None]
    if not rows:
        return None
    first = rows[0]
    measures = tuple(Measure(**{name: row[name] for name in Measure.__annotations__}) for row in rows)
    return FolderEvidence(
        policy=first["policy"],
        policy_hash=first["policy_hash"],
        fingerprint=first["fingerprint"],
        records=published.records,
        audit=_plain(measures),
        information_loss=published.information_loss,
        suppressed=published.suppressed,
        versions={"duckanon": first["duckanon_version"], "duckdb": first["duckdb_version"]},
        settings={},
        supersets=_rows(stored_supersets(con, published)),
    )


def _rows(boxes: Supersets | None) -> list[list[int]] | None:
    return None if boxes is None else [list(row.values()) for row in boxes.bounds.to_pylist()]


def of_csv(
    evidence: FolderEvidence, report: Report, draft: Path, columns: Sequence[tuple[str, str]], *,
    as_text: Iterable[str], written: Mapping[str, Rewritten], boxes: Supersets | None = None,
) -> FolderEvidence:  # fmt: skip
    """Evidence of a CSV: its SHA-256, audit and boxes, and how it is read; columns `as_text` as text."""
    texts = set(as_text)
    types = {f"{TYPE}{name}": "VARCHAR" if name in texts else kind for name, kind in columns}
    formats = {
        f"{FORMAT}{name}": one.format
        for name, one in written.items()
        if one.format is not None and types.get(f"{TYPE}{name}", "VARCHAR") != "VARCHAR"
    }
    with draft.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    settings = types | formats
    rows = _rows(boxes)
    return replace(
        evidence, fingerprint=sha256, audit=_plain(report.measures), settings=settings, supersets=rows
    )


def required(evidence: FolderEvidence | None, published: Published) -> FolderEvidence:
    """The evidence; a ReleaseError if there is none."""
    if evidence is None:
        raise ReleaseError(f"the audit of {published.target} is not recorded: REFRESH makes it again")
    return evidence


def text_of(evidence: FolderEvidence, published: Published) -> str:
    """Text of the evidence; a ReleaseError if it is longer than `verify` reads."""
    text = evidence.to_json()
    if len(text.encode()) > RECORD_MAX_BYTES:
        raise ReleaseError(
            f"the evidence of {published.target} is longer than {RECORD_MAX_BYTES:,} bytes: export to .duckdb"
        )
    return text


def _plain(measures: tuple[Measure, ...]) -> dict[str, object]:
    return dict(json.loads(Report(NAME, measures).to_json()))
