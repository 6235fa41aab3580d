"""Measures of closeness: how far the sensitive values of a class are distributed from those of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.emd import emd_per_class
from duckanon.kernels.closeness.reference import Distance, Reference, reference
from duckanon.measures.inputs import class_labels, column, histograms, members, policy_errors, ranked

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class _CodedTable(NamedTuple):
    """Checked arguments: class and value code of each record, and the records of each code in the whole."""

    labels: NDArray[np.int64]
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


@policy_errors()
def emd(
    labels: ArrayLike,
    sensitive: ArrayLike,
    distance: Distance = "ordered",
    *,
    paths: ArrayLike | None = None,
    population: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return the earth mover's distance of each class from the whole.

    Parameters
    ----------
    labels : array_like of shape (n,), int
        Class of each record, 0..m-1, no class empty; 1 <= n < 2^31.
    sensitive : array_like of shape (n,)
        Sensitive values or their codes: numbers, dates or text. NaN is a value, the last but for None, which
        is a value as well.
    distance : {'ordered', 'equal', 'hierarchical'}
        Ground distance: |i - j| / (v - 1) on the v distinct values of the whole; 1; or the level of the
        lowest common ancestor divided by the height of the tree.
    paths : array_like of shape (v, H + 1), int, optional
        For 'hierarchical' only: the tree node of each distinct value of the whole, ascending, on level 0
        (itself) to H (the root).
    population : array_like of shape (N,), optional
        Sensitive values of the whole, by default those of the n records together. Every value of a class
        must occur in it.

    Returns
    -------
    ndarray of shape (m,), float64
        0 to 1: the float nearest to the exact distance while (class size) (N) (v - 1), or 2 H for v - 1,
        stays below 2^53. 0.0 where the whole has one value.

    Raises
    ------
    PolicyError
        If the labels, the values, the distance or the paths are unusable, or the population lacks a value.

    Notes
    -----
    O(n log n) time, or O(n log n + n H) for a tree. `duckanon.audit` compares with t in whole numbers; since
    rounding keeps the order, a class at t or below never comes out above t here either. Li, Li and
    Venkatasubramanian, "t-Closeness", ICDE 2007, section 5.

    Examples
    --------
    >>> emd([0, 0, 0, 1, 1, 1, 1, 1, 1], [3, 4, 5, 6, 7, 8, 9, 10, 11]).tolist()
    [0.375, 0.1875]
    """
    table = _table(labels, sensitive, population)
    return _emd(table, reference(table.counts, distance, paths))


def maximum_emd(
    labels: ArrayLike,
    sensitive: ArrayLike,
    distance: Distance = "ordered",
    *,
    paths: ArrayLike | None = None,
    population: ArrayLike | None = None,
) -> float:
    """Return the greatest EMD of a class: the least t for which the partition is t-close.

    Parameters
    ----------
    labels, sensitive, distance, paths, population
        As in `emd`.

    Returns
    -------
    float
        0 to 1.

    Raises
    ------
    PolicyError
        As `emd`.

    Notes
    -----
    Li, Li and Venkatasubramanian, ICDE 2007, definition 2; "maximum EMD" of Domingo-Ferrer and Soria-Comas,
    "Steered microaggregation", 2017, section VI-B.
    """
    return float(emd(labels, sensitive, distance, paths=paths, population=population).max())


def average_emd(
    labels: ArrayLike,
    sensitive: ArrayLike,
    distance: Distance = "ordered",
    *,
    paths: ArrayLike | None = None,
    population: ArrayLike | None = None,
) -> float:
    """Return the mean EMD of the classes, each class counted once.

    Parameters
    ----------
    labels, sensitive, distance, paths, population
        As in `emd`.

    Returns
    -------
    float
        0 to 1.

    Raises
    ------
    PolicyError
        As `emd`.

    Notes
    -----
    "Average EMD" of Domingo-Ferrer and Soria-Comas, 2017, section VI-B: over the clusters, without weights.
    """
    return float(emd(labels, sensitive, distance, paths=paths, population=population).mean())


def variational_distance(
    labels: ArrayLike, sensitive: ArrayLike, *, population: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return half the sum of |p_i - q_i| for each class, p its distribution and q that of the whole.

    Parameters
    ----------
    labels, sensitive, population
        As in `emd`.

    Returns
    -------
    ndarray of shape (m,), float64
        0 to 1, rounded as `emd`.

    Raises
    ------
    PolicyError
        As `emd`.

    Notes
    -----
    O(n log n) time. Li, Li and Venkatasubramanian, ICDE 2007, section 4; the same as the EMD with the equal
    distance (their section 5.2).
    """
    return emd(labels, sensitive, "equal", population=population)


@policy_errors()
def kullback_leibler_distance(
    labels: ArrayLike, sensitive: ArrayLike, *, population: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the sum of p_i ln(p_i / q_i) for each class, p its distribution and q that of the whole.

    Parameters
    ----------
    labels, sensitive, population
        As in `emd`.

    Returns
    -------
    ndarray of shape (m,), float64
        In nats, at least 0 and at most ln(N / least frequency of a value in the whole); values that a class
        lacks add nothing.

    Raises
    ------
    PolicyError
        As `emd`.

    Notes
    -----
    O(n log n) time. Li, Li and Venkatasubramanian, ICDE 2007, section 4, after Kullback and Leibler 1951.

    Examples
    --------
    >>> kullback_leibler_distance([0, 0, 1, 1], [5, 5, 6, 6]).tolist()
    [0.6931471805599453, 0.6931471805599453]
    """
    table = _table(labels, sensitive, population)
    values = histograms(table.labels, table.codes)
    first = values.starts[:-1]
    size = np.repeat(np.add.reduceat(values.weights, first), np.diff(values.starts))
    # Both products are whole numbers below 2^62, so that the ratio of equal shares is 1 and its logarithm 0.
    ratio = (values.weights * table.counts.sum()) / (size * table.counts[values.values])
    distance = np.add.reduceat(values.weights / size * np.log(ratio), first)
    return np.asarray(np.maximum(distance, 0.0))


def _table(labels: ArrayLike, sensitive: ArrayLike, population: ArrayLike | None) -> _CodedTable:
    """Return the checked arguments, the codes on the values of the population where there is one."""
    classes = class_labels(labels)
    values = column(sensitive, len(classes))
    if population is None:
        return _CodedTable(classes, *ranked(values))
    whole = np.asarray(population)
    if whole.ndim != 1 or whole.size == 0:
        raise ValueError(f"population must hold at least one value, not be of shape {whole.shape}")
    codes, _ = ranked(np.concatenate([whole, values]))
    counts = np.bincount(codes[: len(whole)], minlength=int(codes.max()) + 1)
    missing = counts[codes[len(whole) :]] == 0
    if missing.any():
        value = values[int(np.argmax(missing))]
        raise ValueError(f"the sensitive value {value} does not occur in the population")
    return _CodedTable(classes, codes[len(whole) :], counts)


def _emd(table: _CodedTable, known: Reference) -> NDArray[np.float64]:
    """Return the EMD of each class from a reference."""
    order, offsets = members(table.labels)
    return emd_per_class(known, table.codes[order], offsets)
