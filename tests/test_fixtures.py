"""The bundled data are what fixtures/README.md says, and can be made again from their source."""

from __future__ import annotations

import csv
import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.reference import REPOSITORY, reference_file

if TYPE_CHECKING:
    from pathlib import Path

FIXTURES = REPOSITORY / "fixtures"
CENSUS = FIXTURES / "census_income.parquet"


def documented() -> dict[str, list[str]]:
    """Return the cells of the table in fixtures/README.md by file name."""
    lines = (FIXTURES / "README.md").read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in lines
        if line[:3] == "| `"
    ]
    return {row[0]: row for row in cells}


def shape(path: Path) -> tuple[int, int]:
    """Return rows and columns of a Parquet or CSV file."""
    if path.suffix == ".parquet":
        metadata = pq.read_metadata(path)
        return metadata.num_rows, metadata.num_columns
    with path.open(newline="", encoding="utf-8") as text:
        header, *rows = csv.reader(text)
    assert all(len(row) == len(header) for row in rows)
    return len(rows), len(header)


def test_the_readme_lists_every_data_file() -> None:
    files = {path.name for path in FIXTURES.iterdir() if path.is_file()} - {"README.md", "make.py"}
    assert set(documented()) == files


@pytest.mark.parametrize("name", sorted(documented()))
def test_a_file_is_as_documented(name: str) -> None:
    _, rows, columns, _, digest, tests, *_ = documented()[name]
    assert shape(FIXTURES / name) == (int(rows.replace(",", "")), int(columns))
    assert hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest() == digest
    for test in tests.split(", "):
        assert name.rsplit("_", 1)[0] in (REPOSITORY / test.strip("`")).read_text(encoding="utf-8"), test


def test_the_census_binds_t_closeness() -> None:
    # The shares are those of the survey: 48 % did not work, 35 % worked all year, no value is missing.
    table = pq.read_table(CENSUS)
    assert [table[name].null_count for name in table.column_names] == [0] * table.num_columns
    weeks = table["weeks_worked"]
    shares = {value: pc.sum(pc.equal(weeks, value)).as_py() / table.num_rows for value in (0, 52)}
    assert shares == {0: pytest.approx(0.48, abs=0.005), 52: pytest.approx(0.35, abs=0.005)}
    values = [len(table[name].unique()) for name in ("sex", "race", "household_role", "occupation")]
    assert values == [2, 5, 8, 15]
    assert CENSUS.stat().st_size < 2_500_000


@pytest.mark.slow
def test_the_census_is_made_from_its_source(tmp_path: Path) -> None:
    made = tmp_path / "made.parquet"
    source = reference_file("census_income.parquet")
    command = [sys.executable, str(FIXTURES / "make.py"), "--source", str(source), "--target", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert pq.read_table(made).equals(pq.read_table(CENSUS))
    same_writer = pq.read_metadata(made).created_by == pq.read_metadata(CENSUS).created_by
    # Another release of pyarrow may compress the same table to other bytes.
    assert made.read_bytes() == CENSUS.read_bytes() or not same_writer


def test_generalized_tables_of_li_2007_keep_the_records_of_their_originals() -> None:
    tables = {}
    for number in (1, 2, 3, 4, 5):
        with (FIXTURES / f"li_2007_table_{number}.csv").open(newline="", encoding="utf-8") as text:
            tables[number] = {row["record"]: row for row in csv.DictReader(text)}
    for original, generalized in ((1, 2), (3, 4), (3, 5)):
        for record, row in tables[generalized].items():
            source = tables[original][record]
            assert {name: row[name] for name in row if name in {"salary", "disease"}} == {
                name: source[name] for name in row if name in {"salary", "disease"}
            }
            prefix = row["zip_code"].rstrip("*")
            assert source["zip_code"].startswith(prefix)
