"""The chain of the audits of a release, followed link by link: what was changed, moved or taken out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.release.chain import Place, link, origin
from duckanon.release.metadata import CHAINED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

    from duckanon.release.verify.record import RecordedAudit, RecordedRelease


@dataclass(frozen=True)
class Chain:
    """What became of the chain of a release."""

    links: tuple[str, ...]  # of every audit, computed anew, in the order of their numbers
    heads: tuple[str, ...]  # those that no other audit follows
    differences: tuple[str, ...]  # where the chain is broken
    notes: tuple[str, ...]  # audits that are not in it, since an earlier version recorded them


def checked(con: duckdb.DuckDBPyConnection, home: str, release: RecordedRelease) -> Chain:
    """Check the chain of a release: every link is computed anew, by one query an audit.

    Whoever can write the database can make a chain anew from its beginning, and the end of one that was cut
    off is not missed by it: only a head that was kept elsewhere tells.
    """
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
    without = [audit for audit in release.audits if audit.chain is None]
    differences += [
        f"{audit}: it is not in the chain of audits" for audit in without if audit.schema_version >= CHAINED
    ]
    older = sum(audit.schema_version < CHAINED for audit in without)
    note = (
        f"{older} of the recorded audits are of a version before {CHAINED}, which did not chain them: "
        "nothing tells whether others were recorded beside them"
    )
    followed = {each for audit in chained for each in (audit.previous or "").split()}
    heads = tuple(head for head in links if head not in followed)
    return Chain(tuple(links), heads, tuple(differences), (note,) if older else ())


def _misplaced(audit: RecordedAudit, chained: Sequence[RecordedAudit], begin: str) -> Iterator[str]:
    """Tell what is wrong with the place of an audit."""
    followed = (audit.previous or "").split()
    if followed == [begin]:
        expected = 1
    else:
        numbers = {each.chain: each.number or 0 for each in chained}
        missing = [each for each in followed if each not in numbers]
        if missing and audit.number == 1:
            yield "the release, its columns or its thresholds are not those with which the chain begins"
            return
        if missing or not followed:
            yield f"an audit that was recorded before it is gone: {' '.join(missing) or 'it follows none'}"
            return
        expected = 1 + max(numbers[each] for each in followed)
    if audit.number != expected:
        yield f"number recorded {audit.number}, and the audits before it make it number {expected}"
