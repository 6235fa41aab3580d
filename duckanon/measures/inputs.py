"""What the measures make of their arguments: classes, value codes, and the values of each class."""

from __future__ import annotations

from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from duckanon.errors import PolicyError
from duckanon.kernels.closeness.histograms import Histograms, class_histograms

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
    """Raise what is wrong with an argument as PolicyError, which is a ValueError.

    Yields
    ------
    None
        The body runs; also usable as a decorator.

    Raises
    ------
    PolicyError
        For any ValueError, TypeError or OverflowError of the body, with its text.
    """
    try:
        yield
    except PolicyError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise PolicyError(str(error)) from error


def class_labels(labels: ArrayLike, n: int | None = None) -> NDArray[np.int64]:
    """Return the labels as int64 if they name classes 0..m-1, none empty.

    Parameters
    ----------
    labels : array_like of shape (n,), int
        Class of each record.
    n : int, optional
        Number of records, where another argument gives it.

    Returns
    -------
    ndarray of shape (n,), int64
        The labels.

    Raises
    ------
    ValueError
        If there are none, they are no integers, not n, or leave a class below the largest one empty.
    """
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
    """Return an argument if it is an integer by type and large enough.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : int
        The argument.
    least : int
        The least value allowed.

    Returns
    -------
    int
        The argument.

    Raises
    ------
    ValueError
        If it is no integer or less than that.
    """
    try:
        number = index(value)
    except TypeError as error:
        raise ValueError(f"{name} must be an integer, not {value!r}") from error
    if number < least:
        raise ValueError(f"{name} must be at least {least}, not {number}")
    return number


def column(values: ArrayLike, n: int) -> NDArray[Any]:
    """Return the values of one sensitive column as an array.

    Parameters
    ----------
    values : array_like of shape (n,)
        One value a record.
    n : int
        Number of records.

    Returns
    -------
    ndarray of shape (n,)
        Of whatever type.

    Raises
    ------
    ValueError
        If there is not one value a record.
    """
    given = np.asarray(values)
    if given.shape != (n,):
        raise ValueError(f"sensitive must hold one value a record, of shape ({n},), not {given.shape}")
    return given


def ranked(values: NDArray[Any]) -> Ranks:
    """Return the dense rank of each value among the distinct ones.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Numbers, dates or text. NaN (and NaT) is one value, after all others; None is one value, the last.

    Returns
    -------
    Ranks
        O(n log n) time.

    Raises
    ------
    ValueError
        If the values have no order, for example because numbers and text are mixed.
    """
    if values.dtype.kind in "OUS":
        codes = _ranked_objects(values.tolist())
    else:
        codes = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return Ranks(codes, np.bincount(codes))


def _ranked_objects(items: list[Any]) -> NDArray[np.int64]:
    """Return the ranks of Python objects; a dictionary is faster than to sort a million of them."""
    try:
        # One NaN object for all: NaN is not equal to itself, so each would count as a value of its own.
        items = [item if item == item else _NAN for item in items]
        distinct = set(items)
        last = [value for value in (_NAN, None) if value in distinct]
        order = [*sorted(distinct.difference(last)), *last]
    except TypeError as error:
        raise ValueError(f"sensitive values cannot be ordered ({error}): give numbers or text") from error
    rank = {value: place for place, value in enumerate(order)}
    return np.fromiter((rank[item] for item in items), np.int64, len(items))


def members(labels: NDArray[np.int64]) -> Members:
    """Return the records class by class.

    Parameters
    ----------
    labels : ndarray of shape (n,), int64
        Class of each record, 0..m-1, none empty.

    Returns
    -------
    Members
        O(n log n) time.
    """
    return Members(np.argsort(labels, kind="stable"), np.append(0, np.cumsum(np.bincount(labels))))


def histograms(labels: NDArray[np.int64], codes: NDArray[np.int64]) -> Histograms:
    """Return the values of each class with their counts.

    Parameters
    ----------
    labels, codes : ndarray of shape (n,), int64
        Class and value code of each record.

    Returns
    -------
    Histograms
        O(n log n) time.
    """
    order, offsets = members(labels)
    return class_histograms(codes[order], offsets)
