"""Policies: the roles of columns and what a release must keep, checked as far as no source is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, SupportsIndex, TypeVar

from duckanon.errors import PolicyError
from duckanon.policy.checks import (
    Columns,
    Distance,
    Effort,
    Hierarchy,
    Intersection,
    LDiversity,
    Nulls,
    Number,
    Objective,
    Release,
    checked,
)
from duckanon.policy.methods import METHODS
from duckanon.policy.names import CLASS, ByColumn, fold, suggestion, unknown_option
from duckanon.policy.recodes import Recode
from duckanon.policy.toml import options_from_toml, options_to_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "AUDIT_OPTIONS",
    "METHODS",
    "OPTIONS",
    "ROLES",
    "THRESHOLD_OPTIONS",
    "AuditPolicy",
    "Distance",
    "Effort",
    "LDiversity",
    "Nulls",
    "Objective",
    "Policy",
    "Recode",
    "hierarchy_names",
    "stated_options",
]

THRESHOLD_OPTIONS = ("k", "t", "l", "l_diversity", "c")
"""Options by which an audit of an anonymized view can replace the thresholds of its policy."""

ROLES = ("quasi_identifiers", "sensitive", "identifiers", "insensitive")
"""Options that give columns a role."""

_NO_COLUMN: ByColumn[Any] = ByColumn()

HierarchyRows = Hierarchy | Mapping[Any, Any] | Iterable[Iterable[Any]]
"""What a hierarchy may be given as: `Hierarchy`, or labels by leaf, or rows."""

P = ParamSpec("P")
S = TypeVar("S")


def _known_options(init: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """Make an unknown keyword, or one left out, an error of ours: Python's names no other spelling."""
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


