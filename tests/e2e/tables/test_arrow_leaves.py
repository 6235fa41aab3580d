"""What leaves holds nothing of records that did not: not in dictionaries, buffers, metadata or attributes.

Each table has a record whose values, at every depth, contain a mark. It is suppressed or held back, and what
leaves, written as bytes, must not contain the mark.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import duckanon

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

MARK = "mark of a record that stays"
NUMBER = 0x5ECE_7000_1234_5678
SEEN = [MARK, MARK.encode(), NUMBER.to_bytes(8, "little"), NUMBER.to_bytes(8, "big"), str(NUMBER)]
AGES = [1, 1, 1, 1, None]
"""The last record has no age: a release leaves it out, and a stream holds it while the others leave."""

TEXTS = ["a", "b", "c", "a", MARK]
NUMBERS = [1, 2, 3, 1, NUMBER]


def values() -> Iterator[tuple[str, pa.Array]]:
    """Columns of five rows, of which the last has the mark."""
    for name, plain in (
        ("text", pa.array(TEXTS)),
        ("large", pa.array(TEXTS, pa.large_string())),
        ("view", pa.array(TEXTS, pa.string_view())),
        ("bytes", pa.array([one.encode() for one in TEXTS], pa.binary_view())),
        ("number", pa.array(NUMBERS)),
    ):
        base = pa.array(NUMBERS if name == "number" else TEXTS).dictionary_encode()
        dictionary = pa.DictionaryArray.from_arrays(
            base.indices, plain if len(base.dictionary) == 5 else unique(plain)
        )
        runs = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 6), pa.int32()), plain)
        ordered = pa.DictionaryArray.from_arrays(dictionary.indices, dictionary.dictionary, ordered=True)
        for encoding, array in (("", plain), ("codes", dictionary), ("ordered", ordered), ("runs", runs)):
            yield f"{name} {encoding}", array
            yield f"{name} {encoding} list", pa.ListArray.from_arrays(pa.array(range(6), pa.int32()), array)
            yield f"{name} {encoding} array", pa.FixedSizeListArray.from_arrays(array, 1)
            yield (
                f"{name} {encoding} view",
                pa.ListViewArray.from_arrays(
                    pa.array(range(5), pa.int32()), pa.array([1] * 5, pa.int32()), array
                ),
            )
            yield f"{name} {encoding} struct", pa.StructArray.from_arrays([array], ["x"])
            yield (
                f"{name} {encoding} map",
                pa.MapArray.from_arrays(
                    pa.array(range(6), pa.int32()), pa.array([f"k{i}" for i in range(5)]), array
                ),
            )
            yield (
                f"{name} {encoding} union",
                pa.UnionArray.from_sparse(pa.array([0] * 5, pa.int8()), [array], ["u"]),
            )
            yield f"{name} {encoding} below", below(array)


def unique(plain: pa.Array) -> pa.Array:
    """The values of the rows 0, 1, 2 and 4: the fourth is that of the first again."""
    return pa.concat_arrays([plain.slice(0, 3), plain.slice(4)])


def below(array: pa.Array) -> pa.Array:
    """Rows that are NULL over a mark: their own values are none that they release."""
    hidden = array.slice(4)
    inner = pa.concat_arrays([hidden] * 5) if not pa.types.is_run_end_encoded(array.type) else array
    return pa.StructArray.from_arrays([inner], ["x"], mask=pa.array([True] * 4 + [False]))


COLUMNS = dict(values())


def table() -> pa.Table:
    """Every column, in a slice of a larger table, with metadata that name the mark everywhere."""
    fields = [pa.field(name, marked(array.type), metadata={"note": MARK}) for name, array in COLUMNS.items()]
    schema = pa.schema(
        [pa.field("age", pa.int64(), metadata={"note": MARK}), *fields], metadata={"note": MARK}
    )
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(COLUMNS.values(), fields, strict=True)
    ]
    return pa.table([AGES, *arrays], schema=schema)


def marked(kind: pa.DataType) -> pa.DataType:
    """A type of lists, arrays and structs with metadata of its children."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_metadata({"note": MARK}) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_metadata({"note": MARK}))
    return kind


def policy(**options: Any) -> duckanon.Policy:
    return duckanon.Policy(
        quasi_identifiers="age",
        insensitive="*",
        k=2,
        nulls="suppress",
        suppression_limit=0.5,
        effort="fast",
        **options,
    )


