"""Bind a policy to the columns of its source: role, kind and recode rule of every column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from duckanon.errors import PolicyError
from duckanon.policy.audit_policy import ROLES
from duckanon.policy.checks import SHARE_OPTIONS
from duckanon.policy.joint import JointThreshold
from duckanon.policy.kinds import NUMBERS, RULES, default_rule, enum_values, kind_of, rule_of
from duckanon.policy.names import CLASS, RECORDS, ByColumn, columns_listed, fold, shortened, suggestion, twice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from decimal import Decimal

    from duckanon.policy.audit_policy import Asking
    from duckanon.policy.checks import Distance, Hierarchy
    from duckanon.policy.kinds import AsItIs, Kind, Recode
    from duckanon.policy.policy import AuditPolicy, Policy

V = TypeVar("V")

_INSTEAD = {
    "STRUCT": "its fields as columns of their own, or CAST it to VARCHAR",
    "BLOB": "CAST it to VARCHAR",
    "BIT": "CAST it to VARCHAR",
    "INTERVAL": "epoch(...) of it, a number of seconds",
    "TIME": "epoch(...) of it, a number of seconds, or CAST it to VARCHAR",
    "TIME_NS": "epoch(...) of it, a number of seconds, or CAST it to VARCHAR",
    "TIME WITH TIME ZONE": "epoch(...) of it, a number of seconds, or CAST it to VARCHAR",
    "TIMESTAMPTZ_NS": "CAST it to TIMESTAMP WITH TIME ZONE",
    "BIGNUM": "CAST it to DOUBLE",
    '"NULL"': "CAST it to the type that it should have",
}
_LARGEST_STEP = 28
"""Largest power of ten for which 2 x step x records of a class fits into 128 bits."""

_BETWEEN_NAMES = re.compile(r"[\s,;|]+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_ARRAY_IN_TUPLE = re.compile(r"\bTUPLE\(.*\[\d+\].*\)")
_UNION = re.compile(r"\bUNION\(")


class Role(Enum):
    """What the release does with a column."""

    IDENTIFIER = "identifier"
    SUBJECT = "subject"  # identifies the person of a record; never released in this role
    CLASS = "class"  # number of the class, where the quasi-identifiers are not recoded
    QUASI_IDENTIFIER = "quasi_identifier"
    SENSITIVE = "sensitive"
    INSENSITIVE = "insensitive"


_ROLE_OF_OPTION = {
    "quasi_identifiers": Role.QUASI_IDENTIFIER,
    "sensitive": Role.SENSITIVE,
    "identifiers": Role.IDENTIFIER,
    "insensitive": Role.INSENSITIVE,
}


@dataclass(frozen=True)
class Attribute:
    """A column of the source with everything that the policy says about it."""

    name: str  # as the source spells it
    role: Role
    type: str  # as DESCRIBE writes it
    kind: Kind
    recode: Recode | AsItIs | None = None  # of a quasi-identifier: see `rule_of`
    weight: float = 1.0  # of a quasi-identifier: factor of its squared distance, above 0
    distance: Distance | None = None  # of a sensitive column
    order: tuple[str, ...] | None = None  # of text: its values from the least to the greatest, if they count
    digits: int | None = None  # of a quasi-identifier: digits of its released means, if asked
    hierarchy: Hierarchy | None = None  # of a quasi-identifier, or for hierarchical distance
    t: Decimal | None = None  # threshold of a sensitive column
    l: Decimal | None = None  # noqa: E741 - l-diversity has this name everywhere
    alpha: Decimal | None = None  # largest share of every value
    alpha_of: tuple[tuple[str, Decimal], ...] = ()  # largest shares of named values, as text
    delta: Decimal | None = None
    beta: Decimal | None = None
    enhanced_beta: Decimal | None = None

    @property
    def limited(self) -> bool:
        """Whether its values in a class must keep a threshold."""
        return bool(self.alpha_of) or any(
            getattr(self, option) is not None for option in ("t", "l", *SHARE_OPTIONS)
        )

    @property
    def has_total(self) -> bool:
        """Whether its released mean times the records gives a total; a date has no zero, so no total."""
        return self.recode == "mean" and self.kind in {"integer", "decimal", "float"}


def bind(policy: Policy, columns: Sequence[tuple[str, str]]) -> tuple[Attribute, ...]:
    """Attributes of all columns of a source, given as names with types in source order."""
    # A PolicyError if a column has no role, does not exist or stands twice, or its type does not suit its
    # role.
    types = _types(columns)
    roles = {
        fold(column): _ROLE_OF_OPTION[option]
        for option in ROLES
        if getattr(policy, option) != "*"
        for column in _as_spelled(option, getattr(policy, option), types)
    }
    # A subject column without another role is dropped from the release.
    roles = {fold(name): Role.IDENTIFIER for name in subject_of(policy, columns)} | roles
    if policy.insensitive == "*":
        roles = {fold(name): Role.INSENSITIVE for name in types} | roles
    _check_added(policy, types, roles)
    bare = [name for name in types if fold(name) not in roles]
    if bare:
        names = ", ".join(repr(name) for name in bare)
        raise PolicyError(
            f"no role for {names}: give each a role, or add insensitive = * to release the rest as is"
        )
    bound = tuple(_attribute(policy, name, roles[fold(name)], types[name]) for name in types)
    if policy.p_percent is not None and not any(attribute.has_total for attribute in bound):
        raise PolicyError(
            "p_percent protects class means of numbers, and no quasi-identifier that is a number is recoded "
            "by 'mean': leave it out"
        )
    return bound


def _check_added(policy: Policy, types: ByColumn[str], roles: Mapping[str, Role]) -> None:
    """Raise if a source column has the name of a column that the release adds."""
    beside = {CLASS: types, RECORDS: [name for name in types if roles.get(fold(name)) is Role.SENSITIVE]}
    for name in {"table": (), "swap": (CLASS,), "anatomy": (CLASS, RECORDS)}[policy.release]:
        if fold(name) in {fold(other) for other in beside[name]}:
            raise PolicyError(
                f"release = {policy.release!r} adds a column {name!r}, which the source has: "
                "rename it with AS"
            )


def subject_of(policy: Policy, columns: Sequence[tuple[str, str]]) -> list[str]:
    """Columns that identify the person of a record, as the source spells them."""
    return _as_spelled("subject", policy.subject, _types(columns))


def bind_audit(policy: AuditPolicy, columns: Sequence[tuple[str, str]]) -> tuple[Attribute, ...]:
    """Attributes of the audited columns: quasi-identifiers of any type, then sensitive columns."""
    # A PolicyError if a column does not exist or stands twice.
    types = _types(columns)
    quasi = _as_spelled("quasi_identifiers", policy.quasi_identifiers, types)
    sensitive = _as_spelled("sensitive", policy.sensitive, types)
    return (
        *(Attribute(name, Role.QUASI_IDENTIFIER, types[name], kind_of(types[name])) for name in quasi),
        *(_sensitive(policy, name, types[name]) for name in sensitive),
    )


def _types(columns: Sequence[tuple[str, str]]) -> ByColumn[str]:
    """Return types by column; raise if two columns have one name."""
    again = twice(name for name, _ in columns)
    if again is not None:
        raise PolicyError(f"the source has column {again!r} twice: rename one with AS")
    return ByColumn(dict(columns))


def _as_spelled(option: str, columns: Iterable[str], types: ByColumn[str]) -> list[str]:
    """Return columns as the source spells them."""
    spelled = {fold(name): name for name in types}
    for name in columns:
        if fold(name) not in spelled:
            hint = _parted(name, [*types]) or suggestion(name, types)
            raise PolicyError(
                f"{option} names {name!r}, which the source does not have{hint or ':'} "
                f"{columns_listed(types)}"
            )
    return [spelled[fold(name)] for name in columns]


def _parted(name: str, columns: Sequence[str]) -> str:
    """Hint that an unknown name is a part of a column name with a comma, which was written without quotes."""
    # For a table of one column, `columns_listed` says that the file was read with a wrong delimiter.
    for column in columns if len(columns) > 1 else ():
        if fold(name) in (fold(part.strip()) for part in column.split(",")):
            return f"; {column!r} is one name in double quotes."
    parts = _BETWEEN_NAMES.split(name.strip("[](){} "))
    if len(parts) > 1 and {fold(part) for part in parts} <= {fold(column) for column in columns}:
        return f"; it is {len(parts)} columns in one text: write a list."
    return ""


def _attribute(policy: Policy, name: str, role: Role, type_text: str) -> Attribute:
    if role is Role.QUASI_IDENTIFIER:
        return _quasi(policy, name, type_text)
    if "ENUM(" in type_text and kind_of(type_text) != "text" and role is not Role.IDENTIFIER:
        raise PolicyError(
            f"column {name!r} holds an ENUM inside {_short(type_text)}: its type would release values that "
            "no record has; CAST the column, or its elements, to VARCHAR"
        )
    if role is not Role.IDENTIFIER and _ARRAY_IN_TUPLE.search(_QUOTED.sub("", type_text)):
        raise PolicyError(
            f"column {name!r} has type {_short(type_text)}: DuckDB 2.0 crashes when it groups a TUPLE that "
            "holds an array; CAST it to a STRUCT, or the array to a list"
        )
    if role is not Role.IDENTIFIER and _variant_in_union(_QUOTED.sub("", type_text)):
        raise PolicyError(
            f"column {name!r} has type {_short(type_text)}: DuckDB 2.0 reads memory that nobody wrote where "
            "a UNION holds a VARIANT; CAST it to VARCHAR"
        )
    if role is not Role.SENSITIVE:
        return Attribute(name, role, type_text, kind_of(type_text))
    return _sensitive(policy.audited(), name, type_text)


def _variant_in_union(type_text: str) -> bool:
    """Tell whether a VARIANT is inside the parentheses of a UNION; quoted names are removed first."""
    for union in _UNION.finditer(type_text):
        depth, inside = 1, union.end()
        for end in range(inside, len(type_text)):
            depth += {"(": 1, ")": -1}.get(type_text[end], 0)
            if depth == 0:
                break
        if re.search(r"\bVARIANT\b", type_text[inside:end]):
            return True
    return False


def _quasi(policy: Policy, name: str, type_text: str) -> Attribute:
    kind = kind_of(type_text)
    if kind == "other" or type_text in _INSTEAD:
        use = _INSTEAD.get(type_text.partition("(")[0], "CAST it to VARCHAR")
        use = (
            "its elements as columns of their own, or CAST it to VARCHAR" if type_text.endswith("]") else use
        )
        raise PolicyError(
            f"quasi-identifier {name!r} has type {_short(type_text)}, which cannot be recoded: "
            f"{use if use.startswith('CAST') else f'use {use}'}"
        )
    recode = _recode(policy, name, kind)
    order = _declared(policy.order, name, type_text)
    if order is None and rule_of(recode).ranks:
        order = enum_values(type_text)
    if kind not in rule_of(recode).kinds and not (order and rule_of(recode).ranks):
        able = " or ".join(
            repr(rule.name)
            for rule in RULES.values()
            if (kind in rule.kinds or (order and rule.ranks))
            and (rule.name != "hierarchy" or name in policy.hierarchies)
        )
        raise PolicyError(
            f"recode of {name!r} cannot be {recode!r}, which is for numbers, dates and timestamps: "
            f"use {able} for {_short(type_text)}"
        )
    digits = _digits(policy, name, type_text, recode)
    hierarchy = policy.hierarchies.get(name)
    if hierarchy is not None and rule_of(recode).kinds == NUMBERS:
        raise PolicyError(
            f"hierarchies of {name!r} is of no use where it is recoded by {recode!r}: "
            f"add recode = {{{name}: 'hierarchy'}}, or leave it out"
        )
    return Attribute(
        name,
        Role.QUASI_IDENTIFIER,
        type_text,
        kind,
        recode=recode,
        weight=policy.weights.get(name, 1.0),
        order=order,
        digits=digits,
        hierarchy=hierarchy,
    )


def _digits(policy: Policy, name: str, type_text: str, recode: Recode | AsItIs) -> int | None:
    """Return the digits asked for the means of a column; raise if the column is named and has no mean."""
    kind = kind_of(type_text)
    rounded = rule_of(recode).rounds and kind in {"integer", "decimal", "float"}
    if isinstance(policy.digits, Mapping) and name in policy.digits and not rounded:
        what = f"{kind}s are" if kind in NUMBERS - {"integer", "decimal", "float"} else f"{recode!r} is"
        raise PolicyError(
            f"digits names {name!r}, and {what} not rounded to digits: it is for numbers recoded by 'mean' "
            "or 'median'; leave it out"
        )
    digits = _of(policy.digits, name) if rounded else None
    scale = int(type_text.rstrip(")").rpartition(",")[2]) if kind == "decimal" else 0
    if digits is not None and scale - digits > _LARGEST_STEP:
        raise PolicyError(
            f"digits = {digits} of {name!r}, which is {type_text}: no exact mean is rounded by more than "
            f"{_LARGEST_STEP} digits; CAST it to DOUBLE in the source query"
        )
    return digits


def _recode(policy: Policy, name: str, kind: Kind) -> Recode | AsItIs:
    """Return how a quasi-identifier is recoded."""
    if policy.release != "table":
        return policy.release
    if by_label(policy, name):
        return "hierarchy"
    if policy.method == "full_domain":
        # Within a class, a column without a hierarchy has one value.
        return "mode"
    return policy.recode.get(name, "median" if name in policy.order else default_rule(kind, name))


def by_label(policy: Policy, name: str) -> bool:
    """Whether a quasi-identifier is released as labels of its hierarchy."""
    if policy.method == "full_domain":
        return name in policy.hierarchies
    return policy.recode.get(name) == "hierarchy"


def _sensitive(policy: AuditPolicy, name: str, type_text: str) -> Attribute:
    kind = kind_of(type_text)
    order = _declared(policy.order, name, type_text)
    default: Distance = "ordered" if order or kind in NUMBERS or type_text == "BIGNUM" else "equal"
    distance = policy.distance.get(name, default)
    alpha = policy.alpha.get(name) if isinstance(policy.alpha, Mapping) else policy.alpha
    if isinstance(alpha, Mapping) and "TIMESTAMP WITH TIME ZONE" in type_text:
        raise PolicyError(
            f"alpha names values of {name!r}, whose text depends on the time zone of who reads it: "
            "CAST it to TIMESTAMP or VARCHAR in the query, or give one alpha"
        )
    return Attribute(
        name,
        Role.SENSITIVE,
        type_text,
        kind,
        distance=distance,
        order=order or (enum_values(type_text) if distance == "ordered" else None),
        hierarchy=policy.hierarchies.get(name),
        t=_of(policy.t, name),
        l=_of(policy.l, name),
        alpha=None if isinstance(alpha, Mapping) else alpha,
        alpha_of=tuple(alpha.items()) if isinstance(alpha, Mapping) else (),
        delta=_of(policy.delta, name),
        beta=_of(policy.beta, name),
        enhanced_beta=_of(policy.enhanced_beta, name),
    )


def joint_thresholds(policy: Asking, attributes: Sequence[Attribute]) -> tuple[JointThreshold, ...]:
    """Thresholds of several columns together, bound to the columns of the source; names are in order."""
    bound = ByColumn({attribute.name: attribute for attribute in attributes})
    found = []
    for columns, t in (policy.joint_t or {}).items():
        if isinstance(columns, tuple):
            parts = sorted((bound[column] for column in columns), key=lambda one: one.name)
            found.append(
                JointThreshold(
                    tuple(one.name for one in parts),
                    tuple(one.distance == "ordered" for one in parts),
                    tuple(one.order for one in parts),
                    policy.joint_distance == "maximum",
                    t,
                )
            )
    return tuple(sorted(found, key=lambda one: one.columns))


def _declared(orders: ByColumn[tuple[str, ...]], name: str, type_text: str) -> tuple[str, ...] | None:
    """Return the order of a column that the policy declares; raise if the column is no text."""
    if name in orders and type_text != "VARCHAR" and enum_values(type_text) is None:
        raise PolicyError(
            f"order names {name!r}, which is {_short(type_text)}: an order is of text or of an ENUM; leave "
            "it out, or CAST the column to VARCHAR in the query"
        )
    return orders.get(name)


def _of(value: V | ByColumn[V] | None, name: str) -> V | None:
    """Return the value of one column, from a value by column or from one value for all columns."""
    return value.get(name) if isinstance(value, Mapping) else value


def _short(type_text: str) -> str:
    return shortened(type_text, 40)
