"""What a reproduction consists of: sections of rows, each with a published and a measured figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes
    ----------
    place : str
        Table, row and column of the paper.
    published : str
        As printed.
    measured : str
        As `figure` writes it.
    match : bool
        Whether the measured figure, rounded to the digits printed, is the published one.
    remark : str
        Why not, where it does not match, or what else a reader must know.
    """

    place: str
    published: str
    measured: str
    match: bool
    remark: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure of a paper without digits, drawn anew.

    Attributes
    ----------
    name : str
        File name in docs/figures, without its ending.
    title : str
        Which figure it is, and what it shows.
    svg : str
        The document.
    """

    name: str
    title: str
    svg: str


@dataclass(frozen=True)
class Section:
    """A table or an example of a paper.

    Attributes
    ----------
    paper : str
        Short name of the paper, for example ``Li 2007``.
    title : str
        What is reproduced.
    reading : str
        Data, scale, end game and all else that the figures depend on; and what the comparison shows.
    rows : tuple of Row
        The figures.
    pictures : tuple of Picture
        Figures drawn from the same runs.
    """

    paper: str
    title: str
    reading: str
    rows: tuple[Row, ...] = ()
    pictures: tuple[Picture, ...] = ()


Maker = Callable[[], Section]
"""Measures one section; raises `MissingDataError` where its data are not there."""


class MissingDataError(Exception):
    """Reference data are not on this machine; the text says which."""


def row(place: str, published: str, measured: float, remark: str = "") -> Row:
    """Row of a printed number and a measured one.

    Parameters
    ----------
    place : str
        Table, row and column of the paper.
    published : str
        The number as printed; its digits after the point decide how it is compared.
    measured : float
        The number measured.
    remark : str
        As in `Row`.

    Returns
    -------
    Row
        It matches where the two differ by at most half a unit of the last printed digit.
    """
    printed = Decimal(published)
    digits = -int(printed.as_tuple().exponent)
    half = Decimal(5).scaleb(-digits - 1)
    # Binary fractions of decimal data miss a tie by a hair.
    match = abs(Decimal(measured) - printed) <= half + Decimal("1e-9").scaleb(-digits)
    return Row(place, published, figure(measured, max(digits + 1, 0)), match, remark)


def figure(measured: float, digits: int) -> str:
    """Number as text.

    Parameters
    ----------
    measured : float
        A number.
    digits : int
        Digits after the point, at most 9.

    Returns
    -------
    str
        Without needless zeros where it is whole.
    """
    return str(int(measured)) if float(measured).is_integer() else f"{measured:.{min(digits, 9)}f}"
