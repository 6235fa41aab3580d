"""anonymize_stream: whole classes within the delay, whatever the batches; values by an oracle that knows no code of ours."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import DuckanonError, DuckanonWarning, PolicyError, ReleaseError, SourceError
from duckanon.kernels.steered import stream as kernel
from duckanon.streams import stream as streams
from tests.examples import examples
from tests.oracle import key
from tests.oracle_recode import class_value
from tests.oracle_stream import Stream, expected

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.filterwarnings(
    "ignore:delay = :duckanon.DuckanonWarning", "ignore:no tuple was written:duckanon.DuckanonWarning"
)


def rows_of(stream: duckanon.AnonymizedStream) -> list[dict[str, Any]]:
    return [row for batch in stream for row in batch.to_pylist()]


def cut(table: pa.Table, sizes: Sequence[int]) -> list[pa.RecordBatch]:
    """Batches of these sizes, the last one of what is left; the first one may be empty."""
    batches, start = [], 0
    for size in (*sizes, len(table)):
        batches += table.slice(start, size).combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], schema=table.schema)
        ]
        start += size
    return batches


def streamed(table: pa.Table, sizes: Sequence[int] = (), **options: Any) -> tuple[list[dict[str, Any]], Any]:
    stream = duckanon.anonymize_stream(cut(table, sizes), **options)
    return rows_of(stream), stream.report


# --- classes ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=examples(120, 30), deadline=None)
@given(st.data())
def test_classes_are_those_of_the_paper_and_values_those_of_an_oracle(data: st.DataObject) -> None:
    """Numbers on a given scale, subjects, any batches: who leaves with whom, what is dropped, what a class releases."""
    size, k = data.draw(st.integers(0, 60)), data.draw(st.integers(2, 4))
    delay = data.draw(st.integers(k - 1, 15))
    whole = st.integers(0, 8)
    ages, pays = (data.draw(st.lists(whole, min_size=size, max_size=size)) for _ in range(2))
    by_subject = data.draw(st.booleans())
    persons = data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)) if by_subject else None
    weight, grow = data.draw(st.sampled_from([0.0, 0.25, 2.0])), data.draw(st.booleans())
    recode = data.draw(st.sampled_from(["mean", "median", "mode", "range", "set"]))
    columns = {
        "age": pa.array(ages, pa.int32()),
        "pay": pa.array(pays, pa.float64()),
        "place": pa.array(range(size), pa.int64()),
    }
    if persons is not None:
        columns["who"] = pa.array(persons, pa.int64())
    found, report = streamed(
        pa.table(columns),
        data.draw(st.lists(st.integers(0, 20), max_size=4)),
        quasi_identifiers=["age", "pay"], k=k, delay=delay, order_weight=weight, cluster="grow" if grow else "nearest",
        subject="who" if by_subject else None, recode={"age": recode}, scale={"age": (0, 8), "pay": (0, 8)},
        class_id=True, digits={"pay": 12},
    )  # fmt: skip
    # Eighths are exact, so that the oracle's distances are those of the kernel.
    points = [(age / 8, pay / 8) for age, pay in zip(ages, pays, strict=True)]
    wanted = expected(Stream(points, k, delay, weight, persons, grow=grow, flush=True))
    rows = defaultdict(list)
    for row in found:
        rows[row["class_id"]].append(row)
    assert [sorted(row["place"] for row in rows[number]) for number in sorted(rows)] == wanted.classes
    assert [row["class_id"] for row in found] == sorted(row["class_id"] for row in found)
    for number, members in enumerate(wanted.classes):
        age = class_value([ages[member] for member in members], recode, "INTEGER")
        pay = sum(pays[member] for member in members) / k
        assert {json.dumps(row["age"]) for row in rows[number]} == {json.dumps(age)}
        assert all(math.isclose(row["pay"], pay) for row in rows[number])
        # The order of a class tells nothing of the input but the values.
        assert [row["place"] for row in rows[number]] == sorted(row["place"] for row in rows[number])
    assert (report.read, report.written, report.dropped, report.held) == (
        size, len(found), len(wanted.dropped), len(wanted.held),
    )  # fmt: skip
    check_extents(report, wanted.classes, wanted.dropped, delay, size)


def check_extents(report: Any, classes: list[list[int]], dropped: list[int], delay: int, size: int) -> None:
    """Delays, spans and reordering, counted once more from the classes."""
    if not classes:
        assert (report.largest_delay, report.mean_span, report.mean_reordering, report.mse) == (None,) * 4
        return
    left = [min(members[0] + delay, size - 1) for members in classes]
    delays = [time - member for time, members in zip(left, classes, strict=True) for member in members]
    spans = [members[-1] - members[0] for members in classes]
    assert (report.largest_delay, report.largest_span) == (max(delays), max(spans))
    assert report.mean_delay == pytest.approx(sum(delays) / len(delays))
    assert report.mean_span == pytest.approx(sum(spans) / len(spans))
    assert max(delays) <= delay
    order = [member for members in classes for member in members]
    rank = {place: number for number, place in enumerate(sorted(order))}
    held = set(range(size)) - {*order, *dropped}
    # A place is known where nothing before it is held.
    moved = [abs(rank[one] - place) for place, one in enumerate(order) if not held or one < min(held)]
    assert report.largest_reordering == (max(moved) if moved else None)
    assert report.mean_reordering == (pytest.approx(sum(moved) / len(moved)) if moved else None)


@settings(max_examples=examples(60, 10), deadline=None)
@given(st.data())
def test_reordering_is_that_of_the_rows_that_are_written(data: st.DataObject) -> None:
    """Source: the rows themselves, each with its place in the input. A class leaves in the order of its values."""
    size, k = data.draw(st.integers(1, 50)), data.draw(st.integers(2, 4))
    method = data.draw(st.sampled_from(["steered", "castle"]))
    small = st.lists(st.integers(0, 8), min_size=size, max_size=size)
    table = pa.table(
        {
            "age": pa.array(data.draw(small)),
            "pay": pa.array(data.draw(small)),
            "place": pa.array(range(size)),
        }
    )
    found, report = streamed(
        table, data.draw(st.lists(st.integers(0, 20), max_size=4)), quasi_identifiers="age", k=k,
        delay=data.draw(st.integers(k - 1, 15)), scale={"age": (0, 8)}, method=method,
    )  # fmt: skip
    order = [row["place"] for row in found]
    if report.held or not order:
        return
    rank = {place: number for number, place in enumerate(sorted(order))}
    moved = [abs(rank[place] - number) for number, place in enumerate(order)]
    assert report.largest_reordering == max(moved)
    assert report.mean_reordering == pytest.approx(sum(moved) / len(moved))


def test_a_class_that_leaves_in_another_order_is_reordered() -> None:
    """By hand: two classes of two, whose second has the smaller value and is written first: each moves a place."""
    table = pa.table({"age": [1, 1, 8, 8], "pay": [9, 3, 7, 5]})
    found, report = streamed(table, quasi_identifiers="age", k=2, delay=3, scale={"age": (0, 8)})
    assert [row["pay"] for row in found] == [3, 9, 5, 7]
    assert (report.largest_reordering, report.mean_reordering) == (1, 1)


@pytest.mark.slow
@settings(max_examples=examples(60, 6), deadline=None)
@given(st.data())
def test_the_output_does_not_depend_on_the_batches(data: st.DataObject) -> None:
    """Columns of any type, NULL, a warm-up: one batch, batches of one, and any others."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    size = data.draw(st.integers(1, 50))
    ages = [None if rng.random() < 0.1 else int(rng.integers(0, 90)) for _ in range(size)]
    places = pa.array(
        [None if rng.random() < 0.1 else f"p{rng.integers(0, 25)}" for _ in range(size)], pa.string()
    )
    days = [date(2020, 1, 1 + int(rng.integers(0, 28))) for _ in range(size)]
    table = pa.table(
        {
            "age": pa.array(ages, pa.int16()),
            "place": places,
            "day": days,
            "cost": pa.array(_late(rng, size), pa.float64()),
            "ill": rng.integers(0, 3, size),
        }
    )
    asked = {
        "quasi_identifiers": ["age", "place", "day", "cost"],
        "k": 3,
        "min_values": data.draw(st.integers(1, 3)),
        "delay": 10,
        "warm_up": data.draw(st.integers(1, 11)),
    }
    one = streamed(table, **asked)
    assert streamed(table, [1] * size, **asked) == one
    assert streamed(table, data.draw(st.lists(st.integers(0, 9), max_size=6)), **asked) == one


