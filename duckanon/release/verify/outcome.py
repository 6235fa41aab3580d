"""Result of a verification, release by release, with its text, JSON and HTML forms."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from duckanon.audits.changes import changes
from duckanon.audits.html.report import render, stamp
from duckanon.audits.html.verdict import verdicts
from duckanon.audits.legible import clean, legible
from duckanon.audits.report import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duckanon.audits.report import Measure, Report


@dataclass(frozen=True)
class Verified:
    """Result for one release."""

    release: str  # number and name
    created_at: str | None  # UTC
    records: int | None  # counted
    fingerprint: str | None  # of the present rows; None if they cannot be read
    policy_hash: str | None  # of the present policy; None likewise
    policy: str | None  # text of that hash: the audited policy
    heads: tuple[str, ...]  # links without a successor; several for simultaneous audits
    links: tuple[str, ...]  # links of the chain, computed again
    audits: int  # recorded audits
    report: Report | None  # repeated audit by its policy; None if impossible
    differences: tuple[str, ...]  # differences of record and data
    notes: tuple[str, ...]  # facts that could not be compared

    @property
    def verified(self) -> bool:
        """Whether everything agrees, and the release keeps its policy."""
        return not self.differences and self.report is not None and self.report.passed


@dataclass(frozen=True)
class Verification:
    """Result for all releases of a database."""

    database: str
    releases: tuple[Verified, ...]
    differences: tuple[str, ...] = ()  # expected values of no release, and contents that should not exist
    notes: tuple[str, ...] = ()  # facts that could not be compared
    macros: bool | None = None  # whether they are EXPORT's; None for the owner's database, which may have any

    @property
    def verified(self) -> bool:
        """Whether every release is verified."""
        return not self.differences and all(release.verified for release in self.releases)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the report of each release as in `Report.to_dict`."""
        entries = [
            {
                **asdict(replace(release, report=None)),
                "verified": release.verified,
                "report": release.report.to_dict() if release.report else None,
            }
            for release in self.releases
        ]
        return {
            "database": self.database,
            "verified": self.verified,
            "macros_verified": self.macros,
            "differences": list(self.differences),
            "notes": list(self.notes),
            "releases": entries,
        }

    def to_json(self) -> str:
        """JSON text of `to_dict`; reports as in `Report.to_json`."""
        plain = self.to_dict()
        for entry, release in zip(plain["releases"], self.releases, strict=True):
            entry["report"] = None if release.report is None else json.loads(release.report.to_json())
        return json.dumps(plain, indent=2)

    def to_text(self) -> str:
        """A paragraph for each release, and the verdict in the last line."""
        lines: list[str] = []
        for release in self.releases:
            made = f"{release.created_at} UTC" if release.created_at else "at an unknown time"
            lines.append(legible(f"{release.release}, made {made}"))
            lines.append(f"fingerprint: {release.fingerprint or 'unknown'}")
            lines.append(f"policy hash: {release.policy_hash or 'unknown'}")
            lines += [legible(f"  {asked}") for asked in (release.policy or "").splitlines()]
            lines.append(f"head of the audits: {' '.join(release.heads) or 'none, they are not chained'}")
            if release.report is not None:
                lines += release.report.to_text().splitlines()
            lines += [*_remarks(release), ""]
        verdict = "verified" if self.verified else "NOT VERIFIED"
        return "\n".join([*lines, *_remarks(self), f"{verdict}: {self._summary}"])

    def to_html(self, name: str) -> str:
        """Page with the verdict on a file of that name: one document without scripts, which loads nothing."""
        return render(
            "verification.html.j2",
            title=clean(f"Verification of {name}"),
            when=stamp(None),
            summary=self._summary,
            outcome=self,
            judged=[
                None if release.report is None else verdicts(release.report, release.report.warnings)
                for release in self.releases
            ],
        )

    @property
    def _summary(self) -> str:
        """What was looked at, and what was found."""
        audits = sum(release.audits for release in self.releases)
        done = f"{_count(len(self.releases), 'release')}, {_count(audits, 'recorded audit')}"
        if self.verified:
            return f"{done}; all agree with the released rows, and every policy is kept{self._macros}"
        broken = sum(release.report is not None and not release.report.passed for release in self.releases)
        number = len(self.differences) + sum(len(release.differences) for release in self.releases)
        return f"{done}; {_count(number, 'difference')}, {_count(broken, 'release')} in violation"

    @property
    def _macros(self) -> str:
        """Second half of the verdict: whose macros are in the file, for auditors who call them."""
        return {
            None: "",
            True: "; the audit macros are those that EXPORT writes",
            False: "; the audit macros in the file were NOT verified: see the note",
        }[self.macros]


def missing(releases: Sequence[Verified], expected: Sequence[str], heads: Sequence[str]) -> Iterator[str]:
    """Tell which expected fingerprint, policy hash or head belongs to no release."""
    hashes = {text for release in releases for text in (release.fingerprint, release.policy_hash)}
    links = {link for release in releases for link in release.links}
    for texts, known, what in (
        (expected, hashes, "fingerprint or policy hash"),
        (heads, links, "link in its chain of audits: some are gone or changed"),
    ):
        for text in texts:
            if text.strip().lower() not in known:
                yield f"{text.strip()} was expected, and no release has this {what}"


def _remarks(outcome: Verified | Verification) -> list[str]:
    """Give a line for each note and difference, made legible because anyone may write names in a file."""
    return [
        *(f"note: {legible(note)}" for note in outcome.notes),
        *(f"difference: {legible(difference)}" for difference in outcome.differences),
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def differing(
    recorded: Sequence[Mapping[str, Any]], again: Sequence[Measure], *, writer: str | None
) -> Iterator[str]:
    """Tell the differences of an audit that this version of duckanon recorded."""
    before = {"measures": list(recorded)}
    after = {"measures": [dict(zip(COLUMNS, measure.row(), strict=True)) for measure in again]}
    differences = changes(before, after)
    # An unjudged measure of this version may be newer than the record.
    newer = writer != version("duckanon")
    appeared = tuple(row for row in differences.appeared if not (newer and row["passed"] is None))
    differences = replace(differences, appeared=appeared)
    if not differences.same:
        yield from (f"recorded -> found: {line}" for line in differences.to_text().splitlines())
