"""Options of a policy as TOML text."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from duckanon.errors import PolicyError
from duckanon.policy.subsets import BySubset, key_text

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

KEY_MAX_PARTS = 100
"""Largest number of parts of a key (``t.charge`` has 2): the parser's memory grows with its square."""

_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(
    rf"(?:^[ \t]*+\[{{0,2}}|[{{,])[ \t]*+{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{KEY_MAX_PARTS}}}", re.MULTILINE
)


def options_to_toml(options: Mapping[str, Any]) -> str:
    """TOML text of options, one line each; a Decimal is written digit by digit.

    >>> print(options_to_toml({"k": 5, "t": {"my col": Decimal("0.150")}}), end="")
    k = 5
    t = {"my col" = 0.150}
    """
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in options.items())


def options_from_toml(text: str) -> dict[str, Any]:
    """Options of TOML text by name, floats as Decimal; a PolicyError with its place if it is not TOML."""
    if not isinstance(text, str) or text.endswith(".toml"):
        raise PolicyError(
            f"the policy is TOML as text, not its file {str(text)!r}: give the text of the file"
        )
    long = _LONG_KEY.search(text)
    if long is not None:
        line = text.count("\n", 0, long.start()) + 1
        raise PolicyError(
            f"line {line} of the policy has a name of more than {KEY_MAX_PARTS} parts with dots between: put "
            "it in quotes"
        )
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except ValueError as wrong:
        raise PolicyError(f"the policy is not TOML: {wrong}") from wrong
    except RecursionError as deep:
        raise PolicyError("the policy has brackets within brackets without end: write one list") from deep


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    # JSON escapes every character that TOML requires to be escaped, except the delete character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BySubset):
        value = {key_text(key) if isinstance(key, tuple) else str(key): one for key, one in value.items()}
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, int | float | Decimal):
        return str(value)
    return "[" + ", ".join(_value(one) for one in value) + "]"