def written(batches: pa.Table | list[pa.RecordBatch]) -> bytes:
    """What Arrow writes of a table or of batches."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, batches.schema if isinstance(batches, pa.Table) else batches[0].schema
    ) as writer:
        for batch in batches.to_batches() if isinstance(batches, pa.Table) else batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def marks(data: bytes) -> list[Any]:
    """Forms of the mark that are in some bytes."""
    return [one for one in SEEN if (one.encode() if isinstance(one, str) else one) in data]


def test_the_bytes_of_the_source_have_the_mark() -> None:
    """A test of the test: each column, as it is given, has it."""
    for name in COLUMNS:
        assert marks(written(table().select([name]).replace_schema_metadata()))


@pytest.mark.slow
def test_no_column_of_a_table_keeps_a_value_of_a_suppressed_record() -> None:
    released = duckanon.anonymize_table(table(), policy())
    assert released.num_rows == 4
    assert released.schema.metadata is None
    for name in released.column_names:
        assert not marks(written(released.select([name]))), name
        assert not marks(str(released.schema.field(name)).encode()), name
        for chunk in released.column(name).chunks:
            assert not any(marks(one.to_pybytes()) for one in chunk.buffers() if one), name


def test_no_batch_of_a_stream_keeps_a_value_of_a_tuple_that_is_held_back() -> None:
    """Tuple by tuple and all at once, dropped at the end and held while classes leave before it."""
    for size in (1, 2, 5):
        batches = [
            one
            for place in range(0, 5, size)
            for one in table().slice(place, size).combine_chunks().to_batches()
        ]
        stream = duckanon.anonymize_stream(batches, "age", k=2, delay=4)
        out = list(stream)
        early = [one for one in out if MARK not in str(one.to_pylist())]
        assert early
        for batch in early:
            assert batch.schema == stream.schema
            for name in batch.schema.names:
                alone = pa.Table.from_batches([batch]).select([name]).to_batches()
                assert not marks(written(alone)), name


def test_frames_of_polars_keep_no_category_of_a_suppressed_record() -> None:
    kinds = [MARK, "a", "b", "c"]
    enum = pl.Series(TEXTS, dtype=pl.Enum(kinds))
    frame = pl.DataFrame(
        {
            "age": AGES,
            "top": enum,
            "list": pl.Series([[one] for one in TEXTS], dtype=pl.List(pl.Enum(kinds))),
            "array": enum.reshape((5, 1)),
            "struct": pl.Series([{"x": one} for one in TEXTS], dtype=pl.Struct({"x": pl.Enum(kinds)})),
            "deep": pl.Series(
                [[{"x": [one]}] for one in TEXTS], dtype=pl.List(pl.Struct({"x": pl.List(pl.Enum(kinds))}))
            ),
            "category": pl.Series([[one] for one in TEXTS], dtype=pl.List(pl.Categorical)),
        }
    )
    released = duckanon.anonymize_table(frame, policy())
    left = pl.Enum(["a", "b", "c"])
    assert dict(released.schema) == {
        "age": pl.Int64(), "top": left, "list": pl.List(left), "array": pl.Array(left, 1),
        "struct": pl.Struct({"x": left}), "deep": pl.List(pl.Struct({"x": pl.List(left)})),
        "category": pl.List(pl.Categorical()),
    }  # fmt: skip
    assert sorted(released["array"].to_list()) == [["a"], ["a"], ["b"], ["c"]]
    assert sorted(released["list"].to_list()) == [["a"], ["a"], ["b"], ["c"]]
    assert not marks(pickle.dumps(released)), "pickle"
    assert not marks(written(pa.table(released)))


def test_frames_of_pandas_keep_no_attributes_and_no_category_of_a_suppressed_record() -> None:
    frame = pd.DataFrame({"age": AGES, "top": pd.Categorical(TEXTS), "number": pd.array(NUMBERS, "Int64")})
    frame.attrs["note"] = MARK
    frame.index = pd.Index(TEXTS, name="who")
    released = duckanon.anonymize_table(frame, policy())
    assert released.attrs == {}
    assert list(released["top"].cat.categories) == ["a", "b", "c"]
    assert not marks(pickle.dumps(released))
    assert np.array_equal(released.index, range(4))


def test_an_order_that_was_declared_stays_in_a_stream() -> None:
    """By hand: the batches declare low < mid < high; what leaves has the values of its rows in that order."""
    order = pa.array(["low", "mid", "high", MARK])
    codes = [pa.array([2, 0], pa.int8()), pa.array([1, 2], pa.int8())]
    batches = [
        pa.record_batch({"age": [1, 1], "x": pa.DictionaryArray.from_arrays(one, order, ordered=True)})
        for one in codes
    ]
    out = list(duckanon.anonymize_stream(batches, "age", k=4, delay=4))
    assert [batch.column("x").dictionary.to_pylist() for batch in out] == [["low", "mid", "high"]]
    assert out[0].schema.field("x").type.ordered


def test_more_values_than_codes_are_an_error_that_says_so() -> None:
    """Two batches of 100 categories each, and all 200 leave together: int8 has codes for 128."""

    def batch(first: int) -> pa.RecordBatch:
        texts = pa.array([f"v{first + i}" for i in range(100)])
        codes = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), texts)
        return pa.record_batch({"age": [1] * 100, "x": codes})

    stream = duckanon.anonymize_stream([batch(0), batch(100)], "age", k=200, delay=400)
    with pytest.raises(duckanon.SourceError, match=r"'x' of type dictionary.*int32 codes"):
        list(stream)


def test_a_stream_to_a_table_keeps_the_values_of_enums_below_arrays() -> None:
    """DuckDB gives them to Arrow as dictionaries, and read all of them as the code 0: even rows have a, odd b."""
    with duckanon.connect() as con:
        con.execute("CREATE TYPE letter AS ENUM ('never', 'b', 'a')")
        con.execute(
            "CREATE TABLE p AS SELECT i // 4 AS age, [IF(i % 2 = 0, 'a', 'b')]::letter[1] AS x, i AS n "
            "FROM range(12) AS r(i)"
        )
        con.stream("FROM p", into="q", quasi_identifiers=["age"], k=2, delay=20)
        found = con.sql("SELECT DISTINCT n % 2, x[1] FROM q ORDER BY ALL").fetchall()
    assert found == [(0, "a"), (1, "b")]
