"""Releases that were recorded with fingerprints of the first recipe: each is checked by its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.database.fingerprint import fingerprint, recipe_of
from duckanon.errors import ReleaseError
from tests.e2e.evidence_scene import (
    as_in_version_3,
    copied,
    everything_wrong,
    rechained,
    verified,
    with_evidence,
)
from tests.e2e.scenes import rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = with_evidence(tmp_path_factory.mktemp("recipes"))
    for name in ("home", "file"):
        as_in_version_3(folder / f"{name}.duckdb")
    return folder


@pytest.fixture
def home(originals: Path, tmp_path: Path) -> Path:
    return copied(originals / "home.duckdb", tmp_path)


@pytest.mark.parametrize("name", ["home", "file"])
def test_a_release_of_version_3_is_verified_by_its_recipe(
    originals: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, found = verified(originals / f"{name}.duckdb", capsys)
    assert (code, everything_wrong(found)) == (0, [])
    release = found["releases"][0]
    assert recipe_of(release["fingerprint"]) == 1
    assert release["earlier_fingerprints"] == []
    assert verified(originals / f"{name}.duckdb", capsys, expect=[release["fingerprint"]])[0] == 0


def test_a_changed_value_is_found_by_either_recipe(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copied(originals / "file.duckdb", tmp_path, "UPDATE v SET diagnosis = 'none' WHERE rowid = 0")
    code, found = verified(file, capsys)
    assert code == 1
    assert any("fingerprint recorded" in difference for difference in everything_wrong(found))


def test_an_audit_of_today_joins_the_chain_of_an_older_release(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever kept the first fingerprint can still give it, as well as the new one."""
    _, before = verified(home, capsys)
    with duckanon.connect(home) as con:
        (outcome,) = con.run_script("AUDIT VIEW v")
        assert outcome.report is not None
        assert not any("changed" in line for line in outcome.report.warnings)
        recorded = rows(
            con, "SELECT DISTINCT fingerprint, schema_version FROM duckanon.audits WHERE release_id = 1"
        )
    assert sorted((recipe_of(row["fingerprint"]), row["schema_version"]) for row in recorded) == [
        (1, 3),
        (2, 4),
    ]
    code, found = verified(home, capsys)
    assert (code, everything_wrong(found)) == (0, [])
    release = found["releases"][0]
    assert release["earlier_fingerprints"] == [before["releases"][0]["fingerprint"]]
    kept = [release["fingerprint"], *release["earlier_fingerprints"]]
    assert verified(home, capsys, expect=kept)[0] == 0
    assert verified(home, capsys, expect=["v2:" + "0" * 64])[0] == 1


def test_an_older_release_is_exported_and_refused_once_its_rows_were_changed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with duckanon.connect(home) as con:
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{home.with_name('first.duckdb')}'")
        con.execute("UPDATE duckanon.release_1 SET charge = charge + 1 WHERE rowid = 0")
        with pytest.raises(ReleaseError, match="someone changed"):
            con.sql(f"EXPORT ANONYMIZED VIEW v TO '{home.with_name('second.duckdb')}'")
    assert verified(home.with_name("first.duckdb"), capsys)[0] == 0


@pytest.mark.parametrize(
    "claimed", ["'v2:' || fingerprint", "'v3:' || fingerprint", "substr(fingerprint, 2)", "''"]
)
def test_a_fingerprint_of_another_recipe_or_of_none_is_a_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], claimed: str
) -> None:
    file = copied(originals / "file.duckdb", tmp_path, f"UPDATE duckanon.audits SET fingerprint = {claimed}")
    rechained(file)
    code, found = verified(file, capsys)
    assert code == 1
    assert any("fingerprint recorded" in difference for difference in everything_wrong(found))


def test_the_recipes_do_not_meet(home: Path) -> None:
    """One is told by its prefix, so no fingerprint is of both."""
    with duckanon.connect(home) as con:
        first, second = (fingerprint(con.duckdb, "duckanon.release_1", recipe) for recipe in (1, 2))
    assert (len(first), second[:3], len(second)) == (64, "v2:", 67)
    assert second[3:] != first
