"""t and l of a stream: every class by an oracle in fractions, at the time when it leaves."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import PolicyError, ReleaseError, SourceError
from duckanon.kernels.steered import stream as kernel
from duckanon.streams import stream as streams
from tests.examples import examples
from tests.oracle import counts, exact, reaches_l
from tests.oracle_stream import Asked, Stream, emd, expected
from tests.streams.test_anonymize_stream import cut, streamed

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{begin}:duckanon.DuckanonWarning")
    for begin in ("delay = ", "alpha names ", "no tuple was written")
]

NUMBERS = [-1.5, -0.0, 0.0, 2.0, math.nan, None]
TEXTS = ["", "a", "Ä", "b", None]


def ranked(values: list[Any]) -> list[int]:
    """Ranks of values as SQL orders them: equal numbers are one, NaN after all others and NULL last."""
    keys = [(2, 0) if value is None else (1, 0) if value != value else (0, value) for value in values]
    order = sorted(set(keys))
    return [order.index(key) for key in keys]


@settings(max_examples=examples(150, 12), deadline=None)
@given(st.data())
def test_classes_are_those_of_the_oracle_whatever_the_batches(data: st.DataObject) -> None:
    size, k = data.draw(st.integers(1, 50)), data.draw(st.integers(2, 3))
    delay = data.draw(st.integers(k - 1, 12))
    ages, pays, ills = (
        data.draw(st.lists(st.sampled_from(values), min_size=size, max_size=size))
        for values in (range(9), NUMBERS, TEXTS)
    )
    persons = data.draw(st.none() | st.lists(st.integers(0, 5), min_size=size, max_size=size))
    window = data.draw(st.sampled_from([0, delay + 1, delay + 9]))
    t = data.draw(st.sampled_from(["0.1", "0.25", "0.5", "0.9"]))
    columns = {
        "age": pa.array(ages, pa.int8()),
        "pay": pa.array(pays, data.draw(st.sampled_from([pa.float64(), pa.float32(), pa.float16()]))),
        "ill": pa.array(ills, data.draw(st.sampled_from([pa.string(), pa.string_view(), pa.large_string()]))),
        "place": pa.array(range(size)),
    }
    if data.draw(st.booleans()):
        columns["ill"] = columns["ill"].cast(pa.string()).dictionary_encode()
    if persons is not None:
        columns["who"] = pa.array(persons)
    found, report = streamed(
        pa.table(columns), data.draw(st.lists(st.integers(0, 20), max_size=4)),
        quasi_identifiers="age", k=k, delay=delay, scale={"age": (0, 8)}, class_id=True,
        subject=None if persons is None else "who", sensitive=["pay", "ill"], t={"pay": t}, l={"ill": 2},
        reference="window" if window else "all", **({"window": window} if window else {}),
    )  # fmt: skip
    stream = Stream(
        [(age / 8,) for age in ages], k, delay, subjects=persons, flush=True,
        values=[ranked(pays), ranked(ills)],
        asked=[Asked(True, Fraction(t), 1), Asked(False, None, 2)], window=window,
    )  # fmt: skip
    wanted = expected(stream)
    rows = defaultdict(list)
    for row in found:
        rows[row["class_id"]].append(row)
    assert [sorted(row["place"] for row in rows[number]) for number in sorted(rows)] == wanted.classes
    assert report.dropped_for == {
        "few": len(wanted.dropped) - len(wanted.apart), "closeness": len(wanted.apart),
    }  # fmt: skip
    assert (report.written, report.held) == (len(found), len(wanted.held))
    assert report.largest_class == max(map(len, wanted.classes), default=0)
    check_told(report, stream, wanted.classes)


def check_told(report: Any, stream: Stream, classes: list[list[int]]) -> None:
    """The farthest class, and that of the fewest values, counted once more."""
    for name, values, asked in zip(("pay", "ill"), stream.values, stream.asked, strict=True):
        told = report.closeness["columns"][name]
        far, least = [Fraction(0)], []
        for members in classes:
            read = min(members[0] + stream.delay + 1, len(values))
            first = max(0, read - stream.window) if stream.window else 0
            far.append(emd([values[i] for i in members], values[first:read], asked.ordered))
            least.append(len({values[i] for i in members}))
        assert told["largest_emd"] == float(max(far))
        assert told["least_values"] == min(least, default=0)


ILLS = ["flu", "cold", "acne", "rash", "hiv", None]
TREE = [("flu", "lung", "any"), ("cold", "lung", "any"), ("acne", "skin", "any"), ("rash", "skin", "any")]
TREE += [("hiv", "blood", "any")]
PATHS = [(0, 10, 20), (1, 10, 20), (2, 11, 20), (3, 11, 20), (4, 12, 20), (5, 13, 20)]
"""Nodes of the tree by place in ILLS: NULL has nodes of its own below the root."""


def asked_of(ills: list[Any], options: dict[str, Any]) -> tuple[list[int], Asked]:
    """Places of values in ILLS, and the options of a stream as the oracle has them."""
    shares = options.get("alpha")
    if isinstance(shares, dict):
        shares = {
            ILLS.index(value): Fraction(str(share)) for value, share in shares["ill"].items() if value in ILLS
        }
    elif shares is not None:
        shares = dict.fromkeys(range(len(ILLS)), Fraction(str(shares)))
    return [ILLS.index(value) for value in ills], Asked(
        False, Fraction(str(options["t"])) if "t" in options else None, options.get("l", 1),
        Fraction(str(options["c"])) if "c" in options else None, PATHS if "distance" in options else None, shares,
    )  # fmt: skip


@settings(max_examples=examples(300, 25), deadline=None)
@given(data=st.data())
def test_trees_shares_and_recursive_l_are_those_of_the_oracle(data: st.DataObject) -> None:
    size, k = data.draw(st.integers(1, 50)), data.draw(st.integers(2, 3))
    delay = data.draw(st.integers(k - 1, 12))
    ages = data.draw(st.lists(st.integers(0, 8), min_size=size, max_size=size))
    ills = data.draw(st.lists(st.sampled_from(ILLS), min_size=size, max_size=size))
    tree: dict[str, Any] = {"distance": {"ill": "hierarchical"}, "hierarchies": {"ill": TREE}}
    options: dict[str, Any] = data.draw(
        st.sampled_from([
            {"t": 0.25, **tree},
            {"t": 0.5, "l": 2, **tree},
            {"alpha": 0.5},
            {"alpha": {"ill": {"hiv": 0.25, "flu": 0.5, "gout": 0.1}}},
            {"l": 2, "l_diversity": "recursive", "c": 1},
            {"l": 1, "l_diversity": "recursive", "c": 0.6, "t": 0.6},
        ])
    )  # fmt: skip
    window = data.draw(st.sampled_from([0, delay + 1, delay + 9]))
    if window:
        options |= {"reference": "window", "window": window}
    table = pa.table({"age": ages, "ill": pa.array(ills, pa.string()), "place": range(size)})
    found, report = streamed(
        table, data.draw(st.lists(st.integers(0, 20), max_size=4)), quasi_identifiers="age", k=k, delay=delay,
        scale={"age": (0, 8)}, class_id=True, sensitive="ill", **options,
    )  # fmt: skip
    places, asked = asked_of(ills, options)
    points = [(age / 8,) for age in ages]
    wanted = expected(Stream(points, k, delay, flush=True, values=[places], asked=[asked], window=window))
    rows = defaultdict(list)
    for row in found:
        rows[row["class_id"]].append(row["place"])
    assert [sorted(rows[number]) for number in sorted(rows)] == wanted.classes
    assert report.dropped_for["closeness"] == len(wanted.apart)


def test_a_value_that_alpha_names_and_no_tuple_has_is_a_warning() -> None:
    table = pa.table({"age": [1, 2, 3, 4], "ill": ["hiv", "flu", "acne", "flu"]})
    with pytest.warns(
        duckanon.DuckanonWarning, match=r"alpha names 'HIV', which no tuple has in 'ill'"
    ) as told:
        streamed(
            table, [2], quasi_identifiers="age", k=2, delay=10, sensitive="ill",
            alpha={"ill": {"HIV": 0.5, "flu": 0.5}},
        )  # fmt: skip
    assert sum("alpha names" in str(one.message) for one in told) == 1


@settings(max_examples=examples(300, 25), deadline=None)
@given(data=st.data())
def test_a_class_keeps_what_is_asked_and_leaves_within_its_delay(data: st.DataObject) -> None:
    """Entropy l, too: judged by the oracle of releases, class by class; no tuple is lost."""
    size, k = data.draw(st.integers(1, 60)), data.draw(st.integers(2, 4))
    delay = data.draw(st.integers(k - 1, 20))
    ages = data.draw(st.lists(st.integers(0, 30), min_size=size, max_size=size))
    ills = data.draw(st.lists(st.sampled_from(ILLS), min_size=size, max_size=size))
    kind = data.draw(st.sampled_from(["distinct", "entropy", "recursive"]))
    least = (
        data.draw(st.sampled_from(["2", "2.5", "3"])) if kind == "entropy" else data.draw(st.integers(1, 3))
    )
    c = data.draw(st.sampled_from(["0.7", "1", "2.5"])) if kind == "recursive" else None
    alpha = data.draw(st.none() | st.sampled_from(["0.34", "0.5"]))
    persons = data.draw(st.none() | st.lists(st.integers(0, 9), min_size=size, max_size=size))
    columns: dict[str, Any] = {"age": ages, "ill": pa.array(ills, pa.string())}
    found, report = streamed(
        pa.table(columns | ({} if persons is None else {"who": persons})), quasi_identifiers="age", k=k,
        delay=delay, class_id=True, sensitive="ill", l=least, l_diversity=kind,
        **({} if c is None else {"c": c}), **({} if alpha is None else {"alpha": alpha}),
        **({} if persons is None else {"subject": "who"}),
    )  # fmt: skip
    rows = defaultdict(list)
    for row in found:
        rows[row["class_id"]].append(row)
    for members in rows.values():
        held = counts(members, "ill")
        assert len(members) >= k
        assert reaches_l(held, exact(least), kind, None if c is None else exact(c))
        assert alpha is None or max(held.values()) <= exact(alpha) * len(members)
    assert (report.largest_delay or 0) <= delay
    assert report.read == report.written + report.dropped + report.held == size
    assert Counter(row["ill"] for row in found) <= Counter(ills)


def test_what_is_told_of_each_threshold() -> None:
    """By hand, k = 2, delay = 3: 31 and 32 have the flu, so the class takes the nearest of another illness, 35.

    The flu has 2 of 3. In the tree the cold is beside it, half as far as other illnesses: below the leaves are
    4 nodes of the four read, EMD (|2/3 - 1/2| + |1/3 - 1/4| + |0 - 1/4|) / 2 = 1/4; above, lung has 3 of 3
    and of 4, skin none and 1: (1/4 + 1/4) / 2 = 1/4; the mean is 1/4.
    """
    table = pa.table({"age": [31, 32, 35, 60], "ill": ["flu", "flu", "cold", "acne"]})
    _, report = streamed(
        table, quasi_identifiers="age", k=2, delay=3, sensitive="ill", l=2, l_diversity="recursive", c=3,
        t=0.3, alpha=0.7, distance={"ill": "hierarchical"}, hierarchies={"ill": TREE},
    )  # fmt: skip
    assert report.closeness["columns"]["ill"] == {
        "distance": "hierarchical", "t": 0.3, "l": 2, "l_diversity": "recursive", "c": 3.0,
        "largest_emd": 0.25, "least_values": 2, "alpha": 0.7, "largest_share": 2 / 3,
    }  # fmt: skip


def test_a_value_outside_the_tree_ends_the_stream() -> None:
    table = pa.table({"age": range(9), "ill": ["flu"] * 8 + ["gout"]})
    with pytest.raises(SourceError, match="sensitive column 'ill' is 'gout' in tuple 9, which is no leaf"):
        streamed(
            table, [4, 4], quasi_identifiers="age", k=2, delay=3, sensitive="ill", t=0.9,
            distance={"ill": "hierarchical"}, hierarchies={"ill": TREE},
        )  # fmt: skip


def test_by_hand() -> None:
    """k = 2, delay = 3: 31 and 32 both have the flu, and the nearest of another illness is 35.

    Of 31, 32, 35 the values are 2/3 and 1/3, of the four that were read 1/2, 1/4, 1/4: EMD is 1/4.
    """
    table = pa.table({"age": [31, 32, 35, 60], "ill": ["flu", "flu", "cold", "acne"]})
    found, report = streamed(
        table, quasi_identifiers="age", k=2, delay=3, sensitive="ill", l=2, recode={"age": "range"}
    )
    assert found == [{"age": {"low": 31, "high": 35}, "ill": ill} for ill in ("cold", "flu", "flu")]
    assert report.closeness == {
        "reference": "all", "window": None,
        "columns": {
            "ill": {"distance": "equal", "t": None, "l": 2, "largest_emd": 0.25, "least_values": 2}
        },
    }  # fmt: skip
    assert (report.held, report.dropped_for) == (1, {"few": 0, "closeness": 0})


def test_a_class_that_keeps_neither_t_nor_l_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that does not do what is asked, and one that counts other values than those that are written."""
    push = kernel.push

    def careless(buffer: Any, *given: Any) -> Any:
        buffer.seen.t[:], buffer.seen.l[:], buffer.seen.l_kinds[:], buffer.seen.shared[:] = 1, 1, 1, False
        return push(buffer, *given)

    table = pa.table({"age": [1, 1, 9, 9], "ill": ["a", "a", "b", "b"]})
    options: dict[str, Any] = {"quasi_identifiers": "age", "k": 2, "delay": 3, "sensitive": "ill"}
    monkeypatch.setattr(kernel, "push", careless)
    recursive, entropy = {"l_diversity": "recursive", "c": 1}, {"l_diversity": "entropy"}
    for asked in ({"t": 0.4}, {"l": 2}, {"l": 1, **recursive}, {"l": 1.5, **entropy}, {"alpha": 0.9}):
        with pytest.raises(ReleaseError, match=r"EMD of 0.5, where .* it was not written"):
            streamed(table, **options, **asked)
    assert len(streamed(table, **options, t=0.5)[0]) == 4
    monkeypatch.undo()
    written = streams.Recoder.written

    def other(*given: Any) -> Any:
        made, values, outside = written(*given)
        return made.set_column(1, "ill", pa.array(["a"] * len(made))), values, outside

    monkeypatch.setattr(streams.Recoder, "written", other)
    with pytest.raises(ReleaseError, match="it was not written"):
        streamed(table, **options, l=2)


