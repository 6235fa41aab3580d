"""Evidence of a finished stream: a hash of its output, and the audit of the output by plain SQL."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from duckanon.audits.run import audit_columns, audit_sql
from duckanon.database import drafts, engine, templates
from duckanon.database.fingerprint import fingerprint
from duckanon.errors import ReleaseError
from duckanon.policy.bind import Role, bind_audit
from duckanon.policy.policy import AuditPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import duckdb

    from duckanon.audits.report import Report
    from duckanon.audits.run import AuditColumn
    from duckanon.streams.output import Writer
    from duckanon.streams.policy import StreamPolicy
    from duckanon.streams.report import StreamReport


_CSV_TYPES = re.compile(r"BIGINT|HUGEINT|DOUBLE|DECIMAL.*|BOOLEAN|DATE|TIMESTAMP.*")
"""Types as which columns of a CSV are read; all others, such as ranges and sets, are read as text."""


def of_file(report: StreamReport, output: Path, writer: Writer, policy: StreamPolicy) -> StreamReport:
    """Return the report with the SHA-256 of the file and the audit of its rows.

    DuckDB reads the rows in the types of the stream.
    """
    found = _sha256(output)
    with engine.in_memory() as con:
        if writer.form == "csv":
            kinds = [
                (name, kind if _CSV_TYPES.fullmatch(kind) else "VARCHAR") for name, kind in writer.columns
            ]
            relation = templates.render(
                "export/csv.sql.j2:read_csv",
                path=output,
                columns=kinds,
                escaped=[],
                restored=[],
                spans={},
                written={},
            ).strip()
        else:
            relation = templates.render(
                "stream/json.sql.j2:read_json", path=output, columns=writer.columns
            ).strip()
        audit = _audited(con, relation, writer.columns, policy, name=str(output))
    if _sha256(output) != found:
        raise ReleaseError(f"{str(output)!r} was changed while it was audited: there is no evidence of it")
    return replace(report, fingerprint=found, audit=audit)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_table(
    report: StreamReport, con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]],
    policy: StreamPolicy, *, name: str,
) -> StreamReport:  # fmt: skip
    """Return the report with the fingerprint of a table and its audit."""
    audit = _audited(con, relation, columns, policy, name=name)
    return replace(report, fingerprint=fingerprint(con, relation), audit=audit)


def _audited(
    con: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[tuple[str, str]], policy: StreamPolicy,
    *, name: str,
) -> Report:  # fmt: skip
    quasi, sensitive = _asked(policy, columns)
    return audit_sql(con, relation, quasi, sensitive, k=policy.rows.k, name=name)


def _asked(policy: StreamPolicy, columns: Sequence[tuple[str, str]]) -> tuple[list[str], list[AuditColumn]]:
    """Quasi-identifiers, and the l of sensitive columns; t is of the tuples that were read."""
    rows = policy.rows
    asked = AuditPolicy(
        quasi_identifiers=rows.quasi_identifiers, sensitive=rows.sensitive, k=rows.k, l=rows.l,
        distance=rows.distance,
    )  # fmt: skip
    attributes = bind_audit(asked, columns)
    quasi = [one.name for one in attributes if one.role is Role.QUASI_IDENTIFIER]
    return quasi, audit_columns(attributes, asked, {})


def check_new(path: Path) -> None:
    """Raise a ReleaseError if the path exists, or its folder does not."""
    if os.path.lexists(path):
        raise ReleaseError(f"{str(path)!r} exists and a report never overwrites: remove it, or give --report")
    if not path.parent.is_dir():
        raise ReleaseError(f"cannot write {str(path)!r}: the folder {str(path.parent)!r} does not exist")


def keep(text: str, path: Path) -> None:
    """Write a document to a new file, whole or not at all."""
    try:
        with drafts.draft(path) as draft:
            draft.write_text(text + "\n", encoding="utf-8")
            os.link(draft, path)
    except OSError as unwritten:
        raise ReleaseError(f"cannot write {str(path)!r}: {unwritten.strerror}") from unwritten
