"""Candidate: the result of the pipeline, an audited release in temporary tables that nobody else sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.errors import tell
from duckanon.policy.reported import reported_loss
from duckanon.release.stages.stage import released_fields
from duckanon.release.tables import Released

if TYPE_CHECKING:
    from duckanon.audits.report import Report
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.recode import Recoded
    from duckanon.release.stages.stage import Field, Staged


@dataclass(frozen=True)
class Candidate:
    """A release that passed its audit, and its source records."""

    staged: Staged
    embedded: Embedded
    recoded: Recoded
    start: str  # name of the first partition
    report: Report
    policy: Policy

    @property
    def fields(self) -> tuple[Field, ...]:
        """Columns of the release, in their order."""
        return released_fields(self.staged, self.policy)

    @property
    def information_loss(self) -> float | None:
        """Reported IL in per cent."""
        return reported_loss(self.recoded.loss, self.policy)

    @property
    def method(self) -> str:
        """The requested method and the chosen one."""
        return self.start if self.policy.method == "auto" else self.policy.method


def released_of(candidate: Candidate) -> list[Released]:
    """Columns of a release in the form of the metadata, without trees."""
    return [
        Released(field.name, field.attribute.role.value, field.recode, None) for field in candidate.fields
    ]


def warn(report: Report) -> None:
    """Raise the warnings of a candidate's report as Python warnings, before anything is visible."""
    for text in report.warnings:
        tell(text)
