"""duckanon verify: metadata that cannot be read is an error, and no value in it makes the command stumble."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import duckdb
import pytest

from duckanon.cli.verify import verify
from duckanon.errors import DuckanonError, ReleaseError, SourceError
from duckanon.release.metadata import METADATA
from tests.e2e.evidence_scene import altered, copied, with_evidence
from tests.examples import slowly, some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_evidence(tmp_path_factory.mktemp("evidence"))


def replaced_by_a_folder(file: Path) -> None:
    """Put a folder in the place of a file."""
    file.unlink()
    file.mkdir()


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "not there": (os.remove, "does not exist"),
    "not a database": (lambda file: file.write_text("age,zip\n1,2\n" * 100), "no DuckDB database: .*`duckanon audit`"),
    "a folder": (replaced_by_a_folder, "is a folder without _duckanon.json"),
    "cut off": (lambda file: file.write_bytes(file.read_bytes()[:9000]), "Could not read enough bytes|cannot be read"),
    "no release": (lambda file: altered(file, "DROP SCHEMA duckanon CASCADE"), "holds no release"),
    "no release recorded": (lambda file: altered(file, "DELETE FROM duckanon.releases"), "holds no release"),
    "no audits": (lambda file: altered(file, "DROP TABLE duckanon.audits"), "the metadata cannot be read"),
    "no columns": (lambda file: altered(file, "DROP TABLE duckanon.columns"), "the metadata cannot be read"),
    "another table of that name": (
        lambda file: altered(file, "DROP TABLE duckanon.releases; CREATE TABLE duckanon.releases(a INT)"),
        "holds no release of duckanon: its table",
    ),
    "no name": (lambda file: altered(file, "UPDATE duckanon.releases SET view_name = NULL"), "is broken"),
    "no version": (
        lambda file: altered(file, "UPDATE duckanon.audits SET schema_version = NULL"),
        "has no id or no version",
    ),
    "no number": (
        lambda file: altered(file, "ALTER TABLE duckanon.releases ALTER suppressed TYPE VARCHAR USING 'many'"),
        "duckanon.releases.suppressed is VARCHAR, and duckanon writes BIGINT",
    ),
    "no id": (lambda file: altered(file, "UPDATE duckanon.audits SET audit_id = NULL"), "has no id or no version"),
    "no chain": (lambda file: altered(file, "ALTER TABLE duckanon.audits DROP chain"), "the metadata cannot be read"),
    "of the past": (
        lambda file: altered(file, "UPDATE duckanon.releases SET schema_version = 3"),
        "version 3, and this duckanon reads version 4: use the duckanon that wrote it",
    ),
    "of the future": (
        lambda file: altered(file, "UPDATE duckanon.releases SET schema_version = 99"),
        "version 99, and this duckanon reads version 4: use the duckanon that wrote it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", slowly(BROKEN, one_of=3))
def test_what_cannot_be_verified_is_an_error(originals: Path, tmp_path: Path, what: str) -> None:
    damage, message = BROKEN[what]
    file = copied(originals / "file.duckdb", tmp_path)
    damage(file)
    with pytest.raises((ReleaseError, SourceError), match=message):
        verify(file)


def test_a_format_that_is_unknown(originals: Path) -> None:
    with pytest.raises(DuckanonError, match="text, json or html"):
        verify(originals / "file.duckdb", form="xml")


ALL_NULL = {"columns": {"tree"}, "thresholds": {"l_diversity", "c"}}


@pytest.mark.slow
@pytest.mark.parametrize("one_of", some([4, 1], one_of=2))
@pytest.mark.parametrize("table", METADATA)
def test_a_value_that_is_gone_is_a_difference_or_an_error(
    originals: Path, tmp_path: Path, table: str, one_of: int
) -> None:
    """Some values are NULL in this release, and stay what they are."""
    verifies = set()
    tried = list(columns(originals / "file.duckdb", table))[::one_of]
    for column in tried:
        file = copied(originals / "file.duckdb", tmp_path, f'UPDATE duckanon.{table} SET "{column}" = NULL')
        with contextlib.suppress(DuckanonError):
            if verify(file) == 0:
                verifies.add(column)
    assert verifies == ALL_NULL.get(table, set()).intersection(tried)


def columns(file: Path, table: str) -> Iterator[str]:
    """Give the columns of a table of the metadata."""
    with duckdb.connect(str(file), read_only=True) as con:
        yield from [row[0] for row in con.execute(f"DESCRIBE duckanon.{table}").fetchall()]
