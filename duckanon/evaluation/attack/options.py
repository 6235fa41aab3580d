"""Options of a linkage attack: what an attacker knows, and how the attack is measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from duckanon.errors import PolicyError
from duckanon.policy.bind import by_label
from duckanon.policy.checks import checked
from duckanon.policy.names import ByColumn, fold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.policy.audit_policy import HierarchyRows
    from duckanon.policy.checks import Hierarchy
    from duckanon.policy.policy import Policy

Interval = Literal["range", "rank", "sd"]
SAMPLE = 10_000
"""Default number of records of the original that are linked."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A linkage attack.

    Attributes
    ----------
    quasi_identifiers : sequence of str
        Columns that an attacker may know.
    subsets : sequence of sequence of str, optional
        Known columns of each attack; by default all columns, each column alone, and all but one.
    columns : sequence of str, optional
        Columns whose values are to be disclosed; by default the quasi-identifiers.
    percent : float
        Half the width of the interval around a true value, above 0, in per cent of what `interval` names.
    interval : str
        ``range`` of the original column, ``rank`` among its values, or ``sd`` of the released column.
    id : str, optional
        Column of the original that tells records apart: its released value is the truth.
    policy : Policy, optional
        Policy of the release, for a release without the column `id`: the truth is computed anew by it. Needs
        `id`.
    hierarchies : mapping from column to str or to rows, optional
        Hierarchies of the quasi-identifiers that are released as labels, as in `duckanon.Policy`; by default
        those of the policy.
    sample : int
        Records of the original that are linked, at least 1; all records if there are no more.
    seed : int
        Draws another sample.

    Raises
    ------
    PolicyError
        A value is out of range, or a subset names other columns.
    """

    quasi_identifiers: Sequence[str]
    subsets: Sequence[Sequence[str]] | None = None
    columns: Sequence[str] | None = None
    percent: float = 5.0
    interval: Interval = "range"
    id: str | None = None
    policy: Policy | None = None
    hierarchies: Mapping[str, HierarchyRows] | None = None
    sample: int = SAMPLE
    seed: int = 0

    def __post_init__(self) -> None:
        _check_names(self.quasi_identifiers, "quasi_identifiers")
        if self.columns is not None:
            _check_names(self.columns, "columns")
        if self.interval not in get_args(Interval):
            raise PolicyError(f"unknown interval {self.interval!r}: use range, rank or sd")
        if not 0 < self.percent <= 100:
            raise PolicyError(f"percent must be above 0 and at most 100, not {self.percent}")
        if self.sample < 1:
            raise PolicyError(f"sample must be at least 1 record, not {self.sample}")
        if self.policy is not None and self.id is None:
            raise PolicyError(
                "a policy needs an id: name the column of the original that tells records apart"
            )
        known = {fold(name) for name in self.quasi_identifiers}
        for column in self.labels():
            if fold(column) not in known and self.hierarchies is not None:
                raise PolicyError(f"hierarchies names {column!r}, which is not among the quasi-identifiers")
        for subset in self.subsets or ():
            _check_names(subset, "a subset")
            for name in subset:
                if fold(name) not in known:
                    raise PolicyError(f"a subset names {name!r}, which is not among the quasi-identifiers")

    def labels(self) -> ByColumn[Hierarchy]:
        """Return the hierarchies of the quasi-identifiers that are released as labels."""
        if self.hierarchies is not None:
            return ByColumn(checked("hierarchies", self.hierarchies))
        if self.policy is None:
            return ByColumn()
        labelled = [name for name in self.policy.quasi_identifiers if by_label(self.policy, name)]
        return ByColumn({name: self.policy.hierarchies[name] for name in labelled})

    def known(self) -> list[tuple[int, ...]]:
        """Return the numbers of the known columns of each attack; the first attacker knows nothing."""
        number = {fold(name): at for at, name in enumerate(self.quasi_identifiers)}
        every = tuple(range(len(self.quasi_identifiers)))
        if self.subsets is not None:
            chosen = [tuple(sorted(number[fold(name)] for name in subset)) for subset in self.subsets]
        else:
            chosen = [every, *((at,) for at in every), *(every[:at] + every[at + 1 :] for at in every)]
        return list(dict.fromkeys([(), *chosen]))


def _check_names(names: Iterable[str], option: str) -> None:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise PolicyError(f"{option} is a list of columns, not {names!r}")
    folded = [fold(name) for name in names]
    if not folded:
        raise PolicyError(f"{option} names no column: name at least one")
    if len(set(folded)) < len(folded):
        raise PolicyError(f"{option} names a column twice: {', '.join(names)}")
