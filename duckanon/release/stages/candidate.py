"""Candidate: what the stages hand to publish, an audited table that nobody sees yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from duckanon.audits.report import Report
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.plan import Plan
    from duckanon.release.stages.stage import Staged


@dataclass(frozen=True)
class Source:
    """A query and the place where its unqualified names are looked up."""

    query: str
    catalog: str
    schema: str


@dataclass(frozen=True)
class Candidate:
    """An audited candidate in a temporary table.

    Attributes
    ----------
    table : str
        Temporary table of the released columns.
    staged : Staged
        The records it was made from.
    policy : Policy
        Whose policy it keeps.
    plan : Plan
        What the partition did, and why.
    labels : ndarray of shape (staged.size,), int64
        Class of the partition of record_id 1, 2, ...; -1 where suppressed.
    suppressed : int
        Records left out by suppression or ``nulls = 'suppress'``.
    information_loss : float
        IL in per cent.
    report : Report
        The audit of the candidate.
    """

    table: str
    staged: Staged
    policy: Policy
    plan: Plan
    labels: npt.NDArray[np.int64]
    suppressed: int
    information_loss: float
    report: Report

    @property
    def classes(self) -> int:
        """Equivalence classes of the release, as its audit counts them."""
        return self.report.classes

    @property
    def method(self) -> str:
        """Method as it was asked for, and what it chose."""
        return self.plan.method if self.policy.method == "auto" else self.policy.method
