"""Folders as Spark writes them, made without Spark: Parquet by pyarrow, evidence by what DuckDB says of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from duckanon.audits.run import audit_relation
from duckanon.cli.verify import verify
from duckanon.database.fingerprint import digest, fingerprint
from duckanon.policy.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

ILL = 'ill of "it\'s", [1]*'
"""A column whose name has characters that SQL, TOML and patterns know."""

ASKED = Policy(
    quasi_identifiers=["age", "seen"],
    sensitive=ILL,
    identifiers="name",
    insensitive=["pay", "note"],
    k=3,
    t=0.6,
)

FIRST, SECOND = "part-00000-a-c000.snappy.parquet", "part-00001-a-c000.snappy.parquet"


def records() -> pa.Table:
    """Four classes of three, one of them without an age; times with a zone, and NULL in each column."""
    seen = [datetime(2024, 5, 1, tzinfo=UTC) + timedelta(hours=place // 6) for place in range(12)]
    return pa.table(
        {
            "age": pa.array([None] * 3 + [30] * 3 + [40] * 3 + [50] * 3, pa.int64()),
            "seen": pa.array(seen, pa.timestamp("us", "UTC")),
            ILL: pa.array(["flu", None, "cold"] * 4),
            "pay": pa.array([None, *(place + 0.5 for place in range(11))]),
            "note": pa.array([None, "", "a\nb", "ü"] * 3),
        }
    )


def folder_of(folder: Path, table: pa.Table | None = None, policy: Policy = ASKED) -> Path:
    """Write a release of two files, with what Spark and Hadoop leave beside them."""
    folder.mkdir(parents=True)
    table = records() if table is None else table
    for name, part in ((FIRST, table.slice(0, 5)), (SECOND, table.slice(5))):
        pq.write_table(part, folder / name, store_schema=False)
        (folder / f".{name}.crc").write_bytes(b"crc")
    (folder / "_SUCCESS").touch()
    with duckdb.connect() as con:
        con.register("released", table)
        audit = json.loads(audit_relation(con, "released", policy, name="release").to_json())
        # Spark records it of columns in which the source has NULL.
        least, classes = policy.least_values, audit["measures"][0]["classes"]
        enough = ["min_values", "age", least, float(least), classes, 0, 0, True]
        audit["measures"].append(dict(zip(audit["measures"][0], enough, strict=True)))
        evidence = {
            "policy": policy.to_toml(),
            "policy_hash": digest(policy.to_toml()),
            "fingerprint": fingerprint(con, "released"),
            "records": table.num_rows,
            "audit": {**audit, "warnings": []},
            "information_loss": 12.5,
            "suppressed": 0,
            "versions": {"duckanon": "0.1.0", "duckdb": "2.0.1", "pyspark": "4.1.4", "spark": "4.1.4"},
            "settings": {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "Europe/Berlin"},
        }
    (folder / "_duckanon.json").write_text(json.dumps(evidence, indent=2) + "\n")
    return folder


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the evidence."""
    file = folder / "_duckanon.json"
    evidence = json.loads(file.read_text())
    change(evidence)
    file.write_text(json.dumps(evidence, indent=2) + "\n")


def verified(folder: Path, capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[int, list[str]]:
    """Give exit code and all differences."""
    code = verify(folder, form="json", **options)
    found = json.loads(capsys.readouterr().out)
    (release,) = found["releases"]
    assert found["verified"] is (code == 0)
    return code, [*found["differences"], *release["differences"]]
