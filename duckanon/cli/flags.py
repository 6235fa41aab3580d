"""Flags of the command line: values of a policy from ``age,zip`` and ``charge=0.15,diagnosis=0.3``.

A column is written by its name, or in double quotes as in SQL if the name has a comma, an equals sign or a
quote: ``'"last, first",age'``, ``'"x=y"=0.1'``. A flag for several columns may be repeated. --alpha also
takes named values of a column, as ``diagnosis.HIV=0.2``; a column with a dot is quoted there. -t takes
several columns together, as ``(age,diagnosis)=0.3``.
"""

from __future__ import annotations

import io
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from duckanon.database.csv_form import Reading
from duckanon.database.paths import check_local, open_plain
from duckanon.errors import DuckanonError, PolicyError, StatementError
from duckanon.policy.checks import SHARE_OPTIONS, decimal
from duckanon.policy.names import fold, unknown_option
from duckanon.policy.policy import Policy
from duckanon.policy.subsets import WHOLE_KEY
from duckanon.statements.options import read_options
from duckanon.statements.tokens import Piece, Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

LISTS = ("quasi_identifiers", "sensitive", "identifiers", "insensitive", "subject")
NUMBERS = (
    "t", "l", "c", *SHARE_OPTIONS, "joint_t", "p_percent", "digits", "weights", "suppression_limit",
)  # fmt: skip
INTEGERS = ("k", "k_subsets")

_EXAMPLES_BY_OPTION = {"quasi_identifiers": "--qi age,zip", "k": "-k 5"}
"""Example of each flag that a command may require."""

_INTEGER_EXAMPLES = {"k": "-k 5", "k_subsets": "--k-subsets 2 or --k-subsets 2=50"}
"""Examples of flags with whole numbers."""

_QUOTE, _DOUBLE = "'", '"'
_QUOTED = r'"(?:[^"]|"")*"'
_VALUE = rf'(?P<value>{_QUOTED}|[^,"\s][^,]*?|)\s*(?:,|\Z)'
_NAME = re.compile(rf"\s*{_VALUE}")
_COLUMNS_TOGETHER = rf'\((?:{_QUOTED}|[^()"])*\)'
_PAIR = re.compile(rf'\s*(?:(?P<column>{_COLUMNS_TOGETHER}|{_QUOTED}|[^,="\s][^,=]*?)\s*=\s*)?{_VALUE}')
_PAIR_OF_VALUE = re.compile(
    rf'\s*(?:(?P<column>{_QUOTED}|[^,=".\s][^,=".]*?)\s*(?:\.(?P<named>{_QUOTED}|[^,="\s][^,="]*?)\s*)?=\s*)?{_VALUE}'
)


class _Word(NamedTuple):
    """The meaning of a name or value, whether it was in quotes, and the value that follows a column."""

    text: str
    quoted: bool
    named: str | None = None


def policy_of_flags(flags: dict[str, Any], file: Path | None) -> Policy:
    """Policy from the given flags (not None), which replace options of the policy file, if there is one."""
    given = read_flags(flags)
    if file is not None:
        return from_policy_file(file, Policy.from_toml, given)
    require(given, "quasi_identifiers", "k", file=True)
    return Policy(**given)


def from_policy_file(file: Path, make: Callable[..., T], given: Mapping[str, Any]) -> T:
    """Make a policy of the text of a file and given options; an error of the text names the file."""
    text = read_text(file, "policy", error=PolicyError)
    try:
        return make(text, **given)
    except PolicyError as wrong:
        try:
            make(text)
        except PolicyError as own:
            if str(own) == str(wrong):
                raise PolicyError(f"{wrong} (policy file {str(file)!r})") from wrong
        raise


def require(given: Collection[str], *names: str, file: bool = False) -> None:
    """Raise if an option is not among the given ones; with `file`, it may also stand in a policy file."""
    for name in names:
        if name not in given:
            more = ", or a --policy file" if file else ""
            raise PolicyError(f"{flag(name)} is missing: give it, as in {_EXAMPLES_BY_OPTION[name]}{more}")


