"""duckanon verify --format html: the result of a verification as a page."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from duckanon.cli.verify import verify
from duckanon.errors import DuckanonError
from tests.e2e import pages
from tests.e2e.evidence_scene import altered, copied, verified
from tests.e2e.html_scene import assert_self_contained
from tests.e2e.scenes import EFFORT, patients

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from pathlib import Path

VIEW, COLUMN, VALUE = "v <b>", "<i>zip", "</code><script>"

CREATE = f"""
CREATE ANONYMIZED VIEW "{VIEW}" AS
SELECT age, zip AS "{COLUMN}", '{VALUE}' || i.charge % 3 AS charge FROM patients AS i
WITH (quasi_identifiers = (age, "{COLUMN}"), sensitive = charge, k = 3, {EFFORT})
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with exported files whose names and values look like markup."""
    folder = tmp_path_factory.mktemp("exported")
    with patients() as con:
        con.sql(CREATE)
        for name in ("file.duckdb", "<b>.parquet"):
            con.sql(f"""EXPORT ANONYMIZED VIEW "{VIEW}" TO '{folder / name}'""")
    return folder


@pytest.fixture
def file(exported: Path, tmp_path: Path) -> Path:
    return copied(exported / "file.duckdb", tmp_path)


def page(file: Path) -> tuple[int, ET.Element, str]:
    """Exit code of the command, tree of its page, and the words of the page."""
    code = verify(file, form="html", output=file.with_name("page.html"))
    text = file.with_name("page.html").read_text(encoding="utf-8")
    root = pages.tree(text)
    assert_self_contained(text, root)
    return code, root, pages.text(root)


@pytest.mark.slow
def test_page_of_a_verified_file_needs_no_matplotlib(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"] or ["matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    code, root, words = page(file)
    _, found = verified(file, capsys)
    release = found["releases"][0]
    assert code == 0
    assert "✓ Verified 1 release, 2 recorded audits; all agree with the released rows" in words
    assert "k-anonymity 3 asked for: k at least 3 ✓ passed" in words, "sixty patients, k = 3"
    assert release["fingerprint"] in words
    assert release["policy_hash"] in words
    assert [pages.text(link) for link in root.iter("li") if link.find("code[@class='long']") is not None] == [
        release["links"][0],
        f"{release['links'][1]} head",
    ]
    assert "What was not checked" in words
    assert "Differences" not in words


def test_names_of_the_file_are_text_and_no_markup(file: Path) -> None:
    _, root, words = page(file)
    assert f"release 1 (main.{VIEW})" in words
    assert COLUMN in pages.text(pages.one(root, "pre")), "the policy names the column"
    assert {element.tag for element in root.iter()}.isdisjoint({"script", "b", "i"})


def test_page_of_a_changed_file_tells_record_and_rows(file: Path) -> None:
    altered(file, "UPDATE duckanon.audits SET value = 9 WHERE measure = 'k_anonymity'")
    altered(
        file, f"""UPDATE "{VIEW}" SET charge = '<u>x' WHERE rowid = 0; CREATE TABLE "<u>more" (a INTEGER)"""
    )
    code, root, words = page(file)
    differences = pages.text(pages.one(root, "section", id="differences"))
    assert code == 1
    assert "✗ Not verified 1 release, 2 recorded audits" in words
    assert "recorded -> found: k_anonymity: value 9 -> 3" in differences
    assert "fingerprint recorded v2:" in differences
    assert "<u>more" in differences, "what belongs to no release"
    assert not list(root.iter("u"))


@pytest.mark.slow
def test_page_of_rows_that_break_the_policy(file: Path) -> None:
    altered(file, f"""UPDATE "{VIEW}" SET "{COLUMN}" = '<u>z' WHERE rowid = 0""")
    code, root, words = page(file)
    assert code == 1
    assert "1 release in violation" in words
    assert "✗ violated" in words
    assert "<u>z" in pages.text(pages.one(root, "div", aria_label="Violating classes"))


@pytest.mark.slow
def test_page_of_rows_that_cannot_be_audited(file: Path) -> None:
    altered(file, f'DELETE FROM "{VIEW}"')
    code, _, words = page(file)
    assert code == 1
    assert "The release could not be audited, so there are no figures." in words


def test_page_of_a_parquet_file(exported: Path) -> None:
    file = exported / "<b>.parquet"
    code, root, words = page(file)
    assert code == 0
    assert pages.text(pages.one(root, "h1")) == f"Verification of {file}"
    assert "information loss, suppressed records and versions are what the evidence says" in words


@pytest.mark.parametrize("name", ["file.duckdb", "file.duckdb.wal", "file.csv", "file.csv.json"])
def test_page_replaces_no_file_that_is_read(file: Path, name: str) -> None:
    read, output = file.with_suffix(".csv" if ".csv" in name else ".duckdb"), file.with_name(name)
    output.touch()
    before = output.read_bytes()
    with pytest.raises(DuckanonError, match="is read by this command: give another file"):
        verify(read, form="html", output=output)
    assert output.read_bytes() == before


def test_page_is_no_file_of_the_folder_that_is_verified(tmp_path: Path) -> None:
    (tmp_path / "released").mkdir()
    with pytest.raises(DuckanonError, match=r"would be a file of .*: give another place"):
        verify(tmp_path / "released", form="html", output=tmp_path / "released" / "page.html")
    assert not list((tmp_path / "released").iterdir())
