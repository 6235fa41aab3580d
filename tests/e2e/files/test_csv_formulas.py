"""Cells of a CSV that a spreadsheet takes for formulas are named, and escaped on request.

A spreadsheet evaluates a cell that begins with = + - @, a tab or a carriage return (OWASP, "CSV Injection"): a
text of the source can so run what its author likes on the machine of the reader. A quote in front makes it a text.
"""

from __future__ import annotations

import csv
import io
import warnings
from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.errors import DuckanonWarning, PolicyError, ReleaseError
from tests.e2e.file_scene import run, write

if TYPE_CHECKING:
    from pathlib import Path

# Text of the source, and by hand how it stands in an escaped file: what looks escaped already gets one more quote, so
# that no two texts become one.
CELLS = {
    "=1+1": "'=1+1", "'=1+1": "''=1+1", "''=1+1": "'''=1+1", "+49 30": "'+49 30", "-5": "'-5", "@SUM(A1)": "'@SUM(A1)",
    "\ttab": "'\ttab", "\rreturn": "'\rreturn", "'s-Hertogenbosch": "'s-Hertogenbosch", "'": "'", "plain": "plain",
    "a=b": "a=b", " =1": " =1", "": "",
}  # fmt: skip


def released(folder: Path, name: str, options: str = "") -> str:
    """Export a release of these texts; give the text of the file."""
    with duckanon.connect() as con:
        con.execute("CREATE TABLE texts (text VARCHAR)")
        con.duckdb.executemany("INSERT INTO texts VALUES (?)", [[text] for text in CELLS])
        con.execute(
            """CREATE TABLE p AS SELECT text, -1.5 AS number, -3 AS "-n", DATE '2020-01-01' AS day,
            INTERVAL '-1 day' AS span FROM texts, range(2)"""
        )
        with warnings.catch_warnings():
            # What CREATE says of the texts is not asked here.
            warnings.simplefilter("ignore")
            con.sql(
                """CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (text), k = 2, insensitive = *,
                effort = 'fast')"""
            )
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{folder / name}' {options}")
    return (folder / name).read_bytes().decode()


def test_an_escaped_file_has_no_formula_and_merges_no_texts(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = released(tmp_path, "r.csv", "WITH (csv_formulas = 'escape')")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["text", "number", "'-n", "day", "span"]
    assert sorted(row[0] for row in rows) == sorted(2 * list(CELLS.values()))
    # Numbers and dates are no texts, and the interval is one.
    assert {tuple(row[1:]) for row in rows} == {("-1.5", "-3", "2020-01-01", "'-1 day")}
    found = run(tmp_path, "audit", "r.csv", "--qi", "text", "-k", "2")
    assert found[0] == 0, "what was released in classes of two is in classes of two in the file"


def test_a_file_keeps_its_texts_and_its_owner_is_told(tmp_path: Path) -> None:
    with pytest.warns(DuckanonWarning) as told:
        text = released(tmp_path, "r.csv")
    (words,) = [str(one.message) for one in told]
    assert "takes texts of columns: 'text', '-n', 'span' for formulas" in words
    assert "csv_formulas = 'escape'" in words
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert released(tmp_path, "kept.csv", "WITH (csv_formulas = keep)") == text, (
            "what was asked for is no news"
        )
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["text", "number", "-n", "day", "span"]
    assert sorted(row[0] for row in rows) == sorted(2 * list(CELLS))


def test_numbers_and_harmless_texts_are_no_news(tmp_path: Path) -> None:
    with duckanon.connect() as con, warnings.catch_warnings():
        warnings.simplefilter("error")
        con.execute("CREATE TABLE p AS SELECT -(i // 2) AS a, 'it''s' AS b FROM range(8) AS r(i)")
        con.sql("CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (a), insensitive = *, k = 2)")
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'r.csv'}'")
    assert "-3,it's" in (tmp_path / "r.csv").read_text()


def test_an_escaped_sensitive_column_is_judged_by_its_tree(tmp_path: Path) -> None:
    """By hand: in each class both leaves below one root, as in the table, so EMD 0; the tree knows no quotes."""
    with duckanon.connect() as con:
        con.execute("CREATE TABLE tree AS SELECT * FROM (VALUES ('=a', 'r'), ('-b', 'r')) AS t(leaf, root)")
        con.execute(
            "CREATE TABLE p AS SELECT i // 4 AS x, ['=a', '-b'][i % 2 + 1] AS s FROM range(16) AS r(i)"
        )
        con.sql(
            "CREATE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (x), sensitive = (s), k = 2, t = 0.1, "
            "distance = {s: 'hierarchical'}, hierarchies = {s: 'tree'})"
        )
        report = con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'r.csv'}' WITH (csv_formulas = 'escape')")
        assert report is not None
        assert ("t_closeness", 0.0) in [(row[0], row[3]) for row in report.fetchall()]
    assert "'=a" in (tmp_path / "r.csv").read_text()


@pytest.mark.parametrize(
    ("target", "options", "error", "words"),
    [
        ("r.parquet", "csv_formulas = 'keep'", ReleaseError, "about .csv files"),
        ("r.csv", "csv_formulas = 'escpe'", PolicyError, "did you mean 'escape'"),
        (
            "r.csv",
            "formulas = 'escape'",
            PolicyError,
            "unknown option 'formulas', did you mean 'csv_formulas'",
        ),
        ("r.csv", "k = 3", PolicyError, "unknown option 'k'; Options: csv_formulas, overwrite, evidence"),
    ],
)
def test_options_of_export(tmp_path: Path, target: str, options: str, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        released(tmp_path, target, f"WITH ({options})")
    assert list(tmp_path.iterdir()) == []


def test_the_flag_of_anonymize(tmp_path: Path) -> None:
    write(tmp_path / "p.csv", "a,s\n1,=x\n1,=x\n")
    flags = ["--qi", "a", "--sensitive", "s", "-k", "2"]
    assert run(tmp_path, "anonymize", "p.csv", "e.csv", *flags, "--csv-formulas", "escape")[0] == 0
    assert (tmp_path / "e.csv").read_text() == "a,s\n1,'=x\n1,'=x\n"
    code, _, err = run(tmp_path, "anonymize", "p.csv", "k.csv", *flags)
    assert (code, err.count("warning: 'k.csv': a spreadsheet takes texts")) == (0, 1)
    code, _, err = run(tmp_path, "anonymize", "p.csv", "no.csv", *flags, "--csv-formulas", "kep")
    assert (code, len(err.splitlines())) == (2, 1)
    assert not (tmp_path / "no.csv").exists()
