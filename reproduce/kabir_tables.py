"""Tables VI to VIII of Kabir et al. with every printed figure."""

from __future__ import annotations

from dataclasses import replace

from reproduce.kabir_printed import PAPER, PRINTED, SIZES, TABLES, TITLES
from reproduce.kabir_runs import TEN, loss, loss_on
from reproduce.rows import Row, Section, row

COPIED_MIN_DIGITS = 6
"""Least number of decimals for which two numbers that differ in one digit suggest a misprint."""

SCALES = (
    "Information loss, 100 SSE / SST. All rows but the last two are quoted from other papers and are on "
    "z-scored data; the last two, MultiDSort and Meansort, come out on data that are not normalised at all "
    "(section V-A says that they were brought to the range 0 to 1). So the table compares figures on "
    "different scales: see the sections below."
)


def table_vi() -> Section:
    """Tarragona."""
    return _section(
        "tarragona",
        f"{SCALES} 834 records, 13 columns.\n\nMDAV-1, both DBA and both TFRP come out to the last digit, "
        "MDAV-2 but for one digit of one figure. Of M-d and mu-Approx the papers at hand leave the division "
        "of large clusters and the root of a tree open, of the MHM rows how the path runs through the "
        "groups. Of M-d, zeros at the end look like padding: two quoting sources give four and two digits.",
    )


def table_vii() -> Section:
    """Census."""
    return _section("census", f"{SCALES} 1,080 records, 13 columns. Remarks as for Table VI.")


def table_viii() -> Section:
    """EIA."""
    return _section(
        "eia",
        f"{SCALES} 4,092 records. Which eleven columns are meant the paper does not say, and three answers "
        "are in one table: MDAV, DBA (and, as far as they come out, MHM and mu-Approx) have UTILITYID and "
        "the ten revenues and sales, TFRP the ten alone, MultiDSort and Meansort MONTH and the ten. The rows "
        "of TFRP and the last two therefore cannot be compared with the others either.",
    )


def _section(name: str, reading: str) -> Section:
    """Return a table."""
    rows = [
        _row(name, method, k, published)
        for method, cells in PRINTED[name].items()
        for k, published in zip(SIZES, cells, strict=True)
        if published
    ]
    return Section(PAPER, f"{TABLES[name]}: information loss on {TITLES[name]}", reading, tuple(rows))


def _row(name: str, method: str, k: int, published: str) -> Row:
    """Return one cell, with a remark if it differs."""
    measured = loss(name, method, k)
    found = row(f"{TABLES[name]}, {method}, k = {k}", published, measured)
    if found.match:
        return found
    percent = 100.0 * (measured / float(published) - 1.0)
    remark = f"{abs(percent):.2g} % {'above' if percent > 0 else 'below'} the print"
    if abs(percent) <= 1.0:
        remark += ", within 1 %"
    elif name == "eia":
        remark += f"; {loss_on(name, method, k, 'zscore', TEN):.3f} on the ten revenues and sales alone"
    return replace(found, remark=remark + _digits(published, measured))


def _digits(published: str, measured: float) -> str:
    """Return what the digits of two unequal figures suggest, if anything."""
    digits = len(published.partition(".")[2])
    text = f"{measured:.{digits}f}"
    different = sum(a != b for a, b in zip(text, published, strict=False)) + abs(len(text) - len(published))
    if digits >= COPIED_MIN_DIGITS and different == 1:
        return f"; {text} to as many digits, all the same but one: a misprint, it seems"
    if published.endswith("00") and row("", published[:-2], measured).match:
        return f"; {published[:-2]} if the two zeros at its end are padding"
    return ""
