"""Flags of the command line: ``age,zip`` and ``charge=0.15,diagnosis=0.3`` as values of a policy."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from duckanon.engine import first_line
from duckanon.errors import PolicyError
from duckanon.policy import Policy

if TYPE_CHECKING:
    from pathlib import Path

LISTS = ("quasi_identifiers", "sensitive", "identifiers", "insensitive")
NUMBERS = ("t", "l", "c", "weights", "suppression_limit")


def policy_of_flags(flags: dict[str, Any], file: Path | None) -> Policy:
    """Policy of the flags of a command, on top of a policy file where there is one.

    Parameters
    ----------
    flags : dict
        Option name to the flag's value; None where the flag was not given.
    file : Path, optional
        A policy as TOML.

    Returns
    -------
    Policy
        Flags win over the file.

    Raises
    ------
    PolicyError
        A flag cannot be read, or the policy is wrong.
    """
    given = {name: read_flag(name, value) for name, value in flags.items() if value is not None}
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as unread:
            raise PolicyError(f"cannot read the policy {str(file)!r}: {first_line(unread)}") from unread
        return Policy.from_toml(text, **given)
    for name, flag in (("quasi_identifiers", "--qi"), ("k", "-k")):
        if name not in given:
            raise PolicyError(f"{flag} is missing: give {flag}, or a --policy file")
    return Policy(**given)


def read_flag(name: str, value: Any) -> Any:
    """Value of one flag as the policy takes it.

    Parameters
    ----------
    name : str
        Option name.
    value : object
        Text of the flag, or a value that needs no reading.

    Returns
    -------
    object
        A list of columns, ``'*'``, a number, or a dict for ``column=value`` pairs.

    Raises
    ------
    PolicyError
        A number cannot be read.
    """
    if not isinstance(value, str):
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if name in LISTS:
        return "*" if parts == ["*"] else parts
    if any("=" in part for part in parts):
        pairs = [part.partition("=")[::2] for part in parts]
        return {column.strip(): _plain(name, text.strip()) for column, text in pairs}
    return _plain(name, value.strip())


def _plain(name: str, text: str) -> Any:
    if name not in NUMBERS:
        return text
    try:
        return Decimal(text)
    except InvalidOperation as wrong:
        raise PolicyError(f"{name} takes a number or column=number pairs, not {text!r}") from wrong