@pytest.mark.parametrize("asked", [{"t": 0.3}, {"l": 2}])
def test_a_window_forgets_values_that_left_it(asked: dict[str, Any]) -> None:
    """Every tuple has a value of its own: what is known stays within the window and a batch."""
    table = pa.table({"age": np.arange(5000) % 90, "pay": np.random.default_rng(1).normal(size=5000)})
    stream = duckanon.anonymize_stream(
        cut(table, [100] * 49), ["age"], k=3, delay=50, sensitive="pay", reference="window", **asked
    )
    with stream:
        state = stream._output.gi_frame.f_locals["state"]
        most = 0
        for _ in stream:
            most = max(most, len(state.guard.counts[0]))
    assert stream.report.closeness["window"] == 510
    assert 510 < most <= 610
    assert stream.report.written > 4900


def test_more_values_than_have_exact_sums_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duckanon.kernels.steered.stream.SUM_LIMIT", 1000)
    table = pa.table({"age": range(40), "pay": range(40)})
    with pytest.raises(SourceError, match="are too many for exact sums: use a window"):
        streamed(table, quasi_identifiers="age", k=2, delay=10, sensitive="pay", t=0.5)


def test_values_of_any_representation_are_what_they_stand_for() -> None:
    """Each column has a, b and NULL, or 1, 2 and NULL, by turns: as a plain column of them."""
    texts, numbers = ["a", "b", None] * 10, [Decimal(1), Decimal(2), None] * 10
    places = pa.array([0, 1, 2] * 10, pa.int8())
    plain = {"text": pa.array(texts), "number": pa.array(numbers, pa.decimal128(5, 2))}
    for name, other in (
        ("text", pa.DictionaryArray.from_arrays(places, pa.array(["a", "b", None]))),
        ("text", pc.run_end_encode(pa.array(texts))),
        ("text", pa.array(texts, pa.string_view())),
        ("number", pa.array(numbers, pa.decimal32(5, 2))),
        ("number", pa.array(numbers, pa.decimal64(5, 2))),
    ):
        options: dict[str, Any] = {"quasi_identifiers": "age", "k": 2, "delay": 10, "sensitive": "x"}
        results = []
        for values in (plain[name], other):
            table = pa.table({"age": [i % 7 for i in range(30)], "x": values})
            results.append(streamed(table, [7, 1], **options, l=2, t=0.6)[0])
            assert streamed(table, [7, 1], **options)[0]
        assert results[0] == results[1]
        assert len(results[0]) > 20


