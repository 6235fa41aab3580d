"""Soria-Comas et al. 2015: Tables 1 to 3 as printed, "smallest/average" class size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reproduce.soria_comas_runs import T

# One line for each data set and k, with one cell for each t.

TABLE_1 = """\
MCD 2 1080/1080 56/120 20/42 8/20 4/10 4/7 2/8
MCD 5 1080/1080 385/540 40/154 20/47 10/24 10/17 5/12
MCD 10 1080/1080 1080/1080 110/270 40/108 20/57 20/35 10/24
MCD 15 1080/1080 1080/1080 135/360 45/90 30/64 30/45 15/33
MCD 20 1080/1080 380/540 160/216 80/154 40/83 40/54 20/37
MCD 25 1080/1080 1080/1080 1080/1080 455/540 50/180 50/90 25/72
MCD 30 1080/1080 540/540 270/360 120/180 60/98 60/77 30/57
HCD 2 1080/1080 36/98 16/31 8/52 4/9 4/7 2/5
HCD 5 1080/1080 200/216 40/60 20/80 10/21 10/15 5/11
HCD 10 1080/1080 1080/1080 180/216 40/190 20/47 20/31 10/20
HCD 15 1080/1080 495/540 195/270 60/270 30/68 30/54 15/33
HCD 20 1080/1080 240/360 180/216 60/140 40/72 40/60 20/40
HCD 25 1080/1080 1080/1080 230/360 50/250 50/98 50/72 25/48
HCD 30 1080/1080 1080/1080 330/540 150/390 60/108 60/90 30/57
"""

TABLE_2 = """\
MCD 2 164/216 8/10 4/7 4/6 2/3 2/3 2/3
MCD 5 40/64 10/16 5/7 5/7 5/7 5/7 5/6
MCD 10 40/108 10/17 10/17 10/15 10/15 10/13 10/12
MCD 15 30/57 15/28 15/25 15/23 15/23 15/19 15/16
MCD 20 40/54 20/37 20/35 20/32 20/31 20/26 20/22
MCD 25 50/51 25/51 25/43 25/39 25/40 25/32 25/28
MCD 30 30/57 30/68 30/54 30/49 30/47 30/37 30/34
HCD 2 156/360 8/11 4/7 4/4 2/3 2/3 2/3
HCD 5 80/154 10/10 5/8 5/8 5/7 5/8 5/7
HCD 10 80/135 10/17 10/17 10/16 10/14 10/14 10/12
HCD 15 30/60 15/30 15/26 15/23 15/22 15/21 15/17
HCD 20 40/49 20/43 20/36 20/32 20/29 20/28 20/23
HCD 25 50/51 25/51 25/43 25/39 25/37 25/35 25/26
HCD 30 60/64 30/64 30/54 30/47 30/43 30/42 30/34
"""

TABLE_3 = """\
MCD 2 49/49 10/10 6/6 4/4 3/3 3/3 2/2
MCD 5 49/49 10/10 6/6 5/5 5/5 5/5 5/5
MCD 10 49/49 10/10 10/10 10/10 10/10 10/10 10/10
MCD 15 49/49 15/15 15/15 15/15 15/15 15/15 15/15
MCD 20 49/49 20/20 20/20 20/20 20/20 20/20 20/20
MCD 25 49/49 25/25 25/25 25/25 25/25 25/25 25/25
MCD 30 49/49 30/30 30/30 30/30 30/30 30/30 30/30
HCD 2 49/49 10/10 6/6 4/4 3/3 3/3 2/2
HCD 5 49/49 10/10 6/6 5/5 5/5 5/5 5/5
HCD 10 49/49 10/10 10/10 10/10 10/10 10/10 10/10
HCD 15 49/49 15/15 15/15 15/15 15/15 15/15 15/15
HCD 20 49/49 20/20 20/20 20/20 20/20 20/20 20/20
HCD 25 49/49 25/25 25/25 25/25 25/25 25/25 25/25
HCD 30 49/49 30/30 30/30 30/30 30/30 30/30 30/30
"""


class Cell(NamedTuple):
    """A cell of Table 1, 2 or 3."""

    k: int  # its line
    t: str  # its column
    data: str  # 'MCD' or 'HCD', its half of the column
    smallest: str  # class size as printed
    average: str  # class size as printed


def cells(table: str) -> Iterator[Cell]:
    """Yield the 98 cells of `TABLE_1`, `TABLE_2` or `TABLE_3`: all of MCD, then all of HCD, line by line."""
    for line in table.splitlines():
        data, k, *sizes = line.split()
        for t, pair in zip(T, sizes, strict=True):
            smallest, average = pair.split("/")
            yield Cell(int(k), t, data, smallest, average)


def possible(average: str, n: int) -> bool:
    """Return whether n / m, rounded or cut off, is the printed average for any whole m."""
    printed = int(average)
    return any(printed - 0.5 <= n / m < printed + 1 for m in range(1, n + 1))
