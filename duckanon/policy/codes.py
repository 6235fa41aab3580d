"""Names of columns whose whole numbers are codes, not quantities: a mean of codes has no meaning.

A release takes the mode of a column that is surely a code, and warns about a column that may be one.
`duckanon suggest` proposes the mode for both.
"""

from __future__ import annotations

import re
from typing import Literal

_WORD = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CODE_NAMES = re.compile(
    r"_(?:code|type|kind|category|status|flag|zips?|plz|post_?code|postal_?code|codigo_postal|code_postal|icd)_$"
)
_DOUBTFUL_CODE_NAMES = re.compile(r"_(?:class|group|level)_$")


def words(name: str) -> str:
    """Words of a name in lower case, each between underscores: ``_date_of_birth_`` from ``dateOfBirth``."""
    parts = [word for part in _WORD.findall(name) for word in _CAMEL.split(part)]
    return f"_{'_'.join(parts).lower()}_"


def code_named(name: str) -> Literal["sure", "perhaps"] | None:
    """Whether a name is that of a code; "perhaps" for a level, whose numbers may have an order.

    >>> code_named("zip"), code_named("planType"), code_named("income_level"), code_named("age")
    ('sure', 'sure', 'perhaps', None)
    """
    text = words(name)
    return "sure" if _CODE_NAMES.search(text) else "perhaps" if _DOUBTFUL_CODE_NAMES.search(text) else None
