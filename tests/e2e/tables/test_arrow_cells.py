"""Arrow of every type, encoding, nesting and shape: what is read and what leaves is what plain Python sees.

Expected values come from ``to_pylist`` of the column that was given and from counting in Python. A sample of
the cells runs always, all of them where slow tests do.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import duckanon
from duckanon.testing import assert_private
from tests import arrow_cells
from tests.arrow_cells import ROWS, cell, cells, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

WIDE = 60
"""Cells that are columns of one table, so that thousands of them take a minute."""

SHARES = [pytest.param(37, id="sample"), pytest.param(1, id="all", marks=pytest.mark.slow)]
CLASSES = [i // 4 for i in range(ROWS)]


def tables(share: int, *, seldom: int = 1) -> Iterator[tuple[list[str], pa.Table]]:
    """One in so many cells: their names, and a table with them as c0, c1, ..., a class and a number a row."""
    every = islice(cells(), 0, None, share * seldom)
    while part := list(islice(every, WIDE)):
        columns = {f"c{place}": column for place, (_, column) in enumerate(part)}
        numbers = {"class": CLASSES, "number": range(ROWS)}
        yield [name for name, _ in part], pa.table({**numbers, **columns})


def policy(**options: Any) -> duckanon.Policy:
    return duckanon.Policy(quasi_identifiers="class", insensitive="*", k=2, effort="fast", **options)


def expected_type(kind: pa.DataType) -> pa.DataType:
    """Type in which a column leaves: a dense union as a sparse one, what nobody knows as its storage."""
    if isinstance(kind, arrow_cells.Own):
        return pa.string()
    if pa.types.is_dictionary(kind):
        values = expected_type(kind.value_type)
        # Arrow builds no dictionary of NULL alone.
        return values if pa.types.is_null(values) else pa.dictionary(kind.index_type, values, kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return pa.run_end_encoded(kind.run_end_type, expected_type(kind.value_type))
    if pa.types.is_union(kind):
        return pa.sparse_union([pa.field(one.name, expected_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, expected_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, expected_type(one.type)) for one in kind])
    if not kind.num_fields:
        return kind
    inner = expected_type(kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inner, kind.list_size)
    made = {
        pa.ListType: pa.list_,
        pa.LargeListType: pa.large_list,
        pa.ListViewType: pa.list_view,
        pa.LargeListViewType: pa.large_list_view,
    }
    return made[type(kind)](inner)


def check(names: list[str], given: pa.Table, released: pa.Table) -> None:
    """Compare the released columns with those that were given, row by row."""
    rows = released.column("number").to_pylist()
    assert sorted(rows) == list(range(ROWS))
    for place, name in enumerate(names):
        source, column = given.column(f"c{place}"), released.column(f"c{place}")
        column.validate(full=True)
        values = source.to_pylist()
        assert [plain(one) for one in column.to_pylist()] == [plain(values[row]) for row in rows], name
        # A text in place of a UUID or JSON is what the audit saw.
        if not name.startswith(("uuid,", "json,")):
            assert column.type == expected_type(source.type), name


@pytest.mark.parametrize("share", SHARES)
def test_a_table_gives_back_its_values_and_types(share: int) -> None:
    for number, (names, table) in enumerate(tables(share)):
        if number % 2 == 0:
            check(names, table, duckanon.anonymize_table(table, policy()))
        else:
            check(names, table, duckanon.anonymize_table(table.to_reader(), policy()).read_all())
    whole = pa.record_batch(
        {"class": CLASSES, "number": range(ROWS), "c0": cell("string", "codes", "pairs").chunk(0)}
    )
    released = duckanon.anonymize_table(whole, policy())
    check(["a batch"], pa.Table.from_batches([whole]), pa.Table.from_batches([released]))


@pytest.mark.parametrize("share", SHARES)
def test_a_stream_gives_back_its_values_and_types(share: int) -> None:
    for names, table in tables(share):
        batches = table.to_batches(max_chunksize=5)
        stream = duckanon.anonymize_stream(batches, "class", k=2, delay=20)
        check(names, table, pa.Table.from_batches(list(stream), stream.schema))


@pytest.mark.parametrize("share", SHARES)
def test_l_and_t_are_those_of_plain_values(share: int) -> None:
    for names, table in tables(share):
        sensitive = [f"c{place}" for place in range(len(names))]
        report = assert_private(
            table,
            quasi_identifiers="class",
            sensitive=sensitive,
            t=1,
            distance=dict.fromkeys(sensitive, "equal"),
        )
        found = {(one.measure, one.attribute): one.value for one in report.measures}
        for name, column in zip(names, sensitive, strict=True):
            values = list(map(plain, table.column(column).to_pylist()))
            assert found["distinct_l_diversity", column] == min(
                len(set(part)) for part in of_classes(values)
            ), name
            assert found["t_closeness", column] == pytest.approx(largest_distance(values), abs=1e-9), name


def of_classes(values: list[Any]) -> list[list[Any]]:
    """Values by class."""
    return [[one for one, label in zip(values, CLASSES, strict=True) if label == it] for it in set(CLASSES)]


def largest_distance(values: list[Any]) -> float:
    """The largest of half the sums of differences between the shares of a class and of all (Li 2007)."""
    whole = Counter(values)
    return max(
        sum(abs(Counter(part)[one] / len(part) - whole[one] / len(values)) for one in whole) / 2
        for part in of_classes(values)
    )


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_k_is_that_of_plain_values(share: int) -> None:
    for names, table in tables(share, seldom=1 if share > 1 else 4):
        for place, name in enumerate(names):
            column = table.column(f"c{place}")
            report = assert_private(
                pa.table({"q": column, "s": [1] * ROWS}), quasi_identifiers="q", sensitive="s", t=1
            )
            found = {one.measure: one.value for one in report.measures}
            assert found["k_anonymity"] == min(Counter(map(plain, column.to_pylist())).values()), name


def test_twenty_records_are_not_one_class() -> None:
    """By hand: k is 1, and was once read as 20 where each chunk has one value with the code 0."""
    values = [f"v{i}" for i in range(20)]
    chunks = [pa.FixedSizeListArray.from_arrays(pa.array([one]).dictionary_encode(), 1) for one in values]
    arrays = pa.table({"q": pa.chunked_array(chunks)})
    enums = [pl.DataFrame({"q": pl.Series([one], dtype=pl.Enum([one])).reshape((1, 1))}) for one in values]
    rows = [pa.table(one) for one in enums]
    from_polars = pa.table({"q": pa.chunked_array([one.column("q").chunk(0) for one in rows])})
    for table in (arrays, arrays.to_reader(), from_polars):
        with pytest.raises(AssertionError, match=r"k_anonymity +2 +1 "):
            assert_private(table, quasi_identifiers="q", k=2)


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_frames_of_polars(share: int) -> None:
    """What polars makes of a cell, read by its own means, before and behind; types too."""
    seen = 0
    for names, table in tables(share, seldom=1 if share > 1 else 6):
        for place, name in enumerate(names):
            column = table.column(f"c{place}")
            if name.startswith("decimal"):
                # polars 2.1 ends the process where it gives decimals below a list to Arrow.
                continue
            try:
                frame = pl.DataFrame(
                    pl.from_arrow(pa.table({"class": CLASSES, "number": range(ROWS), "c": column}))
                )
            except (Exception, pl.exceptions.PanicException):  # noqa: BLE001 - it has no such type
                continue
            released = duckanon.anonymize_table(frame, policy())
            seen += 1
            rows, given, back = (list(one) for one in (released["number"], frame["c"], released["c"]))
            assert list(map(seen_by, back)) == [seen_by(given[row]) for row in rows], name
            # An extension of which we know nothing stays behind.
            assert name.startswith("own") or kinds_of(released.schema["c"]) == kinds_of(frame.schema["c"]), (
                name
            )
    assert seen > 10


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_frames_of_pandas_that_hold_arrow(share: int) -> None:
    """Values and types are those of the frame, or the column is refused by its name."""
    seen = 0
    for names, table in tables(share, seldom=1 if share > 1 else 6):
        for place, name in enumerate(names):
            frame = table.select(["class", "number", f"c{place}"]).to_pandas(types_mapper=pd.ArrowDtype)
            kind = frame.dtypes.iloc[2].pyarrow_dtype
            given = frame[f"c{place}"].array.__arrow_array__().to_pylist()
            try:
                released = duckanon.anonymize_table(frame, policy())
            except duckanon.SourceError as refused:  # no cell of pandas is left out without its name
                assert repr(f"c{place}") in str(refused), name  # noqa: PT017
                continue
            seen += 1
            back = released[f"c{place}"].array.__arrow_array__()
            assert [plain(one) for one in back.to_pylist()] == [
                plain(given[row]) for row in released["number"]
            ], name
            if not name.startswith(("uuid,", "json,")):
                assert back.type == expected_type(kind), name
    assert seen > 10


def seen_by(value: Any) -> Any:
    """A value of a frame as it can be compared."""
    if isinstance(value, pl.Series):
        value = value.to_list()
    return plain(value)


def kinds_of(kind: Any) -> str:
    """A type of polars without categories."""
    return re.sub(r"Enum\(categories=\[[^]]*\]\)", "Enum", str(kind))
