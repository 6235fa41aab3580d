"""What `anonymize` does not recode leaves as it was written, and dates with two readings are refused."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import duckdb
import pytest

import duckanon
from tests.e2e.file_scene import run, write
from tests.examples import slowly

if TYPE_CHECKING:
    from pathlib import Path

FORMS = {
    "whole": ["1", "20", "-3"],
    "double": ["1.5", "2.25", "0.1"],
    "pandas": ["1.0", "1e-05", "3.0"],
    "money": ["1.50", "20.00", "-0.50"],
    "mixed": ["1", "1.5", "2.250"],
    "plus": ["+5", "6", "-7"],
    "exponent": ["1e5", "2E3", "10"],
    "large": ["1e16", "2.5", "1e300"],
    "point": [".5", "5.", "7"],
    "minus zero": ["-0.0", "1.25", "2"],
    "code": ["007", "012", "100"],
    "signed code": ["-007", "12", "100"],
    "hex": ["0x1F", "0x20", "0x0A"],
    "binary": ["0b11", "0b101", "0b0"],
    "underscore": ["1_000", "2_000", "3"],
    "thousands": ["1,000", "2,000", "3"],
    "comma": ["1,5", "2,5", "3"],
    "yes": ["yes", "no", "yes"],
    "NO": ["NO", "YES", "NO"],
    "F": ["F", "T", "F"],
    "t": ["t", "f", "t"],
    "capitals": ["TRUE", "FALSE", "TRUE"],
    "boolean": ["true", "false", "true"],
    "zero": ["0", "1", "0"],
    "ISO": ["2020-01-02", "2021-12-31", "1999-05-06"],
    "short ISO": ["2020-1-2", "2021-12-31", "1999-5-06"],
    "slashes": ["2020/01/02", "2021/12/31", "1999/05/06"],
    "day first": ["31/12/2020", "05/06/2021", "07/08/1999"],
    "instant": ["2020-01-02T10:00:00Z", "2020-01-02T12:30:00+02:00", "2021-06-01T00:00:00Z"],
    "moment": ["2020-01-02T10:00:00", "2020-01-02 10:30:00.500", "2021-06-01 00:00"],
    "fine": ["2020-01-02 10:00:00.1234567", "2020-01-02 10:00:00.1234568", "2020-01-02 10:00:00"],
    "time": ["8:05:00", "09:05:00", "23:59:59.5"],
    "blanks": [" 5", "6 ", "7"],
    "quoted": ['say "x"', "a,b", "two\nlines"],
    "empty": ["", "3.50", "4.50"],
    "mark": ["NA", "3.5", "4"],
    "nan": ["nan", "1.5", "inf"],
    "digits": ["0.12345678901234567890", "0.12345678901234567899", "-3.5"],
    "ids": ["12345678901234567890", "12345678901234567891", "7"],
    "long": ["9" * 40, "1" * 40, "5"],
    "uuid": ["8b1a9953-4611-296f-a82c-95e1e8f1d0d0", "8B1A9953-4611-296F-A82C-95E1E8F1D0D1", "x"],
    "json": ['{"a":1}', '{"a": 2}', "[1 ,2]"],
}
ROWS = 12
NAMES = list(FORMS)


def records() -> list[dict[str, str]]:
    """Give all records: a number, a quasi-identifier, and a text of each form."""
    return [
        {"row": str(i), "age": str(i // 2), **{name: FORMS[name][i % 3] for name in NAMES}}
        for i in range(ROWS)
    ]


def source(folder: Path) -> None:
    """Write the records."""
    with (folder / "p.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["row", "age", *NAMES], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records())


def by_row(path: Path) -> dict[str, dict[str, str]]:
    """Give the records of a CSV by their number."""
    with path.open(newline="", encoding="utf-8") as file:
        return {row["row"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("release", slowly(["table", "swap"]))
@pytest.mark.parametrize("role", slowly(["insensitive", "sensitive"]))
def test_a_csv_leaves_as_it_was_written(tmp_path: Path, role: str, release: str) -> None:
    """Of 42 forms in one file, field for field."""
    source(tmp_path)
    roles = {
        "insensitive": ["--insensitive", "*"],
        "sensitive": ["--insensitive", "row", "--sensitive", ",".join(f'"{name}"' for name in NAMES)],
    }[role]
    options = ["--qi", "age", "-k", "3", "--release", release, *roles]
    code, _, err = run(tmp_path, "anonymize", "p.csv", "o.csv", *options)
    assert code == 0, err
    found = by_row(tmp_path / "o.csv")
    for record in records():
        assert {name: found[record["row"]][name] for name in NAMES} == {name: record[name] for name in NAMES}


LATER = {
    "parts": ("0", ["0.1", "0.4", "0.6", "0.9"]),
    "time": ("2020-01-01", ["2020-01-01 08:00:00", "2020-01-01 12:00:00", "2020-01-02 16:00", "2020-01-03"]),
    "large": ("7", ["9223372036854775808", "9223372036854775809", "9223372036854775807", "-8"]),
    "day": ("08:00", ["2020-01-01 08:00:00", "2020-01-02 08:00:00", "09:00", "10:00"]),
}
"""Of a column: what its first 20,480 rows have, of which DuckDB learns the type, and what the last ones have."""


def later(folder: Path) -> None:
    """Write 20,500 records in one class, and then 4 with other values in another."""
    rows = [[str(number), "1", *(first for first, _ in LATER.values())] for number in range(20_500)]
    rows += [[f"l{number}", "2", *(values[number] for _, values in LATER.values())] for number in range(4)]
    lines = [",".join(row) for row in [["row", "age", *LATER], *rows]]
    write(folder / "p.csv", "\n".join(lines) + "\n")


def test_a_sensitive_column_keeps_what_only_later_rows_have(tmp_path: Path) -> None:
    """0.1 and 0.4 left as 0, 0.9 as 0.6, and a timestamp as its day."""
    later(tmp_path)
    command = ["--qi", "age", "--sensitive", ",".join(LATER), "--insensitive", "row", "-k", "4"]
    code, _, err = run(tmp_path, "anonymize", "p.csv", "o.csv", *command)
    assert code == 0, err
    found = by_row(tmp_path / "o.csv")
    for name, (first, values) in LATER.items():
        assert [found[f"l{number}"][name] for number in range(4)] == values
        assert found["0"][name] == first


def test_means_are_of_what_only_later_rows_have(tmp_path: Path) -> None:
    """By hand: (0.1 + 0.4 + 0.6 + 0.9) / 4 = 0.5, and of whole numbers 0, 0, 1, 1 it would be 1."""
    later(tmp_path)
    command = ["--qi", "age,parts", "--identifiers", "time,large,day", "--insensitive", "row", "-k", "4"]
    code, _, err = run(tmp_path, "anonymize", "p.csv", "o.csv", *command, "--effort", "fast")
    assert code == 0, err
    assert [by_row(tmp_path / "o.csv")[f"l{number}"]["parts"] for number in range(4)] == ["0.5"] * 4


def test_an_audit_in_sql_sees_what_only_later_rows_have(tmp_path: Path) -> None:
    """The last four records are alone with 0.1, 0.4, 0.6 and 0.9; DuckDB reads 0, 0, 1, 1, which is k = 2."""
    later(tmp_path)
    file = str(tmp_path / "p.csv")
    with duckanon.connect() as con:
        audited = con.sql(f"AUDIT TABLE '{file}' WITH (quasi_identifiers = (age, parts), k = 2)").fetchall()
        assert audited[0][:4] == ("k_anonymity", None, 2.0, 1.0)
        policy = duckanon.AuditPolicy(quasi_identifiers=["age", "parts"], k=2)
        assert not duckanon.audit(con, f"'{file}'", policy).passed
        # A table of that name is what DuckDB means by it.
        con.execute(f'CREATE TABLE "{file}" AS SELECT 1 AS age, 0 AS parts FROM range(4)')
        assert duckanon.audit(con, f"'{file}'", policy).passed


@pytest.mark.slow
def test_swapped_quasi_identifiers_are_the_texts_of_the_source(tmp_path: Path) -> None:
    source(tmp_path)
    for name in ("mixed", "exponent", "yes", "day first", "moment", "blanks", "digits"):
        command = ["--qi", f'"{name}"', "-k", "3", "--release", "swap", "--identifiers"]
        others = ",".join(f'"{other}"' for other in ["row", "age", *NAMES] if other != name)
        code, _, err = run(tmp_path, "anonymize", "p.csv", "o.csv", *command, others)
        assert code == 0, err
        with (tmp_path / "o.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert sorted(row[name] for row in rows) == sorted(FORMS[name] * (ROWS // 3)), name
        (tmp_path / "o.csv").unlink()


@pytest.mark.parametrize("target", slowly(["o.parquet", "o.duckdb"]))
def test_a_type_is_kept_where_it_has_the_texts(tmp_path: Path, target: str) -> None:
    """Each value is a text, or of a type that DuckDB writes as it stood; NULL and '' are one in a CSV."""
    source(tmp_path)
    out = "o.duckdb:t" if target.endswith("duckdb") else target
    code, _, err = run(
        tmp_path,
        "anonymize",
        "p.csv",
        out,
        "--qi",
        "age",
        "-k",
        "3",
        "--insensitive",
        "*",
        "--identifiers",
        "ids",
    )  # Parquet has no HUGEINT
    assert code == 0, err
    with duckdb.connect() as con:
        relation = "read_parquet('o.parquet')".replace("o.parquet", str(tmp_path / "o.parquet"))
        if target.endswith("duckdb"):
            con.execute(f"ATTACH '{tmp_path / 'o.duckdb'}' AS o (READ_ONLY)")
            relation = "o.t"
        rows = con.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {relation}").fetchall()
        types = {row[0]: row[1] for row in con.execute(f"DESCRIBE FROM {relation}").fetchall()}
    found = {row[0]: dict(zip(types, row, strict=True)) for row in rows}
    for record in records():
        for name in set(types) - {"age"}:
            assert (found[record["row"]][name] or "") == record[name]
    assert {name: types[name] for name in ("whole", "double", "money", "boolean", "ISO", "mixed", "yes")} == {
        "whole": "BIGINT", "double": "DOUBLE", "money": "DECIMAL(4,2)", "boolean": "BOOLEAN", "ISO": "DATE",
        "mixed": "VARCHAR", "yes": "VARCHAR",
    }  # fmt: skip


# By hand: in their order as numbers the classes hold ranks 1, 2 and 3, 4; as texts 4, 1 and 2, 3.
ORDERED = {
    "mixed": ["9", "10.50", "100", "101.5"],
    "fixed": ["9.00", "10.50", "100.00", "101.50"],
    "exponent": ["9", "1e1", "1e2", "101"],
    "dates": ["28/02/1999", "31/01/2001", "05/12/2002", "01/01/2003"],
}


@pytest.mark.parametrize("name", slowly(ORDERED, one_of=2))
def test_numbers_and_dates_keep_their_order_and_their_texts(tmp_path: Path, name: str) -> None:
    write(
        tmp_path / "p.csv", "age,pay\n" + "".join(f"{i // 2},{one}\n" for i, one in enumerate(ORDERED[name]))
    )
    options = ["--qi", "age", "--sensitive", "pay", "-k", "2"]
    code, out, err = run(tmp_path, "anonymize", "p.csv", "o.csv", *options)
    assert code == 0, err
    closeness = next(line for line in out.splitlines() if line.startswith("t_closeness"))
    assert float(closeness.split()[2]) == pytest.approx(1 / 3, abs=1e-6)
    assert (tmp_path / "o.csv").read_text() == (tmp_path / "p.csv").read_text()
    code, out, _ = run(tmp_path, "audit", "o.csv", *options, "--format", "json")
    (found,) = [one["value"] for one in json.loads(out)["measures"] if one["measure"] == "t_closeness"]
    assert found == pytest.approx(1 / 3)


def test_one_value_in_two_ways_leaves_in_the_shorter_one(tmp_path: Path) -> None:
    write(tmp_path / "p.csv", "age,pay\n1,1\n1,1.0\n2,2.5\n2,3\n")
    code, _, err = run(
        tmp_path, "anonymize", "p.csv", "o.csv", "--qi", "age", "--sensitive", "pay", "-k", "2"
    )
    assert code == 0
    assert "column 'pay' has one value in two ways, as '1' and '1.0': each leaves as its shortest text" in err
    assert (tmp_path / "o.csv").read_text() == "age,pay\n1,1\n1,1\n2,2.5\n2,3\n"


AMBIGUOUS = {
    "day or month": (["05/06/2020", "07/08/2021"], ["'%d/%m/%Y'", "'%m/%d/%Y'"]),
    "dots": (["05.06.2020", "07.08.2021"], ["'%d.%m.%Y'", "'%m.%d.%Y'"]),
    "short": (["5/6/2020", "7/8/2021"], ["'%d/%m/%Y'", "'%m/%d/%Y'"]),
    "two digits": (["05-06-20", "07-08-21"], ["'%y-%m-%d'", "'%d-%m-%y'", "'%m-%d-%y'"]),
    "times": (["05.06.2020 10:00:00", "07.08.2021 10:00:00"], ["'%d.%m.%Y'", "'%m.%d.%Y'"]),
}


def ambiguous(folder: Path, name: str) -> list[str]:
    """Write four records of one date and four of another, in two classes; give the formats."""
    dates, formats = AMBIGUOUS[name]
    write(folder / "p.csv", "age,born\n" + "".join(f"{i // 4},{dates[i % 2]}\n" for i in range(8)))
    return formats


@pytest.mark.parametrize("name", slowly(AMBIGUOUS, one_of=3))
def test_dates_with_two_readings_are_refused(tmp_path: Path, name: str) -> None:
    formats = ambiguous(tmp_path, name)
    call = ["audit", "p.csv", "--qi", "age", "--sensitive", "born", "-k", "2"]
    code, out, err = run(tmp_path, *call)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "column 'born'" in err
    assert "--dateformat" in err
    assert all(one in err for one in formats)
    for one in formats:
        assert run(tmp_path, *call, "--dateformat", one.strip("'"))[0] == 0


@pytest.mark.parametrize(
    "call",
    slowly(
        [
            ["anonymize", "p.csv", "o.csv", "--qi", "age,born", "-k", "2"],
            ["anonymize", "p.csv", "o.csv", "--qi", "age", "--sensitive", "born", "-k", "2"],
            ["suggest", "p.csv"],
            ["linkage", "p.csv", "p.csv", "--qi", "born"],
            ["compare-releases", "p.csv", "p.csv", "--qi", "age", "--sensitive", "born", "-k", "2"],
        ]
    ),
)
def test_every_command_that_reads_a_csv_asks_for_the_order(tmp_path: Path, call: list[str]) -> None:
    ambiguous(tmp_path, "day or month")
    code, out, err = run(tmp_path, *call)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "--dateformat" in err
    assert run(tmp_path, *call, "--dateformat", "%m/%d/%Y")[0] == 0


@pytest.mark.parametrize(
    "call",
    slowly(
        [
            ["anonymize", "p.csv", "o.csv", "--qi", "age", "--insensitive", "born", "-k", "2"],
            ["audit", "p.csv", "--qi", "age", "-k", "2"],
            ["audit", "p.csv", "--qi", "age,born", "-k", "2"],
        ]
    ),
)
def test_where_no_order_counts_dates_are_texts(tmp_path: Path, call: list[str]) -> None:
    ambiguous(tmp_path, "day or month")
    assert run(tmp_path, *call)[0] == 0


def test_the_stated_order_is_the_one_that_is_read(tmp_path: Path) -> None:
    """By hand: the mean of 5 June and 7 June 2020 is the 6th; of 6 May and 6 July it is 5 or 6 June."""
    write(tmp_path / "p.csv", "born\n05/06/2020\n07/06/2020\n")
    for stated, mean in (("%d/%m/%Y", {"2020-06-06"}), ("%m/%d/%Y", {"2020-06-05", "2020-06-06"})):
        code, _, err = run(
            tmp_path, "anonymize", "p.csv", "o.csv", "--qi", "born", "-k", "2", "--dateformat", stated
        )
        assert code == 0, err
        assert set((tmp_path / "o.csv").read_text().split()[1:]) <= mean
        (tmp_path / "o.csv").unlink()
    write(tmp_path / "q.csv", "born\n25/06/2020\n07/06/2020\n")
    code, _, err = run(
        tmp_path, "anonymize", "q.csv", "o.csv", "--qi", "born", "-k", "2", "--dateformat", "%m/%d/%Y"
    )
    assert code == 2
    assert "not written as dateformat '%m/%d/%Y', but as '%d/%m/%Y'" in err
    assert run(tmp_path, "anonymize", "q.csv", "o.csv", "--qi", "born", "-k", "2")[0] == 0


@pytest.mark.parametrize("mark", slowly(["NA", ".", "#N/A", "NULL", "-", "None", "?"], one_of=4))
def test_a_mark_of_missing_values_is_named(tmp_path: Path, mark: str) -> None:
    write(tmp_path / "p.csv", f"age,pay,note\n30,1,{mark}\n{mark},2,x\n32,{mark},x\n34,4,y\n")
    call = [
        "anonymize",
        "p.csv",
        "o.csv",
        "--qi",
        "age",
        "--sensitive",
        "pay",
        "--insensitive",
        "note",
        "-k",
        "2",
    ]
    code, _, err = run(tmp_path, *call)
    assert code == 0
    for column in ("age", "pay"):
        assert f"column '{column}' is read as text, for '{mark}' is no number or date" in err
    assert f"say so by --null {mark}" in err
    assert "'note' is read as text" not in err
    (tmp_path / "o.csv").unlink()
    code, _, err = run(tmp_path, *call, f"--null={mark}")
    assert (code, "read as text" in err) == (0, False)
    with duckdb.connect() as con:
        read = con.execute(f"DESCRIBE FROM '{tmp_path / 'o.csv'}'").fetchall()
    assert [row[1] for row in read] == ["BIGINT", "BIGINT", "VARCHAR"]


def test_a_file_of_utf_16_is_named(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        (tmp_path / "p.csv").write_bytes("age,zip\n1,2\n1,2\n".encode(encoding))
        code, _, err = run(tmp_path, "audit", "p.csv", "--qi", "age")
        assert (code, len(err.splitlines())) == (2, 1)
        assert "is UTF-16, not UTF-8: convert it" in err


def test_a_stream_writes_what_it_does_not_recode_as_it_stood(tmp_path: Path) -> None:
    """Of two CSV files; fields alone, since a stream need not quote as its input does."""
    source(tmp_path)
    call = ["stream", "p.csv", "o.csv", "--qi", "age", "-k", "3", "--delay", "6", "--subject", "row"]
    code, _, err = run(tmp_path, *call, "--sensitive", "mixed,yes", "--class-id")
    assert code == 0, err
    with (tmp_path / "o.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    wanted = sorted(tuple(record[name] for name in NAMES) for record in records())
    assert sorted(tuple(row[name] for name in NAMES) for row in found) == wanted