def test_a_column_that_is_named_and_of_which_nothing_is_asked_is_as_any_other() -> None:
    table = pa.table({"age": [1, 2, 3, 4], "ill": ["a", "a", "b", "b"]})
    plain, _ = streamed(table, quasi_identifiers="age", k=2, delay=3)
    named, report = streamed(table, quasi_identifiers="age", k=2, delay=3, sensitive="ill")
    assert (named, report.closeness) == (plain, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"t": 0.2}, "t = 0.2 needs sensitive columns"),
        ({"sensitive": "ill", "l": 2, "method": "castle"}, "l is for method = 'steered'"),
        ({"sensitive": "ill", "t": 0.1, "method": "castle"}, "t is for method = 'steered'"),
        ({"sensitive": "ill", "t": 0.2, "reference": "some"}, "reference = 'some': use all | window"),
        ({"sensitive": "ill", "reference": "window"}, "is what t is measured from: give t or l"),
        ({"sensitive": "ill", "t": 0.2, "window": 50}, "window = 50 needs reference = 'window'"),
        (
            {"sensitive": "ill", "t": 0.2, "reference": "window", "window": 5},
            "window = 5: use a whole number of at least 11 .delay \\+ 1: a class is of tuples in it",
        ),
        (
            {"sensitive": "ill", "t": 0.2, "distance": {"ill": "hierarchical"}},
            "distance of 'ill' is 'hierarchical' and has no tree",
        ),
        ({"sensitive": "tags", "l": 2}, "sensitive column 'tags' is VARCHAR\\[\\], which is not yet"),
        ({"sensitive": "age", "l": 2}, "'age'"),
        ({"sensitive": "ill", "l": 2, "l_diversity": "recursive"}, "recursive l-diversity needs c above 0"),
        ({"sensitive": "ill", "l": 2, "c": 2}, "c belongs to l_diversity = 'recursive'"),
        ({"sensitive": "ill", "alpha": 0}, "alpha = 0: use a number above 0 and at most 1"),
        ({"sensitive": "pay", "alpha": {"pay": {"1": 0.2}}}, "in a stream only texts are named; CAST it to"),
        ({"sensitive": "ill", "delta": 1}, "delta is not for streams: it bounds shares by those of the whole"),
        ({"sensitive": "ill", "alpha": 0.5, "method": "castle"}, "alpha is for method = 'steered'"),
        (
            {"sensitive": "ill", "l": 2, "l_diversity": "entropy", "method": "castle"},
            "l is for method = 'steered'",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(options: dict[str, Any], message: str) -> None:
    table = pa.table({"age": [1, 2], "ill": ["a", "b"], "tags": [["a"], ["b"]], "pay": [1, 2]})
    with pytest.raises(PolicyError, match=message):
        streamed(table, **{"quasi_identifiers": "age", "k": 2, "delay": 10, **options})


def test_all_of_one_value_is_within_any_t_and_never_of_l_2() -> None:
    table = pa.table({"age": range(40), "ill": [None] * 40})
    table = table.set_column(1, "ill", table.column("ill").cast(pa.string()))
    options: dict[str, Any] = {"quasi_identifiers": "age", "k": 2, "delay": 10, "sensitive": "ill"}
    assert len(streamed(table, **options, t=0.001)[0]) == 40
    found, report = streamed(table, **options, l=2)
    assert (found, report.held, report.dropped_for) == ([], 1, {"few": 0, "closeness": 39})
