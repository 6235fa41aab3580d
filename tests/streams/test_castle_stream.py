"""anonymize_stream with method = 'castle': classes of the paper, their ranges exact, whatever the batches."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import PolicyError, ReleaseError, SourceError
from duckanon.kernels.castle import stream as kernel
from duckanon.streams import methods
from tests.examples import examples
from tests.oracle_castle import Stream, expected
from tests.streams.test_anonymize_stream import GOOD, TYPES, cut, streamed

pytestmark = pytest.mark.filterwarnings(
    "ignore:delay = :duckanon.DuckanonWarning", "ignore:no tuple was written:duckanon.DuckanonWarning"
)


@pytest.mark.slow
@settings(max_examples=examples(100, 30), deadline=None)
@given(st.data())
def test_ranges_are_those_of_the_paper(data: st.DataObject) -> None:
    """Any batches: what leaves when with which range, what is dropped, and what the report says of it."""
    size, k = data.draw(st.integers(1, 60)), data.draw(st.integers(2, 4))
    delay = data.draw(st.integers(k - 1, 15))
    whole = st.integers(0, 16)
    ages, pays = (data.draw(st.lists(whole, min_size=size, max_size=size)) for _ in range(2))
    by_subject = data.draw(st.booleans())
    persons = data.draw(st.lists(st.integers(0, 7), min_size=size, max_size=size)) if by_subject else None
    clusters, recent = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    columns = {"age": ages, "pay": pa.array(pays, pa.float64()), "place": range(size)}
    table = pa.table(columns if persons is None else {**columns, "who": persons})
    found, report = streamed(
        table, data.draw(st.lists(st.integers(0, 20), max_size=4)), method="castle",
        quasi_identifiers=["age", "pay"], k=k, delay=delay, clusters=clusters, recent=recent,
        subject="who" if by_subject else None, scale={"age": (0, 16), "pay": (0, 16)}, class_id=True,
    )  # fmt: skip
    points = [(age / 16, pay / 16) for age, pay in zip(ages, pays, strict=True)]
    wanted = expected(Stream(points, k, delay, clusters, recent, methods.REUSABLE_CLASSES, persons))
    rows = []
    for _, number, _, box, members in wanted.left:
        (low, high), (least, most) = [(int(16 * a), int(16 * b)) for a, b in box]
        for place in members:
            age, pay = {"low": low, "high": high}, {"low": float(least), "high": float(most)}
            rows.append({"age": age, "pay": pay, "place": place, "class_id": number})
    assert sorted(found, key=lambda row: row["place"]) == sorted(rows, key=lambda row: row["place"])
    assert [row["class_id"] for row in found] == [row["class_id"] for row in rows]
    assert (report.read, report.written, report.dropped, report.held) == (
        size, len(rows), len(wanted.dropped), len(wanted.held),
    )  # fmt: skip
    check_report(report, wanted.left, points)


def check_report(report: Any, left: list[Any], points: list[tuple[float, float]]) -> None:
    """Losses of midpoints and widths, delays and spans, once more."""
    tuples = [(time, box, member) for time, _, _, box, members in left for member in members]
    assert report.alone == sum(alone for _, _, alone, _, _ in left)
    assert report.classes == len(left) - report.alone
    if not tuples:
        assert (report.mse, report.mean_width, report.largest_delay) == (None,) * 3
        return
    squares = [
        sum(float(x - (low + high) / 2) ** 2 for x, (low, high) in zip(points[member], box, strict=True))
        for _, box, member in tuples
    ]
    # They are told in three digits.
    assert report.mse == pytest.approx(np.mean(squares), rel=5e-3)
    assert report.mae == pytest.approx(np.mean(np.sqrt(squares)), rel=5e-3)
    widths = [float(high - low) for _, box, _ in tuples for low, high in box]
    assert report.mean_width == pytest.approx(np.mean(widths), rel=5e-3)
    assert report.largest_delay == max(time - member for time, _, member in tuples)
    spans = [members[-1] - members[0] for _, _, alone, _, members in left if not alone]
    assert report.mean_span == pytest.approx(np.mean(spans))


@pytest.mark.slow
@settings(max_examples=examples(40, 5), deadline=None)
@given(st.data())
def test_at_any_time_every_range_is_of_k_subjects_and_batches_do_not_matter(data: st.DataObject) -> None:
    """Batches of one: what was given out so far; then one batch, and any others, give the same."""
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    size, k = 150, 3
    table = pa.table(
        {
            "age": random.integers(0, 40, size),
            "day": pa.array(random.integers(0, 90, size).astype(np.int32)).cast(pa.date32()),
            "who": random.integers(0, 40, size),
            "n": range(size),
        }
    )
    asked = {
        "quasi_identifiers": ["age", "day"], "k": k, "delay": data.draw(st.integers(6, 40)),
        "method": "castle", "clusters": data.draw(st.integers(1, 20)), "warm_up": data.draw(st.integers(1, 7)),
    }  # fmt: skip
    persons = table.column("who").to_pylist()
    stream = duckanon.anonymize_stream(cut(table, [1] * size), subject="who", **asked)
    seen: dict[str, set[int]] = defaultdict(set)
    found = []
    for batch in stream:
        for row in batch.to_pylist():
            seen[str((row["age"], row["day"]))].add(persons[row["n"]])
            found.append(row)
        assert all(len(subjects) >= k for subjects in seen.values())
        report = stream.report
        assert report.read == report.written + report.dropped + report.held
        assert report.held <= asked["delay"] + 1
    assert streamed(table, subject="who", **asked) == (found, stream.report)
    cuts = data.draw(st.lists(st.integers(0, 40), max_size=6))
    assert streamed(table, cuts, subject="who", **asked) == (found, stream.report)
    for row in found:
        assert row["age"]["low"] <= table.column("age")[row["n"]].as_py() <= row["age"]["high"]


@pytest.mark.parametrize(
    "name",
    [name for name in TYPES if name not in {"text", "large", "category", "boolean", "view", "half", "paris"}],
)
def test_ranges_have_the_type_of_the_column(name: str) -> None:
    """By the column's own values, to the type, in batches of one: one class of two values, one that is used again."""
    values = TYPES[name].drop_null()
    column = values.take(pa.array([0, 2, 0, 0, 0]))
    table = pa.table({"a": column, "n": range(5)})
    found, report = streamed(table, [1] * 5, quasi_identifiers="a", k=2, delay=1, method="castle", warm_up=2)
    kind = table.schema.field("a").type
    stream = duckanon.anonymize_stream(table.to_batches(), "a", k=2, delay=1, method="castle")
    # DuckDB names the zone in its own way.
    ends = [str(field.type).replace("Etc/UTC", "UTC") for field in stream.schema.field("a").type]
    assert ends == [str(kind)] * 2
    low, high = sorted(column[:2].to_pylist())
    assert [row["a"] for row in found[:2]] == [{"low": low, "high": high}] * 2
    first = column[0].as_py()
    assert [row["a"] for row in found[2:4]] == [{"low": first, "high": first}] * 2
    assert (report.written, report.alone, report.held) == (5, 1, 0)


