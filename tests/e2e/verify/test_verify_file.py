"""Evidence in the footer of a Parquet file, and in a JSON file beside a CSV: it is found, and it says the truth."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest

from duckanon.errors import PolicyError, ReleaseError
from duckanon.release.verify.file import verify_file
from tests.e2e.scenes import CREATE, patients

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same release as Parquet, as CSV and as a database, with evidence; age has ranges, the names are escaped."""
    folder = tmp_path_factory.mktemp("made")
    with patients() as con:
        con.execute('ALTER TABLE patients RENAME COLUMN diagnosis TO "-dia\'gnosis"')
        create = CREATE.replace("diagnosis", '"-dia\'gnosis"').replace(
            "k = 3", "k = 3, t = 0.5, recode = {age: 'range'}"
        )
        con.execute(create)
        for name, options in (
            ("o.parquet", "overwrite = true"),
            ("o.csv", f"evidence = '{folder / 'o.csv.json'}', csv_formulas = 'escape'"),
            ("o.duckdb", f"evidence = '{folder / 'o.json'}'"),
        ):
            con.execute(f"EXPORT ANONYMIZED VIEW v TO '{folder / name}' WITH ({options})")
    return folder


def test_both_are_verified_by_their_own_evidence_and_by_each_others_policy(made: Path) -> None:
    parquet, csv = verify_file(made / "o.parquet"), verify_file(made / "o.csv")
    assert parquet.verified, parquet.to_text()
    assert csv.verified, csv.to_text()
    (one,), (other,) = parquet.releases, csv.releases
    assert one.policy_hash == other.policy_hash
    assert verify_file(
        made / "o.parquet", [one.fingerprint or "", one.policy_hash or ""], heads=one.heads
    ).verified
    assert not verify_file(made / "o.parquet", ["0" * 64]).verified
    # The evidence of the database is of the same rows as that of the Parquet file.
    assert verify_file(made / "o.parquet", evidence=made / "o.json").verified
    assert not verify_file(made / "o.csv", evidence=made / "o.json").verified


def test_the_footer_names_nothing_that_is_not_released(made: Path) -> None:
    words = pq.read_metadata(made / "o.parquet").metadata
    assert list(words) == [b"duckanon"]
    assert words[b"duckanon"] == (made / "o.json").read_bytes()
    told = json.loads(words[b"duckanon"])
    assert told["records"] == 60
    assert "insensitive" not in told["policy"]
    for word in (b"patients", b"SELECT"):  # the source
        assert word not in (made / "o.parquet").read_bytes()


def changed_rows(folder: Path) -> None:
    """The charges of the first class are higher, under the old footer."""
    text = pq.read_metadata(folder / "o.parquet").metadata[b"duckanon"].decode().replace("'", "''")
    duckdb.sql(
        f"COPY (SELECT * REPLACE (charge + (row_number() OVER () < 4)::INT AS charge) FROM '{folder / 'o.parquet'}') "
        f"TO '{folder / 'n.parquet'}' (KV_METADATA {{duckanon: '{text}'}})"
    )
    (folder / "n.parquet").replace(folder / "o.parquet")


def another_key(folder: Path) -> None:
    text = pq.read_metadata(folder / "o.parquet").metadata[b"duckanon"].decode().replace("'", "''")
    duckdb.sql(
        f"COPY (FROM '{folder / 'o.parquet'}') TO '{folder / 'n.parquet'}' (KV_METADATA {{duckanon: '{text}', who: 'Ada'}})"
    )
    (folder / "n.parquet").replace(folder / "o.parquet")


def hidden_behind_our_key(folder: Path, *, twice: bool) -> None:
    """Text in the footer under our own key, alone or before the evidence, which readers find last."""
    text = pq.read_metadata(folder / "o.parquet").metadata[b"duckanon"].decode().replace("'", "''")
    words = f"duckanox: 'Ada', duckanon: '{text}'" if twice else "duckanon: 'Ada'"
    duckdb.sql(f"COPY (FROM '{folder / 'o.parquet'}') TO '{folder / 'n.parquet'}' (KV_METADATA {{{words}}})")
    (folder / "o.parquet").write_bytes((folder / "n.parquet").read_bytes().replace(b"duckanox", b"duckanon"))


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_our_key_in_the_footer_holds_the_evidence_once(
    made: Path, tmp_path: Path, twice: bool, given: bool
) -> None:
    (tmp_path / "o.parquet").write_bytes((made / "o.parquet").read_bytes())
    hidden_behind_our_key(tmp_path, twice=twice)
    if not given and not twice:
        with pytest.raises(ReleaseError, match="is no evidence of a release"):
            verify_file(tmp_path / "o.parquet")
        return
    (release,) = verify_file(tmp_path / "o.parquet", evidence=made / "o.json" if given else None).releases
    assert release.differences == (
        "its footer has 'duckanon', 3 bytes, which EXPORT does not write like this",
    )


