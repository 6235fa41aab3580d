"""Parts of a reproduction: sections of rows, each with a published and a measured figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Row:
    """A published figure and the measured one."""

    place: str  # table, row and column of the paper
    published: str  # as printed
    measured: str  # as `figure` writes it
    match: bool  # whether the measured figure, rounded to the printed digits, is the published one
    remark: str = ""  # reason of a mismatch, or another note


@dataclass(frozen=True)
class Picture:
    """A figure of a paper that prints no numbers, drawn again."""

    name: str  # of the file in docs/figures, without its ending
    title: str  # number of the figure, and what it shows
    svg: str


@dataclass(frozen=True)
class Section:
    """A table or an example of a paper."""

    paper: str  # short name, for example ``Li 2007``
    title: str  # what is reproduced
    reading: str  # conditions of the figures (data, scale, end game ...), and the result of the comparison
    rows: tuple[Row, ...] = ()
    pictures: tuple[Picture, ...] = ()  # drawn from the same runs


Maker = Callable[[], Section]
"""Function that measures one section; raises a `MissingDataError` if its data are missing."""


class MissingDataError(Exception):
    """Reference data are missing on this machine; the text names them."""


def row(place: str, published: str, measured: float, remark: str = "") -> Row:
    """Row of a printed number and a measured one, equal to half a unit of the last printed digit."""
    printed = Decimal(published)
    digits = -int(printed.as_tuple().exponent)
    half = Decimal(5).scaleb(-digits - 1)
    # A binary fraction of decimal data may miss a tie by a rounding error.
    match = abs(Decimal(measured) - printed) <= half + Decimal("1e-9").scaleb(-digits)
    return Row(place, published, figure(measured, max(digits + 1, 0)), match, remark)


def figure(measured: float, digits: int) -> str:
    """Number as text, with at most `digits` (up to 9) decimals; a whole number without decimals."""
    return str(int(measured)) if float(measured).is_integer() else f"{measured:.{min(digits, 9)}f}"