def read_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """Values of the given flags, by option, in the form of a policy; raise if a flag has two values."""
    return {name: _read(name, value) for name, value in flags.items() if value is not None}


def given_names(flags: dict[str, Any], name: str) -> list[str]:
    """Columns of a flag of a command; raise if it is missing."""
    require([one for one, value in flags.items() if value is not None], name)
    return list(_columns(name, flags[name]))


def read_names(option: str, values: Sequence[str]) -> list[str]:
    """Names of columns in all repetitions of a flag, in the order written.

    >>> read_names("--qi", ["age, zip", '"last, first"'])
    ['age', 'zip', 'last, first']
    """
    return [word.text for word in _names(option, values)]


def flag(name: str) -> str:
    """Flag of the command line for an option of SQL.

    >>> flag("quasi_identifiers"), flag("k"), flag("suppression_limit")
    ('--qi', '-k', '--suppression-limit')
    """
    if name == "quasi_identifiers":
        return "--qi"
    return f"-{name}" if name in {"k", "t", "l"} else "--" + name.replace("_", "-")


def in_words(text: str, flags: Collection[str], keys: Collection[str] = ()) -> str:
    """Message in the words of the command line: SQL of `flags` becomes flags, SQL of `keys` becomes TOML.

    >>> in_words("recode of 'a,b' is 'range': add hierarchies = {zip: 'z.csv'}", ["recode", "hierarchies"])
    "--recode of 'a,b' is 'range': add --hierarchies zip=z.csv"
    >>> in_words("t = 2: use a number; column 'k' is in sensitive", ["t", "k", "sensitive"])
    "-t 2: use a number; column 'k' is in --sensitive"
    """

    def written(found: re.Match[str]) -> str:
        name = found["option"] or found["bare"]
        if name in flags:
            column = f"{quoted(found['column'])}=" if found["of"] else ""
            alone = found["bare"] or found["word"] == "true"
            return flag(name) if alone else f"{flag(name)} {column}{_as_flag(found)}"
        if name in keys and found["option"] and not found["of"]:
            return f"{name} = {_as_toml(found)}"
        return found[0]

    return _sql_words((*flags, *keys)).sub(written, text)


_ROLE_WORDS = "quasi_identifiers|sensitive|identifiers|insensitive|subject"


