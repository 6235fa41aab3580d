"""The thresholds that an audit checks, and how they fit the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, SupportsIndex, TypeVar

from duckanon.errors import PolicyError
from duckanon.policy.checks import (
    SHARE_OPTIONS,
    Alpha,
    Columns,
    Distance,
    Hierarchy,
    LDiversity,
    Number,
    checked,
)
from duckanon.policy.joint import JointDistanceWord, check_n, split_t
from duckanon.policy.names import CLASS, ByColumn, fold, suggestion, unknown_option
from duckanon.policy.subsets import WHOLE_KEY, BySubset, check_subsets, united

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

THRESHOLD_OPTIONS = (
    "k", "t", "n", "l", "l_diversity", "c", *SHARE_OPTIONS, "joint_t", "joint_distance", "k_subsets",
)  # fmt: skip
"""Options of AUDIT that replace thresholds of the policy of an anonymized view."""

ROLES = ("quasi_identifiers", "sensitive", "identifiers", "insensitive")
"""Options that give columns a role."""

HierarchyRows = Hierarchy | Mapping[Any, Any] | Iterable[Iterable[Any]]
"""Types that a user may give as a hierarchy: a `Hierarchy`, labels by leaf, or rows."""

Thresholds = Mapping[Any, Number]
"""Type of t from a user: by column, or by several columns, a tuple or text in parentheses."""

AlphaNumber = Number | Mapping[str, Number | Mapping[str, Number]]
"""Types of alpha from a user: a number, numbers by column, or by column and value."""
Subsets = Mapping[Any, SupportsIndex]
"""Type of the k of subsets from a user: keys are columns, tuples of columns and numbers of columns, mixed."""

P = ParamSpec("P")
S = TypeVar("S")


def known_options(init: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """Raise a PolicyError, with the nearest name, for an unknown keyword of `init`, or for a missing one."""
    parameters = dict(list(signature(init).parameters.items())[1:])
    required = [name for name, one in parameters.items() if one.default is one.empty]

    @wraps(init)
    def checked_init(self: S, /, *args: P.args, **options: P.kwargs) -> None:
        for name in options:
            if name not in parameters:
                raise PolicyError(unknown_option(name, tuple(parameters)))
        for name in required:
            if name not in options and not args:
                raise PolicyError(f"option {name!r} is missing: write {name} = ...")
        init(self, *args, **options)

    return checked_init


class Asking(Protocol):
    """The options that `Policy` and `AuditPolicy` share."""

    @property
    def quasi_identifiers(self) -> tuple[str, ...]: ...  # noqa: D102 - as in AuditPolicy
    @property
    def sensitive(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def k(self) -> int | None: ...  # noqa: D102
    @property
    def k_subsets(self) -> int | BySubset[int] | None: ...  # noqa: D102
    @property
    def t(self) -> Decimal | ByColumn[Decimal] | None: ...  # noqa: D102
    @property
    def n(self) -> int | None: ...  # noqa: D102
    @property
    def l(self) -> Decimal | ByColumn[Decimal] | None: ...  # noqa: D102, E743
    @property
    def l_diversity(self) -> LDiversity: ...  # noqa: D102
    @property
    def c(self) -> Decimal | None: ...  # noqa: D102
    @property
    def alpha(self) -> Decimal | ByColumn[Alpha] | None: ...  # noqa: D102
    @property
    def delta(self) -> Decimal | ByColumn[Decimal] | None: ...  # noqa: D102
    @property
    def beta(self) -> Decimal | ByColumn[Decimal] | None: ...  # noqa: D102
    @property
    def enhanced_beta(self) -> Decimal | ByColumn[Decimal] | None: ...  # noqa: D102
    @property
    def joint_t(self) -> BySubset[Decimal] | None: ...  # noqa: D102
    @property
    def joint_distance(self) -> JointDistanceWord: ...  # noqa: D102
    @property
    def distance(self) -> ByColumn[Distance]: ...  # noqa: D102
    @property
    def order(self) -> ByColumn[tuple[str, ...]]: ...  # noqa: D102
    @property
    def hierarchies(self) -> ByColumn[Hierarchy]: ...  # noqa: D102


@dataclass(frozen=True, init=False)
class AuditPolicy:
    """Columns and thresholds of an audit of any table.

    Parameters
    ----------
    quasi_identifiers : str or iterable of str
        Columns that make the equivalence classes, at least one.
    sensitive : str or iterable of str
        Columns that l-diversity and t-closeness protect.
    k, t, n, l, l_diversity, c, alpha, delta, beta, enhanced_beta, joint_t, joint_distance, distance, order,
    hierarchies, k_subsets
        As in `Policy`, all optional. k, t and l without a threshold are reported and not judged; alpha,
        delta and beta are measured where they are asked for.
    suppressed : str, optional
        Text by which another tool marks a suppressed record. Records with this text in every
        quasi-identifier are counted and left out. ``'NULL'`` also means records whose quasi-identifiers are
        all NULL.

    Raises
    ------
    PolicyError
        A value is wrong, or two values do not fit together.
    """

    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    k: int | None
    t: Decimal | ByColumn[Decimal] | None
    n: int | None
    l: Decimal | ByColumn[Decimal] | None  # noqa: E741 - l-diversity has this name everywhere
    l_diversity: LDiversity
    c: Decimal | None
    alpha: Decimal | ByColumn[Alpha] | None
    delta: Decimal | ByColumn[Decimal] | None
    beta: Decimal | ByColumn[Decimal] | None
    enhanced_beta: Decimal | ByColumn[Decimal] | None
    joint_t: BySubset[Decimal] | None
    joint_distance: JointDistanceWord
    distance: ByColumn[Distance]
    order: ByColumn[tuple[str, ...]]
    hierarchies: ByColumn[Hierarchy]
    suppressed: str | None
    k_subsets: int | BySubset[int] | None

    @known_options
    def __init__(
        self,
        *,
        quasi_identifiers: Columns,
        sensitive: Columns = (),
        k: SupportsIndex | Subsets | None = None,
        t: Number | Thresholds | None = None,
        n: SupportsIndex | None = None,
        l: Number | Mapping[str, Number] | None = None,  # noqa: E741 - as above
        l_diversity: LDiversity = "distinct",
        c: Number | None = None,
        alpha: AlphaNumber | None = None,
        delta: Number | Mapping[str, Number] | None = None,
        beta: Number | Mapping[str, Number] | None = None,
        enhanced_beta: Number | Mapping[str, Number] | None = None,
        joint_t: Thresholds | None = None,
        joint_distance: JointDistanceWord = "maximum",
        distance: Mapping[str, Distance] | None = None,
        order: Mapping[str, Sequence[str]] | None = None,
        hierarchies: Mapping[str, HierarchyRows] | None = None,
        suppressed: str | None = None,
        k_subsets: SupportsIndex | Subsets | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        store(self, {name: value for name, value in given.items() if name != "k"})
        object.__setattr__(self, "k", None if k is None else checked("k", k))
        check_roles(self, ROLES[:2])
        split_t(self)
        check_n(self)
        split_k(self)
        check_sensitive(self)

    def override(self, **thresholds: Any) -> AuditPolicy:
        """Return this policy with other thresholds, and with the same roles, distances and hierarchies.

        Parameters
        ----------
        **thresholds : object
            Some of `THRESHOLD_OPTIONS`. An l_diversity other than 'recursive' drops c; another t drops n, and
            t of several columns; a k by subset drops k_subsets, and keeps the k of the whole unless it
            has another.
        """
        if thresholds.get("l_diversity", "recursive") != "recursive":
            thresholds.setdefault("c", None)
        if "t" in thresholds:
            several = isinstance(checked("t", thresholds["t"]), BySubset)
            if thresholds.setdefault("joint_t", None) is None and not several:
                thresholds.setdefault("joint_distance", "maximum")
            thresholds.setdefault("n", None)
        if isinstance(thresholds.get("k"), Mapping):
            thresholds.setdefault("k_subsets", None)
            thresholds["k"] = {**({} if self.k is None else {WHOLE_KEY: self.k}), **thresholds["k"]}
        return replace(self, **thresholds)


AUDIT_OPTIONS = tuple(field.name for field in fields(AuditPolicy))
"""Names of the options of an audit."""


def audited(options: Mapping[str, Any]) -> AuditPolicy:
    """Return the options of a release policy, checked or not, that an audit of the release checks."""
    # Hierarchies and orders of quasi-identifiers are left out. Where quasi-identifiers are not recoded, the
    # column with the number of the class makes the classes. The l of `release = 'anatomy'` is replaced by
    # `share_of`.
    asked = {name: value for name, value in options.items() if name in AUDIT_OPTIONS}
    sensitive = {fold(column) for column in checked("sensitive", asked.get("sensitive", ()))}
    for option in ("order", "hierarchies"):
        by_column = checked(option, asked.get(option))
        asked[option] = {column: one for column, one in by_column.items() if fold(column) in sensitive}
    if options.get("release", "table") != "table":
        asked["quasi_identifiers"] = CLASS
    if options.get("release") == "anatomy" and asked.get("l") is not None:
        asked |= share_of(whole_l(checked("l", asked["l"])))
    return AuditPolicy(**asked)


def share_of(l: int) -> dict[str, Any]:  # noqa: E741 - as above
    """Thresholds that a class violates if one value has more than 1 / l of its records: the l of Anatomy."""
    # Recursive l-diversity with l = 1 asks for r_1 < c s: r_1 records have the most frequent value, s records
    # are in the class. c is the least multiple of 10^-12 above 1 / l. No integer r_1 lies between s / l and c
    # s as long as l s is at most 10^12. Source: Xiao and Tao, VLDB 2006, definition 2.
    steps = 10**12 // l + 1
    return {"l": 1, "l_diversity": "recursive", "c": Decimal(steps).scaleb(-12)}


def store(policy: Asking, given: Mapping[str, Any]) -> None:
    """Set the fields of a frozen policy to the checked values."""
    for name, value in given.items():
        object.__setattr__(policy, name, checked(name, value))


def split_k(policy: Asking) -> None:
    """Keep the k of the whole as `k` and the k of subsets as `k_subsets`; raise if a subset is wrong."""
    k, subsets = policy.k, policy.k_subsets
    if isinstance(k, Mapping):
        named = {subset: threshold for subset, threshold in k.items() if subset != WHOLE_KEY}
        whole = k.get(WHOLE_KEY)
        object.__setattr__(policy, "k", whole)
        object.__setattr__(policy, "k_subsets", united(subsets, named, whole))
    check_subsets(policy.k_subsets, policy.quasi_identifiers)


def check_roles(policy: Asking, roles: Sequence[str]) -> None:
    """Raise unless there is a quasi-identifier and every column, which is checked already, has one role."""
    if not policy.quasi_identifiers:
        raise PolicyError("quasi_identifiers is empty: name at least one column, as in (age, zip)")
    role_of: dict[str, str] = {}
    for role in roles:
        columns = getattr(policy, role)
        for column in () if columns == "*" else columns:
            other = role_of.setdefault(fold(column), role)
            if other != role:
                raise PolicyError(f"column {column!r} is in {other} and in {role}: a column has one role")


def check_sensitive(policy: Asking) -> None:
    """Raise unless the checked thresholds, distances and hierarchies fit the sensitive columns."""
    both = (*policy.quasi_identifiers, *policy.sensitive)
    for option in ("hierarchies", "order"):
        check_columns(option, getattr(policy, option), "quasi_identifiers or sensitive", both)
    for option in ("t", "l", *SHARE_OPTIONS, "distance"):
        value = getattr(policy, option)
        if isinstance(value, Mapping):
            check_columns(option, value, "sensitive", policy.sensitive)
        elif value is not None and not policy.sensitive:
            raise PolicyError(f"{option} = {value} needs sensitive columns: add sensitive = (...)")
    _check_hierarchies(policy)
    _check_order(policy)
    _check_diversity(policy)


def check_columns(option: str, named: Mapping[str, object], role: str, columns: Sequence[str]) -> None:
    """Raise if an option names a column of another role; the message names the first such column."""
    known = {fold(column) for column in columns}
    for column in named:
        if fold(column) not in known:
            hint = suggestion(column, columns) or f": add it to {role}"
            raise PolicyError(f"{option} names {column!r}, which is not in {role}{hint}")


def _check_hierarchies(policy: Asking) -> None:
    for column, distance in policy.distance.items():
        if distance == "hierarchical" and column not in policy.hierarchies:
            option = f"hierarchies = {{{column}: 'table'}}"
            raise PolicyError(f"distance of {column!r} is 'hierarchical' and has no tree: add {option}")
    for column in policy.sensitive:
        if column in policy.hierarchies and policy.distance.get(column) != "hierarchical":
            option = f"distance = {{{column}: 'hierarchical'}}"
            raise PolicyError(f"hierarchies of {column!r} is of no use: add {option}, or leave it out")


def _check_order(policy: Asking) -> None:
    for column in policy.order:
        if column in policy.hierarchies:
            raise PolicyError(f"column {column!r} has an order and a hierarchy: leave one of them out")
        distance = policy.distance.get(column, "ordered")
        if distance != "ordered":
            raise PolicyError(
                f"order of {column!r} is of no use with distance = {distance!r}: leave one of them out"
            )


def whole_l(l: Decimal | ByColumn[Decimal]) -> int:  # noqa: E741 - as above
    """Return the l of `release = 'anatomy'`."""
    if isinstance(l, Mapping):
        raise PolicyError(
            "release = 'anatomy' has one second table, and so one l for all sensitive columns: write l = 4"
        )
    if l != int(l) or l < 2:
        raise PolicyError(f"l = {l}: release = 'anatomy' takes a whole number of at least 2")
    return int(l)


def _check_diversity(policy: Asking) -> None:
    recursive = policy.l_diversity == "recursive"
    if policy.c is not None and not recursive:
        raise PolicyError("c belongs to l_diversity = 'recursive': set that, or leave c out")
    if policy.l is None or not recursive:
        return
    if policy.c is None:
        raise PolicyError("recursive l-diversity needs c above 0: add c = 3, or another number")
    for value in policy.l.values() if isinstance(policy.l, Mapping) else [policy.l]:
        if value != int(value):
            raise PolicyError(f"l = {value}: recursive l-diversity counts values, use an integer")
