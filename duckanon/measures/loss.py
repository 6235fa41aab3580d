"""Measures of information loss: the distances between the records and the means of their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels import loss
from duckanon.kernels.points import Scale, scaled, squared_points
from duckanon.measures.inputs import class_labels, policy_errors

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@policy_errors()
def sse(points: ArrayLike, labels: ArrayLike, scale: Scale = "zscore") -> float:
    """Return the sum of squared distances between the records and the means of their classes.

    Returns
    -------
    float
        At least 0; 0.0 where every class holds equal records.

    Notes
    -----
    O(n d) time. Source: Domingo-Ferrer and Mateo-Sanz, "Practical data-oriented microaggregation for
    statistical disclosure control", IEEE TKDE 14(1), 2002; Kabir et al., equation (2).

    Examples
    --------
    >>> sse([[0.0], [0.0], [2.0], [4.0]], [0, 0, 1, 1], scale="none")
    2.0
    """
    matrix, classes = _partition(points, labels, scale)
    return loss.sse(matrix, classes)


@policy_errors()
def sst(points: ArrayLike, scale: Scale = "zscore") -> float:
    """Return the sum of squared distances between the records and their overall mean.

    Returns
    -------
    float
        At least 0; for 'zscore' n times the number of columns that vary.

    Notes
    -----
    O(n d) time. Sources as of `sse`; Kabir et al., equation (3).

    Examples
    --------
    >>> sst([[0.0], [0.0], [2.0], [4.0]], scale="none")
    11.0
    """
    return loss.sst(squared_points(scaled(points, scale)))


@policy_errors()
def information_loss(points: ArrayLike, labels: ArrayLike, scale: Scale = "zscore") -> float:
    """Return the information loss of a partition, IL = 100 SSE / SST.

    Returns
    -------
    float
        Percent, 0 (every class holds equal records) to 100 (one class); 0.0 where all records are equal.

    Notes
    -----
    O(n d) time. Source: Kabir et al., equation (1), times 100 as in their Tables VI to VIII.

    Examples
    --------
    >>> information_loss([[0.0], [0.0], [2.0], [4.0]], [0, 0, 1, 1])
    18.181818181818183
    """
    matrix, classes = _partition(points, labels, scale)
    return loss.information_loss(matrix, classes)


@policy_errors()
def normalized_sse(points: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean over records and attributes of squared errors, every attribute on the range 0 to 1.

    Returns
    -------
    float
        0 to 1/4. An attribute that does not vary counts as an attribute without error.

    Notes
    -----
    O(n d) time. Source: Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, IEEE TKDE 27(11), 2015, section
    8.3, equation (5). The paper's normalised Euclidean distance is read as the difference between a value and
    the mean of its class, divided by the range of the attribute, over the quasi-identifiers only.

    Examples
    --------
    >>> normalized_sse([[0.0], [0.0], [2.0], [4.0]], [0, 0, 1, 1])
    0.03125
    """
    matrix, classes = _partition(points, labels, "minmax")
    return loss.sse(matrix, classes) / matrix.size


@policy_errors()
def mse(points: ArrayLike, labels: ArrayLike, scale: Scale = "minmax") -> float:
    """Return the mean of the squared distances between the records and the means of their classes.

    Returns
    -------
    float
        At least 0; with 'minmax' at most d / 4.

    Notes
    -----
    O(n d) time. Source: Domingo-Ferrer and Soria-Comas, "Steered microaggregation", 2017, section VI-B. The
    figures of the paper have quasi-identifiers on the range 0 to 1, which is the default here.

    Examples
    --------
    >>> mse([[0.0], [0.0], [2.0], [4.0]], [0, 0, 1, 1], scale="none")
    0.5
    """
    matrix, classes = _partition(points, labels, scale)
    return loss.sse(matrix, classes) / len(matrix)


@policy_errors()
def mae(points: ArrayLike, labels: ArrayLike, scale: Scale = "minmax") -> float:
    """Return the mean of the Euclidean distances between the records and the means of their classes.

    Returns
    -------
    float
        At least 0 and at most the square root of `mse`.

    Notes
    -----
    O(n d) time. The error of a record is one distance over all attributes together, not the mean of the
    errors in each attribute. Source and scale as of `mse`.

    Examples
    --------
    >>> mae([[0.0], [0.0], [2.0], [4.0]], [0, 0, 1, 1], scale="none")
    0.5
    """
    matrix, classes = _partition(points, labels, scale)
    deviation = matrix - loss.class_means(matrix, classes)[classes]
    return float(np.mean(np.sqrt(np.sum(deviation * deviation, axis=1))))


def _partition(
    points: ArrayLike, labels: ArrayLike, scale: Scale
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the points on their scale and the labels, both checked."""
    matrix = squared_points(scaled(points, scale))
    return matrix, class_labels(labels, len(matrix))
