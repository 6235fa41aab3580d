"""Claims of section VI of Kabir et al. in words, and Figures 3 to 6, drawn again."""

from __future__ import annotations

from itertools import pairwise

from duckanon.kernels.points import Scale
from reproduce.kabir_printed import PAPER, PRINTED, SIZES, SORTS, TABLES, TITLES
from reproduce.kabir_runs import WITH_ID, WITH_MONTH, loss, loss_on, points
from reproduce.kabir_scales import CELLS, NAMES, wins
from reproduce.plots import Panel, chart
from reproduce.rows import Picture, Row, Section

DRAWN = range(3, 11)
"""Class sizes of the figures."""


def claims() -> Section:
    """Measure the claims of section VI."""
    return Section(
        PAPER,
        "section VI in words, and Figures 3 to 6",
        "Statements of the text, counted in the printed digits and in what was measured. Figures 3 and 4 are "
        "drawn on raw data, as the printed figures of the sorts are, and on z-scored data, both beside "
        "MDAV-1 on the same data; of EIA with MONTH on raw data, with UTILITYID on z-scored data.\n\nFigures "
        "5 and 6 are run times on a machine that is not named. What can be redrawn is the work: the "
        "distances that Algorithm 2 computes if it scans all records left for each addition to a class. It "
        "depends on n and k alone and so is the same for both sorts; sorting is small beside it.",
        (*_lowest(), *_meansort_first(), *_increasing(), *_work_rows()),
        (
            *(_loss_picture(number, sort) for number, sort in zip((3, 4), SORTS, strict=True)),
            Picture(
                "kabir-figures-5-and-6",
                "Figures 5 and 6: distances that Algorithm 2 computes, relative to those for EIA at k = 3",
                chart([_work_panel()]),
            ),
        ),
    )


def work(n: int, k: int) -> int:
    """Return the number of distances that Algorithm 2 computes without a search tree, for k in 1..n."""
    # For each addition to a class, the records left are counted; both seeds of a pair are taken first.
    total, left = 0, n
    while left >= 3 * k:
        total += 2 * sum(left - 2 - added for added in range(k - 1)) - (k - 1) ** 2
        left -= 2 * k
    if left >= 2 * k:
        total += sum(left - 2 - added for added in range(k - 1))
    return total


def _lowest() -> tuple[Row, ...]:
    """Count the cases in which a sort is below all rows of other papers."""
    statement = "below all other methods (section VI, Tables VI to VIII)"
    rows = []
    for sort in SORTS:
        printed = [_printed(name, sort, k) < min(_others(name, k)) for name, k in CELLS]
        fair = [
            loss_on(name, sort, k, "zscore", WITH_ID)
            < min(loss(name, other, k) for other in PRINTED[name] if other not in SORTS)
            for name, k in CELLS
        ]
        rows += [
            _count(f"{sort} {statement}, printed digits", sum(printed)),
            _count(f"{sort} {statement}, z-scored, all measured", sum(fair)),
        ]
    return tuple(rows)


def _meansort_first() -> tuple[Row, ...]:
    """Count the cases in which Meansort is below MultiDSort."""
    statement = "Meansort below MultiDSort in all data sets (section VI)"
    printed = sum(_printed(name, "Meansort", k) < _printed(name, "MultiDSort", k) for name, k in CELLS)
    scales: tuple[tuple[Scale, tuple[str, ...]], ...] = (
        ("none", WITH_MONTH),
        ("zscore", WITH_ID),
        ("minmax", WITH_ID),
    )
    return (
        _count(f"{statement}, printed digits", printed),
        *(
            _count(f"{statement}, {NAMES[scale]}", wins("Meansort", scale, eia, "MultiDSort"))
            for scale, eia in scales
        ),
    )


def _increasing() -> tuple[Row, ...]:
    """Find the steps at which the loss falls as k grows."""
    rows = []
    for sort in SORTS:
        for name, table in TABLES.items():
            printed = [(k, _printed(name, sort, k)) for k in SIZES]
            measured = [(k, loss(name, sort, k)) for k in DRAWN]
            falls = _falls(measured)
            rows.append(
                Row(
                    f"loss of {sort} increases with k (section VI, Figures 3 and 4), {table}",
                    "always",
                    "always" if not falls else f"not from k = {falls}",
                    not falls,
                    f"printed: not from k = {_falls(printed)}" if _falls(printed) else "",
                )
            )
    return tuple(rows)


def _falls(line: list[tuple[int, float]]) -> str:
    """Return the steps at which a line does not rise."""
    return ", ".join(f"{a} to {b}" for (a, low), (b, high) in pairwise(line) if high <= low)


def _work_rows() -> tuple[Row, ...]:
    """Check the claims on run times, as far as the number of distances decides them."""
    sizes = {title: len(points(name, WITH_ID)) for name, title in TITLES.items()}
    works = {title: work(n, 3) for title, n in sizes.items()}
    most, least = max(works, key=works.__getitem__), min(works, key=works.__getitem__)
    growth = [work(sizes["EIA"], k) / works["EIA"] for k in SIZES]
    return (
        Row("longest run time (section VI, Figures 5 and 6)", "EIA", most, most == "EIA"),
        Row(
            "shortest run time (section VI, Figures 5 and 6)",
            "Census (834 instances)",
            f"{least} ({sizes[least]} instances)",
            least == "Census",
            f"a slip in the text: by its own list 834 is Tarragona; Census has {sizes['Census']}",
        ),
        Row(
            "run time over k (section VI, Figures 5 and 6)",
            "increases slightly",
            "increases: work for EIA at k = 3, 4, 5, 10 is " + ", ".join(f"{value:.2f}" for value in growth),
            growth == sorted(growth),
            "in units of that at k = 3",
        ),
    )


def _loss_picture(number: int, sort: str) -> Picture:
    """Draw Figure 3 or 4."""
    return Picture(
        f"kabir-figure-{number}",
        f"Figure {number}: information loss of {sort} over k, on raw and on z-scored data, beside MDAV-1",
        chart([_loss_panel(sort, name) for name in TABLES]),
    )


def _loss_panel(sort: str, name: str) -> Panel:
    """Return the lines of a sort and of MDAV-1 on one data set."""
    scales: tuple[tuple[Scale, tuple[str, ...]], ...] = (("none", WITH_MONTH), ("zscore", WITH_ID))
    lines = {
        f"{method}, {NAMES[scale]}": [(k, loss_on(name, method, k, scale, eia)) for k in DRAWN]
        for scale, eia in scales
        for method in (sort, "MDAV-1")
    }
    return Panel(TITLES[name], "k", "information loss, %", lines)


def _work_panel() -> Panel:
    """Return the lines of the number of distances."""
    unit = work(len(points("eia", WITH_ID)), 3)
    lines = {}
    for name, title in TITLES.items():
        n = len(points(name, WITH_ID))
        lines[f"{title}, {n} records"] = [(k, work(n, k) / unit) for k in DRAWN]
    return Panel("MultiDSort and Meansort", "k", "distances, EIA at k = 3 is 1", lines)


def _printed(name: str, method: str, k: int) -> float:
    """Return a printed figure."""
    return float(PRINTED[name][method][SIZES.index(k)])


def _others(name: str, k: int) -> list[float]:
    """Return the printed figures of the quoted methods."""
    at = SIZES.index(k)
    return [float(cells[at]) for method, cells in PRINTED[name].items() if method not in SORTS and cells[at]]


def _count(place: str, number: int) -> Row:
    """Return the row of a claim about all twelve cases."""
    return Row(place, "12 of 12", f"{number} of 12", number == len(CELLS))
