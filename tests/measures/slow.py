"""What the tests of the measures share: random partitions, and slow formulas in pure Python."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.oracle import key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "whole numbers": st.integers(-2, 4),
    "numbers": st.sampled_from([0.0, -0.0, 1.5, 2.0, float("nan"), float("inf")]),
    "numbers or None": st.sampled_from([None, 1.0, 2.5, float("nan")]),
    "text": st.sampled_from(["", "a", "b", "ab", "é"]),
    "text or None": st.sampled_from([None, "a", "b"]),
    "booleans": st.booleans(),
}
"""Sensitive values of several types, few each, so that classes share them."""


@st.composite
def partitions(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw points and a partition of them into classes, none empty."""
    n = draw(st.integers(1, 20))
    # Whole hundredths: what differs differs by enough for every scale.
    points = draw(arrays(np.int64, (n, draw(st.integers(1, 3))), elements=st.integers(-(10**4), 10**4)))
    return points / 100.0, draw(labels_of(n))


@st.composite
def labels_of(draw: st.DrawFn, n: int) -> NDArray[np.int64]:
    """Draw the labels of a partition of n records into classes, none empty."""
    return np.unique(draw(arrays(np.int64, n, elements=st.integers(0, 4))), return_inverse=True)[1]


@st.composite
def tables(draw: st.DrawFn) -> tuple[NDArray[np.int64], list[Any]]:
    """Draw a partition and the sensitive values of its records."""
    values = draw(st.lists(VALUES[draw(st.sampled_from(sorted(VALUES)))], min_size=1, max_size=25))
    return draw(labels_of(len(values))), values


def classes_of(labels: Sequence[int] | NDArray[np.int64]) -> list[list[int]]:
    """Give the records of each class."""
    found: dict[int, list[int]] = {}
    for record, label in enumerate(labels):
        found.setdefault(int(label), []).append(record)
    return [found[label] for label in sorted(found)]


def counts_of(labels: NDArray[np.int64], values: Sequence[Any]) -> list[Counter[Any]]:
    """Give the counts of the values of each class, by key: NaN is one value, None another."""
    return [Counter(key(values[record]) for record in members) for members in classes_of(labels)]
