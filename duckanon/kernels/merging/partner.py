"""The search for the class that a violating class is merged with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.compiled import compiled
from duckanon.kernels.merging.state import Classes, current, join, missed_together, squared_distance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from duckanon.kernels.closeness.threshold import Rules

FREE = 1e-100
"""Stands for the loss of merging equal centroids, so that what is removed still tells them apart."""

ROUNDING = 1e-9
"""Share of what a class misses below which a removal is rounding."""


@compiled
def merge_all(classes: Classes, rules: Rules, everyone: NDArray[np.int64], power: float) -> None:
    """Merge the most urgent class until all satisfy the thresholds or one is left.

    Parameters
    ----------
    classes : Classes
        The classes, changed in place.
    rules : Rules
        The thresholds.
    everyone : ndarray of shape (m,), int64
        The classes that are not gone, ascending; changed in place.
    power : float
        0 to merge with the nearest class, else with the `efficient_partner` for this power.

    Notes
    -----
    O(m^2 d) time, and a number of unions that pruning keeps small. Ties go to the lowest index.
    """
    bounds = np.empty(len(everyone))
    count = len(everyone)
    while count > 1:
        x = _most_urgent(classes, everyone[:count])
        if x < 0:
            return
        if power > 0.0:
            y = efficient_partner(classes, rules, x, everyone[:count], bounds, power)
        else:
            y = _nearest(classes, x, everyone[:count])
        join(classes, rules, x, y)
        count = _without(everyone, count, max(x, y))


@compiled
def merge_round(
    classes: Classes,
    rules: Rules,
    violating: NDArray[np.int64],
    candidates: NDArray[np.int64],
    power: float,
) -> None:
    """Merge each violating class once with the most efficient of its candidates.

    Parameters
    ----------
    classes : Classes
        The classes, changed in place.
    rules : Rules
        The thresholds.
    violating : ndarray of shape (v,), int64
        Classes in the order in which they choose; one that has grown meanwhile is passed over.
    candidates : ndarray of shape (v, c), int64
        Classes that each may be merged with, itself allowed; changed in place: one that was merged meanwhile
        stands for the class that holds its records now.
    power : float
        As in `merge_all`.
    """
    bounds = np.empty(candidates.shape[1])
    sizes = classes.table["size"].copy()
    for row in range(len(violating)):
        x, options = violating[row], candidates[row]
        if classes.table[x]["parent"] == x and classes.table[x]["size"] == sizes[x]:
            for i in range(len(options)):
                options[i] = current(classes, options[i])
            y = efficient_partner(classes, rules, x, options, bounds, power)
            if y >= 0:
                join(classes, rules, x, y)


@compiled
def efficient_partner(
    classes: Classes,
    rules: Rules,
    x: int,
    candidates: NDArray[np.int64],
    bounds: NDArray[np.float64],
    power: float,
) -> int:
    """Return the candidate whose union with class x costs least SSE for the violation that it removes.

    Parameters
    ----------
    classes : Classes
        The classes.
    rules : Rules
        The thresholds.
    x : int
        A violating class.
    candidates : ndarray of shape (c,), int64
        Classes that are not gone; x among them is passed over.
    bounds : ndarray of shape (c,) or more, float64
        Room for the search.
    power : float
        The score is (increase of SSE) / (violation removed) ** power.

    Returns
    -------
    int
        The partner, the first among equals; the nearest candidate if none removes anything; -1 if there is
        no candidate but x.

    Notes
    -----
    A union removes at most what both miss, which bounds the score from below: unions are formed only for
    candidates whose bound is under the best score, beginning with the least bound.
    """
    first = -1
    for i in range(len(candidates)):
        y = candidates[i]
        bounds[i] = np.inf
        if y != x:
            apart = classes.table[x]["missed"] + classes.table[y]["missed"]
            bounds[i] = _loss(classes, x, y) / apart**power
            if first < 0 or bounds[i] < bounds[first]:
                first = i
    if first < 0:
        return -1
    best, partner = _score(classes, rules, x, candidates[first], power), candidates[first]
    for i in range(len(candidates)):
        if bounds[i] < best and i != first:
            score = _score(classes, rules, x, candidates[i], power)
            if score < best:
                best, partner = score, candidates[i]
    return partner if best < np.inf else _nearest(classes, x, candidates)


@compiled
def _most_urgent(classes: Classes, everyone: NDArray[np.int64]) -> int:
    """Return the most urgent class, the first among equals, or -1 if all satisfy the thresholds."""
    found, violated = everyone[0], False
    for c in everyone:
        violated = violated or classes.table[c]["missed"] > 0.0
        if classes.table[c]["urgency"] > classes.table[found]["urgency"]:
            found = c
    return found if violated else -1


@compiled
def _score(classes: Classes, rules: Rules, x: int, y: int, power: float) -> float:
    """Return the increase of SSE over the power of the violation removed, infinite if none is."""
    apart = classes.table[x]["missed"] + classes.table[y]["missed"]
    removed = apart - missed_together(classes, rules, x, y)
    return _loss(classes, x, y) / removed**power if removed > ROUNDING * apart else np.inf


@compiled
def _loss(classes: Classes, x: int, y: int) -> float:
    """Return the increase of SSE by merging two classes, never quite 0."""
    one, other = float(classes.table[x]["size"]), float(classes.table[y]["size"])
    return squared_distance(classes, x, y) * (one * other / (one + other)) + FREE


@compiled
def _nearest(classes: Classes, x: int, candidates: NDArray[np.int64]) -> int:
    """Return the candidate other than x with the nearest centroid, the first among equals."""
    partner, least = -1, np.inf
    for y in candidates:
        if y != x:
            distance = squared_distance(classes, x, y)
            if partner < 0 or distance < least:
                partner, least = y, distance
    return partner


@compiled
def _without(everyone: NDArray[np.int64], count: int, gone: int) -> int:
    """Take a class out of the first, ascending entries and return how many are left."""
    place = 0
    for i in range(count):
        if everyone[i] != gone:
            everyone[place] = everyone[i]
            place += 1
    return place
