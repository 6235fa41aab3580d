"""Names of columns and options as DuckDB compares them: without regard to the case of ASCII letters."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

V = TypeVar("V")

DELIMITERS = (",", ";", "|", "\t")
"""What parts the columns of a text file as a rule."""

_NAMES_LISTED, _NAME_MAX_CHARACTERS = 20, 100
"""Names in a list that ends an error, and characters of a name in it, or of one that is near another."""

_TO_LOWER_CASE = str.maketrans(ascii_uppercase, ascii_lowercase)


CLASS = "class_id"
"""The column of the class in a release whose quasi-identifiers do not tell it."""

RECORDS = "records"
"""The column of the second table of ``release = 'anatomy'`` that counts them."""


def fold(name: str) -> str:
    """Form in which names are equal if DuckDB takes them for one: ASCII letters in lower case.

    >>> fold("ÄGE"), fold("Zip")
    ('Äge', 'zip')
    """
    return name.translate(_TO_LOWER_CASE)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Question to end an error about an unknown name with; nothing where no known name is near.

    >>> suggestion("quasi_identifier", ["k", "quasi_identifiers"])
    ", did you mean 'quasi_identifiers'?"
    """
    if len(name) > _NAME_MAX_CHARACTERS:
        # To compare two names takes the product of their lengths.
        return ""
    spelled = {fold(other): other for other in known if len(other) <= _NAME_MAX_CHARACTERS}
    near = get_close_matches(fold(name), spelled, n=1)
    return f", did you mean {spelled[near[0]]!r}?" if near else ""


def unknown_option(name: str, known: Sequence[str]) -> str:
    """Error text for an option that does not exist: one line, with the nearest, if one is near, and all."""
    return f"unknown option {name!r}{suggestion(name, known) or ';'} Options: {', '.join(known)}"


def columns_listed(names: Iterable[str]) -> str:
    """Names of columns, `listed` to end an error with; of one that looks like several, what it may mean.

    >>> columns_listed(["age", "zip"])
    "Columns: 'age', 'zip'"
    """
    known = list(names)
    several = len(known) == 1 and any(sign in known[0] for sign in DELIMITERS)
    hint = " (one column: the delimiter of the file may not have been recognised)" if several else ""
    return listed("Columns", known) + hint


def listed(what: str, names: Iterable[str]) -> str:
    """At most twenty names to end an error with, in quotes, so that one with a comma in it is seen as one.

    >>> listed("Columns", ["age,zip", "charge"])
    "Columns: 'age,zip', 'charge'"
    """
    shown = [
        repr(name if len(name) <= _NAME_MAX_CHARACTERS else f"{name[:_NAME_MAX_CHARACTERS]}...")
        for name in names
    ]
    return f"{what}: {', '.join(shown[:_NAMES_LISTED])}{', ...' if len(shown) > _NAMES_LISTED else ''}"


def twice(names: Iterable[str]) -> str | None:
    """First name that another column of the table has before it; None where there is none.

    DuckDB renames such a column without a word, so a policy would speak of the first one only.

    >>> twice(["zip", "age", "ZIP"]), twice(["zip", "age"])
    ('ZIP', None)
    """
    seen: set[str] = set()
    for name in names:
        if fold(name) in seen:
            return name
        seen.add(fold(name))
    return None


class ByColumn(Mapping[str, V]):
    """Read-only values by column name, found in any spelling of its case and kept as written.

    A plain dict would miss a column that the source spells in another case. The standard Mapping supplies
    ``get``, ``items``, ``in`` and equality.

    >>> ByColumn({"Charge": 1})["charge"]
    1
    """

    __slots__ = ("_spelled",)

    def __init__(self, values: Mapping[str, V] | None = None) -> None:
        self._spelled = {fold(name): (name, value) for name, value in (values or {}).items()}

    def __getitem__(self, name: str) -> V:
        return self._spelled[fold(name)][1]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._spelled.values())

    def __len__(self) -> int:
        return len(self._spelled)

    def __hash__(self) -> int:
        return hash(frozenset(self._spelled))

    def __repr__(self) -> str:
        return repr(dict(self))
