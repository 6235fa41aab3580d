"""Linkage attack: how many records of the original are found again in its release.

For every record of the original (a sample of a large table) an attacker knows some quasi-identifiers and
takes the nearest released record, any of several equally near records. The share of correctly linked records
is measured where the owner knows the truth. Where nobody knows the truth, the share is bounded from above.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from duckanon import progress
from duckanon.api.arguments import check_names, plain
from duckanon.audits.legible import legible
from duckanon.audits.report import text_table
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import named
from duckanon.evaluation.linking import link
from duckanon.evaluation.prepare import Attack, Sides, prepare
from duckanon.statements.tokens import parse_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy as np
    import numpy.typing as npt

    from duckanon.api.connection import Connection
    from duckanon.evaluation.prepare import Prepared


Z = 1.959963984540054
"""97.5 % quantile of the normal distribution: an interval of 95 %."""


@dataclass(frozen=True)
class Share:
    """A mean over records, with an interval that holds the mean of all records in 95 of 100 samples.

    Attributes
    ----------
    value, low, high : float
        0 to 1; all equal where every record was looked at.
    """

    value: float
    low: float
    high: float

    def at_most(self, ceiling: float) -> Share:
        """Return the share cut off at a ceiling that it cannot exceed."""
        return Share(min(self.value, ceiling), min(self.low, ceiling), min(self.high, ceiling))


def estimate(values: npt.NDArray[np.float64], records: int, most: float = 1.0) -> Share:
    """Return the mean over all n records with Wilson's interval (JASA 22, 1927), from r values in 0..most.

    The values are a sample without replacement. All n records are no sample: their mean is exact.
    """
    mean = math.fsum(values) / len(values)
    if len(values) >= records:
        return Share(mean, mean, mean)
    # r of n records without replacement have the variance of r (n - 1) / (n - r) draws with replacement.
    draws = len(values) * (records - 1) / (records - len(values))
    # Wilson's interval is for a share p. Values in 0..most with the mean p * most have a variance of at most
    # p (1 - p) most^2, so the interval errs on the wide side. It has a width even if all values are equal.
    share = min(mean / most, 1.0)
    middle = share + Z * Z / (2 * draws)
    half = Z * math.sqrt(share * (1 - share) / draws + Z * Z / (4 * draws * draws))
    low, high = ((middle + side * half) / (1 + Z * Z / draws) * most for side in (-1, 1))
    return Share(mean, max(min(low, mean), 0.0), max(high, mean))


TRUTHS = {
    "id": "id: the truth is known from the id that the release carries",
    "policy": "policy: the truth was computed anew from the policy, and its classes are those of the release",
    "nearest": "nearest: nobody told the truth; the nearest records are taken for the right ones, so that "
    "linked is an upper bound",
}


@dataclass(frozen=True)
class SubsetRisk:
    """Result of an attacker who knows some of the quasi-identifiers.

    Attributes
    ----------
    known : tuple of str
        The known columns; none for an attacker who picks a released record blindly.
    groups, smallest : int
        Released combinations of their values, and the fewest records with one combination.
    linked : Share
        Records linked correctly. A record counts 1 / s if its own record is among s equally near nearest
        records. An upper bound where the truth is not known.
    ceiling : float
        Groups / records of the original: no attacker who links by these columns does better.
    in_group : Share or None
        Records with a nearest record of their own group; where several groups are nearest, the share of that
        group counts. None where the truth is not known.
    disclosed : dict of Share
        For each column: records whose true value is in the interval around the value of the nearest record.
    """

    known: tuple[str, ...]
    groups: int
    smallest: int
    linked: Share
    ceiling: float
    in_group: Share | None
    disclosed: dict[str, Share]


@dataclass(frozen=True)
class Linkage:
    """Result of a linkage attack.

    Attributes
    ----------
    original, release : str
        The tables.
    records, released, sample : int
        Records of the original, of the release, and of the linked sample of the original.
    left_out : int or None
        Records of the sample that are not in the release; None where the truth is not known.
    seed : int
        The seed of the sample.
    truth : str
        ``id``, ``policy`` or ``nearest``: see `TRUTHS`.
    percent, interval : float and str
        Half the width of the interval of disclosure, in per cent, and of what.
    attacks : tuple of SubsetRisk
        The first attacker knows nothing, and picks blindly.
    own : dict of Share, or None
        For each quasi-identifier to be disclosed: records whose true value is in the interval around the
        value that was released for the record; None where the truth is not known.
    own_jointly : Share or None
        Records with at most one number outside its interval; None without the truth or for one column.
    """

    original: str
    release: str
    records: int
    released: int
    sample: int
    left_out: int | None
    seed: int
    truth: str
    percent: float
    interval: str
    attacks: tuple[SubsetRisk, ...]
    own: dict[str, Share] | None
    own_jointly: Share | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data: dicts, lists, strings, numbers."""
        return asdict(self)

    def to_json(self) -> str:
        """JSON text of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_text(self) -> str:
        """Two tables, linkage and disclosure, and what they mean."""
        some = "all" if self.sample == self.records else f"{self.sample} of"
        lines = [
            f"linkage of {some} {self.records} records of {self.original}",
            f"to {self.released} records of {self.release}",
            f"truth by {TRUTHS[self.truth]}",
        ]
        if self.left_out:
            lines.append(f"{self.left_out} records of the sample are not in the release")
        lines += ["", *self._linked(), "", *self._disclosed(), "", *self._notes()]
        return "\n".join(map(legible, lines))

    def _linked(self) -> list[str]:
        head = ["known", "groups", "smallest", "linked", *self._interval(), "ceiling"]
        rows: list[list[object]] = []
        for risk in self.attacks:
            row: list[object] = [_shown(risk.known), risk.groups, risk.smallest, *self._cells(risk.linked)]
            row.append(risk.ceiling)
            rows.append(row if risk.in_group is None else [*row, risk.in_group.value])
        return text_table(head if self.truth == "nearest" else [*head, "own group"], rows)

    def _disclosed(self) -> list[str]:
        columns = list(self.attacks[0].disclosed)
        rows: list[list[object]] = [
            [_shown(risk.known), *(risk.disclosed[column].value for column in columns)]
            for risk in self.attacks
        ]
        if self.own is not None:
            rows.append(
                ["(own record)", *(self.own[name].value if name in self.own else None for name in columns)]
            )
        return text_table(["disclosed to", *columns], rows)

    def _interval(self) -> list[str]:
        return [] if self.sample == self.records else ["95% from", "to"]

    def _cells(self, share: Share) -> list[object]:
        return [share.value, *([] if self.sample == self.records else [share.low, share.high])]

    def _notes(self) -> list[str]:
        what = {"range": "the range", "rank": "the ranks", "sd": "the released standard deviation"}
        notes = [
            "linked: share of records that an attacker finds again; at most the ceiling, groups / records",
            (
                f"disclosed: share of records whose true value is within {self.percent:g} % of "
                f"{what[self.interval]} around the guess; of a text: the same text"
            ),
        ]
        if self.own_jointly is not None:
            notes.append(f"own record, at most one number outside: {self.own_jointly.value:.6f}")
        if self.sample < self.records:
            notes.append(
                f"sample by seed {self.seed}; 95 % intervals: Wilson, for sampling without replacement"
            )
        return notes


def _shown(known: tuple[str, ...]) -> str:
    return ", ".join(known) or "(nothing)"


@interruptible
def linkage(
    con: Connection | duckdb.DuckDBPyConnection,
    original: str,
    release: str,
    quasi_identifiers: Sequence[str],
    **options: Any,
) -> Linkage:
    """Attack a release by linking the records of its original to it.

    Parameters
    ----------
    con : Connection or duckdb.DuckDBPyConnection
        The connection; nothing is written.
    original, release : str
        Names of tables or views, as in SQL, or files in single quotes.
    quasi_identifiers : sequence of str
        Columns that an attacker may know.
    **options : object
        ``subsets``, ``columns``, ``percent``, ``interval``, ``id``, ``policy``, ``hierarchies``, ``sample``,
        ``seed``: see `duckanon.evaluation.prepare.Attack`.

    Returns
    -------
    Linkage
        Risks; the same for the same tables, whatever the order of their rows.

    Raises
    ------
    DuckanonError
        A table is empty or cannot be read, a table lacks a column, a type has no distances, values cannot be
        compared, an option is out of range, or the id does not say the truth.

    Notes
    -----
    Distances are those of the pipeline. Numbers and dates are z-scores of the original's columns. Two
    different texts are 1 apart. NULL is a coordinate of its own. A released range is as near as its nearest
    end, a set as its nearest member, a label as the nearest value below it. Differences are exact, so near
    numbers do not count as equal. O(n log n) in SQL, and O((m + r) log m) on average for each subset, with m
    released classes and a sample of r records.
    """
    duck = plain(con)
    check_names({"original": original, "release": release})
    sides = Sides(_relation(original), _relation(release), original, release)
    return attacked(duck, sides, Attack(quasi_identifiers=quasi_identifiers, **options))


def attacked(con: duckdb.DuckDBPyConnection, sides: Sides, attack: Attack) -> Linkage:
    """Attack a release as `linkage` does; both tables are SQL text."""
    with progress.step("linkage: read"):
        ready = prepare(con, sides, attack)
    known_truth = attack.id is not None
    subsets = attack.known()
    with progress.step("linkage: attack", len(subsets)) as step:
        risks = []
        for subset in subsets:
            risks.append(_risk(ready, subset, known_truth=known_truth))
            step.advance()
    own_shares, jointly = _own(ready) if known_truth else (None, None)
    return Linkage(
        sides.original_name,
        sides.release_name,
        ready.records,
        ready.released,
        len(ready.problem.truth),
        ready.left_out if known_truth else None,
        attack.seed,
        "nearest" if not known_truth else "id" if attack.policy is None else "policy",
        float(attack.percent),
        attack.interval,
        tuple(risks),
        own_shares,
        jointly,
    )


def _risk(ready: Prepared, subset: tuple[int, ...], *, known_truth: bool) -> SubsetRisk:
    linked = link(ready.problem, subset)
    ceiling = linked.groups / ready.records
    right = (linked.own > 0) / linked.nearest if known_truth else 1 / linked.nearest
    return SubsetRisk(
        tuple(ready.quasi[at].name for at in subset),
        linked.groups,
        linked.smallest,
        _share(ready, right, 1 / linked.smallest).at_most(ceiling),
        ceiling,
        _share(ready, linked.own / linked.nearest) if known_truth else None,
        {
            column.name: _share(ready, linked.inside[:, at] / linked.nearest)
            for at, column in enumerate(ready.guessed)
        },
    )


def _own(ready: Prepared) -> tuple[dict[str, Share], Share | None]:
    pairs = [
        (column, inside)
        for column, inside in zip(ready.guessed, ready.own, strict=True)
        if inside is not None
    ]
    numbers = [inside for column, inside in pairs if not column.nominal]
    jointly = None
    if len(numbers) > 1:
        outside = sum((~inside).astype(int) for inside in numbers)
        jointly = _share(ready, (outside <= 1) & (ready.problem.truth >= 0))
    return {column.name: _share(ready, inside) for column, inside in pairs}, jointly


def _share(ready: Prepared, values: npt.NDArray[Any], most: float = 1.0) -> Share:
    numbers: npt.NDArray[np.float64] = values.astype(float)
    return estimate(numbers, ready.records, most)


def _relation(name: str) -> str:
    parsed = parse_name(name)
    return named(parsed.catalog, parsed.schema, parsed.name)
