"""A search starts from any partition: one very large class among small ones, and odd seeds."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from numpy.typing import NDArray

from duckanon.kernels.compiled import compiled
from duckanon.kernels.exchange.rebuild import _ascend
from duckanon.kernels.exchange.refine import refine
from duckanon.kernels.exchange.state import LARGE_CLASS_RECORDS, labels_of, search_of, sse_left
from duckanon.kernels.loss import sse
from tests.kernels.test_ledger import attribute_of, meets

Labels = NDArray[np.int64]

N, K, BIG = 3000, 3, 2400


def lopsided() -> tuple[NDArray[np.float64], Labels]:
    """Give 3000 records: 200 classes of 3 at random, and all others in one, as merging may leave them."""
    points = np.random.default_rng(5).normal(size=(N, 2))
    labels = np.zeros(N, dtype=np.int64)
    labels[BIG:] = 1 + np.arange(N - BIG) // K
    return points, labels


def test_memory_is_for_the_classes_that_take_part() -> None:
    """Memory for 264 classes (200 and 64 spare) of 256 records, not of 2400; the SSE is theirs alone."""
    points, labels = lopsided()
    search = search_of(points, labels, K, [], [])
    assert search.state.bounds.most == LARGE_CLASS_RECORDS == 256
    assert search.state.members.size == (200 + 64) * 256
    moving = points[BIG:] - points[BIG:].mean(axis=0)
    own = labels[BIG:] - 1
    expected = sum(float(np.sum((moving[own == c] - moving[own == c].mean(axis=0)) ** 2)) for c in range(200))
    squares = float(np.sum(np.square(search.state.points)))
    assert sse_left(search.state, squares) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("values", "windows"), [(2**30, True), (2**30 + 1, False)])
def test_windows_are_kept_for_positions_of_thirty_bits(values: int, windows: bool) -> None:
    """A path with more of them is searched without: two ends of a window would not fit in one word."""
    attribute = attribute_of(np.arange(12), "ordered", t=Decimal("0.3"))
    search = search_of(
        np.arange(12.0)[:, None], np.arange(12) // 4, 2, [attribute.codes], [attribute.threshold]
    )
    table = search.state.rules.table.copy()
    table["values"] = values
    many = replace(search, state=search.state._replace(rules=search.state.rules._replace(table=table)))
    assert (many.at_price(1e9).state.bounds.sure > 0.0) == windows


def test_records_of_a_class_lie_together_and_come_out_in_their_order() -> None:
    """Classes 1, 0, 1, 2, 0, ...: the state has them one after the other, the result has them as given."""
    labels, points = np.array([1, 0, 1, 2, 0, 2, 0, 1, 2]), np.arange(9.0)[:, None]
    search = search_of(points, labels, 3, [], [])
    assert search.state.number.tolist() == [1, 4, 6, 0, 2, 7, 3, 5, 8]
    assert (search.state.points[:, 0].argsort() == search.state.record).all()
    assert labels_of(search).tolist() == [0, 1, 0, 2, 1, 2, 1, 0, 2]


@compiled
def ascend(codes: Labels, number: Labels, records: Labels) -> None:
    """Call from Python what only compiled code calls."""
    _ascend(codes, number, records)


def test_equal_codes_stand_in_the_order_in_which_records_were_given() -> None:
    """By hand: codes 5, 3, 5, 3 of records given as 3rd, 2nd, 1st and 4th: by code, then 2nd, 4th, 1st, 3rd."""
    records, number = np.arange(4), np.array([2, 1, 0, 3])
    ascend(np.array([[5, 3, 5, 3]]), number, records)
    assert records.tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("limit", [None, Decimal("0.45")])
def test_a_very_large_class_stays_and_the_others_get_better(limit: Decimal | None) -> None:
    """Without t and with one that every class of three meets before and has to meet afterwards."""
    points, labels = lopsided()
    attributes = [attribute_of(np.arange(N) % 2, "equal", t=limit)] if limit else []
    if attributes:
        # Two of three with the same value are at EMD 1/6 of the even split, three at 1/2: deal them mixed.
        attributes = [attribute_of((np.arange(N) % 3 == 0).astype(np.int64), "equal", t=limit)]
    asked = {"codes": [a.codes for a in attributes], "thresholds": [a.threshold for a in attributes]}
    refined = refine(points, labels, K, effort="balanced", share=0.05, **asked)
    stayed = refined[:BIG]
    assert (stayed == stayed[0]).all()
    assert not (refined[BIG:] == stayed[0]).any()
    assert np.bincount(refined).min() >= K
    assert sse(points[BIG:], np.unique(refined[BIG:], return_inverse=True)[1]) < 0.5 * sse(
        points[BIG:], labels[BIG:] - 1
    )
    for own in (np.flatnonzero(refined == c) for c in range(int(refined.max()) + 1)):
        assert all(meets(a, own) for a in attributes)


def test_a_large_class_that_comes_last_keeps_its_name_to_itself() -> None:
    """Its number is above those of all others, and is no number of a class that moves."""
    points, labels = lopsided()
    backwards = np.where(labels == 0, 200, labels - 1)
    refined = refine(points, backwards, K, effort="fast")
    assert (refined[:BIG] == refined[0]).all()
    assert not (refined[BIG:] == refined[0]).any()


def test_nothing_to_move_leaves_one_class() -> None:
    """A single class of more than 256 records takes no part at all."""
    points = np.random.default_rng(1).normal(size=(600, 2))
    one = refine(points, np.zeros(600, dtype=np.int64), 3)
    assert one.tolist() == [0] * 600


@pytest.mark.parametrize("seed", [-1, 0, 2**64 - 1, 2**70])
def test_every_integer_is_a_seed(seed: int) -> None:
    points = np.random.default_rng(2).normal(size=(90, 2))
    start = np.arange(90, dtype=np.int64) // 3
    refined = refine(points, start, 3, seed=seed, share=0.05)
    assert np.bincount(refined).min() >= 3
    assert sse(points, refined) < sse(points, start)
