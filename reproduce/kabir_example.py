"""The worked example of Kabir et al., Tables I to V: five records in the two orders."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from duckanon.literature.sorting import meansort_order, multidsort_order
from reproduce.kabir_printed import PAPER
from reproduce.rows import Row, Section

TABLE_I = np.array([[5, 6], [3, 10], [1, 3], [2, 1], [4, 2]])


def tables_i_to_iii() -> Section:
    """MultiDSort."""
    by_value = np.argsort(TABLE_I, axis=0, kind="stable")
    sums = (np.argsort(by_value, axis=0) + 1).sum(axis=1)
    order = multidsort_order(TABLE_I)
    rows = (
        _row("Table II A, column R1", "3, 4, 2, 5, 1", by_value[:, 0] + 1),
        _row("Table II A, column R2", "4, 5, 3, 1, 2", by_value[:, 1] + 1),
        _row("Table II B, rank sums", "9, 8, 4, 3, 6", sums),
        _row("Table II B, column R", "5, 4, 2, 1, 3", np.argsort(order) + 1),
        *_sorted_rows("Table III", ("2 1", "1 3", "4 2", "3 10", "5 6"), order),
    )
    return Section(
        PAPER,
        "Tables I to III: MultiDSort on the worked example",
        "The records of Table I are ranked in either column; the sums of their ranks give the order. Ranks "
        f"count from 1, as printed. {_ends(order)}",
        rows,
    )


def tables_iv_and_v() -> Section:
    """Meansort."""
    deviations = (TABLE_I - TABLE_I.mean(axis=0)).sum(axis=1)
    order = meansort_order(TABLE_I)
    rows = (
        Row(
            "Table IV, third column",
            (printed := "3.6, 5.6, -3.4, -4.4, -1.4"),
            (measured := ", ".join(f"{value:.1f}" for value in deviations)),
            measured == printed,
        ),
        _row("Table IV, column R", "4, 5, 2, 1, 3", np.argsort(order) + 1),
        *_sorted_rows("Table V", ("2 1", "1 3", "4 2", "5 6", "3 10"), order),
    )
    return Section(
        PAPER,
        "Tables IV and V: Meansort on the worked example",
        "The sum of the signed differences from the column means gives the order (Eq. 5). It is the order of "
        "the row sums and no distance: a record far above the mean in one column and far below it in another "
        "sorts into the middle. So section V-C overstates it that the first and the last record are always "
        f"the most distant ones. {_ends(order)}",
        rows,
    )


def _row(place: str, published: str, measured: Iterable[int]) -> Row:
    """Return the row of a column of whole numbers."""
    text = ", ".join(str(value) for value in measured)
    return Row(place, published, text, text == published)


def _sorted_rows(table: str, published: tuple[str, ...], order: NDArray[np.int64]) -> Iterable[Row]:
    """Return a row for each record of a sorted table."""
    for number, (printed, record) in enumerate(zip(published, order, strict=True), start=1):
        text = " ".join(str(value) for value in TABLE_I[record])
        yield Row(f"{table}, record {number}", printed, text, text == printed)


def _ends(order: NDArray[np.int64]) -> str:
    """Say how far apart the ends of an order are, and the most distant records."""
    pairs = [(a, b) for b in range(len(TABLE_I)) for a in range(b)]
    far = max(pairs, key=lambda pair: _distance(*pair))
    ends = f"The first and the last record here are {_distance(order[0], order[-1]):.2f} apart"
    return f"{ends}; the most distant two, {far[0] + 1} and {far[1] + 1}, are {_distance(*far):.2f}."


def _distance(a: int, b: int) -> float:
    """Return the distance of two records."""
    return float(np.linalg.norm(TABLE_I[a] - TABLE_I[b]))
