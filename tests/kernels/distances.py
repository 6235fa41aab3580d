"""Slow oracles for EMD and diversity: plain Fractions over the whole domain, and a transport problem."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import frexp, log

import numpy as np
from scipy.optimize import linprog

from duckanon.kernels.closeness.threshold import violations_per_class

DISEASES = ["gastric ulcer", "gastritis", "stomach cancer", "flu", "bronchitis", "pneumonia"]
DISEASE_PATHS = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [2, 0, 0, 0], [3, 1, 1, 0], [4, 1, 1, 0], [5, 1, 1, 0]])
"""Li 2007, Figure 1, for the diseases of Table 3: disease, its organ, its system, the root; height 3.

The sibling nodes without a record in Table 3 (colon, vascular lung) have no effect on any distance.
"""


def magnified(points):
    """Give points whose squares do not vanish: those that are all below 2^-64, times a power of two.

    That changes no digit, so the order of exact distances is kept. Where squares of single numbers beside larger
    ones vanish, they do so in any arithmetic of doubles.
    """
    largest = float(np.abs(points).max(initial=0.0))
    return points if largest > 2.0**-64 else np.ldexp(points, -frexp(largest)[1])


def ground_distance(i, j, m, distance, paths=None):
    """Give the distance of two value codes as Li 2007, section 5, defines it."""
    if distance == "ordered":
        return Fraction(abs(i - j), max(m - 1, 1))
    if distance == "equal":
        return Fraction(int(i != j))
    height = len(paths[0]) - 1
    level = next(h for h in range(height + 1) if paths[i][h] == paths[j][h])
    return Fraction(level, max(height, 1))


def shares(codes, m):
    """Give the share of each value code."""
    counts = Counter(int(code) for code in codes)
    return [Fraction(counts[v], len(codes)) for v in range(m)]


def slow_emd(codes, counts, distance, paths=None):
    """Give the EMD by the formulas of Li 2007, sections 5.1 and 5.2, dense and in Fractions."""
    m, n = len(counts), sum(int(x) for x in counts)
    extra = [p - Fraction(int(q), n) for p, q in zip(shares(codes, m), counts, strict=True)]
    if distance == "ordered":
        return sum((abs(sum(extra[: i + 1])) for i in range(m - 1)), Fraction(0)) / max(m - 1, 1)
    if distance == "equal":
        return sum(abs(x) for x in extra) / 2
    height, total = len(paths[0]) - 1, Fraction(0)
    for level in range(1, height + 1):
        for node in {path[level] for path in paths}:
            below = [v for v in range(m) if paths[v][level] == node]
            children = {
                child: sum(extra[v] for v in below if paths[v][level - 1] == child)
                for child in {paths[v][level - 1] for v in below}
            }
            positive = sum((x for x in children.values() if x > 0), Fraction(0))
            negative = sum((-x for x in children.values() if x < 0), Fraction(0))
            total += Fraction(level, height) * min(positive, negative)
    return total


def transport_emd(codes, counts, distance, paths=None):
    """Give the EMD as the optimum of its definition, a transport problem (Li 2007, section 5)."""
    m, n = len(counts), sum(int(x) for x in counts)
    cost = [float(ground_distance(i, j, m, distance, paths)) for i in range(m) for j in range(m)]
    rows = np.kron(np.eye(m), np.ones(m))
    columns = np.kron(np.ones(m), np.eye(m))
    ends = [float(p) for p in shares(codes, m)] + [int(q) / n for q in counts]
    return linprog(cost, A_eq=np.vstack([rows, columns]), b_eq=ends, method="highs").fun


def slow_diverse(codes, kind, least, c=None):
    """Tell whether a class is l-diverse (Machanavajjhala 2007, definitions 4.1 and 4.3).

    Logarithms are rounded: unequal counts must exceed log l by the documented margin of 2e-9.
    """
    counts = sorted(Counter(int(code) for code in codes).values(), reverse=True)
    if kind == "distinct":
        return len(counts) >= least
    if kind == "entropy":
        entropy = -sum(x / len(codes) * log(x / len(codes)) for x in counts)
        if least <= 1 or counts[0] == counts[-1]:
            return len(counts) >= least
        return entropy >= log(least) + 2e-9
    return counts[0] < Fraction(c) * sum(counts[int(least) - 1 :])


def violation(threshold, codes):
    """Give the violation of a threshold by one class, as the kernel computes it."""
    return float(violations_per_class([threshold], [codes], [0, len(codes)])[0, 0])


def _within(bounds, held, size):
    """Tell whether each value has a share within bounds, which tests/kernels/test_shares.py checks."""
    rows = zip(*bounds.most.tolist(), *bounds.least.tolist(), strict=True)
    return all(
        Fraction(low, under) <= Fraction(held[value], size) <= Fraction(high, over)
        for value, (high, over, low, under) in enumerate(rows)
    )


def slow_meets(threshold, codes, paths=None):
    """Tell whether a class satisfies a threshold."""
    known = threshold.reference
    if threshold.t is not None:
        reached = slow_emd(codes, known.counts, known.distance, paths)
        if reached > Fraction(threshold.t):
            return False
    if threshold.shares is not None and not _within(threshold.shares, Counter(map(int, codes)), len(codes)):
        return False
    return threshold.l is None or slow_diverse(codes, threshold.l_kind, threshold.l, threshold.c)
