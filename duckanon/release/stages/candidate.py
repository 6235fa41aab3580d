"""Candidate: what the stages hand to publish, an audited table that nobody sees yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.policy.told import told_loss
from duckanon.release.stages.stage import CLASS_FIELD
from duckanon.release.tables import Released

if TYPE_CHECKING:
    from duckanon.audits.report import Report
    from duckanon.policy.policy import Policy
    from duckanon.release.drift import Drawn
    from duckanon.release.stages.bucket import Bucketed
    from duckanon.release.stages.partition.plan import Plan
    from duckanon.release.stages.recode.recode import Recoded
    from duckanon.release.stages.stage import Field, Staged


@dataclass(frozen=True)
class Source:
    """A query and the place where its unqualified names are looked up."""

    query: str
    catalog: str
    schema: str
    drawn: Drawn | None = None  # columns that it has to have, where a view was made from it before


def released_fields(staged: Staged, policy: Policy) -> tuple[Field, ...]:
    """Columns of a release, in their order."""
    return staged.fields if policy.release == "table" else (CLASS_FIELD, *staged.fields)


def class_fields(staged: Staged, policy: Policy) -> tuple[Field, ...]:
    """Columns of a release that tell the class of a record."""
    return staged.quasi if policy.release == "table" else (CLASS_FIELD,)


def released_of(candidate: Candidate) -> list[Released]:
    """Columns of a release as the metadata will have them, trees left out."""
    return [
        Released(field.name, field.attribute.role.value, field.recode, None) for field in candidate.fields
    ]


@dataclass(frozen=True)
class Candidate:
    """An audited candidate in a temporary table."""

    recoded: Recoded
    policy: Policy
    report: Report

    @property
    def table(self) -> str:
        """Temporary table of the released columns."""
        return self.recoded.table

    @property
    def bucketed(self) -> Bucketed:
        """The tiles that the classes were formed in."""
        return self.recoded.repaired.partitioned.bucketed

    @property
    def staged(self) -> Staged:
        """The records that it was made from."""
        return self.bucketed.limited.embedded.staged

    @property
    def fields(self) -> tuple[Field, ...]:
        """Columns of the release, in their order."""
        return released_fields(self.staged, self.policy)

    @property
    def plan(self) -> Plan:
        """What the partition did, and why."""
        return self.recoded.repaired.partitioned.plan

    @property
    def released(self) -> int:
        """Records of the release."""
        return self.staged.size - self.recoded.repaired.suppressed

    @property
    def suppressed(self) -> int:
        """Records left out by suppression or ``nulls = 'suppress'``."""
        return self.staged.left_out + self.recoded.repaired.suppressed

    @property
    def loss(self) -> float:
        """IL in per cent, of the values that are released."""
        return min(self.recoded.repaired.information_loss + self.recoded.lost, 100.0)

    @property
    def information_loss(self) -> float | None:
        """IL in per cent, as it is told."""
        return told_loss(self.loss, self.policy)

    @property
    def classes(self) -> int:
        """Equivalence classes of the release, as its audit counts them."""
        return self.report.classes

    @property
    def method(self) -> str:
        """Method as it was asked for, and what it chose."""
        return self.plan.method if self.policy.method == "auto" else self.policy.method