def _late(rng: np.random.Generator, size: int) -> list[float | None]:
    """Numbers of more and more digits after the point, NULL at first and in between."""
    begin = int(rng.integers(0, 20))
    return [
        None if place < begin or rng.random() < 0.5 else round(rng.random() * 9, min(place // 8, 4))
        for place in range(size)
    ]


@pytest.mark.parametrize("scale", [{}, {"x": (0, 4)}], ids=["warm-up", "scale"])
@pytest.mark.parametrize(("least", "means"), [(2, [1.5, 2.75]), (3, [None, None])])
def test_the_first_values_tell_the_digits_of_a_column_that_begins_with_null(
    scale: dict[str, Any], least: int, means: list[float | None]
) -> None:
    """By hand, k = 2, delay = 3: when the first mean leaves, values of two digits after the point were read."""
    table = pa.table({"x": [*[None] * 4, 1.25, 1.75, 2.5, 3.0, 7.125, 7.125], "n": range(10)})
    found, _ = streamed(table, quasi_identifiers="x", k=2, delay=3, min_values=least, scale=scale)
    last = 7.13 if least == 2 else None
    assert [row["x"] for row in found] == [*[None] * 4, *np.repeat(means, 2).tolist(), last, last]


def test_the_first_values_tell_the_unit_of_timestamps_that_begin_with_null() -> None:
    """By hand: of whole hours the mean of 7 and 9 o'clock is 8, and no midnight."""
    day = datetime(2020, 1, 1)
    hours = [day.replace(hour=hour) for hour in (7, 9, 20, 20)]
    table = pa.table({"x": pa.array([*[None] * 4, *hours], pa.timestamp("us"))})
    found, _ = streamed(table, quasi_identifiers="x", k=2, delay=3)
    means = [day.replace(hour=hour) for hour in (8, 8, 20, 20)]
    assert [row["x"] for row in found] == [*[None] * 4, *means]


def test_the_scale_is_that_of_the_first_tuples() -> None:
    """By hand, k = 2, delay = 3: ages of 0 and 10 in the warm-up make a range of 10, so that 4 counts as near as place.

    Of (0, a), (4, a), (0, b), (10, b), on that scale the others are at squares .16, 1, 2 from the first; had the scale been
    that of all, up to 1000, the second would be as near. With a scale of 0 to 2 the second is at 4 and the third at 1.
    """
    rows = [(0, "a"), (4, "a"), (0, "b"), (10, "b"), (1000, "b"), (1000, "b")]
    table = pa.table({"age": [row[0] for row in rows], "place": [row[1] for row in rows], "n": range(6)})
    asked = {"quasi_identifiers": ["age", "place"], "k": 2, "delay": 3, "class_id": True}
    found, _ = streamed(table, **asked)
    assert [row["n"] for row in found][:2] == [0, 1]
    found, _ = streamed(table, **asked, scale={"age": (0, 2)})
    assert [row["n"] for row in found][:2] == [0, 2]
    found, _ = streamed(table, **asked, scale={"age": (0, 2)}, weights={"age": 0.01})
    assert [row["n"] for row in found][:2] == [0, 1]


def test_a_null_among_numbers_is_farther_than_the_ends_of_the_range() -> None:
    """By hand: 0 and 10 are a range from each other, NULL is one from 0 and two from 10; two NULLs are alike."""
    table = pa.table({"age": pa.array([None, 10, 0, None]), "n": range(4)})
    found, _ = streamed(table, quasi_identifiers="age", k=2, delay=3)
    assert [tuple(row.values()) for row in found] == [(None, 0), (None, 3), (5, 1), (5, 2)]


def test_texts_are_equal_or_not() -> None:
    """By hand: of b, c, b and an age that differs a little, the other b goes with the first."""
    table = pa.table({"ill": ["b", "c", "b", "c"], "age": [1, 1, 3, 3], "n": range(4)})
    found, _ = streamed(table, quasi_identifiers=["ill", "age"], k=2, delay=3, scale={"age": (0, 10)})
    assert [row["n"] for row in found] == [0, 2, 1, 3]
    assert [row["ill"] for row in found] == ["b", "b", "c", "c"]


def test_more_texts_than_corners_are_anonymous_all_the_same() -> None:
    table = pa.table({"ill": [f"t{i % 100}" for i in range(1000)], "n": range(1000)})
    found, report = streamed(table, quasi_identifiers="ill", k=5, delay=100, class_id=True)
    sizes = Counter(row["class_id"] for row in found)
    assert set(sizes.values()) == {5}
    assert report.written == 1000


# --- columns ------------------------------------------------------------------------------------------------

TYPES = {
    "int8": pa.array([1, 2, 4, 5], pa.int8()),
    "uint64": pa.array([2**64 - 1, 2**64 - 2, 5, 6], pa.uint64()),
    "float32": pa.array([0.5, -0.0, 1e30, 3], pa.float32()),
    "decimal": pa.array(
        [Decimal("1.25"), Decimal("1.26"), Decimal("-3.00"), Decimal("9.99")], pa.decimal128(9, 2)
    ),
    "date": pa.array([date(2020, 1, 1), date(2020, 1, 4), date(1960, 1, 1), date(1950, 1, 1)]),
    "seconds": pa.array(
        [datetime(2020, 1, 1), datetime(2020, 1, 4), datetime(1960, 1, 1), None], pa.timestamp("s")
    ),
    "zoned": pa.array(
        [datetime(2020, 1, 1), datetime(2020, 1, 4), datetime(1960, 1, 1), None], pa.timestamp("us", "UTC")
    ),
    "text": pa.array(["a", None, "c", "c"]),
    "large": pa.array(["a", None, "c", "c"], pa.large_string()),
    "category": pa.array(["a", None, "c", "c"]).dictionary_encode(),
    "boolean": pa.array([True, False, None, True]),
    "view": pa.array(["a", None, "c", "c"], pa.string_view()),
    "half": pa.array([1.0, 2.0, 3.0, 4.0], pa.float32()).cast(pa.float16()),
    "paris": pa.array([1, 2, 3, 5], pa.timestamp("ms", "Europe/Paris")),
}
AS = {"half": pa.float32(), "paris": pa.timestamp("us", "Europe/Paris")}


@pytest.mark.parametrize("name", TYPES)
def test_quasi_identifiers_keep_their_types(name: str) -> None:
    """Columns that are not named are as they were, to the type; ranges and sets have those of DuckDB."""
    table = pa.table({"a": TYPES[name], "b": TYPES[name], "n": range(4)})
    stream = duckanon.anonymize_stream(table.to_batches(), "a", k=2, delay=10)
    kind = TYPES[name].type
    assert stream.schema.field("a").type == AS.get(name, kind)
    assert stream.schema.field("b").type == kind
    batches = list(stream)
    assert {batch.schema for batch in batches} == {stream.schema}
    assert sum(map(len, batches)) == 4
    sets = duckanon.anonymize_stream(table.to_batches(), "a", k=2, delay=10, recode={"a": "set"})
    assert pa.types.is_list(sets.schema.field("a").type)
    assert len(rows_of(sets)) == 4


def test_names_do_not_matter() -> None:
    """Names of ours, names with quotes, and those that SQL uses."""
    names = [
        "place",
        "class_id",
        "member",
        "q1",
        'we"ird',
        "select",
        "a,b",
        "mean",
        "source",
        "duckanon_members",
    ]
    table = pa.table({name: pa.array(range(8), pa.float64()) for name in names})
    found, _ = streamed(table, quasi_identifiers=names[:5], k=2, delay=20, subject=names[9])
    assert [*found[0]] == names[:9]
    assert len(found) == 8


def test_identifiers_and_subjects_do_not_leave_and_the_order_of_a_class_is_that_of_its_values() -> None:
    table = pa.table(
        {"name": list("dcba"), "who": range(4), "age": [30, 30, 30, 30], "ill": ["x", "w", "v", "u"]}
    )
    found, _ = streamed(table, quasi_identifiers="age", k=4, delay=10, identifiers="name", subject="who")
    assert found == [{"age": 30, "ill": ill} for ill in "uvwx"]


def test_means_of_wide_and_tiny_numbers_are_finite_and_depend_on_no_order() -> None:
    values = [1e308, 1.7e308, 1e308, 0.1, 0.2, 0.3]
    for ordered in (values, values[::-1]):
        found, _ = streamed(pa.table({"a": ordered}), quasi_identifiers="a", k=3, delay=10)
        assert sorted({row["a"] for row in found}) == [pytest.approx(0.2), pytest.approx(1.0e308 / 3 * 3.7)]


@pytest.mark.parametrize("scale", [None, {"a": (-1.7e308, 1.7e308)}])
def test_a_range_may_be_wider_than_the_largest_number(scale: dict[str, Any] | None) -> None:
    """By hand: the two ends are a range apart, and classes are of equal numbers."""
    table = pa.table({"a": [-1.7e308, 1.7e308] * 10})
    for options in ({}, {"method": "castle"}):
        found, report = streamed(table, quasi_identifiers="a", k=2, delay=10, scale=scale, **options)
        assert (len(found), report.mse) == (20, 0)


def test_the_last_digit_of_a_mean_does_not_depend_on_the_batches() -> None:
    """One class at a time or many at once: the same sum, in the order of the values, by Python's floats."""
    values = np.random.default_rng(4).random(400)
    asked = {"quasi_identifiers": "a", "k": 10, "delay": 50, "scale": {"a": (0, 1)}, "digits": 18}
    table = pa.table({"a": values, "place": range(400)})
    one, report = streamed(table, **asked)
    assert streamed(table, [1] * 400, **asked) == (one, report)
    assert len(one) > 300
    for first in range(0, len(one), 10):
        total = 0.0
        for value in sorted(values[row["place"]] for row in one[first : first + 10]):
            total += value
        assert one[first]["a"] == total / 10


# --- one after the other ------------------------------------------------------------------------------------


def test_what_is_given_is_whole_at_any_time() -> None:
    """Batches of one: after each, what was written is of whole classes, and what was read is counted."""
    table = pa.table({"age": [(7 * i) % 40 for i in range(200)], "n": range(200)})
    stream = duckanon.anonymize_stream(cut(table, [1] * 200), "age", k=4, delay=20, class_id=True)
    written = 0
    for batch in stream:
        sizes = Counter(batch.column("class_id").to_pylist())
        written += len(batch)
        report = stream.report
        assert set(sizes.values()) == {4}
        assert report.written == written
        assert report.read == written + report.dropped + report.held
        assert report.held <= 21
    assert (stream.report.written, stream.report.held) == (200, 0)
    with pytest.raises(StopIteration):
        next(stream)


def test_a_stream_that_is_closed_writes_nothing_more() -> None:
    table = pa.table({"age": range(100)})
    with duckanon.anonymize_stream(cut(table, [10] * 10), "age", k=2, delay=5) as stream:
        assert len(next(stream)) > 0
    assert list(stream) == []
    assert stream.report.written < 100


def test_a_generator_that_fails_leaves_what_was_given() -> None:
    def batches() -> Any:
        yield from cut(pa.table({"age": range(30)}), [10, 10])[:2]
        raise RuntimeError("the wire broke")

    stream = duckanon.anonymize_stream(batches(), "age", k=2, delay=5)
    assert len(next(stream)) > 0
    with pytest.raises(RuntimeError, match="the wire broke"):
        list(stream)
    assert stream.report.read == 20


def test_a_reader_and_an_empty_stream() -> None:
    table = pa.table({"age": pa.array([], pa.int64())})
    stream = duckanon.anonymize_stream(table.to_reader(), "age", k=2, delay=10)
    with pytest.raises(StopIteration):
        next(stream)
    stream = duckanon.anonymize_stream(cut(table, []), "age", k=2, delay=10)
    assert (rows_of(stream), stream.report.read, stream.schema.names) == ([], 0, ["age"])
    with pytest.warns(duckanon.DuckanonWarning, match="no tuple was written"):
        (row,) = [streamed(pa.table({"age": [3]}), quasi_identifiers="age", k=2, delay=10)]
    assert (row[0], row[1].held, row[1].mse) == ([], 1, None)


def test_the_report_is_json_and_the_hash_is_of_what_was_asked() -> None:
    table = pa.table({"age": range(20)})
    reports = [streamed(table, quasi_identifiers="age", k=2, delay=delay)[1] for delay in (10, 10, 11)]
    told = json.loads(reports[0].to_json())
    assert told["read"] == told["written"] + told["dropped"] + told["held"] == 20
    assert set(told["versions"]) == {"duckanon", "duckdb"}
    assert reports[0].policy_hash == reports[1].policy_hash != reports[2].policy_hash


def test_losses_are_those_of_the_classes() -> None:
    """By hand: 0, 1, 4, 6 on a scale of 10 in pairs: distances .05, .05, .1, .1; squares 25 and 100 of 10^-4."""
    _, report = streamed(
        pa.table({"a": [0, 1, 4, 6]}), quasi_identifiers="a", k=2, delay=10, scale={"a": (0, 10)}
    )
    assert report.mae == pytest.approx(0.075)
    assert report.mse == pytest.approx((2 * 0.0025 + 2 * 0.01) / 4)


# --- bad input ----------------------------------------------------------------------------------------------

GOOD = pa.table({"age": [30, 31, 32, 33], "ill": list("abcd"), "who": range(4)})
SCALE = "scale of 'age': give its two ends"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 1}, "k = 1"),
        ({"delay": 2, "k": 4}, "delay = 2: use a whole number of at least 3 (k - 1, for classes of k = 4)"),
        ({"delay": 10.0}, "delay = 10.0: use a whole number"),
        ({"order_weight": -1}, "order_weight = -1: use a number of at least 0"),
        ({"order_weight": float("nan")}, "order_weight = nan"),
        ({"method": "castel"}, "unknown method 'castel'"),
        ({"method": None}, "unknown method None of a stream: use steered | castle"),
        ({"method": ["castle"]}, "did you mean 'castle'?"),
        ({"recode": "mean"}, "recode takes a value for each column: write recode = {column: 'mean'}"),
        ({"weights": [1]}, "weights takes a value for each column"),
        ({"hierarchies": "zip.csv"}, "hierarchies takes a value for each column"),
        ({"distance": "ordered"}, "distance takes a value for each column"),
        ({"reference": ["all"]}, "reference = ['all']: use all | window"),
        ({"nulls": ["error"]}, "nulls = ['error']: use category | error"),
        ({"scale": "0:120"}, "scale = '0:120': give two ends for each column, as in {'age': (0, 120)}"),
        ({"scale": {5: (0, 1)}}, "scale names 5, which is no quasi-identifier"),
        ({"cluster": "near"}, "cluster = 'near': use nearest | grow"),
        ({"nulls": "suppress"}, "nulls = 'suppress': use category | error"),
        ({"recode": {"age": "hierarchy"}}, "add hierarchies = {age: 'table'}"),
        ({"recode": {"ill": "mean"}}, "ill"),
        ({"scale": {"agee": (0, 1)}}, "scale names 'agee', which is no quasi-identifier, did you mean 'age'?"),
        ({"scale": {"age": (1, 1)}}, "the first end must be below the second"),
        ({"scale": {"age": 3}}, SCALE),
        ({"scale": {"age": ("x", "y")}}, SCALE),
        ({"warm_up": 100}, "warm_up = 100 is more than delay + 1 = 11"),
        ({"warm_up": 0}, "warm_up = 0: use a whole number of at least 1"),
        ({"orderweight": 1}, "unknown option 'orderweight' of a stream, did you mean 'order_weight'?"),
        ({"quasi_identifiers": "agge"}, "did you mean 'age'"),
        ({"quasi_identifiers": "age", "identifiers": "AGE"}, "a column has one role"),
        ({"subject": "nobody"}, "nobody"),
        ({"subject": "age"}, "age"),
        ({"quasi_identifiers": ["age", "ill"], "scale": {"ill": (0, 1)}}, "scale of 'ill': its values are text"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_anything_is_read(options: dict[str, Any], words: str) -> None:
    asked = {"quasi_identifiers": "age", "k": 2, "delay": 10} | options
    with pytest.raises(PolicyError) as refused:
        duckanon.anonymize_stream(GOOD.to_batches(), **asked)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("later", "options", "words"),
    [
        ({"age": pa.array([1], pa.int32())}, {}, "batch 2 has 'age' as int32, not int64 as the first one"),
        ({"age": [1], "more": [1]}, {}, "batch 2 has the columns age, more, not age as the first one"),
        (
            {"age": pa.array([None], pa.int64())},
            {"nulls": "error"},
            "'age' is NULL in tuple 5, and nulls = 'error'",
        ),
    ],
)
def test_a_later_batch_that_does_not_fit(later: dict[str, Any], options: dict[str, Any], words: str) -> None:
    batches = [*GOOD.select(["age"]).to_batches(), *pa.table(later).to_batches()]
    stream = duckanon.anonymize_stream(batches, "age", k=2, delay=1, **options)
    assert len(next(stream)) > 0
    with pytest.raises(SourceError) as refused:
        list(stream)
    assert words in str(refused.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_without_a_place_are_named(value: float) -> None:
    table = pa.table({"a": [1.0, 2.0, value]})
    with pytest.raises(SourceError, match="'a' is NaN or infinite in tuple 3"):
        streamed(table, [2], quasi_identifiers="a", k=2, delay=10)


def test_other_columns_may_hold_what_they_like() -> None:
    table = pa.table({"a": [1.0, 2.0], "b": [float("nan"), None], "c": [[1], None]})
    found, _ = streamed(table, quasi_identifiers="a", k=2, delay=10)
    assert sorted(key(row["b"]) for row in found) == [(1,), (2,)]


def test_a_subject_of_null_is_named() -> None:
    table = pa.table({"a": [1, 2, 3, 4], "who": [1, 2, None, 4]})
    with pytest.raises(SourceError, match=r"subject \(who\) is NULL in tuple 3"):
        streamed(table, [1, 1], quasi_identifiers="a", k=2, delay=10, subject="who")


def test_nothing_at_all_and_a_column_twice() -> None:
    with pytest.raises(SourceError, match="no batch"):
        duckanon.anonymize_stream([], "age", k=2, delay=10)
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["age", "age"])
    with pytest.raises(SourceError, match="'age' twice"):
        duckanon.anonymize_stream([twice], "age", k=2, delay=10)
    with pytest.raises(PolicyError, match="class_id = True adds a column"):
        duckanon.anonymize_stream(
            pa.table({"class_id": [1], "a": [1]}).to_batches(), "a", k=2, delay=10, class_id=True
        )


def test_a_short_delay_is_warned_of() -> None:
    with pytest.warns(DuckanonWarning, match="delay = 9 is less than 5 k = 10"):
        duckanon.anonymize_stream(GOOD.to_batches(), "age", k=2, delay=9)


def test_a_class_that_is_none_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is wrong: two tuples of one subject together, and values that differ in a class."""
    push = kernel.push

    def wrong(buffer: Any, points: Any, subjects: Any, codes: Any) -> Any:
        return push(buffer, points, np.arange(len(points)), codes)

    monkeypatch.setattr(kernel, "push", wrong)
    table = pa.table({"age": [1] * 4, "who": [1, 1, 2, 2]})
    with pytest.raises(ReleaseError, match="please report this"):
        streamed(table, quasi_identifiers="age", k=2, delay=2, subject="who")
    monkeypatch.undo()
    monkeypatch.setattr(
        streams.Recoder, "written", lambda *given: (given[2], given[2], np.zeros(0, np.int64))
    )
    with pytest.raises(DuckanonError, match="please report this"):
        streamed(pa.table({"age": [1, 2, 3, 4]}), quasi_identifiers="age", k=2, delay=2)
