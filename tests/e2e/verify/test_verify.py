"""duckanon verify: whoever changes released rows or their evidence is found out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from duckanon.cli.verify import verify
from duckanon.database.fingerprint import digest
from duckanon.release import chain
from duckanon.release.verify.record import checked, misworded, read_releases
from tests.e2e.evidence_scene import altered, copied, everything_wrong, rechained, verified, with_evidence
from tests.e2e.scenes import command
from tests.examples import slowly

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_evidence(tmp_path_factory.mktemp("evidence"))


@pytest.mark.sampled
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
    assert all(digest(release["policy"]) == release["policy_hash"] for release in found["releases"])
    assert (originals / f"{name}.duckdb").read_bytes() == before, "nothing is written"


NOT_THE_RELEASE = "the release, its columns or its thresholds are not those with which the chain begins"

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
    "the count of records": ("file", "UPDATE duckanon.releases SET records = 61", "records recorded 61, found 60"),
    "the count of classes": ("file", "UPDATE duckanon.releases SET classes = 3", "classes recorded 3"),
    "no count of suppressed records": (
        "file",
        "UPDATE duckanon.releases SET suppressed = NULL",
        "suppressed_records: value 0 -> none",
    ),
    "the count of suppressed records": (
        "home",
        "UPDATE duckanon.releases SET suppressed = 7 WHERE release_id = 1",
        "suppressed_records: value 0 -> 7",
    ),
    "the release recorded twice": (
        "file",
        "INSERT INTO duckanon.releases FROM duckanon.releases",
        "duckanon.releases names release 1 2 times",
    ),
    "a threshold recorded twice": (
        "file",
        "INSERT INTO duckanon.thresholds FROM duckanon.thresholds WHERE attribute = 'charge'",
        "duckanon.thresholds names t_closeness of charge 2 times",
    ),
    "audits of no release": (
        "file",
        "UPDATE duckanon.audits SET release_id = 9 WHERE statement = 'audit' AND policy NOT LIKE '%entropy%'",
        "duckanon.audits has 8 rows of release 9, which duckanon.releases does not name",
    ),
    "columns of no release": (
        "home",
        "INSERT INTO duckanon.columns SELECT * REPLACE (NULL AS release_id) FROM duckanon.columns LIMIT 1",
        "duckanon.columns has 1 row of release None",
    ),
    "no policy of the owner": (
        "home",
        "UPDATE duckanon.releases SET policy = NULL WHERE release_id = 1",
        "the policy of the release cannot be read",
    ),
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
    "another recipe claimed": ("file", "UPDATE duckanon.audits SET fingerprint = 'v3' || fingerprint[3:]", "fingerprint"),
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
    "an unknown method": ("file", "UPDATE duckanon.releases SET method = 'magic'", "the method is recorded as 'magic', which is none that this version knows"),
    "a failed audit deleted": ("file", "DELETE FROM duckanon.audits WHERE audit_id IN (SELECT audit_id FROM duckanon.audits WHERE passed = false)", "an audit that was recorded before it is gone"),
    "the chain emptied": ("file", "UPDATE duckanon.audits SET chain = NULL, previous = NULL, number = NULL", "it is not in the chain of audits"),
    "a failed audit deleted at home": ("home", "DELETE FROM duckanon.audits WHERE release_id = 1 AND number = 2", "an audit that was recorded before it is gone"),
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
        "the view main.v is not the one that duckanon wrote",
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


@pytest.mark.parametrize("what", slowly(ALTERED, one_of=5))
def test_every_change_is_noticed(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    name, statements, message = ALTERED[what]
    code, found = verified(copied(originals / f"{name}.duckdb", tmp_path, statements), capsys)
    assert code == 1
    assert found["verified"] is False
    assert any(message in difference for difference in everything_wrong(found)), everything_wrong(found)


BOUND: dict[str, tuple[str, str]] = {
    "another method": ("UPDATE duckanon.releases SET method = 'mdav1'", NOT_THE_RELEASE),
    "the time of the release": ("UPDATE duckanon.releases SET created_at = '2000-01-01'", NOT_THE_RELEASE),
    "the version of the release": ("UPDATE duckanon.releases SET duckanon_version = '0.0.9'", NOT_THE_RELEASE),
    "the name of the table": ("UPDATE duckanon.releases SET table_name = 'patients'", "the table of the release is recorded as 'patients'"),
    "the name of the schema": ("UPDATE duckanon.releases SET schema_name = 'hospital'", "the schema of an exported release is recorded as 'hospital', and it is 'main'"),
    "the name of the release, everywhere": ("ALTER TABLE v RENAME TO u; UPDATE duckanon.releases SET view_name = 'u'", "it is not as it was recorded"),
    "an unknown recode": ("UPDATE duckanon.columns SET recode = 'magic' WHERE recode = 'mean'", "column 'age' is recorded as recoded by 'magic'"),
    "another recode": ("UPDATE duckanon.columns SET recode = 'median' WHERE recode = 'mean'", NOT_THE_RELEASE),
    "a recode of a sensitive column": ("UPDATE duckanon.columns SET recode = 'mean' WHERE column_name = 'charge'", "column 'charge' is recorded as recoded by 'mean'"),
    "an unknown role": ("UPDATE duckanon.columns SET role = 'friend' WHERE column_name = 'charge'", "the role of 'charge' is recorded as 'friend'"),
    "positions": ("UPDATE duckanon.columns SET position = position + 1", "numbers the columns [2, 3, 4, 5]"),
    "two positions exchanged": ("UPDATE duckanon.columns SET position = 3 - position WHERE position < 3", NOT_THE_RELEASE),
    "a tree of no column": ("UPDATE duckanon.columns SET tree = 'v' WHERE column_name = 'zip'", "the tree 'v'"),
    "an id of an audit": ("UPDATE duckanon.audits SET audit_id = '0' WHERE number = 2", "link recorded"),
    "the time of an audit": ("UPDATE duckanon.audits SET audited_at = '2000-01-01' WHERE number = 2", "link recorded"),
    "the order of the rows of an audit": ("UPDATE duckanon.audits SET position = 3 - position WHERE position < 3 AND number = 2", "link recorded"),
    "the version of an audit": ("UPDATE duckanon.audits SET duckdb_version = '1.0.0' WHERE number = 2", "link recorded"),
    "an unknown statement": ("UPDATE duckanon.audits SET statement = 'wish' WHERE number = 2", "duckanon.audits has an audit by 'wish'"),
    "a failed audit deleted, and the numbers closed": ("DELETE FROM duckanon.audits WHERE number = 3; UPDATE duckanon.audits SET number = 3 WHERE number = 4", "an audit that was recorded before it is gone"),
    "the audit of the export deleted": ("DELETE FROM duckanon.audits WHERE statement = 'export'", "the audit with which the file was exported is not recorded"),
    "a number": ("UPDATE duckanon.audits SET number = 9 WHERE number = 4", "the audits before it make it number 4"),
    "a link": ("UPDATE duckanon.audits SET chain = sha256('') WHERE number = 4", "link recorded e3b0c442"),
    "no chain": ("UPDATE duckanon.audits SET chain = NULL, previous = NULL, number = NULL", "it is not in the chain of audits"),
}  # fmt: skip


@pytest.fixture(scope="module")
def bound(originals: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with a copy of the exported file; every case is rolled back."""
    with duckdb.connect(str(copied(originals / "file.duckdb", tmp_path_factory.mktemp("bound")))) as con:
        assert broken(con) == []
        yield con


