"""A share of all records, estimated from a sample of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Z = 1.959963984540054
"""97.5 % quantile of the normal distribution: an interval of 95 %."""


@dataclass(frozen=True)
class Share:
    """A mean over records, and the interval that holds the mean over all of them in 95 of 100 samples.

    Attributes
    ----------
    value, low, high : float
        0 to 1; all equal where every record was looked at.
    """

    value: float
    low: float
    high: float

    def at_most(self, ceiling: float) -> Share:
        """Return the same share where it is known to be no higher than a number."""
        return Share(min(self.value, ceiling), min(self.low, ceiling), min(self.high, ceiling))


def estimate(values: npt.NDArray[np.float64], records: int, most: float = 1.0) -> Share:
    """Mean over all records from the values of a sample without replacement.

    Parameters
    ----------
    values : ndarray of shape (r,), float64
        Values of r records, each in 0..most.
    records : int
        Number of all records, at least r.
    most : float
        What no value exceeds.

    Returns
    -------
    Share
        Mean, and Wilson's interval for it.

    Notes
    -----
    Wilson, JASA 22, 1927, for a share p. Values between 0 and `most` with mean p * most have a variance of at
    most p (1 - p) most^2, so the interval errs on the wide side; it has a width even if all values are equal.
    A sample of r of n records counts as r (n - 1) / (n - r) draws with replacement, which has the same
    variance; all records are no sample, and the mean is exact.

    Examples
    --------
    >>> import numpy as np
    >>> estimate(np.array([0.5, 0.0]), 2)
    Share(value=0.25, low=0.25, high=0.25)
    """
    mean = math.fsum(values) / len(values)
    if len(values) >= records:
        return Share(mean, mean, mean)
    draws = len(values) * (records - 1) / (records - len(values))
    share = min(mean / most, 1.0)
    middle = share + Z * Z / (2 * draws)
    half = Z * math.sqrt(share * (1 - share) / draws + Z * Z / (4 * draws * draws))
    low, high = ((middle + side * half) / (1 + Z * Z / draws) * most for side in (-1, 1))
    return Share(mean, max(min(low, mean), 0.0), max(high, mean))
