"""Cuts of a part of Mondrian that suppress few records: the gain of each, and the best of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled, inner
from duckanon.literature.mondrian import Parts, separate, sides_keep, width_between

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules

TRIED_BORDERS = 8
"""Borders of a part that are measured in all columns: the borders that gain most in their own column."""

RECORDS_A_CUT_OFF = 1024
"""A cut removes at least one in so many records of a part, so that large parts have few cuts."""

RATE, RECORDS, COLUMN, BORDER, LOW_SIDE = range(5)
"""Entries of an offer: gain for each suppressed record, number of suppressed records, and the cut."""


@compiled
def offers_of(
    parts: Parts,
    rules: Rules,
    stretches: NDArray[np.int64],
    k: int,
    most: int,
    scales: NDArray[np.float64],
    price: float,
) -> NDArray[np.float64]:
    """Return the best cut of each part that suppresses at most `most` records, (m, 5); rate 0: none."""
    offers, tried = np.zeros((len(stretches), 5)), np.empty((TRIED_BORDERS, 5))
    for i in range(len(stretches)):
        first, last = stretches[i, 0], stretches[i, 1]
        if last - first <= k:
            continue
        _mark_all(parts, first, last)
        loss = _loss_of_kept(parts, first, last, scales)
        count = _collect(parts, first, last, k, most, scales, price - loss, tried)
        for j in range(count):
            records = int(tried[j, RECORDS])
            _mark_beyond(
                parts, first, last, int(tried[j, COLUMN]), tried[j, BORDER], tried[j, LOW_SIDE] > 0.0
            )
            gained = loss - _loss_of_kept(parts, first, last, scales)
            rate = _rate(last - first, records, gained, price - loss)
            kept = last - first - records
            if rate > offers[i, RATE] and sides_keep(parts, rules, first, last, kept, 1, 1):
                offers[i] = tried[j]
                offers[i, RATE] = rate
    return offers


@inner
def _rate(size: int, records: int, gained: float, price: float) -> float:
    """Return the gain for each suppressed record: gain of the kept records less loss of the suppressed."""
    return ((size - records) * gained - records * price) / records


@compiled
def _collect(
    parts: Parts,
    first: int,
    last: int,
    k: int,
    most: int,
    scales: NDArray[np.float64],
    price: float,
    tried: NDArray[np.float64],
) -> int:
    """Write the cuts that gain most in their own column, the best first; return their number."""
    size, count = last - first, 0
    ordered = parts.spare[:size]
    for column in range(len(parts.columns)):
        ordered[:] = parts.columns[column, first:last]
        ordered.sort()
        if ordered[0] == ordered[size - 1]:
            continue
        whole = _squared(parts, column, ordered[0], ordered[size - 1], scales)
        for low in (True, False):
            for records in range(-(-size // RECORDS_A_CUT_OFF), min(most, size - k) + 1):
                below = records if low else size - records
                border = ordered[below - 1]
                if border == ordered[below]:
                    continue
                if low:
                    kept = _squared(parts, column, ordered[below], ordered[size - 1], scales)
                else:
                    kept = _squared(parts, column, ordered[0], border, scales)
                rate = _rate(size, records, whole - kept, price)
                count = _insert(tried, count, rate, records, column, border, low)
    return count


@inner
def _insert(
    tried: NDArray[np.float64], count: int, rate: float, records: int, column: int, border: float, low: bool
) -> int:
    """Insert a cut behind the cuts of equal or greater gain; return the number of cuts."""
    if count == TRIED_BORDERS and rate <= tried[TRIED_BORDERS - 1, RATE]:
        return count
    count = min(count + 1, TRIED_BORDERS)
    place = count - 1
    while place > 0 and tried[place - 1, RATE] < rate:
        for entry in range(5):
            tried[place, entry] = tried[place - 1, entry]
        place -= 1
    tried[place, RATE], tried[place, RECORDS], tried[place, COLUMN] = rate, float(records), float(column)
    tried[place, BORDER], tried[place, LOW_SIDE] = border, float(int(low))
    return count


@inner
def _squared(parts: Parts, column: int, low: float, high: float, scales: NDArray[np.float64]) -> float:
    """Return the loss in a column of a record whose class has these least and greatest values."""
    share = width_between(parts, column, low, high) / scales[column]
    return float(share * share)


@inner
def _loss_of_kept(parts: Parts, first: int, last: int, scales: NDArray[np.float64]) -> float:
    """Return the loss of each record of the marked side of a part, as one class."""
    total = 0.0
    for column in range(len(parts.columns)):
        low, high = np.inf, -np.inf
        for i in range(first, last):
            if parts.on_left[i] > 0:
                low, high = min(low, parts.columns[column, i]), max(high, parts.columns[column, i])
        total += _squared(parts, column, low, high, scales)
    return total


@inner
def _mark_all(parts: Parts, first: int, last: int) -> None:
    """Put the whole part on the left side."""
    for i in range(first, last):
        parts.on_left[i] = 1


@inner
def _mark_beyond(parts: Parts, first: int, last: int, column: int, border: float, low: bool) -> None:
    """Put the kept records on the left side: above the border if the low side goes, else up to the border."""
    for i in range(first, last):
        parts.on_left[i] = int((parts.columns[column, i] > border) == low)


@compiled
def cut_off(
    parts: Parts, rules: Rules, first: int, last: int, k: int, column: int, border: float, low: bool
) -> bool:
    """Put the records beyond a border behind the others; tell whether they keep k and the thresholds."""
    _mark_beyond(parts, first, last, column, border, low)
    size = 0
    for i in range(first, last):
        size += int(parts.on_left[i] == 0)
    keeps = sides_keep(parts, rules, first, last, last - first - size, 0, 0) and size >= k
    separate(parts, first, last)
    return keeps
