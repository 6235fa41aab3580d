"""The command ``anonymize``: file to file."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon import progress
from duckanon.api import files
from duckanon.api.execute import Outcome
from duckanon.cli.codes import PASSED
from duckanon.cli.flags import policy_of_flags
from duckanon.cli.options import (
    DateFormat,
    K,
    L,
    LDiversity,
    Names,
    Nulls,
    Number,
    Numbers,
    PolicyFile,
    QuasiIdentifiers,
    ShowEffect,
    T,
    Trees,
    Trust,
    Words,
    reading_of,
    timed,
)
from duckanon.cli.outcomes import show
from duckanon.database import paths, templates
from duckanon.database.csv_files import Csv, written
from duckanon.database.interrupts import interruptible
from duckanon.database.relations import Target
from duckanon.errors import PolicyError
from duckanon.policy.checks import checked
from duckanon.policy.names import fold
from duckanon.policy.policy import hierarchy_names
from duckanon.release.explain import explain
from duckanon.release.export import check_target, export, files_of
from duckanon.release.source import Source
from duckanon.release.views import create

if TYPE_CHECKING:
    import duckdb

    from duckanon.database.csv_files import Rewritten
    from duckanon.policy.policy import Policy

_NOT_OPTIONS = {
    "source",
    "target",
    "qi",
    "policy",
    "dry_run",
    "effect",
    "csv_formulas",
    "dateformat",
    "null",
    "trust",
}


@timed
def anonymize(
    source: Annotated[str, typer.Argument(metavar="IN", help="file.csv, file.parquet or file.duckdb:table")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="a new .csv, .parquet, or file.duckdb:table")],
    qi: QuasiIdentifiers = None,
    sensitive: Names = None,
    identifiers: Names = None,
    insensitive: Names = None,
    subject: Names = None,
    p_percent: Number = None,
    min_values: Annotated[int | None, typer.Option(help="values of a class that a mean is of; k")] = None,
    digits: Numbers = None,
    k: K = None,
    t: T = None,
    l: L = None,  # noqa: E741 - l-diversity has this name everywhere
    l_diversity: LDiversity = None,
    c: Number = None,
    distance: Words = None,
    hierarchies: Trees = None,
    method: Annotated[str | None, typer.Option(help="see duckanon methods")] = None,
    objective: Annotated[str | None, typer.Option(help="what full_domain makes smallest")] = None,
    recode: Words = None,
    weights: Numbers = None,
    release: Annotated[
        str | None, typer.Option(help="table, anatomy (two tables) or swap (values dealt anew)")
    ] = None,
    suppression_limit: Number = None,
    nulls: Annotated[str | None, typer.Option(help="category, suppress or error")] = None,
    effort: Annotated[str | None, typer.Option(help="fast, balanced or best: how much to refine")] = None,
    time_limit: Annotated[float | None, typer.Option(help="seconds; refinement stops then")] = None,
    seed: Annotated[int | None, typer.Option(help="for explicit randomness only")] = None,
    policy: PolicyFile = None,
    csv_formulas: Annotated[
        str | None, typer.Option(help="keep, or escape texts that a spreadsheet takes for formulas")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show the plan, write nothing")] = False,
    effect: ShowEffect = False,
    dateformat: DateFormat = None,
    null: Nulls = None,
    trust: Trust = False,
) -> int:
    """Release a file or table as a new file."""
    flags = {name: value for name, value in locals().items() if name not in _NOT_OPTIONS}
    release_policy = policy_of_flags({"quasi_identifiers": qi, **flags}, policy)
    path, table = paths.split(target)
    if not dry_run:
        check_target(path, release_policy.release)
    formulas = {} if csv_formulas is None else {"csv_formulas": checked("csv_formulas", csv_formulas)}
    trees = hierarchy_names(release_policy)
    opened = files.opened(source, *trees, folders=[path.parent], trust=trust)
    with progress.shown(sys.stderr), opened as con:
        read = files.source(
            con, source, typed=_typed(release_policy), trust=trust, reading=reading_of(dateformat, null)
        )
        _check_unnamed(read, release_policy)
        texts = _written(con, read, release_policy) if path.suffix.lower() == ".csv" else {}
        rows = read.relation if isinstance(read, Csv) else read
        query = templates.render("relation.sql.j2:rows", relation=rows)
        files.check_hierarchies(con, trees, trust=trust)
        if dry_run:
            show(Outcome("plan", explain(con, Source(query, "memory", "main"), release_policy)))
            return PASSED
        name = Target("memory", "main", table or path.stem)
        # Interruptible separately: the view in memory is not yet the file that the user asked for.
        proof = path.suffix.lower() == ".duckdb"
        made = interruptible(create)(con, query, release_policy, name, effect=effect, only=True, proof=proof)
        report = interruptible(export)(con, name, str(path), written=texts, just_made=True, **formulas)
    # The audit is of the file. Measures that its rows do not show are taken from CREATE.
    known = {measure.measure for measure in report.measures}
    beside = tuple(measure for measure in made.report.measures if measure.measure not in known)
    full = replace(report, measures=report.measures + beside, plan=made.report.plan)
    written = " and ".join(str(file) for file in files_of(path, release_policy.release))
    show(Outcome(f"wrote {written}", None, full, effect=made.effect))
    return PASSED


def _typed(policy: Policy) -> tuple[str, ...]:
    """Columns that need their natural type, since they are recoded, measured or counted."""
    return (*policy.quasi_identifiers, *policy.sensitive, *policy.subject)


def _written(con: duckdb.DuckDBPyConnection, read: Csv | str, policy: Policy) -> dict[str, Rewritten]:
    """Form in the source CSV of the values of columns that are not recoded."""
    if not isinstance(read, Csv):
        return {}
    recoded = {fold(name) for name in policy.quasi_identifiers if policy.release == "table"}
    return written(con, read, [name for name in read.rewritten if fold(name) not in recoded])


def _check_unnamed(read: Csv | str, policy: Policy) -> None:
    """Raise if `insensitive = *` would release a column without a name, which is usually a record number."""
    named = {fold(name) for name in (*_typed(policy), *policy.identifiers)}
    left = [name for name in (read.unnamed if isinstance(read, Csv) else ()) if fold(name) not in named]
    if left and policy.insensitive == "*":
        raise PolicyError(
            f"--insensitive '*' would release {left[0]!r}, which has no name in the file: give it a role, as "
            f"--identifiers {left[0]} to drop it"
        )
