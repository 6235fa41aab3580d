"""Databases with evidence in them, and what `duckanon verify` says of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.cli.verify import verify
from duckanon.release import chain
from tests.e2e.scenes import CREATE, OPTIONS, patients

if TYPE_CHECKING:
    import pytest

AUDITS = "SELECT DISTINCT audit_id, number FROM duckanon.audits WHERE release_id = ? ORDER BY number"

SECOND = f"CREATE ANONYMIZED VIEW w AS SELECT * REPLACE (age + 1 AS age) FROM patients WITH ({OPTIONS})"


def with_evidence(folder: Path) -> Path:
    """Make a home database with two releases and a few audits, and an exported file."""
    with patients(folder / "home.duckdb") as con:
        con.sql(CREATE.replace("k = 3", "k = 3, t = 0.5"))
        con.sql(SECOND)
        con.sql("AUDIT VIEW v; AUDIT VIEW v WITH (l = 2, l_diversity = 'entropy')")
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{folder / 'file.duckdb'}'")
    return folder


def copied(original: Path, folder: Path, statements: str = "") -> Path:
    """Copy a database and run statements in the copy."""
    file = Path(shutil.copy(original, folder / original.name))
    altered(file, statements)
    return file


def altered(file: Path, statements: str) -> None:
    """Run statements in a file."""
    with duckdb.connect(str(file)) as con:
        con.execute(statements)


def rechained(file: Path) -> None:
    """Make the chains of the audits anew, as whoever can write a file can."""
    with duckdb.connect(str(file)) as con:
        ((home,),) = con.execute("SELECT system.main.current_database()").fetchall()
        for (release_id,) in con.execute("SELECT release_id FROM duckanon.releases").fetchall():
            previous = chain.origin(con, home, release_id)
            for audit_id, number in con.execute(AUDITS, [release_id]).fetchall():
                con.execute(
                    "UPDATE duckanon.audits SET previous = ? WHERE audit_id = ?", [previous, audit_id]
                )
                place = chain.Place(number, previous)
                previous = chain.link(con, home, release_id, audit_id, place)
                chain.append(con, home, release_id, audit_id, place)


def verified(file: Path, capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[int, dict[str, Any]]:
    """Give exit code and JSON of the command."""
    code = verify(file, form="json", **options)
    return code, json.loads(capsys.readouterr().out)


def everything_wrong(found: dict[str, Any]) -> list[str]:
    """Give all differences of the JSON form."""
    return [*found["differences"], *(d for release in found["releases"] for d in release["differences"])]
