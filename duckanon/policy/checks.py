"""Checks of single options: return a value from a user in the one form that a policy keeps, or raise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from operator import index
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from duckanon.errors import PolicyError
from duckanon.policy.hierarchy_rows import check_rows, hierarchy_cell, rows_of_frame
from duckanon.policy.joint import JointDistanceWord, t_of
from duckanon.policy.kinds import RULES
from duckanon.policy.methods import ALIASES, METHODS
from duckanon.policy.names import ByColumn, fold, shortened, suggestion
from duckanon.policy.subsets import WHOLE_KEY, BySubset, by_subset

if TYPE_CHECKING:
    from collections.abc import Callable

Distance = Literal["ordered", "equal", "hierarchical"]
LDiversity = Literal["distinct", "entropy", "recursive"]
Nulls = Literal["category", "suppress", "error"]
Effort = Literal["fast", "balanced", "best"]
Objective = Literal["loss", "discernibility", "c_avg", "precision"]
Release = Literal["table", "anatomy", "swap"]
Intersection = Literal["error", "warn"]
Mode = Literal["full", "append"]
"""Modes of REFRESH: all classes are made again, or new records get new classes beside the published ones."""

Formulas = Literal["keep", "escape"]
"""How EXPORT treats CSV cells that a spreadsheet reads as formulas."""

Number = int | float | str | Decimal
"""Type of a number from a user. A float counts as its shortest decimal text."""

Columns = str | Iterable[str]
"""Type of an option that names one column or several."""

Hierarchy = str | tuple[tuple[str, ...], ...]
"""Name of a table or file, or its rows: a leaf, then its labels up to the root."""

Levels = int | tuple[int, int]
"""A level of a hierarchy, 0 for the values, or the lowest and the highest of several."""

STEP = Decimal("1e-12")
"""Smallest difference in t and c that the audits distinguish: they compare DECIMAL(18, 12)."""

SHARE_OPTIONS = ("alpha", "delta", "beta", "enhanced_beta")
"""Options that bound the share of each sensitive value in a class."""

DELTA_MAX = 30
"""Largest delta: exp(30) is above the records of any table, so that a larger delta asks for no more."""

_DECIMAL = re.compile(r"Decimal\('([^']*)'\)")
_LIMIT = 18
_MAX_THRESHOLD = 999_999
"""Largest threshold that DECIMAL(18, 12), the type in the metadata, can hold."""

Alpha = Decimal | dict[str, Decimal]
"""Largest share of every value, or of the values that are named as text."""

V = TypeVar("V")


def checked(option: str, value: Any) -> Any:
    """Value of an option, by lower-case name, in the form that a `Policy` keeps; a PolicyError if wrong."""
    return _CHECKS[option](option, value)


def _columns(option: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and value == "*":
        raise PolicyError(f"{option} = * is not possible, only insensitive takes *: name the columns")
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise PolicyError(f"{option} takes a list of columns, not {value!r}: write {option} = (a, b)")
    columns = (value,) if isinstance(value, str) else tuple(value)
    seen: set[str] = set()
    for column in columns:
        _column(option, column)
        if fold(column) in seen:
            raise PolicyError(f"{option} names column {column!r} twice: leave one out")
        seen.add(fold(column))
    return columns


def _columns_or_rest(option: str, value: Any) -> tuple[str, ...] | Literal["*"]:
    return "*" if isinstance(value, str) and value == "*" else _columns(option, value)


def _column(option: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise PolicyError(f"{option} takes names of columns, not {value!r}")
    return value


def _file(option: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise PolicyError(f"{option} = {_shown(value)}: give the name of a file, as 'released.csv.json'")
    return value


def _mark(option: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise PolicyError(
            f"{option} = {_shown(value)}: use the text that stands for a suppressed value, as '*'"
        )
    return value


def _integer(option: str, value: Any) -> int:
    integer = _index(value)
    if integer is None:
        raise PolicyError(f"{option} = {_shown(value)}: use an integer")
    if abs(integer) >= 2**63:
        raise PolicyError(f"{option} is out of range: use an integer of at most 18 digits")
    return integer


def _at_least(least: int, why: str = "") -> Callable[[str, Any], int]:
    """Return the check of a threshold that is an integer."""

    def check(option: str, value: Any) -> int:
        threshold = _integer(option, value)
        if threshold < least:
            raise PolicyError(f"{option} = {threshold}: use an integer of at least {least}{why}")
        if threshold > _MAX_THRESHOLD:
            raise PolicyError(f"{option} = {threshold}: use an integer below a million")
        return threshold

    return check


_whole_k = _at_least(2, ", a class of one record hides nobody")


def _k(option: str, value: Any) -> int | BySubset[int]:
    """Return k, or k by subset of the quasi-identifiers, where * is the whole."""
    return (
        by_subset(option, value, _whole_k, _at_least(1))
        if isinstance(value, Mapping)
        else _whole_k(option, value)
    )


def _k_subsets(option: str, value: Any) -> int | BySubset[int]:
    """Return a number of columns, or k by subset."""
    if isinstance(value, Mapping):
        found = by_subset(option, value, _whole_k, _at_least(1))
        keys: list[object] = list(found)
        if WHOLE_KEY in keys:
            raise PolicyError("k_subsets has a k of *, which is the whole: write it as k = 5")
        return found
    size = _integer(option, value)
    if size < 1:
        raise PolicyError(f"{option} = {size}: use a number of columns of at least 1, or {{2: 50}}")
    return size


def _digits(option: str, value: Any) -> int:
    # A number from the command line may be a Decimal or a float.
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        value = int(value)
    digits = _integer(option, value)
    if abs(digits) > _LIMIT:
        raise PolicyError(
            f"{option} = {digits}: use an integer from -{_LIMIT} to {_LIMIT}, as in 2 for hundredths or -2 "
            "for hundreds"
        )
    return digits


def _number(option: str, value: Any) -> Decimal:
    number = decimal(value)
    if number is None:
        raise PolicyError(f"{option} = {_shown(value)}: use a number")
    if not number.is_finite() or abs(number.adjusted()) > _LIMIT:
        raise PolicyError(f"{option} = {_shown(value)}: the number is out of range")
    return number


def decimal(value: Any) -> Decimal | None:
    """Decimal of text or of a number of any library, a float by its shortest text; None if it is no number.

    >>> decimal("0.150"), decimal(0.15), decimal(1), decimal("much"), decimal(True)
    (Decimal('0.150'), Decimal('0.15'), Decimal('1'), None, None)
    """
    if isinstance(value, float):
        return Decimal(repr(float(value)))
    if isinstance(value, str):
        try:
            return Decimal(value)
        except InvalidOperation:
            return None
    integer = _index(value)
    return value if isinstance(value, Decimal) else None if integer is None else Decimal(integer)


def _index(value: Any) -> int | None:
    """Return an integer of any library; None for anything else, also for true and false."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def _stepped(number: Decimal, rounding: str = ROUND_FLOOR) -> Decimal:
    """Return a threshold with 12 decimals: cut off, the stricter side for all but the p % rule."""
    exponent = number.as_tuple().exponent
    return number.quantize(STEP, rounding) if isinstance(exponent, int) and exponent < -12 else number


