"""The methods of Tables VI to VIII, on the scale and the columns with which their rows come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckanon.kernels.points import Scale
from duckanon.literature.partitions import information_loss, partition
from reproduce.data import matrix

TEN = (
    "RESREVENUE",
    "RESSALES",
    "COMREVENUE",
    "COMSALES",
    "INDREVENUE",
    "INDSALES",
    "OTHREVENUE",
    "OTHRSALES",
    "TOTREVENUE",
    "TOTSALES",
)
"""The revenues and sales of EIA."""
WITH_ID = ("UTILITYID", *TEN)
WITH_MONTH = ("MONTH", *TEN)


@dataclass(frozen=True)
class Run:
    """How the figures of a row are computed.

    Attributes
    ----------
    method : str
        A name of `duckanon.methods`, or M-d, which has none.
    scale : Scale
        Scale of distances and of the loss.
    eia : tuple of str
        Columns of EIA; of the other data sets all 13 are used.
    options : mapping
        Options of the method.
    """

    method: str
    scale: Scale = "zscore"
    eia: tuple[str, ...] = WITH_ID
    options: Mapping[str, Any] = field(default_factory=dict)


RUNS: Mapping[str, Run] = {
    "MDAV-MHM": Run("mhm", options={"order": "mdav"}),
    "MD-MHM": Run("mhm", options={"order": "md"}),
    "CBFS-MHM": Run("mhm", options={"order": "cbfs"}),
    "NPN-MHM": Run("mhm", options={"order": "npn"}),
    "M-d": Run("m_d"),
    "mu-Approx": Run("mu_approx"),
    "TFRP-1": Run("tfrp1", eia=TEN),
    "TFRP-2": Run("tfrp2", eia=TEN),
    "MDAV-1": Run("mdav1"),
    "MDAV-2": Run("mdav2"),
    "DBA-1": Run("dba1"),
    "DBA-2": Run("dba2"),
    "MultiDSort": Run("multidsort_ps", "none", WITH_MONTH),
    "MultiDSort, sorted anew": Run("multidsort_ps", "none", WITH_MONTH, {"resort": True}),
    "Meansort": Run("meansort_ps", "none", WITH_MONTH),
}
"""By the name of the row; one has none."""


@cache
def points(name: str, eia: tuple[str, ...]) -> NDArray[np.float64]:
    """Return a data set as it is.

    Parameters
    ----------
    name : {'tarragona', 'census', 'eia'}
        Which.
    eia : tuple of str
        Its columns if it is EIA.

    Returns
    -------
    ndarray of shape (n, d), float64
        Shared: not to be changed.
    """
    return matrix(name, eia if name == "eia" else ())


def loss(name: str, row: str, k: int) -> float:
    """Return the information loss of a row of the tables.

    Parameters
    ----------
    name : {'tarragona', 'census', 'eia'}
        Data set.
    row : str
        A name of `RUNS`.
    k : int
        Smallest class size.

    Returns
    -------
    float
        Percent.
    """
    run = RUNS[row]
    return loss_on(name, row, k, run.scale, run.eia)


@cache
def loss_on(name: str, row: str, k: int, scale: Scale, eia: tuple[str, ...] = WITH_ID) -> float:
    """Return the information loss of a method of the tables on another scale.

    Parameters
    ----------
    name, row, k
        As `loss`.
    scale : Scale
        Scale of distances and of the loss.
    eia : tuple of str
        Columns of EIA.

    Returns
    -------
    float
        Percent.
    """
    table, run = points(name, eia), RUNS[row]
    labels = partition(table, k, run.method, scale=scale, **run.options)
    return information_loss(table, labels, scale)
