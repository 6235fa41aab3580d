"""t of several sensitive columns together: keys of several columns in the option `t`, kept as `joint_t`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from duckanon.errors import PolicyError
from duckanon.policy.names import ByColumn, fold, suggestion
from duckanon.policy.subsets import BySubset, folded, key_columns, key_text, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal

JointDistanceWord = Literal["maximum", "sum"]
"""Distance of two joint values: the greatest of their columns' distances, or the sum by their number."""


JOINT_MEASURES: Mapping[JointDistanceWord, str] = {
    "maximum": "joint_t_closeness",
    "sum": "joint_t_closeness_sum",
}
"""Names of thresholds in the metadata, by the distance of joint values."""

NT_CLOSENESS, NT_RECORDS = "nt_closeness", "nt_records"
"""Names of thresholds in the metadata: t of each column beside n, and n, which has no column."""


class AskingTogether(Protocol):
    """The options of a policy that t of several columns reads."""

    @property
    def sensitive(self) -> tuple[str, ...]: ...  # noqa: D102 - as in AuditPolicy
    @property
    def t(self) -> Decimal | ByColumn[Decimal] | BySubset[Decimal] | None: ...  # noqa: D102
    @property
    def n(self) -> int | None: ...  # noqa: D102
    @property
    def joint_t(self) -> BySubset[Decimal] | None: ...  # noqa: D102
    @property
    def joint_distance(self) -> JointDistanceWord: ...  # noqa: D102
    @property
    def distance(self) -> Mapping[str, str]: ...  # noqa: D102


@dataclass(frozen=True)
class JointThreshold:
    """A t of several sensitive columns together."""

    columns: tuple[str, ...]  # as the source spells them
    ordered: tuple[bool, ...]  # of each column whether its ground distance is that of ranks
    orders: tuple[tuple[str, ...] | None, ...]  # of each column its declared order, if there is one
    largest: bool  # whether the greatest distance of the columns counts, not their mean
    t: Decimal

    @property
    def name(self) -> str:
        """Columns as reports name them: ``age, diagnosis``."""
        return listed(self.columns)


def t_of(
    option: str, value: Mapping[Any, Any], check: Callable[[str, Any], Decimal]
) -> BySubset[Decimal] | None:
    """Values of t by one or several columns; None if every key is one column, as text."""
    if not any(key_columns(key) for key in value):
        return None
    found: dict[Any, Decimal] = {}
    seen = set()
    for key, threshold in value.items():
        columns = key_columns(key) or (key,)
        name = key_text(columns) if all(isinstance(one, str) and one for one in columns) else None
        if name is None:
            raise PolicyError(f"{option} takes names of columns, not {key!r}")
        if len({fold(one) for one in columns}) < len(columns):
            raise PolicyError(f"{option} names a column twice in {name}: leave one out")
        if folded(columns) in seen:
            raise PolicyError(f"{option} has {name} twice: leave one out")
        seen.add(folded(columns))
        found[columns] = check(f"{option} of {name}", threshold)
    return BySubset(found)


def split_t(policy: AskingTogether) -> None:
    """Keep t of single columns as `t` and t of several columns as `joint_t`; raise if these are wrong."""
    t, joint = policy.t, policy.joint_t
    if isinstance(t, BySubset):
        named = [(columns, one) for columns, one in t.items() if isinstance(columns, tuple)]
        single = {columns[0]: one for columns, one in named if len(columns) == 1}
        several = {columns: one for columns, one in named if len(columns) > 1}
        for columns in several:
            if columns in (joint or {}):
                raise PolicyError(f"t and joint_t both have {key_text(columns)}: leave one out")
        joint = BySubset(dict([*several.items(), *(joint or {}).items()]))
        object.__setattr__(policy, "t", ByColumn(single) if single else None)
        object.__setattr__(policy, "joint_t", joint or None)
    if joint is None and policy.joint_distance != "maximum":
        raise PolicyError(
            f"joint_distance = {policy.joint_distance!r} is of t of several columns: add "
            "t = {(age, diagnosis): 0.3}, or leave it out"
        )
    for key in joint or {}:
        _check(policy, key)


def check_n(policy: AskingTogether) -> None:
    """Raise unless n has a t of single columns beside it, whose distance an audit measures from supersets."""
    if policy.n is None:
        return
    if policy.joint_t is not None:
        raise PolicyError(
            "n is of t of single columns, and t of several columns together is the distance from all "
            "records: leave one out"
        )
    if policy.t is None:
        raise PolicyError(
            "n says how many records a natural superset has, to which t is the distance: add t = 0.1, or "
            "leave n out"
        )
    for column, distance in policy.distance.items():
        if distance == "hierarchical":
            raise PolicyError(
                f"n goes with the distance of ranks or of equality, and that of {column!r} is "
                f"'hierarchical': set distance = {{{column}: 'equal'}}, or leave n out"
            )


def _check(policy: AskingTogether, columns: Any) -> None:
    known = {fold(name) for name in policy.sensitive}
    name = key_text(columns)
    if len(columns) < 2:
        raise PolicyError(f"joint_t of {name} is of one column: write it in t")
    for column in columns:
        if fold(column) not in known:
            hint = suggestion(column, policy.sensitive) or ": add it to sensitive"
            raise PolicyError(f"t of {name} names {column!r}, which is not in sensitive{hint}")
        if policy.distance.get(column) == "hierarchical":
            raise PolicyError(
                f"t of {name} has the distance of ranks or of equality, and that of {column!r} is "
                "'hierarchical': set distance = {" + f"{column}: 'equal'" + "}, or leave the column out"
            )
