"""Names and values of users without invisible characters and terminal control."""

from __future__ import annotations

import re

_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufff9-\ufffb\ufffe\uffff"
# Default_Ignorable_Code_Point in DerivedCoreProperties.txt of Unicode: characters that a font may show as
# nothing. These are blanks and joiners without width, marks of direction, fillers, variation selectors and
# tags.
_IGNORABLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSEEN = re.compile(f"[{_CONTROLS}{_IGNORABLE}]")


_UNSEEN_IN_LINES = re.compile(f"(?![\n\t])[{_CONTROLS}{_IGNORABLE}]")


def legible(text: str) -> str:
    """Name or value without invisible characters, line breaks and changes of text direction.

    Such characters are written as Python escapes, including the joiners of some scripts.
    """
    return _UNSEEN.sub(_escaped, text)


def legible_lines(text: str) -> str:
    """Legible lines of a document; tabs stay."""
    return _UNSEEN_IN_LINES.sub(_escaped, text)


def _escaped(character: re.Match[str]) -> str:
    return character[0].encode("unicode_escape").decode("ascii")
