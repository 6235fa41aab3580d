"""Options of ``WITH (...)``: from text to values with their place, and from values to policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from duckanon.errors import PolicyError, StatementError
from duckanon.policy import checks
from duckanon.policy.audit_policy import THRESHOLD_OPTIONS
from duckanon.policy.names import fold, unknown_option
from duckanon.policy.policy import AUDIT_OPTIONS, OPTIONS, AuditPolicy, Policy
from duckanon.policy.subsets import folded
from duckanon.statements.tokens import unquoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duckanon.statements.tokens import Reader, Token

Scalar = str | int | Decimal | bool
Entry = Scalar | tuple[Scalar, ...] | Mapping[str, Scalar]
Key = str | int | tuple[str, ...]
"""Key of a map: a column, * as text, several columns, or a number of columns."""

Value = Scalar | tuple[str, ...] | Mapping[Key, Entry]

EXPORT_OPTIONS = ("csv_formulas", "overwrite", "evidence")
"""Options of EXPORT."""

REFRESH_OPTIONS = ("mode", "on_intersection")
"""Options of REFRESH."""

_LONGEST_NUMBER = 60
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Option:
    """An option as written, with its place in the script, counted from 1."""

    name: str  # in lower case
    value: Value  # a plain word is text, ``*`` too; mappings are by column name
    line: int
    column: int


Options = Mapping[str, Option]
"""Options by lower-case name."""

T = TypeVar("T")


def read_options(reader: Reader) -> Options:
    """Options by name of a clause in parentheses; whether an option exists is checked later."""
    if not reader.accept_symbol("("):
        raise reader.expected("( after WITH")
    options: dict[str, Option] = {}
    for option in _sequence(reader, ")", _option):
        if option.name in options:
            raise StatementError(f"option {option.name!r} stands twice", option.line, option.column)
        options[option.name] = option
    if not options:
        raise reader.error("WITH () names no option")
    return options


def options_to_policy(options: Options) -> Policy:
    """Policy from the options of CREATE ANONYMIZED VIEW, checked without the source."""
    # If one option is wrong, the PolicyError has its line and column.
    values = checked(options, OPTIONS)
    for name, example in (("quasi_identifiers", "(age, zip)"), ("k", "5")):
        if name not in values:
            raise PolicyError(f"option {name!r} is missing: write {name} = {example} in WITH (...)")
    return Policy(**values)


def options_to_audit(options: Options, base: AuditPolicy | None = None) -> AuditPolicy:
    """Roles and thresholds from the options of AUDIT."""
    # With the policy of an anonymized view as base, its roles stay and thresholds in the options replace its
    # own.
    if base is not None:
        return base.override(**checked(options, THRESHOLD_OPTIONS))
    values = checked(options, AUDIT_OPTIONS)
    if "quasi_identifiers" not in values:
        raise PolicyError(
            "option 'quasi_identifiers' is missing: write quasi_identifiers = (age, zip) in WITH (...)"
        )
    return AuditPolicy(**values)


def checked(options: Options, known: Sequence[str]) -> dict[str, Any]:
    """Values by name, in the form that a policy keeps; a PolicyError has the place of a wrong option."""
    values = {}
    for option in options.values():
        if option.name not in known:
            raise PolicyError(_unknown(option.name, known)).at(option.line, option.column)
        try:
            values[option.name] = checks.checked(option.name, option.value)
        except PolicyError as wrong:
            raise PolicyError(str(wrong)).at(option.line, option.column) from wrong
    return values


def _unknown(name: str, known: Sequence[str]) -> str:
    if name in OPTIONS and known is REFRESH_OPTIONS:
        return (
            f"option {name!r} is not one of REFRESH, the view keeps its own: CREATE OR REPLACE ANONYMIZED "
            f"VIEW gives it others; options here: {', '.join(known)}"
        )
    if name in OPTIONS and known is not EXPORT_OPTIONS:
        fixed = "the view keeps its own" if known is THRESHOLD_OPTIONS else "an audit has none"
        return f"option {name!r} is not one of AUDIT, {fixed}; options here: {', '.join(known)}"
    return unknown_option(name, known)


def _sequence(reader: Reader, close: str, read: Callable[[Reader], T]) -> Iterator[T]:
    """Read entries between commas up to a closing symbol; a last comma before the symbol is allowed."""
    while not reader.accept_symbol(close):
        yield read(reader)
        if not reader.accept_symbol(",") and reader.next.text != close:
            raise reader.expected(f", or {close}")


def _option(reader: Reader) -> Option:
    token = reader.next
    if token.kind not in {"word", "name"}:
        raise reader.expected("an option, as in k = 5")
    name = fold(unquoted(reader.take()))
    assigned = reader.accept_symbol("=")
    if reader.next.kind == "end" or reader.next.text in {",", ")"}:
        raise reader.error(f"option {name!r} has no value: write {name} = ...", token)
    if not assigned:
        raise reader.expected(f"= after option {name!r}")
    return Option(name, _value(reader), *reader.place(token))


def _value(reader: Reader) -> Value:
    opening = reader.next
    if opening.kind == "symbol" and opening.text in _CLOSING:
        reader.take()
        if opening.text == "{":
            return _map(reader, opening)
        columns = tuple(_sequence(reader, _CLOSING[opening.text], _listed))
        if not columns:
            raise reader.error("the list is empty: name at least one column or leave the option out", opening)
        return columns
    if reader.accept_symbol("*"):
        return "*"
    if opening.kind == "name" and opening.text == '"*"':
        return (unquoted(reader.take()),)
    return _scalar(reader)


def _map(reader: Reader, opening: Token) -> Mapping[Key, Entry]:
    values: dict[Key, Entry] = {}
    seen: set[Key] = set()
    for token, key, value in _sequence(reader, "}", _entry):
        if folded(key) in seen:
            what = "(" + ", ".join(key) + ")" if isinstance(key, tuple) else repr(key)
            raise reader.error(f"column {what} stands twice", token)
        seen.add(folded(key))
        values[key] = value
    if not values:
        raise reader.error("the map is empty: write {column: value} or leave the option out", opening)
    return values


def _by_value(reader: Reader, opening: Token) -> Mapping[str, Scalar]:
    """Read what belongs to the values of a column, whose case counts."""
    values: dict[str, Scalar] = {}
    for token, name, value in _sequence(reader, "}", _pair):
        if name in values:
            raise reader.error(f"value {name!r} stands twice", token)
        values[name] = value
    if not values:
        raise reader.error("the map is empty: write {'value': 0.2} or leave the column out", opening)
    return values


def _pair(reader: Reader) -> tuple[Token, str, Scalar]:
    token = reader.next
    if token.kind not in {"word", "name", "string"}:
        raise reader.expected("a value of the column, as text in quotes")
    if token.keyword == "NULL":
        raise reader.error(
            "NULL cannot be named: give one number, which bounds every value, or write the text as 'NULL'",
            token,
        )
    name = _text(reader)
    if not reader.accept_symbol(":"):
        raise reader.expected(f": after {name!r}, as in {{{name!r}: 0.2}}")
    return token, name, _scalar(reader)


def _entry(reader: Reader) -> tuple[Token, Key, Entry]:
    token = reader.next
    key = _key(reader)
    if not reader.accept_symbol(":"):
        shown = "(" + ", ".join(key) + ")" if isinstance(key, tuple) else key
        what = f"column {key!r}" if isinstance(key, str) else str(shown)
        raise reader.expected(f": after {what}, as in {{{shown}: value}}")
    opening = reader.next
    if opening.kind == "symbol" and opening.text in {"(", "["}:
        reader.take()
        return token, key, tuple(_sequence(reader, _CLOSING[opening.text], _scalar))
    if opening.kind == "symbol" and opening.text == "{":
        reader.take()
        return token, key, _by_value(reader, opening)
    return token, key, _scalar(reader)


def _key(reader: Reader) -> Key:
    """Read a key: a column, ``(a, b)``, ``*`` or a whole number; options check later which they take."""
    opening = reader.next
    if opening.kind == "symbol" and opening.text in {"(", "["}:
        reader.take()
        columns = tuple(_sequence(reader, _CLOSING[opening.text], _column))
        if not columns:
            raise reader.error("the list of columns is empty: name at least one column", opening)
        return columns
    if reader.accept_symbol("*"):
        return "*"
    if opening.kind == "number" and opening.text.isdigit():
        return int(_number(reader, ""))
    return _column(reader)


def _listed(reader: Reader) -> str:
    if reader.next.kind == "number":
        advice = "a number stands alone, as in k = 5, and several in braces, as in k_subsets = {2: 10, 3: 5}"
        raise reader.expected("a column name", advice)
    return _column(reader)


def _column(reader: Reader) -> str:
    if reader.next.kind not in {"word", "name", "string"}:
        raise reader.expected("a column name")
    return _text(reader)


def _scalar(reader: Reader) -> Scalar:
    token = reader.next
    if token.kind == "word" and token.keyword in {"TRUE", "FALSE"}:
        return reader.take().keyword == "TRUE"
    if token.kind in {"word", "name", "string"}:
        return _text(reader)
    sign = "-" if reader.accept_symbol("-") else ""
    if not sign:
        reader.accept_symbol("+")
    if reader.next.kind != "number":
        raise reader.expected("a value: a number, 'text', true, false, (columns) or {column: value}")
    return _number(reader, sign)


def _number(reader: Reader, sign: str) -> int | Decimal:
    token = reader.take()
    digits = token.text.replace("_", "")
    if len(digits) > _LONGEST_NUMBER:
        raise reader.error(f"a number has at most {_LONGEST_NUMBER} characters", token)
    if digits.isdigit():
        return int(sign + digits)
    number = checks.decimal(sign + digits)
    if number is None:
        raise reader.error(f"{token.text} is out of range", token)
    return number


def _text(reader: Reader) -> str:
    if reader.next.text[:2] in {"e'", "E'"}:
        raise reader.error("strings with backslash escapes are not read here: write '...'")
    return unquoted(reader.take())
