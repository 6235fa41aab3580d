"""Verification of the chain of audits, link by link: finds changed, moved and removed audits.

Anyone who can write the database can make a new chain from the beginning. A chain whose end was cut off looks
whole. Only a head that was kept elsewhere reveals either.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.release.chain import Place, link, origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from duckanon.release.verify.record import RecordedAudit, RecordedRelease


@dataclass(frozen=True)
class Chain:
    """Result of checking the chain of a release."""

    links: tuple[str, ...]  # of every audit, computed again, by number
    heads: tuple[str, ...]  # links without a successor: one if the chain is a line
    differences: tuple[str, ...]  # breaks of the chain


_NEW_CHAIN = "REFRESH and EXPORT where it was made give a chain anew"


def checked(con: duckdb.DuckDBPyConnection, home: str, release: RecordedRelease) -> Chain:
    """Check the chain of a release: every link is computed again, by one query for each audit."""
    chained = [audit for audit in release.audits if audit.chain is not None]
    chained.sort(key=lambda audit: (audit.number or 0, audit.chain or ""))
    begin = origin(con, home, release.release_id)
    differences: list[str] = []
    links = []
    for audit in chained:
        anew = link(
            con, home, release.release_id, audit.audit_id, Place(audit.number or 0, audit.previous or "")
        )
        links.append(anew)
        if anew != audit.chain:
            differences.append(
                f"{audit}: it is not as it was recorded: link recorded {audit.chain}, found {anew}"
            )
        differences += [f"{audit}: {what}" for what in _misplaced(audit, chained, begin)]
    differences += _out_of_line(chained, exported=release.exported)
    differences += [
        f"{audit}: it is not in the chain of audits" for audit in release.audits if audit.chain is None
    ]
    followed = {audit.previous for audit in chained}
    heads = tuple(head for head in links if head not in followed)
    return Chain(tuple(links), heads, tuple(differences))


def _misplaced(audit: RecordedAudit, chained: Sequence[RecordedAudit], begin: str) -> Iterator[str]:
    """Tell what is wrong with the place of an audit."""
    previous = audit.previous or ""
    if previous == begin:
        expected = 1
    else:
        numbers = {each.chain: each.number or 0 for each in chained}
        if previous not in numbers and audit.number == 1:
            yield "the release, its columns or its thresholds are not those with which the chain begins"
            return
        if previous not in numbers:
            yield f"an audit that was recorded before it is gone: {previous or 'it follows none'}"
            return
        expected = 1 + numbers[previous]
    if audit.number != expected:
        yield f"number recorded {audit.number}, and the audits before it make it number {expected}"


def _out_of_line(chained: Sequence[RecordedAudit], *, exported: bool) -> Iterator[str]:
    """Tell where the chain is no single line from the release on; an exported file ends it at the export."""
    for previous, times in Counter(audit.previous for audit in chained).items():
        if times > 1:
            yield f"{times} audits follow {previous}, and the chain is one line: {_NEW_CHAIN}"
    for audit in chained:
        if audit.statement == "release" and audit.number != 1:
            yield f"{audit}: the audit of a release is the first of the chain, not number {audit.number}"
    exports = [audit for audit in chained if audit.statement == "export"]
    if exports and not exported:
        yield f"{exports[0]}: an export is recorded in its file, and not where the release was made"
    for audit in exports[1:] if exported else ():
        yield f"{audit}: a second export is recorded in the file: {_NEW_CHAIN}"
    last = chained[-1] if chained else None
    if exported and exports and last is not exports[0]:
        yield f"{last}: it is recorded behind the export, with which the chain of a file ends: {_NEW_CHAIN}"