def _positive(most: int) -> Callable[[str, Any], Decimal]:
    """Return the check of a threshold above 0 with 12 decimals."""

    def check(option: str, value: Any) -> Decimal:
        number = _number(option, value)
        threshold = _stepped(number)
        if not 0 < threshold <= most:
            decimals = ", twelve decimals count" if threshold == 0 < number else ""
            raise PolicyError(
                f"{option} = {_shown(value)}: use a number above 0 and at most {most}{decimals}"
            )
        return threshold

    return check


def _t(option: str, value: Any) -> Decimal | ByColumn[Decimal] | BySubset[Decimal] | None:
    """Return t of all columns, by column, or by one and several columns."""
    several = t_of(option, value, _positive(1)) if isinstance(value, Mapping) else None
    return _one_or_by_column(_positive(1))(option, value) if several is None else several


def _joint_t(option: str, value: Any) -> BySubset[Decimal] | None:
    """Return t by several columns."""
    several = t_of(option, value, _positive(1)) if isinstance(value, Mapping) else None
    if several is None and value is not None:
        raise PolicyError(f"{option} takes t by several columns: write t = {{(age, diagnosis): 0.3}}")
    return several


def _alpha(option: str, value: Any) -> Alpha:
    """Return a share of all values, or shares of named values, whose case counts."""
    if not isinstance(value, Mapping):
        return _positive(1)(option, value)
    if not value:
        raise PolicyError(f"{option} = {{}} names no value: give a number, or {{'HIV': 0.2}}")
    for name in value:
        if name is None:
            raise PolicyError(f"{option} cannot name NULL: give one number, which bounds every value")
        if not isinstance(name, str):
            raise PolicyError(f"{option} takes values as text, not {name!r}: write {{'{name}': 0.2}}")
    return {str(name): _positive(1)(f"{option} and {name!r}", share) for name, share in value.items()}


