"""Measures of diversity: how varied the sensitive values within the classes are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from duckanon.kernels.closeness.reference import reference
from duckanon.kernels.closeness.threshold import LKind, fraction
from duckanon.measures.inputs import (
    class_labels,
    column,
    histograms,
    policy_errors,
    ranked,
    whole_number,
)

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from duckanon.kernels.closeness.reference import Histograms


class PSensitivity(NamedTuple):
    """The p and the k of a partition that has p-sensitive k-anonymity."""

    p: int
    k: int


@policy_errors()
def distinct_l(labels: ArrayLike, sensitive: ArrayLike) -> NDArray[np.int64]:
    """Return the number of distinct sensitive values of each class.

    Returns
    -------
    ndarray of shape (m,), int64
        At least 1.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007, section 2,
    interpretation 1.

    Examples
    --------
    >>> distinct_l([0, 0, 1, 1], ["flu", "cancer", "flu", "flu"]).tolist()
    [2, 1]
    """
    return np.diff(_values(labels, sensitive).starts)


@policy_errors()
def entropy_l(labels: ArrayLike, sensitive: ArrayLike) -> NDArray[np.float64]:
    """Return exp(H) of each class, H the entropy of its sensitive values: the greatest l of the class.

    Returns
    -------
    ndarray of shape (m,), float64
        1 to `distinct_l`, but for rounding (about 1e-15 times ln of the class size).

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, section 2, interpretation 2: entropy
    l-diversity is H >= log l.

    Examples
    --------
    >>> entropy_l([0, 0, 1, 1], ["flu", "cancer", "flu", "flu"]).tolist()
    [2.0, 1.0]
    """
    values = _values(labels, sensitive)
    first = values.starts[:-1]
    size = np.add.reduceat(values.weights, first).astype(np.float64)
    weights = values.weights.astype(np.float64)
    spread = np.add.reduceat(weights * np.log(np.repeat(size, np.diff(values.starts)) / weights), first)
    return np.asarray(np.exp(spread / size))


@policy_errors()
def recursive_c(labels: ArrayLike, sensitive: ArrayLike, l: int) -> NDArray[np.float64]:  # noqa: E741
    """Return r_1 / (r_l + ... + r_m) of each class, which is recursive (c, l)-diverse exactly for a larger c.

    Parameters
    ----------
    l : int
        At least 1.

    Returns
    -------
    ndarray of shape (m,), float64
        Above 0; infinity for a class with fewer than l values. Ties in frequency do not matter.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, section 2, interpretation 3, with r_1
    >= r_2 >= ... >= r_m the frequencies of the values in a class.

    Examples
    --------
    >>> recursive_c([0, 0, 0, 1], ["flu", "cancer", "flu", "flu"], l=2).tolist()
    [2.0, inf]
    """
    least = whole_number("l", l, 1)
    values = _descending(_values(labels, sensitive))
    first, distinct = values.starts[:-1], np.diff(values.starts)
    enough = distinct >= least
    result = np.full(len(first), math.inf)
    tails = _tails(values)[first[enough] + least - 1]
    result[enough] = values.weights[first[enough]] / tails
    return result


@policy_errors()
def recursive_l(
    labels: ArrayLike, sensitive: ArrayLike, c: float | Decimal | Fraction | str
) -> NDArray[np.int64]:
    """Return the greatest l for which each class is recursive (c, l)-diverse.

    Parameters
    ----------
    c : float, Decimal, Fraction or str
        Above 0, compared exactly; a float counts as its shortest decimal.

    Returns
    -------
    ndarray of shape (m,), int64
        0 to `distinct_l`; 0 where not even r_1 < c (r_1 + ... + r_m) holds.

    Notes
    -----
    O(n log n) time, exact. The sums r_l + ... + r_m fall with l, so the number of l that pass is the greatest
    l. Source as of `recursive_c`.

    Examples
    --------
    >>> recursive_l([0, 0, 0, 1], ["flu", "cancer", "flu", "flu"], c=3).tolist()
    [2, 1]
    """
    exact = _exact_c(c)
    values = _descending(_values(labels, sensitive))
    first = values.starts[:-1]
    # A whole number exceeds r / c exactly if it exceeds the floor of r / c. Few r_1 are distinct, so a loop
    # over Python's integers costs little.
    most, which = np.unique(values.weights[first], return_inverse=True)
    floors = [min(r * exact.denominator // exact.numerator, 2**62) for r in most.tolist()]
    bound = np.array(floors, dtype=np.int64)[which]
    passes = _tails(values) > np.repeat(bound, np.diff(values.starts))
    return np.add.reduceat(passes.astype(np.int64), first)


@policy_errors()
def l_diversity(
    labels: ArrayLike,
    sensitive: ArrayLike,
    kind: LKind = "distinct",
    c: float | Decimal | Fraction | str | None = None,
) -> float:
    """Return the greatest l for which every class of the partition is l-diverse.

    Parameters
    ----------
    kind : {'distinct', 'entropy', 'recursive'}
        The measure of a class: `distinct_l`, `entropy_l` or `recursive_l`.
    c : float, Decimal, Fraction or str, optional
        For 'recursive', which needs it; no other kind takes it.

    Returns
    -------
    float
        The least l of the classes, a whole number but for 'entropy'.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, definition 1.
    """
    if kind not in get_args(LKind):
        raise ValueError(f"unknown kind '{kind}': use 'distinct', 'entropy' or 'recursive'")
    if (kind == "recursive") != (c is not None):
        raise ValueError(f"kind '{kind}' {'needs c' if kind == 'recursive' else 'takes no c'}")
    if c is not None:
        return float(recursive_l(labels, sensitive, c).min())
    each = distinct_l(labels, sensitive) if kind == "distinct" else entropy_l(labels, sensitive)
    return float(each.min())


@policy_errors()
def p_sensitivity(labels: ArrayLike, sensitive: ArrayLike) -> PSensitivity:
    """Return the greatest p and k for which a partition has p-sensitive k-anonymity.

    Parameters
    ----------
    sensitive : array_like of shape (n,) or (n, s)
        One or more columns, each as in `duckanon.measures`.

    Returns
    -------
    PSensitivity
        k: size of the smallest class. p: least number of distinct values of any sensitive attribute in any
        class. 1 <= p <= k.

    Notes
    -----
    O(s n log n) time. Source: Truta and Vinay, "Privacy protection: p-sensitive k-anonymity property", ICDE
    Workshops 2006, as cited by Li, Li and Venkatasubramanian, ICDE 2007, section 2.

    Examples
    --------
    >>> p_sensitivity([0, 0, 0], ["flu", "cancer", "flu"])
    PSensitivity(p=2, k=3)
    """
    classes, given = class_labels(labels), np.asarray(sensitive)
    if given.ndim not in (1, 2) or len(given) != len(classes) or given.size == 0:
        raise ValueError(f"sensitive must hold one row a record, of shape ({len(classes)}, s)")
    columns = given.reshape(len(classes), -1).T
    p = min(int(distinct_l(classes, values).min()) for values in columns)
    return PSensitivity(p, int(np.bincount(classes).min()))


def _values(labels: ArrayLike, sensitive: ArrayLike) -> Histograms:
    """Return the values of each class with their counts."""
    classes = class_labels(labels)
    return histograms(classes, ranked(column(sensitive, len(classes))).codes)


def _descending(values: Histograms) -> Histograms:
    """Return the values of each class from the most to the least frequent."""
    classes = np.repeat(np.arange(len(values.starts) - 1), np.diff(values.starts))
    order = np.lexsort((-values.weights, classes))
    return values._replace(values=values.values[order], weights=values.weights[order])


def _tails(values: Histograms) -> NDArray[np.int64]:
    """Return for each value the records of its class with this value or a later value."""
    until = np.append(0, np.cumsum(values.weights))
    return np.asarray(np.repeat(until[values.starts[1:]], np.diff(values.starts)) - until[:-1])


def _exact_c(c: object) -> Fraction:
    """Return c as the fraction that its decimal notation means; ValueError unless it is above 0."""
    exact = fraction(c)
    if exact is None or exact <= 0:
        raise ValueError(f"c must be a number above 0, not {c}")
    return exact


@policy_errors()
def similar_classes(
    labels: ArrayLike, sensitive: ArrayLike, paths: ArrayLike, level: int
) -> NDArray[np.bool_]:
    """Tell for which classes a similarity attack succeeds: all values of the class lie below one node.

    Parameters
    ----------
    level : int
        Level of the nodes, from 0 (classes with one value: the homogeneity attack) to H (every class).

    Returns
    -------
    ndarray of shape (m,), bool
        True where all records of a class share their node.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, sections 3 and 6. The groups of
    semantically close values of the paper are the nodes of a level here.

    Examples
    --------
    >>> tree = [[0, 0, 0], [1, 1, 0], [2, 1, 0]]  # 0 apart, 1 and 2 close
    >>> similar_classes([0, 0, 1, 1], [0, 1, 1, 2], tree, level=1).tolist()
    [False, True]
    """
    classes = class_labels(labels)
    ranks = ranked(column(sensitive, len(classes)))
    reference(ranks.counts, "hierarchical", paths)  # raises where the paths are no tree over the values
    tree, at = np.asarray(paths), whole_number("level", level, 0)
    if at >= tree.shape[1]:
        raise ValueError(f"level must be within 0..{tree.shape[1] - 1}, the levels of the paths, not {level}")
    return np.asarray(distinct_l(classes, tree[ranks.codes, at]) == 1)


def similarity_attack(labels: ArrayLike, sensitive: ArrayLike, paths: ArrayLike, level: int) -> int:
    """Return the number of records whose sensitive group a similarity attack reveals, 0 to n.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, section 6, who count 916 such records
    in an entropy 2-diverse table of Adult.
    """
    similar = similar_classes(labels, sensitive, paths, level)
    return int(np.bincount(class_labels(labels))[similar].sum())
