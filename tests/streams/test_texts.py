"""CSV as a stream reads it: Python's csv module writes it, the cut into pieces is any, and lines are counted."""

from __future__ import annotations

import csv
import io
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.errors import SourceError
from duckanon.streams.feed import blocks
from duckanon.streams.texts import _Texts, _values, csv_batches
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CON = duckdb.connect()

FIELD = st.text('ab,"\n é;', max_size=4).map(lambda text: f"x{text}")
TABLE = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(FIELD, min_size=width, max_size=width), max_size=8)
)


def written(rows: Sequence[Sequence[str]], end: str, *, quoting: Any = csv.QUOTE_MINIMAL) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end, quoting=quoting).writerows(rows)
    return text.getvalue().encode()


def pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return (data[low:high] for low, high in pairwise(places))


def read(chunks: Iterator[bytes]) -> list[list[Any]]:
    return [
        list(row.values())
        for batch in csv_batches(CON, chunks, first=5, waiting=str)
        for row in batch.to_pylist()
    ]


@pytest.mark.slow
@given(
    TABLE, st.sampled_from(["\n", "\r\n"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.lists(st.integers(0, 1000), max_size=6), st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(400), deadline=None)
def test_what_was_written_is_read(
    rows: list[list[str]], end: str, quoting: Any, cuts: list[int], last: bool
) -> None:
    header = [f"c{place}" for place in range(len(rows[0]) if rows else 2)]
    data = written([header, *rows], end, quoting=quoting)
    data = data if last else data.removesuffix(end.encode())
    assert read(pieces(data, cuts)) == rows


@given(TABLE, st.integers(0, 8), st.lists(st.integers(0, 1000), max_size=6))
@settings(max_examples=examples(200), deadline=None)
def test_a_record_with_other_fields_is_named_by_its_line(
    rows: list[list[str]], place: int, cuts: list[int]
) -> None:
    header = [f"c{place}" for place in range(len(rows[0]) if rows else 2)]
    before = written([header, *rows[:place]], "\n")
    data = before + written([["x"] * (len(header) + 1)], "\n") + written(rows[place:], "\n")
    line = before.count(b"\n") + 1
    with pytest.raises(
        SourceError, match=f"^line {line}: it has {len(header) + 1} fields, not {len(header)} "
    ):
        read(pieces(data, cuts))


def test_a_quote_within_a_plain_field_is_a_character() -> None:
    data = b'a,b\n5" pipe,"x ""y"""\n"c\nd",e"f"\n'
    assert read(iter([data])) == [['5" pipe', 'x "y"'], ["c\nd", 'e"f"']]
    assert [block.line for block in blocks(pieces(data, range(40)), ",")] == [1, 2, 3]


def test_a_record_without_end_is_no_reason_to_take_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckanon.streams.feed.RECORD_MAX_BYTES", 1000)
    chunks = (b"a\n1\n" if number == 0 else b'"never closed\n' for number in range(10**9))
    endless = (b'a\n1\n"' if number == 0 else b"never closed\n" for number in range(10**9))
    with pytest.raises(SourceError, match="line 3: a record of more than 0 MB begins here"):
        read(endless)
    with pytest.raises(SourceError, match=r"line [0-9]+: text follows the end of a quoted field"):
        read(chunks)


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["1", "-2"], "int64", [1, -2]),
        (["1", "2.5"], "double", [1.0, 2.5]),
        (["1", "007"], "string", ["1", "007"]),
        (["01.5", "2"], "string", ["01.5", "2"]),
        (["+5", "1e3"], "double", [5.0, 1000.0]),
        (["1_000", "2"], "string", ["1_000", "2"]),
        ([" 12 ", "3"], "int64", [12, 3]),
        (["true", "FALSE"], "bool", [True, False]),
        (["t", "f"], "string", ["t", "f"]),
        (["", "x"], "string", [None, "x"]),
        (['""', "x"], "string", ["", "x"]),
        (['""', "1"], "int64", [None, 1]),
        (["2024-01-01", "infinity"], "string", ["2024-01-01", "infinity"]),
        (["2024-01-01 10:00:00", "2024-01-01"], "timestamp[us]", None),
        (["2024-01-01T10:00:00Z", "2024-01-01 10:00:00+02"], "timestamp[us, tz=", None),
        (["10:00:00", "11:00:00"], "string", ["10:00:00", "11:00:00"]),
    ],
)
def test_types(texts: list[str], kind: str, values: list[Any] | None) -> None:
    data = ("k,v\n" + "".join(f"x,{text}\n" for text in texts)).encode()
    (batch,) = csv_batches(CON, iter([data]), first=5, waiting=str)
    assert str(batch.schema.field("v").type).startswith(kind)
    assert values is None or batch.column(1).to_pylist() == values


NUMBERS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", " ", "\u00a0", "\t"]), st.sampled_from(["", "", "-", "+"]),
        st.sampled_from(["0", "7", "07", "007", "12", "1_0", "", "9223372036854775808", "inf", "nan", "x", ":"]),
        st.sampled_from(["", "", ".", ".5", ".50", "._5"]), st.sampled_from(["", "", "e3", "E-2", "e"]),
        st.sampled_from(["", "", " "]),
    ),
)  # fmt: skip


@given(
    st.lists(NUMBERS | st.none(), min_size=1, max_size=5), st.sampled_from(["BIGINT", "HUGEINT", "DOUBLE"])
)
@settings(max_examples=examples(1000), deadline=None)
def test_what_the_quick_way_takes_the_slow_one_reads_as_the_same(texts: list[str | None], kind: str) -> None:
    """The slow way is that of `test_types`, by hand; the quick one may refuse more, and then is not used."""
    block = next(iter(blocks(iter([b"1\n"]), ",")))
    given = _Texts(pa.table({"v": pa.array(texts, pa.string())}), block)
    quick, refused = _values(CON, given, [("v", kind)], plain=True)
    if refused is None:
        slow, misfit = _values(CON, given, [("v", kind)], plain=False)
        assert misfit is None
        assert quick.equals(slow) or str(quick.to_pylist()) == str(slow.to_pylist())  # NaN


@pytest.mark.parametrize(
    ("kind", "texts", "taken"),
    [
        ("BIGINT", ["0", "-1", "12", None], True),
        ("BIGINT", ["+1"], False),
        ("BIGINT", ["007"], False),
        ("DOUBLE", ["0", "0.5", "-0.5", "-12.25", "7e3", None], True),
        ("DOUBLE", ["-07.5"], False),
        ("DOUBLE", ["07.5"], False),
        ("DOUBLE", ["1_0"], False),
    ],
)
def test_the_quick_way_takes_numbers_as_they_mostly_stand(
    kind: str, texts: list[str | None], taken: bool
) -> None:
    block = next(iter(blocks(iter([b"1\n"]), ",")))
    given = _Texts(pa.table({"v": pa.array(texts, pa.string())}), block)
    assert (_values(CON, given, [("v", kind)], plain=True)[1] is None) == taken


def test_a_number_that_stands_in_another_way_later_is_read() -> None:
    """By hand: the first block is read quickly, the second is not, nor the third."""
    lines = [b"v\n1\n2\n", b" 3 \n4\n", b"5\n"]
    assert [batch.to_pydict()["v"] for batch in csv_batches(CON, iter(lines), first=2, waiting=str)] == [
        [1, 2],
        [3, 4],
        [5],
    ]
    with pytest.raises(SourceError, match=r"line 5: '06' in column 'v' is no BIGINT"):
        list(csv_batches(CON, iter([b"v\n1\n2\n", b" 3 \n06\n"]), first=2, waiting=str))