def broken(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Give what is wrong with the words and with the chain of the releases in a file."""
    return [
        difference
        for release in read_releases(con, "file")
        for difference in (*misworded(release), *checked(con, "file", release).differences)
    ]


@pytest.mark.parametrize("what", slowly(BOUND, one_of=3))
def test_words_are_those_that_are_written_and_the_rest_is_bound_by_the_chain(
    bound: duckdb.DuckDBPyConnection, what: str
) -> None:
    """Both are parts of what the command checks, asked alone, since a whole verification takes longer."""
    statements, message = BOUND[what]
    bound.begin()
    try:
        bound.execute(statements)
        assert any(message in difference for difference in broken(bound)), broken(bound)
    finally:
        bound.rollback()


@pytest.mark.slow
def test_the_text_names_every_difference(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = copied(originals / "file.duckdb", tmp_path)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_forger_who_rewrites_everything_is_found_by_the_kept_fingerprint_only(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What docs/evidence.md says: the file alone proves nothing against this, with a chain or without."""
    _, honest = verified(originals / "file.duckdb", capsys)
    file = copied(originals / "file.duckdb", tmp_path)
    altered(file, "UPDATE v SET charge = charge + 1")
    _, found = verified(file, capsys)
    new = found["releases"][0]["fingerprint"]
    altered(file, f"UPDATE duckanon.audits SET fingerprint = '{new}'")
    assert verified(file, capsys)[0] == 1
    rechained(file)
    assert verified(file, capsys)[0] == 0
    assert verified(file, capsys, expect=[honest["releases"][0]["fingerprint"]])[0] == 1
    assert verified(file, capsys, head=honest["releases"][0]["heads"])[0] == 1


@pytest.mark.slow
def test_the_end_of_a_chain_is_missed_by_who_kept_its_head(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Audits that were recorded last can be deleted at home without a trace there, as docs/evidence.md says."""
    _, home = verified(originals / "home.duckdb", capsys)
    kept = home["releases"][0]["heads"]
    assert kept == home["releases"][0]["links"][-1:]
    assert verified(originals / "home.duckdb", capsys, head=[f" {kept[0].upper()} "])[0] == 0
    code, file = verified(originals / "file.duckdb", capsys, head=kept)
    assert (code, len(file["releases"][0]["links"])) == (0, 4), (
        "the chain of the file goes on from that of home"
    )
    shorter = copied(
        originals / "home.duckdb", tmp_path, "DELETE FROM duckanon.audits WHERE release_id = 1 AND number = 3"
    )
    assert verified(shorter, capsys)[0] == 0
    code, found = verified(shorter, capsys, head=kept)
    assert (code, found["differences"]) == (
        1,
        [
            f"{kept[0]} was expected, and no release has this link in its chain of audits: some are gone or changed"
        ],
    )
    with duckanon.connect(shorter) as con:
        con.sql("AUDIT VIEW v")
    assert verified(shorter, capsys)[0] == 0
    assert verified(shorter, capsys, head=kept)[0] == 1


BESIDE = """
INSERT INTO duckanon.audits BY NAME
SELECT * REPLACE ('00000000deadbeef' AS audit_id, {}) FROM duckanon.audits WHERE release_id = 1 AND number = {}
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "statement", "words"),
    [
        ("home", BESIDE.format("99 AS threshold", 2), "2 audits follow"),
        ("file", BESIDE.format("99 AS threshold", 2), "2 audits follow"),
        ("file", BESIDE.format("5 AS number, 'audit' AS statement", 4), "it is recorded behind the export"),
        ("file", BESIDE.format("5 AS number", 4), "a second export is recorded in the file"),
        (
            "file",
            BESIDE.format("5 AS number, 'release' AS statement", 4),
            "the audit of a release is the first",
        ),
        ("home", BESIDE.format("4 AS number, 'export' AS statement", 3), "an export is recorded in its file"),
    ],
)
def test_a_chain_is_one_line_that_ends_in_its_export(
    name: str, statement: str, words: str, originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever can write the file gives what is put in a link of its own, as if it had been recorded so."""
    file = copied(originals / f"{name}.duckdb", tmp_path, statement)
    with duckdb.connect(str(file)) as con:
        ((home,),) = con.execute("SELECT current_database()").fetchall()
        ((number, before),) = con.execute(
            "SELECT DISTINCT number, previous FROM duckanon.audits WHERE audit_id = '00000000deadbeef'"
        ).fetchall()
        if number > 3:
            ((before,),) = con.execute(
                f"SELECT DISTINCT chain FROM duckanon.audits WHERE release_id = 1 AND number = {number - 1}"
            ).fetchall()
            con.execute(
                "UPDATE duckanon.audits SET previous = ? WHERE audit_id = '00000000deadbeef'", [before]
            )
        chain.append(con, home, 1, "00000000deadbeef", chain.Place(number, before))
    code, found = verified(file, capsys)
    assert code == 1
    assert [text for text in everything_wrong(found) if words in text]
    assert not [text for text in everything_wrong(found) if "link recorded" in text]


def test_a_copy_under_another_name_is_verified(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("home", "file"):
        file = Path(shutil.copy(originals / f"{name}.duckdb", tmp_path / f"my copy of {name}.db"))
        assert verified(file, capsys)[0] == 0


@pytest.mark.slow
def test_the_command_line(originals: Path, tmp_path: Path) -> None:
    done = command("verify", originals / "file.duckdb")
    assert done.returncode == 0, done.stderr
    assert "fingerprint: " in done.stdout
    file = copied(originals / "file.duckdb", tmp_path)
    altered(file, "DELETE FROM v WHERE rowid = 0")
    done = command("verify", file, "--format", "json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verified"] is False
    file.write_text("nothing")
    done = command("verify", file)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) <= 2