@cache
def _sql_words(names: tuple[str, ...]) -> re.Pattern[str]:
    """Pattern of options in a message: before their value, or where a word can only be an option."""
    known = "|".join(sorted(names, key=len, reverse=True)) or "(?!)"
    letters = "|".join(name for name in names if len(name) == 1) or "(?!)"
    joined = "|".join(name for name in names if "_" in name) or "(?!)"
    value = r"\((?P<list>[^()]*)\)|\{(?P<map>[^{}]*)\}|(?P<word>'[^']*'|[^\s,:;()]*[^\s.,:;()])"
    alone = (
        rf"(?:(?<=\bin )|(?<=\bto ))(?:{_ROLE_WORDS})(?!\w)",
        rf"(?:(?<=\bneeds )|(?<=\buse )|(?<=\bno ))(?:{letters})(?![\w ] ?[=<>])\b",
        rf"(?<=\bleave )(?:{known})(?= out)",
        rf"\A(?:{known})(?= (?:names|takes|does|belongs|is (?:empty|out|for)|of '))",
        rf"(?<![\w.-])(?:{joined})(?!\w)",
    )
    return re.compile(
        rf"(?<!\w)(?:'[^']*'|\"[^\"]*\")"
        rf"|(?<![\w.-])(?<!\d )(?P<option>{known})(?P<of> of '(?P<column>[^']*)')? = (?:{value})"
        rf"|(?P<bare>{'|'.join(alone)})"
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    """Columns and values of a map of SQL in a message."""
    return re.findall(r"\s*([^:]+?)\s*:\s*('[^']*'|[^,]+?)\s*(?:,|\Z)", text)


def _as_flag(found: re.Match[str]) -> str:
    """Value of an option in a message, as a flag has it."""
    if found["list"] is not None:
        # Two levels of a column are a range, several columns a list.
        between = "-" if found["of"] else ","
        return between.join(quoted(name.strip()) for name in found["list"].split(","))
    if found["map"] is not None:
        return ",".join(f"{quoted(name)}={quoted(one.strip(_QUOTE))}" for name, one in _pairs(found["map"]))
    word = str(found["word"]).strip(_QUOTE)
    return "'*'" if word == "*" else word


def _as_toml(found: re.Match[str]) -> str:
    """Value of an option in a message, as a policy file has it."""
    if found["list"] is not None:
        names = found["list"].split(",")
        return "[" + ", ".join(name if name == "..." else f'"{name.strip()}"' for name in names) + "]"
    if found["map"] is not None:
        pairs = _pairs(found["map"])
        return "{" + ", ".join(f"{name} = {one.replace(_QUOTE, _DOUBLE)}" for name, one in pairs) + "}"
    return '"*"' if found["word"] == "*" else str(found["word"]).replace(_QUOTE, _DOUBLE)


def quoted(name: str) -> str:
    """Name or value as a flag has it, in double quotes if it has a comma, an equals sign or a quote."""
    return '"' + name.replace('"', '""') + '"' if re.search(r'[,="]', name) else name


def read_text(file: Path, what: str, *, error: type[DuckanonError] = DuckanonError) -> str:
    """Text of a UTF-8 file, or of standard input for ``-``; an error names `what` the file should hold."""
    # A byte order mark and any form of line end are accepted.
    check_local(file)
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read()
        else:
            with open_plain(file) as stream:
                data = stream.read()
        return io.StringIO(data.decode("utf-8-sig"), newline=None).read()
    except (OSError, UnicodeDecodeError) as unread:
        name = "from the standard input" if str(file) == "-" else repr(str(file))
        why = unread.strerror if isinstance(unread, OSError) else "it is no text in UTF-8"
        raise error(f"cannot read the {what} {name}: {why}") from unread


_READING = {
    "delim": "delimiter", "sep": "delimiter", "quote": "quote", "escape": "escape", "skip": "skip",
    "dateformat": "date_format", "nullstr": "nulls", "decimal_separator": "decimal",
}  # fmt: skip
"""Options of read_csv in --read, and what they are in a `Reading`."""


def read_reading(text: str | None, dateformat: str | None, nulls: Sequence[str] | None) -> Reading:
    """What --read, --dateformat and --null state about CSV files.

    >>> read_reading("delim=';', nullstr='NA'", None, ["-"]) == Reading(nulls=("NA", "-"), delimiter=";")
    True
    """
    stated: dict[str, Any] = {}
    if text is not None:
        try:
            reader = Reader(Piece("(" + text + ")", 1, 1))
            options = read_options(reader)
            if reader.next.kind != "end":
                raise reader.expected("the end of the options")
        except StatementError as wrong:
            raise PolicyError(
                f"--read {text!r}: {wrong.args[0]}; write NAME='VALUE' between commas"
            ) from wrong
        for name, option in options.items():
            if name not in _READING:
                raise PolicyError(f"--read: {unknown_option(name, list(_READING))}")
            value = option.value
            if name == "nullstr":
                value = value if isinstance(value, tuple) else (str(value),)
            elif name == "skip" and not isinstance(value, int):
                raise PolicyError(f"--read: skip is a number of lines, not {value!r}")
            elif name != "skip" and not isinstance(value, str):
                raise PolicyError(f"--read: {name} is a text in single quotes, not {value!r}")
            stated[_READING[name]] = value
    if dateformat is not None and stated.setdefault("date_format", dateformat) != dateformat:
        raise PolicyError(f"--dateformat {dateformat} and --read differ: give one of both")
    return Reading(**{**stated, "nulls": (*stated.get("nulls", ()), *(nulls or ()))})


def _read(name: str, value: Any) -> Any:
    """Return the value of one flag, as a list of all repetitions if the option takes a list."""
    if isinstance(value, str):
        return _plain(name, value.strip())
    if not isinstance(value, list):
        return value
    if name in LISTS:
        return _columns(name, value)
    pattern = _PAIR_OF_VALUE if name == "alpha" else _PAIR
    return _by_column(name, list(_words(flag(name), value, pattern)))


def _columns(name: str, values: Sequence[str]) -> str | list[str]:
    words = _names(flag(name), values)
    if _Word("*", quoted=False) not in words:
        return [word.text for word in words]
    if len(words) > 1:
        raise PolicyError(f"{flag(name)} has * and columns: give one of both")
    return "*"


def _by_column(name: str, entries: Sequence[tuple[_Word | None, _Word]]) -> Any:
    """Return one value for all columns, or values by column; raise for both, or for two values for all."""
    plain = [value.text for column, value in entries if column is None]
    if len(plain) == 2 and name in NUMBERS and plain[0] == "0" and plain[1].isdecimal():
        raise PolicyError(
            f"{flag(name)} {','.join(plain)}: a decimal has a point, {'.'.join(plain)}; for columns give "
            "column=value pairs"
        )
    if plain and name == "order":
        raise PolicyError(
            f"--order has {plain[0]!r} without a column: write < between the values of a column, as in "
            "--order 'severity=mild<moderate<severe'"
        )
    if len(plain) > 1:
        raise PolicyError(
            f"{flag(name)} has two values for all columns, {plain[0]!r} and {plain[1]!r}: "
            "give one, or column=value pairs"
        )
    if plain and len(entries) > 1 and name != "k":
        raise PolicyError(
            f"{flag(name)} has a value for all columns, {plain[0]!r}, and one for a column: give one of both"
        )
    if len(entries) == 1 and plain:
        return _plain(name, plain[0])
    values: dict[str, Any] = {}
    seen: set[tuple[str, str | None]] = set()
    for column, value in entries:
        text, named = (column.text, column.named) if column else (WHOLE_KEY, None)
        if {(fold(text), named), (fold(text), None)} & seen or (named is None and text in values):
            raise PolicyError(f"{flag(name)} has two values for column {text!r}: leave one out")
        seen.add((fold(text), named))
        if named is None:
            values[text] = _plain(name, value.text)
        else:
            values.setdefault(text, {})[named] = _plain(name, value.text)
    return values


def _names(option: str, values: Sequence[str]) -> list[_Word]:
    return [value for _, value in _words(option, values, _NAME)]


def _words(
    option: str, values: Sequence[str], pattern: re.Pattern[str]
) -> Iterator[tuple[_Word | None, _Word]]:
    """Column and value of every entry between commas; the column is None if the entry has none."""
    for text in values:
        at = 0
        while True:
            match = pattern.match(text, at)
            if match is None:
                raise PolicyError(
                    f"{option} {text!r}: quotes are around a whole name, and doubled within it: "
                    'write "a,b" or "say ""a"""'
                )
            column = match.groupdict().get("column")
            if match["value"] in {"", '""'} or column == '""':
                # Otherwise an empty variable of a shell script would silently leave out a column.
                raise PolicyError(f"{option} {text!r}: there is nothing between two commas or at an end")
            named = match.groupdict().get("named")
            yield (
                None if column is None else _word(column)._replace(named=named and _word(named).text),
                _word(match["value"]),
            )
            if not match[0].endswith(","):
                break
            at = match.end()


def _word(text: str) -> _Word:
    if text.startswith('"'):
        return _Word(text[1:-1].replace('""', '"'), quoted=True)
    return _Word(text, quoted=False)


def _plain(name: str, text: str) -> Any:
    if name not in (*NUMBERS, *INTEGERS):
        return text
    if name in INTEGERS:
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise PolicyError(f"{flag(name)} takes a whole number, as in {_INTEGER_EXAMPLES[name]}")
        return int(text)
    number = decimal(text)
    if number is None:
        form = (
            "a number"
            if name in {"c", "p_percent", "suppression_limit"}
            else "a number or column=number pairs"
        )
        share = decimal(text.removesuffix("%").rstrip()) if text.endswith("%") else None
        hint = "" if share is None else f"; {text} is {share if name == 'p_percent' else share / 100}"
        raise PolicyError(f"{flag(name)} takes {form}, not {text!r}{hint}")
    return number
