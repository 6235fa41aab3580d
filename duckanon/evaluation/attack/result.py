"""Result of a linkage attack: shares of records for each set of known columns, as text and plain data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from duckanon.audits.legible import legible
from duckanon.audits.report import text_table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

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
