"""The policy of a release: roles of columns and thresholds, checked as far as possible without a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex

from duckanon.errors import PolicyError
from duckanon.policy.audit_policy import (
    AUDIT_OPTIONS,
    ROLES,
    AlphaNumber,
    AuditPolicy,
    HierarchyRows,
    Subsets,
    Thresholds,
    audited,
    check_columns,
    check_roles,
    check_sensitive,
    known_options,
    split_k,
    store,
    whole_l,
)
from duckanon.policy.checks import SHARE_OPTIONS
from duckanon.policy.joint import check_n, split_t
from duckanon.policy.names import ByColumn, fold, unknown_option
from duckanon.policy.subsets import BySubset, check_whole
from duckanon.policy.toml_text import options_from_toml, options_to_toml

if TYPE_CHECKING:
    from decimal import Decimal

    from duckanon.policy.checks import (
        Alpha,
        Columns,
        Distance,
        Effort,
        Hierarchy,
        Intersection,
        LDiversity,
        Levels,
        Nulls,
        Number,
        Objective,
        Release,
    )
    from duckanon.policy.joint import JointDistanceWord
    from duckanon.policy.kinds import Recode

__all__ = ["AUDIT_OPTIONS", "OPTIONS", "AuditPolicy", "Policy"]

_NO_COLUMN: ByColumn[Any] = ByColumn()


@dataclass(frozen=True, init=False)
class Policy:
    """The role of each column and what a release must keep: the options of ``WITH (...)``.

    The case of ASCII letters in column names does not count, as in DuckDB. A float or a text counts as the
    decimal that is written. Whether the source has the columns is checked later, by `bind.bind`.

    Parameters
    ----------
    quasi_identifiers : str or iterable of str
        Columns that are recoded, at least one.
    k : int, or mapping from subset to int
        Least number of records in a class, at least 2. As a mapping, ``"*"`` is this number, and the other
        keys are those of `k_subsets`: ``{"*": 5, ("age", "sex"): 10}``.
    sensitive, identifiers : str or iterable of str
        Columns that are protected by t and l, and columns that are dropped.
    insensitive : str or iterable of str
        Columns that are released as they are; ``"*"`` takes every column not named elsewhere.
    t : number, or mapping from column or columns to number, optional
        Largest EMD of a class, above 0 and at most 1; cut off after 12 decimals. A tuple of columns as a key
        asks for joint t-closeness of these columns, as in ``{("age", "diagnosis"): 0.3}``.
    n : int, optional
        (n, t)-closeness: t is the distance from a natural superset of at least n records, at least 1, instead
        of the distance from all records.
    l : number, or mapping from column to number, optional
        Least diversity of a class, at least 1.
    l_diversity : {'distinct', 'entropy', 'recursive'}
        What l means.
    c : number, optional
        For recursive l-diversity, above 0; cut off after 12 decimals.
    alpha : number, or mapping from column to number or to numbers by value, optional
        Largest share of a sensitive value in a class, above 0 and at most 1: of every value, or of the values
        that are named as text, as in ``{"diagnosis": {"HIV": 0.2}}``.
    delta : number, or mapping from column to number, optional
        delta-disclosure privacy: the share of each value of the table in a class is above exp(-delta) times
        and below exp(delta) times its share in the table. Above 0 and at most 30.
    beta, enhanced_beta : number, or mapping from column to number, optional
        Basic and enhanced beta-likeness: the share of a value in a class is at most 1 + beta times its share
        q in the table; enhanced, at most 1 + min(beta, -ln q) times. Above 0.
    joint_t : mapping from columns to number, optional
        Where t of several columns is kept; ``t`` takes it, too.
    joint_distance : {'maximum', 'sum'}
        Distance of two joint values: the greatest of the distances of their columns, or their sum divided by
        the number of columns.
    k_subsets : int, or mapping from subset to int, optional
        Least number of records with equal released values in some quasi-identifiers, at least 1. A key is a
        column, a tuple of columns or, for all subsets of so many columns, a number: ``{2: 50}``. A number
        alone, as 2, reports all pairs beside `k`, which they keep if the whole does.
    distance : mapping from column to {'ordered', 'equal', 'hierarchical'}, optional
        Ground distance of sensitive columns; by default by their type.
    order : mapping from column to iterable of str, optional
        All values of a text column, from the least to the greatest. A sensitive column then has ordered
        distance; a quasi-identifier is near to neighbours in the order, and is recoded by the median.
    hierarchies : mapping from column to str or to rows, optional
        Hierarchy of a quasi-identifier, or of a sensitive column with hierarchical distance. A str names a
        table or file with one row a leaf and columns from leaf to root. Rows are a table of pandas, polars or
        Arrow, or a mapping from each leaf to its labels up to the root.
    method : str
        One of `METHODS`.
    objective : {'loss', 'discernibility', 'c_avg', 'precision'}
        Measure that method 'full_domain' minimizes.
    levels : mapping from column to int or to a pair of int, optional
        Levels of the hierarchy of a quasi-identifier that method 'full_domain' may take: one level, 0 being
        the values, or the lowest and the highest. By default all.
    steering_weight : number, optional
        Weight, above 0, with which method 'steered' spreads a class over the sensitive values; a
        quasi-identifier has 1. By default the weight of Proposition 1 of Domingo-Ferrer and Soria-Comas
        (2017). Less weight gives classes of nearer records, of which more have to be merged to keep t and l.
    recode : mapping from column to {'mean', 'median', 'mode', 'range', 'set', 'hierarchy'}, optional
        How a quasi-identifier is recoded; by default by its type. Whole numbers with the name of a code
        (``zip``, ``plan_type``) are recoded by the mode.
    weights : mapping from column to number, optional
        Importance of a quasi-identifier, above 0, in the distance, or in the objective of 'full_domain'; 1 by
        default.
    subject : str or iterable of str
        Columns that identify the person of a record: k then counts different subjects instead of records.
        The columns are dropped unless they have another role. A quasi-identifier cannot be a subject.
    p_percent : number, optional
        p % rule: nobody in a class may estimate the value of another record, or subject, to within p per
        cent from the mean of a numeric quasi-identifier. Above 0; rounded up to 12 decimals.
    min_values : int, optional
        Least number of records, or subjects, of a class with a value other than NULL, at least 1; by default
        k. A class with fewer releases NULL for a quasi-identifier recoded by 'mean', 'median' or 'range'.
    digits : int, or mapping from column to int, optional
        Digits after the point of released means and medians of numbers; negative digits are before the point.
        By default as many as the values of the column have.
    release : {'table', 'anatomy', 'swap'}
        'table': quasi-identifiers are recoded, one value a class. 'anatomy': one table has the exact
        quasi-identifiers, a second table counts the sensitive values of each class. It takes l (no value has
        more than 1 / l of the records of a class), t, or both. 'swap': the values of each quasi-identifier
        are permuted within every class. Under 'anatomy' and 'swap' a column has the number of the class.
    on_intersection : {'warn', 'error'}
        `warn` or `error` when this release, compared with earlier ones, narrows a subject to fewer than k.
    suppression_limit : number
        Largest fraction of the records that may be left out, 0 to 1.
    nulls : {'category', 'suppress', 'error'}
        NULL in a quasi-identifier: is a value, suppresses the record, or is an error.
    refine : bool
        Whether swaps and moves of records refine the partition.
    effort : {'fast', 'balanced', 'best'}
        How much refinement is tried, counted in work and not in seconds. 'balanced' and 'best' also rebuild
        neighbouring classes.
    time_limit : number, optional
        Seconds from the begin of the statement, above 0, after which refinement stops. No other option makes
        a release depend on the machine.
    seed : int
        Seed of random choices of partition, refinement and 'swap'; equal seeds give equal releases.

    Raises
    ------
    PolicyError
        A value is wrong, or two values do not fit together.

    Examples
    --------
    >>> policy = Policy(quasi_identifiers=["age", "zip"], sensitive="charge", k=5, t=0.15)
    >>> policy.sensitive, policy.t
    (('charge',), Decimal('0.15'))
    """

    quasi_identifiers: tuple[str, ...]
    k: int  # of the whole
    sensitive: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    insensitive: tuple[str, ...] | Literal["*"] = ()
    t: Decimal | ByColumn[Decimal] | None = None
    n: int | None = None
    l: Decimal | ByColumn[Decimal] | None = None  # noqa: E741 - l-diversity has this name everywhere
    l_diversity: LDiversity = "distinct"
    c: Decimal | None = None
    alpha: Decimal | ByColumn[Alpha] | None = None
    delta: Decimal | ByColumn[Decimal] | None = None
    beta: Decimal | ByColumn[Decimal] | None = None
    enhanced_beta: Decimal | ByColumn[Decimal] | None = None
    joint_t: BySubset[Decimal] | None = None
    joint_distance: JointDistanceWord = "maximum"
    k_subsets: int | BySubset[int] | None = None
    distance: ByColumn[Distance] = _NO_COLUMN
    order: ByColumn[tuple[str, ...]] = _NO_COLUMN
    hierarchies: ByColumn[Hierarchy] = _NO_COLUMN
    method: str = "auto"
    objective: Objective = "loss"
    levels: ByColumn[Levels] = _NO_COLUMN
    steering_weight: float | None = None
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

    @known_options
    def __init__(
        self,
        *,
        quasi_identifiers: Columns,
        k: SupportsIndex | Subsets,
        sensitive: Columns = (),
        identifiers: Columns = (),
        insensitive: Columns = (),
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
        k_subsets: SupportsIndex | Subsets | None = None,
        distance: Mapping[str, Distance] | None = None,
        order: Mapping[str, Sequence[str]] | None = None,
        hierarchies: Mapping[str, HierarchyRows] | None = None,
        method: str = "auto",
        objective: Objective = "loss",
        levels: Mapping[str, int | Sequence[int]] | None = None,
        steering_weight: Number | None = None,
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
        store(self, {name: value for name, value in locals().items() if name != "self"})
        check_roles(self, ROLES)
        split_t(self)
        check_n(self)
        split_k(self)
        check_sensitive(self)
        _check_subject(self)
        _check_n_of_release(self)
        for column, values in self.order.items():
            if len(values) < 2:
                raise PolicyError(f"order of {column!r} has fewer than two values: name all, or leave it out")
        for option in ("recode", "weights", "levels"):
            check_columns(option, getattr(self, option), "quasi_identifiers", self.quasi_identifiers)
        _check_labels(self)
        _check_full_domain(self)
        _check_steering(self)
        _check_as_it_is(self)
        check_whole(self.k, self.k_subsets, self.release)
        _check_anatomy(self)
        _check_p_percent(self)
        _check_means(self)

    @property
    def least_values(self) -> int:
        """Least number of records, or subjects, behind a released value: `min_values`, or k."""
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
            Options that replace those of the text.

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


def hierarchy_names(policy: Policy | AuditPolicy) -> tuple[str, ...]:
    """Tables and files that the hierarchies of a policy are read from, without hierarchies given as rows."""
    return tuple(tree for tree in policy.hierarchies.values() if isinstance(tree, str))


def stated_options(text: str, **overrides: Any) -> dict[str, Any]:
    """Options of the text of a policy file, replaced by `overrides`; they are not yet checked together."""
    # A PolicyError if the text is not TOML, or an option is neither in `OPTIONS` nor in `AUDIT_OPTIONS`.
    options = options_from_toml(text) | overrides
    for name in options:
        if name not in (*OPTIONS, *AUDIT_OPTIONS):
            if isinstance(options[name], dict):
                raise PolicyError(f"unknown table [{name}]: the options of a policy stand outside of tables")
            raise PolicyError(unknown_option(name, OPTIONS))
    return options


def _check_subject(policy: Policy) -> None:
    """Raise if a subject is a quasi-identifier: a class has one value of every quasi-identifier."""
    quasi = {fold(column) for column in policy.quasi_identifiers}
    for column in policy.subject:
        if fold(column) in quasi:
            raise PolicyError(
                f"column {column!r} is in subject and in quasi_identifiers: who is told by it needs no more; "
                "take it out of quasi_identifiers"
            )


def _check_n_of_release(policy: Policy) -> None:
    """Raise unless a release can keep (n, t)-closeness."""
    if policy.n is None:
        return
    if policy.n <= policy.k:
        raise PolicyError(
            f"n = {policy.n} is at most k = {policy.k}, so every class would be its own superset, and t would "
            "bound nothing: ask for a larger n, or leave t and n out"
        )
    if policy.release != "table":
        raise PolicyError(
            f"n is of release = 'table', whose recoded quasi-identifiers make supersets, not of release = "
            f"{policy.release!r}: leave n out, and t is the distance from all records"
        )
    if policy.subject:
        raise PolicyError(
            "n counts records, and with subject = (...) a superset has fewer persons than records: leave n "
            "out, and t is the distance from all records"
        )


def _check_labels(policy: Policy) -> None:
    for column, recode in policy.recode.items():
        if recode == "hierarchy" and column not in policy.hierarchies:
            option = f"hierarchies = {{{column}: 'table'}}"
            raise PolicyError(f"recode of {column!r} is 'hierarchy' and has none: add {option}")


def _check_full_domain(policy: Policy) -> None:
    """Raise unless the options of full-domain generalization fit together and belong to this method."""
    if policy.method != "full_domain":
        method = f"of method = 'full_domain', not {policy.method!r}"
        if policy.objective != "loss":
            raise PolicyError(f"objective = {policy.objective!r} is {method}: set that, or leave it out")
        for column in policy.levels:
            raise PolicyError(f"levels of {column!r} is {method}: set that, or leave it out")
        return
    if policy.joint_t is not None:
        raise PolicyError(
            "method = 'full_domain' gives all records the same levels, and t of several columns together is "
            "kept by merging single classes: use another method, or t of single columns"
        )
    if not any(column in policy.hierarchies for column in policy.quasi_identifiers):
        option = f"hierarchies = {{{policy.quasi_identifiers[0]}: 'table'}}"
        raise PolicyError(f"method = 'full_domain' climbs hierarchies and there are none: add {option}")
    for column, recode in policy.recode.items():
        if recode != "hierarchy":
            raise PolicyError(
                f"recode of {column!r} is {recode!r} and method = 'full_domain' releases labels of "
                "hierarchies, and other columns as they are: leave it out"
            )
    for column in policy.levels:
        if column not in policy.hierarchies:
            option = f"hierarchies = {{{column}: 'table'}}"
            raise PolicyError(f"levels names {column!r}, which has no hierarchy: add {option}")
    if policy.objective not in ("loss", "precision"):
        for column in policy.weights:
            raise PolicyError(
                f"weights names {column!r} and objective = {policy.objective!r} counts classes, not columns: "
                "leave it out, or use objective = 'loss'"
            )


def _check_steering(policy: Policy) -> None:
    """Raise if a steering weight is given to a method other than 'steered'."""
    if policy.steering_weight is not None and policy.method != "steered":
        raise PolicyError(
            f"steering_weight = {policy.steering_weight:g} is of method = 'steered', not {policy.method!r}: "
            "set that, or leave it out"
        )


def _check_as_it_is(policy: Policy) -> None:
    """Raise unless the options fit quasi-identifiers that are not recoded."""
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
    """Raise unless the policy asks for one whole l, for t or both, and for nothing else."""
    if policy.release != "anatomy":
        return
    for option in (*SHARE_OPTIONS, "joint_t"):
        if getattr(policy, option) is not None:
            raise PolicyError(
                f"{option} does not go with release = 'anatomy', whose quasi-identifiers are exact: use "
                "l = 4 or t = 0.2"
            )
    if policy.l is None and policy.t is None:
        raise PolicyError(
            "release = 'anatomy' hides a person among the sensitive values of a class and no threshold is "
            "asked for: add l = 4, t = 0.2, or both"
        )
    if policy.l_diversity != "distinct":
        raise PolicyError(
            f"l_diversity = {policy.l_diversity!r} does not go with release = 'anatomy', whose l is its own: "
            "no value in more than 1 / l of a class; leave it out"
        )
    if policy.l is not None:
        whole_l(policy.l)


def _check_p_percent(policy: Policy) -> None:
    """Raise if no mean is released: the p % rule is about means."""
    full = policy.method == "full_domain"
    if policy.p_percent is not None and (full or policy.release != "table"):
        what = "method = 'full_domain'" if full else f"release = {policy.release!r}"
        raise PolicyError(f"p_percent protects class means and {what} releases none: leave it out")


def _check_means(policy: Policy) -> None:
    """Raise if an option concerns class means and no mean is released."""
    if isinstance(policy.digits, Mapping):
        check_columns("digits", policy.digits, "quasi_identifiers", policy.quasi_identifiers)
    full = policy.method == "full_domain"
    for option in ("min_values", "digits"):
        if getattr(policy, option) is not None and (full or policy.release != "table"):
            what = "method = 'full_domain'" if full else f"release = {policy.release!r}"
            raise PolicyError(f"{option} is of class means and {what} releases none: leave it out")