@dataclass(frozen=True, init=False)
class AuditPolicy:
    """What an audit of any table looks at and asks for.

    Parameters
    ----------
    quasi_identifiers : str or iterable of str
        Columns that make the equivalence classes, at least one.
    sensitive : str or iterable of str
        Columns of which l-diversity and t-closeness speak.
    k, t, l, l_diversity, c, distance, hierarchies
        As in `Policy`, all optional: what has no threshold is reported and not judged.
    suppressed : str, optional
        Mark of other tools: records all of whose quasi-identifiers are this text are left out and counted.
        ``'NULL'`` means those that have none, too.

    Raises
    ------
    PolicyError
        A value is wrong, or two do not fit together.
    """

    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    k: int | None
    t: Decimal | ByColumn[Decimal] | None
    l: Decimal | ByColumn[Decimal] | None  # noqa: E741 - l-diversity has this name everywhere
    l_diversity: LDiversity
    c: Decimal | None
    distance: ByColumn[Distance]
    hierarchies: ByColumn[Hierarchy]
    suppressed: str | None

    @_known_options
    def __init__(
        self,
        *,
        quasi_identifiers: Columns,
        sensitive: Columns = (),
        k: SupportsIndex | None = None,
        t: Number | Mapping[str, Number] | None = None,
        l: Number | Mapping[str, Number] | None = None,  # noqa: E741 - as above
        l_diversity: LDiversity = "distinct",
        c: Number | None = None,
        distance: Mapping[str, Distance] | None = None,
        hierarchies: Mapping[str, HierarchyRows] | None = None,
        suppressed: str | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        _store(self, {name: value for name, value in given.items() if name != "k"})
        object.__setattr__(self, "k", None if k is None else checked("k", k))
        check_roles(self, ROLES[:2])
        check_sensitive(self)

    def override(self, **thresholds: Any) -> AuditPolicy:
        """Return this policy with other thresholds.

        Parameters
        ----------
        **thresholds : object
            Some of `THRESHOLD_OPTIONS`. An l_diversity other than 'recursive' drops c.

        Returns
        -------
        AuditPolicy
            Roles, distances and hierarchies are kept.
        """
        if thresholds.get("l_diversity", "recursive") != "recursive":
            thresholds.setdefault("c", None)
        return replace(self, **thresholds)


@dataclass(frozen=True, init=False)
class Policy:
    """The role of each column and what a release must keep: the options of ``WITH (...)``.

    Names of columns count without regard to the case of ASCII letters, as in DuckDB. A number given as float
    or text is read as the decimal that is written. What a source does not have is found by `bind.bind`.

    Parameters
    ----------
    quasi_identifiers : str or iterable of str
        Columns that are recoded, at least one.
    k : int
        Least number of records in a class, at least 2.
    sensitive, identifiers : str or iterable of str
        Columns that are protected by t and l, and columns that are dropped.
    insensitive : str or iterable of str
        Columns that are released as they are; ``"*"`` takes every column not named elsewhere.
    t : number, or mapping from column to number, optional
        Largest EMD of a class, above 0 and at most 1; cut off after 12 decimals.
    l : number, or mapping from column to number, optional
        Least diversity of a class, at least 1.
    l_diversity : {'distinct', 'entropy', 'recursive'}
        What l means.
    c : number, optional
        For recursive l-diversity, above 0; cut off after 12 decimals.
    distance : mapping from column to {'ordered', 'equal', 'hierarchical'}, optional
        Ground distance of sensitive columns; by default it follows the type.
    hierarchies : mapping from column to str or to rows, optional
        Of a sensitive column with hierarchical distance, or of a quasi-identifier: the name of a table or
        file with one row a leaf, columns from leaf to root, or these rows: a table of pandas, polars or
        Arrow, or a mapping from each leaf to its labels up to the root.
    method : str
        One of `METHODS`.
    objective : {'loss', 'discernibility', 'c_avg', 'precision'}
        What 'full_domain' makes smallest.
    recode : mapping from column to {'mean', 'median', 'mode', 'range', 'set', 'hierarchy'}, optional
        How a quasi-identifier is recoded; by default it follows the type, and whole numbers that are named
        like a code (``zip``, ``plan_type``) have their mode.
    weights : mapping from column to number, optional
        Importance of a quasi-identifier in the distance, above 0; 1 by default.
    subject : str or iterable of str
        Columns that tell whose a record is: k then counts different subjects, and not records. They are
        dropped, unless they have another role, which may be any but that of quasi-identifiers.
    p_percent : number, optional
        Per cent, above 0, within which no record, or subject, of a class can be estimated from the mean of a
        numeric quasi-identifier (p % rule); rounded up to 12 decimals.
    min_values : int, optional
        Least number of records, or subjects, of a class that have a value, at least 1: a class of fewer
        releases NULL where a quasi-identifier is recoded by 'mean', 'median' or 'range'; by default k.
    digits : int, or mapping from column to int, optional
        Digits after the point of released means and medians of numbers, negative before the point; by default
        those that the values of the column have.
    release : {'table', 'anatomy', 'swap'}
        'table': quasi-identifiers recoded, one value a class. 'anatomy': quasi-identifiers as they are in one
        table, and sensitive values, counted in each class, in another; no value has more than 1 / l of a
        class. 'swap': each column of them dealt anew within every class, and the number of the class in a
        column of its own.
    on_intersection : {'warn', 'error'}
        What happens where a release and an earlier one say together something about fewer than k subjects.
    suppression_limit : number
        Fraction of the records that may be left out, 0 to 1.
    nulls : {'category', 'suppress', 'error'}
        What NULL in a quasi-identifier does.
    refine : bool
        Swap and move refinement after the partition; False takes the partition as it is.
    effort : {'fast', 'balanced', 'best'}
        How much refinement is tried, counted in work and not in seconds. 'balanced' and 'best' also take
        neighbouring classes apart and form them anew.
    time_limit : number, optional
        Seconds, above 0, after which refinement stops, counted from the begin of the statement. The only
        option that makes a release depend on the machine.
    seed : int
        For explicit randomness only.

    Raises
    ------
    PolicyError
        A value is wrong, or two do not fit together.

    Examples
    --------
    >>> policy = Policy(quasi_identifiers=["age", "zip"], sensitive="charge", k=5, t=0.15)
    >>> policy.sensitive, policy.t
    (('charge',), Decimal('0.15'))
    """

    quasi_identifiers: tuple[str, ...]
    k: int
    sensitive: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    insensitive: tuple[str, ...] | Literal["*"] = ()
    t: Decimal | ByColumn[Decimal] | None = None
    l: Decimal | ByColumn[Decimal] | None = None  # noqa: E741 - l-diversity has this name everywhere
    l_diversity: LDiversity = "distinct"
    c: Decimal | None = None
    distance: ByColumn[Distance] = _NO_COLUMN
    hierarchies: ByColumn[Hierarchy] = _NO_COLUMN
    method: str = "auto"
    objective: Objective = "loss"
    recode: ByColumn[Recode] = _NO_COLUMN
    weights: ByColumn[float] = _NO_COLUMN
    subject: tuple[str, ...] = ()
    p_percent: Decimal | None = None
    min_values: int | None = None
    digits: int | ByColumn[int] | None = None
    release: Release = "table"
    on_intersection: Intersection = "warn"
    suppression_limit: float = 0.0
    nulls: Nulls = "category"
    refine: bool = True
    effort: Effort = "balanced"
    time_limit: float | None = None
    seed: int = 0

    @_known_options
    def __init__(
        self,
        *,
        quasi_identifiers: Columns,
        k: SupportsIndex,
        sensitive: Columns = (),
        identifiers: Columns = (),
        insensitive: Columns = (),
        t: Number | Mapping[str, Number] | None = None,
        l: Number | Mapping[str, Number] | None = None,  # noqa: E741 - as above
        l_diversity: LDiversity = "distinct",
        c: Number | None = None,
        distance: Mapping[str, Distance] | None = None,
        hierarchies: Mapping[str, HierarchyRows] | None = None,
        method: str = "auto",
        objective: Objective = "loss",
        recode: Mapping[str, Recode] | None = None,
        weights: Mapping[str, Number] | None = None,
        subject: Columns = (),
        p_percent: Number | None = None,
        min_values: SupportsIndex | None = None,
        digits: SupportsIndex | Mapping[str, SupportsIndex] | None = None,
        release: Release = "table",
        on_intersection: Intersection = "warn",
        suppression_limit: Number = 0,
        nulls: Nulls = "category",
        refine: bool = True,
        effort: Effort = "balanced",
        time_limit: Number | None = None,
        seed: SupportsIndex = 0,
    ) -> None:
        _store(self, {name: value for name, value in locals().items() if name != "self"})
        check_roles(self, ROLES)
        check_sensitive(self)
        _check_subject(self)
        for option in ("recode", "weights"):
            check_columns(option, getattr(self, option), "quasi_identifiers", self.quasi_identifiers)
        _check_labels(self)
        _check_full_domain(self)
        _check_as_it_is(self)
        _check_anatomy(self)
        _check_p_percent(self)
        _check_means(self)

    @property
    def least_values(self) -> int:
        """Records, or subjects, of a class that have a value where one is released: `min_values`, or k."""
        return self.k if self.min_values is None else self.min_values

    def audited(self) -> AuditPolicy:
        """Return the part of this policy that an audit checks."""
        asked = {name for name in AUDIT_OPTIONS if name in OPTIONS}
        return audited({name: getattr(self, name) for name in (*asked, "release")})

    def to_toml(self) -> str:
        """Return the options that differ from their default as TOML, one line each."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return options_to_toml({name: value for name, (value, default) in values.items() if value != default})

    @classmethod
    def from_toml(cls, text: str, **overrides: Any) -> Self:
        """Return the policy that a TOML text states.

        Parameters
        ----------
        text : str
            Options by name at the top level; ``from_toml(policy.to_toml()) == policy``.
        **overrides : object
            Options that win over those of the text.

        Raises
        ------
        PolicyError
            The text is not TOML, an option is unknown or missing, or the policy is wrong.
        """
        options = stated_options(text, **overrides)
        for name in ("quasi_identifiers", "k"):
            if name not in options:
                raise PolicyError(f"option {name!r} is missing: add {name} = ... to the policy")
        return cls(**options)


OPTIONS = tuple(field.name for field in fields(Policy))
"""Names of all options, in the order of the documentation."""

AUDIT_OPTIONS = tuple(field.name for field in fields(AuditPolicy))
"""Names of the options of an audit."""


def audited(options: Mapping[str, Any]) -> AuditPolicy:
    """What an audit of a release checks, of the options of its policy, checked or not; others do not count.

    Its hierarchies are those of sensitive columns; where quasi-identifiers are not recoded, the number of the
    class tells the classes. The l of ``release = 'anatomy'`` is asked as `share_of` says.
    """
    asked = {name: value for name, value in options.items() if name in AUDIT_OPTIONS}
    sensitive = {fold(column) for column in checked("sensitive", asked.get("sensitive", ()))}
    trees = checked("hierarchies", asked.get("hierarchies"))
    asked["hierarchies"] = {column: tree for column, tree in trees.items() if fold(column) in sensitive}
    if options.get("release", "table") != "table":
        asked["quasi_identifiers"] = CLASS
    if options.get("release") == "anatomy" and asked.get("l") is not None:
        asked |= share_of(_whole_l(checked("l", asked["l"])))
    return AuditPolicy(**asked)


def share_of(l: int) -> dict[str, Any]:  # noqa: E741 - as above
    """Thresholds that no class keeps of which one value has more than 1 / l of the records: the l of Anatomy.

    Recursive l-diversity with l = 1 asks that r_1 < c s, for the records r_1 of the most frequent value and s
    of the class. c, in steps of 10^-12, is the least above 1 / l, which leaves no room between r_1 <= s / l
    and r_1 < c s as long as l s is at most 10^12. Xiao and Tao, VLDB 2006, definition 2.
    """
    steps = 10**12 // l + 1
    return {"l": 1, "l_diversity": "recursive", "c": Decimal(steps).scaleb(-12)}


def hierarchy_names(policy: Policy | AuditPolicy) -> tuple[str, ...]:
    """Tables and files that hierarchies of a policy are read from; those given as rows have none."""
    return tuple(tree for tree in policy.hierarchies.values() if isinstance(tree, str))


def stated_options(text: str, **overrides: Any) -> dict[str, Any]:
    """Options that the text of a policy file states, overrides first, before they are checked together.

    A PolicyError where the text is not TOML, or an option is none of `OPTIONS` or `AUDIT_OPTIONS`.
    """
    options = options_from_toml(text) | overrides
    for name in options:
        if name not in (*OPTIONS, *AUDIT_OPTIONS):
            raise PolicyError(unknown_option(name, OPTIONS))
    return options


def _store(policy: Policy | AuditPolicy, given: Mapping[str, Any]) -> None:
    """Set the fields of a frozen policy to the checked values."""
    for name, value in given.items():
        object.__setattr__(policy, name, checked(name, value))


def check_roles(policy: Policy | AuditPolicy, roles: Sequence[str]) -> None:
    """Raise unless there is a quasi-identifier and no column has two roles; each is checked already."""
    if not policy.quasi_identifiers:
        raise PolicyError("quasi_identifiers is empty: name at least one column, as in (age, zip)")
    role_of: dict[str, str] = {}
    for role in roles:
        columns = getattr(policy, role)
        for column in () if columns == "*" else columns:
            other = role_of.setdefault(fold(column), role)
            if other != role:
                raise PolicyError(f"column {column!r} is in {other} and in {role}: a column has one role")


def _check_subject(policy: Policy) -> None:
    """Raise where a subject is a quasi-identifier, of which every class has one value."""
    quasi = {fold(column) for column in policy.quasi_identifiers}
    for column in policy.subject:
        if fold(column) in quasi:
            raise PolicyError(
                f"column {column!r} is in subject and in quasi_identifiers: who is told by it needs no more; "
                "take it out of quasi_identifiers"
            )


def check_sensitive(policy: Policy | AuditPolicy) -> None:
    """Raise unless thresholds, distances and hierarchies, each checked already, fit the sensitive columns."""
    both = (*policy.quasi_identifiers, *policy.sensitive)
    check_columns("hierarchies", policy.hierarchies, "quasi_identifiers or sensitive", both)
    for option in ("t", "l", "distance"):
        value = getattr(policy, option)
        if isinstance(value, Mapping):
            check_columns(option, value, "sensitive", policy.sensitive)
        elif value is not None and not policy.sensitive:
            raise PolicyError(f"{option} = {value} needs sensitive columns: add sensitive = (...)")
    _check_hierarchies(policy)
    _check_diversity(policy)


def check_columns(option: str, named: Mapping[str, object], role: str, columns: Sequence[str]) -> None:
    """Raise unless an option has values for columns of one role only, with the first that has another."""
    known = {fold(column) for column in columns}
    for column in named:
        if fold(column) not in known:
            hint = suggestion(column, columns) or f": add it to {role}"
            raise PolicyError(f"{option} names {column!r}, which is not in {role}{hint}")


def _check_hierarchies(policy: Policy | AuditPolicy) -> None:
    for column, distance in policy.distance.items():
        if distance == "hierarchical" and column not in policy.hierarchies:
            option = f"hierarchies = {{{column}: 'table'}}"
            raise PolicyError(f"distance of {column!r} is 'hierarchical' and has no tree: add {option}")
    for column in policy.sensitive:
        if column in policy.hierarchies and policy.distance.get(column) != "hierarchical":
            option = f"distance = {{{column}: 'hierarchical'}}"
            raise PolicyError(f"hierarchies of {column!r} is of no use: add {option}, or leave it out")


def _check_labels(policy: Policy) -> None:
    for column, recode in policy.recode.items():
        if recode == "hierarchy" and column not in policy.hierarchies:
            option = f"hierarchies = {{{column}: 'table'}}"
            raise PolicyError(f"recode of {column!r} is 'hierarchy' and has none: add {option}")


def _check_full_domain(policy: Policy) -> None:
    """Raise unless the options of full-domain generalization stand together, and no others beside them."""
    if policy.method != "full_domain":
        if policy.objective != "loss":
            method = f"of method = 'full_domain', not {policy.method!r}"
            raise PolicyError(f"objective = {policy.objective!r} is {method}: set that, or leave it out")
        return
    if not any(column in policy.hierarchies for column in policy.quasi_identifiers):
        option = f"hierarchies = {{{policy.quasi_identifiers[0]}: 'table'}}"
        raise PolicyError(f"method = 'full_domain' climbs hierarchies and there are none: add {option}")
    for column, recode in policy.recode.items():
        if recode != "hierarchy":
            raise PolicyError(
                f"recode of {column!r} is {recode!r} and method = 'full_domain' releases labels of "
                "hierarchies, and other columns as they are: leave it out"
            )
    for column in policy.weights:
        raise PolicyError(
            f"weights names {column!r} and method = 'full_domain' takes no distances: leave it out"
        )


def _check_as_it_is(policy: Policy) -> None:
    """Raise unless the options go with quasi-identifiers that are not recoded."""
    if policy.release == "table":
        return
    for column in policy.recode:
        raise PolicyError(
            f"recode names {column!r} and release = {policy.release!r} releases values as they are: "
            "leave it out"
        )
    if policy.method == "full_domain":
        raise PolicyError(
            f"method = 'full_domain' releases labels and release = {policy.release!r} values as they are: "
            "use one of them"
        )


def _check_anatomy(policy: Policy) -> None:
    """Raise unless one whole l is asked for, and nothing that two tables cannot keep."""
    if policy.release != "anatomy":
        return
    if policy.t is not None:
        raise PolicyError("t does not go with release = 'anatomy', whose quasi-identifiers are exact: use l")
    if policy.l is None:
        raise PolicyError(
            "release = 'anatomy' hides a person among l sensitive values and no l is asked for: add l = 4"
        )
    if policy.l_diversity != "distinct":
        raise PolicyError(
            f"l_diversity = {policy.l_diversity!r} does not go with release = 'anatomy', whose l is its own: "
            "no value in more than 1 / l of a class; leave it out"
        )
    _whole_l(policy.l)


def _check_p_percent(policy: Policy) -> None:
    """Raise where no mean is released, of which alone the p % rule speaks."""
    full = policy.method == "full_domain"
    if policy.p_percent is not None and (full or policy.release != "table"):
        what = "method = 'full_domain'" if full else f"release = {policy.release!r}"
        raise PolicyError(f"p_percent protects class means and {what} releases none: leave it out")


def _check_means(policy: Policy) -> None:
    """Raise where an option speaks of class means, and no mean is released."""
    if isinstance(policy.digits, Mapping):
        check_columns("digits", policy.digits, "quasi_identifiers", policy.quasi_identifiers)
    full = policy.method == "full_domain"
    for option in ("min_values", "digits"):
        if getattr(policy, option) is not None and (full or policy.release != "table"):
            what = "method = 'full_domain'" if full else f"release = {policy.release!r}"
            raise PolicyError(f"{option} is of class means and {what} releases none: leave it out")


def _whole_l(l: Decimal | ByColumn[Decimal]) -> int:  # noqa: E741 - as above
    """Return the l of `release = 'anatomy'`."""
    if isinstance(l, Mapping):
        raise PolicyError(
            "release = 'anatomy' has one second table, and so one l for all sensitive columns: write l = 4"
        )
    if l != int(l) or l < 2:
        raise PolicyError(f"l = {l}: release = 'anatomy' takes a whole number of at least 2")
    return int(l)


def _check_diversity(policy: Policy | AuditPolicy) -> None:
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
