"""CSV files are audited as they stand: no two texts of a quasi-identifier become one value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import duckanon
from duckanon.api import files
from duckanon.database import csv_files, csv_form
from duckanon.testing import assert_private
from tests.e2e.file_scene import k_of, run, write
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

# Texts that an outsider tells apart, and that have one value for a reader of CSV that types them.
APART = {
    "digits": [f"0.1234567890123456789{i}" for i in range(10)],
    "decimals": ["1", "1.0", "1.00"],
    "exponent": ["1e2", "100.0", "1E2"],
    "signs": ["1", "+1"],
    "zero": ["0.0", "-0.0"],
    "booleans": ["true", "TRUE", "True"],
    "dates": ["2020-1-1", "2020-01-01"],
    "times": ["2020-01-01 00:00:00.1234567", "2020-01-01 00:00:00.1234568"],
    "zones": ["2020-01-01 00:00:00+00", "2020-01-01 01:00:00+01"],
    "ids": ["12345678901234567890", "12345678901234567891"],
    "long ids": ["9" * 40 + "0", "9" * 40 + "1"],
    "codes": ["7", "07", "007"],
    "long codes": ["12345678901234567890", "012345678901234567890"],
    "blanks": ["5", " 5"],
    "comment": ["1", "#2"],
}


@pytest.mark.parametrize("name", slowly(APART, one_of=3))
def test_an_audit_keeps_the_texts_of_a_file_apart(tmp_path: Path, name: str) -> None:
    """By hand: each text stands twice, so k = 2; without the last record the last text is alone."""
    rows = [f"{text},{i}\n" for i, text in enumerate(APART[name] * 2)]
    for number, k in ((len(rows), 2), (len(rows) - 1, 1)):
        write(tmp_path / "r.csv", "x,p\n" + "".join(rows[:number]))
        found = run(tmp_path, "audit", "r.csv", "--qi", "x", "-k", "2", "--format", "json")
        assert (k_of(found), found[0]) == (k, 2 - k)
    with pytest.raises(AssertionError):
        assert_private(tmp_path / "r.csv", quasi_identifiers="X", k=2)


def test_values_that_come_after_the_sample_are_read_as_they_stand(tmp_path: Path) -> None:
    """DuckDB looks at 20,480 rows to learn what a CSV looks like; quotes and letters come later here."""
    rows = ["1,a"] * 30_000 + ['1.0,"a"', 'A,"a,b"', "#3,a"]
    write(tmp_path / "late.csv", "x,s\n" + "\n".join(rows) + "\n")
    found = run(tmp_path, "audit", "late.csv", "--qi", "x", "--format", "json")
    assert (k_of(found), json.loads(found[1])["measures"][0]["classes"]) == (1, 4)
    with duckdb.connect() as con:
        relation = files.relation(con, str(tmp_path / "late.csv"), apart=["x"])
        assert con.execute(f"SELECT DISTINCT s FROM {relation} ORDER BY s").fetchall() == [("a",), ("a,b",)]


# By hand: k = 1, for x = 2 stands once.
WRITTEN = {
    "comments before the header": "# by me\n# in 2020\nx,s\n1,a\n1,a\n2,a\n",
    "comments that are no records": "#\nx,s\n1,a\n# a note\n1,a\n2,a\n# the end\n",
    "semicolons": "x;s\n1;a,b\n1;a\n2;a\n",
    "tabs": "x\ts\n1\ta\n1\ta b\n2\ta\n",
    "Windows": '\ufeffx,s\r\n1,"a\r\nb"\r\n1,a\r\n2,a\r\n',
    "no quotes at all": 'x,s\n1,"a\n1,5 "b\n2,a\n',
    "single quotes": "x,s\n1,'a,b'\n1,'a'\n2,'c'\n",
    "a title": "Patients of 2020\nx,s\n1,a\n1,a\n2,a\n",
    "blanks": " x , s\n1,a\n1,a\n2,a\n",
}


@pytest.mark.parametrize("name", WRITTEN)
def test_however_a_csv_is_written_all_its_records_are_audited(tmp_path: Path, name: str) -> None:
    (tmp_path / "r.csv").write_bytes(WRITTEN[name].encode())
    found = run(tmp_path, "audit", "r.csv", "--qi", "x", "--sensitive", "s", "-k", "2", "--format", "json")
    assert k_of(found) == 1
    (size,) = [m["value"] for m in json.loads(found[1])["measures"] if m["measure"] == "average_class_size"]
    assert size == 3 / 2


def test_a_line_that_is_a_comment_or_a_record_is_an_error(tmp_path: Path) -> None:
    """DuckDB would leave out the third line, and k would be 2."""
    write(tmp_path / "r.csv", "x,s\n1,a\n#2,b\n1,a\n# a note\n")
    code, _, err = run(tmp_path, "audit", "r.csv", "--qi", "x", "-k", "2")
    assert code == 2
    assert "remove the comments" in err


def test_null_and_the_empty_text_are_one_in_a_csv(tmp_path: Path) -> None:
    write(tmp_path / "r.csv", 'x,p\n,1\n"",2\n1,3\n1.0,4\n1,5\n1.0,6\n')
    found = run(tmp_path, "audit", "r.csv", "--qi", "x", "--format", "json")
    assert k_of(found) == 2
    assert json.loads(found[1])["measures"][0]["classes"] == 3


def types(path: Path, **options: Any) -> dict[str, str]:
    """Types that the columns of a file have."""
    with duckdb.connect() as con:
        relation = files.relation(con, str(path), **options)
        return {row[0]: row[1] for row in con.execute(f"DESCRIBE FROM {relation}").fetchall()}


def test_numbers_stay_numbers_and_no_digit_is_lost(tmp_path: Path) -> None:
    """By hand. DOUBLE holds 15 digits of any number; DECIMAL holds 38, and so does HUGEINT."""
    columns = {
        "n": (["1", "1.0", "2.50"], "DOUBLE"),
        "i": (["1", "2", "3"], "BIGINT"),
        # As many programs print DOUBLE: 17 digits, no two numbers alike.
        "d": (["0.30000000000000004", "0.3", "0.1"], "DOUBLE"),
        "m": (["0.12345678901234567890", "0.12345678901234567899", "-3.5"], "DECIMAL(21,20)"),
        "b": (["9007199254740993.5", "9007199254740993.25", "1"], "DECIMAL(18,2)"),
        "h": (["12345678901234567890", "12345678901234567891", "1"], "HUGEINT"),
        "z": (["012345678901234567890", "12345678901234567891", "1"], "VARCHAR"),
        "g": (["9" * 40, "1" * 40, "5"], "VARCHAR"),
        "t": (["2020-01-01", "2020-1-1", "2021-12-31"], "DATE"),
        "f": (["true", "TRUE", "false"], "BOOLEAN"),
    }
    lines = zip(*(texts for texts, _ in columns.values()), strict=True)
    path = write(
        tmp_path / "r.csv", "\n".join([",".join(columns), *(",".join(line) for line in lines)]) + "\n"
    )
    assert types(path) == {name: kind for name, (_, kind) in columns.items()}
    apart = types(path, apart=columns)
    assert {name for name, kind in apart.items() if kind != columns[name][1]} == {"n", "t", "f"}


def test_numbers_that_no_type_holds_are_text_with_a_warning(tmp_path: Path) -> None:
    texts = ["1.23456789012345678901e-50", "1.23456789012345678902e-50"]
    path = write(tmp_path / "r.csv", "x,s\n" + "".join(f"{i % 2},{texts[i % 2]}\n" for i in range(4)))
    with pytest.warns(duckanon.DuckanonWarning, match="'s'.*read as text"):
        assert types(path) == {"x": "BIGINT", "s": "VARCHAR"}
    code, _, err = run(tmp_path, "audit", "r.csv", "--qi", "x", "--sensitive", "s", "-k", "2", "-t", "0.4")
    assert code == 1, "by hand: two classes with a value each are at 1/2"
    assert err.startswith("warning: ")


def test_what_export_writes_is_judged_as_the_release_was(tmp_path: Path) -> None:
    """Released texts that look like numbers, codes, comments and dates, and a mean with decimals."""
    with duckanon.connect() as con:
        con.execute("""CREATE TABLE t AS SELECT CAST(i AS DECIMAL(9, 3)) / 7 AS n,
            ['1', '1.0', '#1', '01', ' 1', NULL, '1e0', '+1', 'a;b', 'say "x"'][1 + i % 10] AS code,
            DATE '2020-01-01' + CAST(i AS INTEGER) AS day, i % 11 AS pay FROM range(400) AS r(i)""")
        con.execute("""CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = (n, code, day),
            sensitive = (pay), k = 3, t = 0.4)""")
        con.execute(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'v.csv'}' WITH (csv_formulas = 'keep')")
        released = con.execute("AUDIT VIEW v").fetchall()
    options = ["--qi", "n,code,day", "--sensitive", "pay", "-k", "3", "-t", "0.4", "--format", "json"]
    found = run(tmp_path, "audit", "v.csv", *options)
    assert found[0] == 0, found[2]
    again = {
        (m["measure"], m["attribute"]): (m["value"], m["classes"]) for m in json.loads(found[1])["measures"]
    }
    for measure, attribute, _, value, classes, *_ in released:
        assert again[measure, attribute] == (pytest.approx(value), classes)


@pytest.mark.parametrize("header", ["x,x", "x,X", "x,X ", '"x",x'])
def test_a_csv_with_a_column_twice_is_an_error(tmp_path: Path, header: str) -> None:
    write(tmp_path / "r.csv", f"{header}\n1,1\n1,2\n")
    code, _, err = run(tmp_path, "audit", "r.csv", "--qi", "x", "-k", "2")
    assert code == 2
    assert "twice" in err
    with pytest.raises(duckanon.SourceError, match="twice"):
        assert_private(tmp_path / "r.csv", quasi_identifiers="x", k=2)


def test_single_quotes_are_a_part_of_the_value(tmp_path: Path) -> None:
    """Whoever opens the file in pandas, R or a spreadsheet tells 'x' from x: four classes of three, not two of six."""
    rows = "".join(f"{age},{name}\n" for age in (1, 2) for name in ("x", "'x'") for _ in range(3))
    write(tmp_path / "p.csv", f"age,name\n{rows}")
    code, out, err = run(tmp_path, "audit", "p.csv", "--qi", "age,name", "-k", "2", "--format", "json")
    assert (code, json.loads(out)["measures"][0]["value"]) == (0, 3)
    assert "single quotes around a text are read as a part of it" in err
    write(tmp_path / "q.csv", "age,name\n" + "1,'x'\n" * 4)
    assert (
        run(tmp_path, "anonymize", "q.csv", "o.csv", "--qi", "age", "--insensitive", "name", "-k", "2")[0]
        == 0
    )
    assert (tmp_path / "o.csv").read_text() == "age,name\n" + "1,'x'\n" * 4
    # Where a comma stands between them there is no other way to read the file.
    write(tmp_path / "r.csv", "age,name\n" + "1,'Doe, J'\n" * 4)
    code, out, err = run(tmp_path, "audit", "r.csv", "--qi", "name", "--format", "json")
    assert (code, err) == (0, "")


UNQUOTED = {
    "commas": "a,b\n1,2.50\n3,x\n",
    "semicolons": "a;b;c\n1,5;02/03/2020;NA\n;03/04/2020;x\n",
    "tabs": "a\tb\n2020-01-02 10:11\tyes\n2020-01-03 10:11\tno\n",
    "comments": "a,b\n# none\n1,2\n",
    "a title": "a table\n\na|b\n1|2\n3|4\n",
    "one column": "a\n1\n2\n",
    "no rows": "a,b\n",
}


@pytest.mark.parametrize("name", UNQUOTED)
def test_a_file_without_quotes_is_read_as_where_all_quotes_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = write(tmp_path / "p.csv", UNQUOTED[name])
    found = []
    for quotes in (False, True):
        monkeypatch.setattr(csv_form, "_has_quotes", lambda _, quotes=quotes: quotes)
        with duckdb.connect() as con:
            found.append(csv_form.sniffed(con, file, csv_form.AS_FOUND))
    assert found[0] == found[1]


def test_columns_that_come_back_as_they_stand_are_found_among_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand; columns of one type are asked about in twos, and one that does not come back spoils its group alone."""
    header = "whole,padded,other,half,money,day,days,yes,lasts,none"
    rows = ["1,07,5,0.5,1.50,2020-01-02,2020-1-2,yes,true,", "2,8,,2.5,2.25,2021-03-04,2020-01-03,no,false,"]
    file = write(tmp_path / "p.csv", "\n".join([header, *rows, "3,9,6,3.5,1.25,,2020-01-04,no,True,"]) + "\n")
    monkeypatch.setattr(csv_files, "_COLUMNS_PER_STATEMENT", 2)
    with duckdb.connect() as con:
        _, exact = csv_files._exact(con, csv_form.sniffed(con, file, csv_form.AS_FOUND))
    assert exact - {"none"} == {"whole", "other", "half", "day"}
