"""Algorithm 1 of "Steered Microaggregation" over a range of weights, for several sections."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duckanon.kernels.first.tcloseness_first import least_size
from duckanon.literature.partitions import partition
from duckanon.literature.steered import steered_tcloseness, steering_weight
from duckanon.measures import average_emd, distinct_l, mae, maximum_emd, mse
from reproduce import data
from reproduce.plots import Panel
from reproduce.rows import Row, row

WEIGHTS = range(251)
"""Weights that are tried; the largest printed weight is 216."""

K = 2
"""Least class size; t requires larger classes, so k has no effect."""


class WeightTable(NamedTuple):
    """Quasi-identifiers (n, m) and sensitive values (n,)."""

    points: NDArray[np.float64]
    sensitive: NDArray[np.float64]


class WeightOutcome(NamedTuple):
    """Figures of Algorithm 1 with one weight: the four lines of Figures 1 and 2."""

    weight: int
    maximum_emd: float
    average_emd: float
    mse: float
    mae: float


def perfectly_correlated(n: int) -> WeightTable:
    """Return the PCD data set, records (i, i) for i = 0..n-1."""
    values = np.arange(n, dtype=np.float64)
    return WeightTable(values[:, None], values)


def moderately_correlated() -> WeightTable:
    """Return the MCD data set: TAXINC and POTHVAL with FEDTAX, in the order of the file."""
    return WeightTable(data.matrix("census", ("TAXINC", "POTHVAL")), data.matrix("census", ("FEDTAX",))[:, 0])


def reordered(table: WeightTable, order: NDArray[np.int64]) -> WeightTable:
    """Return the records of a table in another order."""
    return WeightTable(table.points[order], table.sensitive[order])


def outcome(table: WeightTable, t: str, weight: int) -> WeightOutcome:
    """Return the EMDs and the losses of Algorithm 1 with MDAV."""
    labels = steered_tcloseness(*table, K, t=t, weight=float(weight))
    return WeightOutcome(
        weight,
        maximum_emd(labels, table.sensitive),
        average_emd(labels, table.sensitive),
        mse(table.points, labels),
        mae(table.points, labels),
    )


def sweep(table: WeightTable, t: str) -> tuple[WeightOutcome, ...]:
    """Return the outcome of every weight."""
    return tuple(outcome(table, t, weight) for weight in WEIGHTS)


def reaching(found: tuple[WeightOutcome, ...], t: float) -> WeightOutcome | None:
    """Return the first outcome from which the maximum EMD stays at most t, None if the last one exceeds t."""
    above = [place for place, each in enumerate(found) if each.maximum_emd > t]
    first = above[-1] + 1 if above else 0
    return found[first] if first < len(found) else None


def reached(found: tuple[WeightOutcome, ...], t: str) -> str:
    """Return the weight of `reaching` as text."""
    first = reaching(found, float(t))
    return "none" if first is None else str(first.weight)


def weight_row(place: str, printed: str, found: tuple[WeightOutcome, ...], t: str, remark: str) -> Row:
    """Return the row of a weight that reaches t."""
    first = reaching(found, float(t))
    if first is None:
        return Row(place, printed, f"none up to {found[-1].weight}", False, remark)
    before = found[first.weight - 1].maximum_emd
    return row(place, printed, first.weight, f"maximum EMD {before:.4f} one weight below; {remark}")


def bound(n: int, t: str, attributes: int) -> float:
    """Return |B_1| sqrt(m), the bound of Proposition 1."""
    return -(-n // least_size(n, K, t)) * math.sqrt(attributes)


def repeats(table: WeightTable, t: str, weight: float) -> tuple[int, int]:
    """Return the number of classes with two records of one bucket, and the number of all classes."""
    n = len(table.sensitive)
    labels = steered_tcloseness(*table, K, t=t, weight=weight)
    parts = np.array_split(np.argsort(table.sensitive, kind="stable"), least_size(n, K, t))
    bucket = np.empty(n, dtype=np.int64)
    for number, part in enumerate(parts):
        bucket[part] = number
    mixed = distinct_l(labels, bucket) < np.bincount(labels)
    return int(mixed.sum()), len(mixed)


def repeats_row(place: str, table: WeightTable, t: str, remark: str = "") -> Row:
    """Return the row, with its weight, of the classes that Proposition 1 excludes."""
    n, attributes = table.points.shape
    weight = steering_weight(n, least_size(n, K, t), attributes)
    mixed, classes = repeats(table, t, weight)
    said = f"of {classes} classes, with weight {weight:.4f}"
    return row(f"{place}: classes with two records of a bucket", "0", mixed, f"{said}; {remark}".strip("; "))


def other_bases(table: WeightTable, t: str, first: WeightOutcome | None) -> str:
    """Return the names of the bases that reach t with the same weight, but not with the weight below."""
    if first is None:
        return ""

    def greatest(base: str, weight: int) -> float:
        labels = partition(
            table.points, K, "steered", sensitive=table.sensitive, t=t, scale="minmax", base=base,
            weight=float(weight),
        )  # fmt: skip
        return maximum_emd(labels, table.sensitive)

    same = [
        base
        for base in ("mdav1", "mdav_generic", "cbfs")
        if greatest(base, first.weight) <= float(t) < greatest(base, first.weight - 1)
    ]
    return f"the same weight with base {', '.join(same)}"


def panel(title: str, found: tuple[WeightOutcome, ...]) -> Panel:
    """Return the chart of every tenth weight."""
    drawn = found[::10]
    return Panel(
        title,
        "weight of the bucket attribute",
        "EMD, loss on the range 0 to 1",
        {
            "maximum EMD": [(each.weight, each.maximum_emd) for each in drawn],
            "average EMD": [(each.weight, each.average_emd) for each in drawn],
            "MSE": [(each.weight, each.mse) for each in drawn],
            "MAE": [(each.weight, each.mae) for each in drawn],
        },
    )
