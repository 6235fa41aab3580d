"""The options of all commands, declared once, and the decorator that gives them to a command.

The names of options of a policy are those of `duckanon.Policy`; `duckanon.cli.flags` reads their values.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import typer

from duckanon import progress
from duckanon.cli.completion import of_file, of_option
from duckanon.cli.documents import known_form
from duckanon.cli.flags import flag, in_words, read_reading
from duckanon.cli.output import Voice, speaking
from duckanon.cli.parsing import epilog
from duckanon.database.interrupts import within
from duckanon.errors import DuckanonError
from duckanon.policy.checks import (
    SHARE_OPTIONS,
    Distance,
    Effort,
    Formulas,
    LDiversity,
    Nulls,
    Objective,
    Release,
)
from duckanon.policy.joint import JointDistanceWord
from duckanon.policy.kinds import RULES
from duckanon.policy.methods import METHODS

CHOICES_LISTED = 8
"""Largest number of choices that the help of an option lists."""


class Option(NamedTuple):
    """An option: what it means, and the form of its values.

    `kind` is the type of one value, or ``list`` for entries between commas, which may be repeated; `value` is
    the default value, `default` names it in words.
    """

    meaning: str
    choices: tuple[str, ...] = ()
    default: str = "none"
    example: str = ""
    form: str | None = None
    kind: type = str
    value: object = None
    flags: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """Meaning, choices, default and example."""
        if self.kind is bool:
            return self.meaning
        listed = len(self.choices) <= CHOICES_LISTED and self.choices
        parts = [self.meaning + (f": {' | '.join(self.choices)}" if listed else "")]
        parts.append(self.default if self.default.startswith("required") else f"default: {self.default}")
        if self.example:
            parts.append(f"as in {self.example}")
        return "; ".join(parts)

    def parameter(self, name: str) -> inspect.Parameter:
        """Parameter of a function by which typer reads the option."""
        kind: Any = list[str] if self.kind is list else self.kind
        flags = self.flags or (flag(name),)
        shown = typer.Option(
            *flags,
            metavar=self.form,
            help=self.help,
            show_default=False,
            autocompletion=of_option(self.choices, self.form),
        )
        if self.kind is not bool and self.value is None:
            kind = kind | None
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_unset(self), annotation=Annotated[kind, shown]
        )


_ONE_OR_BY_COLUMN = "NUMBER|COLUMN=NUMBER,..."

OF_POLICY = {
    "quasi_identifiers": Option(
        "quasi-identifiers, which make the classes", (), "required here or in --policy", "--qi age,zip",
        "COLUMN,...", list, None, ("--qi", "--quasi-identifiers"),
    ),
    "sensitive": Option(
        "columns that -l and -t protect", (), "none", "--sensitive charge,diagnosis", "COLUMN,...", list
    ),
    "identifiers": Option(
        "columns that are dropped", (), "none", "--identifiers name,ssn", "COLUMN,...", list
    ),
    "insensitive": Option(
        "columns that are released as they are, '*' for all others", (), "none", "--insensitive plan,ward",
        "COLUMN,...", list,
    ),
    "subject": Option(
        "columns that tell whose a record is, so that -k counts persons", (), "each record is a person",
        "--subject patient_id", "COLUMN,...", list,
    ),
    "k": Option(
        "fewest records of a class, at least 2, and of subsets of the quasi-identifiers", (),
        "required here or in --policy", "-k 5 or -k 5,'(age,sex)=10',zip=50", "NUMBER|COLUMNS=NUMBER,...",
        list,
    ),
    "t": Option(
        "largest EMD between a class and the table, above 0, at most 1", (), "none",
        "-t 0.15 or -t 'charge=0.15,(age,diagnosis)=0.3'", _ONE_OR_BY_COLUMN, list,
    ),
    "n": Option(
        "fewest records of a natural superset, to which -t is then the distance", (), "all records",
        "--n 1000", "NUMBER", int,
    ),
    "l": Option(
        "least diversity of the sensitive values of a class, at least 1", (), "none",
        "-l 3 or -l diagnosis=3", _ONE_OR_BY_COLUMN, list,
    ),
    "l_diversity": Option("what -l means", get_args(LDiversity), "distinct"),
    "c": Option(
        "for --l-diversity recursive: the most frequent value is rarer than c times the rare ones", (),
        "none", "--c 3", "NUMBER",
    ),
    "alpha": Option(
        "largest share of a sensitive value in a class, of every value or of named ones", (), "none",
        "--alpha 0.5 or --alpha diagnosis.HIV=0.2", "NUMBER|COLUMN[.VALUE]=NUMBER,...", list,
    ),
    "delta": Option(
        "delta-disclosure: shares in a class and in the table differ by a factor below exp(delta)", (),
        "none", "--delta 1 or --delta diagnosis=1", _ONE_OR_BY_COLUMN, list,
    ),
    "beta": Option(
        "beta-likeness: no share in a class exceeds that in the table by more than beta times it", (),
        "none", "--beta 1 or --beta diagnosis=1", _ONE_OR_BY_COLUMN, list,
    ),
    "enhanced_beta": Option(
        "beta-likeness by the lesser of beta and -ln of the share in the table", (), "none",
        "--enhanced-beta 1 or --enhanced-beta diagnosis=1", _ONE_OR_BY_COLUMN, list,
    ),
    "joint_t": Option(
        "largest EMD of several columns together; -t takes it, too", (), "none",
        "--joint-t '(age,diagnosis)=0.3'", "(COLUMN,...)=NUMBER,...", list,
    ),
    "joint_distance": Option(
        "distance of values of several columns, where -t is for these together: the greatest of the "
        "columns, or their mean", get_args(JointDistanceWord), "maximum",
    ),
    "k_subsets": Option(
        "fewest records with equal values in every so many quasi-identifiers", (), "none",
        "--k-subsets 2=50", "SIZE|SIZE=NUMBER,...", list,
    ),
    "distance": Option(
        "ground distance of a sensitive column", get_args(Distance),
        "ordered for numbers and dates, else equal", "--distance plan=equal", "COLUMN=WORD,...", list,
    ),
    "order": Option(
        "all values of a text column, from the least to the greatest", (), "none",
        "--order 'severity=mild<moderate<severe'", "COLUMN=VALUE<VALUE,...", list,
    ),
    "hierarchies": Option(
        "hierarchy of a column: a file or table of one row a leaf, columns from leaf to root", (), "none",
        "--hierarchies diagnosis=icd.csv", "COLUMN=FILE,...", list,
    ),
    "suppressed": Option(
        "leave out records whose quasi-identifiers all are this text", (), "none", "--suppressed '*'", "MARK"
    ),
    "method": Option("way to classes, see duckanon methods", tuple(METHODS), "auto", "", "METHOD"),
    "objective": Option("what method full_domain makes smallest", get_args(Objective), "loss"),
    "levels": Option(
        "levels of a hierarchy that method full_domain may take, 0 for the values", (), "all",
        "--levels age=2,zip=1-3", "COLUMN=LEVEL,...", list,
    ),
    "steering_weight": Option(
        "how much method steered spreads a class over the sensitive values, above 0", (),
        "that of Proposition 1", "--steering-weight 50", "NUMBER",
    ),
    "recode": Option(
        "how a quasi-identifier is recoded", tuple(RULES), "by its type", "--recode age=range,zip=set",
        "COLUMN=WORD,...", list,
    ),
    "weights": Option(
        "importance of a quasi-identifier, above 0", (), "1", "--weights age=2",
        "COLUMN=NUMBER,...", list,
    ),
    "p_percent": Option(
        "nobody may be estimated within so many per cent from a class mean", (), "none", "--p-percent 10",
        "NUMBER",
    ),
    "min_values": Option(
        "fewest values of which a class releases a mean, median or range", (), "k", "--min-values 3",
        "NUMBER", int,
    ),
    "digits": Option(
        "digits after the point of released means and medians, before it if negative", (),
        "as the values have", "--digits 2 or --digits income=-2", _ONE_OR_BY_COLUMN, list,
    ),
    "release": Option(
        "form: recoded, two tables, or values dealt anew within a class", get_args(Release), "table"
    ),
    "suppression_limit": Option(
        "largest share of the records that may be left out, 0 to 1", (), "0", "--suppression-limit 0.05",
        "NUMBER",
    ),
    "nulls": Option("what NULL is in a quasi-identifier", get_args(Nulls), "category"),
    "effort": Option("how much to refine", get_args(Effort), "balanced"),
    "time_limit": Option(
        "seconds after which refinement stops, above 0", (), "none", "--time-limit 60", "SECONDS", float
    ),
    "seed": Option("seed of random choices", (), "0", "--seed 7", "NUMBER", int),
}  # fmt: skip
"""Options of a policy, by name: whatever is given reaches a command as `flags`, by the same names."""

OF_AUDIT = (
    "quasi_identifiers", "sensitive", "k", "t", "n", "l", "l_diversity", "c", *SHARE_OPTIONS, "joint_t",
    "joint_distance", "k_subsets",
    "distance",
)  # fmt: skip
"""Options of a policy that every audit has."""

SHARED = {
    "policy": Option(
        "policy file (TOML), - for stdin; flags replace its options", (), "none", "--policy release.toml",
        "FILE", Path,
    ),
    "database": Option(
        "DuckDB file", (), "in memory", "--database hospital.duckdb", "FILE", Path, None, ("--database", "-d")
    ),
    "form": Option("format of the result", ("text", "json"), "text", "", None, str, "text", ("--format",)),
    "output": Option(
        "a file instead of stdout", (), "stdout", "-o audit.txt", "FILE", Path, None, ("--output", "-o")
    ),
    "effect": Option(
        "show the change of each quasi-identifier: share of records, mean absolute change", kind=bool
    ),
    "dateformat": Option(
        "form of dates in CSV files", (), "as DuckDB finds it", "--dateformat %d/%m/%Y for 31/12/2026",
        "FORMAT",
    ),
    "read": Option(
        "how CSV files are written, in the words of DuckDB: delim, quote, escape, skip, dateformat, nullstr, "
        "decimal_separator", (), "as DuckDB finds it", "--read \"delim=';', decimal_separator=','\"",
        "NAME=VALUE,...",
    ),
    "null": Option(
        "text that means NULL in CSV files; may be repeated", (), "none", "--null NA", "TEXT", list
    ),
    "trust": Option("the .duckdb files are yours: let views in them run", kind=bool),
    "timeout": Option(
        "stop after so many, with exit code 2; not on Windows", (), "none", "--timeout 600", "SECONDS", float
    ),
    "quiet": Option("print errors alone; the exit code says the rest", kind=bool, flags=("--quiet", "-q")),
    "verbose": Option("show the seconds of every step on stderr", kind=bool, flags=("--verbose", "-v")),
    "dry_run": Option("show the plan, write nothing", kind=bool),
    "csv_formulas": Option(
        "texts that a spreadsheet takes for formulas", get_args(Formulas), "keep, with a warning"
    ),
}  # fmt: skip
"""Options that reach a command by their name; read, dateformat and null together as `reading`."""

SOURCES = "file.csv, .parquet or .json, a folder, pattern, address or - for stdin; or file.duckdb:table"
"""Forms of a source, in help texts."""

Table = Annotated[str, typer.Argument(help=SOURCES, autocompletion=of_file)]

FILES = ("read", "dateformat", "null", "trust", "timeout")
"""Options of a command that reads files."""

DOCUMENT = ("form", "output", *FILES)
"""Options of a command that reads files and writes a document."""


Running = Callable[..., int]
"""Type of a command, which returns its exit code."""


def command(*shared: str, examples: tuple[str, str], **own: Option) -> Callable[[Running], Running]:
    """Give a command options by name, those of `own` too, and two examples; return what typer reads.

    The command is called with its arguments and the values of `SHARED` and `own` by name, with the options of
    a policy together as `flags`, and with --read, --dateformat and --null together as `reading`.
    """
    known = {**OF_POLICY, **SHARED, **own}
    options = {name: known[name] for name in dict.fromkeys((*shared, *own, "quiet", "verbose"))}

    def with_options(function: Running) -> Running:
        @functools.wraps(function)
        def called(*places: object, **given: Any) -> int:
            values = {**{name: _unset(option) for name, option in options.items()}, **given}
            for name in values.keys() & options.keys():
                values[name] = _chosen(values[name], options[name].choices)
            timeout, quiet, verbose = (values.pop(name, None) for name in ("timeout", "quiet", "verbose"))
            flags, keys = _worded(values)
            words = functools.partial(in_words, flags=flags, keys=keys)
            with (
                within(timeout), speaking(Voice(bool(quiet), words)),
                progress.shown(sys.stderr, log=bool(verbose)),
            ):  # fmt: skip
                try:
                    return function(*places, **_arguments(values, options))
                except DuckanonError as failure:
                    # What the engine refused is named by the engine.
                    if failure.sql is None and failure.args:
                        failure.args = (words(str(failure.args[0])), *failure.args[1:])
                    raise

        parameters = inspect.signature(function, eval_str=True).parameters.values()
        places = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        more = [option.parameter(name) for name, option in options.items()]
        called.__signature__ = inspect.Signature([*places, *more])  # type: ignore[attr-defined]
        called.__annotations__ = {}
        called.epilog = epilog(*examples)  # type: ignore[attr-defined]
        return called

    return with_options


def _worded(values: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[str]]:
    """Options that messages name as flags, and options that they name as keys of the policy file."""
    named = values.keys() - {"form"}
    if values.get("policy") is None:
        return sorted(named), ()
    given = sorted(name for name in named if name not in OF_POLICY or values[name] is not None)
    return given, sorted(OF_POLICY.keys() - set(given))


def _arguments(values: dict[str, Any], options: Mapping[str, Option]) -> dict[str, Any]:
    """Values of the options as a command takes them; a DuckanonError for an unknown format."""
    if values.get("form") is not None:
        known_form(values["form"], options["form"].choices)
    if values.get("output") == Path("-"):
        values["output"] = None
    if "null" in values:
        values["reading"] = read_reading(*(values.pop(name) for name in ("read", "dateformat", "null")))
    flags = {name: values.pop(name) for name in options if name in OF_POLICY}
    return {**values, "flags": flags} if flags else values


def _chosen(value: Any, choices: Sequence[str]) -> Any:
    """A value, or the choice that it is in capitals, as the words of a policy are read."""
    return value.lower() if isinstance(value, str) and value.lower() in choices else value


def _unset(option: Option) -> object:
    return False if option.kind is bool else option.value
