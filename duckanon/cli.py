"""The command line: demo, run, sql, anonymize, audit, methods.

Exit codes: 0 done and every check passed; 1 an audit found a violation; 2 an error (usage, policy, data,
engine) or Ctrl-C. Errors are one or two lines on stderr.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import duckdb
import typer

from duckanon import engine, files, progress, sqlfiles
from duckanon.auditing import audit_relation
from duckanon.catalog import Target
from duckanon.commands.options import (
    ERROR,
    PASSED,
    VIOLATION,
    Database,
    K,
    L,
    LDiversity,
    Names,
    Number,
    QuasiIdentifiers,
    T,
    Trees,
    Words,
)
from duckanon.connection import connect
from duckanon.demo import run_demo
from duckanon.dispatch import Outcome
from duckanon.errors import (
    AuditFailure,
    DuckanonError,
    DuckanonWarning,
    PolicyError,
    SourceError,
)
from duckanon.explain import explain
from duckanon.export import check_target, export
from duckanon.flags import policy_of_flags, read_flag
from duckanon.frontier import picture as drawn
from duckanon.interrupts import stopping
from duckanon.methods import methods as known_methods
from duckanon.output import complain, line, show
from duckanon.policy import AuditPolicy
from duckanon.report import text_table
from duckanon.stages.candidate import Source
from duckanon.views import create

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_INTERRUPTED = 130
"""What typer makes of Ctrl-C in a command; no command of ours returns it."""

app = typer.Typer(
    name="duckanon",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def duckanon(debug: Annotated[bool, typer.Option(help="show the traceback of an error")] = False) -> None:
    """Anonymize inside DuckDB: k-anonymity, l-diversity and t-closeness, proved by plain SQL."""
    # `main` looks at the flag itself, since an error can happen before this runs.
    del debug


@app.command()
def demo(
    to: Annotated[str | None, typer.Option("--export", help="a new .duckdb file for the release")] = None,
) -> int:
    """Release 299,285 real persons, with k alone and with t-closeness, and audit both."""
    with progress.shown(sys.stderr):
        run_demo(to)
    return PASSED


@app.command()
def run(file: Annotated[Path, typer.Argument(help="SQL script")], database: Database = None) -> int:
    """Run a script; stop at the first error or failed audit."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unread:
        raise SourceError(f"cannot read the script {str(file)!r}: {engine.first_line(unread)}") from unread
    return _run_text(text, database)


@app.command()
def sql(
    text: Annotated[str, typer.Argument(help="one or several statements")],
    database: Database = None,
    picture: Annotated[
        Path | None, typer.Option(help="a new .svg file for the rows of EXPLAIN ... FRONTIER")
    ] = None,
) -> int:
    """Run statements and print their rows."""
    return _run_text(text, database, picture)


@app.command()
def anonymize(
    source: Annotated[str, typer.Argument(metavar="IN", help="file.csv, file.parquet or file.duckdb:table")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="a new .csv, .parquet, or file.duckdb:table")],
    qi: QuasiIdentifiers = None,
    sensitive: Names = None,
    identifiers: Names = None,
    insensitive: Names = None,
    k: K = None,
    t: T = None,
    l: L = None,  # noqa: E741 - l-diversity has this name everywhere
    l_diversity: LDiversity = None,
    c: Number = None,
    distance: Words = None,
    hierarchies: Trees = None,
    method: Annotated[str | None, typer.Option(help="see duckanon methods")] = None,
    recode: Words = None,
    weights: Number = None,
    suppression_limit: Number = None,
    nulls: Annotated[str | None, typer.Option(help="category, suppress or error")] = None,
    effort: Annotated[str | None, typer.Option(help="fast, balanced or best: how much to refine")] = None,
    time_limit: Annotated[float | None, typer.Option(help="seconds; refinement stops then")] = None,
    seed: Annotated[int | None, typer.Option(help="for explicit randomness only")] = None,
    policy: Annotated[Path | None, typer.Option(help="policy file (TOML); flags win over it")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show the plan, write nothing")] = False,
) -> int:
    """Release a file or table as a new file."""
    flags = {name: value for name, value in locals().items() if name not in _NOT_OPTIONS}
    wanted = policy_of_flags({"quasi_identifiers": qi, **flags}, policy)
    path, table = files.split(target)
    if not dry_run:
        check_target(path)
    with progress.shown(sys.stderr), connect() as con, stopping(con.duckdb):
        query = sqlfiles.render("files/query.sql.j2", relation=files.relation(con.duckdb, source))
        if dry_run:
            show(Outcome("plan", explain(con.duckdb, Source(query, "memory", "main"), wanted)))
            return PASSED
        name = Target("memory", "main", table or path.stem)
        create(con.duckdb, query, wanted, name)
        report = export(con.duckdb, name, str(path))
    show(Outcome(f"wrote {path}", None, report))
    return PASSED


