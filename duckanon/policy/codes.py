"""Codes: columns of whole numbers whose digits are no quantity, by their names; a mean of them says nothing.

A release takes the mode of a column that is sure to be one, and tells of one that may be; `duckanon suggest`
proposes the mode of both.
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
    """Words of a name in lower case, each between underscores: ``_date_of_birth_`` of ``dateOfBirth``."""
    parts = [word for part in _WORD.findall(name) for word in _CAMEL.split(part)]
    return f"_{'_'.join(parts).lower()}_"


def code_named(name: str) -> Literal["sure", "perhaps"] | None:
    """Whether a name is that of a code, whose digits are no quantity; those of a level may have an order.

    >>> code_named("zip"), code_named("planType"), code_named("income_level"), code_named("age")
    ('sure', 'sure', 'perhaps', None)
    """
    text = words(name)
    return "sure" if _CODE_NAMES.search(text) else "perhaps" if _DOUBTFUL_CODE_NAMES.search(text) else None
