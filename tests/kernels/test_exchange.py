"""The exchange kernel beside the slow one: the same swaps and moves in the same order, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.exchange.exchange import sweep
from duckanon.kernels.exchange.ledger_state import LEDGER_LISTS
from duckanon.kernels.exchange.state import Search, neighbours, search_of
from tests.examples import examples
from tests.kernels.slow_exchange import slow_state_of, slow_sweep
from tests.kernels.test_ledger import DISTANCES, Attribute, attribute_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.slow

WANTED: tuple[dict[str, Any], ...] = (
    {"t": Decimal("0.1")},
    {"t": Decimal("0.25")},
    {"t": Decimal("0.4")},
    {"l": Decimal(2), "l_kind": "distinct"},
    {"l": Decimal("1.5"), "l_kind": "entropy"},
    {"l": Decimal(2), "l_kind": "recursive", "c": Decimal(2)},
    {"l": Decimal(3), "l_kind": "distinct", "t": Decimal("0.3")},
)
PRICES = (0.0, 2.0, 400.0, 1e9)
COMPARED = ("members", "size", "label", "place", "sums", "violation", "touched")


def check_sweeps(search: Search, near: int, prices: tuple[float, ...], most: int = 2**62) -> int:
    """Sweep with both kernels at some prices; assert that all stays equal; return the changes of classes."""
    slow = slow_state_of(search.state)
    for price in prices:
        state = search.at_price(price).state
        slow = slow._replace(bounds=state.bounds)
        seen, slow_seen = np.full((2, len(state.size)), -1)
        for _ in range(3):
            beside = neighbours(state, near)
            assert sweep(state, beside, seen, most) == slow_sweep(slow, beside, slow_seen, most)
            assert np.array_equal(seen, slow_seen)
            for name in COMPARED:
                assert np.array_equal(getattr(state, name), getattr(slow, name)), name
    return int(slow.touched[-1])


def searched(points: Any, labels: Any, k: int, attributes: list[Attribute]) -> Search:
    return search_of(points, labels, k, [a.codes for a in attributes], [a.threshold for a in attributes])


@st.composite
def searches(draw: st.DrawFn) -> Search:
    """Draw classes of mixed sizes, of points with ties or without, and up to three thresholds."""
    k, m = draw(st.sampled_from([1, 2, 3, 5])), draw(st.integers(2, 14))
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    n, d = k * m + draw(st.integers(0, k * m)), draw(st.integers(1, 4))
    highest = draw(st.sampled_from([None, None, 1, 3]))
    points: NDArray[np.float64] = random.normal(size=(n, d))
    if highest is not None:
        points = random.integers(0, highest + 1, (n, d)) * 0.1
    points = points * draw(st.sampled_from([1.0, 1e-160, 1e140])) + draw(st.sampled_from([0.0, 0.0, 1e6]))
    labels = np.concatenate([np.repeat(np.arange(m), k), random.integers(0, m, n - k * m)])
    attributes = []
    for _ in range(draw(st.integers(0, 3))):
        values = random.integers(0, draw(st.sampled_from([1, 4, 20])), n)
        wanted = draw(st.sampled_from(WANTED))
        attributes.append(attribute_of(values, draw(st.sampled_from(DISTANCES)), **wanted))
    return searched(points, random.permutation(labels), k, attributes)


@settings(max_examples=examples(400, 30))
@given(
    searches(), st.integers(1, 8), st.lists(st.sampled_from(PRICES), min_size=1, max_size=3),
    st.sampled_from([1, 2, 2**62]),
)  # fmt: skip
def test_the_same_exchanges_in_the_same_order(
    search: Search, near: int, prices: list[float], most: int
) -> None:
    """Order of the members, sums to the last bit and the clock tell of each swap and move that was made."""
    check_sweeps(search, near, tuple(prices), most)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_tile_with_every_distance(distance: Any) -> None:
    """Many exchanges, the first of them far from t."""
    random = np.random.default_rng(7)
    points = random.normal(size=(900, 3))
    values = np.digitize(points[:, 0] + random.normal(size=900), np.linspace(-2.0, 2.0, 30))
    attributes = [attribute_of(values, distance, t=Decimal("0.35"))]
    labels = np.argsort(np.argsort(points[:, 1])) // 6
    assert check_sweeps(searched(points, labels, 4, attributes), 6, (2.0, 400.0, 1e9)) > 500


@pytest.mark.parametrize("size", [6, 25, 60])
@pytest.mark.parametrize("others", [(), ("ordered",), ("equal", "ordered")])
def test_classes_that_keep_t_from_the_start(size: int, others: tuple[Any, ...]) -> None:
    """Swaps that windows leave: each class has its share of every stratum of the first attribute, about."""
    random, n = np.random.default_rng(size + len(others)), 840
    values = random.integers(0, 200, n)
    labels = np.argsort(np.argsort(values, kind="stable")) % (n // size)
    attributes = [attribute_of(values, "ordered", t=Decimal("0.15"))]
    attributes += [
        attribute_of(random.integers(0, 5 + 90 * (d == "ordered"), n), d, t=Decimal("0.7")) for d in others
    ]
    search = searched(random.normal(size=(n, 3)), labels, min(5, size), attributes)
    assert not search.state.violation.any()
    # With few exchanges of a pair at first: a kernel that breaks t may go on for ever.
    for most in (2, 2**62):
        assert check_sweeps(search, 5, (1e9, 1e9), most) > 100
        assert not search.state.violation.any()


@pytest.mark.parametrize("wanted", [WANTED[1], WANTED[6]])
@pytest.mark.parametrize("sizes", [(150, 20, 20), (40, 33, 120), (130, 127, 9)])
def test_large_classes_beside_small_ones(sizes: tuple[int, ...], wanted: dict[str, Any]) -> None:
    """Above and below the sizes that are put in order by counting, have windows, have listed crossings, and have too many pairs."""
    random = np.random.default_rng(sum(sizes))
    labels = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    points = random.normal(size=(len(labels), 2)) + labels[:, None] * 0.2
    values = np.minimum(random.geometric(0.1, len(labels)), 30) + labels
    attributes = [attribute_of(values, distance, **wanted) for distance in DISTANCES]
    search = searched(points, labels, 5, attributes)
    assert check_sweeps(search, 2, (20.0, 1e9)) > 0


def test_ledgers_that_do_not_fit_are_dropped_and_filled_again() -> None:
    """Sixty classes with three thresholds in memory for the lists of about two."""
    random = np.random.default_rng(11)
    points, labels = random.normal(size=(300, 2)), np.arange(300) // 5
    attributes = [attribute_of(random.integers(0, 9, 300), d, t=Decimal("0.45")) for d in DISTANCES]
    search = searched(points, labels, 3, attributes)
    state = search.state
    ledger = state.ledger._replace(
        lists=state.ledger.lists[:, : LEDGER_LISTS * 2 * (state.bounds.most + 2)].copy()
    )
    ledger.filled[:], ledger.span[:] = 0, 0
    small = replace(search, state=state._replace(ledger=ledger))
    assert check_sweeps(small, 6, (2.0, 1e9)) > 100


@pytest.mark.parametrize(("between", "changes"), [(7.9, True), (8.1, False)])
def test_pairs_are_passed_over_only_if_nothing_can_gain(between: float, changes: bool) -> None:
    """On a line, with classes of 5, a swap gains as soon as the two members that face each other overlap."""
    points = np.array([0.0, 0.0, 0.0, 0.0, 4.0] + [between] * 4 + [between - 4.0])[:, None]
    labels = np.arange(10) // 5
    assert (check_sweeps(searched(points, labels, 5, []), 1, (0.0,)) > 0) is changes


@pytest.mark.parametrize(("between", "changes"), [(4.49, True), (4.51, False)])
def test_pairs_are_passed_over_only_if_no_move_can_gain(between: float, changes: bool) -> None:
    """Of 5 records one is 4 from the mean of its class: 16 * 5 / 4 = 20 is more than far^2 * 4 / 5 below 5."""
    points = np.array([-1.0, -1.0, -1.0, -1.0, 4.0] + [between + 4.5] * 4)[:, None]
    labels = np.arange(9) // 5
    assert (check_sweeps(searched(points, labels, 4, []), 1, (0.0,)) > 0) is changes
