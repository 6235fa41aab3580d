"""The deFinetti attack: guess the sensitive value of single records from the classes.

Within a class every record may have every sensitive value of the class. All classes together show which
values of the known columns occur with which sensitive value. From that an attacker learns who in a class has
which value.

The method is naive Bayes as in Kifer, "Attacks on Privacy and deFinetti's Theorem", SIGMOD 2009, section 4.
Where Kifer samples permutations, `definetti` takes expectations:

1. The weight of a value for a record begins as the share of the records of the class with that value.
2. In each round the tables P(known | value) are counted with these weights and give the next weights.
3. The next weights are scaled so that a class has each value as often as the class holds it (Sinkhorn).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from duckanon.kernels.assignment import assignment

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

ROUNDS = 30
"""Rounds: each counts the tables P(known | value) by the weights, and computes the weights anew."""

BALANCING_PASSES = 8
"""Scalings in a round of the rows and columns of a class: each record gets one value, and each value as many
records as the class holds."""

SMOOTHING_RECORDS = 1.0
"""Records added to each combination of a known value and a sensitive value (Laplace)."""

MATCHING_MAX_RECORDS = 256
"""Largest class that is matched as a whole. In a larger class each record gets its likeliest value."""

BINS = 10
"""Parts into which the numbers of a known column are cut."""


class Held(NamedTuple):
    """Sensitive values of the classes, (h,) each, ordered by class: class, value, records with the value."""

    classes: Ints
    values: Ints
    records: Ints


def definetti(classes: Ints, known: Ints, held: Held) -> Ints:
    """Guess the sensitive value of each record from its class and its known values.

    Parameters
    ----------
    classes : ndarray of shape (n,), int64
        Class of each record, 0..m-1. No class has more records than `held` counts for it.
    known : ndarray of shape (n, d), int64
        Codes 0, 1, ... of the values that an attacker knows, in each column.
    held : Held
        Values that each class holds.

    Returns
    -------
    ndarray of shape (n,), int64
        A value of its class for each record. In classes of up to `MATCHING_MAX_RECORDS` records, each value
        is guessed at most as often as the class holds it.

    Notes
    -----
    O(rounds * d * pairs), a pair being a record and a value of its class. Deterministic.

    Source: Kifer, SIGMOD 2009, section 4; the method stands at the top of the module.

    Examples
    --------
    The first two of three classes show that 1 goes with 1, and 0 with 0.

    >>> classes, known = np.array([0, 0, 1, 1, 2, 2]), np.array([[1], [1], [0], [0], [0], [1]])
    >>> held = Held(np.array([0, 1, 2, 2]), np.array([1, 0, 0, 1]), np.array([2, 2, 1, 1]))
    >>> definetti(classes, known, held).tolist()
    [1, 1, 0, 0, 0, 1]
    """
    record, place = _pairs(classes, held)
    value, here = held.values[place], np.bincount(classes, minlength=int(held.classes.max()) + 1)
    whole = np.bincount(held.classes, weights=held.records)
    # Where some records of a class are not known, they take their share of its values.
    target = held.records * (here / whole)[held.classes]
    weights = held.records[place] / whole[held.classes[place]]
    count = int(value.max()) + 1
    for _ in range(ROUNDS):
        likely = np.zeros(len(record))
        total = np.bincount(value, weights=weights, minlength=count)
        for column in known.T:
            kinds = int(column.max()) + 1
            cell = column[record] * count + value
            table = np.bincount(cell, weights=weights, minlength=kinds * count) + SMOOTHING_RECORDS
            likely += np.log(table[cell]) - np.log(total[value] + SMOOTHING_RECORDS * kinds)
        weights = _balanced(likely, record, place, target)
    return _matched(weights, record, place, classes, held)


def by_counts(classes: Ints, held: Held) -> float:
    """Return the share of right guesses if every guess is the most frequent value of the class."""
    whole = np.bincount(held.classes, weights=held.records)
    most = np.zeros(len(whole))
    np.maximum.at(most, held.classes, held.records)
    return float((most / whole)[classes].mean())


def share_right(subject: Ints, guesses: Ints, known_subject: Ints, true: Ints) -> float:
    """Return the share of right guesses (n,), expected where the guesses of one subject are dealt at random.

    `known_subject` (t,) and `true` (t,) hold all records with a value: g equal guesses beside t of n such
    values of a subject count g t / n. A true value below 0 is never guessed.
    """
    size = max(int(guesses.max(initial=0)), int(true.max(initial=0))) + 2
    count = max(int(subject.max(initial=0)), int(known_subject.max(initial=0))) + 1
    mine = np.bincount(subject * size + guesses + 1, minlength=count * size)
    theirs = np.bincount(known_subject * size + np.maximum(true, -1) + 1, minlength=count * size)
    right = (mine * theirs).reshape(count, size)[:, 1:].sum(axis=1)
    return float(
        (right / np.maximum(np.bincount(known_subject, minlength=count), 1)).sum() / max(len(guesses), 1)
    )


def binned(ranks: Ints) -> Ints:
    """Return the ranks of numbers; more than `BINS` ranks are cut into `BINS` parts of about equal size."""
    if int(ranks.max(initial=0)) < BINS:
        return ranks
    edges = np.unique(np.quantile(ranks, np.arange(1, BINS) / BINS))
    return np.searchsorted(edges, ranks, side="right").astype(np.int64)


def _pairs(classes: Ints, held: Held) -> tuple[Ints, Ints]:
    """Return each record with each value of its class: the number of the record, and the place in `held`."""
    begins = np.searchsorted(held.classes, classes)
    counts = np.searchsorted(held.classes, classes, side="right") - begins
    record = np.repeat(np.arange(len(classes)), counts)
    within = np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
    return record, begins[record] + within


def _balanced(likely: Floats, record: Ints, place: Ints, target: Floats) -> Floats:
    """Return weights in proportion to likelihoods, with the sums 1 for a record and `target` for a value."""
    greatest = np.full(int(record.max()) + 1, -np.inf)
    np.maximum.at(greatest, record, likely)
    weights = np.exp(np.maximum(likely - greatest[record], -50.0))
    for _ in range(BALANCING_PASSES):
        sums = np.bincount(place, weights=weights, minlength=len(target))
        weights *= target[place] / sums[place]
        weights /= np.bincount(record, weights=weights)[record]
    return np.asarray(weights)


def _matched(weights: Floats, record: Ints, place: Ints, classes: Ints, held: Held) -> Ints:
    """Return a value for each record: by the likeliest assignment of its class, or its likeliest value."""
    order = np.lexsort((-weights, record))
    guessed = held.values[place[order[np.flatnonzero(np.diff(record[order], prepend=-1))]]]
    members = np.argsort(classes, kind="stable")
    begins = np.searchsorted(record, np.arange(len(classes)))
    for some in np.split(members, np.flatnonzero(np.diff(classes[members])) + 1):
        first, last = np.searchsorted(held.classes, [classes[some[0]], classes[some[0]] + 1])
        here = np.arange(first, last)
        if not 1 < len(some) <= MATCHING_MAX_RECORDS or len(here) == 1:
            continue
        likely = np.log(weights[begins[some][:, None] + np.arange(len(here))] + 1e-300)
        values = np.repeat(np.arange(len(here)), np.minimum(held.records[here], len(some)))
        rows, columns = assignment(-likely[:, values])
        guessed[some[rows]] = held.values[here[values[columns]]]
    return guessed