@pytest.mark.parametrize(("more", "outcome"), [(0, (1, 0)), (1, (0, 1))])
def test_a_tuple_outside_of_a_range_by_less_than_a_coordinate_tells_is_dropped(
    more: int, outcome: tuple[int, int]
) -> None:
    """2^60 and 2^60 + 1 are one number of 53 bits: the class of the first may not be said of the second."""
    table = pa.table({"a": [0, 2**59, 2**60, 2**60, 2**60 + more, 0], "n": range(6)})
    for sizes in ([], [1] * 6):
        found, report = streamed(
            table, sizes, quasi_identifiers="a", k=2, delay=1, method="castle", scale={"a": (0, 2**60)}
        )
        assert (report.alone, report.dropped, report.held) == (*outcome, 1)
        assert [row["n"] for row in found] == [0, 1, 2, 3, 4][: len(found)]
        assert all(row["a"] == {"low": 2**60, "high": 2**60} for row in found[2:])


def test_recent_and_clusters_are_part_of_what_was_asked() -> None:
    asked = [{"method": "castle", "clusters": number, "recent": 100} for number in (50, 51)]
    hashes = [
        duckanon.anonymize_stream(GOOD.to_batches(), "age", k=2, delay=10, **options).report.policy_hash
        for options in ({}, {"method": "castle"}, *asked)
    ]
    assert hashes[1] == hashes[2]
    assert len(set(hashes)) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quasi_identifiers": ["age", "ill"]}, "'ill' is text: method = 'castle' releases ranges"),
        ({"recode": {"age": "mean"}}, "recode = 'mean' of 'age': method = 'castle' releases ranges"),
        ({"nulls": "category"}, "nulls = 'category' is not yet for method = 'castle'"),
        ({"order_weight": 0.1}, "order_weight is for method = 'steered'"),
        ({"cluster": "grow"}, "cluster is for method = 'steered'"),
        ({"clusters": 0}, "clusters = 0: use a whole number of at least 1"),
        ({"recent": 1.5}, "recent = 1.5: use a whole number"),
        (
            {"method": "steered", "clusters": 5},
            "clusters is for method = 'castle': leave it out for 'steered'",
        ),
        ({"method": "steered", "recent": 5}, "recent is for method = 'castle'"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], words: str) -> None:
    asked = {"quasi_identifiers": "age", "k": 2, "delay": 10, "method": "castle"} | options
    with pytest.raises(PolicyError) as refused:
        duckanon.anonymize_stream(GOOD.to_batches(), **asked)
    assert words in str(refused.value)


def test_null_is_named() -> None:
    table = pa.table({"age": [1, None, 3]})
    with pytest.raises(SourceError, match="'age' is NULL in tuple 2"):
        streamed(table, quasi_identifiers="age", k=2, delay=10, method="castle")


def test_a_class_of_too_few_subjects_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    push = kernel.push
    monkeypatch.setattr(
        kernel, "push", lambda castle, points, _: push(castle, points, np.arange(len(points)))
    )
    table = pa.table({"age": [1] * 4, "who": [1, 1, 1, 2]})
    with pytest.raises(ReleaseError, match="please report this"):
        streamed(table, quasi_identifiers="age", k=2, delay=2, subject="who", method="castle")
