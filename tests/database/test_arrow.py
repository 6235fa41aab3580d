"""Arrow columns as numpy arrays and back; expected values are pyarrow's own conversions."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.database import arrow

if TYPE_CHECKING:
    from pathlib import Path

INTEGERS = st.integers(-(2**63), 2**63 - 1)
CSV = "age,diagnosis\n31,a\n31,b\n64,a\n64,b\n"
RELEASE = """
import sys, duckanon
con = duckanon.connect()
con.execute("CREATE TABLE people AS SELECT i % 5 AS age, i / 3 AS height, i % 4 AS pay FROM range(40) AS r(i)")
policy = duckanon.Policy(quasi_identifiers=["age", "height"], sensitive=["pay"], k=3, t=0.3)
duckanon.anonymize(con, "people", policy, name="v")
print(con.sql("SELECT count(*) FROM v").fetchall(), "pandas" in sys.modules)
"""
AUDIT = """
import sys
sys.modules["scipy"] = None
from duckanon.cli import main as cli
try:
    cli.main(sys.argv[1:])
finally:
    print("pandas" in sys.modules, file=sys.stderr)
"""
"""Without scipy, which users need not have; numba imports scipy if it is there."""


@given(st.lists(st.floats()))
def test_floats_there_and_back(values: list[float]) -> None:
    """NaN, and nothing else, is NULL; infinities and -0.0 stay."""
    column = arrow.arrow(np.array(values, dtype=np.float64))
    assert column.to_pylist() == [None if value != value else value for value in values]
    column.validate(full=True)
    np.testing.assert_array_equal(arrow.numbers(column), np.array(values, dtype=np.float64))


@given(st.lists(INTEGERS))
def test_integers_there_and_back(values: list[int]) -> None:
    """All 64 bits count: 2^63 - 1 is no double."""
    column = arrow.arrow(np.array(values, dtype=np.int64))
    assert column.type == pa.int64()
    assert column.to_pylist() == values
    assert arrow.numbers(column).tolist() == values


@given(st.lists(st.lists(INTEGERS)))
def test_chunks_are_one_array(chunks: list[list[int]]) -> None:
    column = pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks], pa.int64())
    assert arrow.numbers(column).tolist() == [value for chunk in chunks for value in chunk]


def test_every_other_number_of_a_longer_array() -> None:
    """A view with gaps is copied, not read as if it had none."""
    assert arrow.arrow(np.arange(10)[::2]).to_pylist() == [0, 2, 4, 6, 8]


def test_a_slice_begins_where_it_begins() -> None:
    assert arrow.numbers(pa.array([1, 2, 3, 4]).slice(1, 2)).tolist() == [2, 3]
    halves = pa.array([None, 0.5, None, 1.5, 2.5, None]).slice(1, 4)
    np.testing.assert_array_equal(arrow.numbers(halves), [0.5, np.nan, 1.5, 2.5])


@pytest.mark.parametrize("column", [[1, None], [Decimal(1)], [True], ["1"]])
def test_what_is_no_number_is_refused(column: list[object]) -> None:
    with pytest.raises(ValueError, match=r"NULL|no numbers"):
        arrow.numbers(pa.array(column))


@given(st.lists(st.text()))
def test_texts_are_those_of_pyarrow(values: list[str]) -> None:
    column = arrow.texts(values)
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.string()))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), st.text()),
        (pa.int64(), INTEGERS),
        (pa.float64(), st.floats(allow_nan=False) | st.integers(-9, 9) | st.decimals(-9, 9)),
        (pa.bool_(), st.booleans()),
    ],
)
@given(data=st.data())
def test_columns_are_those_of_pyarrow(
    kind: pa.DataType, values: st.SearchStrategy[object], data: st.DataObject
) -> None:
    """But for decimals as floats, which it does not take."""
    given_values = data.draw(st.lists(st.none() | values))
    found = arrow.column(given_values, kind)
    found.validate(full=True)
    plain = [float(value) if isinstance(value, Decimal) else value for value in given_values]
    assert found.equals(pa.array(plain, kind))


def test_a_column_of_whole_numbers_takes_no_others() -> None:
    for values, wrong in (([1.5], TypeError), ([2**63], OverflowError)):
        with pytest.raises(wrong):
            arrow.column(values, pa.int64())


@pytest.mark.parametrize("kind", [pa.int64(), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.string())])
def test_nothing_has_its_columns(kind: pa.DataType) -> None:
    """Expected: pyarrow's own table without rows."""
    schema = pa.schema([("a", kind), ("b", pa.bool_())])
    assert pa.Table.from_batches([arrow.nothing(schema)]).equals(schema.empty_table())


def test_a_stream_does_not_load_pandas(tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    source.write_text(CSV, encoding="utf-8")
    command = [sys.executable, "-c", AUDIT, "stream", str(source), "--qi", "age", "-k", "2", "--delay", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 5
    assert done.stderr.endswith("False\n")


@pytest.mark.slow
def test_a_release_does_not_load_pandas() -> None:
    """It takes a third of a second, which whoever has it installed would pay for nothing."""
    done = subprocess.run([sys.executable, "-c", RELEASE], capture_output=True, text=True, check=True)
    assert done.stdout == "[(40,)] False\n"


def test_an_audit_loads_neither_scipy_nor_pandas(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(CSV, encoding="utf-8")
    arguments = ["audit", str(file), "--qi", "age", "--sensitive", "diagnosis", "-k", "2"]
    command = [sys.executable, "-c", AUDIT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "k_anonymity" in done.stdout
    assert done.stderr == "False\n"
