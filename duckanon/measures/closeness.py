"""Measures of closeness: the distance between the sensitive values of a class and those of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.closeness.emd import emd_per_class
from duckanon.kernels.closeness.reference import Distance, Reference, reference
from duckanon.measures.inputs import class_labels, column, histograms, members, policy_errors, ranked

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class _CodedTable(NamedTuple):
    """Checked arguments: class and value code of each record, and the records of the whole with each code."""

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
    labels, sensitive, distance, paths, population
        See `duckanon.measures`.

    Returns
    -------
    ndarray of shape (m,), float64
        0 to 1; 0.0 where the whole has one value. The float nearest to the exact distance while (class size)
        (N) (v - 1), or 2 H for v - 1, stays below 2^53.

    Notes
    -----
    O(n log n) time, or O(n log n + n H) for a tree. `duckanon.audit` compares whole numbers with t. Rounding
    keeps the order, so a class whose EMD is at most t is never above t here.

    Source: Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007, section 5.

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
    """Return the greatest EMD of a class, 0 to 1: the least t for which the partition is t-close.

    Parameters
    ----------
    labels, sensitive, distance, paths, population
        See `duckanon.measures`.

    Notes
    -----
    Cost and rounding as of `emd`. Source: Li, Li and Venkatasubramanian, ICDE 2007, definition 2; "maximum
    EMD" of Domingo-Ferrer and Soria-Comas, "Steered microaggregation", 2017, section VI-B.
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
    """Return the mean EMD of the classes, 0 to 1, each class counted once whatever its size.

    Parameters
    ----------
    labels, sensitive, distance, paths, population
        See `duckanon.measures`.

    Notes
    -----
    Cost as of `emd`. Source: "average EMD" of Domingo-Ferrer and Soria-Comas, 2017, section VI-B.
    """
    return float(emd(labels, sensitive, distance, paths=paths, population=population).mean())


def variational_distance(
    labels: ArrayLike, sensitive: ArrayLike, *, population: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return half the sum of |p_i - q_i| for each class, p its distribution and q that of the whole.

    Parameters
    ----------
    labels, sensitive, population
        See `duckanon.measures`.

    Returns
    -------
    ndarray of shape (m,), float64
        0 to 1, rounded as `emd`.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, section 4. Section 5.2: it equals the
    EMD with the equal distance.
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
        See `duckanon.measures`.

    Returns
    -------
    ndarray of shape (m,), float64
        In nats, at least 0 and at most ln(N / least frequency of a value in the whole). Values that a class
        lacks add nothing.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, section 4, after Kullback and Leibler
    1951.

    Examples
    --------
    >>> kullback_leibler_distance([0, 0, 1, 1], [5, 5, 6, 6]).tolist()
    [0.6931471805599453, 0.6931471805599453]
    """
    table = _table(labels, sensitive, population)
    values = histograms(table.labels, table.codes)
    first = values.starts[:-1]
    size = np.repeat(np.add.reduceat(values.weights, first), np.diff(values.starts))
    # Both products are whole numbers below 2^62: equal shares have the ratio 1 exactly, and logarithm 0.
    ratio = (values.weights * table.counts.sum()) / (size * table.counts[values.values])
    distance = np.add.reduceat(values.weights / size * np.log(ratio), first)
    return np.asarray(np.maximum(distance, 0.0))


def _table(labels: ArrayLike, sensitive: ArrayLike, population: ArrayLike | None) -> _CodedTable:
    """Return the checked arguments; codes are ranks among the values of the whole."""
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
