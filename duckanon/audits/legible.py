"""Names, values and numbers for readers: legible, without invisible characters and terminal control."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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


MISSING = "missing"
"""Text for NULL, and among numbers for NaN and infinity."""

DAY_SECONDS = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number(value: object) -> str:
    """Number for a table: thousands separated, four significant digits unless it is an integer.

    An en dash for None and NaN; any other value as its text.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return "–" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    size = float(value)
    if math.isnan(size):
        return "–"
    if math.isinf(size):
        return "∞" if size > 0 else "−∞"
    if size == 0 or abs(size) >= 1e15 or abs(size) < 1e-6:
        return f"{size:.4g}" if size else "0"
    digits = max(0, 3 - math.floor(math.log10(abs(size))))
    text = f"{size:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: float | None) -> str:
    """Share of 1 in per cent, with at most two decimals.

    Only 0 is shown as zero per cent, and only 1 as all.
    """
    if value is None or math.isnan(value):
        return "–"
    if 0 < value < 0.0001:
        return "<0.01 %"
    if 0.9999 < value < 1:
        return ">99.99 %"
    if value >= 1e6:
        return f"{100 * value:.3g} %"
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + " %"


def counted(value: int, one: str, many: str) -> str:
    """Number with its noun in the singular or plural, thousands separated."""
    return f"{value:,} {one if value == 1 else many}"


def listed(names: Sequence[str], limit: int = 20) -> str:
    """Names up to a limit, and the number of further names."""
    named = ", ".join(names[:limit])
    return named if len(names) <= limit else f"{named} and {len(names) - limit:,} more"


def threshold(value: Decimal | float) -> str:
    """Threshold with all its digits: no exponent, no trailing zeros."""
    text = f"{Decimal(str(value)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def moment(seconds: float, *, day: bool) -> str:
    """Date, or date and time, of seconds since 1970 in UTC; only the year outside Python's range."""
    try:
        when = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"year {1970 + seconds / 31_556_952:.0f}"
    return when.strftime("%Y-%m-%d" if day else "%Y-%m-%d %H:%M")


def clean(text: str) -> str:
    """Text with U+FFFD for invisible characters and for characters that change the text direction.

    An empty text becomes two quotes.
    """
    return legible(text) or "''"


def short(text: str, length: int) -> str:
    """Text for an axis: clean, with an ellipsis if it was cut."""
    whole = clean(text)
    return whole if len(whole) <= length else whole[: length - 1] + "…"