@app.command()
def audit(
    source: Annotated[str, typer.Argument(help="file.csv, file.parquet or file.duckdb:table")],
    qi: QuasiIdentifiers = None,
    sensitive: Names = None,
    k: K = None,
    t: T = None,
    l: L = None,  # noqa: E741 - l-diversity has this name everywhere
    l_diversity: LDiversity = None,
    c: Number = None,
    distance: Words = None,
    hierarchies: Trees = None,
    form: Annotated[str, typer.Option("--format", help="text or json")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="a file instead of stdout")] = None,
) -> int:
    """Audit any table or file; exit code 1 when it violates a threshold."""
    if form not in {"text", "json"}:
        raise DuckanonError(f"unknown format {form!r}: use text or json")
    flags = {"quasi_identifiers": qi, "sensitive": sensitive, "k": k, "t": t, "l": l, "distance": distance}
    flags |= {"l_diversity": l_diversity, "c": c, "hierarchies": hierarchies}
    if qi is None:
        raise PolicyError("--qi is missing: name the quasi-identifiers, as in --qi age,zip")
    wanted = AuditPolicy(
        **{name: read_flag(name, value) for name, value in flags.items() if value is not None}
    )
    with progress.shown(sys.stderr), connect() as con, stopping(con.duckdb):
        report = audit_relation(con.duckdb, files.relation(con.duckdb, source), wanted, name=source)
    text = report.to_json() if form == "json" else report.to_text()
    if output is None:
        line(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")
    return VIOLATION if report.violated else PASSED


@app.command()
def methods() -> int:
    """List the partition methods with guarantees, cost and source."""
    rows = [(method.name, method.guarantees, method.cost, method.source) for method in known_methods()]
    line("\n".join(text_table(("method", "guarantees", "cost", "source"), rows)))
    return PASSED


_NOT_OPTIONS = {"source", "target", "qi", "policy", "dry_run"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _warn
    warnings.simplefilter("always", DuckanonWarning)
    try:
        code = app(given, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except AuditFailure as failure:
        complain(failure.report.to_text())
        code = _failed(failure, given, VIOLATION)
    except (DuckanonError, duckdb.Error, typer.TyperException, OSError) as failure:
        code = _failed(failure, given, ERROR)
    if code == _INTERRUPTED:
        complain("interrupted: nothing was released")
        code = ERROR
    sys.exit(code or PASSED)


def _failed(failure: Exception, arguments: Sequence[str], code: int) -> int:
    if "--debug" in arguments and not isinstance(failure, typer.TyperException):
        traceback.print_exception(failure)
        return code
    shown = (
        failure.format_message() if isinstance(failure, typer.TyperException) else engine.described(failure)
    )
    complain(f"error: {shown}")
    return code


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    del category, filename, lineno, file, line
    complain(f"warning: {message}")


def _run_text(text: str, database: Path | None, picture: Path | None = None) -> int:
    done = 0
    if picture is not None and picture.exists():
        raise SourceError(f"{str(picture)!r} exists: a picture never overwrites, give a new name")
    try:
        with progress.shown(sys.stderr), connect(database or ":memory:") as con, stopping(con.duckdb):
            for outcome in con.outcomes(text):
                show(outcome)
                if isinstance(outcome, Outcome) and outcome.violated:
                    complain(f"error: {outcome.title}: the audit found a violation; the rest was not run")
                    return VIOLATION
                if picture is not None and (rows := _frontier_rows(outcome)) is not None:
                    picture.write_text(drawn(rows), encoding="utf-8")
                    picture = None
                done += 1
    except KeyboardInterrupt:
        if not done:
            raise
        complain(f"interrupted in statement {done + 1}: it released nothing; those before it have run")
        return ERROR
    if picture is not None:
        raise SourceError("--picture draws the rows of EXPLAIN ... FRONTIER, and no such statement was run")
    return PASSED


def _frontier_rows(outcome: object) -> pa.Table | None:
    return outcome.table if isinstance(outcome, Outcome) and outcome.title == "frontier" else None
