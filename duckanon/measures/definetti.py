"""The deFinetti attack: sensitive values of single records, learned from the classes that hold them.

Within a class every record may have every value that the class holds; but the classes together tell which
values of known columns go with which sensitive value, and so who in a class has what.
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
"""Times that is learned from the assignment, and assigned by what is learned."""

BALANCING_PASSES = 8
"""Times a round that rows and columns of a class are scaled, so that each record has one value and each value
as many records as the class holds."""

SMOOTHING_RECORDS = 1.0
"""Records that are added to each combination of a known value and a sensitive one (Laplace)."""

MATCHING_MAX_RECORDS = 256
"""Records of a class that is matched as a whole; of larger ones each record gets its likeliest value."""


BINS = 10
"""Parts into which the numbers of a known column are cut."""


class Held(NamedTuple):
    """Sensitive values of the classes: class, value, how many records have it, (h,) each, by class."""

    classes: Ints
    values: Ints
    records: Ints


def definetti(classes: Ints, known: Ints, held: Held) -> Ints:
    """Guess the sensitive value of each record from its class and what is known of it.

    Parameters
    ----------
    classes : ndarray of shape (n,), int64
        Class of each record, 0..m-1; no more records of a class than it holds values.
    known : ndarray of shape (n, d), int64
        Codes 0, 1, ... of the values that an attacker knows, in each column.
    held : Held
        Values that each class holds.

    Returns
    -------
    ndarray of shape (n,), int64
        A value for each record that its class holds, at most as often as it holds it in classes of up to
        `MATCHING_MAX_RECORDS` records.

    Notes
    -----
    Naive Bayes as in Kifer, section 4, with expectations for its samples of permutations: the weight of a
    value for a record begins as the share of the class that has it. In each round the tables P(known | value)
    are counted with these weights, and give the next, scaled so that a class has each value as often as it
    holds it (Sinkhorn). O(rounds * d * pairs) for the pairs of a record and a value of its class.
    Deterministic.

    References
    ----------
    Kifer, "Attacks on Privacy and deFinetti's Theorem", SIGMOD 2009.

    Examples
    --------
    Of three classes the first two tell that 1 goes with 1 and 0 with 0.

    >>> classes, known = np.array([0, 0, 1, 1, 2, 2]), np.array([[1], [1], [0], [0], [0], [1]])
    >>> held = Held(np.array([0, 1, 2, 2]), np.array([1, 0, 0, 1]), np.array([2, 2, 1, 1]))
    >>> definetti(classes, known, held).tolist()
    [1, 1, 0, 0, 0, 1]
    """
    record, place = _pairs(classes, held)
    value, here = held.values[place], np.bincount(classes, minlength=int(held.classes.max()) + 1)
    whole = np.bincount(held.classes, weights=held.records)
    # Where not all records of a class are known, the others have their share of its values.
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
    """Share of the records that are right if each is said to have the most frequent value of its class."""
    whole = np.bincount(held.classes, weights=held.records)
    most = np.zeros(len(whole))
    np.maximum.at(most, held.classes, held.records)
    return float((most / whole)[classes].mean())


def share_right(subject: Ints, guesses: Ints, known_subject: Ints, true: Ints) -> float:
    """Share of guesses (n,) that are right, where records of one subject cannot be told apart.

    `known_subject` (t,) and `true` (t,) are the subjects and values of all records that have one. Guesses and
    values of one subject are dealt at random, so that g equal guesses beside t of n such values are g t / n.
    A true value below 0 is never guessed.
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
    """Return the ranks of numbers, of many in `BINS` parts of about the same size."""
    if int(ranks.max(initial=0)) < BINS:
        return ranks
    edges = np.unique(np.quantile(ranks, np.arange(1, BINS) / BINS))
    return np.searchsorted(edges, ranks, side="right").astype(np.int64)


def _pairs(classes: Ints, held: Held) -> tuple[Ints, Ints]:
    """Return every record beside every value of its class: number of the record, place in `held`."""
    begins = np.searchsorted(held.classes, classes)
    counts = np.searchsorted(held.classes, classes, side="right") - begins
    record = np.repeat(np.arange(len(classes)), counts)
    within = np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
    return record, begins[record] + within


def _balanced(likely: Floats, record: Ints, place: Ints, target: Floats) -> Floats:
    """Return weights like their likelihoods whose sums are 1 a record and `target` a value of a class."""
    greatest = np.full(int(record.max()) + 1, -np.inf)
    np.maximum.at(greatest, record, likely)
    weights = np.exp(np.maximum(likely - greatest[record], -50.0))
    for _ in range(BALANCING_PASSES):
        sums = np.bincount(place, weights=weights, minlength=len(target))
        weights *= target[place] / sums[place]
        weights /= np.bincount(record, weights=weights)[record]
    return np.asarray(weights)


def _matched(weights: Floats, record: Ints, place: Ints, classes: Ints, held: Held) -> Ints:
    """Return a value for each record: of the likeliest assignment of a class, or each its likeliest."""
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
