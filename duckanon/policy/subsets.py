"""Several columns as one key of an option, and the k of subsets of the quasi-identifiers.

A key is a tuple of columns: ``(age, sex)`` in SQL, ``("age", "sex")`` in Python, ``"(age, sex)"`` where only
text can be a key (TOML, JSON, the command line). In the options `k` and `k_subsets` a number as a key means
all subsets of so many quasi-identifiers.

Every combination of values of a subset is a union of combinations of a larger subset. So if all subsets of m
quasi-identifiers keep k, all smaller subsets keep k, too: "exactly m" and "at most m" columns are one
condition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any, TypeVar

from duckanon.errors import InfeasibleError, PolicyError
from duckanon.policy.names import ByKey, fold, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Subset = int | tuple[str, ...]
"""Columns by name; a number is every subset of so many quasi-identifiers."""

WHOLE_KEY = "*"
"""Key of the k of all quasi-identifiers together, beside the k of subsets."""

SUBSETS_MAX = 500
"""Largest number of subsets of one policy; all pairs of 32 quasi-identifiers are 496."""

SUBSET_COLUMNS_MAX = 62
"""Largest number of different columns in all subsets: the audit numbers the subsets by 64-bit integers."""

V = TypeVar("V")

_NAME = re.compile(r'\s*("(?:[^"]|"")*"|[^\s,"()](?:[^,"()]*[^\s,"()])?)\s*(?:,|\Z)')
_PLAIN_NAME = re.compile(r'[^\s,"()](?:[^,"()]*[^\s,"()])?')


@dataclass(frozen=True)
class SubsetThreshold:
    """Columns of which every combination of released values needs k records, or subjects."""

    columns: tuple[str, ...]
    k: int | None  # None: reported, not judged

    @property
    def name(self) -> str:
        """Columns in alphabetical order, as reports name the subset: ``age, sex``."""
        return listed(sorted(self.columns))


def folded(key: str | Subset) -> str | Subset:
    """Form in which two keys are equal if they mean the same columns, in any order and case.

    >>> folded(("Sex", "age")) == folded(("age", "sex")), folded(("ZIP",)), folded("ZIP")
    (True, 'zip', 'zip')
    """
    if isinstance(key, tuple):
        names = sorted(fold(name) for name in key)
        return names[0] if len(names) == 1 and names != [WHOLE_KEY] else tuple(names)
    return fold(key) if isinstance(key, str) else key


class BySubset(ByKey[Subset, V]):
    """Read-only values by subset; neither the order of columns nor the case of ASCII letters counts.

    >>> BySubset({("Age", "sex"): 10})["sex", "age"]
    10
    """

    __slots__ = ()

    @staticmethod
    def folded(key: str | Subset) -> str | Subset:
        """Form of a key in which the order of columns does not count."""
        return folded(key)


def key_columns(key: object) -> tuple[str, ...] | None:
    """Columns of a key of several columns: a tuple, or text in parentheses; None for any other key.

    >>> key_columns('(age, "last, first")'), key_columns(("age", "sex")), key_columns("age")
    (('age', 'last, first'), ('age', 'sex'), None)
    """
    if isinstance(key, tuple | list):
        return tuple(key)
    if not isinstance(key, str) or not (key.startswith("(") and key.endswith(")")):
        return None
    columns, at, inside = [], 0, key[1:-1].strip()
    while at < len(inside):
        found = _NAME.match(inside, at)
        if found is None:
            raise PolicyError(f"{key!r} is no list of columns: write (age, sex), with quotes as in SQL")
        text = found[1]
        columns.append(text[1:-1].replace('""', '"') if text.startswith('"') else text)
        at = found.end()
    return tuple(columns)


def key_text(columns: Iterable[str]) -> str:
    """Text of a key of several columns, which `key_columns` reads.

    >>> key_text(("age", "last, first"))
    '(age, "last, first")'
    """
    return "(" + listed(columns) + ")"


def listed(columns: Iterable[str]) -> str:
    """Names between commas, in double quotes where a name is not plain."""
    return ", ".join(
        name if _PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in columns
    )


def subset_of(option: str, key: object) -> Subset | str:
    """Subset that a key of `option` means; `WHOLE_KEY` stays text. PolicyError for an empty or wrong key."""
    if key == WHOLE_KEY:
        return WHOLE_KEY
    if isinstance(key, str) and key.isascii() and key.isdigit():
        key = int(key[:9])
    if isinstance(key, int) and not isinstance(key, bool):
        if key < 1:
            raise PolicyError(f"{option} has subsets of {key} columns: use a size of at least 1")
        return key
    columns = key_columns(key)
    columns = (key,) if columns is None and isinstance(key, str) and key else columns
    if columns is None or not all(isinstance(name, str) and name for name in columns):
        raise PolicyError(f"{option} takes names of columns or a number of columns as a key, not {key!r}")
    if not columns:
        raise PolicyError(f"{option} has a subset without a column: name at least one")
    seen: set[str] = set()
    for name in columns:
        if fold(name) in seen:
            raise PolicyError(f"{option} names column {name!r} twice in {key_text(columns)}: leave one out")
        seen.add(fold(name))
    return columns


def by_subset(
    option: str,
    value: Mapping[Any, Any],
    whole: Callable[[str, Any], int],
    part: Callable[[str, Any], int],
) -> BySubset[int]:
    """The k by subset that a policy keeps; `whole` and `part` check the k of the whole and of subsets."""
    if not value:
        raise PolicyError(f"{option} = {{}} names no subset: write {option} = {{(age, sex): 10}}")
    found: dict[Any, int] = {}
    seen = set()
    for key, threshold in value.items():
        subset = subset_of(option, key)
        name = key_text(subset) if isinstance(subset, tuple) else subset
        if folded(subset) in seen:
            raise PolicyError(f"{option} has {name} twice: leave one out")
        seen.add(folded(subset))
        check = whole if subset == WHOLE_KEY else part
        found[subset] = check(f"{option} of {name}", threshold)
    return BySubset(found)


def united(
    given: int | Mapping[Subset, int] | None, named: Mapping[Subset, int], k: int | None
) -> BySubset[int] | int | None:
    """The option `k_subsets` with the subsets that the option `k` names beside the whole."""
    if given is None:
        return BySubset(named) if named else None
    if not named:
        return given if isinstance(given, int) else BySubset(given)
    if isinstance(given, int):
        if k is None:
            raise PolicyError(f"k_subsets = {given} has no k: write k_subsets = {{{given}: 50}}")
        given = {given: k}
    known = {folded(subset) for subset in given}
    for subset in named:
        if folded(subset) in known:
            what = subset if isinstance(subset, int) else key_text(subset)
            raise PolicyError(f"k and k_subsets both have {what}: leave one out")
    return BySubset({**named, **given})


def check_subsets(given: int | Mapping[Subset, int] | None, quasi: Sequence[str]) -> None:
    """Raise unless every subset is of quasi-identifiers, and the subsets are not too many to audit."""
    if given is None:
        return
    known, total, columns = {fold(name) for name in quasi}, 0, set()
    for subset in (given,) if isinstance(given, int) else given:
        if isinstance(subset, int):
            if subset > len(quasi):
                raise PolicyError(
                    f"k_subsets has subsets of {subset} columns, and quasi_identifiers names {len(quasi)}: "
                    f"use {len(quasi)} at most"
                )
            total += comb(len(quasi), subset)
            columns |= known
            continue
        for name in subset:
            if fold(name) not in known:
                hint = suggestion(name, quasi) or ": add it to quasi_identifiers"
                raise PolicyError(
                    f"k of {key_text(subset)} names {name!r}, which is not in quasi_identifiers{hint}"
                )
        total += 1
        columns |= {fold(name) for name in subset}
    if total > SUBSETS_MAX:
        raise PolicyError(
            f"k_subsets asks for {total:,} subsets of {len(quasi)} quasi-identifiers: use a smaller size, or "
            f"name subsets, {SUBSETS_MAX} at most"
        )
    if len(columns) > SUBSET_COLUMNS_MAX:
        raise PolicyError(
            f"k of subsets is for {SUBSET_COLUMNS_MAX} columns at most, and its subsets name {len(columns)}"
        )


def check_whole(k: int | None, given: int | Mapping[Subset, int] | None, release: str) -> None:
    """Raise unless a release has a k of the whole, and subsets only where classes release one value."""
    if k is None:
        raise PolicyError(
            "k has no * for all quasi-identifiers together: add it, as in k = {*: 5, (age, sex): 10}"
        )
    if given is not None and release != "table":
        raise PolicyError(
            f"k_subsets counts equal released values and release = {release!r} releases values as they are: "
            "leave it out"
        )


def subset_thresholds(
    given: int | Mapping[Subset, int] | None, quasi: Sequence[str], k: int | None
) -> tuple[SubsetThreshold, ...]:
    """Every subset of a checked option once, with its largest k, in the order written, named as `quasi`."""
    found: dict[tuple[str, ...], int | None] = {}
    for subset, threshold in ({given: k} if isinstance(given, int) else given or {}).items():
        names = {} if isinstance(subset, int) else {fold(name) for name in subset}
        chosen: Any = (
            combinations(quasi, subset)
            if isinstance(subset, int)
            else [tuple(name for name in quasi if fold(name) in names)]
        )
        for columns in chosen:
            before = found.get(columns)
            found[columns] = threshold if before is None else max(before, threshold or before)
    return tuple(SubsetThreshold(columns, threshold) for columns, threshold in found.items())


def binding(given: int | Mapping[Subset, int] | None, quasi: Sequence[str], k: int) -> list[SubsetThreshold]:
    """Subsets whose k is above that of every class; all others are kept by every release."""
    return [one for one in subset_thresholds(given, quasi, k) if one.k is not None and one.k > k]


def out_of_reach(one: SubsetThreshold, most: int, what: str) -> InfeasibleError:
    """Return the error of a k of a subset above the records, or subjects, of a release."""
    return InfeasibleError(
        f"k = {one.k} of ({one.name}) is out of reach: there are {most} {what} to release; ask for "
        f"{most} at most",
        float(most),
    )