def _l(option: str, value: Any) -> Decimal:
    diversity = _number(option, value)
    if diversity < 1:
        raise PolicyError(f"{option} = {_shown(value)}: use a number of at least 1")
    return diversity


def _c(option: str, value: Any) -> Decimal:
    c = _stepped(_number(option, value))
    if c <= 0:
        raise PolicyError(f"{option} = {_shown(value)}: use a number above 0")
    return c


def _per_cent(option: str, value: Any) -> Decimal:
    number = _number(option, value)
    if not 0 < number <= _MAX_THRESHOLD:
        raise PolicyError(f"{option} = {_shown(value)}: use per cent, above 0 and below a million, as in 10")
    # Rounded up to the decimals that metadata keep: a larger p is stricter.
    return _stepped(number, ROUND_CEILING)


def _above_zero(advice: str) -> Callable[[str, Any], float]:
    """Return the check of a number above 0; its error ends in `advice`."""

    def check(option: str, value: Any) -> float:
        number = float(_number(option, value))
        if number <= 0:
            raise PolicyError(f"{option} = {_shown(value)}: use {advice}")
        return number

    return check


def _fraction(option: str, value: Any) -> float:
    number = float(_number(option, value))
    if number > 1:
        hint = f"{number:g} % is {number / 100:g}" if number <= 100 else "5 % is 0.05"
        raise PolicyError(f"{option} = {_shown(value)}: use a fraction of the records, not percent; {hint}")
    if number < 0:
        raise PolicyError(f"{option} = {_shown(value)}: use a fraction of the records, 0 to 1")
    return number


