"""Text of users as a reader may see it: no unseen characters, none that turn the direction of others."""

from __future__ import annotations

import re

_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def legible(text: str) -> str:
    """Text in which no character is unseen, breaks the line or turns the direction of others.

    Such characters become U+FFFD.
    """
    return _UNSEEN.sub("\ufffd", text)