def told(folder: Path, change: Callable[[dict[str, object]], None]) -> None:
    file = folder / "o.csv.json"
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document, indent=2) + "\n")


def settings(text: dict[str, str]) -> Callable[[dict[str, object]], None]:
    def change(document: dict[str, object]) -> None:
        document["settings"] |= text  # type: ignore[operator]

    return change


FORGED = {
    "rows": (changed_rows, "o.parquet", "fingerprint recorded v2:"),
    "a key": (another_key, "o.parquet", "its footer has 'who', 3 bytes, which EXPORT does not write"),
    "a line": (lambda folder: (folder / "o.csv").write_bytes((folder / "o.csv").read_bytes() + b"1,2,3,4\n"), "o.csv", "fingerprint recorded"),
    "a header": (lambda folder: (folder / "o.csv").write_text((folder / "o.csv").read_text().replace("age", "egg", 1)), "o.csv", "found ['egg'"),
    "bytes": (lambda folder: (folder / "o.csv").write_bytes(b"\xff\xfe\n\x00"), "o.csv", "the release cannot be audited"),
    "a type": (lambda folder: told(folder, settings({"type of age": "VARCHAR) FROM x --"})), "o.csv", "the type of 'age' is recorded as"),
    "less asked": (
        lambda folder: told(folder, lambda document: document.update(policy=str(document["policy"]).replace("k = 3", "k = 2"))),
        "o.csv", "policy hash recorded",
    ),
    "blanks": (lambda folder: (folder / "o.csv.json").write_text((folder / "o.csv.json").read_text() + " "), "o.csv", "is not as duckanon writes it"),
    "a measure": (
        lambda folder: told(folder, lambda document: document["audit"]["measures"][0].update(value=9.0)),  # type: ignore[index]
        "o.csv", "recorded -> found: k_anonymity: value 9 -> 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_what_was_changed_is_a_difference(made: Path, tmp_path: Path, name: str) -> None:
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    forge, file, words = FORGED[name]
    forge(tmp_path)
    outcome = verify_file(tmp_path / file)
    assert not outcome.verified
    assert any(words in difference for difference in outcome.releases[0].differences), outcome.to_text()


def test_without_evidence_it_says_where_it_looked(tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS a) TO '{tmp_path / 'o.parquet'}'")
    duckdb.sql(f"COPY (SELECT 1 AS a) TO '{tmp_path / 'o.csv'}'")
    with pytest.raises(ReleaseError, match=r"the footer of .* has no evidence"):
        verify_file(tmp_path / "o.parquet")
    with pytest.raises(
        ReleaseError, match=r"o\.csv\.json' is missing, the evidence of .*give --evidence FILE"
    ):
        verify_file(tmp_path / "o.csv")
    (tmp_path / "o.csv.json").write_text("{}")
    with pytest.raises(
        ReleaseError, match=r"o\.csv\.json' is no evidence of a release: the file lacks 'policy'"
    ):
        verify_file(tmp_path / "o.csv")


@pytest.mark.slow
def test_evidence_that_cannot_be_written_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("mine")
    for create, name, error, words in (
        (CREATE, "mine.json", ReleaseError, "exists: choose another name"),
        (CREATE, "mine.txt", ReleaseError, r"ends in \.json"),
        (CREATE, "nowhere/e.json", ReleaseError, "does not exist"),
        (CREATE, "", PolicyError, "give the name of a file"),
        (
            CREATE.replace("k = 3", "k = 3, l = 2, release = 'anatomy'"),
            "e.json",
            ReleaseError,
            "is two files",
        ),
    ):
        path = str(tmp_path / name) if name else ""
        with patients() as con:
            con.execute(create)
            with pytest.raises(error, match=words):
                con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'o.csv'}' WITH (evidence = '{path}')")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("mine.json", "mine")]


def test_a_hierarchy_is_not_in_the_file(tmp_path: Path) -> None:
    with patients() as con:
        con.execute("CREATE TABLE tree AS SELECT DISTINCT diagnosis, '*' AS root FROM patients")
        tree = "k = 3, t = 0.9, distance = {diagnosis: 'hierarchical'}, hierarchies = {diagnosis: 'tree'}"
        con.execute(CREATE.replace("k = 3", tree))
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'o.parquet'}'")
    (release,) = verify_file(tmp_path / "o.parquet").releases
    assert "the hierarchy of 'diagnosis' is not in the file" in release.differences[0]
