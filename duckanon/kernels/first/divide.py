"""Classes that have become large, divided by any method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def partitioned(
    points: NDArray[np.float64],
    labels: NDArray[np.int64],
    k: int,
    method: Callable[[NDArray[np.float64], int], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return the classes, where a method has partitioned each class of 2k or more records."""
    # The first part keeps the number of its class. The other parts follow after all classes, ordered by
    # class.
    parts, total = labels.copy(), int(labels.max()) + 1
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    for records in members:
        if len(records) >= 2 * k:
            within = method(points[records], k)
            parts[records] = np.where(within == 0, parts[records], total - 1 + within)
            total += int(within.max())
    return parts
