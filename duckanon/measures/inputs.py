"""Arguments of the measures, checked: classes, value codes, and the values of each class."""

from __future__ import annotations

from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from duckanon.errors import PolicyError
from duckanon.kernels.closeness.reference import Histograms, class_histograms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

_NAN = float("nan")


class Ranks(NamedTuple):
    """The values of one column as dense ranks: ``codes`` (n,), int64, and the records of each rank."""

    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


class Members(NamedTuple):
    """The records class by class: class c holds ``order[offsets[c]:offsets[c + 1]]``, ascending."""

    order: NDArray[np.int64]
    offsets: NDArray[np.int64]


@contextmanager
def policy_errors() -> Iterator[None]:
    """Raise ValueError, TypeError and OverflowError of the body as PolicyError with the same text."""
    try:
        yield
    except PolicyError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise PolicyError(str(error)) from error


def class_labels(labels: ArrayLike, n: int | None = None) -> NDArray[np.int64]:
    """Return labels (n,) as int64; ValueError unless they are 0..m-1, none empty, for n >= 1 records."""
    given = np.asarray(labels)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"labels must hold the class of at least one record, not be of shape {given.shape}")
    if n is not None and len(given) != n:
        raise ValueError(f"there are {len(given)} labels for {n} records")
    if given.dtype.kind not in "iu":
        raise ValueError(f"labels must be integers, not {given.dtype}")
    if given.min() < 0 or given.max() >= len(given) or np.bincount(given).min() == 0:
        raise ValueError("labels must be 0..m-1 with no class empty")
    return given.astype(np.int64)


def whole_number(name: str, value: int, least: int) -> int:
    """Return an argument as int; ValueError if its type is no integer or it is below `least`."""
    try:
        number = index(value)
    except TypeError as error:
        raise ValueError(f"{name} must be an integer, not {value!r}") from error
    if number < least:
        raise ValueError(f"{name} must be at least {least}, not {number}")
    return number


def column(values: ArrayLike, n: int) -> NDArray[Any]:
    """Return a sensitive column as an array (n,); ValueError unless it has one value a record."""
    given = np.asarray(values)
    if given.shape != (n,):
        raise ValueError(f"sensitive must hold one value a record, of shape ({n},), not {given.shape}")
    return given


def ranked(values: NDArray[Any]) -> Ranks:
    """Return the dense rank of each value (n,). O(n log n); ValueError if the values have no order.

    NaN and NaT are one value, after all others. None is one value, the last.
    """
    if values.dtype.kind in "OUS":
        codes = _ranked_objects(values.tolist())
    else:
        codes = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return Ranks(codes, np.bincount(codes))


def _ranked_objects(items: list[Any]) -> NDArray[np.int64]:
    """Return the ranks of Python objects by a dictionary, which is faster than sorting a million objects."""
    try:
        # NaN is not equal to itself: without one object for all, each NaN would be a value of its own.
        items = [item if item == item else _NAN for item in items]
        distinct = set(items)
        last = [value for value in (_NAN, None) if value in distinct]
        order = [*sorted(distinct.difference(last)), *last]
    except TypeError as error:
        raise ValueError(f"sensitive values cannot be ordered ({error}): give numbers or text") from error
    rank = {value: place for place, value in enumerate(order)}
    return np.fromiter((rank[item] for item in items), np.int64, len(items))


def members(labels: NDArray[np.int64]) -> Members:
    """Return the records class by class, for labels (n,) in 0..m-1. O(n log n)."""
    return Members(np.argsort(labels, kind="stable"), np.append(0, np.cumsum(np.bincount(labels))))


def histograms(labels: NDArray[np.int64], codes: NDArray[np.int64]) -> Histograms:
    """Return the values of each class with their counts, from labels and codes (n,). O(n log n)."""
    order, offsets = members(labels)
    return class_histograms(codes[order], offsets)