def _boolean(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise PolicyError(f"{option} = {_shown(value)}: use true or false")
    return value


def _text(option: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise PolicyError(f"{option} = {_shown(value)}: use the name of a table")
    return value


def _word(known: tuple[str, ...]) -> Callable[[str, Any], str]:
    """Return the check of an option that is one of the known words."""

    def check(option: str, value: Any) -> str:
        word = fold(value) if isinstance(value, str) else ""
        if word not in known:
            hint = suggestion(word, known)
            raise PolicyError(f"{option} = {_shown(value)} is unknown{hint or ':'} Use {' | '.join(known)}")
        return word

    return check


def _method(option: str, value: Any) -> str:
    word = _word((*METHODS, *ALIASES))(option, value)
    return ALIASES.get(word, word)


def _levels(option: str, value: Any) -> Levels:
    """Return a level, or a range; the command line writes 2 and 1-3."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(-[0-9]{1,9})?", value):
        value = [int(level) for level in value.split("-")]
    levels = list(value) if isinstance(value, list | tuple) else [value]
    if len(levels) not in (1, 2):
        raise PolicyError(f"{option} has {len(levels)} numbers: use one level, or the lowest and the highest")
    checked = [_integer(option, level) for level in levels]
    low, high = checked[0], checked[-1]
    if low < 0:
        raise PolicyError(f"{option} = {low}: use a level of at least 0, which is the values as they are")
    if low > high:
        raise PolicyError(f"{option} = ({low}, {high}): the range is upside down, put the lower level first")
    return low if low == high else (low, high)


def _order(option: str, value: Any) -> tuple[str, ...]:
    """Return the values of a column in their order; the command line writes mild<moderate<severe."""
    values = [one.strip() for one in value.split("<")] if isinstance(value, str) else value
    if isinstance(values, Mapping | Set) or not isinstance(values, Iterable):
        raise PolicyError(f"{option} = {_shown(value)}: give the values from the least to the greatest")
    values = tuple(values)
    for one in values:
        if not isinstance(one, str):
            raise PolicyError(
                f"{option} holds {_shown(one)}: write each value as text, as in ('low', 'high')"
            )
        if values.count(one) > 1:
            raise PolicyError(f"{option} has the value {one!r} twice: leave one out")
    return values


def _recode(option: str, value: Any) -> str:
    return _word(tuple(RULES))(option, value)


def _hierarchy(option: str, value: Any) -> Hierarchy:
    """Return the name of a table or file, or rows: a leaf, then the labels up to the root."""
    if isinstance(value, str):
        return str(_text(option, value))
    if isinstance(value, Mapping):
        labels = {leaf: [one] if isinstance(one, str) else one for leaf, one in value.items()}
        if not all(isinstance(one, Iterable) for one in labels.values()):
            raise PolicyError(f"{option}: write for each leaf a list of labels up to the root")
        value = [(leaf, *above) for leaf, above in labels.items()]
    value = rows_of_frame(option, value)
    if not isinstance(value, Iterable) or not all(isinstance(row, list | tuple) for row in value):
        raise PolicyError(
            f"{option} = {_shown(value)}: give a table, a file, or a list of labels for each leaf"
        )
    rows = tuple(
        tuple(hierarchy_cell(option, cell, level) for level, cell in enumerate(row)) for row in value
    )
    check_rows(option, rows)
    return rows


def _optional(check: Callable[[str, Any], V]) -> Callable[[str, Any], V | None]:
    return lambda option, value: None if value is None else check(option, value)


def _by_column(check: Callable[[str, Any], V]) -> Callable[[str, Any], ByColumn[V]]:
    """Return the check of an option that has values by column."""

    def check_all(option: str, value: Any) -> ByColumn[V]:
        if value is None:
            return ByColumn()
        if not isinstance(value, Mapping):
            form = f"{option} = {{column: {_shown(value)}}}"
            raise PolicyError(f"{option} takes a value for each column: write {form}")
        columns = _columns(option, list(value))
        return ByColumn({column: check(f"{option} of {column!r}", value[column]) for column in columns})

    return check_all


def _one_or_by_column(check: Callable[[str, Any], V]) -> Callable[[str, Any], V | ByColumn[V] | None]:
    """Return the check of an option that has one value for all columns, or values by column."""

    def check_any(option: str, value: Any) -> V | ByColumn[V] | None:
        if not isinstance(value, Mapping):
            return None if value is None else check(option, value)
        if not value:
            raise PolicyError(f"{option} = {{}} names no column: give a number, or leave {option} out")
        return _by_column(check)(option, value)

    return check_any


def _shown(value: Any) -> str:
    """Return a value as SQL would write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**60:
        return "a huge integer"
    text = repr(value) if isinstance(value, str) else " ".join(str(value).split())
    text = text if isinstance(value, str) else _DECIMAL.sub(r"\1", text)
    return shortened(text, 60)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "quasi_identifiers": _columns,
    "k": _k,
    "k_subsets": _optional(_k_subsets),
    "sensitive": _columns,
    "identifiers": _columns,
    "insensitive": _columns_or_rest,
    "t": _t,
    "n": _optional(_at_least(1)),
    "l": _one_or_by_column(_l),
    "l_diversity": _word(get_args(LDiversity)),
    "c": _optional(_c),
    "alpha": _one_or_by_column(_alpha),
    "delta": _one_or_by_column(_positive(DELTA_MAX)),
    "beta": _one_or_by_column(_positive(_MAX_THRESHOLD)),
    "enhanced_beta": _one_or_by_column(_positive(_MAX_THRESHOLD)),
    "joint_t": _joint_t,
    "joint_distance": _word(get_args(JointDistanceWord)),
    "distance": _by_column(_word(get_args(Distance))),
    "order": _by_column(_order),
    "hierarchies": _by_column(_hierarchy),
    "method": _method,
    "objective": _word(get_args(Objective)),
    "levels": _by_column(_levels),
    "steering_weight": _optional(_above_zero("a number above 0, where a quasi-identifier has 1")),
    "release": _word(get_args(Release)),
    "recode": _by_column(_recode),
    "weights": _by_column(_above_zero("a number above 0, or another role for the column")),
    "subject": _columns,
    "on_intersection": _word(get_args(Intersection)),
    "p_percent": _optional(_per_cent),
    "min_values": _optional(_at_least(1)),
    "digits": _one_or_by_column(_digits),
    "suppression_limit": _fraction,
    "nulls": _word(get_args(Nulls)),
    "refine": _boolean,
    "effort": _word(get_args(Effort)),
    "time_limit": _optional(_above_zero("seconds, a number above 0, or leave it out")),
    "seed": _integer,
    "mode": _word(get_args(Mode)),
    "suppressed": _optional(_mark),
    "csv_formulas": _word(get_args(Formulas)),
    "overwrite": _boolean,
    "evidence": _file,
}
