"""The two sorts of Kabir et al. on the same data and scale as the methods that they are compared with."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from duckanon.kernels.loss import sst
from duckanon.kernels.neighbours.centroids import nearest
from duckanon.kernels.points import Scale, scaled
from reproduce.kabir_printed import PAPER, PRINTED, SIZES, SORTS, TABLES
from reproduce.kabir_runs import WITH_ID, WITH_MONTH, loss_on, points
from reproduce.rows import Row, Section, row

CELLS = tuple((name, k) for name in TABLES for k in SIZES)
NAMES: dict[Scale, str] = {"none": "raw", "zscore": "z-scored", "minmax": "min-max"}


def on_raw_data() -> Section:
    """Measure on the scale that the printed figures of the two sorts have."""
    return Section(
        PAPER,
        "the two sorts and MDAV-1 on raw data",
        f"Of the figures printed for the two sorts, {_printed('none', WITH_MONTH)} of 24 come out on data as "
        "they are, of EIA on MONTH and the ten revenues and sales. The paper sets them beside figures of "
        "other methods on z-scored data. Here MDAV-1 has the same raw data; a row matches where the two are "
        f"in the printed order.\n\n{_tally('none', WITH_MONTH)} With UTILITYID in place of MONTH the cases "
        f"are {', '.join(map(str, _wins('none', WITH_ID)))}. So the advantage in the tables is one of the "
        "scale, not of the methods. Raw data are easier: the three columns of largest variance hold "
        f"{_share('tarragona')} of the SST of Tarragona, {_share('census')} of Census, {_share('eia')} of "
        "EIA, and little else counts.",
        _against_mdav1("none", WITH_MONTH),
    )


def on_zscored_data() -> Section:
    """Measure on the scale of the other rows."""
    return Section(
        PAPER,
        "the two sorts and MDAV-1 on z-scored data",
        "The same on the scale, and for EIA on the columns, of the row MDAV-1 of the tables. "
        f"{_tally('zscore', WITH_ID)} These are the figures with which the other rows of the tables could be "
        "compared.",
        _against_mdav1("zscore", WITH_ID),
    )


def on_minmax_data() -> Section:
    """Measure on the scale of section V-A."""
    return Section(
        PAPER,
        "the two sorts and MDAV-1 on data between 0 and 1",
        f"The same on the scale that section V-A says was used. {_tally('minmax', WITH_ID)} Of the printed "
        f"figures of the sorts, {_printed('minmax', WITH_ID)} of 24 come out on it "
        f"({_printed('minmax', WITH_MONTH)} with MONTH in place of UTILITYID).",
        _against_mdav1("minmax", WITH_ID),
    )


def lower_bound() -> Section:
    """Compare the printed figures with a lower bound of all partitions."""
    rows = tuple(_bound_row(sort, name, k) for sort in SORTS for name, k in CELLS)
    return Section(
        PAPER,
        "a lower bound that the printed figures would have to keep",
        "The sum of squared errors of a class of m records is the sum over its records of 1/2m times the "
        "squared distances to the other m - 1, so at least 1/2m times the m - 1 smallest squared distances "
        "in the whole table. That does not fall when m grows, as each further distance is at least the "
        "average of those before. So in every partition into classes of at least k records, SSE is at least "
        "the sum over all records of 1/2k times the k - 1 smallest squared distances. A row matches where "
        "the printed figure, with half a unit of its last digit, keeps the bound on all three scales; of EIA "
        f"the bound is the lower one of those with UTILITYID and with MONTH.\n\n{_impossible('zscore')} "
        f"{_impossible('minmax')} No partition whatever has these losses on those scales: the figures cannot "
        "be compared with the z-scored ones beside them, nor be those of the normalisation that the paper "
        "describes.",
        rows,
    )


@cache
def bound(name: str, k: int, scale: Scale) -> float:
    """Return `least_loss` of a data set on a scale; of EIA the lower bound of both sets of columns."""
    columns = (WITH_ID, WITH_MONTH) if name == "eia" else (WITH_ID,)
    return min(least_loss(scaled(points(name, eia), scale), k) for eia in columns)


def least_loss(table: NDArray[np.float64], k: int) -> float:
    """Return a lower bound (per cent) of the loss of any partition of a table (n, d), k >= 2."""
    # 100 / SST times the sum over all records of 1 / 2k times their k - 1 smallest squared distances.
    # The nearest record has distance 0: it is the record itself or an equal one.
    others = nearest(table, table, np.arange(2, k + 1), parallel=True)
    squares = np.square(table[others] - table[:, None])
    return 100.0 * float(np.sum(squares)) / (2 * k) / sst(table)


def wins(sort: str, scale: Scale, eia: tuple[str, ...], other: str = "MDAV-1") -> int:
    """Return the number of the twelve cases in which a sort loses less than another row on the same data."""
    return sum(loss_on(name, sort, k, scale, eia) < loss_on(name, other, k, scale, eia) for name, k in CELLS)


def _wins(scale: Scale, eia: tuple[str, ...]) -> list[int]:
    """Return the number of wins of MultiDSort, of MultiDSort sorted again, and of Meansort."""
    return [wins(sort, scale, eia) for sort in ("MultiDSort", "MultiDSort, sorted anew", "Meansort")]


def _tally(scale: Scale, eia: tuple[str, ...]) -> str:
    """Return a text on how often the sorts lose less than MDAV-1."""
    multi, anew, mean = _wins(scale, eia)
    return (
        f"MultiDSort loses less than MDAV-1 in {multi} of 12 cases (in {anew} if it sorts anew for every "
        f"pair of classes, as step 2.2 has it), Meansort in {mean}."
    )


def _printed(scale: Scale, eia: tuple[str, ...]) -> int:
    """Return the number of the 24 printed figures of the sorts that a scale reproduces."""
    return sum(
        row("", PRINTED[name][sort][SIZES.index(k)], loss_on(name, sort, k, scale, eia)).match
        for sort in SORTS
        for name, k in CELLS
    )


def _share(name: str) -> str:
    """Return the share of the three columns of largest variance in SST on raw data."""
    variances = np.sort(points(name, WITH_MONTH).var(axis=0))
    return f"{100 * variances[-3:].sum() / variances.sum():.0f} %"


def _against_mdav1(scale: Scale, eia: tuple[str, ...]) -> tuple[Row, ...]:
    """Return a row for each printed figure of a sort."""
    return tuple(_compared(sort, name, k, scale, eia) for sort in SORTS for name, k in CELLS)


def _compared(sort: str, name: str, k: int, scale: Scale, eia: tuple[str, ...]) -> Row:
    """Return the row of one case."""
    texts = [PRINTED[name][method][SIZES.index(k)] for method in (sort, "MDAV-1")]
    ours, mdav1 = (loss_on(name, method, k, scale, eia) for method in (sort, "MDAV-1"))
    claimed, found = _sign(float(texts[0]), float(texts[1])), _sign(ours, mdav1)
    return Row(
        f"{TABLES[name]}, {sort} and MDAV-1, k = {k}, {NAMES[scale]}",
        f"{texts[0]} {claimed} {texts[1]}",
        f"{ours:.3f} {found} {mdav1:.3f}",
        found == claimed,
        "" if found == claimed else f"the loss of the sort is {100 * ours / mdav1:.1f} % of the other",
    )


def _sign(a: float, b: float) -> str:
    """Return how two numbers compare."""
    return "<" if a < b else ">" if a > b else "="


def _bound_row(sort: str, name: str, k: int) -> Row:
    """Return the row of one printed figure and its bounds."""
    published = PRINTED[name][sort][SIZES.index(k)]
    broken = [scale for scale in NAMES if _below(published, bound(name, k, scale))]
    return Row(
        f"{TABLES[name]}, {sort}, k = {k}",
        published,
        "at least " + ", ".join(f"{bound(name, k, scale):.3f} {text}" for scale, text in NAMES.items()),
        not broken,
        f"impossible on {' and '.join(NAMES[scale] for scale in broken)} data" if broken else "",
    )


def _below(published: str, least: float) -> bool:
    """Tell whether every number that rounds to the published one is below the bound."""
    return least > float(published) and not row("", published, least).match


def _impossible(scale: Scale) -> str:
    """Count the printed figures below the bound."""
    counts = [
        sum(_below(PRINTED[name][sort][SIZES.index(k)], bound(name, k, scale)) for name, k in CELLS)
        for sort in SORTS
    ]
    return (
        f"On {NAMES[scale]} data {counts[0]} of 12 figures of MultiDSort and {counts[1]} of 12 of Meansort "
        "are below it."
    )
