"""duckanon verify: whoever changes released rows or their evidence is found out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.commands.verify import verify
from duckanon.errors import DuckanonError, ReleaseError, SourceError
from tests.e2e.scenes import CREATE, OPTIONS, command, patients

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = f"CREATE ANONYMIZED VIEW w AS SELECT * REPLACE (age + 1 AS age) FROM patients WITH ({OPTIONS})"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home database with two releases and a few audits, and an exported file."""
    folder = tmp_path_factory.mktemp("evidence")
    with patients(folder / "home.duckdb") as con:
        con.sql(CREATE.replace("k = 3", "k = 3, t = 0.5"))
        con.sql(SECOND)
        con.sql("AUDIT VIEW v; AUDIT VIEW v WITH (l = 2, l_diversity = 'entropy')")
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{folder / 'file.duckdb'}'")
    return folder


def verified(file: Path, capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[int, dict[str, Any]]:
    """Give exit code and JSON of the command."""
    code = verify(file, form="json", **options)
    return code, json.loads(capsys.readouterr().out)


def everything_wrong(found: dict[str, Any]) -> list[str]:
    """Give all differences of the JSON form."""
    return found["differences"] + [d for release in found["releases"] for d in release["differences"]]


@pytest.mark.parametrize(("name", "releases", "audits"), [("home", 2, [3, 1]), ("file", 1, [4])])
def test_what_nobody_touched_is_verified(
    originals: Path, capsys: pytest.CaptureFixture[str], name: str, releases: int, audits: list[int]
) -> None:
    """The audit with a stricter threshold fails, as recorded: that is no violation of the release."""
    before = (originals / f"{name}.duckdb").read_bytes()
    code, found = verified(originals / f"{name}.duckdb", capsys)
    assert (code, found["verified"], everything_wrong(found)) == (0, True, [])
    assert len(found["releases"]) == releases
    assert [release["audits"] for release in found["releases"]] == audits
    assert all(release["report"]["passed"] for release in found["releases"])
    assert (originals / f"{name}.duckdb").read_bytes() == before, "nothing is written"


ALTERED: dict[str, tuple[str, str, str]] = {
    "a released value": ("file", "UPDATE v SET diagnosis = 'none' WHERE rowid = 0", "fingerprint recorded"),
    "two values exchanged between rows": (
        "file",
        """UPDATE v SET charge = CASE rowid WHEN (SELECT arg_min(rowid, charge) FROM v) THEN (SELECT max(charge) FROM v)
        WHEN (SELECT arg_max(rowid, charge) FROM v) THEN (SELECT min(charge) FROM v) ELSE charge END""",
        "fingerprint recorded",
    ),
    "a row dropped": ("file", "DELETE FROM v WHERE rowid = 3", "records recorded 60, found 59"),
    "all rows dropped": ("file", "DELETE FROM v", "the table is empty"),
    "a row added twice": ("file", "INSERT INTO v FROM v LIMIT 1", "records recorded 60, found 61"),
    "a recorded value": (
        "file",
        "UPDATE duckanon.audits SET value = 9 WHERE measure = 'k_anonymity' AND statement = 'audit'",
        "k_anonymity: value 9 -> 3",
    ),
    "a recorded verdict": (
        "file",
        "UPDATE duckanon.audits SET passed = true, violations = 0 WHERE passed = false",
        "verdict passed -> VIOLATED",
    ),
    "a recorded row deleted": (
        "file",
        "DELETE FROM duckanon.audits WHERE measure = 't_closeness' AND attribute = 'charge'",
        "t_closeness of charge: appeared",
    ),
    "a recorded row doubled": (
        "file",
        "INSERT INTO duckanon.audits FROM duckanon.audits WHERE measure = 'k_anonymity' AND statement = 'export'",
        "k_anonymity: disappeared",
    ),
    "the recorded policy": (
        "file",
        "UPDATE duckanon.audits SET policy = replace(policy, 'k = 3', 'k = 2')",
        "policy hash recorded",
    ),
    "the recorded policy and its hash": (
        "file",
        "UPDATE duckanon.audits SET policy = replace(policy, 'k = 3', 'k = 2'), policy_hash = sha256(replace(policy, 'k = 3', 'k = 2'))",
        "says k = 2",
    ),
    "the policy hash": ("file", "UPDATE duckanon.audits SET policy_hash = sha256('')", "policy hash recorded"),
    "no policy": ("file", "UPDATE duckanon.audits SET policy = NULL, policy_hash = NULL", "policy"),
    "a recorded fingerprint": (
        "file",
        "UPDATE duckanon.audits SET fingerprint = sha256('') WHERE statement = 'export'",
        "fingerprint recorded e3b0c442",
    ),
    "no fingerprint": ("file", "UPDATE duckanon.audits SET fingerprint = NULL", "fingerprint recorded None"),
    "a threshold, smaller": (
        "file",
        "UPDATE duckanon.thresholds SET threshold = 2 WHERE measure = 'k_anonymity'",
        "says k = 3",
    ),
    "a threshold that the release breaks": (
        "file",
        "UPDATE duckanon.thresholds SET threshold = 0.01 WHERE measure = 't_closeness'",
        "0.01",
    ),
    "a threshold by its last digit": (
        "file",
        "UPDATE duckanon.thresholds SET threshold = threshold + 0.000000000001 WHERE attribute = 'charge'",
        "0.500000000001",
    ),
    "a threshold deleted": (
        "file",
        "DELETE FROM duckanon.thresholds WHERE attribute = 'diagnosis'",
        "t = {charge = 0.5}",
    ),
    "a role": (
        "file",
        "UPDATE duckanon.columns SET role = 'insensitive' WHERE column_name = 'age'",
        'quasi_identifiers = ["zip"]',
    ),
    "a distance": (
        "file",
        "UPDATE duckanon.columns SET distance = 'equal' WHERE column_name = 'charge'",
        "distance",
    ),
    "a type": ("file", "ALTER TABLE v ALTER age TYPE INTEGER", "columns recorded age BIGINT"),
    "a column renamed": ("file", "ALTER TABLE v RENAME diagnosis TO illness", "the release cannot be audited"),
    "a column added": ("file", "ALTER TABLE v ADD COLUMN note VARCHAR", "note VARCHAR"),
    "the audits deleted": ("file", "DELETE FROM duckanon.audits", "is not recorded"),
    "the audit of the release deleted": (
        "file",
        "DELETE FROM duckanon.audits WHERE statement = 'release'",
        "the audit with which the release was made is not recorded",
    ),
    "the table renamed": ("file", "ALTER TABLE v RENAME TO u", "the table 'v' of the release is not in the file"),
    "another table": ("file", "CREATE TABLE more AS SELECT 1 AS a", "the table main.more, which no release names"),
    "the count of records": ("file", "UPDATE duckanon.releases SET records = 61", "records recorded 61, found 60"),
    "the count of classes": ("file", "UPDATE duckanon.releases SET classes = 3", "classes recorded 3"),
    "the information loss": (
        "file",
        "UPDATE duckanon.releases SET information_loss = 0.1",
        "information_loss: value",
    ),
    "version 1 claimed and all hashes dropped": (
        "file",
        "UPDATE duckanon.audits SET schema_version = 1, fingerprint = NULL, policy = NULL, policy_hash = NULL, statement = NULL",
        "metadata version recorded 1",
    ),
    "version 1 claimed": ("file", "UPDATE duckanon.audits SET schema_version = 1, fingerprint = sha256('')", "fingerprint"),
    "a value in the backing table": (
        "home",
        "UPDATE duckanon.release_1 SET charge = 7 WHERE rowid = 0",
        "fingerprint recorded",
    ),
    "two tables swapped": (
        "home",
        """ALTER TABLE duckanon.release_1 RENAME TO x; ALTER TABLE duckanon.release_2 RENAME TO release_1;
        ALTER TABLE duckanon.x RENAME TO release_2""",
        "fingerprint recorded",
    ),
    "the view renamed": ("home", "ALTER VIEW v RENAME TO u", "it is now called main.u"),
    "two views renamed into each other": (
        "home",
        "ALTER VIEW v RENAME TO x; ALTER VIEW w RENAME TO v; ALTER VIEW x RENAME TO w",
        "it is now called main.w",
    ),
    "the view dropped": ("home", "DROP VIEW v", "it is gone or was replaced"),
    "the view replaced": ("home", "CREATE OR REPLACE VIEW v AS FROM patients", "it is gone or was replaced"),
    "the view replaced by one with its mark": (
        "home",
        "CREATE OR REPLACE VIEW v AS SELECT * FROM duckanon.release_2; COMMENT ON VIEW v IS 'duckanon release 1'",
        "fingerprint recorded",
    ),
    "the table dropped": ("home", "DROP TABLE duckanon.release_1", "release_1 of the release is gone"),
    "the policy of the owner": (
        "home",
        "UPDATE duckanon.releases SET policy = replace(policy, 'k = 3', 'k = 2') WHERE release_id = 1",
        "the policy of the release says k = 2",
    ),
    "the policy broken": (
        "home",
        "UPDATE duckanon.releases SET policy = 'k = ' WHERE release_id = 1",
        "the policy of the release cannot be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ALTERED)
def test_every_change_is_noticed(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    name, statements, message = ALTERED[what]
    file = Path(shutil.copy(originals / f"{name}.duckdb", tmp_path / f"{name}.duckdb"))
    with duckdb.connect(str(file)) as con:
        con.execute(statements)
    code, found = verified(file, capsys)
    assert code == 1
    assert found["verified"] is False
    assert any(message in difference for difference in everything_wrong(found)), everything_wrong(found)


def test_the_text_names_every_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(shutil.copy(originals / "file.duckdb", tmp_path / "file.duckdb"))
    assert verify(file) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("verified: 1 release, 4 recorded audits;")
    altered(file, "UPDATE v SET age = 999, zip = 'z' WHERE rowid = 0")
    _, found = verified(file, capsys)
    assert verify(file) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("difference: ")] == [
        f"difference: {difference}" for difference in everything_wrong(found)
    ]
    assert "1 release in violation" in lines[-1], "the altered record is alone in its class"
    assert any(
        line.startswith("violation: k_anonymity is 1 in the class of 1 records with") for line in lines
    )


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "not there": (lambda file: file.unlink(), "does not exist"),
    "not a database": (lambda file: file.write_text("age,zip\n1,2\n" * 100), "cannot be opened"),
    "a folder": (lambda file: (file.unlink(), file.mkdir()), "does not exist"),
    "cut off": (lambda file: file.write_bytes(file.read_bytes()[:9000]), "cannot be opened|cannot be read"),
    "no release": (lambda file: altered(file, "DROP SCHEMA duckanon CASCADE"), "holds no release"),
    "no release recorded": (lambda file: altered(file, "DELETE FROM duckanon.releases"), "holds no release"),
    "no audits": (lambda file: altered(file, "DROP TABLE duckanon.audits"), "the metadata cannot be read"),
    "no columns": (lambda file: altered(file, "DROP TABLE duckanon.columns"), "the metadata cannot be read"),
    "another table of that name": (
        lambda file: altered(file, "DROP TABLE duckanon.releases; CREATE TABLE duckanon.releases(a INT)"),
        "holds no release of duckanon: its table",
    ),
    "no name": (lambda file: altered(file, "UPDATE duckanon.releases SET view_name = NULL"), "is broken"),
    "of the future": (
        lambda file: altered(file, "UPDATE duckanon.releases SET schema_version = 99"),
        "use the newer duckanon",
    ),
}  # fmt: skip


def altered(file: Path, statements: str) -> None:
    """Run statements in a file."""
    with duckdb.connect(str(file)) as con:
        con.execute(statements)


@pytest.mark.parametrize("what", BROKEN)
def test_what_cannot_be_verified_is_an_error(originals: Path, tmp_path: Path, what: str) -> None:
    damage, message = BROKEN[what]
    file = Path(shutil.copy(originals / "file.duckdb", tmp_path / "file.duckdb"))
    damage(file)
    with pytest.raises((ReleaseError, SourceError), match=message):
        verify(file)


def test_a_format_that_is_unknown(originals: Path) -> None:
    with pytest.raises(DuckanonError, match="text or json"):
        verify(originals / "file.duckdb", form="xml")


def test_a_fingerprint_that_was_kept_elsewhere(originals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the same in the home database and in the file, and a forger who rewrites all cannot keep it."""
    _, file = verified(originals / "file.duckdb", capsys)
    _, home = verified(originals / "home.duckdb", capsys)
    kept = [file["releases"][0][key] for key in ("fingerprint", "policy_hash")]
    assert kept == [home["releases"][0][key] for key in ("fingerprint", "policy_hash")]
    assert verified(originals / "file.duckdb", capsys, expect=[kept[0].upper(), f" {kept[1]} "])[0] == 0
    code, found = verified(originals / "file.duckdb", capsys, expect=["0" * 64])
    assert (code, len(found["differences"])) == (1, 1)
    assert home["releases"][1]["fingerprint"] not in kept


def test_a_forger_who_rewrites_everything_is_found_by_the_kept_fingerprint_only(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What docs/evidence.md says: the file alone proves nothing against this."""
    _, honest = verified(originals / "file.duckdb", capsys)
    file = Path(shutil.copy(originals / "file.duckdb", tmp_path / "file.duckdb"))
    altered(file, "UPDATE v SET charge = charge + 1")
    _, found = verified(file, capsys)
    new = found["releases"][0]["fingerprint"]
    altered(file, f"UPDATE duckanon.audits SET fingerprint = '{new}'")
    assert verified(file, capsys)[0] == 0
    assert verified(file, capsys, expect=[honest["releases"][0]["fingerprint"]])[0] == 1


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize(
    "options",
    [
        'quasi_identifiers = ("my age", "a\'b"), sensitive = ("s""x", day, flag), insensitive = *, k = 2, t = {"s""x": 0.6, day: 1}',
        'quasi_identifiers = (day), sensitive = ("s""x"), insensitive = *, k = 3, l = 2, l_diversity = \'recursive\', c = 2.5',
        "quasi_identifiers = (\"my age\", flag, mood), sensitive = (zoned, day), insensitive = *, k = 2, l = 1.5, l_diversity = 'entropy'",
        "quasi_identifiers = (\"MY AGE\"), sensitive = (mood), insensitive = *, k = 4, l_diversity = 'entropy', suppression_limit = 0.2",
        "quasi_identifiers = (\"my age\"), sensitive = (mood), insensitive = *, k = 4, distance = {mood: 'hierarchical'}, hierarchies = {mood: 'tree'}, t = 0.7",
        "quasi_identifiers = (half, zoned), insensitive = *, k = 2, nulls = 'suppress', suppression_limit = 0.5",
    ],
)
def test_releases_of_all_kinds_are_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str
) -> None:
    """Quoted names, NULL, NaN, -0.0, dates, ENUM, trees, other schemas, a time zone in one session only."""
    home, file = tmp_path / "my home.duckdb", tmp_path / "file.duckdb"
    with duckanon.connect(home) as con:
        con.execute("""
            CREATE SCHEMA "s p"; CREATE TABLE p AS SELECT
                CASE WHEN i % 9 = 0 THEN NULL ELSE i % 5 END AS "my age", 'x' || i % 2 AS "a'b",
                CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'v' || i % 3 END AS "s""x",
                DATE '2020-01-01' + (i % 6)::INTEGER AS day, i % 3 = 0 AS flag,
                (['low', 'high', 'none'])[1 + i % 3]::ENUM('low', 'high', 'none', 'never') AS mood,
                TIMESTAMPTZ '2020-01-01 00:00:00+00' + INTERVAL (i % 4) HOUR AS zoned,
                CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN -0.0 ELSE i / 2 END AS half,
                CASE i % 3 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN -0.0 ELSE 0.0 END AS odd,
                [i % 2, NULL] AS list, '1:a' AS "colon"
            FROM range(72) r(i);
            CREATE TABLE tree AS FROM (VALUES ('low', 'some', 'all'), ('high', 'some', 'all'), ('none', 'nothing', 'all')) t(leaf, up, top);
            SET TimeZone = 'America/New_York'
        """)
        con.sql(f'CREATE ANONYMIZED VIEW "s p"."v w" AS FROM p WITH ({options})')
        con.sql('AUDIT VIEW "s p"."v w"; AUDIT VIEW "s p"."v w" WITH (k = 2)')
        con.sql(f"""EXPORT ANONYMIZED VIEW "s p"."v w" TO '{file}'""")
    for path in (home, file):
        code, found = verified(path, capsys)
        assert (code, everything_wrong(found)) == (0, [])
    if "hierarchical" in options:
        altered(file, "UPDATE duckanon.tree_1_1 SET node = 'all' WHERE node = 'nothing'")
        code, found = verified(file, capsys)
        assert any("hierarchies" in difference for difference in everything_wrong(found))


def test_a_copy_under_another_name_is_verified(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("home", "file"):
        file = Path(shutil.copy(originals / f"{name}.duckdb", tmp_path / f"my copy of {name}.db"))
        assert verified(file, capsys)[0] == 0


def test_the_command_line(originals: Path, tmp_path: Path) -> None:
    done = command("verify", originals / "file.duckdb")
    assert done.returncode == 0, done.stderr
    assert "fingerprint: " in done.stdout
    file = Path(shutil.copy(originals / "file.duckdb", tmp_path / "file.duckdb"))
    altered(file, "DELETE FROM v WHERE rowid = 0")
    done = command("verify", file, "--format", "json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verified"] is False
    file.write_text("nothing")
    done = command("verify", file)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) <= 2
