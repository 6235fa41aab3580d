"""Names of columns and options as DuckDB compares them: the case of ASCII letters does not count."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from difflib import get_close_matches
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

K = TypeVar("K")
V = TypeVar("V")

DELIMITERS = (",", ";", "|", "\t")
"""Usual delimiters of text files."""

_NAMES_LISTED, _NAME_MAX_CHARACTERS = 20, 100
"""Largest number of names in the list at the end of an error, and of characters of a name that it shows."""

_TO_LOWER_CASE = str.maketrans(ascii_uppercase, ascii_lowercase)


CLASS = "class_id"
"""Column with the number of the class, in a release whose quasi-identifiers are not recoded."""

RECORDS = "records"
"""Column with the number of records in the second table of ``release = 'anatomy'``."""


def fold(name: str) -> str:
    """Form in which two names are equal if DuckDB takes them for one: ASCII letters in lower case.

    >>> fold("ÄGE"), fold("Zip")
    ('Äge', 'zip')
    """
    return name.translate(_TO_LOWER_CASE)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Question with the nearest known name, for the end of an error; empty if no known name is near.

    >>> suggestion("quasi_identifier", ["k", "quasi_identifiers"])
    ", did you mean 'quasi_identifiers'?"
    """
    if len(name) > _NAME_MAX_CHARACTERS:
        # Comparing two names costs the product of their lengths.
        return ""
    spelled = {fold(other): other for other in known if len(other) <= _NAME_MAX_CHARACTERS}
    near = get_close_matches(fold(name), spelled, n=1)
    return f", did you mean {spelled[near[0]]!r}?" if near else ""


def unknown_option(name: str, known: Sequence[str]) -> str:
    """Error text in one line for an unknown option: the nearest name, if one is near, and all known names."""
    # The command line has a short name for it.
    near = suggestion("quasi_identifiers" if name == "qi" else name, known)
    return f"unknown option {name!r}{near or ';'} Options: {', '.join(known)}"


def columns_listed(names: Iterable[str]) -> str:
    """Column names for the end of an error; one name that contains a delimiter gets a hint to the delimiter.

    >>> columns_listed(["age", "zip"])
    "Columns: 'age', 'zip'"
    """
    known = list(names)
    several = len(known) == 1 and any(sign in known[0] for sign in DELIMITERS)
    hint = " (one column: the delimiter of the file may not have been recognised)" if several else ""
    return listed("Columns", known) + hint


def listed(what: str, names: Iterable[str]) -> str:
    """At most twenty names in quotes, for the end of an error; quotes show a name with a comma as one name.

    >>> listed("Columns", ["age,zip", "charge"])
    "Columns: 'age,zip', 'charge'"
    """
    shown = [
        repr(name if len(name) <= _NAME_MAX_CHARACTERS else f"{name[:_NAME_MAX_CHARACTERS]}...")
        for name in names
    ]
    return f"{what}: {', '.join(shown[:_NAMES_LISTED])}{', ...' if len(shown) > _NAMES_LISTED else ''}"


def shortened(text: str, most: int) -> str:
    """Text of at most so many characters, the last three of which are dots if it was longer."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def twice(names: Iterable[str]) -> str | None:
    """First name that an earlier column of the table has too; None if all names differ.

    >>> twice(["zip", "age", "ZIP"]), twice(["zip", "age"])
    ('ZIP', None)
    """
    # DuckDB silently renames the second column, and a policy would then name the first column only.
    seen: set[str] = set()
    for name in names:
        if fold(name) in seen:
            return name
        seen.add(fold(name))
    return None


class ByKey(Mapping[K, V]):
    """Read-only values by key: keys with one folded form are one key, which is kept as written."""

    __slots__ = ("_spelled",)

    @staticmethod
    @abstractmethod
    def folded(key: Any) -> Any:
        """Form in which two keys are equal if they mean the same."""

    def __init__(self, values: Mapping[Any, V] | None = None) -> None:
        self._spelled = {self.folded(key): (key, value) for key, value in (values or {}).items()}

    def __getitem__(self, key: K) -> V:
        return self._spelled[self.folded(key)][1]

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self._spelled.values())

    def __len__(self) -> int:
        return len(self._spelled)

    def __hash__(self) -> int:
        return hash(frozenset(self._spelled))

    def __repr__(self) -> str:
        return repr(dict(self))


class ByColumn(ByKey[str, V]):
    """Read-only values by column name: any case of ASCII letters finds a name, which is kept as written.

    >>> ByColumn({"Charge": 1})["charge"]
    1
    """

    __slots__ = ()

    @staticmethod
    def folded(key: str) -> str:
        """Name without the case of ASCII letters."""
        return fold(key)
